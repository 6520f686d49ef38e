"""Reports of sanitizers, whichever program of a test makes them: one that a test kills, or whose standard
error nobody reads, fails the test too. Importing this is enough."""

import atexit
import glob
import os
import shutil
import sys
import tempfile

FOLDER = tempfile.mkdtemp(prefix="hspz-reports-")
os.chmod(FOLDER, 0o1777)  # a program may run as another user
OWNER = os.getpid()
for _name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
    os.environ[_name] = ":".join(filter(None, (os.environ.get(_name),
                                               "log_path=" + os.path.join(FOLDER, "report"))))


def tell():
    """Prints what was reported; warnings of memory that a test meant to be refused are none."""
    if os.getpid() != OWNER:
        return  # a fork of the test
    found = False
    for path in sorted(glob.glob(os.path.join(FOLDER, "report.*"))):
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        if "ERROR: " in text or "SUMMARY: " in text or "runtime error: " in text:
            print("\n%s:\n%s" % (os.path.basename(path), text), file=sys.stderr)
            found = True
    shutil.rmtree(FOLDER, True)
    if found:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


atexit.register(tell)
