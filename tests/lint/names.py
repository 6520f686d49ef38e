"""Names and text: no identifier of ours contains two underscores in a row (C++ reserves them, and
headers are read by .cu files); no tracked file names a path of one machine; nothing is left to-do."""

import re

import tree

FOREIGN = re.compile(
    r"__(attribute|extension|int128|func|FILE|LINE|VA_ARGS|VA_OPT|builtin_\w+|has_\w+|cplusplus|"
    r"BYTE_ORDER|ORDER_\w+|SANITIZE_\w+|GNUC\w*|clang|linux|restrict|typeof|asm|volatile|alignof|"
    r"global|device|host|shared|constant|launch_bounds|align|forceinline|noinline|syncthreads\w*|"
    r"syncwarp|ballot_sync|dp4a|stcs|ldcs|ldcg|ldca|vcmpeq\w*|shfl_\w+|popc\w*|clz\w*|ffs\w*|ldg|threadfence\w*|activemask|any_sync|"
    r"all_sync|match_\w+|reduce_\w+|brev\w*|CUDA\w+|CUDACC|NVCC|umulhi|umul64hi|d(mul|add)_rn|funnelshift\w*|grid_constant|"
    r"libc_(malloc|calloc|realloc|start_main)|x86_64|aarch64|SSE\w*|AVX\w*|BMI\w*|m128i|m256i|m512i|cpuid\w*|atomic_\w+|sync_\w+)(__)?\Z")
WRAPPED = re.compile(r"__(wrap|real)_\w+\Z")
LOCAL = re.compile(r"(?<![\w.~-])/(%s)/" % "|".join(("work", "root", "home/" + r"\w+")))


def identifier_problems(path, text):
    test = path.startswith("tests/")
    for number, line in enumerate(tree.strip_comments(text).split("\n"), 1):
        for name in re.findall(r"[A-Za-z_]\w*__\w*|__\w+", line):
            if FOREIGN.match(name) or (test and WRAPPED.match(name)) or name.startswith("__gcov"):
                continue
            if name in ("__asan_default_options", "__ubsan_default_options",
                        "__tsan_default_options", "__lsan_default_suppressions"):
                continue
            yield "%s:%d: identifier %s contains __" % (path, number, name)


def main():
    assert list(identifier_problems("engine/x.c", "int hspz__x;"))
    assert not list(identifier_problems("engine/x.c", "/* a__b */ __attribute__((cold)) int x;"))
    problems = []
    sources = tree.files(*tree.SOURCE_DIRS, "tests", suffixes=tree.C_SUFFIXES)
    for path in sources:
        problems += identifier_problems(path, tree.read(path))
    for path in tree.tracked() or []:
        for number, line in enumerate(tree.read(path).split("\n"), 1):
            if LOCAL.search(line):
                problems.append("%s:%d: names a path of one machine" % (path, number))
            if path.endswith(tree.C_SUFFIXES) and re.search(r"\b(TODO|FIXME|XXX)\b|#if 0\b", line):
                problems.append("%s:%d: unfinished or dead code" % (path, number))
    tree.finish(problems, len(sources), "files")


main()
