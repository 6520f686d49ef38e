"""Layers: which directory may include what (README, "Map of the tree").

protocol is the bottom; engine knows protocol/types.h, status.h and limits.h; daemon and client join
both. A library belongs to the one place that hides it from the rest."""

import os
import re

import tree

OWN = {
    "protocol": lambda inc: inc.startswith("protocol/"),
    "engine": lambda inc: inc.startswith("engine/") or inc in (
        "protocol/types.h", "protocol/status.h", "protocol/limits.h"),
    "daemon": lambda inc: inc.startswith(("protocol/", "engine/", "daemon/")),
    "client": lambda inc: inc.startswith(("protocol/", "engine/", "client/")),
}
LIBRARIES = (
    (r"uv\.h|uv/.*", lambda path: path.startswith("daemon/"), "uv.h belongs to daemon/"),
    (r"msgpack(\.h|/.*)", lambda path: re.fullmatch(r"protocol/[^/]+\.c", path),
     "msgpack.h belongs to protocol/*.c"),
    (r"cuda.*|nv.*|cub/.*|thrust/.*|cooperative_groups.*",
     lambda path: path.startswith("engine/cuda/"), "CUDA belongs to engine/cuda/"),
    (r"jansson\.h", lambda path: re.fullmatch(r"daemon/(config\w*\.[ch]|stats\w*\.c)", path),
     "jansson belongs to daemon/config*.[ch] and stats.c"),
    (r"microhttpd\.h", lambda path: path == "daemon/http.c", "microhttpd.h belongs to daemon/http.c"),
    (r"openssl/.*", lambda path: re.fullmatch(r"(daemon|client)/tls\.c", path),
     "OpenSSL belongs to daemon/tls.c and client/tls.c"),
    (r"cairo.*", lambda path: path == "client/canvas.c", "cairo belongs to client/canvas.c"),
    (r"systemd/.*", lambda path: path.startswith("daemon/"), "libsystemd belongs to daemon/"),
)


def problems_of(path, text):
    top = path.split("/")[0]
    for number, line in enumerate(tree.strip_comments(text, strings=False).split("\n"), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        quote, inc = match.groups()
        place = "%s:%d: " % (path, number)
        for pattern, allowed, rule in LIBRARIES:
            if re.fullmatch(pattern, inc) and quote == "<" and not allowed(path):
                yield place + rule
        if quote == '"' and not OWN[top](inc):
            yield place + "%s/ may not include %s" % (top, inc)
        if quote == '"' and not os.path.exists(os.path.join(tree.ROOT, inc)):
            yield place + "%s is named from the root of the tree, and is not there" % inc


def main():
    # The lint itself must see what it forbids.
    assert list(problems_of("engine/x.c", '#include <uv.h>\n#include "daemon/x.h"\n'))
    assert not list(problems_of("engine/x.c", '// #include <uv.h>\n#include "protocol/types.h"\n'))
    problems = []
    paths = tree.files(*tree.SOURCE_DIRS, suffixes=tree.C_SUFFIXES)
    for path in paths:
        problems += problems_of(path, tree.read(path))
        if path.endswith((".h", ".cuh")) and "#pragma once" not in tree.read(path):
            problems.append("%s: no #pragma once" % path)
    tree.finish(problems, len(paths), "files")


main()
