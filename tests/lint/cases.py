"""The table in tests/README.md has a row for every entry of the case list, and the tests it names
exist."""

import os
import re

import tree

ROW = re.compile(r"^\| ([A-E]\d\d) \| (.+?) \|$", re.M)


def named_tests(cell):
    """`path` or `path:test` in backquotes."""
    for path, _, test in re.findall(r"`(tests/[\w./-]+?)(:(\w+))?`", cell):
        yield path, test


def main():
    problems = []
    rows = ROW.findall(tree.read("tests/README.md"))
    seen = [entry for entry, _ in rows]
    problems += ["tests/README.md: two rows for %s" % e for e in set(seen) if seen.count(e) > 1]
    for entry, cell in rows:
        tests = list(named_tests(cell))
        if not tests and not re.search(r"needs a GPU|with the filters|with the unit", cell):
            problems.append("tests/README.md: %s names neither a test nor why there is none" % entry)
        for path, test in tests:
            if not os.path.exists(os.path.join(tree.ROOT, path)):
                problems.append("tests/README.md: %s: no file %s" % (entry, path))
            elif test and not re.search(r"\b%s\b" % test, tree.read(path)):
                problems.append("tests/README.md: %s: %s has no %s" % (entry, path, test))
    shared = os.environ.get("HSPZ_SHARED") or os.path.join(tree.ROOT, "..", "shared")
    cases = os.path.join(shared, "CASES.md")
    if os.path.exists(cases):
        with open(cases, encoding="utf-8") as file:
            entries = re.findall(r"^\*\*([A-E]\d\d) ", file.read(), re.M)
        problems += ["tests/README.md: no row for %s" % e for e in entries if e not in seen]
        if not entries:
            problems.append("no entries found in the case list")
    elif "shared" in os.environ.get("HSPZ_REQUIRE", ""):
        problems.append("HSPZ_REQUIRE names shared, but %s is absent" % cases)
    tree.finish(problems, len(rows), "rows")


main()
