"""Which tests of a Python file are left for a build without a sanitizer, when another build runs the file under
one: those that a sanitizer makes smaller or leaves out. They say so themselves, by naming SANITIZED and the like."""

import ast
import functools
import os
import re
import sys
import unittest

# What a build without a sanitizer alone has, beside what a sanitizer changes: the CUDA engine.
NAMED = re.compile(r"SANITIZED|ASAN_OPTIONS|b_sanitize|(?i:cuda)")
# Not the engine under test, which is one and the same.
ENGINE = re.compile(r"\bENGINE [!=]= .cuda.")
SUPPORT = ("hspz_test", "reports", "rest")
# What tests/verdict.py looks for.
MARK = "left to the build with a sanitizer: "


def _names(node):
    return bool(NAMED.search(ENGINE.sub("", ast.unparse(node))))


def _imported(nodes, folder):
    """Paths of our own files that a file takes things from."""
    for node in nodes:
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
        for name in names:
            path = os.path.join(folder, "%s.py" % name)
            if name not in SUPPORT and os.path.exists(path):
                yield path


@functools.lru_cache(maxsize=None)
def differing(path):
    """(class, test) of a file's tests that name what a sanitizer changes, or whose class does outside of its tests;
    None for all, since the file does outside of its tests' classes, or a file of ours that it imports."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    if not os.path.basename(path).startswith("test_"):
        return None if _names(tree) else set()
    body = tree.body
    imports = [n for n in body if isinstance(n, (ast.Import, ast.ImportFrom))]
    if None in map(differing, _imported(imports, os.path.dirname(os.path.abspath(path)))):
        return None
    found = set()
    for node in body:
        if isinstance(node, ast.ClassDef):
            tests = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test")]
            node.body = [n for n in node.body if n not in tests] or [ast.Pass()]
            whole = _names(node)
            found.update((node.name, t.name) for t in tests if whole or _names(t))
            if whole:
                found.add((node.name, None))  # also of what a class inherits
        elif node not in imports and not isinstance(node, ast.Expr) and _names(node):
            return None
    return found


def differs(cls, name):
    """Whether a test does less, or another thing, under a sanitizer."""
    for base in cls.__mro__:
        module = sys.modules[base.__module__]
        if base.__module__ in SUPPORT or base.__module__ == "unittest.case" or base is object:
            continue
        found = differing(module.__file__)
        if found is None or (base.__name__, name) in found or (base.__name__, None) in found:
            return True
    return False


class Loader(unittest.TestLoader):
    """Finds such tests alone, and keeps the names of the others."""

    def __init__(self):
        super().__init__()
        self.left = []

    def getTestCaseNames(self, testCaseClass):
        names = super().getTestCaseNames(testCaseClass)
        kept = [n for n in names if differs(testCaseClass, n)]
        self.left += ["%s.%s" % (testCaseClass.__name__, n) for n in names if n not in kept]
        return kept
