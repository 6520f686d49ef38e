"""discover --hit-stats: hits per seed, recounted here from the bases and from what KegAlign summed."""

import json
import os
import random
import struct

import hspz_test
from hspz_test import SHAPE_12OF19, bases, block_of, buckets_of, fasta, seeds_of

CLASSES = (("0", 0, 0), ("1", 1, 1), ("2-4", 2, 4), ("5-32", 5, 32), ("33-256", 33, 256),
           (">256", 257, 1 << 64))


def counts_of(ref, query, transitions, strands=("plus", "minus"), shape=SHAPE_12OF19):
    """Hits of each seed, strand by strand, in the order of the seeds."""
    buckets = buckets_of(block_of(ref), shape)
    out = []
    for strand in strands:
        block = block_of(query)
        block = block if strand == "plus" else hspz_test.reverse_complement(block)
        out.append([len(buckets.get(word, ())) for word, _ in seeds_of(block, shape, transitions)])
    return out


def rank(counts, percent):
    """The least number that `percent` of all do not exceed."""
    counts = sorted(counts)
    return next((c for i, c in enumerate(counts, 1) if 100 * i >= percent * len(counts)), 0)


def lane_use(launches):
    """Share of busy lanes of (thread per seed, warp per seed, the one of SPEC C.4)."""
    hits = [sum(launch) for launch in launches]
    threads = [sum(32 * max(launch[i:i + 32]) for i in range(0, len(launch), 32))
               for launch in launches]
    warps = [sum(-(-c // 32) * 32 for c in launch) for launch in launches]
    chosen = [t if h < 16 * len(launch) else w
              for launch, h, t, w in zip(launches, hits, threads, warps)]
    return [sum(hits) / sum(slots) for slots in (threads, warps, chosen)]


class HitStatsTest(hspz_test.TestCase):
    def stats(self, daemon, *args):
        return json.loads(daemon.client("discover", *args, "--hit-stats", "--format", "jsonl",
                                        check=0).stdout)

    def check(self, got, launches):
        counts = [c for launch in launches for c in launch]
        self.assertGreater(sum(counts), 0)
        self.assertEqual((got["seeds"], got["hits"]), (len(counts), sum(counts)))
        self.assertEqual([(c["hits_per_seed"], c["seeds"], c["hits"]) for c in got["classes"]],
                         [(name, sum(low <= c <= high for c in counts),
                           sum(c for c in counts if low <= c <= high))
                          for name, low, high in CLASSES])
        for key, some in (("all_seeds", counts), ("seeds_with_hits", [c for c in counts if c])):
            self.assertAlmostEqual(got[key]["mean"], sum(some) / len(some), places=5)
            self.assertEqual([got[key][k] for k in ("median", "p95", "p99", "max")],
                             [rank(some, 50), rank(some, 95), rank(some, 99), max(some)])
        self.assertAlmostEqual(got["zero_hit_share"], counts.count(0) / len(counts), places=5)
        self.assertEqual(sorted(got["distribution"], reverse=True),
                         sorted(([c, counts.count(c)] for c in set(counts)), reverse=True))
        for key, want in zip(("thread_per_seed", "warp_per_seed", "chosen"), lane_use(launches)):
            self.assertAlmostEqual(got["lane_use"][key], want, places=5)

    def test_counts_are_those_of_the_bases(self):
        # A word that stands 400 times, others more or less often, and much that has no hit.
        rng = random.Random(5)
        unit = bases(rng, 40)
        ref = [("r1", bases(rng, 3000) + unit * 400), ("r2", bases(rng, 2000) + unit * 3)]
        query = [("q1", unit + "N" + ref[0][1][500:900]), ("q2", bases(rng, 700)),
                 ("q3", hspz_test.reverse_complement(ref[1][1][:300]) + unit.lower() + unit)]
        file = self.file("query.fa", fasta(query))
        daemon = self.daemon(indexes={"r": self.index(ref)})
        self.check(self.stats(daemon, "r", file), counts_of(ref, query, True))
        self.check(self.stats(daemon, "r", file, "--no-transitions", "--strand", "minus"),
                   counts_of(ref, query, False, ["minus"]))
        self.text_says_the_same(daemon, file, counts_of(ref, query, True))
        self.anchors_are_the_same(daemon, file)
        too_many = daemon.client("discover", "r", file, "--hit-stats", "--hit-limit", "100", check=1)
        self.assertEqual(too_many.stdout, "")
        self.assertIn("100", too_many.stderr)
        daemon.client("discover", "r", file, "--hit-stats", "--seeds", file, check=2)

    def text_says_the_same(self, daemon, query, launches):
        counts = [c for launch in launches for c in launch]
        rows = dict((line.split()[0], line.split()[1:]) for line in daemon.client(
            "discover", "r", query, "--hit-stats", check=0).stdout.splitlines())
        for name, low, high in CLASSES:
            some = [c for c in counts if low <= c <= high]
            self.assertEqual(rows[name], [str(len(some)), "%.3f" % (100 * len(some) / len(counts)),
                                          str(sum(some)), "%.3f" % (100 * sum(some) / sum(counts))])
        self.assertEqual(rows["all_seeds"][1:], [str(rank(counts, p)) for p in (50, 95, 99)] +
                         [str(max(counts))])
        self.assertEqual(rows["expand"], ["%.3f" % (100 * u) for u in lane_use(launches)])

    def anchors_are_the_same(self, daemon, query):
        """Written beside the table, they are those of a run without, whatever the cap."""
        for more in (["--format", "packed"], ["--format", "packed", "--max-hits", "300"], []):
            plain, counted = self.path("plain"), self.path("counted")
            daemon.client("discover", "r", query, "-o", plain, *more, check=0)
            table = daemon.client("discover", "r", query, "-o", counted, "--hit-stats", *more,
                                  check=0).stdout
            with open(plain, "rb") as one, open(counted, "rb") as other:
                want = one.read()
                self.assertGreater(len(want), 1000)
                self.assertEqual(other.read(), want)
            self.assertIn("#hits_per_seed", table)
        both = daemon.client("discover", "r", query, "-o", "-", "--hit-stats", check=0)
        with open(counted, encoding="utf-8") as file:
            self.assertEqual(both.stdout, file.read())
        self.assertIn("#hits_per_seed", both.stderr)

    def test_counts_are_those_kegalign_summed(self):
        dump = hspz_test.shared("oracle", "mini12", "dump")
        data = hspz_test.shared("data")
        launches = []
        for call in (0, 1):
            with open(os.path.join(dump, "call%d.prefix.u32" % call), "rb") as file:
                sums = [s for s, in struct.iter_unpack("<I", file.read())]
            launches.append([b - a for a, b in zip([0] + sums, sums)])
        # KegAlign cut these at its cap: a cap above all is one launch a strand, as here.
        index = hspz_test.build_index(os.path.join(data, "mini_t.fa"), self.path("t.hspz"))
        daemon = self.daemon(indexes={"t": index})
        self.check(self.stats(daemon, "t", os.path.join(data, "mini_q.fa")), launches)


if __name__ == "__main__":
    hspz_test.main()
