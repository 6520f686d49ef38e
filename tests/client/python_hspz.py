"""Finds the tree's Python package, and the pieces of it that tests look into."""

import os
import sys

SOURCE = os.environ.get("HSPZ_SOURCE") or os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGE = os.path.join(SOURCE, "client", "python")
sys.path.insert(0, PACKAGE)
sys.dont_write_bytecode = True

try:
    import hspz  # noqa: E402,F401
    import hspz.channel  # noqa: E402,F401
    import hspz.client  # noqa: E402,F401
    import hspz.wire  # noqa: E402,F401
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] == "hspz":
        raise
    print("skipped: no %s" % error.name)
    sys.exit(77)
