"""hspz-client against a stub server: what it prints, what it makes of a server that fails or lies,
how long it waits. Truth is brute force over the sequences, never the client itself."""

import fcntl
import gzip
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import stub  # noqa: E402
from stub import SHAPE, Index, Stub, reverse_complement, words  # noqa: E402

CLIENT = os.path.join(os.environ["HSPZ_BUILD"], "client", "hspz-client")
HEADER = "#ref\tref_start\tref_end\tquery\tquery_start\tquery_end\tstrand"


def random_bases(rng, length, odd=0.0):
    return "".join(rng.choice("NacgtRn") if rng.random() < odd else rng.choice("ACGT")
                   for _ in range(length))


def true_rows(refs, queries, strands="+-"):
    """Every seed hit, sequence by sequence, as TSV rows."""
    rows = []
    span = len(SHAPE)
    for ref, ref_bases in refs:
        places = {}
        for at, word in words(ref_bases):
            places.setdefault(word, []).append(at)
        for query, bases in queries:
            for strand in strands:
                text = bases if strand == "+" else reverse_complement(bases)
                for at, word in words(text):
                    begin = at if strand == "+" else len(bases) - at - span
                    for place in places.get(word, ()):
                        rows.append("%s\t%d\t%d\t%s\t%d\t%d\t%s" % (
                            ref, place, place + span, query, begin, begin + span, strand))
    return sorted(rows)


def fasta(sequences):
    return "".join(">%s\n%s\n" % (name, bases) for name, bases in sequences)


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="hspz-client-")
        self.addCleanup(shutil.rmtree, self.dir)
        rng = random.Random(7)
        self.refs = [("r%d" % i, random_bases(rng, length, 0.01))
                     for i, length in enumerate((400, 0, 19, 18, 900, 0, 60))]
        whole = "".join(bases for _, bases in self.refs)
        self.queries = [("q0", whole[100:300]), ("empty", ""), ("q1", reverse_complement(whole)),
                        ("short", "ACGT"), ("q0", whole[500:900]), ("last", "")]
        self.index = Index(self.refs, per_block=3)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, data):
        path = self.path(name)
        with open(path, "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        return path

    def query(self):
        return self.write("query.fa", fasta(self.queries))

    def stub(self, index=None, **faults):
        server = Stub(self.path("s%d.sock" % random.randrange(1 << 30)), index or self.index,
                      **faults)
        self.addCleanup(server.close)
        return server

    def run_client(self, *arguments, server=None, env=None, data=None, timeout=300, **more):
        command = [CLIENT] + (["--server", server.address] if server else []) + list(arguments)
        environment = {k: v for k, v in os.environ.items()
                       if k not in ("HSPZ_SERVER", "XDG_RUNTIME_DIR", "HSPZ_TOKEN")}
        environment.update(env or {})
        more.setdefault("stdout", subprocess.PIPE)
        return subprocess.run(command, input=data, stderr=subprocess.PIPE, timeout=timeout,
                              env=environment, **more)

    def done(self, *arguments, **more):
        result = self.run_client(*arguments, **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.decode("utf-8", "surrogateescape")

    def failed(self, *arguments, status=1, **more):
        result = self.run_client(*arguments, **more)
        self.assertEqual(result.returncode, status, result.stderr)
        text = result.stderr.decode("utf-8", "replace")
        self.assertNotRegex(text, "(?i)done|sanitizer|assert|broken promise")
        return text


class OutputTest(Case):
    def test_tsv_rows_equal_brute_force(self):
        truth = true_rows(self.refs, self.queries)
        self.assertGreater(len(truth), 1000)
        self.assertTrue(any(r.endswith("-") for r in truth))
        out = self.done("discover", "ref", self.query(), server=self.stub()).splitlines()
        self.assertEqual(out[0], HEADER)
        self.assertEqual(sorted(out[1:]), truth)

    def test_strands_are_the_parts_of_both(self):
        for strand, sign in (("plus", "+"), ("minus", "-")):
            out = self.done("discover", "ref", self.query(), "--strand", strand,
                            server=self.stub()).splitlines()
            truth = true_rows(self.refs, self.queries, sign)
            self.assertTrue(truth)
            self.assertEqual(sorted(out[1:]), truth)

    def test_minus_strand_example(self):
        rng = random.Random(7)
        ref = random_bases(rng, 200)
        query = self.write("q.fa", fasta([("q", reverse_complement(ref[50:100]))]))
        server = self.stub(Index([("r", ref)]))
        rows = [line.split("\t") for line in
                self.done("discover", "ref", query, server=server).splitlines()[1:]]
        self.assertEqual(len(rows), 32)
        self.assertEqual(sorted((int(r[1]), 50 - int(r[4]) - 19) for r in rows),
                         [(50 + i, i) for i in range(32)])
        self.assertEqual({r[6] for r in rows}, {"-"})

    def test_jsonl_holds_the_same(self):
        out = self.done("discover", "ref", self.query(), "--format", "jsonl", server=self.stub())
        keys = HEADER[1:].split("\t")
        rows = ["\t".join(str(json.loads(line)[k]) for k in keys) for line in out.splitlines()]
        self.assertEqual(sorted(rows), true_rows(self.refs, self.queries))

    def test_packed_is_the_bytes_that_came(self):
        server = self.stub()
        out = self.run_client("discover", "ref", self.query(), "--format", "packed", server=server)
        bases = "&".join(b for _, b in self.queries)
        truth = b"".join(struct.pack("<%dQ" % len(g[4]), *g[4])
                         for g in self.index.anchors(bases, ["plus", "minus"]))
        self.assertGreater(len(truth), 8000)
        self.assertEqual(out.stdout, truth)

    def test_long_stream_in_large_parts(self):
        refs = [("r", "A" * 1500)]
        server = self.stub(Index(refs), part=1 << 20)
        query = self.write("q.fa", fasta([("q", "A" * 1200)]))
        out = self.done("discover", "ref", query, "--strand", "plus", server=server)
        self.assertEqual(sorted(out.splitlines()[1:]), true_rows(refs, [("q", "A" * 1200)], "+"))

    def test_query_is_cut_at_the_servers_limit(self):
        server = self.stub(limits={"max_query_bases": 1500, "max_message": 1 << 30})
        out = self.done("discover", "ref", self.query(), server=server)
        self.assertEqual(sorted(out.splitlines()[1:]), true_rows(self.refs, self.queries))
        sent = [m for m in server.requests if m[2] == "discover"]
        self.assertGreater(len(sent), 1)
        self.assertLessEqual(server.largest, 1500)
        text = self.failed("discover", "ref", self.query(),
                           server=self.stub(limits={"max_query_bases": 1000}))
        self.assertIn("q1", text)
        self.assertIn("1000", text)

    def test_names_are_kept_byte_for_byte(self):
        bases = self.refs[0][1]
        names = [b"NC_1.1 x", b"s:10-20", b"gi|1|ref|2|", b"L" * 300, "\u540d".encode(), b"x\ty",
                 b"\xff\xe9", b'quo"te\\']
        query = self.write("q.fa", b"".join(b">%s\n%s\n" % (n, bases.encode()) for n in names))
        want = sorted(n.split()[0] for n in names)
        server = self.stub()
        out = self.run_client("discover", "ref", query, "--strand", "plus", server=server)
        rows = [line.split(b"\t") for line in out.stdout.splitlines()[1:]]
        self.assertEqual({len(r) for r in rows}, {7})
        self.assertEqual(sorted({r[3] for r in rows}), want)
        out = self.run_client("discover", "ref", query, "--format", "jsonl", server=server).stdout
        seen = {json.loads(line.decode("utf-8"))["query"] for line in out.splitlines()}
        self.assertEqual(seen, {n.decode() if n != b"\xff\xe9" else n.decode("latin-1")
                                for n in want})

    def test_reference_names_of_any_bytes(self):
        bases = self.refs[0][1]
        server = self.stub(Index([(b"\xfe|r", bases)]))
        query = self.write("q.fa", fasta([("q", bases)]))
        out = self.run_client("discover", "ref", query, server=server).stdout.splitlines()
        self.assertEqual({row.split(b"\t")[0] for row in out[1:]}, {b"\xfe|r"})

    def test_reference_names_that_would_break_rows_are_refused(self):
        query = self.write("q.fa", fasta([("q", self.refs[0][1])]))
        for name in (b"a\tb", b"a\nb", b"a\rb", b"a\0b", b""):
            server = self.stub(Index([(name, self.refs[0][1])]))
            self.assertIn("name", self.failed("discover", "ref", query, server=server))
            self.assertIn("name", self.failed("index", "describe", "ref", "--sequences",
                                              server=server))

    def test_empty_queries_give_no_anchors(self):
        for text in (">foo\n", ">foo\n\n>bar\nACGT\n"):
            out = self.done("discover", "ref", self.write("e.fa", text), server=self.stub())
            self.assertEqual(out, HEADER + "\n")
        for text in ("", "\n\n", "ACGT\n", ">\nACGT\n"):
            self.assertIn("e.fa", self.failed("discover", "ref", self.write("e.fa", text),
                                              server=self.stub()))

    def test_gzip_whatever_the_name_and_from_standard_input(self):
        data = gzip.compress(fasta(self.queries).encode())
        truth = true_rows(self.refs, self.queries)
        for name in ("q.fa.gz", "q.fa"):
            out = self.done("discover", "ref", self.write(name, data), server=self.stub())
            self.assertEqual(sorted(out.splitlines()[1:]), truth)
        out = self.done("discover", "ref", "-", server=self.stub(), data=data)
        self.assertEqual(sorted(out.splitlines()[1:]), truth)
        broken = data[:-6] + bytes([data[-6] ^ 1]) + data[-5:]
        for bad in (data[:len(data) // 2], broken):
            self.failed("discover", "ref", self.write("q.fa.gz", bad), server=self.stub())

    def test_seeds_come_from_a_file(self):
        seeds = struct.pack("<4Q", *[(100 + i) << 32 | 60 + i for i in range(4)])
        out = self.done("discover", "ref", "--seeds", self.write("s", seeds), server=self.stub())
        self.assertEqual([r.split("\t")[3:] for r in out.splitlines()[1:]],
                         [["*", str(81 + i), str(100 + i), "+"] for i in range(4)])
        self.assertIn("8 bytes", self.failed("discover", "ref", "--seeds",
                                             self.write("s", seeds[:-1]), server=self.stub()))
        self.assertIn("standard input: holds no seed", self.failed(
            "discover", "ref", "--seeds", "-", server=self.stub(), data=b""))

    def test_locale_changes_nothing(self):
        server = self.stub()
        plain = self.done("discover", "ref", self.query(), server=server)
        env = {"LC_ALL": "de_DE.UTF-8"}
        self.assertEqual(self.done("discover", "ref", self.query(), server=server, env=env), plain)
        self.assertEqual(json.loads(self.done("stats", "--json", server=server, env=env))["f"],
                         0.25)

    def test_anchor_outside_the_sequences_is_refused(self):
        for seed in (5 << 32 | 50, 50 << 32 | 5, 50 << 32 | 0xffffffff, 50 << 32 | 410):
            path = self.write("s", struct.pack("<Q", seed))
            self.assertIn("outside", self.failed("discover", "ref", "--seeds", path,
                                                 server=self.stub()))


class FileTest(Case):
    def test_file_appears_whole_or_not_at_all(self):
        target = self.path("out.tsv")
        self.done("discover", "ref", self.query(), "-o", target, server=self.stub())
        with open(target) as f:
            good = f.read()
        self.assertEqual(sorted(good.splitlines()[1:]), true_rows(self.refs, self.queries))
        self.assertEqual(os.stat(target).st_mode & 0o777, 0o666 & ~current_umask())
        text = self.failed("discover", "ref", self.query(), "-o", target,
                           server=self.stub(close_after=2))
        self.assertIn("40 anchors", text)
        with open(target) as f:
            self.assertEqual(f.read(), good)
        self.failed("discover", "ref", self.query(), "-o", self.path("new"),
                    server=self.stub(close_after=2))
        self.assertEqual(sorted(n for n in os.listdir(self.dir) if not n.endswith(".sock")),
                         ["out.tsv", "query.fa"])

    def test_link_and_device_targets_stay_what_they_are(self):
        os.symlink("real", self.path("link"))
        self.write("real", "old")
        self.done("discover", "ref", self.query(), "-o", self.path("link"), server=self.stub())
        self.assertTrue(os.path.islink(self.path("link")))
        self.assertGreater(os.path.getsize(self.path("real")), 1000)
        self.done("discover", "ref", self.query(), "-o", "/dev/null", server=self.stub())
        self.assertFalse(os.path.isfile("/dev/null"))
        os.mkfifo(self.path("fifo"))
        got = []

        def read():
            with open(self.path("fifo")) as f:
                got.append(f.read())
        reader = threading.Thread(target=read)
        reader.start()
        self.done("discover", "ref", self.query(), "-o", self.path("fifo"), server=self.stub())
        reader.join(100)
        self.assertEqual(sorted(got[0].splitlines()[1:]), true_rows(self.refs, self.queries))

    def test_standard_output_by_name_is_added_to(self):
        target = self.write("log", "before\n")
        with open(target, "ab") as log:
            out = self.run_client("discover", "ref", self.query(), "-o", "/dev/stdout",
                                  server=self.stub(), stdout=log)
        self.assertEqual(out.returncode, 0, out.stderr)
        with open(target) as f:
            lines = f.read().splitlines()
        self.assertEqual(lines[:2], ["before", HEADER])
        self.assertEqual(sorted(lines[2:]), true_rows(self.refs, self.queries))

    def test_masked_query_is_warned_of(self):
        for bases, option, warned in (("acgt" * 30, [], True), ("acgt" * 30, ["--unmask"], False),
                                      ("acgt" * 30 + "A", [], False), ("", [], False)):
            query = self.write("q.fa", fasta([("q", bases)]))
            out = self.run_client("discover", "ref", query, *option, server=self.stub())
            self.assertEqual(out.returncode, 0, out.stderr)
            self.assertEqual(b"--unmask" in out.stderr, warned, out.stderr)

    def test_full_disk_is_a_failure_that_names_the_file(self):
        for arguments in (["-o", "/dev/full"], ["--format", "packed", "-o", "/dev/full"]):
            text = self.failed("discover", "ref", self.query(), *arguments, server=self.stub())
            self.assertIn("/dev/full", text)
            self.assertIn("No space left", text)
        with open("/dev/full", "w") as full:
            text = self.failed("discover", "ref", self.query(), server=self.stub(), stdout=full)
            self.assertIn("standard output", text)
            for command in (["stats"], ["health"], ["index", "list"], ["--help"]):
                self.failed(*command, server=self.stub(), stdout=full)

    def test_file_size_limit_is_a_failure(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        text = self.failed("discover", "ref", self.query(), "-o", self.path("out"),
                           server=self.stub(), preexec_fn=limit)
        self.assertIn("out: cannot write", text)
        source = self.write("ref.fa", fasta([("a", self.refs[0][1])]))
        text = self.failed("index", "build", source, "-o", self.path("out"), preexec_fn=limit)
        self.assertIn("out (", text)
        self.assertEqual([n for n in os.listdir(self.dir) if "out" in n], [])

    def test_closed_pipe_ends_quietly(self):
        refs = [("r", "A" * 1500)]
        query = self.write("q.fa", fasta([("q", "A" * 1200)]))
        server = self.stub(Index(refs))
        process = subprocess.Popen([CLIENT, "--server", server.address, "discover", "ref", query],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(process.stdout.readline().decode(), HEADER + "\n")
        process.stdout.close()
        self.assertEqual(process.stderr.read(), b"")
        self.assertEqual(process.wait(300), 1)
        process.stderr.close()

    def test_closed_standard_output_is_not_written_to(self):
        result = subprocess.run(["sh", "-c", '"$@" >&-', "sh", CLIENT, "--server",
                                 self.stub().address, "discover", "ref", self.query()],
                                stderr=subprocess.PIPE, timeout=300)
        self.assertEqual(result.returncode, 1, result.stderr)

    def test_interrupt_cancels_and_leaves_nothing(self):
        server = self.stub(cancel_after=3)
        process = subprocess.Popen([CLIENT, "--server", server.address, "discover", "ref",
                                    self.query(), "-o", self.path("out")], stderr=subprocess.PIPE)
        until = time.time() + 120
        while not any(m[2] == "discover" for m in server.requests) and time.time() < until:
            time.sleep(0.01)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        text = process.communicate(timeout=300)[1].decode()
        self.assertEqual(process.returncode, 1, text)
        self.assertIn("stopped by a signal", text)
        self.assertEqual([server.requests[-1][k] for k in (2, 3)],
                         ["cancel", [{"job": server.requests[-2][1]}]])
        self.assertEqual([n for n in os.listdir(self.dir) if "out" in n], [])

    def test_signals_close_to_each_other_are_one_stop(self):
        bases = self.refs[4][1]
        t = self.write("t.fa", fasta([("t", bases)]))
        q = self.write("q.fa", fasta([("q", bases)]))
        segments = self.write("a.segments", "t\t1\t500\tq\t1\t500\t+\t50000\n")
        # It does not end when asked to, so that the client takes 2 s to clean up.
        lastz = self.write("lastz", "#!/bin/sh\n"
                           "case $1 in --version) echo 'lastz (version 1.04.22 released 20230312)'\n"
                           "exit;; esac\ntrap '' TERM\necho $$ > '%s'\n"
                           "while :; do sleep 0.1; done\n" % self.path("pid"))
        os.chmod(lastz, 0o755)

        def stopped_twice(pause):
            """(status, what was said, LASTZ's process)"""
            process = subprocess.Popen([CLIENT, "align", t, q, segments, "--lastz", lastz, "-o",
                                        self.path("out")], stderr=subprocess.PIPE)
            until = time.time() + 120
            while not (os.path.exists(self.path("pid")) and os.path.getsize(self.path("pid"))) and \
                    time.time() < until:
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            time.sleep(pause)
            process.send_signal(signal.SIGTERM)
            text = process.communicate(timeout=300)[1].decode()
            with open(self.path("pid"), encoding="ascii") as f:
                pid = int(f.read())
            os.unlink(self.path("pid"))
            return process.returncode, text, pid
        for pause, wanted in ((0.1, 1), (1.2, -signal.SIGTERM)):
            # On a busy machine a pause may be any longer one.
            for _ in range(10):
                status, text, pid = stopped_twice(pause)
                if status == 1:
                    self.assertIn("stopped by a signal", text)
                    self.assertRaises(ProcessLookupError, os.kill, pid, 0)
                else:
                    os.kill(pid, signal.SIGKILL)
                if status == wanted:
                    break
            self.assertEqual(status, wanted, text)


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


class BrokenServerTest(Case):
    def total(self):
        bases = "&".join(b for _, b in self.queries)
        return sum(len(g[4]) for g in self.index.anchors(bases, ["plus", "minus"]))

    def test_early_end_says_how_much_came(self):
        out = self.run_client("discover", "ref", self.query(), server=self.stub(close_after=4))
        self.assertEqual(out.returncode, 1)
        self.assertEqual(len(out.stdout.splitlines()), 1 + 80)
        self.assertIn(b"80 anchors came", out.stderr)
        self.assertIn(b"final record is missing", out.stderr)
        text = self.failed("discover", "ref", self.query(), server=self.stub(close_after=-1))
        self.assertIn("%d anchors came" % self.total(), text)
        text = self.failed("discover", "ref", self.query(), server=self.stub(cut_inside=3))
        self.assertIn("60 anchors came", text)

    def test_answered_pieces_are_kept_and_the_rest_is_said(self):
        """Ten pieces, the server goes away after the ninth."""
        queries = [("q%d" % i, self.refs[4][1]) for i in range(10)]
        query = self.write("ten.fa", fasta(queries))
        server = self.stub(limits={"max_query_bases": 1000})
        original = server.discover
        seen = []

        def nine(peer, job, params):
            seen.append(job)
            return False if len(seen) == 10 else original(peer, job, params)
        server.discover = nine
        out = self.run_client("discover", "ref", query, server=server)
        self.assertEqual(out.returncode, 1)
        self.assertEqual(sorted(out.stdout.decode().splitlines()[1:]),
                         true_rows(self.refs, queries[:9]))
        self.assertIn(b"9 whole pieces", out.stderr)
        self.assertIn(b"missing from sequence q9;", out.stderr)
        # Pieces without an anchor were answered, too.
        seen.clear()
        server.faults["no_anchors"] = True
        out = self.run_client("discover", "ref", query, server=server)
        self.assertEqual(out.returncode, 1)
        self.assertIn(b"failed after 0 anchors and 9 whole pieces", out.stderr)

    def test_an_end_reads_the_same_however_the_kernel_tells_it(self):
        """A server that closes before it has read everything ends with a reset."""
        def serve(listener, reads):
            with listener.accept()[0] as peer:
                self.assertTrue(select.select([peer], [], [], 60)[0])
                if reads:
                    peer.recv(1 << 16)
        for reads in (True, False):
            for tcp in (True, False):
                path = self.path("end%d.sock" % reads)
                listener = socket.create_server(("127.0.0.1", 0)) if tcp else \
                    socket.socket(socket.AF_UNIX)
                with listener:
                    if not tcp:
                        listener.bind(path)
                        listener.listen()
                    thread = threading.Thread(target=serve, args=(listener, reads))
                    thread.start()
                    where = "tcp:127.0.0.1:%d" % listener.getsockname()[1] if tcp else "unix:" + path
                    text = self.failed("--server", where, "health")
                    thread.join()
                self.assertIn(where + ": the server closed the connection", text)
                self.assertNotIn("reset", text)

    def test_wrong_totals_and_digests_are_failures(self):
        total = self.total()
        text = self.failed("discover", "ref", self.query(), server=self.stub(extra_total=5))
        self.assertIn("%d of %d anchors came" % (total, total + 5), text)
        text = self.failed("discover", "ref", self.query(), server=self.stub(wrong_digest=True))
        self.assertIn("digest", text)
        self.failed("discover", "ref", self.query(), server=self.stub(damage=3))
        self.failed("discover", "ref", self.query(), server=self.stub(result={"digest": None}))
        self.failed("discover", "ref", self.query(), server=self.stub(result={"chunks": 0}))
        self.failed("discover", "ref", self.query(), server=self.stub(result={"strands": {}}))
        self.done("discover", "ref", self.query(), "--no-digest",
                  server=self.stub(wrong_digest=True))

    def test_parts_out_of_order_are_failures(self):
        for faults in ({"swap": (1, 2)}, {"swap": (0, 1)}, {"skip": 0}, {"skip": 2},
                       {"repeat": 1}, {"foreign_job": True}, {"change": (1, "strand", "minus")},
                       {"change": (2, "hit_begin", 7)}, {"change": (1, "last_part", True)},
                       {"change": (0, "part", 1)}, {"change": (0, "chunk", 1)},
                       {"change": (0, "strand", "up")}, {"change": (0, "batch", -1)}):
            out = self.path("out")
            text = self.failed("discover", "ref", self.query(), "-o", out,
                               server=self.stub(**faults))
            self.assertRegex(text, "missing|order|repeated|finished|valid|job|first|hits|part",
                             faults)
            self.assertFalse(os.path.exists(out), faults)
        # A whole strand left out, the rest in order.
        groups = self.index.anchors("&".join(b for _, b in self.queries), ["plus", "minus"])
        server = self.stub(part=1 << 20, skip=len(groups) - 1)
        self.assertRegex(self.failed("discover", "ref", self.query(), server=server), "of .* came")

    def test_error_in_mid_stream_is_told(self):
        text = self.failed("discover", "ref", self.query(), "-o", self.path("out"),
                           server=self.stub(error_after=(2, "device_error")))
        self.assertIn("the card fell off", text)
        self.assertIn("40 anchors", text)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_garbage_is_named_as_such(self):
        for garbage in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x94\x01\x01\xc0", b"\xc1",
                        b"\xdd\xff\xff\xff\xff", b"\x91" * 100000, b"\xc6\xff\xff\xff\xff",
                        b"\x94\x01\x63\xc0\x80", b"\x94\x00\x01\xa1x\x90", b"SSH-2.0-x\r\n",
                        b"\x94\x01\x01\xa3bad\xc0", b"\x94\x01\x01\xc0\x07"):
            begun = time.time()
            text = self.failed("--timeout", "5", "health", server=self.stub(garbage=garbage))
            self.assertLess(time.time() - begun, 100, garbage)
            self.assertTrue(text.startswith("hspz-client: "), text)

    def test_dead_servers_end_in_bounded_time(self):
        begun = time.time()
        text = self.failed("--timeout", "1", "health", server=self.stub(silent=True))
        self.assertIn("no answer to hello", text)
        with socket.socket() as deaf:  # and nobody else gets its port meanwhile
            deaf.bind(("127.0.0.1", 0))
            text = self.failed("--server", "tcp:127.0.0.1:%d" % deaf.getsockname()[1], "health")
        self.assertIn("not running", text)
        text = self.failed("--server", "unix:" + self.path("nothing"), "health")
        self.assertIn("not running", text)
        text = self.failed("--timeout", "1", "discover", "ref", self.query(),
                           server=self.stub(stall_after=2))
        self.assertIn("40 anchors came", text)
        self.assertLess(time.time() - begun, 100)

    def test_a_silent_job_on_a_living_server_is_waited_for(self):
        server = self.stub()
        original = server.discover

        def late(peer, job, params):
            def work():
                # Until the client has lost its patience, and asked.
                until = time.time() + 120
                while not any(m[2] == "health" for m in server.requests) and time.time() < until:
                    time.sleep(0.01)
                original(peer, job, params)
            threading.Thread(target=work, daemon=True).start()
        server.discover = late
        out = self.done("--timeout", "2", "discover", "ref", self.query(), server=server)
        self.assertEqual(sorted(out.splitlines()[1:]), true_rows(self.refs, self.queries))
        self.assertTrue(any(m[2] == "health" for m in server.requests))

    def test_reading_goes_on_while_a_large_request_is_sent(self):
        """The server reads no further before what it says has been read."""
        server = self.stub(talk_first=30000000, no_anchors=True)
        query = self.write("n.fa", ">n\n" + "N" * 20000000 + "\n")
        self.assertEqual(self.done("discover", "ref", query, server=server), HEADER + "\n")
        self.assertEqual(server.largest, 20000000)
        self.assertNotIn("talk_first", server.faults)

    def test_index_replaced_between_pages(self):
        text = self.failed("discover", "ref", self.query(), server=self.stub(replace_index=True))
        self.assertIn("replaced", text)

    def test_another_page_of_the_list_is_refused(self):
        server = self.stub(extra_indexes=150, list_first=0)
        self.assertIn("page", self.failed("index", "list", server=server))

    def test_refusals_are_told(self):
        text = self.failed("health", server=self.stub(hello_error=("unauthorized",
                                                                   "who are you?")))
        self.assertIn("who are you?", text)
        # Of nothing that was asked: before hello, and in the middle.
        for fault in ("refuse", "expel"):
            for command in (("health",), ("discover", "ref", self.query())):
                text = self.failed(*command, server=self.stub(**{fault: ("unauthorized",
                                                                         "not you, user 7")}))
                self.assertIn("not you, user 7", text)
                self.assertNotIn("breaks the protocol", text)
        self.assertIn("no index", self.failed("discover", "other", self.query(),
                                              server=self.stub()))
        path = self.path("locked.sock")
        with Stub(path, self.index):
            os.chmod(path, 0)
            if os.geteuid() != 0:
                self.assertIn("refused", self.failed("--server", "unix:" + path, "health"))

    def test_descriptors_and_memory_stay_flat(self):
        server = self.stub()
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))  # noqa: E731
        queries = [("q%d" % i, self.refs[0][1]) for i in range(500)]
        server.limits = {"max_query_bases": 400}
        out = self.run_client("discover", "ref", self.write("many.fa", fasta(queries)),
                              "--strand", "plus", server=server, preexec_fn=limit)
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual(len(out.stdout.splitlines()) - 1,
                         500 * len(true_rows(self.refs, queries[:1], "+")))


class WaitTest(Case):
    def test_server_that_comes_up_late(self):
        path = self.path("late.sock")
        started = []
        timer = threading.Timer(0.7, lambda: started.append(Stub(path, self.index)))
        timer.start()
        out = self.done("--server", "unix:" + path, "--wait", "30", "health")
        self.assertIn("state: ready", out)
        started[0].close()
        self.assertIn("not running", self.failed("--server", "unix:" + path, "health"))

    def test_loading_server_has_three_outcomes(self):
        server = self.stub()
        server.state = "loading"
        server.percent = 40
        text = self.failed("--wait=0.5", "discover", "ref", self.query(), server=server)
        self.assertRegex(text, "still loading.*40 %")
        text = self.failed("discover", "ref", self.query(), server=server)
        self.assertRegex(text, "still loading.*40 %")
        threading.Timer(0.6, lambda: setattr(server, "state", "ready")).start()
        out = self.done("--wait", "60", "discover", "ref", self.query(), server=server)
        self.assertEqual(sorted(out.splitlines()[1:]), true_rows(self.refs, self.queries))
        server.close()
        text = self.failed("discover", "ref", self.query(), "--server", server.address)
        self.assertIn("not running", text)

    def test_health_status_tells_ready_from_loading(self):
        server = self.stub()
        self.assertEqual(json.loads(self.done("health", "--json", server=server))["state"], "ready")
        server.state = "loading"
        self.assertEqual(self.run_client("health", server=server).returncode, 1)


class CommandTest(Case):
    def test_index_calls(self):
        server = self.stub(extra_indexes=250)
        out = self.done("index", "list", server=server).splitlines()
        self.assertEqual(len(out), 252)
        self.assertEqual(out[1], "ref\tready\t11\tref.hspz")
        self.assertEqual(len(set(out)), 252)
        out = self.done("index", "describe", "ref", "--sequences", server=server)
        self.assertIn("digest         " + self.index.digest, out)
        table = [line.split("\t") for line in out.split("#sequence")[1].splitlines()[1:]]
        self.assertEqual([(n, int(l), int(b), int(o)) for n, l, b, o in table], self.index.table)
        self.done("index", "load", "ref", "ref.hspz", server=server)
        self.done("index", "unload", "ref", server=server)
        self.assertEqual(server.requests[-1][3], [{"index": "ref"}])

    def test_stats_are_json_and_text(self):
        server = self.stub()
        stats = json.loads(self.done("stats", "--json", server=server))
        self.assertEqual(stats, {"jobs": {"ok": 3}, "big": 2 ** 64 - 1, "f": 0.25,
                                 "names": ["a\tb", "\u540d"], "none": None})
        self.assertIn("ok: 3", self.done("stats", server=server))

    def test_top_marks_names_that_are_cut(self):
        names = {"n" * 24: "n" * 24, "n" * 25: "n" * 21 + "...", "x" * 20 + "\u540d" * 2:
                 "x" * 20 + "...", "x" * 18 + "\u540d" * 3: "x" * 18 + "\u540d..."}
        server = self.stub(stats={"indexes": [{"index": name} for name in names]})
        lines = self.done("top", "--once", server=server).splitlines()
        self.assertEqual([line.split()[0] for line in lines[-4:]], list(names.values()))

    def test_verbose_names_server_device_and_digest(self):
        out = self.run_client("-v", "discover", "ref", self.query(), server=self.stub())
        for word in (b"9.8.7", b"stub", b"one, two", self.index.digest.encode()):
            self.assertIn(word, out.stderr)

    def test_request_carries_what_was_asked(self):
        server = self.stub()
        self.done("discover", "ref", self.query(), "--strand", "minus", "--no-transitions",
                  "--unmask", "--max-hits", "kegalign:2", "--hit-limit", "100000",
                  "--max-word-count", "99", "--deadline", "1.5", "--chunk-walk", "full",
                  "--encoding", "columnar", "--no-digest", server=server)
        sent = [m for m in server.requests if m[2] == "discover"][0][3][0]
        bases = sent.pop("query")["bases"]
        self.assertEqual(bases.decode(), "&".join(b for _, b in self.queries))
        self.assertEqual(sent, {
            "index": "ref", "strand": "minus", "transitions": False, "unmask": True,
            "max_hits": 2 * 4194304, "hit_limit": 100000, "max_word_count": 99,
            "deadline_ms": 1500, "chunk_walk": "full", "digest": False, "encoding": "columnar",
            "index_digest": self.index.digest})

    def test_anchors_by_columns_are_the_same(self):
        for part in (1, 3, 20, 10000):
            server = self.stub(part=part)
            packed = self.run_client("discover", "ref", self.query(), "--format", "packed",
                                     server=server)
            columns = self.run_client("discover", "ref", self.query(), "--format", "packed",
                                      "--encoding", "columnar", server=server)
            self.assertEqual((packed.returncode, columns.returncode), (0, 0), columns.stderr)
            self.assertGreater(len(packed.stdout), 800)
            self.assertEqual(columns.stdout, packed.stdout)

    def test_columns_that_do_not_add_up_are_refused(self):
        for fault in ("empty_run", "short_run", "no_encoding"):
            server = self.stub(**{fault: 1})
            text = self.failed("discover", "ref", self.query(), "--encoding", "columnar",
                               server=server)
            self.assertRegex(text, "columns: run|anchors: .* bytes for|another encoding")

    def test_chunk_walk_comes_from_the_environment_too(self):
        for environment, options, sent in (("full", [], "full"), ("blocks", [], None),
                                           ("", [], None), ("full", ["--chunk-walk", "blocks"],
                                                            None),
                                           ("half", ["--chunk-walk", "full"], "full")):
            server = self.stub()
            out = self.done("discover", "ref", self.query(), *options, server=server,
                            env={"HSPZ_CHUNK_WALK": environment})
            self.assertEqual(sorted(out.splitlines()[1:]), true_rows(self.refs, self.queries))
            asked = [m for m in server.requests if m[2] == "discover"]
            self.assertEqual([m[3][0].get("chunk_walk") for m in asked], [sent], environment)
        text = self.failed("discover", "ref", self.query(), status=2,
                           env={"HSPZ_CHUNK_WALK": "half"})
        self.assertIn('HSPZ_CHUNK_WALK "half"', text)

    def test_progress_is_for_terminals(self):
        """Shown on a terminal, and wiped in the end; nothing of it when told to be quiet."""
        server = self.stub()
        original = server.discover

        def late(peer, job, params):
            time.sleep(0.3)
            return original(peer, job, params)
        server.discover = late
        for quiet in (False, True):
            near, far = os.openpty()
            fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("4H", 24, 12, 0, 0))
            process = subprocess.Popen(
                [CLIENT, "--server", server.address, *(["-q"] if quiet else []), "discover", "ref",
                 self.query(), "-o", self.path("out")], stderr=far)
            os.close(far)
            shown = b""
            try:
                while True:
                    data = os.read(near, 4096)
                    if not data:
                        break
                    shown += data
            except OSError:
                pass  # the terminal's other side is closed
            os.close(near)
            self.assertEqual(process.wait(300), 0, shown)
            if quiet:
                self.assertEqual(shown, b"")
            else:
                self.assertRegex(shown, rb"\r\d+ %, \d+ an")
                for line in re.split(rb"\r|\x1b\[K", shown):
                    self.assertLess(len(line), 12)
                # It is wiped in the end.
                self.assertTrue(shown.endswith(b"\r\x1b[K"), shown[-80:])

    def test_numbers_are_whole_or_refused(self):
        for option in ("--max-hits", "--hit-limit", "--max-word-count", "--wait", "--timeout",
                       "--deadline"):
            for value in ("1e5", "10k", "0x10", "-2", "5x", " 5", "5 ", "", str(2 ** 64), "nan",
                          "+5", "1.", ".5", "1,5"):
                text = self.failed("discover", "ref", "q", option, value, status=2)
                self.assertIn(option, text)
                self.assertIn('"%s"' % value, text)
        for option in ("--step", "--threads", "--block-size", "--memory"):
            for value in ("0", "1e5", "-1", "5x", "", str(2 ** 64), "1.5"):
                text = self.failed("index", "build", "r", "-o", "x", option, value, status=2)
                self.assertIn('%s "%s"' % (option, value), text)
        for value in ("0", "kegalign:", "kegalign:0", "kegalign:x", "segalign:2"):
            self.assertIn("--max-hits", self.failed("discover", "ref", "q", "--max-hits", value,
                                                    status=2))

    def test_usage_errors(self):
        for arguments, what in ((["discover"], "NAME is missing"),
                                (["discover", "ref"], "QUERY is missing"),
                                (["index", "build", "-o", "x"], "REF is missing"),
                                (["index", "build", "r", "-o", "-"], "to a file"),
                                (["index", "load", "x"], "FILE is missing"),
                                (["index", "unload"], "NAME is missing")):
            self.assertIn(what, self.failed(*arguments, status=2))
        for arguments in ([], ["bogus"], ["index"], ["index", "bogus"], ["discover"],
                          ["discover", "ref"], ["discover", "ref", "q", "--bogus"],
                          ["discover", "ref", "q", "r"], ["--bogus", "health"],
                          ["discover", "ref", "q", "--seeds", "s"], ["health", "x"],
                          ["discover", "ref", "q", "--strand", "up"], ["--server"],
                          ["discover", "ref", "q", "--format", "bam"], ["health", "--json=1"],
                          ["--server", "udp:x", "health"], ["--server", "tcp:x", "health"],
                          ["index", "build", "r"], ["index", "build", "r", "-o", "x", "--seed",
                                                    "abc"]):
            self.assertIn("hspz-client: ", self.failed(*arguments, status=2))

    def test_help_fits_a_screen_and_has_an_example(self):
        program = self.done("--help")
        names = [line[2:17].strip() for line in program.split("Options")[0].splitlines()
                 if line.startswith("  ")]
        for group in ("filter", "kmers"):
            within = re.findall(r"(?m)^  ([a-z-]+)  ", self.done(group, "--help"))
            self.assertGreater(len(within), 4)
            names += [group + " " + name for name in within]
        self.assertGreater(len(names), 25)
        for name in names:
            with self.subTest(name):
                text = self.done(*name.split(), "--help")
                self.assertTrue(text.startswith("Usage: hspz-client " + name))
                self.assertRegex(text, r"(?m)^Example: (.*\| )?hspz-client (.* )?" + name + r"\b")
                self.assertLessEqual(len(text.splitlines()), 24)
                self.assertLessEqual(max(map(len, text.splitlines())), 80)
        self.assertLessEqual(len(program.splitlines()), 40)
        self.assertLessEqual(max(map(len, program.splitlines())), 80)
        self.assertRegex(self.done("--version"), r"^hspz-client \d+\.\d+\.\d+\n$")

    def test_server_is_found_where_it_should_be(self):
        run = self.path("run")
        os.mkdir(run)
        with Stub(os.path.join(run, "hspz.sock"), self.index):
            self.done("health", env={"XDG_RUNTIME_DIR": run})
            self.failed("health", env={"XDG_RUNTIME_DIR": run,
                                       "HSPZ_SERVER": "unix:" + self.path("none")})
        server = self.stub()
        self.done("health", env={"HSPZ_SERVER": server.address})
        self.assertIn('HSPZ_SERVER: address "foo"',
                      self.failed("health", env={"HSPZ_SERVER": "foo"}))
        tcp = Stub(("127.0.0.1", 0), self.index)
        self.addCleanup(tcp.close)
        self.done("health", "--server", tcp.address)

    def test_token_is_sent(self):
        server = self.stub()
        self.done("health", "--token-file", self.write("token", "secret\n"), server=server)
        self.assertEqual(server.requests[0][3][0]["token"], "secret")
        self.done("health", server=server, env={"HSPZ_TOKEN": "other"})
        self.assertEqual([m for m in server.requests if m[2] == "hello"][-1][3][0]["token"],
                         "other")
        self.failed("health", "--token-file", self.write("token", "\n"), server=server)
        for text in ("x" * 1024, "x" * 1024 + "\n"):
            self.done("health", "--token-file", self.write("token", text), server=server)
            self.assertEqual([m for m in server.requests if m[2] == "hello"][-1][3][0]["token"],
                             "x" * 1024)
        for text in ("x" * 1025, "x" * 1025 + "\n"):
            self.failed("health", "--token-file", self.write("token", text), server=server)

    def test_index_build_needs_no_server(self):
        source = self.write("ref.fa", fasta([("a", self.refs[0][1]), ("b", self.refs[4][1])]))
        target = self.path("x.hspz")
        out = self.run_client("index", "build", source, "-o", target, "--threads", "2")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertRegex(out.stderr, b"memory: [0-9]+ bytes")
        self.assertRegex(out.stderr, b"digest [0-9a-f]{16}, [0-9]+ words")
        self.assertRegex(out.stderr, b"lower case")
        self.assertTrue(os.path.getsize(target) > 1000)
        text = self.failed("index", "build", source, "-o", self.path("y"), "--memory", "1")
        self.assertIn("budget", text)
        self.assertFalse(os.path.exists(self.path("y")))
        text = self.failed("index", "build", self.write("dup.fa", ">2L one\nACGT\n>2L two\nAC\n"),
                           "-o", self.path("y"))
        self.assertRegex(text, "lines 1 and 3.*2L")
        self.failed("index", "build", source, "-o", "/dev/full")

    def test_index_build_says_what_its_budget_is_held_to(self):
        source = self.write("ref.fa", fasta([("a" * 50, self.refs[0][1])]))
        text = self.failed("index", "build", source, "-o", self.path("y"), "--memory", "1")
        needs = re.findall(r"(\d+) bytes \(table", text)
        self.assertEqual(len(needs), 2, text)
        self.assertEqual(needs[0], needs[1], text)

    def test_index_build_fails_before_it_reads_when_it_cannot_write(self):
        missing = self.path("missing.fa")  # reading it would fail with its name
        for target, why in ((self.path("no/x"), "No such file"), (self.dir, "not replaced"),
                            ("/dev/null", "not replaced")):
            text = self.failed("index", "build", missing, "-o", target)
            self.assertIn(target, text)
            self.assertIn(why, text)
            self.assertNotIn("missing.fa", text)

    def test_index_build_keeps_a_link(self):
        source = self.write("ref.fa", fasta([("a", self.refs[0][1])]))
        self.write("real", "old")
        os.symlink("real", self.path("link"))
        self.done("index", "build", source, "-o", self.path("link"))
        self.assertTrue(os.path.islink(self.path("link")))
        self.assertGreater(os.path.getsize(self.path("real")), 1000)

    def test_index_without_a_word_is_warned_of(self):
        for bases, warned in (("ACGT", True), ("acgt" * 30, True), ("ACGT" * 30, False)):
            source = self.write("ref.fa", fasta([("a", bases)]))
            out = self.run_client("index", "build", source, "-o", self.path("x"))
            self.assertEqual(out.returncode, 0, out.stderr)
            self.assertEqual(b"warning: " in out.stderr, warned, out.stderr)
        out = self.run_client("index", "build", "-", "-o", self.path("x"), data=b">a\nACGT\n")
        self.assertIn(b"standard input: 1 sequence", out.stderr)

    def test_input_is_never_replaced(self):
        """Neither under its name, nor under another, nor when it is standard input."""
        text = fasta([("a", self.refs[0][1])])
        source = self.write("ref.fa", text)
        os.symlink("ref.fa", self.path("link"))
        os.link(source, self.path("hard"))
        server = self.stub()
        for target in (source, self.path("link"), self.path("hard")):
            for command in (["index", "build", source], ["discover", "ref", source],
                            ["discover", "ref", "--seeds", source]):
                self.assertIn("input itself",
                              self.failed(*command, "-o", target, status=2, server=server))
            with open(source) as f:
                self.failed("index", "build", "-", "-o", target, status=2, stdin=f)
            with open(source) as f:
                self.assertEqual(f.read(), text)


if __name__ == "__main__":
    unittest.main()
