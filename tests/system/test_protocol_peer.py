"""The protocol, spoken by Debian's python3-msgpack over a raw socket: what a peer may say, what it is
answered, and what it may get wrong."""

import random
import re
import struct
import threading
import time

import msgpack
import xxhash

import hspz_test
from hspz_test import SHAPE_12OF19, SHAPE_14OF22, Peer, RpcError, bases, pack_seeds

POLY_A = 70000
POLY_A_HITS = 4897480324  # (70000 - 19 + 1) squared
POLY_A_HITS_ORACLE = 4897410342  # position 0 is not indexed: 69981 * 69982


class PeerTest(hspz_test.TestCase):
    """One daemon for the class: whatever one test does to it, the next must find it well."""

    ARGS = ()
    INDEXES = ("ref",)

    @classmethod
    def setUpClass(cls):
        cls.holder = hspz_test.TestCase()
        cls.holder.setUp()
        rng = random.Random(11)
        cls.ref = [("chr1", bases(rng, 3000)), ("chr2", ""), ("chr3", bases(rng, 1000))]
        text = cls.ref[0][1]
        cls.query = [("q1", text[100:700]), ("q2", hspz_test.reverse_complement(text[900:1500])),
                     ("q3", "ACGT"), ("q4", bases(rng, 300))]
        poly = [("a", "A" * POLY_A)]
        made = {"ref": (cls.ref,), "all": (cls.ref, "--all-positions"),
                "step3": (cls.ref, "--step", "3"), "polya": (poly,),
                "polya_all": (poly, "--all-positions")}
        cls.server = hspz_test.Daemon(cls.holder.folder, *cls.ARGS, indexes={
            name: cls.holder.index(*made[name], name=name) for name in cls.INDEXES})

    @classmethod
    def tearDownClass(cls):
        try:
            cls.server.stop()
        finally:
            cls.holder.tearDown()
            cls.holder.doCleanups()

    def setUp(self):
        super().setUp()
        self.peer = self.server.peer()
        self.addCleanup(self.peer.close)

    def tearDown(self):
        super().tearDown()
        self.assertTrue(self.server.alive(), self.server.log()[-3000:])
        with self.server.peer() as peer:
            self.assert_answers(peer)

    def block(self):
        return hspz_test.block_of(self.query).encode()

    def want(self, **more):
        return hspz_test.discover(self.ref, self.query, **more)

    def assert_answers(self, peer):
        """The peer's connection gives a right answer still."""
        _, data, _ = peer.discover("ref", query={"bases": self.ref[0][1][500:700].encode()},
                                   transitions=False)
        self.assert_same_anchors(data, hspz_test.discover(
            self.ref, [("q", self.ref[0][1][500:700])], transitions=False))


class HelloTest(PeerTest):
    def test_hello_tells_version_engine_devices_limits_and_tenant(self):
        welcome = self.peer.welcome
        for key in ("version", "protocol", "engine", "devices", "limits", "tenant"):
            self.assertIn(key, welcome)
        self.assertEqual(welcome["engine"], hspz_test.ENGINE)
        self.assertEqual(welcome["protocol"], 1)
        self.assertIsInstance(welcome["limits"]["max_message"], int)

    def test_other_version_is_refused_then_closed(self):
        with self.server.peer(hello=False) as peer:
            error = peer.error("hello", protocol=2)
            self.assert_code(error, "unsupported", 2)
            self.assertTrue(peer.closed())

    def test_calls_before_hello_are_refused(self):
        for method, params in (("discover", {"index": "ref", "seeds": b""}), ("index.list", {}),
                               ("stats", {})):
            with self.server.peer(hello=False) as peer:
                self.assert_code(peer.error(method, params), "bad_request", "hello")

    def test_hello_without_protocol_is_refused(self):
        with self.server.peer(hello=False) as peer:
            self.assert_code(peer.error("hello", client="x"), "bad_request", "protocol")

    def test_unknown_method_is_named_and_the_connection_lives(self):
        self.assert_code(self.peer.error("indexes.list"), "unknown_method", "indexes.list")
        self.assert_answers(self.peer)

    def test_a_second_hello_is_refused(self):
        self.assert_code(self.peer.error("hello", protocol=1), "bad_request")
        self.assert_answers(self.peer)


class IndexTest(PeerTest):
    INDEXES = ("ref", "all", "step3", "polya", "polya_all")

    def test_list_names_every_index(self):
        got = self.peer.call("index.list")
        self.assertEqual([row["index"] for row in got["indexes"]],
                         ["all", "polya", "polya_all", "ref", "step3"])
        self.assertEqual(got["index_count"], 5)
        page = self.peer.call("index.list", first=1, count=2)
        self.assertEqual([row["index"] for row in page["indexes"]], ["polya", "polya_all"])
        self.assertEqual((page["index_count"], page["first"]), (5, 1))

    def test_describe_tells_what_the_file_holds(self):
        got = self.peer.call("index.describe", index="step3")
        self.assertEqual(got["shape"], SHAPE_12OF19)
        self.assertEqual(got["step"], 3)
        self.assertIs(got["all_positions"], False)
        self.assertRegex(got["digest"], "^[0-9a-f]{16}$")
        bases = "".join(text for _, text in self.ref)
        self.assertEqual(got["sequence_digest"], xxhash.xxh64(bases.upper().encode()).hexdigest())
        self.assertEqual(got["sequences"], [["chr1", 3000, 0, 0], ["chr2", 0, 0, 3001],
                                            ["chr3", 1000, 0, 3002]])
        self.assertEqual(got["bases"], 4002)
        page = self.peer.call("index.describe", index="step3", first=2, count=1)
        self.assertEqual(page["sequences"], [["chr3", 1000, 0, 3002]])
        self.assertEqual(page["sequence_count"], 3)

    def test_describe_and_discover_name_an_unknown_index(self):
        self.assert_code(self.peer.error("index.describe", index="nope"), "unknown_index", "nope")
        self.assert_code(self.peer.error("discover", index="nope", seeds=b""), "unknown_index",
                         "nope")
        self.assert_answers(self.peer)

    def test_load_describe_unload(self):
        path = self.index([("x", "ACGTTGCAACGGTCATTGCAGT" * 3)], name="late")
        self.peer.call("index.load", index="late", file=path)
        self.assertEqual(self.peer.call("index.describe", index="late")["step"], 1)
        # The same file again is the same index; another one is not.
        self.peer.call("index.load", index="late", file=path)
        other = self.index([("x", "ACGTTGCAACGGTCATTGCAGT" * 5)], name="other")
        self.assert_code(self.peer.error("index.load", index="late", file=other), "bad_request",
                         "late", path)
        self.peer.call("index.unload", index="late")
        self.assert_code(self.peer.error("index.describe", index="late"), "unknown_index", "late")

    def test_load_refuses_other_parameters_and_names_them(self):
        path = self.index([("x", "ACGTTGCAACGGTCATTGCAGT" * 3)], "--step", "2", name="late")
        for want, words in ((dict(step=3), ("step", "2", "3")),
                            (dict(shape="14of22"), (SHAPE_12OF19, SHAPE_14OF22)),
                            (dict(index_digest="0123456789abcdef"), ("0123456789abcdef",))):
            error = self.peer.error("index.load", dict(want, index="late", file=path))
            self.assertIn(error["code"], ("bad_request", "bad_file"), error)
            for word in words:
                self.assertIn(word, error["message"])

    def test_load_of_a_bad_file_says_which_and_why(self):
        path = self.file("junk.hspz", b"not an index" * 100)
        self.assert_code(self.peer.error("index.load", index="junk", file=path), "bad_file", path)
        error = self.peer.error("index.load", index="junk", file=self.path("absent"))
        self.assertIn(error["code"], ("io_error", "bad_file"))
        self.assertIn(self.path("absent"), error["message"])
        self.assert_answers(self.peer)

    def test_build_on_the_server_serves_what_the_client_builds(self):
        source = self.file("b.fa", hspz_test.fasta(self.ref))
        self.peer.call("index.build", index="built", source=source, file=self.path("b.hspz"))
        self.assertEqual(self.peer.call("index.describe", index="built")["digest"],
                         self.peer.call("index.describe", index="ref")["digest"])
        self.peer.call("index.unload", index="built")


class DiscoverTest(PeerTest):
    def test_a_query_gives_the_anchors_reckoned(self):
        for strand in ("plus", "minus", "both"):
            for transitions in (False, True):
                result, data, parts = self.peer.discover("ref", query={"bases": self.block()},
                                                         strand=strand, transitions=transitions)
                self.assert_same_anchors(data, self.want(strand=strand, transitions=transitions))
                self.assertEqual(result["anchors"], len(data) // 8)
                self.assertEqual(sum(p["hit_end"] - p["hit_begin"] for p in parts),
                                 len(data) // 8)

    def test_defaults_are_both_strands_and_transitions(self):
        _, data, _ = self.peer.discover("ref", query={"bases": self.block()})
        self.assert_same_anchors(data, self.want(strand="both", transitions=True))

    def test_seeds_give_their_anchors_in_order(self):
        buckets = hspz_test.buckets_of(hspz_test.block_of(self.ref), SHAPE_12OF19)
        seeds = list(hspz_test.seeds_of(hspz_test.block_of(self.query), SHAPE_12OF19, True))
        random.Random(1).shuffle(seeds)
        _, data, _ = self.peer.discover("ref", seeds=pack_seeds(seeds), max_hits=1000)
        self.assert_same_anchors(data, hspz_test.pack_anchors(
            hspz_test.anchors_of(buckets, seeds, 19)))

    def test_digest_is_xxh64_of_all_anchors(self):
        result, data, _ = self.peer.discover("ref", query={"bases": self.block()})
        self.assertEqual(result["digest"], xxhash.xxh64(data).hexdigest())
        result, _, _ = self.peer.discover("ref", query={"bases": self.block()}, digest=False)
        self.assertIsNone(result.get("digest"))

    def test_the_result_names_the_index_and_the_cap(self):
        result, _, _ = self.peer.discover("ref", query={"bases": self.block()})
        self.assertEqual(result["max_hits"], 268435456)
        self.assertEqual(result["index_digest"],
                         self.peer.call("index.describe", index="ref")["digest"])

    def test_unmask_folds_lower_case(self):
        lower = self.block().lower().replace(b"&", b"&")
        _, data, _ = self.peer.discover("ref", query={"bases": lower})
        self.assertEqual(data, b"")
        _, data, _ = self.peer.discover("ref", query={"bases": lower}, unmask=True)
        self.assert_same_anchors(data, self.want())

    def test_windows_of_a_query_give_what_the_whole_gives(self):
        # Windows of 64 starts each, seeded on each strand in that strand's coordinates.
        text = self.block()[:146]
        for length in (18, 19, 20, 21, 82, 83, 146):
            whole = {}
            for strand in ("plus", "minus"):
                _, whole[strand], _ = self.peer.discover(
                    "ref", query={"bases": text[:length]}, strand=strand)
                pieces = b""
                for begin in range(0, length, 64):
                    _, piece, _ = self.peer.discover(
                        "ref", query={"bases": text[:length]}, strand=strand, begin=begin,
                        end=begin + 64)
                    pieces += piece
                self.assertEqual(pieces, whole[strand])
            self.assertEqual(whole["plus"] + whole["minus"], hspz_test.discover(
                self.ref, [("q", text[:length].decode())]))

    def test_wanted_index_is_checked(self):
        digest = self.peer.call("index.describe", index="ref")["digest"]
        self.peer.discover("ref", seeds=b"", index_digest=digest, shape="12of19", step=1)
        for want, words in ((dict(index_digest="00000000deadbeef"), ("00000000deadbeef", digest)),
                            (dict(shape="14of22"), ("1110101100110010101111", SHAPE_12OF19)),
                            (dict(step=2), ("step", "2", "1"))):
            error = self.peer.error("discover", dict(want, index="ref", seeds=b""))
            self.assert_code(error, "bad_request", *words)
        self.assert_answers(self.peer)

    def test_odd_requests_are_answered_empty(self):
        for params in ({"seeds": b""}, {"query": {"bases": b""}}, {"query": {"bases": b"N" * 500}},
                       {"query": {"bases": b"&&&&"}}, {"query": {"bases": b"ACGTACGTACGTACGTAC"}},
                       {"query": {"bases": b"acgtacgtacgtacgtacgtacgt"}},
                       {"seeds": pack_seeds([(0xABCDEF, 0)])}):
            result, data, parts = self.peer.discover("ref", **params)
            self.assertEqual((result["anchors"], data, parts, result["chunks"]), (0, b"", [], 0))

    def test_junk_in_a_query_is_refused_with_its_place(self):
        for text, offset, byte in ((b"ACGT5ACGT", 4, 0x35), (b"AC\tGT", 2, 9), (b"\0", 0, 0),
                                   (b"ACGT" * 100 + "é".encode(), 400, 0xC3)):
            error = self.peer.error("discover", index="ref", query={"bases": text})
            self.assert_code(error, "bad_request", offset)
            self.assertRegex(error["message"].lower(), "%02x|\\b%d\\b" % (byte, byte))
        for text in (b"RYKMSWBDHVN*-.ACGT", b"ryx"):
            self.peer.discover("ref", query={"bases": text})
        self.assert_answers(self.peer)

    def test_seeds_out_of_range_are_refused(self):
        for seed in ((1 << 24, 0), (0xFFFFFFFF, 5), (0, 0xFFFFFFFF)):
            error = self.peer.error("discover", index="ref", seeds=pack_seeds([(0, 0), seed]))
            self.assert_code(error, "bad_request", 1)
        self.assert_answers(self.peer)

    def test_five_thousand_small_queries_on_one_connection(self):
        text = self.ref[0][1]
        numbers = []
        before = self.server.fds()
        for i in range(5000):
            query = text[i % 900:i % 900 + 60].encode()
            numbers.append((self.peer.request("discover", {
                "index": "ref", "query": {"bases": query}, "transitions": False,
                "strand": "plus"}), i % 900))
            if len(numbers) == 50:
                for number, at in numbers:
                    _, data, _ = self.peer.anchors(number)
                    self.assertGreaterEqual(len(data) // 8, 42 if at > 0 else 41)
                numbers = []
        self.assertTrue(hspz_test.poll(lambda: self.server.fds() <= before))


class LimitTest(PeerTest):
    INDEXES = ("ref", "polya", "polya_all")

    def test_batches_over_32_bits_are_refused_with_the_exact_total(self):
        for name, hits in (("polya_all", POLY_A_HITS), ("polya", POLY_A_HITS_ORACLE)):
            self.peer.notices = []
            error = self.peer.error("discover", index=name, query={"bases": b"A" * POLY_A},
                                    strand="plus", transitions=False)
            self.assert_code(error, "hits_overflow", hits)
            self.assertEqual(error["hits"], hits)
            self.assertEqual(self.peer.notices, [])
            self.assert_answers(self.peer)

    def test_hit_limit_bounds_the_job(self):
        hits = len(self.want()) // 8
        result, data, _ = self.peer.discover("ref", query={"bases": self.block()}, hit_limit=hits)
        self.assertEqual(result["anchors"], hits)
        self.assertEqual(len(data), 8 * hits)
        error = self.peer.error("discover", index="ref", query={"bases": self.block()},
                                hit_limit=hits - 1)
        self.assert_code(error, "too_large", hits)
        self.assertEqual((error["hits"], error["limit"]), (hits, hits - 1))
        self.assert_answers(self.peer)

    def test_max_word_count_drops_seeds_of_larger_buckets(self):
        ref = [("r", ("ACGTTGCAACGGTCATTGCAGTAAC" + "N") * 5 + "GGGTTTACCCATGACCATAGACCAT")]
        self.peer.call("index.load", index="rep", file=self.index(ref, name="rep"))
        query = b"ACGTTGCAACGGTCATTGCAGTAACNGGGTTTACCCATGACCATAGACCAT"
        for most in (4, 5, 6):
            buckets = hspz_test.buckets_of(ref[0][1], SHAPE_12OF19)
            want = hspz_test.anchors_of({w: b for w, b in buckets.items() if len(b) <= most},
                                        hspz_test.seeds_of(query.decode(), SHAPE_12OF19), 19)
            _, data, _ = self.peer.discover("rep", query={"bases": query}, strand="plus",
                                            transitions=False, max_word_count=most)
            self.assert_same_anchors(data, hspz_test.pack_anchors(want))
        self.peer.call("index.unload", index="rep")

    def test_a_deadline_ends_a_job(self):
        begin = time.monotonic()
        number = self.peer.request("discover", {
            "index": "polya", "query": {"bases": b"A" * 20000}, "strand": "plus",
            "transitions": False, "deadline_ms": 200})
        time.sleep(1)  # not reading: the job cannot finish
        error, _ = self.peer.response(number)
        self.assert_code(error, "deadline_exceeded")
        self.assertLess(time.monotonic() - begin, 20 * hspz_test.SLOWER)
        self.assert_answers(self.peer)

    def test_jobs_past_the_connections_limit_get_queue_full(self):
        limit = self.peer.welcome["limits"]["max_jobs"]
        big = {"index": "polya", "query": {"bases": b"A" * 20000}, "strand": "plus",
               "transitions": False}
        first = self.peer.request("discover", big)
        self.server.wait_jobs(running=1)
        rest = [self.peer.request("discover", {"index": "ref", "seeds": b""})
                for _ in range(limit + 5)]
        cancel = self.peer.request("cancel", job=first)
        answers = {}
        while len(answers) < len(rest) + 2:
            message = self.peer.receive()
            if message[0] == 1:
                self.assertNotIn(message[1], answers)
                answers[message[1]] = message[2]
        self.assertIsNone(answers[cancel])
        self.assert_code(answers[first], "cancelled")
        full = [n for n in rest if answers[n] is not None]
        self.assertEqual(full, rest[limit:])
        for number in full:
            self.assert_code(answers[number], "queue_full")
        self.assert_answers(self.peer)

    def test_cancel_ends_a_running_and_a_waiting_job(self):
        big = {"index": "polya", "query": {"bases": b"A" * 20000}, "strand": "plus",
               "transitions": False}
        first = self.peer.request("discover", big)
        second = self.peer.request("discover", big)
        third = self.peer.request("discover", {"index": "ref", "query": {"bases": self.block()}})
        self.server.wait_jobs(running=1, waiting=2)
        self.peer.request("cancel", job=second)
        self.peer.request("cancel", job=first)
        codes, anchors = {}, b""
        while third not in codes:
            message = self.peer.receive()
            if message[0] == 1:
                codes[message[1]] = message[2] and message[2]["code"]
            elif message[2][0]["job"] == third:
                anchors += message[2][1]
            else:
                self.assertEqual(message[2][0]["job"], first)
        self.assertEqual((codes[first], codes[second], codes[third]),
                         ("cancelled", "cancelled", None))
        self.assert_same_anchors(anchors, self.want())

    def test_cancel_of_no_job_says_so(self):
        self.assertEqual(self.peer.call("cancel", job=4000000000),
                         {"job": 4000000000, "found": False})
        self.assert_answers(self.peer)

    def test_jobs_of_a_connection_run_in_the_order_sent(self):
        numbers = [self.peer.request("discover", {
            "index": "ref", "query": {"bases": self.ref[0][1][i * 20:i * 20 + 100].encode()}})
            for i in range(40)]
        order, streams = [], []
        while len(order) < len(numbers):
            message = self.peer.receive()
            if message[0] == 1:
                self.assertIsNone(message[2])
                order.append(message[1])
            elif not streams or streams[-1] != message[2][0]["job"]:
                streams.append(message[2][0]["job"])
        self.assertEqual(order, numbers)
        self.assertEqual(streams, sorted(streams))

    def test_control_calls_are_answered_while_a_job_runs(self):
        big = self.peer.request("discover", {
            "index": "polya", "query": {"bases": b"A" * 20000}, "strand": "plus",
            "transitions": False})
        for method in ("health", "stats", "index.list"):
            number = self.peer.request(method)
            self.assertIsNone(self.peer.response(number)[0])
        self.peer.request("cancel", job=big)
        self.assert_code(self.until(big), "cancelled")

    def until(self, number):
        while True:
            message = self.peer.receive()
            if message[0] == 1 and message[1] == number:
                return message[2]

    def test_an_id_in_use_is_refused(self):
        self.peer.send([0, 900, "discover", [{"index": "polya", "query": {"bases": b"A" * 400},
                                              "strand": "plus", "transitions": False}]])
        self.peer.send([0, 900, "discover", [{"index": "ref", "seeds": b""}]])
        errors = [self.until(900), self.until(900)]
        self.assert_code(errors[0], "bad_request", 900)
        self.assertIsNone(errors[1])
        self.assert_answers(self.peer)


BAD_DISCOVER = [
    # parameters, word that the message must hold
    ({}, "index"),
    ({"index": 5, "seeds": b""}, "index"),
    ({"index": b"ref", "seeds": b""}, "index"),
    ({"index": None, "seeds": b""}, "index"),
    ({"index": "ref"}, "seeds"),
    ({"index": "ref", "seeds": b"", "query": {"bases": b""}}, "seeds"),
    ({"index": "ref", "seeds": b"1234567"}, "seeds"),
    ({"index": "ref", "seeds": "12345678"}, "seeds"),
    ({"index": "ref", "seeds": [1, 2]}, "seeds"),
    ({"index": "ref", "query": b"ACGT"}, "query"),
    ({"index": "ref", "query": {}}, "bases"),
    ({"index": "ref", "query": {"bases": "ACGT"}}, "bases"),
    ({"index": "ref", "query": {"bases": b"ACGT", "name": "x"}}, "name"),
    ({"index": "ref", "seeds": b"", "maxhits": 5}, "maxhits"),
    ({"index": "ref", "seeds": b"", "max_hits": 0}, "max_hits"),
    ({"index": "ref", "seeds": b"", "max_hits": -1}, "max_hits"),
    ({"index": "ref", "seeds": b"", "max_hits": 1.0}, "max_hits"),
    ({"index": "ref", "seeds": b"", "max_hits": "1"}, "max_hits"),
    ({"index": "ref", "seeds": b"", "max_hits": True}, "max_hits"),
    ({"index": "ref", "seeds": b"", "max_hits": None}, "max_hits"),
    ({"index": "ref", "seeds": b"", "hit_limit": "many"}, "hit_limit"),
    ({"index": "ref", "seeds": b"", "max_word_count": -5}, "max_word_count"),
    ({"index": "ref", "seeds": b"", "deadline_ms": 0.5}, "deadline_ms"),
    ({"index": "ref", "seeds": b"", "digest": 1}, "digest"),
    ({"index": "ref", "seeds": b"", "chunk_walk": "half"}, "chunk_walk"),
    ({"index": "ref", "query": {"bases": b""}, "strand": "+"}, "strand"),
    ({"index": "ref", "query": {"bases": b""}, "strand": 1}, "strand"),
    ({"index": "ref", "query": {"bases": b""}, "transitions": "no"}, "transitions"),
    ({"index": "ref", "query": {"bases": b""}, "unmask": 0}, "unmask"),
    ({"index": "ref", "query": {"bases": b""}, "begin": -1}, "begin"),
    ({"index": "ref", "query": {"bases": b""}, "begin": 5, "end": 4}, "begin"),
    ({"index": "ref", "seeds": b"", "strand": "plus"}, "strand"),
    ({"index": "ref", "seeds": b"", "transitions": False}, "transitions"),
    ({"index": "ref", "seeds": b"", 5: 5}, ""),
    ({"index": "ref", "seeds": b"", b"digest": True}, ""),
    ({"index": "x" * 300, "seeds": b""}, "index"),
]


class BadInputTest(PeerTest):
    def good_file(self):
        return self.holder.path("ref.hspz")

    def test_bad_discover_parameters_are_named(self):
        for params, word in BAD_DISCOVER:
            with self.subTest(params):
                error = self.peer.error("discover", [params])
                self.assert_code(error, "bad_request", word)
        self.assert_answers(self.peer)

    def test_other_encodings_are_unsupported(self):
        error = self.peer.error("discover", index="ref", seeds=b"", encoding="zstd")
        self.assert_code(error, "unsupported", "zstd")
        self.peer.discover("ref", seeds=b"", encoding="packed")

    def test_bad_parameter_lists_are_refused(self):
        for method, params in (("discover", []), ("discover", ["ref"]), ("discover", [{}, {}]),
                               ("cancel", []), ("cancel", [{"job": -1}]), ("cancel", [{}]),
                               ("cancel", [{"job": 1 << 32}]), ("cancel", [{"job": "1"}]),
                               ("health", [{"x": 1}]), ("stats", [5]), ("index.list", [[]]),
                               ("index.describe", [{}]), ("index.describe", [{"index": 1}]),
                               ("index.load", [{"index": "a"}]), ("index.load", [{"file": "a"}]),
                               ("index.load", [{"index": "a/b", "file": self.good_file()}]),
                               ("index.load", [{"index": "", "file": self.good_file()}]),
                               ("index.unload", [{}]), ("index.build", [{"index": "a"}])):
            with self.subTest(method=method, params=params):
                self.assert_code(self.peer.error(method, params), "bad_request")
        self.assert_answers(self.peer)

    def test_repeated_keys_are_refused(self):
        body = (b"\x94\x00\xcd\x03\x09\xa8discover\x91\x84\xa5index\xa3ref\xa5seeds\xc4\x00"
                b"\xa8max_hits\x01\xa8max_hits\x02")
        self.peer.send_bytes(body)
        error, _ = self.peer.response(0x0309)
        self.assert_code(error, "bad_request", "max_hits")
        self.assert_answers(self.peer)

    def test_what_is_no_message_is_answered_or_closed(self):
        for body in (b"\x05", b"\xc0", b"\xa5hello", b"\x80", b"\x90", b"\x91\x00",
                     msgpack.packb([0, 1, "health"]), msgpack.packb([0, 1, "health", {}]),
                     msgpack.packb([0, 1, "health", [], 5]), msgpack.packb([0, -1, "health", []]),
                     msgpack.packb([0, 1 << 32, "health", []]), msgpack.packb([0, "1", "health", []]),
                     msgpack.packb([0, 1, 5, []]), msgpack.packb([0, 1, b"health", []]),
                     msgpack.packb([3, 1, "health", []]), msgpack.packb(["0", 1, "health", []]),
                     msgpack.packb([1, 5, None, {}]), msgpack.packb([2, "anchors", [{}, b""]]),
                     msgpack.packb([2, 5, []]), b"\xc1", b"GET / HTTP/1.1\r\n\r\n",
                     b"\xd4\x00\x00", b"\xff" * 100, bytes(1000)):
            with self.subTest(body[:24]):
                with self.server.peer() as peer:
                    peer.send_bytes(body)
                    try:
                        number = peer.request("health")
                        while True:
                            message = peer.receive()
                            self.assertEqual(message[0], 1)
                            if message[1] == number:
                                break
                            self.assert_code(message[2], "bad_request")
                    except (EOFError, ConnectionError):
                        pass
        self.assert_answers(self.peer)


class FramingTest(PeerTest):
    """Forged lengths, nesting, crumbs."""

    def forged(self):
        """Announced lengths far beyond what follows, alone, in hello and in a job's payload."""
        for head in (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff",
                     b"\xdb\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01", b"\xdd\x7f\xff\xff\xff",
                     b"\xdc\xff\xff", b"\xde\xff\xff", b"\xc9\x00\x10\x00\x00\x01"):
            yield head
            yield b"\x94\x00\x01\xa5hello\x91\x81\xa1x" + head
            yield b"\x94\x00\x01\xa8discover\x91\x82\xa5index\xa3ref\xa5seeds" + head

    def test_forged_lengths_cost_no_memory(self):
        rounds = 40 if hspz_test.SANITIZED else 400
        with self.server.peer() as other:
            self.assert_answers(other)
            before = self.server.rss_mib()
            for _ in range(rounds):
                for body in self.forged():
                    with self.server.peer(hello=False) as peer:
                        try:
                            peer.send_bytes(body)
                        except ConnectionError:
                            pass
            self.assert_answers(other)
            if not hspz_test.SANITIZED:
                self.assertLess(self.server.rss_mib() - before, 16)

    def test_forged_lengths_end_the_connection(self):
        for body in self.forged():
            with self.subTest(body):
                with self.server.peer() as peer:
                    peer.send_bytes(body)
                    self.assertTrue(peer.closed())

    def test_a_bin_over_max_message_ends_the_connection_with_an_error(self):
        limit = self.peer.welcome["limits"]["max_message"]
        with self.server.peer() as peer:
            number = peer.next_id
            peer.send_bytes(b"\x94\x00" + bytes([number]) +
                            b"\xa8discover\x91\x82\xa5index\xa3ref\xa5seeds\xc6" +
                            struct.pack(">I", min(limit + 8, 0xFFFFFFFF)))
            try:
                message = peer.receive()
                self.assertEqual(message[0], 1)
                self.assert_code(message[2], "too_large")
            except (EOFError, ConnectionError):
                pass
            self.assertTrue(peer.closed())

    def test_nesting_is_a_typed_error(self):
        for depth in (33, 10000, 1000000):
            for lead in (b"", b"\x94\x00\x01\xa6health\x91\x81\xa1x"):
                with self.subTest(depth=depth, lead=lead):
                    with self.server.peer() as peer:
                        try:
                            peer.send_bytes(lead + b"\x91" * depth + b"\x90")
                        except ConnectionError:
                            continue
                        self.assertTrue(peer.closed())
        self.assert_answers(self.peer)

    def test_a_frame_cut_at_every_offset_is_answered_alike(self):
        want = self.want()
        body = msgpack.packb([0, 5, "discover", [{"index": "ref", "query": {"bases": self.block()}}]])
        heads = list(range(1, 60)) + [len(body) // 2, len(body) - 1]
        for at in heads:
            self.peer.send_bytes(body[:at])
            time.sleep(0.001)
            self.peer.send_bytes(body[at:])
            _, data, _ = self.peer.anchors(5)
            self.assertEqual(data, want)

    def test_frames_together_and_trailing_bytes_are_answered_alike(self):
        want = self.want()
        bodies = [msgpack.packb([0, number, "discover", [
            {"index": "ref", "query": {"bases": self.block()}}]]) for number in range(5, 9)]
        self.peer.send_bytes(b"".join(bodies[:3]) + bodies[3][:7])
        for number in (5, 6, 7):
            _, data, _ = self.peer.anchors(number)
            self.assertEqual(data, want)
        self.peer.send_bytes(bodies[3][7:])
        _, data, _ = self.peer.anchors(8)
        self.assertEqual(data, want)

    def test_a_large_frame_in_crumbs_costs_linear_time(self):
        seeds = pack_seeds([(0xABCDEF, 1)]) * (1 << 17)  # 1 MiB, no hits
        body = msgpack.packb([0, 5, "discover", [{"index": "ref", "seeds": seeds}]])
        before = self.server.cpu_seconds()
        view = memoryview(body)
        for at in range(0, len(body), 7):
            self.peer.socket.send(view[at:at + 7])
        result = self.peer.result(5)
        self.assertEqual(result["anchors"], 0)
        self.assertLess(self.server.cpu_seconds() - before, 4 * hspz_test.SLOWER)
        body = msgpack.packb([0, 6, "discover", [{"index": "ref", "query": {"bases": self.block()}}]])
        for byte in body:
            self.peer.send_bytes(bytes([byte]))
        _, data, _ = self.peer.anchors(6)
        self.assert_same_anchors(data, self.want())


class SlowPeerTest(PeerTest):
    ARGS = ("--frame-timeout-ms", "2000", "--hello-timeout-ms", "2000")

    def test_a_half_message_is_closed_after_the_deadline(self):
        with self.server.peer() as peer:
            peer.send_bytes(b"\x94\x00\x01\xa8disc")
            begin = time.monotonic()
            for _ in range(30):  # one byte now and then does not help
                time.sleep(0.1)
                try:
                    peer.send_bytes(b"\x20")
                except ConnectionError:
                    break
            self.assertTrue(peer.closed(5))
            self.assertLess(time.monotonic() - begin, 6 * hspz_test.SLOWER)

    def test_a_silent_newcomer_is_closed_after_the_deadline(self):
        with self.server.peer(hello=False) as peer:
            self.assertTrue(peer.closed(5))

    def test_an_idle_peer_that_said_hello_stays(self):
        time.sleep(3.5)
        self.assert_answers(self.peer)


class BudgetTest(PeerTest):
    ARGS = ("--max-message", "8M", "--ingest-per-connection", "1M", "--ingest-total", "2M",
            "--max-seeds", "100000", "--max-query-bases", "100000")

    def test_bodies_over_the_ingest_budget_are_skipped_and_answered(self):
        before = self.server.rss_mib()
        for _ in range(20):
            error = self.peer.error("discover", index="ref", seeds=bytes(4 << 20))
            self.assert_code(error, "too_large", 1 << 20)
        if not hspz_test.SANITIZED:
            self.assertLess(self.server.rss_mib() - before, 16)
        self.assert_answers(self.peer)

    def test_bodies_over_max_message_close(self):
        with self.server.peer() as peer:
            try:
                peer.request("discover", index="ref", seeds=bytes(9 << 20))
            except ConnectionError:
                pass
            self.assertTrue(peer.closed())

    def test_jobs_over_the_limits_are_refused_with_the_numbers(self):
        error = self.peer.error("discover", index="ref", seeds=bytes(8 * 100001))
        self.assert_code(error, "too_large", 100001, 100000)
        error = self.peer.error("discover", index="ref", query={"bases": b"N" * 100001})
        self.assert_code(error, "too_large", 100001, 100000)
        self.peer.discover("ref", query={"bases": b"N" * 100000})
        self.assert_answers(self.peer)


class FloodTest(PeerTest):
    ARGS = ("--write-timeout-ms", "3000")

    def test_200_megabytes_of_requests_before_a_read_do_not_stop_others(self):
        # Each request gives an answer far larger than socket buffers.
        with self.server.peer() as flood, self.server.peer() as other:
            query = {"bases": (self.ref[0][1] * 100).encode()}
            flood.socket.settimeout(0.2)
            sent, number, stuck_since, pending = 0, 1, None, b""
            begin = time.monotonic()
            while sent < 200 << 20 and time.monotonic() - begin < 30 * hspz_test.SLOWER:
                if not pending:
                    pending = memoryview(msgpack.packb(
                        [0, number, "discover", [{"index": "ref", "query": query}]]))
                    number += 1
                    if number % 50 == 0:
                        self.assert_answers(other)
                try:
                    count = flood.socket.send(pending)
                    pending = pending[count:]
                    sent += count
                    stuck_since = None
                except TimeoutError:
                    stuck_since = stuck_since or time.monotonic()
                    if time.monotonic() - stuck_since > 1.5:
                        break
                except ConnectionError:
                    break
            self.assertGreater(sent, 0)
            begin = time.monotonic()
            self.assert_answers(other)
            self.assertLess(time.monotonic() - begin, 2 * hspz_test.SLOWER)
            if not hspz_test.SANITIZED:
                self.assertLess(self.server.rss_mib(), 1500)
            # The write timeout ends it.
            self.assertTrue(hspz_test.poll(lambda: self.gone(flood), 20))
            self.assert_answers(other)

    def gone(self, peer):
        try:
            peer.socket.settimeout(0.1)
            peer.socket.send(b"\xc0")
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        return False


class MoreTest(PeerTest):
    def test_five_thousand_connections_one_after_another(self):
        count = 500 if hspz_test.SANITIZED else 5000
        with self.server.peer() as peer:
            self.assert_answers(peer)
        before, memory = self.server.fds(), self.server.rss_mib()
        for _ in range(count):
            with self.server.peer() as peer:
                peer.call("health")
        self.assertTrue(hspz_test.poll(lambda: self.server.fds() <= before + 1))
        if not hspz_test.SANITIZED:
            self.assertLess(self.server.rss_mib() - memory, 8)

    def test_same_request_gives_the_same_bytes_alone_and_in_company(self):
        want = self.want()
        for _ in range(20):
            self.assertEqual(self.peer.discover("ref", query={"bases": self.block()})[1], want)
        got, stop = [], threading.Event()

        def company():
            with self.server.peer() as peer:
                while not got or not stop.is_set():
                    got.append(peer.discover("ref", query={"bases": self.block()})[1])

        threads = [threading.Thread(target=company) for _ in range(8)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(20):
                self.assertEqual(self.peer.discover("ref", query={"bases": self.block()})[1], want)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertTrue(got)
        self.assertTrue(all(data == want for data in got))

    def test_chunks_of_a_self_comparison_hold_each_anchor_once(self):
        rng = random.Random(5)
        text = bases(rng, 30000)
        self.peer.call("index.load", index="self", file=self.index([("s", text)], name="self"))
        want = hspz_test.discover([("s", text)], [("s", text)], transitions=False)
        result, data, parts = self.peer.discover("self", query={"bases": text.encode()},
                                                 transitions=False, max_hits=5000)
        self.assertGreaterEqual(result["chunks"], 5)
        self.assert_same_anchors(data, want)
        self.assertEqual(len(set(hspz_test.unpack_anchors(data))), result["anchors"])
        self.assertEqual(result["anchors"], sum(p["hit_end"] - p["hit_begin"] for p in parts))
        self.peer.call("index.unload", index="self")

    def test_health_and_stats_are_maps(self):
        self.assertEqual(self.peer.call("health")["state"], "ready")
        self.assertIsInstance(self.peer.call("stats"), dict)

    def test_tcp_serves_as_the_unix_socket_does(self):
        path = self.index(self.ref, name="ref2")
        daemon = self.daemon("--listen", "127.0.0.1:0", indexes={"ref": path})
        port = hspz_test.poll(lambda: re.search(r"127\.0\.0\.1:(\d+)", daemon.log()))
        with Peer(("127.0.0.1", int(port.group(1)))) as peer:
            self.assert_answers(peer)
            self.assertRaises(RpcError, peer.call, "index.describe", index="nope")
        daemon.stop()


if __name__ == "__main__":
    hspz_test.main()
