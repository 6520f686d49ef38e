"""Cases whose right answer is one number, one line or one code: nothing near it will do."""

import os
import random
import re
import resource
import signal
import struct
import subprocess
import time
import unittest

import msgpack

import hspz_test
from hspz_test import SHAPE_12OF19, SHAPE_14OF22, SLOWER, bases, build_index, client, fasta

BATCH_POSITIONS = 250000


class SeedCountTest(hspz_test.TestCase):
    """Numbers of seeds and batches, told by the final record."""

    def test_each_valid_position_makes_one_seed_or_one_and_one_per_care_position(self):
        rng = random.Random(12)
        text = bases(rng, 500) + "N" + bases(rng, 30).lower() + bases(rng, 300)
        for shape, steps in ((SHAPE_12OF19, (1,)), ("1110100110101", (1, 2, 5)), ("1111", (1, 3))):
            valid = sum(1 for _ in hspz_test.words_of(text, shape))
            weight = len(shape) - shape.count("0")
            # Step belongs to the reference: it changes no seed of the query.
            for step in steps:
                index = self.index([("r", text)], "--seed", shape, "--step", step)
                with self.daemon(indexes={"r": index}).peer() as peer:
                    for transitions, seeds in ((False, valid), (True, valid * (1 + weight))):
                        result, _, _ = peer.discover("r", query={"bases": text.encode()},
                                                     transitions=transitions)
                        for strand in ("plus", "minus"):
                            self.assertEqual(result["strands"][strand]["seeds"], seeds)
                            self.assertEqual(result["strands"][strand]["batches"], 1)
                self.daemons.pop().stop()

    def test_a_batch_holds_250000_positions_and_one_more_makes_two(self):
        rng = random.Random(4)
        ref = [("r", bases(rng, 3000))]
        daemon = self.daemon(indexes={"r": self.index(ref, "--seed", "14of22")})
        with daemon.peer() as peer:
            for positions, batches in ((BATCH_POSITIONS, 1), (BATCH_POSITIONS + 1, 2)):
                # The hits are at the border.
                text = bases(rng, positions + 21 - 2000) + ref[0][1][500:2500]
                result, data, parts = peer.discover("r", query={"bases": text.encode()},
                                                    strand="plus")
                self.assertEqual(result["strands"]["plus"],
                                 dict(result["strands"]["plus"], batches=batches,
                                      seeds=15 * positions))
                self.assert_same_anchors(data, hspz_test.discover(
                    ref, [("q", text)], SHAPE_14OF22, strand="plus"))
                self.assertEqual({p["batch"] for p in parts}, set(range(batches)))

    def test_max_hits_is_taken_exactly_or_refused(self):
        text = bases(random.Random(1), 400)
        index = self.index([("r", text)])
        query = self.file("q.fa", fasta([("q", text)]))
        daemon = self.daemon(indexes={"r": index})
        with daemon.peer() as peer:
            for cap in (1, 2**31, 4294967295, 4294967296, 2**53 + 1, 9223372036854775807,
                        18446744073709551615):
                result, data, _ = peer.discover("r", query={"bases": text.encode()}, max_hits=cap)
                self.assertEqual(result["max_hits"], cap)
                self.assertEqual(data, hspz_test.discover([("r", text)], [("q", text)]))
                done = daemon.client("-v", "discover", "r", query, "--max-hits", cap, check=0)
                self.assertRegex(done.stderr, r"cap %d\b" % cap)
            for cap in (0, -1, 1.5, "8", True, None, 1e10):
                error = peer.error("discover", index="r", query={"bases": text.encode()},
                                   max_hits=cap)
                self.assert_code(error, "bad_request", "max_hits")

    def test_kegalign_caps_are_4194304_per_gib(self):
        text = bases(random.Random(1), 100)
        query = self.file("q.fa", fasta([("q", text)]))
        daemon = self.daemon(indexes={"r": self.index([("r", text)])})
        for gib in (1, 24, 80):
            done = daemon.client("-v", "discover", "r", query, "--max-hits", "kegalign:%d" % gib,
                                 check=0)
            self.assertRegex(done.stderr, r"cap %d\b" % (gib * 4194304))
        done = daemon.client("-v", "discover", "r", query, check=0)
        self.assertRegex(done.stderr, r"cap 268435456\b")

    def test_a_self_comparison_of_300_kb_in_many_chunks(self):
        text = bases(random.Random(7), 300000)
        daemon = self.daemon(indexes={"r": self.index([("r", text)])})
        want = hspz_test.discover([("r", text)], [("q", text)], transitions=False, strand="plus")
        with daemon.peer() as peer:
            result, data, parts = peer.discover("r", query={"bases": text.encode()}, strand="plus",
                                                transitions=False, max_hits=50000)
        self.assert_same_anchors(data, want)
        self.assertGreaterEqual(result["chunks"], 5)
        self.assertEqual(result["chunks"], sum(p["last_part"] for p in parts))
        self.assertEqual(result["anchors"], len(want) // 8)
        self.assertEqual(len(set(hspz_test.unpack_anchors(data))), len(want) // 8)


class RefusalTest(hspz_test.TestCase):
    def test_the_client_says_the_exact_total_over_32_bits(self):
        query = self.file("q.fa", ">q\n" + "A" * 70000 + "\n")
        for options, hits in (((), 4897410342), (("--all-positions",), 4897480324)):
            index = build_index(query, self.path("a.hspz"), *options)
            daemon = self.daemon(indexes={"a": index})
            for out in ((), ("-o", self.path("out"))):
                done = daemon.client("discover", "a", query, "--strand", "plus",
                                     "--no-transitions", "--format", "packed", *out, check=1)
                self.assertRegex(done.stderr, r"\b%d hits" % hits)
                self.assertEqual(done.stdout, "")
            self.assertEqual([n for n in os.listdir(self.folder) if n.startswith("out")], [])
            # A part of it is answered: 282 windows.
            part = self.file("part.fa", ">q\n" + "A" * 300 + "\n")
            done = daemon.client("-v", "discover", "a", part, "--strand", "plus",
                                 "--no-transitions", "--format", "packed", "-o", "/dev/null",
                                 check=0)
            self.assertIn("%d anchors" % (282 * hits // 69982), done.stderr)
            daemon.stop()

    def test_tables_over_the_budget_are_refused_with_their_bytes(self):
        source = self.file("r.fa", ">r\n" + "ACGT" * 100 + "\n")
        for weight, mib in ((12, 64), (14, 1000), (15, 2048)):
            begin = time.monotonic()
            done = client("index", "build", source, "-o", self.path("x"), "--seed", "1" * weight,
                          "--memory", mib, check=1)
            self.assertLess(time.monotonic() - begin, 5 * SLOWER)
            self.assertRegex(done.stderr, r"\btable %d\b" % (4 * 4 ** weight))
            self.assertRegex(done.stderr, r"\b%d\b" % (mib << 20))
            self.assertEqual([n for n in os.listdir(self.folder) if n.startswith("x")], [])
        client("index", "build", source, "-o", self.path("x"), "--memory", 128, check=0)


class LineTest(hspz_test.TestCase):
    """Refused files: the line and the byte, not some digit in some path."""

    def said(self, data, name="bad.fa", **more):
        path = self.file(name, data)
        done = client("index", "build", path, "-o", self.path("out.hspz"), check=1, **more)
        self.assertFalse(os.path.exists(self.path("out.hspz")))
        self.assertIn(path, done.stderr)
        return done.stderr.replace(path, "FILE")

    def test_junk_is_refused_by_line_and_byte(self):
        head = b">one\nACGT\n>two\nACGTACGT\n"
        for junk, value in ((b"5", 0x35), (b"&", 0x26), (b"\0", 0), (b"\xc3\xa9", 0xc3),
                            (b"\t", 9), (b"@", 0x40)):
            self.assertRegex(self.said(head + b"AC" + junk + b"GT\n"),
                             r"(?i)line 5\b.*0x%02x" % value)

    def test_separators_in_a_query_join_nothing(self):
        seq = bases(random.Random(3), 60)
        daemon = self.daemon(indexes={"r": self.index([("r", seq)])})
        query = self.file("q.fa", ">q\n" + seq[:30] + "&" + seq[30:] + "\n")
        done = daemon.client("discover", "r", query, check=1)
        self.assertRegex(done.stderr, "(?i)line 2.*0x26")
        self.assertEqual(done.stdout, "")

    def test_nameless_and_repeated_records_are_refused_by_line(self):
        self.assertRegex(self.said(">x\nACGT\n>\nACGT\n"), r"line 3\b")
        self.assertRegex(self.said(">2L one\nACGT\nAC\n>b\nA\n>2L two\nACGT\n"),
                         r"lines 1 and 6\b.*2L|2L.*lines 1 and 6\b")

    def test_empty_inputs_are_refused_as_queries_too(self):
        seq = bases(random.Random(3), 60)
        daemon = self.daemon(indexes={"r": self.index([("r", seq)])})
        for data in (b"", b"\n\n", b"ACGT\n"):
            path = self.file("q.fa", data)
            done = daemon.client("discover", "r", path, "-o", self.path("o"), check=1)
            self.assertIn(path, done.stderr)
            self.assertFalse(os.path.exists(self.path("o")))
        for data in (">foo\n", ">foo\n\n>bar\nACGT\n"):
            done = daemon.client("discover", "r", self.file("q.fa", data), check=0)
            self.assertEqual(done.stdout.count("\n"), 1)


class FrameTest(hspz_test.TestCase):
    """What ends a connection is said first."""

    FORGED = (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff",
              b"\xdb\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01")

    def last_words(self, daemon, data):
        """The error with id 0 that is the last message before the end of the stream."""
        with daemon.peer() as peer:
            try:
                peer.send_bytes(data)
            except ConnectionError:
                pass
            messages = []
            try:
                while True:
                    messages.append(peer.receive())
            except (EOFError, ConnectionError):
                pass
        self.assertTrue(messages, data[:40])
        self.assertEqual(messages[-1][:2], [1, 0])
        self.assertIsNone(messages[-1][3])
        return messages[-1][2]

    def test_forged_lengths_and_deep_nesting_are_answered_by_type(self):
        daemon = self.daemon()
        for head in self.FORGED:
            for lead in (b"", b"\x94\x00\x01\xa6health\x91\x81\xa1x"):
                error = self.last_words(daemon, lead + head)
                self.assertIn(error["code"], ("bad_request", "too_large"), error)
                self.assertTrue(error["message"])
        for depth in (17, 10000, 1000000):
            for lead in (b"", b"\x94\x00\x01\xa6health\x91\x81\xa1x"):
                error = self.last_words(daemon, lead + b"\x91" * depth + b"\x90")
                self.assert_code(error, "bad_request")
                self.assertRegex(error["message"], "(?i)nest|deep|depth")
        daemon.stop()

    def test_requests_half_sent_count_against_the_budget_of_all(self):
        index = self.index([("r", bases(random.Random(1), 200))])
        daemon = self.daemon("--ingest-per-connection", "1M", "--ingest-total", "2M",
                             indexes={"r": index})
        seeds = struct.pack("<II", 0, 0xABCDEF) * 120000  # 960,000 bytes
        body = msgpack.packb([0, 9, "discover", [{"index": "r", "seeds": seeds}]])
        holders = [daemon.peer() for _ in range(2)]
        for holder in holders:
            self.addCleanup(holder.close)
            holder.send_bytes(body[:500000])
        with daemon.peer() as peer:
            held = lambda: peer.call("stats")["memory"]["ingest_bytes"]  # noqa: E731
            self.assertTrue(hspz_test.poll(lambda: held() >= 1920000), held())
            error = peer.error("discover", index="r", seeds=seeds)
            self.assert_code(error, "quota_exceeded")
            self.assertEqual(peer.call("discover", index="r", seeds=seeds[:8000])["anchors"], 0)
            # Those who hold it lose nothing.
            holders[0].send_bytes(body[500000:])
            self.assertEqual(holders[0].result(9)["strands"]["plus"]["seeds"], 120000)
            self.assertEqual(peer.call("discover", index="r", seeds=seeds)["anchors"], 0)
            holders[1].close()
            self.assertTrue(hspz_test.poll(lambda: held() == 0), held())
        daemon.stop()

    @unittest.skipIf(hspz_test.SANITIZED or hspz_test.ENGINE != "cpu", "a limit on address space")
    def test_forged_lengths_in_little_address_space(self):
        daemon = self.daemon(preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_AS, (700 << 20, 700 << 20)))
        for _ in range(200):
            for head in self.FORGED:
                with daemon.peer() as peer:
                    try:
                        peer.send_bytes(b"\x94\x00\x01\xa8discover\x91\x82\xa5index\xa3ref"
                                        b"\xa5seeds" + head)
                    except ConnectionError:
                        pass
        # Announced and allowed, but there is no room: refused, and the next one is served.
        with daemon.peer() as peer:
            error = peer.error("discover", index="r", seeds=bytes(900 << 20))
            self.assertIn(error["code"], ("out_of_memory", "too_large", "quota_exceeded"))
            self.assertEqual(peer.call("health")["state"], "ready")
        daemon.stop()

    def test_a_frame_of_four_megabytes_byte_by_byte(self):
        daemon = self.daemon(indexes={"r": self.index([("r", bases(random.Random(1), 200))])})
        seeds = struct.pack("<II", 0, 0xABCDEF) * ((512 if hspz_test.SANITIZED else 4096) * 128)
        body = msgpack.packb([0, 5, "discover", [{"index": "r", "seeds": seeds}]])
        with daemon.peer() as peer:
            before = daemon.cpu_seconds()
            send = peer.socket.send
            view = memoryview(body)
            for at in range(0, 100000):
                send(view[at:at + 1])
            for at in range(100000, len(body), 20):
                send(view[at:at + 20])
            self.assertEqual(peer.result(5)["anchors"], 0)
            self.assertLess(daemon.cpu_seconds() - before, 10 * SLOWER)
        daemon.stop()


class ServiceTest(hspz_test.TestCase):
    def poly(self, count=20000):
        return self.index([("a", "A" * count)], name="poly")

    BIG = {"index": "poly", "query": {"bases": b"A" * 20000}, "strand": "plus",
           "transitions": False}

    def test_one_runs_one_waits_and_four_are_refused_at_once(self):
        daemon = self.daemon("--max-jobs", "1", indexes={"poly": self.poly()})
        with daemon.peer() as peer:
            begin = time.monotonic()
            numbers = [peer.request("discover", self.BIG) for _ in range(6)]
            for number in numbers[2:]:
                error, _ = peer.response(number)
                self.assert_code(error, "queue_full", 1)
                self.assertEqual(error["limit"], 1)
            self.assertLess(time.monotonic() - begin, 5 * SLOWER)
            daemon.wait_jobs(running=1, waiting=1)
            # The one that waits grows older.
            age = lambda: peer.call("stats")["jobs"]["oldest_waiting_ms"]  # noqa: E731
            self.assertTrue(hspz_test.poll(lambda: age() >= 100))
        daemon.stop(expect=None, sig=signal.SIGKILL)

    def test_jobs_of_all_connections_have_a_limit(self):
        daemon = self.daemon("--max-all-jobs", "2", indexes={"poly": self.poly()})
        peers = [daemon.peer() for _ in range(6)]
        for peer in peers:
            self.addCleanup(peer.close)
        for peer in peers[:2]:
            peer.request("discover", self.BIG)
            peer.receive()  # it runs
        for peer in peers[2:]:
            error = peer.error("discover", self.BIG)
            self.assert_code(error, "queue_full", 2)
            self.assertEqual(error["limit"], 2)
        # A place that is free is given to the next.
        peers[0].close()
        self.assertTrue(hspz_test.poll(lambda: self.starts(peers[5])))
        daemon.stop(expect=None, sig=signal.SIGKILL)

    def starts(self, peer):
        number = peer.request("discover", dict(self.BIG, query={"bases": b"A" * 30}))
        return peer.response(number)[0] is None

    def test_a_query_of_200_megabases_is_answered(self):
        index = self.index([("r", bases(random.Random(1), 2000))], name="r")
        daemon = self.daemon(indexes={"r": index})
        pid = daemon.pid
        with daemon.peer() as peer:
            uptime = peer.call("health")["uptime_ms"]
            result, data, _ = peer.discover("r", query={"bases": b"N" * 200000000})
            self.assertEqual((result["anchors"], data), (0, b""))
            result, _, _ = peer.discover("r", query={"bases": b""})
            self.assertEqual(result["anchors"], 0)
            self.assertGreater(peer.call("health")["uptime_ms"], uptime)
        self.assertEqual(daemon.pid, pid)
        self.assertTrue(daemon.alive())
        daemon.stop()

    def test_many_jobs_and_clients_under_256_descriptors(self):
        text = bases(random.Random(1), 300)
        query = self.file("q.fa", fasta([("q", text[:100])]))
        daemon = self.daemon(indexes={"r": self.index([("r", text)])},
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE,
                                                                   (256, 256)))
        want = hspz_test.discover([("r", text)], [("q", text[:100])])
        with daemon.peer() as peer:
            # The memory that the first client shares is kept for the next.
            daemon.client("discover", "r", query, "--format", "packed", text=False)
            before = daemon.fds()
            for _ in range(200 if hspz_test.SANITIZED else 600):
                with daemon.peer() as other:
                    self.assertEqual(other.discover("r", query={"bases": text[:100].encode()})[1],
                                     want)
            for _ in range(5 if hspz_test.SANITIZED else 20):
                got = daemon.client("discover", "r", query, "--format", "packed", check=0,
                                    text=False)
                self.assertEqual(got.stdout, want)
            self.assertTrue(hspz_test.poll(lambda: daemon.fds() <= before))
            self.assertEqual(peer.discover("r", query={"bases": text[:100].encode()})[1], want)
        daemon.stop()

    def test_loads_and_unloads_leave_no_memory_behind(self):
        text = bases(random.Random(1), 20000)
        index = self.index([("r", text)])
        daemon = self.daemon()
        want = hspz_test.discover([("r", text)], [("q", text[:500])])

        def cycle(count):
            for _ in range(count):
                with daemon.peer() as peer:
                    peer.call("index.load", index="r", file=index)
                    self.assertEqual(peer.discover("r", query={"bases": text[:500].encode()})[1],
                                     want)
                    peer.call("index.unload", index="r")
        # Each thread that reads indexes keeps a little of its own: let all of them have had a turn.
        cycle(25)
        before, fds = daemon.rss_mib(), daemon.fds()
        cycle(50)
        self.assertTrue(hspz_test.poll(lambda: daemon.fds() <= fds))
        if not hspz_test.SANITIZED:
            # One copy of the index is 66 MiB; it is freed after the answer to the unload.
            self.assertTrue(hspz_test.poll(lambda: daemon.rss_mib() - before < 8),
                            daemon.rss_mib() - before)
        with daemon.peer() as peer:
            self.assertTrue(hspz_test.poll(
                lambda: peer.call("stats")["memory"]["index_bytes"] == 0))
        daemon.stop()

    def test_an_index_says_all_that_it_is(self):
        text = bases(random.Random(1), 700)
        shape = "1110100110101"
        index = self.index([("one", text[:300]), ("two", text[300:])], "--seed", shape, "--step", "3",
                           "--unmask", "--all-positions")
        daemon = self.daemon(indexes={"r": index})
        said = daemon.client("index", "describe", "r", check=0).stdout
        with daemon.peer() as peer:
            got = peer.call("index.describe", index="r")
            self.assertEqual(
                {k: got[k] for k in ("shape", "weight", "span", "step", "unmask", "all_positions",
                                     "sequence_count", "block_count", "bases", "version")},
                {"shape": shape, "weight": 8, "span": 13, "step": 3, "unmask": True,
                 "all_positions": True, "sequence_count": 2, "block_count": 1, "bases": 701,
                 "version": peer.welcome["version"]})
            block = text[:300] + "&" + text[300:]
            buckets = hspz_test.buckets_of(block, shape, 3, True)
            self.assertEqual(got["words"], sum(map(len, buckets.values())))
        for word, value in (("shape|seed", shape), ("step", 3), ("digest", got["digest"]),
                            ("version|built", got["version"]), ("words", got["words"])):
            self.assertRegex(said, r"(?im)^.*(%s).*\b%s\b" % (word, re.escape(str(value))))
        daemon.stop()


class FolderTest(hspz_test.TestCase):
    """Names under the configured folders; absolute paths are for operators, which a daemon without
    tenants takes its own user and root for."""

    def setUp(self):
        super().setUp()
        text = bases(random.Random(1), 300)
        for name in ("indexes", "data", "data/sub", "outside"):
            os.mkdir(self.path(name))
        self.text = text
        self.file("data/sub/r.fa", fasta([("r", text)]))
        self.index_file = build_index(self.file("data/r.fa", fasta([("r", text)])),
                                      self.path("indexes/r.hspz"))
        build_index(self.path("data/r.fa"), self.path("outside/o.hspz"))

    def start(self, *more):
        return self.daemon("--index-dir", self.path("indexes"), "--data-dir", self.path("data"),
                           *more)

    def test_names_are_looked_up_under_the_folder(self):
        daemon = self.start()
        want = hspz_test.discover([("r", self.text)], [("q", self.text[:90])])
        with daemon.peer() as peer:
            peer.call("index.load", index="a", file="r.hspz")
            peer.call("index.build", index="b", source="sub/r.fa", file="b.hspz")
            peer.call("index.load", index="c", file=self.path("outside/o.hspz"))
            for name in "abc":
                self.assertEqual(peer.discover(name, query={"bases": self.text[:90].encode()})[1],
                                 want)
        self.assertTrue(os.path.exists(self.path("indexes/b.hspz")))
        daemon.client("index", "load", "d", "b.hspz", check=0)
        daemon.stop()

    def test_a_file_that_was_built_anew_is_not_taken_for_the_one_that_is_served(self):
        daemon = self.start()
        path = self.path("indexes/r.hspz")
        query = {"bases": self.text[:90].encode()}
        want = hspz_test.discover([("r", self.text)], [("q", self.text[:90])])
        daemon.client("index", "load", "r", "r.hspz", check=0)
        # The same once more is no change, and neither is the same file written again.
        daemon.client("index", "load", "r", "r.hspz", check=0)
        build_index(self.path("data/r.fa"), path)
        daemon.client("index", "load", "r", "r.hspz", check=0)
        fresh = hspz_test.bases(random.Random(78), 400)
        hspz_test.write(self.path("fresh.fa"), ">r\n%s\n" % fresh)
        build_index(self.path("fresh.fa"), path)
        said = daemon.client("index", "load", "r", "r.hspz", check=1).stderr
        for word in ("\"r\"", "changed", "unload", path):
            self.assertIn(word, said)
        with daemon.peer() as peer:
            self.assertEqual(peer.discover("r", query=query)[1], want)
            daemon.client("index", "unload", "r", check=0)
            daemon.client("index", "load", "r", "r.hspz", check=0)
            query = {"bases": fresh[:90].encode()}
            self.assertEqual(peer.discover("r", query=query)[1],
                             hspz_test.discover([("r", fresh)], [("q", fresh[:90])]))
        # One that is gone was not replaced.
        os.unlink(path)
        daemon.client("index", "load", "r", "r.hspz", check=0)
        daemon.stop()

    def test_names_that_lead_out_are_refused(self):
        daemon = self.start()
        with daemon.peer() as peer:
            for name in ("..", "../outside/o.hspz", "x/../../outside/o.hspz", "./../outside/o.hspz",
                         "../indexes/r.hspz"):
                self.assert_code(peer.error("index.load", index="x", file=name), "forbidden", name)
                self.assert_code(peer.error("index.build", index="x", source="r.fa", file=name),
                                 "forbidden", name)
                self.assert_code(peer.error("index.build", index="x", source=name, file="n.hspz"),
                                 "forbidden", name)
            for name in ("", "r.hspz\0x"):
                self.assert_code(peer.error("index.load", index="x", file=name), "bad_request")
            # Names that only look like it.
            for name in ("..r.hspz", "r..hspz", "..."):
                error = peer.error("index.load", index="x", file=name)
                self.assertNotEqual(error["code"], "forbidden", error)
        self.assertEqual(os.listdir(self.path("outside")), ["o.hspz"])
        self.assertEqual(os.listdir(self.path("indexes")), ["r.hspz"])
        daemon.stop()

    def test_without_a_folder_names_are_refused(self):
        daemon = self.daemon()
        with daemon.peer() as peer:
            self.assert_code(peer.error("index.load", index="x", file="r.hspz"), "forbidden",
                             "index_dir")
            self.assert_code(peer.error("index.build", index="x", source="r.fa",
                                        file=self.path("n.hspz")), "forbidden", "data_dir")
        daemon.stop()


class CutStreamTest(hspz_test.TestCase):
    """However a stream is cut short: exit status 1, the number of anchors that came, and just those
    on standard output."""

    POLY = 8000

    def setUp(self):
        super().setUp()
        index = self.index([("a", "A" * self.POLY)], name="poly")
        self.server = self.daemon(indexes={"poly": index})
        self.query = self.file("q.fa", ">q\n" + "A" * self.POLY + "\n")
        self.whole = hspz_test.pack_anchors(
            (ref + 19, 19) for ref in range(self.POLY - 19, 0, -1))  # of the first position

    def check(self, form, act):
        process = subprocess.Popen(
            [hspz_test.CLIENT, "--server", self.server.server, "discover", "poly", self.query,
             "--strand", "plus", "--no-transitions", "--format", form], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=hspz_test.child_env())
        data = process.stdout.read(1 << 20)
        act(process)
        rest, errors = process.communicate(timeout=60 * SLOWER)
        errors = errors.decode()
        self.assertEqual(process.returncode, 1, errors)
        data += rest
        came = len(data) // 8 if form == "packed" else data.count(b"\n") - (form == "tsv")
        self.assertLess(came, (self.POLY - 18) * (self.POLY - 19))
        self.assertRegex(errors, r"failed after %d anchors\b" % came)
        self.assertNotRegex(errors, "(?i)done|complete(d|ly)")
        if form == "packed":
            self.assertEqual(len(data) % 8, 0)
            self.assertEqual(data[:len(self.whole)], self.whole)
        else:
            self.assertTrue(data.endswith(b"\n"))

    def test_daemon_killed(self):
        self.check("packed", lambda _: self.server.process.kill())

    def test_daemon_killed_while_rows_are_written(self):
        self.check("tsv", lambda _: self.server.process.kill())

    def test_daemon_told_to_stop_at_once(self):
        def stop(_):
            self.server.process.send_signal(signal.SIGTERM)
            hspz_test.poll(lambda: "draining" in self.server.log())
            self.server.process.send_signal(signal.SIGTERM)
        self.check("packed", stop)

    def test_client_interrupted(self):
        self.check("packed", lambda process: process.send_signal(signal.SIGINT))


class StartTest(hspz_test.TestCase):
    def test_auto_says_which_engine_it_takes(self):
        # The last --engine wins: the support asks for cpu.
        daemon = self.daemon("--engine", "auto")
        with daemon.peer() as peer:
            engine = peer.welcome["engine"]
        self.assertIn(engine, ("cpu", "cuda"))
        self.assertRegex(daemon.log(), r"(?m)\bengine=%s\b" % engine)
        if engine == "cpu":
            self.assertRegex(daemon.log(), "(?i)without the cuda engine|no cuda device")
        daemon.stop()

    def test_a_client_waits_for_ever_when_told_to(self):
        process = subprocess.Popen(
            [hspz_test.CLIENT, "--server", "unix:" + self.path("hspz.sock"), "--wait", "-1",
             "index", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=hspz_test.child_env())
        time.sleep(2)
        self.assertIsNone(process.poll())
        daemon = self.daemon(indexes={"r": self.index([("r", "ACGT" * 10)])})
        out, errors = process.communicate(timeout=60 * SLOWER)
        self.assertEqual(process.returncode, 0, errors)
        self.assertRegex(out, rb"(?m)^r\tready\b")
        daemon.stop()

    def test_another_user_is_refused_by_name_whatever_the_mode(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        daemon = self.daemon()
        os.chmod(self.folder, 0o755)
        os.chmod(daemon.path, 0o666)
        code = ("import msgpack, socket, sys\n"
                "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
                "s.sendall(msgpack.packb([0, 1, 'hello', [{'protocol': 1}]]))\n"
                "u = msgpack.Unpacker(); data = s.recv(65536)\n"
                "u.feed(data); print(next(u)); print(s.recv(100))\n")

        def become_nobody():
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        done = subprocess.run(["/usr/bin/python3", "-c", code, daemon.path], capture_output=True,
                              text=True, preexec_fn=become_nobody, timeout=60 * SLOWER, cwd="/",
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("'unauthorized'", done.stdout)
        self.assertIn("65534", done.stdout)
        self.assertTrue(done.stdout.endswith("b''\n"), done.stdout)  # and then closed
        daemon.peer().close()
        daemon.stop()

    def test_parts_are_never_larger_than_said(self):
        poly = self.index([("a", "A" * 2000)])
        for size in (65536, 8 << 20):
            daemon = self.daemon("--part-bytes", size, indexes={"a": poly})
            with daemon.peer() as peer:
                self.assertEqual(peer.welcome["limits"]["part_bytes"], size)
                result, data, parts = peer.discover("a", query={"bases": b"A" * 2000},
                                                    strand="plus", transitions=False,
                                                    max_hits=1500000)
                self.assertEqual(result["anchors"], 1982 * 1981)
                self.assertEqual(data, hspz_test.pack_anchors(
                    (ref + 19, query + 19) for query in range(1982)
                    for ref in range(1981, 0, -1)))
                sizes = [8 * (p["hit_end"] - p["hit_begin"]) for p in parts]
                self.assertLessEqual(max(sizes), size)
                # A part ends early only where its chunk does.
                self.assertTrue(all(s == size or p["last_part"] for s, p in zip(sizes, parts)))
                self.assertEqual(result["chunks"], 3)
            daemon.stop()


if __name__ == "__main__":
    hspz_test.main()
