"""`hspz-client hsps` and `kegalign` against a stub server: formats, files, archives, pairs, plans,
pieces, LASTZ commands, and what fails. Truth is found sequence by sequence."""

import gzip
import json
import os
import random
import re
import resource
import shlex
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hsp_stub import HspStub, true_hsps  # noqa: E402
from stub import SHAPE, Index, reverse_complement  # noqa: E402

CLIENT = os.path.join(os.environ["HSPZ_BUILD"], "client", "hspz-client")
SPAN = len(SHAPE)


def segment(hsp):
    ref, r, query, q, n, strand, _ = hsp
    return "%s\t%d\t%d\t%s\t%d\t%d\t%s\t%d" % (ref, r + 1, r + n, query, q + 1, q + n, strand,
                                               100 * n)


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="hspz-hsps-")
        self.addCleanup(shutil.rmtree, self.dir)
        rng = random.Random(3)

        def bases(n):
            return "".join(rng.choices("ACGT", k=n))
        self.refs = [("r0", bases(400)), ("", ""), ("r/1", bases(300)), ("r2", bases(25)),
                     ("r3", bases(500)), ("r4", bases(60))]
        self.refs[1] = ("none", "")
        whole = "".join(b for _, b in self.refs)
        self.queries = [("q0", whole[100:250] + bases(40) + reverse_complement(whole[600:800])),
                        ("empty", ""), ("q\xe91", whole[700:900] + bases(9)), ("short", "ACGT"),
                        ("q2", reverse_complement(whole[20:120]) + whole[500:560] + whole[0:70]),
                        ("q3", bases(200)), ("q4", whole[900:1280])]
        self.index = Index(self.refs, per_block=3)
        text = "".join(">%s x\n%s\n" % q for q in self.queries).encode("latin-1")
        self.query = self.path("q.fa")
        with open(self.query, "wb") as f:
            f.write(text)
        self.truth = true_hsps(self.refs, self.queries)
        self.assertGreater(len(self.truth), 8)

    def path(self, name):
        return os.path.join(self.dir, name)

    def run_client(self, *args, status=0, **faults):
        part, cwd = faults.pop("part", 3), faults.pop("cwd", self.dir)
        server = HspStub(self.path("s.sock"), self.index, part=part, **faults)
        with server:
            done = subprocess.run([CLIENT, "--server", server.address] + [str(a) for a in args],
                                  capture_output=True, timeout=300, cwd=cwd,
                                  env=dict(os.environ, XDG_CACHE_HOME=self.path("cache")))
        self.assertEqual(done.returncode, status, done.stderr.decode())
        self.all_requests = server.requests
        self.requests = [m for m in server.requests if m[2] == "discover"]
        return done

    def hsps(self, *args, **faults):
        return self.run_client("hsps", "ref", self.query, *args, **faults)

    def lines(self, done):
        return done.stdout.decode("latin-1").splitlines()

    def files(self, folder):
        out = {}
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as f:
                out[name] = f.read().decode("latin-1")
        return out

    # What KegAlign's rules make of the truth, in block coordinates looked up by sequence.

    def expected_files(self, interval=10 ** 7, block_size=10 ** 9, strands="+-"):
        files = {}
        places, starts, at, start = {}, [], 0, 0
        for i, (name, bases) in enumerate(self.refs):
            if i % 3 == 0:
                start += at - 1 if i else 0
                starts.append(start)
                at = 0
            places[name] = (i // 3, at)
            at += len(bases) + 1
        for b in range(len(starts)):
            files["ref_block%d.name" % b] = "".join(
                n + "\n" for n, _ in self.refs[3 * b:3 * b + 3])
        blocks, current, size = [], [], -1
        for q in self.queries:
            if current and size > block_size:
                blocks.append(current)
                current, size = [], -1
            current.append(q)
            size += len(q[1]) + 1
        blocks.append(current)
        for b, block in enumerate(blocks):
            files["query_block%d.name" % b] = "".join(n + "\n" for n, _ in block)
            total = sum(len(s) + 1 for _, s in block) - 1
            end = total - SPAN
            at, offsets = 0, {}
            for name, s in block:
                offsets[name] = at
                at += len(s) + 1
            keyed = {}
            for hsp in self.truth:
                ref, r, query, q, n, strand, length = hsp
                if query not in offsets or strand not in strands:
                    continue
                rb, roff = places[ref]
                if strand == "+":
                    pos = offsets[query] + q
                else:
                    pos = total - (offsets[query] + length) + q
                for k, a in enumerate(range(0, max(end, 1), interval)):
                    e = min(end, a + interval)
                    lo, hi = (a, e) if strand == "+" else (end - e, end - a)
                    if lo <= pos < hi or (pos >= end and (
                            a + interval >= end if strand == "+" else k == 0)):
                        name = "tmp%d.block%d.r%d.%s.segments" % (
                            k + 1, b, starts[rb], "plus" if strand == "+" else "minus")
                        keyed.setdefault(name, []).append((pos, roff + r, hsp))
                        break
                else:
                    self.fail("no interval")
            for name, items in keyed.items():
                items.sort(key=lambda i: i[:2], reverse=".minus." in name)
                files[name] = "".join(segment(i[2]) + "\n" for i in items)
        return files


class Formats(Case):
    def test_rows_are_the_hsps(self):
        rows = self.lines(self.hsps())
        self.assertEqual(rows[0], "#ref\tref_start\tref_end\tquery\tquery_start\tquery_end\tstrand"
                                  "\tscore")
        want = ["%s\t%d\t%d\t%s\t%d\t%d\t%s\t%d" % (
            ref, r, r + n, query, q if strand == "+" else length - q - n,
            q + n if strand == "+" else length - q, strand, 100 * n)
            for ref, r, query, q, n, strand, length in self.truth]
        self.assertEqual(sorted(rows[1:]), sorted(want))
        params = self.requests[0][3][0]
        self.assertEqual(params["output"], "hsps")

    def test_json_lines_hold_the_same(self):
        objects = [json.loads(line) for line in self.lines(self.hsps("--format", "jsonl"))]
        rows = ["\t".join(str(v) for v in o.values()) for o in objects]
        self.assertEqual(rows, self.lines(self.hsps())[1:])

    def test_paf_has_its_columns(self):
        lens = dict(self.refs + self.queries)
        rows = [line.split("\t") for line in self.lines(self.hsps())[1:]]
        for paf, row in zip(self.lines(self.hsps("--format", "paf")), rows, strict=True):
            n = int(row[2]) - int(row[1])
            self.assertEqual(paf.split("\t"), [
                row[3], str(len(lens[row[3]])), row[4], row[5], row[6], row[0],
                str(len(lens[row[0]])), row[1], row[2], str(n), str(n), "255", "AS:i:" + row[7],
                "cg:Z:%dM" % n])

    def test_paf_counts_matches_where_the_bases_are_known(self):
        """The stub's HSPs match everywhere; other bases at hand than it had do not."""
        wrong = {"A": "A", "C": "G", "G": "C", "T": "a"}
        for change in (str, str.lower, lambda b: "".join(wrong[c] for c in b)):
            target = self.path("t.fa")
            with open(target, "w", encoding="ascii") as f:
                f.write("".join(">%s\n%s\n" % (n, change(b)) for n, b in self.refs))
            done = self.hsps("--format", "paf", "--target", target)
            refs = {n: change(b).upper() for n, b in self.refs}
            queries = dict(self.queries)
            rows = [line.split("\t") for line in self.lines(done)]
            self.assertEqual(len(rows), len(self.truth))
            for row in rows:
                ref, query = refs[row[5]][int(row[7]):int(row[8])], \
                    queries[row[0]][int(row[2]):int(row[3])]
                query = reverse_complement(query) if row[4] == "-" else query
                same = sum(a == b for a, b in zip(ref, query, strict=True))
                self.assertEqual(row[9:11] + row[13:], [
                    str(same), str(len(ref)), "NM:i:%d" % (len(ref) - same),
                    "cg:Z:%dM" % len(ref)])
        done = self.hsps("--format", "paf", "--target", self.query, status=1)
        self.assertIn("not those of the index", done.stderr.decode())

    def test_segments_go_query_by_query_plus_first(self):
        got = self.lines(self.hsps("--format", "segments"))
        self.assertEqual(sorted(got), sorted(segment(h) for h in self.truth))
        order = [n for n, _ in self.queries]
        keys = [(order.index(line.split("\t")[3]), line.split("\t")[6] == "-") for line in got]
        self.assertEqual(keys, sorted(keys))

    def test_packed_is_what_came(self):
        data = self.hsps("--format", "packed").stdout
        self.assertEqual(len(data), 16 * len(self.truth))
        self.assertEqual(sorted((n, s) for _, _, n, s in struct.iter_unpack("<IIIi", data)),
                         sorted((h[4], 100 * h[4]) for h in self.truth))

    def test_strands_and_options_are_asked_for(self):
        self.hsps("--strand", "minus", "--xdrop", 5, "--hspthresh", 7, "--noentropy",
                  "--hsp-limit", 99, "--no-transitions", "--max-hits", "kegalign:2")
        params = self.requests[0][3][0]
        self.assertEqual(params["strand"], "minus")
        self.assertEqual(params["max_hits"], 8388608)
        self.assertEqual(params["hsps"], {"xdrop": 5, "threshold": 7, "entropy": False, "limit": 99})
        self.hsps("--compat", "kegalign-0.1", "--ambiguous", "n")
        params = self.requests[0][3][0]
        self.assertEqual(params["interval"], 10000000)
        self.assertEqual(params["hsps"]["scope"], "chunk")
        self.assertEqual(len(params["hsps"]["scores"]), 256)


class Files(Case):
    def test_files_are_kegaligns(self):
        for interval in (10 ** 7, 400, 150, 37):
            for size in (10 ** 9, 300):
                folder = self.path("out-%d-%d" % (interval, size))
                self.hsps("--out-dir", folder, "--interval", interval, "--query-block-size", size)
                self.assertEqual(self.files(folder), self.expected_files(interval, size))

    def test_files_are_the_same_with_the_jobs_intervals(self):
        for interval in (10 ** 7, 400, 37):
            folder = self.path("out-%d" % interval)
            self.hsps("--out-dir", folder, "--interval", interval, "--compat", "kegalign-0.1")
            self.assertEqual(self.files(folder), self.expected_files(interval))

    def test_pieces_of_a_block_change_nothing(self):
        limits = {"max_message": 1 << 30, "max_query_bases": 450}
        for interval in (10 ** 7, 100):
            folder = self.path("out-%d" % interval)
            self.hsps("--out-dir", folder, "--interval", interval, limits=limits)
            self.assertGreater(len(self.requests), 2)
            self.assertEqual(self.files(folder), self.expected_files(interval))
        rows = self.lines(self.hsps())
        self.assertEqual(sorted(self.lines(self.hsps(limits=limits))), sorted(rows))
        done = self.hsps("--compat", "kegalign-0.1", limits=limits, status=1)
        self.assertIn("the server takes 450 at a time", done.stderr.decode())
        limits["max_query_bases"] = 250
        done = self.hsps(limits=limits, status=1)
        self.assertIn("query q0: 390 bases, and the server takes 250 at a time: raise "
                      "max_query_bases and max_message there, or cut the sequence",
                      done.stderr.decode())

    def test_one_strand(self):
        folder = self.path("out")
        self.hsps("--out-dir", folder, "--strand", "minus", "--interval", "200")
        self.assertEqual(self.files(folder), self.expected_files(200, strands="-"))

    def test_an_archive_holds_the_same_and_is_the_same(self):
        data = []
        for part, name in ((1, "a.tar.gz"), (1000, "b.tar.gz")):
            self.hsps("--tar", self.path(name), "--interval", 150, part=part)
            with open(self.path(name), "rb") as f:
                data.append(f.read())
        self.assertEqual(data[0], data[1])
        with tarfile.open(self.path("a.tar.gz")) as tar:
            got = {m.name: tar.extractfile(m).read().decode("latin-1") for m in tar}
        self.assertEqual(got, self.expected_files(150))

    def test_pairs_have_a_file_each(self):
        folder = self.path("pairs")
        self.hsps("--pairs", folder)
        want = {}
        for h in self.truth:
            name = "%s=%s.segments.gz" % (h[0].replace("/", "%2F"), h[2].replace("\xe9", "%E9"))
            want.setdefault(name, []).append(segment(h))
        got = {}
        for name in os.listdir(folder):
            with gzip.open(os.path.join(folder, name)) as f:
                got[name] = f.read().decode("latin-1").splitlines()
            strands = [line.split("\t")[6] for line in got[name]]
            self.assertEqual(strands, sorted(strands))
        self.assertEqual({k: sorted(v) for k, v in got.items()},
                         {k: sorted(v) for k, v in want.items()})

    def test_balanced_blocks_find_the_same(self):
        folder = self.path("out")
        self.hsps("--out-dir", folder, "--query-block-size", 400, "--balanced")
        lines = [line for name, text in self.files(folder).items() if name.startswith("tmp")
                 for line in text.splitlines()]
        self.assertEqual(sorted(lines), sorted(segment(h) for h in self.truth))
        names = [n for name, text in self.files(folder).items() if name.startswith("query")
                 for n in text.splitlines()]
        self.assertEqual(sorted(names), sorted(n for n, _ in self.queries))

    def test_the_plan_names_the_files(self):
        rows = self.lines(self.hsps("--plan", "--interval", 150, "--query-block-size", 300))
        self.assertEqual(self.requests, [])
        names = {row.split("\t")[-1] for row in rows if not row.startswith("#")}
        made = {n for n in self.expected_files(150, 300) if n.startswith("tmp")}
        self.assertLess(made, names)

    def test_an_older_file_is_replaced(self):
        folder = self.path("out")
        os.mkdir(folder)
        name = next(n for n in self.expected_files() if n.startswith("tmp"))
        with open(os.path.join(folder, name), "w", encoding="ascii") as f:
            f.write("old\n" * 10000)
        self.hsps("--out-dir", folder)
        self.assertEqual(self.files(folder), self.expected_files())

    def test_files_of_an_earlier_run_go(self):
        folder = self.path("out")
        old = ["tmp7.block0.r0.plus.segments", "tmp1.block3.r0.minus.segments",
               "tmp1.block0.r0.plus.split12.segments", "tmp1.block0.r0.minus.split1.segments",
               "query_block9.name", "ref_block8.name"]
        kept = ["tmp1.block0.r0.plus.maf", "tmp.block0.r0.plus.segments", "query_block.name",
                "tmp1.block0.r0.plus.segments.gz", "xtmp1.block0.r0.plus.segments", "a.segments",
                "tmp1.block0.r0.plus.segments2"]
        self.assertEqual(set(old) & set(self.expected_files()), set())
        for options in ([], ["-q"]):
            os.makedirs(folder, exist_ok=True)
            for name in old + kept:
                with open(os.path.join(folder, name), "w", encoding="ascii") as f:
                    f.write("old\n")
            there = len([n for n in self.files(folder) if n not in kept])
            self.hsps("--out-dir", folder, status=1, close_after=0)
            self.hsps("--out-dir", folder, "--plan")
            self.assertEqual(len([n for n in self.files(folder) if n not in kept]), there)
            done = self.hsps("--out-dir", folder, *options)
            files = self.files(folder)
            for name in kept:
                self.assertEqual(files.pop(name), "old\n")
            self.assertEqual(files, self.expected_files())
            self.assertEqual(done.stderr.decode(), "" if options else "hspz-client: note: %s: %d "
                             "files of an earlier run removed\n" % (folder, there))
            self.hsps("--out-dir", folder, "--interval", 150, "--query-block-size", 300)


class Failures(Case):
    def test_a_stream_cut_short_leaves_no_file(self):
        folder = self.path("out")
        done = self.hsps("--out-dir", folder, close_after=2, status=1)
        self.assertEqual(os.listdir(folder), [])
        self.assertIn("failed after 6 HSPs", done.stderr.decode())
        self.hsps("--tar", self.path("a.tar.gz"), close_after=2, status=1)
        self.hsps("-o", self.path("o.tsv"), close_after=2, status=1)
        self.hsps("--pairs", folder, close_after=2, status=1)
        self.assertEqual(os.listdir(folder), [])
        self.assertEqual(sorted(os.listdir(self.dir)), ["out", "q.fa"])

    def test_an_hsp_outside_is_the_servers_fault_and_named(self):
        for target in (["--out-dir", self.path("out")], ["-o", self.path("o")],
                       ["--pairs", self.path("p")], ["--format", "jsonl"]):
            done = self.hsps(*target, bad_hsp=True, status=1)
            self.assertIn("an HSP is not inside one sequence: ref_block 0", done.stderr.decode())
            self.assertIn("4294967280", done.stderr.decode())

    def test_a_full_disk_is_a_failure(self):
        for form in ("tsv", "segments", "packed"):
            done = self.hsps("-o", "/dev/full", "--format", form, status=1)
            self.assertIn("/dev/full: cannot write: No space left", done.stderr.decode())

    def test_a_disk_that_takes_no_more_leaves_no_file(self):
        def small():
            resource.setrlimit(resource.RLIMIT_FSIZE, (60, 60))
        os.mkdir(self.path("out"))
        with HspStub(self.path("s.sock"), self.index) as server:
            for target in (["--out-dir", "out"], ["--pairs", "out"], ["--tar", "out/a.tar.gz"]):
                done = subprocess.run([CLIENT, "--server", server.address, "hsps", "ref",
                                       self.query] + target, capture_output=True, cwd=self.dir,
                                      preexec_fn=small, timeout=300, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr.decode(),
                                 r"hspz-client: out/(%s): cannot write: File too large\n" %
                                 (r"a\.tar\.gz" if target[0] == "--tar" else "[^/]+"))
                self.assertEqual(os.listdir(self.path("out")), [])

    def test_repeated_names_have_no_segments(self):
        with open(self.query, "ab") as f:
            f.write(b">q0\nACGT\n")
        for args in (["--pairs", self.path("p")], ["--out-dir", self.path("o")],
                     ["--tar", self.path("t")], ["--format", "segments"]):
            done = self.hsps(*args, status=1)
            self.assertRegex(done.stderr.decode("latin-1"),
                             r"q\.fa: lines 1 and \d+ have the same name 'q0'")
            self.assertEqual((done.stdout, self.requests), (b"", []))
        for form in ("tsv", "jsonl", "paf"):
            self.hsps("--format", form)

    def test_wrong_usage_is_said(self):
        for args, text in ((["--tar", "a", "--out-dir", "b"], "only one of"),
                           (["--pairs", "b", "--format", "tsv"], "--format segments"),
                           (["--ambiguous", "x"], "ambiguous"),
                           (["--target", "x"], "--format paf"),
                           (["--hspthresh", "0"], "--hspthresh"),
                           (["--compat", "kegalign-9"], "--compat"),
                           (["-o", "q.fa"], "the input itself")):
            done = self.hsps(*args, status=2)
            self.assertIn(text, done.stderr.decode())
        done = self.hsps("--scoring", "nowhere", status=1)
        self.assertIn("nowhere: cannot read the scores", done.stderr.decode())


FAIL_ALLOC = os.path.join(os.environ["HSPZ_BUILD"], "tests", "system", "fail_alloc.so")


def preloadable():
    done = subprocess.run([CLIENT, "--version"], capture_output=True, check=False,
                          env=dict(os.environ, LD_PRELOAD=FAIL_ALLOC))
    return os.path.exists(FAIL_ALLOC) and done.returncode == 0 and not done.stderr


@unittest.skipUnless(preloadable(), "nothing can be preloaded here")
class Memory(Case):
    def check_each_allocation(self, make, least):
        """Each allocation fails once: an error that is said, and nothing half made."""
        count = self.path("count")
        with HspStub(self.path("s.sock"), self.index, part=50) as server:
            total, failures, number = None, 0, 0
            while total is None or number <= total:
                folder = self.path("out")
                shutil.rmtree(folder, ignore_errors=True)
                os.mkdir(folder)
                done = subprocess.run(
                    [CLIENT, "--server", server.address] + make(folder), capture_output=True,
                    cwd=folder, timeout=300, check=False,
                    env=dict(os.environ, LD_PRELOAD=FAIL_ALLOC, HSPZ_FAIL_ALLOC=str(number),
                             HSPZ_ALLOC_COUNT=count))
                self.assertIn(done.returncode, (0, 1), (number, done.stderr))
                if number == 0:
                    self.assertEqual(done.returncode, 0, done.stderr)
                    whole = self.files(folder)
                    with open(count, encoding="ascii") as f:
                        total = int(f.read())
                elif done.returncode == 0:
                    self.assertEqual(self.files(folder), whole, number)
                else:
                    failures += 1
                    self.assertIn(b"hspz-client: ", done.stderr, number)
                    self.assertLessEqual(set(os.listdir(folder)), set(whole), number)
                # The first hundreds are those of any command that connects and reads.
                number += 1 if number == 0 or number > total - 100 else 11
            self.assertGreater(failures, least)

    def test_files(self):
        self.check_each_allocation(lambda folder: ["hsps", "ref", self.query, "--out-dir", folder,
                                                   "--interval", "300"], 40)

    def test_an_archive(self):
        self.check_each_allocation(lambda folder: ["kegalign", "ref", self.query, "d", "--tar",
                                                   folder + "/a.tar.gz"], 40)

    def test_pairs_and_balanced_blocks(self):
        self.check_each_allocation(lambda folder: ["hsps", "ref", self.query, "--pairs", folder,
                                                   "--balanced"], 40)


class KegAlign(Case):
    COMMAND = ("lastz data/ref.2bit[nameparse=darkspace][multiple][subset=ref_block%s.name] "
               "data/query.2bit[nameparse=darkspace][subset=query_block%s.name] --format=maf- "
               "--ydrop=9430 --gappedthresh=3000 --strand=%s --segments=%s.segments "
               "--output=%s.maf- 2> %s.err")

    def kegalign(self, *args, **faults):
        self.where = self.path("run%d" % len(os.listdir(self.dir)))
        os.mkdir(self.where)
        return self.run_client("kegalign", *args, cwd=self.where, **faults)

    def commands(self, names, starts):
        """KegAlign's lines for these files."""
        out = []
        for name in names:
            base = name[:-len(".segments")]
            _, block, start, strand = base.split(".")
            out.append(self.COMMAND % (starts.index(int(start[1:])), block[5:], strand, base, base,
                                       base))
        return out

    def ordered(self, files):
        """Names of segments in KegAlign's order: query block, reference block, interval, strand."""
        def key(name):
            n, block, start, strand = name.split(".")[:4]
            return int(block[5:]), int(start[1:]), int(n[3:]), strand == "minus"
        return sorted((n for n in files if n.startswith("tmp")), key=key)

    def test_files_and_commands_are_kegaligns(self):
        for interval in (10 ** 7, 150):
            for size in (500000000, 300):
                done = self.kegalign("ref", self.query, "data/", "--lastz_interval_size", interval,
                                     "--seq_block_size=%d" % size)
                want = self.expected_files(interval, size)
                self.assertEqual(self.files(self.where), want)
                starts = sorted({int(n.split(".")[2][1:]) for n in want if n.startswith("tmp")})
                self.assertEqual(self.lines(done), self.commands(self.ordered(want), starts))
                self.assertEqual(done.stderr, b"")

    def test_options_reach_the_job_and_lastz(self):
        with open(self.path("scores.txt"), "w", encoding="ascii") as f:
            f.write("   A C G T\nA 91 -114 -31 -123\nC -114 100 -125 -31\nG -31 -125 100 -114\n"
                    "T -123 -31 -114 91\n")
        done = self.kegalign(
            "ref", self.query, "my data", "--notransition", "--xdrop=5", "--hspthresh", 7,
            "--noentropy", "--ambiguous=n,1,2", "--notrivial", "--inner", "2000", "--ydrop", 15,
            "--format", "general:name1,score", "--scoring", self.path("scores.txt"), "--strand=plus",
            "--max-hits", 5, "--step", 1, "--seed", "12of19", "--target_prefix", "t.",
            "--query_prefix=q:", "--debug", "--num_gpu", -1, "--num_threads=-1",
            "--wga_chunk_size", 250000, "--segment_size", 0)
        params = self.requests[0][3][0]
        scores = params["hsps"].pop("scores")
        self.assertEqual(params["hsps"], {"xdrop": 5, "threshold": 7, "entropy": False,
                                          "scope": "chunk"})
        self.assertEqual(struct.unpack("<64i", scores)[5 * 8 + 5], 1)
        self.assertEqual((params["strand"], params["transitions"], params["max_hits"],
                          params["interval"]), ("plus", False, 5, 10 ** 7))
        for line in self.lines(done):
            words = shlex.split(line)
            base = re.search("--segments=(.*).segments", line).group(1)
            self.assertEqual(words[:2], [
                "lastz", "my data/ref.2bit[nameparse=darkspace][multiple][subset=ref_block%s.name]"
                % words[1][-7]])
            self.assertEqual(words[3:], [
                "--format=general:name1,score", "--ydrop=15", "--gappedthresh=7", "--strand=plus",
                "--inner=2000", "--ambiguous=n,1,2", "--notrivial",
                "--scores=" + self.path("scores.txt"), "--segments=%s.segments" % base,
                "--output=%s.general:name1,score" % base, "2>", base + ".err"])
        files = self.files(self.where)
        self.assertEqual(files["ref_block0.name"], "t.r0\nt.none\nt.r/1\n")
        for name, text in files.items():
            for line in text.splitlines() if name.startswith("tmp") else ():
                self.assertTrue(line.startswith("t."))
                self.assertTrue(line.split("\t")[3].startswith("q:"))

    def test_without_commands_and_elsewhere(self):
        done = self.kegalign("ref", self.query, "--nogapped", "--out-dir", "here")
        self.assertEqual(done.stdout, b"")
        self.assertEqual(self.files(os.path.join(self.where, "here")), self.expected_files())
        done = self.kegalign("ref", self.query, "data", "--out-dir", "here/")
        for line in self.lines(done):
            self.assertRegex(line, r"subset=here/ref_block\d.name\].*subset=here/query_block0.name\] "
                                   r".*--segments=here/tmp1.*--output=here/tmp1.* 2> here/tmp1")

    def test_an_archive_holds_the_commands(self):
        done = self.kegalign("ref", self.query, "data", "--tar", "a.tar.gz", "--target_prefix=",
                             "--query_prefix", "")
        with tarfile.open(os.path.join(self.where, "a.tar.gz")) as tar:
            got = {m.name: tar.extractfile(m).read() for m in tar}
        self.assertEqual(got.pop("lastz-commands.txt"), done.stdout)
        self.assertEqual({n: t.decode("latin-1") for n, t in got.items()}, self.expected_files())

    def test_the_set_without_compat_asks_for_no_intervals(self):
        done = self.kegalign("ref", self.query, "data", "--compat=none", "--wga_chunk_size", 1000)
        self.assertNotIn("interval", self.requests[0][3][0])
        self.assertIn("the result does not depend on it", done.stderr.decode())
        self.assertEqual(self.files(self.where), self.expected_files())

    def test_a_file_gets_an_index_that_is_asked_for_again(self):
        target = self.path("t.fa")
        with open(target, "w", encoding="ascii") as f:
            f.write(">r0\nACGTACGTACGTACGTACGTACGT\n")
        self.kegalign(target, self.query, "data", status=1)
        loads = [m[3][0] for m in self.all_requests if m[2] == "index.load"]
        self.assertEqual(len(loads), 1)
        self.assertRegex(loads[0]["index"], "^kegalign-[0-9a-f]{16}$")
        self.assertEqual(loads[0]["file"], self.path("cache/hspz/%s.hspz" % loads[0]["index"]))
        before = os.stat(loads[0]["file"]).st_mtime_ns
        self.kegalign(target, self.query, "data", status=1)
        self.assertEqual(os.stat(loads[0]["file"]).st_mtime_ns, before)
        self.kegalign(target, self.query, "data", "--step", 2, "--cache", self.path("other"),
                      status=1)
        self.assertNotEqual(os.listdir(self.path("other")), [loads[0]["index"] + ".hspz"])
        shutil.rmtree(self.path("cache"))
        with open(self.path("cache"), "w", encoding="ascii"):
            pass
        done = self.kegalign(target, self.query, "data", status=1)
        self.assertIn("cache/hspz: cannot make the folder (--cache DIR names another): ",
                      done.stderr.decode())

    def test_large_files_are_cut_with_their_commands(self):
        for options in (["--segment_size", 1], ["--segment_size=1", "--out-dir", "here"],
                        ["--segment_size", 1000]):
            done = self.kegalign("ref", self.query, "data", *options)
            folder = os.path.join(self.where, "here" if len(options) == 3 else "")
            files = self.files(folder)
            named = [re.search(r"--segments=(\S+)", line).group(1) for line in self.lines(done)]
            self.assertEqual(sorted(os.path.basename(n) for n in named),
                             sorted(n for n in files if n.startswith("tmp")))
            want = self.expected_files()
            lines = {n: [] for n in want if n.startswith("tmp")}
            for name in files:
                if name.startswith("tmp"):
                    whole = re.sub(r"\.split\d+", "", name)
                    lines[whole] += files[name].splitlines()
            self.assertEqual({n: sorted(v) for n, v in lines.items()},
                             {n: sorted(want[n].splitlines()) for n in lines})
            self.assertEqual(any(".split" in n for n in files), options[-1] != 1000)

    def test_notes_are_for_what_changes_nothing(self):
        done = self.kegalign("ref", self.query, "data", "--markend", "--num_gpu", 2, "--output", "x",
                             "--num_threads", 4)
        notes = done.stderr.decode().splitlines()
        self.assertEqual([n.split(": ")[2] for n in notes],
                         ["--markend", "--output", "--num-gpu", "--num-threads"])
        done = self.kegalign("ref", self.query, "data", "--markend", "-q")
        self.assertEqual(done.stderr, b"")

    def test_what_cannot_be_had_is_refused_by_name(self):
        os.mkfifo(self.path("pipe"))
        for args, text, status in (
                (["ref", self.query, "data", "--wga_chunk_size", 1000], "--wga-chunk-size", 2),
                (["ref", self.query, "data", "--seeed", 10], "unknown option --seeed", 2),
                (["ref", self.query, "data", "--seed", "1x1"], "--seed", 2),
                (["ref", self.query, "data", "--seed", "14of22"], "index ref has the seed", 1),
                (["ref", self.query, "data", "--step", "3"], "index ref has step 1, not 3", 1),
                (["ref", self.query, "data", "--segment_size", 9, "--nogapped"], "--nogapped", 2),
                (["ref", self.query, "data", "--segment_size", 9, "--tar", "a"], "--tar", 2),
                (["ref", self.query], "which files shall LASTZ read", 2),
                ([self.path("pipe"), self.query, "data"], "is a pipe", 2),
                ([self.query, self.path("pipe")], "which files shall LASTZ read", 2),
                (["nosuch", self.query, "data"], "no file, and no index of the server", 1),
                (["no/such.fa", self.query, "data"], "there is no such file", 2),
                (["ref", self.query, "data", "--private"], "only one of --private", 2),
                (["ref"], "QUERY is missing", 2),
                (["ref", self.query, "data", "--out-dir", "a", "--tar", "b"], "only one of", 2)):
            done = self.kegalign(*args, status=status)
            self.assertIn(text, done.stderr.decode())

    def test_no_server_says_what_to_start(self):
        done = subprocess.run([CLIENT, "kegalign", "ref", self.query, "data"], capture_output=True,
                              env={"XDG_RUNTIME_DIR": self.dir}, cwd=self.dir, timeout=300)
        self.assertEqual(done.returncode, 1)
        self.assertIn("start one (hspzd --socket PATH &", done.stderr.decode())
        self.assertIn("--private", done.stderr.decode())


unittest.main()
