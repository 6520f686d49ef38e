"""Every test and every source file is named in a meson.build, so that none can be forgotten.

With --tests only tests are looked at; so it runs when the build is configured."""

import os
import re
import sys

import tree


def listed(path):
    """True when the meson.build of its folder, or of a folder above, names the file."""
    folder, name = os.path.split(path)
    stem = os.path.splitext(name)[0]
    while True:
        build = os.path.join(folder, "meson.build")
        if os.path.exists(os.path.join(tree.ROOT, build)):
            below = os.path.relpath(path, folder or ".")
            text = re.sub(r"#[^\n]*", "", tree.read(build))
            if re.search(r"(?<![\w.])%s(?![\w.])" % re.escape(name), text) or below in text:
                return True
            # Lists of bare names: tests/fuzz, tests/system, tests/lint.
            if path.startswith("tests/") and re.search(r"'%s'" % re.escape(stem), text):
                return True
        if not folder:
            return False
        folder = os.path.dirname(folder)


def main():
    tests = [p for p in tree.files("tests", suffixes=(".c", ".py"))
             if not p.endswith("/hspz_test.py") and re.search(r"_test\.(c|py)$|/test_[^/]*\.py$|^tests/lint/(?!tree\.py)[^/]*\.py$"
                          r"|^tests/fuzz/[^/]*\.c$|^tests/support/[^/]*\.c$", p)]
    problems = ["%s: no meson.build names it" % p for p in tests if not listed(p)]
    for path in tests:
        if path.startswith("tests/fuzz/") and not path.endswith("/main.c"):
            corpus = os.path.join(tree.ROOT, path[:-2] + ".in")
            if not os.path.isdir(corpus) or not os.listdir(corpus):
                problems.append("%s: no corpus in %s.in" % (path, path[:-2]))
    checked = len(tests)
    if "--tests" not in sys.argv:
        sources = tree.files(*tree.SOURCE_DIRS, suffixes=(".c", ".cu"))
        problems += ["%s: no meson.build names it" % p for p in sources if not listed(p)]
        checked += len(sources)
    tree.finish(problems, checked, "files")


main()
