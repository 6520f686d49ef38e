"""What the lints share: the tree's files and a report that fails."""

import os
import re
import subprocess
import sys

ROOT = os.environ.get("HSPZ_SOURCE") or os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCE_DIRS = ("protocol", "engine", "daemon", "client")
C_SUFFIXES = (".c", ".h", ".cu", ".cuh")


def files(*dirs, suffixes=None):
    """Paths of files under `dirs`, relative to the root, sorted; build folders are not looked into."""
    found = []
    for top in dirs:
        for folder, subdirs, names in os.walk(os.path.join(ROOT, top)):
            subdirs[:] = [d for d in subdirs if d != "__pycache__" and not d.startswith("build")]
            for name in names:
                if suffixes is None or name.endswith(tuple(suffixes)):
                    found.append(os.path.relpath(os.path.join(folder, name), ROOT))
    return sorted(found)


def tracked():
    """What git tracks, or None outside a git checkout."""
    done = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True)
    if done.returncode != 0:
        return None
    return [p for p in done.stdout.split("\0") if p and os.path.isfile(os.path.join(ROOT, p))]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def strip_comments(text, strings=True):
    """C text without comments (and without what stands in quotes); line numbers are kept."""
    def blank(match):
        token = match.group(0)
        if token.startswith("/"):
            return re.sub(r"[^\n]", " ", token)
        return token[0] + token[-1] if strings else token
    return re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", blank, text,
                  flags=re.S)


def finish(problems, checked, what):
    for problem in problems:
        print(problem)
    if not checked:
        print("nothing to check: the lint looked at no %s" % what)
        sys.exit(1)
    print("%d %s checked, %d problems" % (checked, what, len(problems)))
    sys.exit(1 if problems else 0)
