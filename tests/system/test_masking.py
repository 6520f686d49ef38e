"""Masking in discovery against LASTZ: words by share, positions hit often, two transitions."""

import math
import os
import random
import re
import subprocess
from collections import Counter

import hspz_test
from hspz_test import SHAPE_12OF19, bases, fasta, reverse_complement

COLUMNS = "name1,zstart1,end1,name2,zstart2+,end2+,strand2"


def mutate(rng, text, rate, only_transitions=0.0):
    other = {"A": "G", "G": "A", "C": "T", "T": "C"}
    return "".join((other[c] if rng.random() < only_transitions else rng.choice("ACGT"))
                   if rng.random() < rate else c for c in text)


def repeat_rich(rng, families, copies, spacer):
    """Families of 300 bases, each copied with mutations and on both strands, between random bases."""
    family = [bases(rng, 300) for _ in range(families)]
    made = []
    for number in range(families):
        for _ in range(copies(number)):
            copy = mutate(rng, family[number], 0.03)
            made.append(copy if rng.random() < 0.5 else reverse_complement(copy))
    rng.shuffle(made)
    return "".join(bases(rng, spacer) + copy for copy in made) + bases(rng, spacer), family


class MaskingTest(hspz_test.TestCase):
    def setUp(self):
        super().setUp()
        rng = random.Random(8)
        coli = hspz_test.read_fasta(hspz_test.mg1655())[0][1][220000:820000]
        other = hspz_test.read_fasta(hspz_test.nc_008253())[0][1]
        text, family = repeat_rich(rng, 12, lambda number: 3 + number * number, 200)
        half = len(text) // 2
        inputs = {
            "coli": ([("coli", coli)],
                     [("q%d" % n, other[at:at + 4000]) for n, at in
                      enumerate((225000, 300000, 640000))] + [("own", coli[3000:9000])]),
            "repeats": ([("r1", text[:half]), ("r2", text[half:])],
                        [("s%d" % n, mutate(rng, family[n % 12], 0.05) + bases(rng, 50))
                         for n in range(20)])}
        self.paths = {name: (self.file(name + ".fa", fasta(ref)),
                             self.file(name + "-q.fa", fasta(query)))
                      for name, (ref, query) in inputs.items()}
        self.server = self.daemon(indexes={
            name: hspz_test.build_index(ref, self.path(name + ".hspz"), "--all-positions")
            for name, (ref, _) in self.paths.items()})

    def lastz(self, name, *options):
        ref, query = self.paths[name]
        done = subprocess.run([hspz_test.tool("lastz"), ref + "[multiple]", query,
                               "--seed=" + SHAPE_12OF19, "--nogfextend", "--nochain", "--nogapped",
                               "--format=general-:" + COLUMNS, *options],
                              capture_output=True, text=True, check=True)
        return Counter(done.stdout.splitlines())

    def ours(self, name, *options):
        done = self.server.client("discover", name, self.paths[name][1], *options, check=0)
        return Counter(done.stdout.splitlines()[1:])

    def check(self, name, lastz, ours, least):
        """Both give the same, which is more than nothing and less than without the option."""
        with self.subTest("%s %s" % (name, lastz)):
            got = self.ours(name, *ours)
            self.assertGreater(sum(got.values()), least)
            self.assertEqual(got, self.lastz(name, *lastz))
            return sum(got.values())

    def check_growing(self, name, sets, least):
        """The sets of options give more and more hits."""
        counts = [self.check(name, lastz, ours, least) for lastz, ours in sets]
        self.assertEqual(counts, sorted(counts))
        self.assertGreater(counts[-1], counts[0])

    def test_masks_are_lastzs(self):
        for name, least in (("coli", 100), ("repeats", 100)):
            self.check_growing(name, [(["--notransition", "--maxwordcount=" + share],
                                       ["--no-transitions", "--max-word-count", share])
                                      for share in ("40%", "98.5%", "99.99%")], least)
            self.check_growing(name, [(["--notransition", "--masking=%d" % most],
                                       ["--no-transitions", "--masking", most])
                                      for most in (1, 7)], least)
            self.check(name, ["--transition", "--maxwordcount=3"], ["--max-word-count", 3], 1000)
        self.check("repeats", ["--transition=2"], ["--transitions", 2], 10000)
        plain = self.ours("repeats", "--no-transitions")
        self.assertEqual(self.ours("repeats", "--no-transitions", "--masking", 0), plain)
        self.assertEqual(self.ours("repeats", "--no-transitions", "--max-word-count", "100%"), plain)
        self.assertGreater(plain.total(), self.ours("repeats", "--no-transitions", "--masking",
                                                    7).total())

    def test_what_masking_needs(self):
        rows = self.ours("repeats", "--masking", 5)
        packed = self.server.client("discover", "repeats", self.paths["repeats"][1], "--masking", 5,
                                    "--format", "packed", text=False, check=0).stdout
        self.assertEqual(len(packed) // 8, sum(rows.values()))
        done = self.server.client("discover", "coli", "--seeds", self.file("seeds", b""), "--masking",
                                  "3")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--masking", done.stderr)


INTERVAL = 1700


class MaskTest(hspz_test.TestCase):
    """The mask command against a direct count of LASTZ's HSPs of a genome with itself."""

    def setUp(self):
        super().setUp()
        rng = random.Random(5)
        text, _ = repeat_rich(rng, 5, lambda number: 2 + 3 * number, 150)
        third = len(text) // 3
        self.records = [("c1", text[:third]), ("short", "ACGT"), ("c2", text[third:2 * third].lower()
                                                                 [:40] + text[third + 40:]),]
        self.genome = self.file("genome.fa", fasta(self.records))
        self.index = hspz_test.build_index(self.genome, self.path("genome.hspz"), "--all-positions")

    def lastz_segments(self):
        done = subprocess.run([hspz_test.tool("lastz"), self.genome + "[multiple]", self.genome,
                               "--seed=" + SHAPE_12OF19, "--transition", "--nogapped", "--nochain",
                               "--recoverseeds", "--format=general-:" + COLUMNS],
                              capture_output=True, text=True, check=True)
        rows = [line.split("\t") for line in done.stdout.splitlines()]
        return [(name1, int(begin1), name2, int(begin2), int(end2), strand)
                for name1, begin1, _, name2, begin2, end2, strand in rows]

    def want(self, segments, most, neighbors=1.0, interval=10000000):
        """BED lines, base by base."""
        starts, at = {}, 0
        for name, text in self.records:
            starts[name] = at
            at += len(text) + 1
        intervals = -(-at // interval)
        around = math.ceil(neighbors * intervals)
        before = math.ceil((around - 1) / 2)
        counts = {name: [0] * len(text) for name, text in self.records}
        for name1, begin1, name2, begin2, end2, strand in segments:
            own = (starts[name2] + begin2) // interval
            first = min(max(own - before, 0), intervals - around)
            other = (starts[name1] + begin1) // interval
            trivial = strand == "+" and (name1, begin1) == (name2, begin2)
            if not trivial and first <= other < first + around:
                for base in range(begin2, end2):
                    counts[name2][base] += 1
        lines = []
        for name, text in self.records:
            masked = "".join("x" if count >= most else "." for count in counts[name])
            lines += ["%s\t%d\t%d" % (name, run.start(), run.end())
                      for run in re.finditer("x+", masked)]
        return lines

    def test_masks_are_the_count_of_lastzs_hsps(self):
        daemon = self.daemon(indexes={"self": self.index})
        segments = self.lastz_segments()
        self.assertGreater(len(segments), 300)
        masks = []
        for most, neighbors, interval in ((1, 1.0, 10000000), (4, 1.0, 10000000), (9, 1.0, 10000000),
                                          (1, 0.2, INTERVAL), (2, 0.35, INTERVAL)):
            with self.subTest(most=most, neighbors=neighbors):
                done = daemon.client("mask", self.genome, "--index", "self", "--M", most,
                                     "--neighbor_proportion", neighbors, "--interval", interval,
                                     check=0)
                masks.append(self.want(segments, most, neighbors, interval))
                self.assertEqual(done.stdout.splitlines(), masks[-1])
        self.assertEqual(len(set(map(str, masks))), len(masks))
        other = self.file("other.fa", fasta(self.records[:1]))
        done = daemon.client("mask", other, "--index", "self", check=1)
        self.assertIn("is not of", done.stderr)

    def test_a_genome_is_masked_without_a_server(self):
        bed, masked = self.path("out.bed"), self.path("out.fa")
        hspz_test.client("mask", self.genome, "--cache", self.path("cache"), "--threads", 1, "--M", 2,
                         "-o", bed, "--fasta", masked, "--markend", check=0,
                         env=hspz_test.child_env(TMPDIR=self.path("")))
        *lines, last = open(bed).read().splitlines()
        self.assertEqual(last, "# segalign_repeat_masker end-of-file")
        want = {name: list(text) for name, text in self.records}
        for line in lines:
            name, begin, end = line.split("\t")
            for base in range(int(begin), int(end)):
                want[name][base] = want[name][base].lower()
        self.assertEqual(hspz_test.read_fasta(masked),
                         [(name, "".join(want[name])) for name, _ in self.records])
        self.assertGreater(len(lines), 10)

    def test_kmers_that_come_often_are_masked(self):
        for k, least in ((11, 2), (21, 3), (32, 2), (1, 8000)):
            with self.subTest(k=k, least=least):
                bed = hspz_test.client("mask", self.genome, "--kmers", least, "--k", k, check=0)
                counts = Counter()
                kmers = {}
                for name, text in self.records:
                    for at in range(len(text) - k + 1):
                        word = text[at:at + k].upper()
                        kmers[name, at] = min(word, reverse_complement(word))
                        counts[kmers[name, at]] += 1
                want = []
                for name, text in self.records:
                    masked = ["."] * len(text)
                    for at in range(len(text) - k + 1):
                        if counts[kmers[name, at]] >= least:
                            masked[at:at + k] = "x" * k
                    want += ["%s\t%d\t%d" % (name, run.start(), run.end())
                             for run in re.finditer("x+", "".join(masked))]
                self.assertEqual(bed.stdout.splitlines(), want)
                self.assertGreater(len(want), 2)

    def test_what_cannot_be_meant_is_refused(self):
        same = self.path("same")
        for options, said in ((["--kmers", 0], "--kmers \"0\""),
                              (["--fasta", "-"], "--fasta -: the BED goes there"),
                              (["-o", same, "--fasta", same], "the BED goes there")):
            done = hspz_test.client("mask", self.genome, *options, check=2)
            self.assertIn(said, done.stderr)
        self.assertFalse(os.path.exists(same))


if __name__ == "__main__":
    hspz_test.main()
