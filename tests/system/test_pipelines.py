"""What comes out goes into the field's tools: bedtools, LASTZ, and a Snakemake workflow of all of them."""

import json
import os
import random
import subprocess

import hspz_test
from hspz_test import SOURCE, bases, reverse_complement, tool


def run(*command, stdin=None, **more):
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False,
                          timeout=60 * hspz_test.SLOWER, **more)
    if done.returncode != 0:
        raise AssertionError("%s: exit %d\n%s" % (" ".join(command), done.returncode,
                                                  (done.stdout + done.stderr)[-3000:]))
    return done.stdout


def merged(ranges):
    """Half-open ranges that touch become one."""
    out = []
    for name, begin, end in sorted(ranges):
        if out and out[-1][0] == name and begin <= out[-1][2]:
            out[-1] = (name, out[-1][1], max(out[-1][2], end))
        else:
            out.append((name, begin, end))
    return out


def bed(text):
    return [(row[0], int(row[1]), int(row[2])) for row in
            (line.split("\t") for line in text.splitlines()) if not row[0].startswith("#")]


class PipelineTest(hspz_test.TestCase):
    def setUp(self):
        super().setUp()
        rng = random.Random(12)
        core = bases(rng, 12000)
        self.reference = [("chr1", core[:7000]), ("chr2", core[7000:])]
        noisy = "".join(c if rng.random() > 0.06 else rng.choice("ACGT") for c in core[1000:4000])
        # With gaps, so that it takes more than one HSP.
        noisy = noisy[:800] + noisy[830:1700] + bases(rng, 25) + noisy[1700:]
        self.queries = {
            "a": [("a1", noisy + bases(rng, 500)), ("a2", reverse_complement(core[8000:10000]))],
            "b": [("b1", core[9000:11500] + core[200:900])]}
        self.files = {name: self.file(name + ".fa", hspz_test.fasta(records))
                      for name, records in self.queries.items()}
        self.index_file = self.index(self.reference)
        self.target = self.path("ref.fa")

    def test_bedtools_reads_the_table_and_paf(self):
        """Merged by bedtools and by hand; those that meet a range; both sides of PAF."""
        bedtools = tool("bedtools")
        daemon = self.daemon(indexes={"ref": self.index_file})
        for command in ("hsps", "discover"):
            table = daemon.client(command, "ref", self.files["a"], check=0).stdout
            rows = bed(table)
            self.assertGreater(len(rows), 2)
            order = "".join("%s\t%d\t%d\n" % row for row in sorted(rows))
            self.assertEqual(bed(run(bedtools, "merge", "-i", "-", stdin=order)), merged(rows))
            window = self.file("window.bed", "chr1\t1500\t1600\n")
            three = "".join("%s\t%d\t%d\n" % row for row in rows)
            got = bed(run(bedtools, "intersect", "-u", "-a", "-", "-b", window, stdin=three))
            self.assertEqual(got, [r for r in rows if r[0] == "chr1" and r[1] < 1600 and r[2] > 1500])
            self.assertTrue(got)
        # PAF as BEDPE: both sides with strands, one row an HSP.
        paf = [line.split("\t") for line in
               daemon.client("hsps", "ref", self.files["a"], "--format", "paf", check=0
                             ).stdout.splitlines()]
        bedpe = "".join("\t".join([r[5], r[7], r[8], r[0], r[2], r[3], ".", r[11], "+", r[4]]) + "\n"
                        for r in paf)
        window = self.file("window.bed", "chr2\t1200\t1300\n")
        got = run(bedtools, "pairtobed", "-a", "-", "-b", window, "-type", "either", stdin=bedpe)
        self.assertEqual({line.split("\t")[3] for line in got.splitlines()}, {"a2"})
        self.assertEqual({line.split("\t")[9] for line in got.splitlines()}, {"-"})

    def test_lastz_takes_the_segments(self):
        """Each segment's middle is in an alignment of LASTZ's from these segments."""
        lastz = tool("lastz")
        daemon = self.daemon(indexes={"ref": self.index_file})
        segments = self.path("hsps.segments")
        daemon.client("hsps", "ref", self.files["a"], "--format", "segments", "-o", segments, check=0)
        with open(segments, encoding="utf-8") as file:
            rows = [line.split() for line in file if not line.startswith("#")]
        self.assertGreater(len(rows), 2)
        text = run(lastz, self.target + "[multiple]", self.files["a"], "--segments=" + segments,
                   "--format=general-:name1,zstart1,end1,name2,strand2")
        blocks = [(r[0], int(r[1]), int(r[2]), r[3], r[4]) for r in map(str.split, text.splitlines())]
        for ref, begin, end, query, _, _, strand, *_ in rows:
            middle = (int(begin) + int(end)) // 2
            self.assertTrue(any(b[0] == ref and b[1] <= middle < b[2] and b[3:] == (query, strand)
                                for b in blocks), (ref, begin, end, query, strand, blocks))

    def test_the_workflow_runs(self):
        snakemake = tool_or_skip("snakemake")
        tool("bedtools")
        tool("lastz")
        out = self.path("results")
        env = hspz_test.child_env(
            PATH=":".join([os.path.dirname(hspz_test.CLIENT), os.path.dirname(hspz_test.HSPZD),
                           "/usr/bin", "/bin"]), HOME=self.folder, XDG_CACHE_HOME=self.folder)
        command = [snakemake, "-s", os.path.join(SOURCE, "client", "pipelines", "Snakefile"),
                   "--cores", "2", "--directory", self.folder, "--config",
                   "reference=" + self.target, "queries=" + ",".join(self.files.values())]
        run(*command, env=env)
        daemon = self.daemon(indexes={"ref": self.index_file})
        for name, path in self.files.items():
            want = daemon.client("hsps", "ref", path, check=0).stdout
            self.assertEqual(self.read(out, name + ".hsps.tsv"), want)
            self.assertEqual(bed(self.read(out, name + ".covered.bed")), merged(bed(want)))
            self.assertEqual(self.read(out, name + ".segments"),
                             daemon.client("hsps", "ref", path, "--format", "segments", check=0).stdout)
            self.assertEqual(self.read(out, name + ".paf"), daemon.client(
                "hsps", "ref", path, "--format", "paf", "--target", self.target, check=0).stdout)
            self.assertRegex(self.read(out, name + ".maf"), r"(?m)^s chr[12] ")
        # Nothing is left running, and nothing is left to do.
        self.assertTrue(hspz_test.poll(lambda: not os.path.exists(out + "/hspz.sock"), 30))
        told = run(*command, "--dry-run", env=env)
        self.assertIn("Nothing to be done", told)

    def read(self, *parts):
        with open(os.path.join(*parts), encoding="utf-8") as file:
            return file.read()

    def test_scripts_get_json_status_and_one_line(self):
        daemon = self.daemon(indexes={"ref": self.index_file})
        with daemon.peer() as peer:
            rows = peer.call("index.list")["indexes"]
            told = peer.call("index.describe", index="ref")
        self.assertEqual(len(rows), 1)
        self.assertEqual(json.loads(daemon.client("index", "list", "--json", check=0).stdout), rows)
        wanted = {key: value for key, value in told.items() if key not in (
            "blocks", "first", "weight", "sequences")}
        got = json.loads(daemon.client("index", "describe", "ref", "--json", check=0).stdout)
        self.assertEqual(got, wanted)
        got = json.loads(daemon.client("index", "describe", "ref", "--json", "--sequences", check=0).stdout)
        self.assertEqual([list(row.values()) for row in got["sequences"]], told["sequences"])
        out = self.path("out")
        done = daemon.client("--quiet", "hsps", "ref", self.files["a"], "-o", out, check=0)
        self.assertEqual((done.stdout, done.stderr), ("", ""))
        for arguments, status in ((["hsps", "nothing", self.files["a"], "-o", out + "2"], 1),
                                  (["hsps", "ref", self.path("absent.fa")], 1),
                                  (["hsps", "ref"], 2), (["--wait", "x", "health"], 2)):
            done = daemon.client("--quiet", *arguments, check=status)
            self.assertEqual(done.stdout, "")
            self.assertRegex(done.stderr, r"\Ahspz-client: [^\n]+\n(Try: [^\n]+\n)?\Z")
        self.assertFalse(os.path.exists(out + "2"))
        done = daemon.client("index", "describe", "nothing", check=1)
        self.assertIn('"nothing"; `hspz-client index list` shows', done.stderr)


def tool_or_skip(name):
    """One that is large, and so is not of those a check installs."""
    import shutil
    import unittest
    path = shutil.which(name, path="/usr/bin:/bin")
    if path is None:
        raise unittest.SkipTest("no %s" % name)
    return path


if __name__ == "__main__":
    hspz_test.main()
