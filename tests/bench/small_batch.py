"""Round trip of a batch of 1,000 seeds over the UNIX socket, against a loaded index; medians.

    tests/bench/small_batch.py [ROUNDS]

HSPZ_BUILD names the build folder. Beside discover it times `health`, the floor of any request."""

import os
import random
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import hspz_test  # noqa: E402


def median_ms(times):
    return sorted(times)[len(times) // 2] * 1000


def timed(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        text = hspz_test.bases(rng, 1000000)
        source = hspz_test.write(os.path.join(folder, "r.fa"), hspz_test.fasta([("r", text)]))
        index = hspz_test.build_index(source, os.path.join(folder, "r.hspz"))
        daemon = hspz_test.Daemon(folder, indexes={"r": index})
        try:
            seeds = list(hspz_test.seeds_of(text[5000:6018], hspz_test.SHAPE_12OF19))[:1000]
            packed = hspz_test.pack_seeds(seeds)
            with daemon.peer() as peer:
                result, data, _ = peer.discover("r", seeds=packed)
                if result["anchors"] < 1000:
                    raise SystemExit("only %d anchors" % result["anchors"])
                for _ in range(100):
                    peer.discover("r", seeds=packed)
                discover = [timed(lambda: peer.discover("r", seeds=packed)) for _ in range(rounds)]
                health = [timed(lambda: peer.call("health")) for _ in range(rounds)]
            print("1,000 seeds, %d anchors: median %.3f ms, 99 %% %.3f ms; health: median %.3f ms" % (
                len(data) // 8, median_ms(discover),
                sorted(discover)[int(rounds * 0.99)] * 1000, median_ms(health)))
        finally:
            daemon.stop()


main()
