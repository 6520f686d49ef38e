"""Discovery of small inputs and of the apple and orange sequences against LASTZ."""

import os
import random
from collections import Counter

import hspz_test
from hspz_test import SHAPE_12OF19, SHAPE_14OF22, bases, fasta
from lastz import lastz_hits


class LastzTest(hspz_test.TestCase):
    def compare_small(self, seed, daemon):
        rng = random.Random(seed)
        shape = rng.choice((SHAPE_12OF19, SHAPE_14OF22, "1111", "110101", "11101", "11111111",
                            "1110100110101", "1101100011110111001"))
        step = 1 + seed % 7
        transitions, unmask = rng.random() < 0.5, rng.random() < 0.5
        core = bases(rng, 600)

        def records():
            made = []
            for number in range(rng.randint(2, 6)):
                kind = rng.random()
                if kind < 0.15:
                    seq = ""
                elif kind < 0.3:
                    seq = bases(rng, rng.randint(1, 21))
                else:
                    at = rng.randint(0, 400)
                    seq = core[at:at + rng.randint(20, 200)]
                    if rng.random() < 0.5:
                        seq = hspz_test.reverse_complement(seq)
                    at = rng.randint(0, len(seq))
                    if rng.random() < 0.5:
                        seq = seq[:at] + seq[at:at + 30].lower() + seq[at + 30:]
                    if rng.random() < 0.5:
                        seq = seq[:at] + "N" * rng.randint(1, 10) + seq[at:]
                made.append(("s%d" % number, seq))
            return made + [("core", core[:100])]

        what = "seed %d: %s, step %d, transitions %s, unmask %s" % (seed, shape, step, transitions,
                                                                   unmask)
        with self.subTest(what):
            ref = self.file("r%d.fa" % seed, fasta(records()))
            query = self.file("q%d.fa" % seed, fasta(records()))
            options = ["--seed", shape, "--step", step, "--all-positions"]
            index = hspz_test.build_index(ref, self.path("r%d.hspz" % seed),
                                          *options + (["--unmask"] if unmask else []))
            name = "small%d" % seed
            daemon.client("index", "load", name, index, check=0)
            printed = daemon.client("discover", name, query,
                                    *(["--unmask"] if unmask else []),
                                    *([] if transitions else ["--no-transitions"]), check=0)
            daemon.client("index", "unload", name, check=0)
            head, *lines = printed.stdout.splitlines()
            self.assertTrue(head.startswith("#"), head)
            want = lastz_hits(ref, query, shape, transitions, step, unmask)
            self.assertEqual(Counter(lines), want)
            return sum(want.values())

    def test_small_inputs_give_what_lastz_gives(self):
        daemon = self.daemon()
        hits = [self.compare_small(seed, daemon) or 0 for seed in range(42)]
        self.assertGreater(sum(hits), 10000)
        self.assertGreater(sum(1 for h in hits if h), 30)

    def test_apple_against_orange_gives_what_lastz_gives(self):
        ref = hspz_test.shared("data", "apple.fasta.gz")
        query = hspz_test.shared("data", "orange.fasta.gz")
        plain = {path: self.file(os.path.basename(path)[:-3],
                                 fasta(hspz_test.read_fasta(path))) for path in (ref, query)}
        index = hspz_test.build_index(ref, self.path("apple.hspz"), "--all-positions")
        daemon = self.daemon(indexes={"apple": index})
        for transitions, count in ((False, 100854), (True, 411940)):
            with self.subTest(transitions=transitions):
                got = daemon.client("discover", "apple", query,
                                    *([] if transitions else ["--no-transitions"]), check=0)
                lines = got.stdout.splitlines()[1:]
                self.assertEqual(len(lines), count)
                self.assertEqual(Counter(lines), lastz_hits(plain[ref], plain[query], SHAPE_12OF19,
                                                            transitions, 1, False))


if __name__ == "__main__":
    hspz_test.main()
