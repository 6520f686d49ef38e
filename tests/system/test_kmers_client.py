"""`hspz-client kmers` with a real hspzd: what it writes against windows cut out here, for odd inputs."""

import collections
import gzip
import json
import os
import random
import signal
import struct
import subprocess

import hspz_test
from hspz_test import reverse_complement
from test_kmers import cut, number


def table(text, columns):
    """Rows of a TSV; the line before its header, and the header."""
    lines = text.splitlines()
    assert lines[0].startswith("# ") and lines[1].startswith("#"), lines[:2]
    rows = [line.split("\t") for line in lines[2:]]
    assert all(len(row) == columns for row in rows)
    return rows, lines[0], lines[1]


def records(rng):
    """[(name, bases)] with what tends to go wrong."""
    found = [("r%d" % i, "".join(rng.choice("ACGT" * 9 + "acgtN") for _ in range(rng.randrange(200))))
             for i in range(60)]
    found += [("empty", ""), ("short", "ACG"), ("n", "N" * 50), ("palindromes", "ACGTACGTGAATTCGAATTC" * 3),
              ("t", "T" * 70), ("iupac", "ACGTRYKMACGTACGTACGTACGTACGT" * 2),
              ("long", "".join(rng.choice("ACGTacgt") for _ in range(5000)))]
    return found


def as_fasta(found, width, end):
    return "".join(">%s more words%s%s" % (n, end, "".join(s[i:i + width] + end for i in range(0, len(s), width)))
                   for n, s in found).encode()


def as_fastq(found, end):
    """Qualities that look like headers."""
    return "".join("@%s x%s%s%s+%s%s%s" % (n, end, s, end, end, "@+>I"[:max(1, len(s) % 4)] * len(s), "")
                   if not s else "@%s x%s%s%s+%s%s%s" % (n, end, s, end, end, ("@+>I" * len(s))[:len(s)], end)
                   for n, s in found).encode()


class KmersTest(hspz_test.TestCase):
    def setUp(self):
        super().setUp()
        self.served = self.daemon("--threads", "2", "--filter-memory", "64M")
        self.rng = random.Random(3)

    def kmers(self, *args, status=0, data=None):
        return self.served.client("kmers", *args, check=status, stdin=data, text=False)

    def out(self, *args, **more):
        return self.kmers(*args, **more).stdout.decode()

    def refused(self, *args, status=1, **more):
        return self.kmers(*args, status=status, **more).stderr

    def counter(self, name, kind="counter"):
        rows, kind_line, header = table(self.out("dump", name), 2)
        self.assertEqual((kind_line.split()[1], header), (kind, "#kmer\tcount"))
        self.assertEqual(rows, sorted(rows))
        return {word: int(n) for word, n in rows}

    def test_every_form_of_the_same_sequences_counts_alike(self):
        found = records(self.rng)
        plain = as_fasta(found, 60, "\n")
        forms = [plain, as_fasta(found, 7, "\r\n"), gzip.compress(plain), as_fastq(found[:60] + found[61:], "\n"),
                 gzip.compress(as_fastq(found[:60] + found[61:], "\r\n"))]
        for i, (k, strands) in enumerate(((21, []), (4, ["--stranded"]), (31, []), (1, []), (32, ["--stranded"]))):
            want = collections.Counter(w for _, s in found for w in cut(s, k, not strands) if w)
            self.assertGreater(len(want), 1)
            path = self.file("in%d" % i, forms[i])
            done = self.out("count", "f%d" % i, path, "-k", k, *strands, "--batch", 1 + 300 * i, "--json")
            self.assertEqual({key: json.loads(done)[key] for key in ("k", "kmers", "different", "rate")},
                             {"k": k, "kmers": sum(want.values()), "different": len(want), "rate": 0})
            self.assertEqual(self.counter("f%d" % i), want)
            raw = self.kmers("dump", "f%d" % i, "--format", "raw", "--least", 2).stdout
            self.assertEqual([struct.unpack_from("<QQ", raw, at) for at in range(0, len(raw), 16)],
                             sorted((number(w), n) for w, n in want.items() if n > 1))
            rows, _, _ = table(self.out("histogram", "f%d" % i), 2)
            spread = collections.Counter(want.values())
            self.assertEqual([(int(a), int(b)) for a, b in rows], sorted(spread.items()))
        # Once more from standard input, to what is there; and a second file.
        self.out("count", "f0", "-", self.path("in2"), "--add", data=plain)
        want = collections.Counter(w for _, s in found for w in cut(s, 21) if w)
        self.assertEqual(self.counter("f0"), {w: 3 * n for w, n in want.items()})

    def test_query_and_screen_say_what_the_sequences_have(self):
        found = records(self.rng)
        k = 15
        inside = collections.Counter(w for _, s in found[::2] for w in cut(s, k) if w)
        some = self.file("some.fa", as_fasta(found[::2], 80, "\n"))
        turned = [(n, reverse_complement(s.upper().replace("N", "-").translate(
            str.maketrans("RYKM", "----")))) for n, s in found]
        asked = self.file("asked.fa", as_fasta(turned, 60, "\n"))
        self.out("count", "c", some, "--k", k)
        self.out("count", "g", some, "--k", k, "--kind", "gqf", "--capacity", 20000, "--rate", "1e-4")
        self.out("count", "b", some, "--k", k, "--kind", "bloom", "--capacity", 20000, "--rate", "1e-3")
        want = [[n, str(at), s[at:at + k].upper(), str(inside[w])]
                for n, s in turned for at, w in enumerate(cut(s, k)) if w]
        self.assertGreater(len(want), 5000)
        for batch in (1, 1000, 1 << 20):
            rows, line, header = table(self.out("query", "c", asked, "--batch", batch), 4)
            self.assertEqual((line, header), ("# counter c, k 15, canonical, exact", "#sequence\tstart\tkmer\tcount"))
            self.assertEqual(rows, want)
        rows, line, _ = table(self.out("query", "g", asked), 4)
        self.assertIn("never less than the truth, more for at most ", line)
        bound = float(line.split("at most ")[1].split()[0])
        self.assertTrue(all(int(a[3]) >= int(b[3]) for a, b in zip(rows, want)))
        self.assertEqual([row[:3] for row in rows], [row[:3] for row in want])
        more = sum(a != b for a, b in zip(rows, want))
        self.assertLessEqual(more, 1.2 * bound * len(want) + 5)
        hits = [[n, str(len(w)), str(sum(x in inside for x in w)),
                 "%.6f" % (sum(x in inside for x in w) / len(w) if w else 0)]
                for n, w in ((n, [x for x in cut(s, k) if x]) for n, s in turned)]
        for batch in (1, 999, 1 << 20):
            rows, _, header = table(self.out("screen", "c", asked, "--batch", batch), 4)
            self.assertEqual((rows, header), (hits, "#sequence\tkmers\thits\tfraction"))
        rows, _, _ = table(self.out("screen", "b", asked), 4)
        self.assertEqual([row[:2] for row in rows], [row[:2] for row in hits])
        self.assertTrue(all(int(a[2]) >= int(b[2]) for a, b in zip(rows, hits)))
        self.assertLess(sum(int(a[2]) - int(b[2]) for a, b in zip(rows, hits)), 0.003 * len(want) + 10)
        rows, _, _ = table(self.out("screen", "c", asked, "--least", 2), 4)
        self.assertEqual([int(row[2]) for row in rows],
                         [sum(inside[x] > 1 for x in cut(s, k) if x) for _, s in turned])

    def test_what_fails_is_said_and_leaves_nothing(self):
        good = self.file("good.fa", ">a\nACGTACGT\n")
        bad = self.file("bad.fq", "@a\nACGT\n+\nII")
        self.assertIn("cut short", self.refused("count", "x", good, bad, "-k", 3))
        self.assertIn("there is no filter", self.refused("dump", "x"))
        self.assertIn("x: No such file", self.refused("count", "x", "-", self.path("x"), "-k", 3, data=b"none is read"))
        self.assertIn("2bit", self.refused("count", "x", self.file("t", hspz_test.twobit([("a", "ACGT")])), "-k", 3))
        self.out("count", "x", good, "-k", 3)
        self.assertIn("already", self.refused("count", "x", good, "-k", 3))
        self.assertIn("6 k-mers or more went into filter x, and stay", self.refused(
            "count", "x", good, bad, "--add", "--batch", 1))
        self.assertEqual(sum(self.counter("x").values()), 12)
        self.assertIn("has k 3", self.refused("count", "x", good, "-k", 4, "--add"))
        self.out("count", "g", good, "-k", 3, "--kind", "gqf", "--capacity", 100)
        self.assertIn("only a counter", self.refused("dump", "g"))
        self.served.client("filter", "create", "plain", "--kind", "gqf", "--capacity", "9", check=0)
        self.assertIn("not one of k-mers", self.refused("query", "plain", good))
        big = self.file("big.fa", as_fasta([("b", "".join(self.rng.choice("ACGT") for _ in range(30000)))], 99, "\n"))
        said = self.refused("count", "full", big, "-k", 21, "--kind", "gqf", "--capacity", 1000)
        self.assertIn("is full after", said)
        self.assertIn("--capacity", said)
        self.assertIn("there is no filter", self.refused("histogram", "full"))
        for args in (["count", "y", good], ["count", "y", good, "-k", 33], ["count", "y", good, "-k", 3, "--rate", "0.1"],
                     ["count", "y", good, "-k", 3, "--kind", "gqf"], ["count", "x", good, "--add", "--stranded"],
                     ["count", "y", "-", "-", "-k", 3], ["query", "x", good, "-o", good], ["nonsense"], []):
            self.refused(*args, status=2)

    def names(self):
        listed = self.served.client("filter", "list", check=0).stdout
        return [line.split("\t")[0] for line in listed.splitlines() if not line.startswith("#")]

    def test_a_stopped_count_takes_its_filter_along(self):
        end, keep = os.pipe()
        counting = subprocess.Popen(
            [hspz_test.CLIENT, "--server", self.served.server, "kmers", "count", "stopped", "-", "-k", "3", "--batch",
             "1"], stdin=end, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        os.write(keep, b">a\n" + b"ACGT" * 16000)
        os.write(keep, b"ACGT" * 4000)
        hspz_test.poll(lambda: self.names() == ["stopped"])
        counting.send_signal(signal.SIGINT)
        _, said = counting.communicate(timeout=60)
        self.assertEqual((counting.returncode, said), (1, "hspz-client: stopped by a signal\n"))
        self.assertEqual(self.names(), [])
        os.close(keep)
        os.close(end)

    def test_different_ones_are_told_by_kinds_that_know(self):
        path = self.file("x.fa", ">a\n" + "ACGGT" * 20 + "\n")
        for kind, known in (("gqf", True), ("sqf", True), ("rsqf", True), ("tcf", False), ("bloom", False),
                            ("blocked", False)):
            args = (kind, path, "--kind", kind, "--capacity", 500)
            said = self.out("count", *args, "-k", 5)
            self.assertEqual(", 5 different," in said, known, said)
            self.assertEqual("different" in said, known, said)
            self.served.client("filter", "drop", kind, check=0)
            told = json.loads(self.out("count", *args, "-k", 5, "--json"))
            self.assertEqual((told["kmers"], told["different"]), (96, 5 if known else None))


if __name__ == "__main__":
    hspz_test.main()
