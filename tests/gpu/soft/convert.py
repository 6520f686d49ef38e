"""A kernel file as C++ for the software card: convert.py IN.cu OUT.cpp"""

import re
import sys

LAUNCH = r"(\w+(?:<[^<>;]*>)?)\s*<<<(.*?),\s*(\w+),\s*\w+,\s*stream>>>\((.*?)\);"

SHARED = r"extern __shared__ (\w+) (\w+)\[\];"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"#include <(cub/.*|cooperative_groups\.h)>\n", "", text)
    text = re.sub(LAUNCH, r"soft_launch(\2, \3, stream, [&] { \1(\4); });", text, flags=re.S)
    text = re.sub(SHARED, r"static thread_local \1 \2[(256 << 10) / sizeof(\1)];", text)
    if "<<<" in text:
        sys.exit("%s: a launch of another form" % sys.argv[1])
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write('#include "card.hpp"\n#line 1 "%s"\n%s' % (sys.argv[1], text))


main()
