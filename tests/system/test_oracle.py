"""Discovery against what KegAlign itself computed (shared/oracle): bytes, order, chunk borders."""

import hashlib
import os
import struct

import hspz_test
from hspz_test import SHAPE_12OF19, SHAPE_14OF22, build_index, shared

SHAPE_8OF13 = "1110100110101"
MAX_HITS_OF_RUN = 586366720  # KegAlign's default on the card it ran on

# set: shape, transitions, step, cap, hits
SETS = {
    "mini8": (SHAPE_8OF13, False, 1, MAX_HITS_OF_RUN, 36969),
    "mini8t": (SHAPE_8OF13, True, 1, 30000, 56795),
    "mini12": (SHAPE_12OF19, True, 1, 2000, 32633),
    "mini12step3": (SHAPE_12OF19, True, 3, MAX_HITS_OF_RUN, 10813),
    "mini14": (SHAPE_14OF22, True, 1, MAX_HITS_OF_RUN, 28618),
    "apple": (SHAPE_12OF19, True, 1, MAX_HITS_OF_RUN, 411940),
    "applecap": (SHAPE_12OF19, True, 1, 20000, 411940),
}


def load(*parts):
    with open(shared("oracle", *parts), "rb") as file:
        return file.read()


def inputs(name):
    if name.startswith("mini"):
        return shared("data", "mini_t.fa"), shared("data", "mini_q.fa")
    return shared("data", "apple.fasta.gz"), shared("data", "orange.fasta.gz")


def calls(name):
    """[minus, chunk limits, hash of the anchors] of each call, in KegAlign's order."""
    hashes = dict(reversed(line.split()) for line in load(name, "SHA256SUMS").decode().split("\n")
                  if line)
    found = []
    while os.path.exists(shared("oracle", name, "dump", "call%d.rev" % len(found))):
        stem = "dump/call%d" % len(found)
        limits = [tuple(map(int, line.split()))
                  for line in load(name, stem + ".limits.txt").decode().splitlines()]
        found.append((int(load(name, stem + ".rev")), limits,
                      hashes[stem + ".anchors.u64"]))
    return found


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def chunks_of(parts):
    """(first seed, last seed, first hit, end hit) per (strand, batch), and the parts' own sums."""
    found = {}
    for part in parts:
        key = (part["strand"], part["batch"])
        rows = found.setdefault(key, [])
        if part["chunk"] == len(rows):
            rows.append([part["seed_begin"], part["seed_end"] - 1, part["hit_begin"],
                         part["hit_end"]])
        else:
            rows[-1][3] = part["hit_end"]
    return {key: [tuple(row) for row in rows] for key, rows in found.items()}


class OracleTest(hspz_test.TestCase):
    def start(self, name, *options):
        shape, _, step, _, _ = SETS[name]
        index = build_index(inputs(name)[0], self.path(name + ".hspz"), "--seed", shape, "--step",
                            step, *options)
        return self.daemon(indexes={name: index})

    def assert_calls(self, name, data):
        """`data` is the calls' anchors one after another; hashes say where it first differs."""
        at = 0
        self.assertTrue(data)
        for number, (_, limits, want) in enumerate(calls(name)):
            size = 8 * limits[-1][3]
            self.assertEqual(sha256(data[at:at + size]), want, "%s, call %d" % (name, number))
            at += size
        self.assertEqual(at, len(data))

    def check_set(self, name):
        _, transitions, _, cap, hits = SETS[name]
        daemon = self.start(name)
        out = self.path("packed")
        daemon.client("discover", name, inputs(name)[1], "--max-hits", cap, "--format", "packed",
                      "-o", out, *([] if transitions else ["--no-transitions"]), check=0)
        with open(out, "rb") as file:
            data = file.read()
        self.assertEqual(len(data), 8 * hits)
        order = calls(name)
        self.assertEqual([minus for minus, _, _ in order], sorted(m for m, _, _ in order))
        self.assert_calls(name, data)
        self.check_chunks(name, daemon)
        daemon.stop()

    def check_chunks(self, name, daemon):
        _, transitions, _, cap, hits = SETS[name]
        records = hspz_test.read_fasta(inputs(name)[1])
        query = hspz_test.block_of(records).encode()
        for walk in ("blocks", "full"):
            with daemon.peer() as peer:
                result, data, parts = peer.discover(name, query={"bases": query}, max_hits=cap,
                                                    transitions=transitions, chunk_walk=walk)
            self.assertEqual(len(data), 8 * hits)
            self.assert_calls(name, data)
            got = chunks_of(parts)
            order = calls(name)
            batches = {0: 0, 1: 0}
            for minus, limits, _ in order:
                key = [k for k in got if k[0] in (minus, "minus" if minus else "plus")
                       and k[1] == batches[minus]]
                self.assertEqual(len(key), 1, (name, minus, batches[minus], list(got)))
                self.assertEqual(got[key[0]], limits)
                batches[minus] += 1
            self.assertEqual(result["chunks"], sum(len(limits) for _, limits, _ in order))

    def check_seeds(self, name):
        """KegAlign's own seeds, sent as they are."""
        _, _, _, cap, _ = SETS[name]
        daemon = self.start(name)
        with daemon.peer() as peer:
            for number, (_, limits, want) in enumerate(calls(name)):
                seeds = load(name, "dump", "call%d.seeds.u64" % number)
                _, data, parts = peer.discover(name, seeds=seeds, max_hits=cap)
                self.assertEqual(sha256(data), want)
                self.assertEqual(data, load(name, "dump", "call%d.anchors.u64" % number))
                self.assertEqual(list(chunks_of(parts).values()), [limits])
        daemon.stop()

    def test_mini8_anchors_equal_kegaligns(self):
        self.check_set("mini8")

    def test_mini8t_anchors_equal_kegaligns(self):
        self.check_set("mini8t")

    def test_mini12_anchors_equal_kegaligns(self):
        self.check_set("mini12")

    def test_mini12step3_anchors_equal_kegaligns(self):
        self.check_set("mini12step3")

    def test_mini14_anchors_equal_kegaligns(self):
        self.check_set("mini14")

    def test_apple_anchors_equal_kegaligns(self):
        self.check_set("apple")

    def test_applecap_anchors_and_cuts_equal_kegaligns(self):
        self.check_set("applecap")

    def test_seeds_of_kegalign_give_its_anchors(self):
        for name in ("mini8", "mini8t", "mini12", "mini12step3", "mini14"):
            with self.subTest(name):
                self.check_seeds(name)

    def test_mini8cap_is_answered_where_kegalign_aborts(self):
        index = build_index(inputs("mini8")[0], self.path("x.hspz"), "--seed", SHAPE_8OF13)
        seeds = load("mini8cap", "dump", "call0.seeds.u64")
        prefix = struct.unpack("<%dI" % (len(seeds) // 8),
                               load("mini8cap", "dump", "call0.prefix.u32"))
        counts = [b - a for a, b in zip((0,) + prefix, prefix)]
        want = hspz_test.cut(counts, 1000)
        self.assertTrue(all(end - begin <= 1000 for _, _, begin, end in want))
        kegaligns = calls("mini8cap")[0][1]
        self.assertEqual(want[:len(kegaligns) - 1], kegaligns[:-1])
        daemon = self.daemon(indexes={"mini": index})
        with daemon.peer() as peer:
            _, data, parts = peer.discover("mini", seeds=seeds, max_hits=1000)
            self.assertEqual(list(chunks_of(parts).values()), [want])
            self.assertEqual(data, load("mini8", "dump", "call0.anchors.u64"))
            _, full, parts = peer.discover("mini", seeds=seeds, max_hits=1000, chunk_walk="full")
            self.assertEqual(list(chunks_of(parts).values()), [want])
            self.assertEqual(full, data)

    def test_every_cap_cuts_as_reckoned(self):
        index = build_index(inputs("mini8")[0], self.path("x.hspz"), "--seed", SHAPE_8OF13)
        seeds = load("mini8", "dump", "call0.seeds.u64")[:8 * 1200]
        prefix = struct.unpack("<1200I", load("mini8", "dump", "call0.prefix.u32")[:4 * 1200])
        counts = [b - a for a, b in zip((0,) + prefix, prefix)]
        want = load("mini8", "dump", "call0.anchors.u64")
        # The first anchors are those of the first seeds: seeds keep their order.
        want = want[:8 * prefix[-1]]
        caps = [1, 2, 3, 7, 33, 100, 255, 256, 257, prefix[-1] - 1, prefix[-1], prefix[-1] + 1]
        daemon = self.daemon(indexes={"mini": index})
        with daemon.peer() as peer:
            for cap in caps:
                for walk in ("blocks", "full"):
                    with self.subTest(cap=cap, walk=walk):
                        _, data, parts = peer.discover("mini", seeds=seeds, max_hits=cap,
                                                       chunk_walk=walk)
                        self.assert_same_anchors(data, want)
                        self.assertEqual(list(chunks_of(parts).values()),
                                         [hspz_test.cut(counts, cap)])

    def test_worked_example_of_the_contract(self):
        # Buckets of 0, 3, 1, 0 and 5 hits: a reference that holds the words that often.
        shape = "1111"
        three, one, five = "ACGT", "CCCC", "GTTG"
        rest = "N".join(["N"] + [three] * 3 + [one] + [five] * 5)
        index = self.index([("r", rest)], "--seed", shape, "--all-positions")
        buckets = hspz_test.buckets_of(rest, shape, all_positions=True)
        word = {text: next(w for _, w in hspz_test.words_of(text, shape))
                for text in (three, one, five, "AAAA", "TTTT")}
        seeds = [(word[text], at) for at, text in enumerate(("AAAA", three, one, "TTTT", five))]
        with self.daemon(indexes={"r": index}).peer() as peer:
            result, data, _ = peer.discover("r", seeds=hspz_test.pack_seeds(seeds))
        self.assertEqual(result["anchors"], 9)
        starts = buckets[word[five]]
        self.assertEqual(len(starts), 5)
        self.assertEqual(hspz_test.unpack_anchors(data)[4:],
                         [(start + 4, 4 + 4) for start in reversed(starts)])
        self.assertEqual(hspz_test.unpack_anchors(data),
                         hspz_test.anchors_of(buckets, seeds, 4))


if __name__ == "__main__":
    hspz_test.main()
