"""No mutable variables of file scope in the libraries: what the linker would put in .data or .bss."""

import os
import re
import subprocess
import sys

import tree

BUILD = os.environ["HSPZ_BUILD"]
IGNORED = re.compile(r"__(asan|ubsan|tsan|odr|sanitizer|gcov|llvm)|\.(L|str)")


def variables(path):
    listing = subprocess.run(["objdump", "-t", path], capture_output=True, text=True, check=True)
    for line in listing.stdout.split("\n"):
        match = re.match(r"\S+ .{7} (\S+)\s+([0-9a-f]+)\s+(\S+)$", line)
        if match and int(match.group(2), 16) and re.match(r"\.(data|bss|tdata|tbss)|\*COM\*",
                                                          match.group(1)):
            if not match.group(1).startswith(".data.rel.ro"):
                yield match.group(3)


options = subprocess.run(["meson", "introspect", BUILD, "--buildoptions"], capture_output=True,
                         text=True).stdout
if re.search(r'"name": "b_sanitize", "value": "(?!none)', options):
    print("a sanitizer adds variables of its own")
    sys.exit(77)
problems = []
objects = 0
for top in tree.SOURCE_DIRS:
    for folder, _, names in os.walk(os.path.join(BUILD, top)):
        for name in names:
            # main.c owns the one struct of the program.
            if name.endswith(".c.o") and not re.search(r"(^|_)main\.c\.o$", name):
                objects += 1
                for variable in variables(os.path.join(folder, name)):
                    if not IGNORED.match(variable):
                        problems.append("%s/%s: variable %s can change" % (top, name, variable))
tree.finish(problems, objects, "objects")
