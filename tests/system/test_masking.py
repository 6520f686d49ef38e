"""Masking in discovery against LASTZ: words by share, positions hit often, two transitions."""

import random
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


if __name__ == "__main__":
    hspz_test.main()
