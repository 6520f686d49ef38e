"""K-mers: exact counters and other filters of k-mers over the protocol, against windows cut out here."""

import collections
import os
import random

import hspz_test
from hspz_test import poll, reverse_complement
from test_filters import FilterTest as Peers, pack, unpack


def cut(text, k, canonical=True):
    """[the k-mer that begins at each place, or None], upper case."""
    text = text.upper()
    found = []
    for at in range(len(text)):
        word = text[at:at + k]
        good = len(word) == k and not set(word) - set("ACGT")
        found.append((min(word, reverse_complement(word)) if canonical else word) if good else None)
    return found


def number(word):
    value = 0
    for base in word:
        value = value * 4 + "ACGT".index(base)
    return value


def odd_sequence(rng, count):
    return "".join(rng.choice("ACGT" * 6 + "acgtTTTTTTN\n-") for _ in range(count))


class WireTest(hspz_test.TestCase):
    answers, ask, entries = Peers.answers, Peers.ask, Peers.entries

    def by_sequence(self, peer, method, name, text, answer):
        params = {"filter": name, "sequence": text.encode(), "answer": answer}
        return self.answers(peer, peer.request("filter." + method, params), len(text), answer)

    def test_counts_of_sequences_are_exact_and_every_kind_takes_them(self):
        rng = random.Random(4)
        daemon = self.daemon("--threads", "2", "--filter-memory", "256M")
        peer = daemon.peer()
        for k, canonical in ((1, True), (3, False), (13, True), (21, False), (31, True), (32, True)):
            name = "c%d" % k
            made = peer.call("filter.create", {"filter": name, "kind": "counter", "capacity": 1, "k": k,
                                               "canonical": canonical})
            self.assertEqual((made["k"], made["canonical"], made["expected_rate"]), (k, canonical, 0))
            text = odd_sequence(rng, 60000) * 2 + "ACGTN"[:k]
            want = collections.Counter(w for w in cut(text, k, canonical) if w)
            result, bitmap, _ = self.by_sequence(peer, "insert", name, text[:50000], "bitmap")
            self.assertEqual(bitmap, [w is not None for w in cut(text[:50000], k, canonical)])
            rest = text[50000 - k + 1:]
            result, _, _ = self.by_sequence(peer, "insert", name, rest, "none")
            self.assertFalse(result["filter_full"])
            entries = self.entries(peer, name)
            self.assertEqual({e[0]: e[2] for e in entries}, {number(w): n for w, n in want.items()})
            self.assertEqual(len(entries), len(want))
            asked = text[:5000] + "A" * 40
            _, _, counts = self.by_sequence(peer, "count", name, asked, "array")
            self.assertEqual(counts, [want[w] if w else 0 for w in cut(asked, k, canonical)])
            stats = peer.call("filter.stats", {"filter": name})
            self.assertEqual((stats["entries"], stats["total"]), (len(want), sum(want.values())))
            self.assertEqual(stats["bytes"], [f["bytes"] for f in peer.call("filter.list")["filters"]
                                              if f["filter"] == name][0])
        for kind in ("tcf", "gqf", "bloom", "blocked", "sqf", "rsqf"):
            peer.call("filter.create", {"filter": kind, "kind": kind, "capacity": 50000, "k": 17,
                                        "canonical": True, "rate": 0.001})
            text = odd_sequence(rng, 20000)
            self.by_sequence(peer, "insert", kind, text, "bitmap")
            turned = reverse_complement(text.upper().replace("\n", "N").replace("-", "N"))
            _, bitmap, _ = self.by_sequence(peer, "query", kind, turned, "bitmap")
            self.assertEqual(bitmap, [w is not None for w in cut(turned, 17)])

    def test_memory_is_charged_as_it_grows_and_its_end_is_no_error(self):
        rng = random.Random(5)
        daemon = self.daemon("--filter-memory", "3M")
        peer = daemon.peer()
        used = lambda: peer.call("stats")["memory"]["filter_bytes"]
        peer.call("filter.create", {"filter": "c", "kind": "counter", "capacity": 1})
        first = used()
        keys = [rng.getrandbits(64) for _ in range(600000)]
        full = False
        inside = set()
        for at in range(0, len(keys), 50000):
            part = keys[at:at + 50000]
            result, bitmap, _ = self.ask(peer, "insert", "c", part, "bitmap")
            full = result["filter_full"]
            inside |= {key for key, yes in zip(part, bitmap) if yes}
            self.assertTrue(full or all(bitmap))
            if full:
                break
        self.assertTrue(full)
        self.assertGreater(len(inside), 100000)
        self.assertEqual({e[0] for e in self.entries(peer, "c")}, inside)
        self.assertEqual(used(), peer.call("filter.stats", {"filter": "c"})["bytes"])
        self.assertTrue(first < used() <= 3 << 20, used())
        self.assertEqual(peer.error("filter.create", {"filter": "d", "kind": "tcf", "capacity": 10 ** 6})["code"],
                         "quota_exceeded")
        peer.call("filter.drop", {"filter": "c"})
        self.assertTrue(poll(lambda: used() == 0), used())

    def test_counters_are_merged_saved_and_loaded(self):
        rng = random.Random(6)
        folder = self.path("saved")
        os.mkdir(folder)
        options = ("--filter-dir", folder, "--filter-memory", "4M", "--threads", "2")
        daemon = self.daemon(*options)
        peer = daemon.peer()
        stats = lambda name: peer.call("filter.stats", {"filter": name})
        used = lambda: peer.call("stats")["memory"]["filter_bytes"]
        texts = {name: odd_sequence(rng, 20000) + "GATTACA" * 20 for name in "ab"}
        for name, text in texts.items():
            peer.call("filter.create", {"filter": name, "kind": "counter", "capacity": 1, "k": 21, "canonical": True})
            self.by_sequence(peer, "insert", name, text, "none")
        want = collections.Counter(number(w) for text in texts.values() for w in cut(text, 21) if w)
        peer.call("filter.merge", {"filter": "a", "from": "b"})
        content = lambda name: {e[0]: e[2] for e in self.entries(peer, name)}
        self.assertEqual(content("a"), want)
        self.assertEqual((stats("a")["entries"], stats("a")["total"]), (len(want), sum(want.values())))
        self.assertEqual(used(), stats("a")["bytes"] + stats("b")["bytes"])
        peer.call("filter.save", {"filter": "a"})
        peer.call("filter.drop", {"filter": "b"})
        daemon.stop()
        daemon = self.daemon(*options)
        peer = daemon.peer()
        loaded = peer.call("filter.load", {"filter": "a"})
        self.assertEqual((loaded["kind"], loaded["k"], loaded["canonical"], loaded["entries"]),
                         ("counter", 21, True, len(want)))
        self.assertEqual(content("a"), want)
        self.assertEqual(used(), stats("a")["bytes"])
        # It grows on.
        self.by_sequence(peer, "insert", "a", texts["b"], "none")
        want.update(number(w) for w in cut(texts["b"], 21) if w)
        self.assertEqual(content("a"), want)
        # Memory for a merge, or for what a file holds, is asked for before it is used.
        peer.call("filter.drop", {"filter": "a"})
        for name in "cd":
            peer.call("filter.create", {"filter": name, "kind": "counter", "capacity": 1})
            self.ask(peer, "insert", name, [rng.getrandbits(64) for _ in range(60000)], "none")
        before = content("c")
        self.assertEqual(peer.error("filter.merge", {"filter": "c", "from": "d"})["code"], "quota_exceeded")
        self.assertEqual(content("c"), before)
        peer.call("filter.drop", {"filter": "d"})
        peer.call("filter.save", {"filter": "c"})
        peer.call("filter.drop", {"filter": "c"})
        path = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names
                if name.startswith("a.")][0]
        with open(path, "rb") as file:
            data = bytearray(file.read())
        for at in (20, 130, 300, 4000):
            bad = bytearray(data)
            bad[at] ^= 0x55
            hspz_test.write(path, bytes(bad))
            error = peer.error("filter.load", {"filter": "a"})
            self.assertEqual(error["code"], "bad_file", error)
        self.assertTrue(poll(lambda: used() == 0), used())
        daemon.stop()
        daemon = self.daemon("--filter-dir", folder, "--filter-memory", "500K")
        peer = daemon.peer()
        self.assertEqual(peer.error("filter.load", {"filter": "c"})["code"], "too_large")

    def test_what_has_no_meaning_is_refused(self):
        daemon = self.daemon("--filter-dir", self.path("."))
        peer = daemon.peer()
        create = lambda **more: peer.error("filter.create", dict({"filter": "x", "capacity": 9}, **more))
        for more in ({"kind": "counter", "k": 33}, {"kind": "counter", "canonical": True},
                     {"kind": "counter", "rate": 0.1}, {"kind": "counter", "value_bits": 3},
                     {"kind": "gqf", "k": 40}):
            self.assertEqual(create(**more)["code"], "bad_request", more)
        for name, kind in (("c", "counter"), ("g", "gqf")):
            peer.call("filter.create", {"filter": name, "kind": kind, "capacity": 9, "k": 5})
        peer.call("filter.create", {"filter": "plain", "kind": "gqf", "capacity": 9})
        for method, params in (
                ("insert", {"filter": "plain", "sequence": b"ACGTACGT"}),
                ("insert", {"filter": "c", "sequence": b"ACGTA", "keys": pack([1])}),
                ("insert", {"filter": "c"}),
                ("insert", {"filter": "c", "sequence": b"ACGTA", "counts": pack([1])}),
                ("insert", {"filter": "c", "keys": pack([1024])}),
                ("delete", {"filter": "g", "sequence": b"ACGTA"})):
            self.assertEqual(peer.error("filter." + method, params)["code"], "bad_request", params)
        peer.call("filter.create", {"filter": "c2", "kind": "counter", "capacity": 9})
        self.assertEqual(peer.error("filter.merge", {"filter": "c", "from": "c2"})["code"], "bad_request")
        self.assertEqual(peer.error("filter.delete", {"filter": "c", "keys": pack([1])})["code"], "unsupported")
        peer.call("filter.save", {"filter": "g"})
        peer.call("filter.drop", {"filter": "g"})
        self.assertEqual(peer.call("filter.load", {"filter": "g"})["k"], 5)


if __name__ == "__main__":
    hspz_test.main()
