"""Peak memory of an index build against its bound, 1.3 x (table + positions) + input.

    tests/bench/build_memory.py [SEQUENCE_FILE]

Without a file: 40 million random bases. HSPZ_BUILD names the build folder."""

import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import hspz_test  # noqa: E402

# In a process of its own: a child's peak begins at what its parent held when it was started.
MAKE = ("import random, sys; rng = random.Random(1); print('>r'); "
        "[print(''.join(rng.choices('ACGT', k=1000))) for _ in range(40000)]")


def main():
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "r.fa")
        if len(sys.argv) > 1:
            source = sys.argv[1]
        else:
            with open(source, "wb") as file:
                subprocess.run([sys.executable, "-c", MAKE], stdout=file, check=True)
        begin = time.perf_counter()
        process = subprocess.Popen([hspz_test.CLIENT, "index", "build", source, "-o",
                                    os.path.join(folder, "r.hspz")])
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        if status:
            raise SystemExit("index build failed")
        peak = usage.ru_maxrss / 1024
        bases = sum(len(seq) for _, seq in hspz_test.read_fasta(source))
        tables = (4 * 4 ** 12 + 4 * bases) / 2 ** 20
        bound = 1.3 * tables + bases / 2 ** 20
        print("%d bases: peak %.0f MiB, bound %.0f MiB (tables %.0f MiB), %.2f s" % (
            bases, peak, bound, tables, seconds))
        if peak > bound:
            raise SystemExit(1)


main()
