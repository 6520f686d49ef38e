"""The Python package against the real server: what hspz-client gets and what brute force says, over
every transport and encoding; filters against sets and counts; what goes wrong as exceptions."""

import contextlib
import gc
import gzip
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter

import numpy as np

import hspz_test
from hspz_test import bases, pack_seeds, reverse_complement

sys.path.insert(0, os.path.join(hspz_test.SOURCE, "tests", "client"))
from python_hspz import PACKAGE, hspz  # noqa: E402


class Case(hspz_test.TestCase):
    def setUp(self):
        super().setUp()
        rng = random.Random(71)
        unit = bases(rng, 300)
        core = bases(rng, 24000)
        self.reference = [("a", core[:9000] + unit * 6), ("b|x", core[9000:20000] + "A" * 700),
                          ("c", unit * 3 + core[20000:].lower() + core[20000:])]
        self.records = [("q", core[2000:6000] + unit * 3 + "A" * 200),
                        ("p", reverse_complement(core[12000:15000]) + "N" * 30 + core[21000:23000]),
                        ("r", core[100:1100].lower())]
        self.query = hspz.Query(self.records)

    def connect(self, daemon, **more):
        client = hspz.connect(daemon.server, **more)
        self.addCleanup(client.close)
        return client

    def code(self, code, *words):
        """Expects the server's error of that code, with the words in its text."""
        test = self

        class Expect(contextlib.AbstractContextManager):
            error = None

            def __exit__(self, kind, error, _):
                test.assertIsInstance(error, hspz.ServerError)
                test.assertEqual(error.code, code, error)
                for word in words:
                    test.assertIn(word, error.text)
                self.error = error
                return True
        return Expect()


class AnchorsTest(Case):
    def setUp(self):
        super().setUp()
        # Three blocks, and parts small enough that there are many.
        self.index_file = self.index(self.reference, "--block-size", "9500")
        self.node = self.daemon("--part-bytes", "64K", indexes={"ref": self.index_file})
        self.client = self.connect(self.node)

    def both(self, want, query=None, **job):
        """Every encoding and transport gives the bytes."""
        query = {"query": self.query} if query is None else query
        for encoding in ("packed", "columnar"):
            for transport in ("stream", "shm"):
                with self.subTest(encoding=encoding, transport=transport, **job):
                    discovery = self.client.discover("ref", encoding=encoding, transport=transport,
                                                     **query, **job)
                    self.assert_same_anchors(discovery.collect().tobytes(), want)
                    self.assertEqual(discovery.summary.anchors, len(want) // 8)
        return discovery.summary

    def test_bytes_are_those_of_hspz_client(self):
        fasta = self.file("q.fa", hspz_test.fasta(self.records))
        for options, job in (([], {}), (["--strand", "minus"], {"strand": "minus"}),
                             (["--unmask", "--no-transitions"],
                              {"unmask": True, "transitions": False}),
                             (["--max-hits", "333", "--max-word-count", "5"],
                              {"max_hits": 333, "max_word_count": 5})):
            done = self.node.client("discover", "ref", fasta, "--format", "packed", *options,
                                    check=0, text=False)
            summary = self.both(done.stdout, **job)
        self.assertGreater(summary.chunks, 30)

    def test_a_filter_masks(self):
        fasta = self.file("q.fa", hspz_test.fasta(self.records))
        words = self.client.filters.create("words", "counter", capacity=1000, k=11, canonical=True)
        words.insert_sequence(self.query)
        counts = {}
        for options, job in (([], {}), (["--mask-filter", "words:1"], {"mask_filter": "words",
                                                                       "mask_count": 1}),
                             (["--mask-filter", "words"], {"mask_filter": "words"})):
            for command in ("discover", "hsps"):
                done = self.node.client(command, "ref", fasta, "--format", "packed", *options,
                                        check=0, text=False)
                got = getattr(self.client, command)("ref", self.query, **job).collect()
                if command == "discover":
                    self.assertEqual(got.tobytes(), done.stdout)
                counts[command, len(counts) // 2] = len(got)
        self.assertGreater(counts["discover", 0], counts["discover", 1])
        self.assertGreater(counts["discover", 1], counts["discover", 2])
        self.assertGreater(counts["hsps", 0], counts["hsps", 2])
        words.drop()

    def test_a_single_block_is_what_brute_force_says(self):
        node = self.daemon("--part-bytes", "64K", socket_path=self.path("other.sock"),
                           indexes={"ref": self.index(self.reference, name="one")})
        self.client = self.connect(node)
        summary = self.both(hspz_test.discover(self.reference, self.records))
        self.assertGreater(summary.minus.hits, 3000)
        self.both(hspz_test.discover(self.reference, self.records, strand="plus",
                                     transitions=False), strand="plus", transitions=False)
        # Seeds: as numbers of any kind, in any order, unaligned or not.
        shape = hspz_test.SHAPE_12OF19
        seeds = list(hspz_test.seeds_of(self.records[0][1], shape))[::-3]
        want = hspz_test.pack_anchors(hspz_test.anchors_of(
            hspz_test.buckets_of(hspz_test.block_of(self.reference), shape), seeds, len(shape)))
        numbers = np.frombuffer(pack_seeds(seeds), "<u8")
        for given in (numbers, numbers.astype(">u8"), numbers.astype(np.int64), numbers.tolist(),
                      np.repeat(numbers, 2)[::2]):
            self.both(want, query={"seeds": given})
        self.assertEqual(len(self.client.discover("ref", seeds=[]).collect()), 0)
        self.assertEqual(len(self.client.discover("ref", b"").collect()), 0)

    def test_arrays_are_views_and_stay(self):
        want = list(self.client.discover("ref", self.query))
        self.assertGreater(len(want), 10)
        parts = {transport: list(self.client.discover("ref", self.query, transport=transport))
                 for transport in ("stream", "shm")}
        for transport, got in parts.items():
            self.assertEqual([p.head for p in got], [p.head for p in want])
            for a, b in zip(got, want):
                self.assertEqual(a.records().tobytes(), b.records().tobytes(), transport)
                self.assertFalse(a.reference.flags.owndata)
                self.assertTrue(np.shares_memory(a.reference, a.records()))
        # Of the memory shared all places but one may be held; what comes then is copied.
        writable = [p.reference.flags.writeable for p in parts["shm"]]
        held = self.client.server.limits["parts_per_connection"] - 1
        self.assertEqual(writable, [False] * held + [True] * (len(want) - held))
        kept = [p.reference[:100].copy() for p in parts["shm"]]
        again = list(self.client.discover("ref", self.query, strand="minus", transport="shm"))
        self.assertTrue(all(p.reference.flags.writeable for p in again))
        for p, copy in zip(parts["shm"], kept):
            self.assertEqual(p.reference[:100].tolist(), copy.tolist())
        del parts, got, a, p, again
        gc.collect()
        for part in self.client.discover("ref", self.query, transport="shm"):
            self.assertFalse(part.reference.flags.writeable)
        # By columns the reference is one too, and the query made once.
        for part in self.client.discover("ref", self.query, encoding="columnar"):
            self.assertFalse(part.reference.flags.owndata)
            self.assertIs(part.query, part.query)
            self.assertEqual(int(part.runs()[1].sum()), len(part))

    def test_rows_are_those_of_hspz_client(self):
        fasta = self.file("q.fa", hspz_test.fasta(self.records))
        index = self.client.describe("ref")
        self.assertEqual(len(index.blocks), 3)
        self.assertEqual(index.sequences.names, [name for name, _ in self.reference])
        for command, jobs in (("discover", self.client.discover), ("hsps", self.client.hsps)):
            text = self.node.client(command, "ref", fasta, check=0).stdout
            want = [line.split("\t") for line in text.splitlines()[1:]]
            got = []
            for part in jobs("ref", hspz.Query.from_fasta(fasta)):
                rows = index.windows(part, self.query)
                score = part.score.tolist() if command == "hsps" else [None] * len(part)
                for i, value in enumerate(score):
                    row = [index.sequences.names[rows.ref[i]], rows.ref_start[i], rows.ref_end[i],
                           self.query.names[rows.query[i]], rows.query_start[i], rows.query_end[i],
                           "+" if part.strand == "plus" else "-"]
                    got.append([str(v) for v in row + ([] if value is None else [value])])
            self.assertGreater(len(want), 20)
            # HSPs that lie next to each other may be printed in another order.
            self.assertEqual(*((got, want) if command == "discover" else (sorted(got), sorted(want))))

    def test_hsps_are_those_of_hspz_client(self):
        fasta = self.file("q.fa", hspz_test.fasta(self.records))
        for options, job in (([], {}), (["--hspthresh", "1500", "--xdrop", "500", "--noentropy"],
                                        {"threshold": 1500, "xdrop": 500, "entropy": False})):
            done = self.node.client("hsps", "ref", fasta, "--format", "packed", *options, check=0,
                                    text=False)
            want = hspz_test.unpack_hsps(done.stdout)
            for transport in ("stream", "shm"):
                got = self.client.hsps("ref", self.query, transport=transport, **job).collect()
                self.assertEqual(got.dtype, hspz.HSP)
                self.assertEqual([tuple(row) for row in got.tolist()], want)
            self.assertGreater(len(want), 20)
        # Other scores: a match is 1, so nothing reaches what random bases do not.
        scores = np.full((8, 8), -100)
        np.fill_diagonal(scores[:4, :4], 1)
        scores[7] = scores[:, 7] = 0
        got = self.client.hsps("ref", self.query, scores=scores, threshold=500, entropy=False,
                               xdrop=0).collect()
        self.assertGreater(len(got), 5)
        self.assertTrue((got["score"] == got["length"]).all())
        # The first record's 4000 bases of the reference, and two that are alike after them.
        text, ref = self.query.bases.decode(), hspz_test.block_of(self.reference)
        more = next(i for i in range(99) if text[4000 + i] != ref[6000 + i])
        self.assertIn((2000, 0, 4000 + more, 4000 + more), got.tolist())

    def test_a_discovery_left_early_is_cancelled(self):
        want = self.client.discover("ref", self.query).collect().tobytes()
        for transport in ("stream", "shm"):
            for _ in range(12):
                with self.client.discover("ref", self.query, transport=transport) as discovery:
                    first = next(discovery)
                    self.assertGreater(len(first), 100)
                    with self.assertRaises(ValueError):
                        self.client.health()
                with self.assertRaises(ValueError):  # not an end that looks like a whole one
                    next(discovery)
                self.assertEqual(self.client.health()["state"], "ready")
            for _ in self.client.discover("ref", self.query, transport=transport):
                break
            got = self.client.discover("ref", self.query, transport=transport).collect()
            self.assert_same_anchors(got.tobytes(), want)

    def test_the_servers_errors_and_their_numbers(self):
        with self.code("unknown_index", '"nothing"'):
            self.client.describe("nothing")
        with self.code("unknown_index"):
            next(self.client.discover("nothing", self.query))
        with self.code("bad_request", "xyz"):
            self.client.call("health", {"xyz": 1})
        with self.code("unknown_method"):
            self.client.call("sing")
        with self.code("too_large") as expect:
            list(self.client.discover("ref", self.query, hit_limit=1000))
        self.assertEqual(expect.error.limit, 1000)
        self.assertGreater(expect.error.hits, 1000)
        with self.code("bad_request", "4"):
            self.client.discover("ref", b"ACGT5ACGT").collect()
        with self.code("unsupported"):
            self.client.discover("ref", b"ACGT", encoding="rows").collect()
        with self.assertRaises(ValueError):
            self.client.discover("ref")
        with self.assertRaises(TypeError):
            hspz.connect(pathlib.Path("hspz.sock"))
        # Numbers of numpy are numbers.
        with self.code("too_large"):
            list(self.client.discover("ref", self.query, hit_limit=np.int64(1000)))
        damaged = self.file("damaged.fa.gz", gzip.compress(b">a\nACGT\n")[:-9])
        with self.assertRaisesRegex(ValueError, "damaged.fa.gz"):
            hspz.Query.from_fasta(damaged)
        # The connection has lived through all of it.
        self.assertEqual(self.client.health()["state"], "ready")
        self.assertEqual(self.client.stats()["jobs"]["ok"], 0)
        # All of nothing may be asked for twice, what was read once may not.
        read = self.client.discover("ref", b"N" * 40)
        self.assertEqual(list(read), [])
        self.assertEqual(len(read.collect()), 0)
        read = self.client.discover("ref", self.query)
        self.assertGreater(sum(len(part) for part in read), 1000)
        with self.assertRaises(ValueError):
            read.collect()

    def test_a_server_that_dies_is_incomplete(self):
        discovery = self.client.discover("ref", self.query)
        next(discovery)
        self.node.process.send_signal(signal.SIGKILL)
        self.node.process.wait()
        with self.assertRaises(hspz.Incomplete):
            list(discovery)
        with self.assertRaises(ValueError):
            list(discovery)
        with self.assertRaises(hspz.Incomplete):
            self.client.health()
        with self.assertRaises(hspz.NoServer):
            hspz.connect(self.node.server)

    def test_the_notebook_runs(self):
        ref = hspz_test.genome("ragout", "examples/H.Pylori/references/G27.fasta.gz")
        query = hspz_test.genome("ragout", "examples/H.Pylori/references/ELS37.fasta.gz")
        node = self.daemon("--index-dir", self.folder, socket_path=self.path("pylori.sock"))
        hspz_test.build_index(ref, self.path("pylori.hspz"))
        env = hspz_test.child_env(HSPZ_SERVER=node.server, HSPZ_QUERY=query, PYTHONPATH=PACKAGE,
                                  PYTHONDONTWRITEBYTECODE="1")
        done = subprocess.run([sys.executable, os.path.join(PACKAGE, "examples", "strains.py")],
                              env=env, capture_output=True, text=True, check=False,
                              timeout=60 * hspz_test.SLOWER)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        packed = node.client("discover", "pylori", query, "--no-transitions", "--format", "packed",
                             check=0, text=False).stdout
        self.assertIn("anchors: %d," % (len(packed) // 8), done.stdout)
        rows = node.client("hsps", "pylori", query, check=0).stdout.splitlines()[1:]
        longest = max(int(row.split("\t")[2]) - int(row.split("\t")[1]) for row in rows)
        self.assertIn("HSPs: %d, the longest of %d bases\n" % (len(rows), longest), done.stdout)
        total, at = 0, 0
        for begin, end in sorted((int(row.split("\t")[1]), int(row.split("\t")[2])) for row in rows):
            total += max(0, end - max(at, begin))
            at = max(at, end)
        size = sum(len(seq) for _, seq in hspz_test.read_fasta(ref))
        self.assertGreater(total, size / 2)
        self.assertIn("covered: %.1f %%\n" % (100 * total / size), done.stdout)
        self.assertRegex(done.stdout, r"found: all True, of the others 0\.0\d+ %\n")


class ServerTest(Case):
    def test_lists_come_whole_over_pages(self):
        rng = random.Random(5)
        names = ["s%d" % i for i in range(1200)] + ["caf\u00e9"]
        records = [(name, bases(rng, rng.randrange(20, 60))) for name in names]
        path = self.file("many.fa", hspz_test.fasta(records).encode() + b">\xff\xfe\nACGTACGTACGT\n")
        node = self.daemon("--index-dir", self.folder, "--data-dir", self.folder)
        with self.connect(node) as client:
            self.assertEqual(client.indexes(), [])
            made = client.build("many", "many.fa", "many.hspz", block_size=9000)
            index = client.describe("many")
            self.assertEqual(index.sequences.names, names + [b"\xff\xfe"])
            self.assertEqual(index.sequences.lengths.tolist(), [len(s) for _, s in records] + [12])
            self.assertGreater(len(index.blocks), 3)
            self.assertEqual((made.digest, made.bytes), (index.digest, index.bytes))
            self.assertEqual(hspz.Query.from_fasta(path).names, index.sequences.names)
            rows = client.indexes()
            self.assertEqual([(row.name, row.state, row.bytes) for row in rows],
                             [("many", "ready", made.bytes)])
            self.assertEqual(client.unload("many").name, "many")
            with self.code("unknown_index"):
                client.unload("many")
            self.assertEqual(client.load("again", "many.hspz", index_digest=made.digest),
                             hspz.LoadedIndex("again", made.digest, made.bytes))
            with self.code("bad_file", "step 2"):
                client.load("other", "many.hspz", step=2)
            with self.code("io_error", "nothing.hspz"):
                client.load("other", "nothing.hspz")
            for i in range(305):
                client.filters.create("f%03d" % i, "bloom", slots=64)
            self.assertEqual(sorted(f.name for f in client.filters.list()),
                             ["f%03d" % i for i in range(305)])
            self.assertEqual(client.stats()["filter_count"], 305)

    def test_filters_are_sets_and_counts(self):
        rng = np.random.default_rng(3)
        keys = rng.integers(0, 1 << 63, 3000, dtype=np.uint64) * 2 + 1
        others = keys ^ np.uint64(1)
        often = np.repeat(keys[:500], 3)
        node = self.daemon("--filter-dir", self.folder, "--max-keys", "1001")
        with self.connect(node) as client:
            self.assertLess(client.server.limits["max_keys"], 3000)
            for kind in ("tcf", "gqf", "bloom", "blocked", "sqf", "rsqf"):
                with self.subTest(kind):
                    some = client.filters.create(kind, kind, capacity=10000)
                    done = some.insert(keys)
                    self.assertEqual((done.keys, done.yes, done.full), (3000, 3000, False))
                    self.assertTrue(done.present.all())
                    self.assertTrue(some.query(keys).present.all())
                    asked = some.query(np.concatenate((keys, others)))
                    self.assertTrue(asked.present[:3000].all())
                    self.assertLess(asked.present[3000:].mean(), 0.03)
                    self.assertEqual(asked.yes, int(asked.present.sum()))
                    stats = some.stats()
                    self.assertEqual((stats.name, stats.kind, stats.full), (kind, kind, False))
                    self.assertGreaterEqual(stats.entries, 2900)
                    if kind in ("tcf", "gqf"):
                        self.counts(some, keys, often)
                    else:
                        with self.code("unsupported"):
                            some.count(keys)
                    if kind in ("bloom", "blocked"):
                        with self.code("unsupported"):
                            some.enumerate()
                    elif kind != "tcf":
                        self.assertEqual(len(some.enumerate()), some.stats().entries)
            more = client.filters.create("more", "gqf", capacity=10000)
            more.insert(others)
            self.assertEqual(client.filters["more"].merge("gqf").total, 3000 + 3000 + 1500 - 500)
            self.assertTrue(more.query(keys).present.all())
            more.save()
            more.drop()
            with self.code("unknown_filter"):
                more.query(keys)
            self.assertTrue(client.filters.load("more").query(others).present.all())
            client.filters["more"].drop(saved=True)
            with self.code("unknown_filter"):
                client.filters.load("more")
            # Values, an absent key's insert, one that is full.
            valued = client.filters.create("valued", "tcf", capacity=1000, value_bits=20)
            valued.insert(keys[:100], values=np.arange(100))
            done = valued.insert_if_absent(keys[50:150], values=np.arange(1000, 1100))
            self.assertEqual(done.present.tolist(), [False] * 50 + [True] * 50)
            self.assertEqual(done.array[:50].tolist(), list(range(50, 100)))
            self.assertEqual(valued.query(keys[:150], values=True).array.tolist(),
                             list(range(100)) + list(range(1050, 1100)))
            full = client.filters.create("full", "gqf", slots=64)
            done = full.insert(keys)
            self.assertTrue(done.full)
            self.assertEqual(int(done.present.sum()), done.yes)
            self.assertLess(done.yes, 100)
            self.assertTrue(full.query(keys[done.present]).present.all())
            with self.code("bad_request"):
                client.filters.create("gqf", "gqf", capacity=10)

    def counts(self, some, keys, often):
        """Keys 0 to 499 go in three times more, then once is taken away."""
        some.insert(often)
        truth = Counter(keys.tolist()) + Counter(often.tolist())
        counted = some.count(keys[:1000])
        want = np.array([truth[key] for key in keys[:1000].tolist()])
        self.assertTrue((counted.array >= want).all())
        self.assertGreater((counted.array == want).mean(), 0.98)
        done = some.delete(keys[:500]) if some.name == "tcf" else some.decrement(keys[:500])
        self.assertEqual(done.yes, 500)
        again = some.count(keys[:500]).array
        self.assertTrue((again >= want[:500] - 1).all())
        self.assertGreater((again == want[:500] - 1).mean(), 0.98)

    def test_kmers_of_a_sequence_are_counted(self):
        """Over pieces of 300 bases, against counts of text; canonical ones and not."""
        text = self.query.bases.decode()
        node = self.daemon("--max-keys", "300")
        with self.connect(node) as client:
            for k, canonical in ((12, True), (32, False), (1, False)):
                words = [text[i:i + k].upper() for i in range(len(text) - k + 1)]
                words = [word if set(word) <= set("ACGT") else None for word in words]
                if canonical:
                    words = [word and min(word, reverse_complement(word)) for word in words]
                truth = Counter(word for word in words if word)
                want = [truth[word] if word else 0 for word in words] + [0] * (k - 1)
                counter = client.filters.create("k%d" % k, "counter", capacity=100, k=k,
                                                canonical=canonical)
                done = counter.insert_sequence(text)
                self.assertEqual((done.keys, done.yes), (len(text), sum(truth.values())))
                self.assertEqual(done.present.tolist(), [count > 0 for count in want])
                self.assertEqual(counter.count_sequence(text.lower()).array.tolist(), want)
                self.assertEqual(counter.query_sequence(text.encode()).present.tolist(),
                                 [count > 0 for count in want])
                codes = {sum("ACGT".index(c) << 2 * i for i, c in enumerate(reversed(word))): count
                         for word, count in truth.items()}
                entries = counter.enumerate()
                self.assertEqual(dict(zip(entries["fingerprint"].tolist(),
                                          entries["count"].tolist())), codes)
                stats = counter.stats()
                self.assertEqual((stats.k, stats.canonical, stats.entries, stats.total),
                                 (k, canonical, len(truth), sum(truth.values())))
                self.assertEqual(counter.count(list(codes)[:200]).array.tolist(),
                                 list(codes.values())[:200])

    def test_who_one_is_and_where_nobody_listens(self):
        hspz_test.need_tls()
        from test_tls import TOKEN, Authority
        ca = Authority(self.folder, "ca")
        certificate, key = ca.sign("server")
        config = {"listen": ["127.0.0.1:0"], "tls_certificate": certificate, "tls_key": key,
                  "tenants": [{"name": "me", "role": "operator", "uids": os.getuid()},
                              {"name": "lab", "token_sha256":
                               hashlib.sha256(TOKEN.encode()).hexdigest()}]}
        node = self.daemon(config=json.dumps(config), indexes={"ref": self.index(self.reference)})
        where = "tls:localhost:%d" % node.port()
        tls = hspz.Tls(ca.certificate)
        want = hspz_test.discover(self.reference, self.records)
        with hspz.connect(where, token=TOKEN, tls=tls) as client:
            self.assertEqual((client.server.tenant, client.server.role), ("lab", "user"))
            for encoding in ("packed", "columnar"):
                got = client.discover("ref", self.query, encoding=encoding, transport="auto")
                self.assert_same_anchors(got.collect().tobytes(), want)
            with self.code("unsupported", "UNIX socket"):
                client.discover("ref", self.query, transport="shm")
            with self.code("forbidden"):
                client.unload("ref")
        with self.code("unauthorized"):
            hspz.connect(where, token="wrong", tls=tls)
        with self.assertRaisesRegex(hspz.NoServer, "(?i)certificate"):
            hspz.connect(where, token=TOKEN)
        with self.assertRaisesRegex(hspz.NoServer, "(?i)certificate|mismatch"):
            hspz.connect(where, token=TOKEN, tls=hspz.Tls(ca.certificate, server_name="other"))
        with hspz.connect(node.server) as client:
            self.assertEqual(client.server.tenant, "me")
        with self.assertRaisesRegex(hspz.NoServer, "nothing.sock"):
            hspz.connect("unix:" + self.path("nothing.sock"))
        with self.assertRaises(hspz.NoServer):
            hspz.connect("tcp:127.0.0.1:%d" % hspz_test.free_port())

    def test_a_server_is_waited_for(self):
        path = self.path("late.sock")
        index = self.index(self.reference)
        got = []
        waiting = threading.Thread(target=lambda: got.append(
            hspz.connect("unix:" + path, wait=60 * hspz_test.SLOWER)))
        waiting.start()
        self.assertTrue(waiting.is_alive())
        self.daemon("--listen", "127.0.0.1:0", socket_path=path, indexes={"ref": index})
        waiting.join(60 * hspz_test.SLOWER)
        self.assertEqual(got[0].server.state, "ready")
        with got[0] as client:
            self.assertGreater(len(client.discover("ref", self.query).collect()), 1000)

    def test_it_installs_from_the_tree_without_a_network(self):
        copy = self.path("python")
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
        target = self.path("site")
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index",
             "--target", target, "--no-compile", copy], capture_output=True, text=True, check=False,
            timeout=120 * hspz_test.SLOWER)
        if "No module named pip" in done.stderr:
            self.skipTest("no pip")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        node = self.daemon(indexes={"ref": self.index(self.reference)})
        program = ("import hspz, os; assert hspz.__file__.startswith(%r), hspz.__file__; "
                   "assert os.path.exists(os.path.join(os.path.dirname(hspz.__file__), 'py.typed')); "
                   "c = hspz.connect(); "
                   "print(c.discover('ref', %r).collect().tobytes().hex())"
                   % (target, self.records[1][1]))
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              check=False, cwd=self.folder,
                              env=hspz_test.child_env(PYTHONPATH=target, HSPZ_SERVER=node.server))
        self.assertEqual(done.stderr, "")
        self.assert_same_anchors(bytes.fromhex(done.stdout.strip()),
                                 hspz_test.discover(self.reference, self.records[1:2]))


if __name__ == "__main__":
    hspz_test.main()
