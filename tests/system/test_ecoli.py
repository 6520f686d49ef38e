"""Discovery of one real E. coli strain in another, against LASTZ (53,743,981 hits) and KegAlign."""

import os

import numpy

import hspz_test
from hspz_test import SHAPE_12OF19, build_index, fasta
from lastz import keys_of, lastz_command
from test_oracle import MAX_HITS_OF_RUN, calls, sha256


class EcoliTest(hspz_test.TestCase):
    """Two real E. coli strains; a minute or so."""

    def setUp(self):
        super().setUp()
        self.ref = self.file("ref.fa", fasta(hspz_test.read_fasta(hspz_test.mg1655())))
        self.query = self.file("query.fa", fasta(hspz_test.read_fasta(hspz_test.nc_008253())))
        self.query_len = len(hspz_test.read_fasta(self.query)[0][1])
        index = hspz_test.build_index(self.ref, self.path("ref.hspz"), "--unmask",
                                      "--all-positions")
        self.server = self.daemon(indexes={"ecoli": index}, threads=2)

    def assert_same_keys(self, got, want):
        self.assertGreater(len(want), 0)
        if not numpy.array_equal(got, want):
            extra = numpy.setdiff1d(got, want)[:3]
            missing = numpy.setdiff1d(want, got)[:3]
            self.fail("%d hits, LASTZ has %d; first of ours alone %s, of LASTZ's alone %s" % (
                len(got), len(want), *([(int(k) >> 63, int(k) >> 31 & 0xFFFFFFFF,
                                         int(k) & 0x7FFFFFFF) for k in keys]
                                       for keys in (extra, missing))))

    def lastz_keys(self):
        return keys_of(lastz_command(self.ref, self.query, SHAPE_12OF19, True, 1, True,
                                     "zstart1,zstart2+,strand2"), (1, 2, 3))

    def packed_keys(self, strand):
        out = self.path("%s.u64" % strand)
        self.server.client("discover", "ecoli", self.query, "--unmask", "--format", "packed",
                           "--strand", strand, "-o", out, check=0)
        anchors = numpy.fromfile(out, dtype="<u8")
        os.unlink(out)
        span = len(SHAPE_12OF19)
        ref = (anchors & 0xFFFFFFFF) - span
        query = (anchors >> 32) - span
        if strand == "minus":
            query = self.query_len - query - span | 1 << 63
        return query.astype(numpy.uint64) | ref.astype(numpy.uint64) << numpy.uint64(31)

    def test_ecoli_packed_gives_what_lastz_gives(self):
        want = self.lastz_keys()
        self.assertEqual(len(want), 53743981)
        got = numpy.concatenate([self.packed_keys("plus"), self.packed_keys("minus")])
        got.sort()
        self.assert_same_keys(got, want)


class EcoliOracleTest(hspz_test.TestCase):
    def test_ecoli_anchors_equal_kegaligns_by_hash(self):
        order = calls("ecoli")
        index = build_index(hspz_test.mg1655(), self.path("mg.hspz"))
        out = self.path("packed")
        daemon = self.daemon(indexes={"mg": index}, threads=2)
        daemon.client("discover", "mg", hspz_test.nc_008253(), "--max-hits", MAX_HITS_OF_RUN,
                      "--format", "packed", "-o", out, check=0)
        with open(out, "rb") as file:
            for number, (_, limits, want) in enumerate(order):
                self.assertEqual(sha256(file.read(8 * limits[-1][3])), want, "call %d" % number)
            self.assertEqual(file.read(), b"")
        self.assertEqual(os.path.getsize(out), 8 * 53743970)


class EcoliKegAlignTest(hspz_test.TestCase):
    def test_kegaligns_files_from_one_command(self):
        """Index, daemon, HSPs and files in one go."""
        hspz_test.client("kegalign", "--private", hspz_test.mg1655(), hspz_test.nc_008253(), "data/",
                         "--cache", self.path("cache"), "--out-dir", self.path("out"), check=0,
                         timeout=600)
        with open(hspz_test.shared("oracle", "ecoli", "SHA256SUMS"), encoding="ascii") as file:
            want = {name: digest for digest, name in map(str.split, file)
                    if name.endswith(".segments")}
        self.assertEqual(len(want), 2)
        for name, digest in want.items():
            with open(self.path(os.path.join("out", name)), "rb") as file:
                self.assertEqual(sha256(file.read()), digest)


if __name__ == "__main__":
    hspz_test.main()
