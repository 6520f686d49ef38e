"""Exact counts of E. coli's k-mers against jellyfish and kmc; a gqf's against the exact ones."""

import os
import subprocess

import hspz_test


def lines(text):
    return sorted(line for line in text.splitlines() if not line.startswith(b"#"))


def words(text):
    """The lines of a dump, each of which is there once."""
    rows = [line for line in text.splitlines() if not line.startswith(b"#")]
    found = frozenset(rows)
    assert len(found) == len(rows), "a word is there twice"
    return found


class EcoliTest(hspz_test.TestCase):
    def run_tool(self, name, *args):
        return subprocess.run([hspz_test.tool(name), *map(str, args)], check=True, capture_output=True,
                              cwd=self.path(".")).stdout

    def test_counts_are_those_of_jellyfish_and_kmc(self):
        ref = self.file("ref.fa", hspz_test.fasta(hspz_test.read_fasta(hspz_test.mg1655())))
        served = self.daemon(threads=2)
        kmers = lambda *args: served.client("kmers", *args, check=0, text=False).stdout
        for k, strands in ((15, []), (21, []), (31, ["--stranded"])):
            name = "ec%d" % k
            kmers("count", name, hspz_test.mg1655(), "-k", k, *strands)
            got = words(kmers("dump", name))
            self.run_tool("jellyfish", "count", "-m", k, *([] if strands else ["-C"]), "-s", "8M", "-t", 2,
                          "-o", "j.jf", ref)
            want = words(self.run_tool("jellyfish", "dump", "-c", "-t", "j.jf"))
            self.assertGreater(len(want), 4400000)
            self.assertTrue(got == want, "%d-mers differ from jellyfish's" % k)
            want = self.run_tool("jellyfish", "histo", "-h", 1000000, "j.jf").replace(b" ", b"\t")
            self.assertEqual(lines(kmers("histogram", name)), lines(want))
            if k == 21:
                os.mkdir(self.path("tmp"))
                self.run_tool("kmc", "-k21", "-ci1", "-cs1000000000", "-fm", ref, "kmc", "tmp")
                self.run_tool("kmc_tools", "transform", "kmc", "dump", "-s", "kmc.txt")
                with open(self.path("kmc.txt"), "rb") as file:
                    self.assertTrue(got == words(file.read()), "differs from kmc's")
        kmers("count", "g", ref, "-k", 21, "--kind", "gqf", "--capacity", 5000000, "--rate", "0.001")
        asked = kmers("query", "g", ref).splitlines()
        exact = kmers("query", "ec21", ref).splitlines()
        self.assertEqual(len(asked), len(exact))
        bound = float(asked[0].split(b"at most ")[1].split()[0])
        more = 0
        for a, b in zip(asked[2:], exact[2:]):
            if a != b:
                self.assertGreater(int(a.split(b"\t")[3]), int(b.split(b"\t")[3]))
                more += 1
        self.assertLessEqual(more, 1.2 * bound * len(exact) + 20)


if __name__ == "__main__":
    hspz_test.main()
