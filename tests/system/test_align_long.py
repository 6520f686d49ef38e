"""align against KegAlign's own two commands on the E. coli pair: the same alignments, and the times."""

import os
import resource
import subprocess
import time

import hspz_test
from hspz_test import client, fasta, shared, tool
from test_align import maf_blocks


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class AlignLongTest(hspz_test.TestCase):
    def test_ecoli_gives_what_kegaligns_commands_give(self):
        lastz = tool("lastz")
        target = self.file("t.fa", fasta(hspz_test.read_fasta(hspz_test.mg1655())))
        query = self.file("q.fa", fasta(hspz_test.read_fasta(hspz_test.nc_008253())))
        folder = shared("oracle", "ecoli")
        begin, used = time.monotonic(), children_seconds()
        running = [subprocess.Popen(
            [lastz, target + "[nameparse=darkspace][multiple]", query + "[nameparse=darkspace]",
             "--format=maf-", "--ydrop=9430", "--gappedthresh=3000", "--strand=" + strand,
             "--segments=" + os.path.join(folder, "tmp1.block0.r0.%s.segments" % strand),
             "--output=" + self.path(strand)]) for strand in ("plus", "minus")]
        self.assertEqual([process.wait() for process in running], [0, 0])
        print("KegAlign's commands: %.0f s, %.0f s of processors"
              % (time.monotonic() - begin, children_seconds() - used))
        want = ""
        for strand in ("plus", "minus"):
            with open(self.path(strand), encoding="utf-8") as file:
                want += file.read()
        want = maf_blocks(want)
        self.assertEqual(sum(want.values()), 21447)
        begin, used = time.monotonic(), children_seconds()
        done = client("align", target, query, folder, "-o", self.path("out.maf"), check=0,
                      timeout=1500)
        print("align: %.0f s, %.0f s of processors, %s"
              % (time.monotonic() - begin, children_seconds() - used, done.stderr.strip()))
        with open(self.path("out.maf"), encoding="utf-8") as file:
            self.assertEqual(maf_blocks(file.read()), want)


if __name__ == "__main__":
    hspz_test.main()
