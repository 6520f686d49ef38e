"""The HSPs of pairs of real genomes against `lastz --nogapped --nochain --recoverseeds`. Without
KegAlign's chunks they are LASTZ's, but for at most one a pair. E. coli has one more: LASTZ takes a
diagonal as done up to where its first hit extended to, also when that extension scored too little.
H. pylori and S. aureus have one that differs by 1 in score, or in one end at equal score."""

import collections
import subprocess

import hspz_test as t

COLUMNS = "general:name1,start1,end1,name2,start2+,end2+,strand2,score"


class GenomesTest(t.TestCase):
    def plain(self, path, name):
        return self.file(name, t.fasta(t.read_fasta(path)))

    def lastz(self, ref, query):
        """Rows of segments, minus ones counted as hspz counts them: on the plus strand."""
        done = subprocess.run(
            [t.tool("lastz"), ref + "[multiple][nameparse=darkspace]",
             query + "[nameparse=darkspace]", "--nogapped", "--nochain", "--recoverseeds",
             "--seed=12of19", "--transition", "--xdrop=910", "--hspthresh=3000",
             "--format=" + COLUMNS],
            capture_output=True, check=True, timeout=600 * t.SLOWER, text=True)
        return [tuple(line.split("\t")) for line in done.stdout.splitlines() if line[0] != "#"]

    def check_pair(self, ref, query, count, other):
        """`count` HSPs on either side, of which at most `other` differ."""
        ref, query = self.plain(ref, "ref.fa"), self.plain(query, "query.fa")
        index = t.build_index(ref, self.path("ref.hspz"), "--all-positions")
        daemon = self.daemon(indexes={"ref": index}, threads=2)
        done = daemon.client("hsps", "ref", query, check=0, timeout=600)
        got = []
        for line in done.stdout.splitlines()[1:]:
            name, start, end, q, q_start, q_end, strand, score = line.split("\t")
            got.append((name, str(int(start) + 1), end, q, str(int(q_start) + 1), q_end, strand,
                        score))
        want = self.lastz(ref, query)
        self.assertEqual(len(want), count)
        common = collections.Counter(got) & collections.Counter(want)
        self.assertGreaterEqual(sum(common.values()), count - other)
        self.assertLessEqual(len(got), count + other)

    def test_helicobacter(self):
        self.check_pair(t.genome("ragout", "examples/H.Pylori/references/G27.fasta.gz"),
                        t.genome("ragout", "examples/H.Pylori/references/ELS37.fasta.gz"), 3472, 1)

    def test_staphylococcus(self):
        self.check_pair(t.genome("ragout", "examples/S.Aureus/references/COL.fasta.gz"),
                        t.genome("ragout", "examples/S.Aureus/references/N315.fasta.gz"), 13329, 1)

    def test_escherichia(self):
        self.check_pair(t.mg1655(), t.nc_008253(), 26940, 1)

    def test_apple_and_orange(self):
        self.check_pair(t.shared("data", "apple.fasta.gz"), t.shared("data", "orange.fasta.gz"),
                        1225, 0)


if __name__ == "__main__":
    t.main()
