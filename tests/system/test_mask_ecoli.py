"""Queries masked by filters of k-mers of E. coli, against jellyfish's counts and anchors left out here."""

import subprocess

import hspz_test
from hspz_test import fasta, reverse_complement
from test_kmers import cut


class EcoliTest(hspz_test.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ref = hspz_test.read_fasta(hspz_test.mg1655())
        other = hspz_test.read_fasta(hspz_test.nc_008253())[0][1]
        # With what a query may hold beside bases.
        cls.query = [("a", other[:60000]),
                     ("b", other[300000:300070] + "N" + other[300071:350000].lower()),
                     ("c", cls.ref[0][1][270000:290000])]

    def setUp(self):
        super().setUp()
        self.ref_file = self.file("ref.fa", fasta(self.ref))
        self.query_file = self.file("query.fa", fasta(self.query))
        self.server = self.daemon(threads=2, indexes={"ref": hspz_test.build_index(
            self.ref_file, self.path("ref.hspz"))})

    def often(self, k, above, *options):
        """The reference's k-mers that jellyfish counts more than `above` times."""
        jellyfish = hspz_test.tool("jellyfish")
        subprocess.run([jellyfish, "count", "-m", str(k), "-s", "8M", "-t", "2", "-o",
                        self.path("j.jf"), *options, self.ref_file], check=True)
        dump = subprocess.run([jellyfish, "dump", "-c", "-L", str(above + 1), self.path("j.jf")],
                              capture_output=True, text=True, check=True).stdout
        words = {line.split()[0] for line in dump.splitlines()}
        self.assertGreater(len(words), 100)
        return words

    def rows(self, command, *options):
        done = self.server.client(command, "ref", self.query_file, "--unmask", *options, check=0)
        return done.stdout.splitlines()[1:]

    def kept(self, rows, words, k, canonical):
        """The rows whose window does not begin with one of the words."""
        found = {}
        for name, text in self.query:
            found[name, "+"] = cut(text, k, canonical)
            found[name, "-"] = cut(reverse_complement(text.upper()), k, canonical)
        out = []
        for row in rows:
            _, _, _, name, begin, end, strand = row.split("\t")
            words_of = found[name, strand]
            at = int(begin) if strand == "+" else len(words_of) - int(end)
            if words_of[at] not in words:
                out.append(row)
        return out

    def test_anchors_are_those_that_jellyfish_leaves(self):
        whole = self.rows("discover", "--no-transitions")
        for k, above, stranded in ((12, 8, False), (19, 1, False), (31, 1, False), (15, 2, True)):
            name = "f%d" % k
            self.server.client("kmers", "count", name, self.ref_file, "-k", k,
                               *(["--stranded"] if stranded else []), check=0)
            got = self.rows("discover", "--no-transitions", "--mask-filter", "%s:%d" % (name, above))
            want = self.kept(whole, self.often(k, above, *([] if stranded else ["-C"])), k,
                             not stranded)
            self.assertGreater(len(whole) - len(want), 1000, k)
            self.assertGreater(len(want), 1000, k)
            self.assertTrue(got == want, "%d rows, not %d, k %d" % (len(got), len(want), k))

    def test_filters_that_err_leave_less(self):
        words = self.often(21, 1, "-C")
        whole = self.rows("discover", "--no-transitions")
        want = self.kept(whole, words, 21, True)
        self.server.client("kmers", "count", "g", self.ref_file, "-k", "21", "--kind", "gqf",
                           "--capacity", "5000000", "--rate", "0.02", check=0)
        got = self.rows("discover", "--no-transitions", "--mask-filter", "g:1")
        self.assertLess(len(got), len(want))
        self.assertGreater(len(got), 0.9 * len(want))
        left = iter(want)
        self.assertTrue(all(row in left for row in got))  # in order, too

    def test_hsps_and_cut_chunks_and_presence(self):
        own = self.ref[0][1][:600000]
        self.server.client("kmers", "count", "own", self.file("own.fa", fasta([("o", own)])), "-k", "24",
                           check=0)
        whole = self.rows("discover")
        left = self.rows("discover", "--mask-filter", "own", "--max-hits", "1000")
        self.assertEqual(left, self.kept(whole, {w for w in cut(own, 24) if w}, 24, True))
        self.assertLess(len(left), len(whole))
        hsps = self.rows("hsps")
        some = self.rows("hsps", "--mask-filter", "own")
        self.assertTrue(0 < len(some) < len(hsps))
        self.assertEqual(some, self.rows("hsps", "--mask-filter", "own:0", "--max-hits", "5000"))
        self.assertEqual(hsps, self.rows("hsps", "--mask-filter", "own:1000"))


if __name__ == "__main__":
    hspz_test.main()
