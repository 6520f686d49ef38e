"""The Python package's types, as mypy --strict sees them. Skipped where there is no mypy."""

import os
import shutil
import subprocess
import sys
import tempfile

import tree

program = shutil.which("mypy", path="/usr/bin") or shutil.which("mypy")
if program is None:
    print("no mypy")
    sys.exit(77)
folder = os.path.join(tree.ROOT, "client", "python")


def mypy(*args):
    """(problems, everything it says); its cache leaves nothing in the tree."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run([program, "--strict", "--no-error-summary", "--cache-dir", cache,
                               "--config-file", os.path.join(folder, "pyproject.toml"), *args],
                              cwd=folder, capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if ": error:" in line], done


# What is checked is what a caller sees: a wrong use must be an error.
paths = [p for p in tree.files("client/python", suffixes=(".py",))
         if p.startswith("client/python/hspz/")]
with tempfile.TemporaryDirectory() as scratch:
    wrong = os.path.join(scratch, "wrong.py")
    with open(wrong, "w", encoding="utf-8") as file:
        file.write("import hspz\nfor part in hspz.connect(7).discover('x', b'A'):\n"
                   "    part.score\n    part.reference + 1\n")
    problems, done = mypy("hspz", wrong)
expected = [p for p in problems if p.startswith(os.path.relpath(wrong, folder)) or "wrong.py" in p]
problems = [p for p in problems if p not in expected]
if done.returncode not in (0, 1):
    problems.append(done.stdout + done.stderr)
elif [line.split(":")[1] for line in expected] != ["2", "3"]:
    problems.append("mypy does not see the wrong calls: %s" % (done.stdout + done.stderr))
tree.finish(problems, len(paths), "files")
