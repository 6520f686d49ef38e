"""Every C file is as clang-format leaves it. Skipped where there is no clang-format 14 or later."""

import os
import re
import shutil
import subprocess
import sys

import tree

program = shutil.which("clang-format-14") or shutil.which("clang-format")
if program is None:
    print("no clang-format")
    sys.exit(77)
version = re.search(r"version (\d+)", subprocess.run(
    [program, "--version"], capture_output=True, text=True).stdout)
# Later releases break a few lines in other places.
if version is None or version.group(1) != "14":
    print("clang-format is not version 14")
    sys.exit(77)
paths = tree.files(*tree.SOURCE_DIRS, "tests", suffixes=tree.C_SUFFIXES)
done = subprocess.run([program, "--dry-run", "-Werror"] + [os.path.join(tree.ROOT, p) for p in paths],
                      cwd=tree.ROOT, capture_output=True, text=True)
tree.finish([line for line in done.stderr.split("\n") if "error:" in line], len(paths), "files")
