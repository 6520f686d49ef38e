"""Calls that the product does without, each for a reason that somebody paid for."""

import re

import tree

PROGRAMS = r"(daemon|client)/main\.c"
FORBIDDEN = [
    # (call, files that may, why)
    (r"fork|vfork|daemon|system|popen", None, "a process that used CUDA must not fork"),
    (r"cudaLaunchHostFunc|cudaStreamAddCallback|cuLaunchHostFunc", None,
     "CUDA may not be called from such a callback: results go through the worker's queue"),
    (r"cudaDeviceReset", None, "the context is lost for everybody"),
    (r"exit|_exit|quick_exit|_Exit", PROGRAMS, "only main.c ends the program"),
    (r"abort", r"protocol/status\.c", "only HSPZ_REQUIRE ends the program at once"),
    (r"assert|static_assert\.h", None, "gone in release builds; use HSPZ_REQUIRE or a status"),
    (r"setlocale|uselocale", None, "numbers are written the same in every locale"),
    (r"atoi|atol|atoll|atof|sscanf|scanf", None,
     "numbers are taken whole or refused"),
    (r"sprintf|vsprintf|strcat|gets|alloca|strtok|rand|tmpnam|mktemp", None, "unsafe"),
    (r"signal", PROGRAMS + r"|daemon/daemon\.c", "a library leaves signals alone"),
]
LIBRARIES_ARE_SILENT = r"(protocol|engine)/.*|client/(client|channel|call|control|discover|filters|" \
                       r"filter_keys|job|order|shared|socket|address|number)\.c"


def problems_of(path, text):
    for number, line in enumerate(tree.strip_comments(text).split("\n"), 1):
        place = "%s:%d: " % (path, number)
        for call, allowed, why in FORBIDDEN:
            match = re.search(r"(?<![\w.>])(%s)\s*\(" % call, line)
            if match and not (allowed and re.fullmatch(allowed, path)):
                yield place + "%s(): %s" % (match.group(1), why)
        match = re.search(r"(?<![\w.>])(printf|puts|putchar|perror)\s*\(|\bstderr\b|\bstdout\b", line)
        if match and re.fullmatch(LIBRARIES_ARE_SILENT, path) and path != "protocol/status.c":
            yield place + "%s: a library prints nothing" % match.group(0)


def main():
    # The lint itself must see what it forbids.
    assert len(list(problems_of("engine/x.c", "    exit(1);\n  x = fork ();\nprintf(\"a\");\n"))) == 3
    assert not list(problems_of("engine/x.c", "// exit(1)\nhspz_exit(1); a->exit(2);\n"))
    problems = []
    paths = tree.files(*tree.SOURCE_DIRS, suffixes=tree.C_SUFFIXES)
    for path in paths:
        problems += problems_of(path, tree.read(path))
    tree.finish(problems, len(paths), "files")


main()
