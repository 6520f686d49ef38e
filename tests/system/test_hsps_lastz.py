"""HSPs of small pairs against LASTZ's ungapped ones, with each option of scoring.

A segment of hspz may be missing from LASTZ, which takes a diagonal as done up to where a hit before extended to, also
when that extension scored too little; none of LASTZ's may be missing here."""

import random
import subprocess

import hspz_test
from hspz_test import SHAPE_12OF19, bases, build_index, fasta

SCORES = """bad_score = -750
fill_score = -55
gap_open_penalty = 400

   A    C    G    T
A  85 -110  -30 -120
C -110  95 -125  -30
G -30 -125   95 -110
T -120 -30 -110   86
"""


def lastz_segments(ref, query, *options):
    done = subprocess.run(
        [hspz_test.tool("lastz"), ref + "[multiple]", query, "--seed=" + SHAPE_12OF19, "--transition", "--nogapped",
         "--nochain", "--recoverseeds", "--format=general-:name1,zstart1,end1,name2,zstart2+,end2+,strand2,score",
         *options], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


class HspsLastzTest(hspz_test.TestCase):
    def segments(self, daemon, name, query, *options):
        lines = daemon.client("hsps", name, query, *options, check=0).stdout.splitlines()
        self.assertTrue(lines[0].startswith("#"), lines[0])
        self.assertEqual(len(set(lines)), len(lines))
        return lines[1:]

    def test_small_pairs_give_lastzs_with_each_option(self):
        daemon = self.daemon()
        scores = self.file("scores", SCORES)
        settings = (
            ((), ()),
            (("--xdrop", "300"), ("--xdrop=300",)),
            (("--xdrop", "2500"), ("--xdrop=2500",)),
            (("--hspthresh", "1800"), ("--hspthresh=1800",)),
            (("--hspthresh", "1500", "--noentropy"), ("--hspthresh=1500", "--noentropy")),
            (("--ambiguous", "n"), ("--ambiguous=n",)),
            (("--ambiguous", "n,20,40"), ("--ambiguous=n,20,40",)),
            (("--ambiguous", "iupac,10,30"), ("--ambiguous=iupac,10,30",)),
            (("--scoring", scores), ("--scores=" + scores, "--xdrop=910")),
        )
        found = alone = 0
        for number, (ours_with, lastz_with) in enumerate(settings * 3):
            rng = random.Random(number)
            ref_bases = bases(rng, 6000)
            query_bases = list(ref_bases[500:5500])
            iupac = any("iupac" in option for option in ours_with)
            for at in range(len(query_bases)):
                chance = rng.random()
                if chance < 0.09:
                    query_bases[at] = rng.choice("ACGT")
                elif chance < 0.094:
                    query_bases[at] = rng.choice("NRY" if iupac else "N")
                elif chance < 0.0945:
                    query_bases[at] = ""
            for _ in range(4):
                at = rng.randrange(4500)
                query_bases[at:at + 60] = [base.lower() for base in query_bases[at:at + 60]]
            query_text = "".join(query_bases)
            query_records = [("a", query_text[:2500]),
                             ("b", hspz_test.reverse_complement(query_text[2500:]))]
            ref = self.file("r%d.fa" % number, fasta([("x", ref_bases[:3000]), ("y", ref_bases[3000:])]))
            query = self.file("q%d.fa" % number, fasta(query_records))
            name = "small%d" % number
            index = build_index(ref, self.path(name), "--all-positions")
            daemon.client("index", "load", name, index, check=0)
            with self.subTest(number=number, options=ours_with):
                ours = self.segments(daemon, name, query, *ours_with)
                lastz = lastz_segments(ref, query, *lastz_with)
                self.assertEqual(sorted(set(lastz) - set(ours))[:3], [])
                found += len(lastz)
                alone += len(set(ours) - set(lastz))
            daemon.client("index", "unload", name, check=0)
        self.assertGreater(found, 300)
        self.assertLess(alone, found // 50)


if __name__ == "__main__":
    hspz_test.main()
