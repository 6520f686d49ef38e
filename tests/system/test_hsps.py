"""HSPs through the daemon: against KegAlign's segments, against a plain reckoning from the anchors,
against LASTZ; and how such jobs behave: limits, slow readers, cancelling, wrong requests."""

import math
import os
import random
import struct
import subprocess
import time

import xxhash

import hspz_test
import test_oracle
from hspz_test import SHAPE_12OF19, bases, fasta, poll, reverse_complement, shared, unpack_hsps

INTERVAL = 10000000  # KegAlign's

# set: what `hsps` says, number of HSPs
SETS = {
    "mini8": ({}, 488),
    "mini8t": ({}, 561),
    "mini12": ({"threshold": 1500}, 1351),
    "mini12step3": ({"threshold": 1500}, 588),
    "mini14": ({"threshold": 1500, "entropy": False}, 590),
    "apple": ({}, 1226),
    "applecap": ({}, 1235),
}

HOXD70 = {"A": {"A": 91, "C": -114, "G": -31, "T": -123},
          "C": {"A": -114, "C": 100, "G": -125, "T": -31},
          "G": {"A": -31, "C": -125, "G": 100, "T": -114},
          "T": {"A": -123, "C": -31, "G": -114, "T": 91}}


def score_of(a, b):
    if a in "ACGT" and b in "ACGT":
        return HOXD70[a][b]
    if a in "acgtNn" or b in "acgtNn":
        return -1000
    return -100


SCORES = {(a, b): score_of(a, b) for a in "ACGTacgtNnRYSWKM" for b in "ACGTacgtNnRYSWKM"}
LN_4 = struct.unpack("<f", struct.pack("<f", math.log(4)))[0]


def half(ref, query, r, q, step, xdrop):
    """(best, bases up to it) of one side."""
    total = best = end = count = 0
    while 0 <= r < len(ref) and 0 <= q < len(query) and ref[r] != "&" and query[q] != "&":
        total += SCORES[ref[r], query[q]]
        count += 1
        if total > best:
            best, end = total, count
        if best - total > xdrop:
            break
        r, q = r + step, q + step
    return best, end


def extend(ref, query, r, q, xdrop=910, threshold=3000, entropy=True):
    """The HSP of an anchor, or None: the rules as they are written down, base by base."""
    right, after = half(ref, query, r, q, 1, xdrop)
    left, before = half(ref, query, r - 1, q - 1, -1, xdrop)
    total, length = right + left, before + after
    start, begin = r - before, q - before
    factor = 1.0
    if entropy and threshold <= total <= 3 * threshold:
        same = [a for a, b in zip(ref[start:start + length], query[begin:begin + length])
                if a == b and a in "ACGT"]
        if len(same) >= 20:
            shares = [same.count(base) / length for base in "ACGT"]
            factor = -sum(p * math.log(p) for p in shares if p) / LN_4
    if total * factor < threshold:
        return None
    return start, begin, length, int(total * factor)


def without_nested(hsps):
    """What the job's rule leaves of each diagonal, in final order."""
    diagonals = {}
    for hsp in hsps:
        diagonals.setdefault(hsp[0] - hsp[1], set()).add(hsp)
    kept = []
    for found in diagonals.values():
        begin = end = None
        for hsp in sorted(found, key=lambda h: (h[0], h[2], -h[3])):
            # Nested in the last one kept, or that in it.
            if end is None or hsp[0] != begin and hsp[0] + hsp[2] > end:
                begin, end = hsp[0], hsp[0] + hsp[2]
                kept.append(hsp)
    return sorted(kept, key=lambda h: (h[1], h[0], h[2], -h[3]))


def strands_of(parts, data, size=16):
    """{(strand, ref_block): bytes} of a stream."""
    found, at = {}, 0
    for part in parts:
        key = (part["strand"], part["ref_block"])
        count = size * (part["hsp_end"] - part["hsp_begin"])
        found[key] = found.get(key, b"") + data[at:at + count]
        at += count
    assert at == len(data)
    return found


class Names:
    """Where a block's positions are in its sequences."""

    def __init__(self, records):
        self.rows, at = [], 0
        for name, seq in records:
            self.rows.append((at, len(seq), name.split()[0]))
            at += len(seq) + 1
        self.total = at - 1

    def locate(self, start, minus=False):
        for offset, size, name in self.rows:
            begin = self.total - offset - size if minus else offset
            if begin <= start < begin + size:
                return name, start - begin
        raise AssertionError(start)


def segments(hsps, ref, query, strand):
    lines = []
    for ref_start, query_start, length, score in hsps:
        name, at = ref.locate(ref_start)
        other, begin = query.locate(query_start, strand == "minus")
        lines.append("%s\t%d\t%d\t%s\t%d\t%d\t%s\t%d\n" % (
            name, at + 1, at + length, other, begin + 1, begin + length,
            "+" if strand == "plus" else "-", score))
    return "".join(lines[::-1] if strand == "minus" else lines)


class OracleTest(test_oracle.OracleTest):
    # Only the set-up is wanted.
    for name in [n for n in dir(test_oracle.OracleTest) if n.startswith("test_")]:
        locals()[name] = None
    del name

    def check_segments(self, name):
        _, transitions, _, cap, _ = test_oracle.SETS[name]
        options, count = SETS[name]
        daemon = self.start(name)
        refs, queries = [hspz_test.read_fasta(path) for path in test_oracle.inputs(name)]
        request = {"query": {"bases": hspz_test.block_of(queries).encode()}, "max_hits": cap,
                   "transitions": transitions, "interval": INTERVAL, "output": "hsps",
                   "hsps": dict(options, scope="chunk")}
        with daemon.peer() as peer:
            result, data, parts = peer.discover(name, **request)
            self.assertEqual(result["hsps"], count)
            self.assertEqual(result["anchors"], 0)
            self.assertEqual(sum(s["hits"] for s in result["strands"].values()),
                             test_oracle.SETS[name][4])
            found = strands_of(parts, data)
            for strand in ("plus", "minus"):
                want = test_oracle.load(name, "tmp1.block0.r0.%s.segments" % strand).decode()
                self.assertTrue(want)
                got = segments(unpack_hsps(found[strand, 0]), Names(refs), Names(queries), strand)
                self.assertEqual(got, want)
        daemon.stop()

    def test_mini8_segments_equal_kegaligns(self):
        self.check_segments("mini8")

    def test_mini8t_segments_equal_kegaligns(self):
        self.check_segments("mini8t")

    def test_mini12_segments_equal_kegaligns(self):
        self.check_segments("mini12")

    def test_mini12step3_segments_equal_kegaligns(self):
        self.check_segments("mini12step3")

    def test_mini14_segments_equal_kegaligns(self):
        self.check_segments("mini14")

    def test_apple_segments_equal_kegaligns(self):
        self.check_segments("apple")

    def test_applecap_segments_equal_kegaligns(self):
        self.check_segments("applecap")


class WholeJobTest(hspz_test.TestCase):
    """The default: a set that depends on no cap, chunk, interval or part."""

    def check_against_anchors(self, index, refs, query, **options):
        """The HSPs of every anchor, reckoned here, against those of the daemon."""
        daemon = self.daemon("--part-bytes", "64K", indexes={"ref": index})
        request = {"query": {"bases": query.encode()}}
        want, count = {}, 0
        with daemon.peer() as peer:
            _, data, parts = peer.discover("ref", **request)
            at = 0
            for part in parts:
                size = 8 * (part["hit_end"] - part["hit_begin"])
                text = query if part["strand"] == "plus" else reverse_complement(query)
                ref = refs[part["ref_block"]]
                key = (part["strand"], part["ref_block"])
                for r, q in hspz_test.unpack_anchors(data[at:at + size]):
                    hsp = extend(ref, text, r, q, **options)
                    if hsp is not None:
                        want.setdefault(key, set()).add(hsp)
                at += size
            want = {key: without_nested(found) for key, found in want.items()}
            self.assertGreater(sum(map(len, want.values())), 20)
            for more in ({}, {"max_hits": 1}, {"max_hits": 1000}, {"interval": 997},
                         {"interval": 7001, "max_hits": 313}, {"interval": 1 << 40},
                         {"chunk_walk": "full", "max_hits": 50}):
                with self.subTest(**more):
                    result, data, parts = peer.discover(
                        "ref", output="hsps", hsps=options, **dict(request, **more))
                    got = {k: unpack_hsps(v) for k, v in strands_of(parts, data).items()}
                    self.assertEqual(got, want)
                    count = sum(map(len, want.values()))
                    self.assertEqual(result["hsps"], count)
                    for part in parts:
                        self.assertEqual([part[k] for k in ("batch", "chunk", "seed_begin",
                                                            "seed_end")], [0, 0, 0, 0])
                        self.assertEqual(part.get("interval"), 0 if "interval" in more else None)
        daemon.stop()
        return count

    def test_hsps_of_mini_equal_a_plain_reckoning(self):
        refs = hspz_test.read_fasta(shared("data", "mini_t.fa"))
        queries = hspz_test.read_fasta(shared("data", "mini_q.fa"))
        index = hspz_test.build_index(shared("data", "mini_t.fa"), self.path("m.hspz"), "--seed",
                                      "1110100110101")
        self.check_against_anchors(index, [hspz_test.block_of(refs)], hspz_test.block_of(queries))

    def test_hsps_of_masked_and_strange_bases_equal_a_plain_reckoning(self):
        rng = random.Random(5)
        core = bases(rng, 1500)

        def record(number):
            seq = list(core[rng.randint(0, 200):][:rng.randint(200, 1200)])
            for _ in range(len(seq) // 15):
                seq[rng.randrange(len(seq))] = rng.choice("ACGTACGTNRYacgtn")
            at = rng.randrange(len(seq))
            seq[at:at + 40] = "".join(seq[at:at + 40]).lower()
            text = "".join(seq)
            return "s%d" % number, reverse_complement(text) if number % 3 == 0 else text

        refs = [record(n) for n in range(5)]
        query = hspz_test.block_of([record(n) for n in range(4)] + [("core", core)])
        index = self.index(refs, "--seed", "11101011", name="strange")
        self.check_against_anchors(index, [hspz_test.block_of(refs)], query, threshold=1200,
                                   xdrop=400)


    def test_apple_against_orange_gives_what_lastz_gives(self):
        paths = [shared("data", "apple.fasta.gz"), shared("data", "orange.fasta.gz")]
        records = [hspz_test.read_fasta(path) for path in paths]
        plain = [self.file("%d.fa" % i, fasta(r)) for i, r in enumerate(records)]
        printed = subprocess.run(
            [hspz_test.tool("lastz"), plain[0] + "[multiple]", plain[1], "--nogapped", "--nochain",
             "--format=general-:name1,zstart1,end1,name2,strand2,zstart2,end2,score"],
            stdout=subprocess.PIPE, check=True, timeout=120).stdout.decode()
        want = sorted(tuple(line.split("\t")) for line in printed.splitlines())
        self.assertEqual(len(want), 1225)
        index = hspz_test.build_index(paths[0], self.path("apple.hspz"), "--all-positions")
        daemon = self.daemon(indexes={"apple": index})
        query = {"bases": hspz_test.block_of(records[1]).encode()}
        ref, other = Names(records[0]), Names(records[1])
        for cap in (1000, 20000, 1 << 28):
            with daemon.peer() as peer:
                _, data, parts = peer.discover("apple", query=query, output="hsps", max_hits=cap)
            got = []
            for (strand, _), found in strands_of(parts, data).items():
                for line in segments(unpack_hsps(found), ref, other, strand).splitlines():
                    name, start, end, name2, start2, end2, sign, score = line.split("\t")
                    got.append((name, str(int(start) - 1), end, name2, sign, str(int(start2) - 1),
                                end2, score))
            self.assertEqual(sorted(got), want)
        daemon.stop()


# Every hit of 12of19 is an HSP then.
ALL = {"threshold": 1, "entropy": False}


class JobTest(hspz_test.TestCase):
    """Jobs of many HSPs: all hits of random sequences."""

    def setUp(self):
        super().setUp()
        rng = random.Random(11)
        self.index_file = self.index([("r", bases(rng, 400000))], name="big")
        self.query = bases(rng, 400000).encode()
        self.request = {"query": {"bases": self.query}, "output": "hsps", "hsps": ALL}

    def many(self, peer, **more):
        return peer.discover("big", **dict(self.request, **more))

    def test_parts_are_joined_and_hsps_are_counted(self):
        daemon = self.daemon("--part-bytes", "64K", indexes={"big": self.index_file})
        with daemon.peer() as peer:
            before = peer.call("stats")
            result, data, parts = self.many(peer)
            after = peer.call("stats")
            self.assertGreater(result["hsps"], 200000)
            self.assertEqual(len(data), 16 * result["hsps"])
            for strand in ("plus", "minus"):
                mine = [p for p in parts if p["strand"] == strand]
                self.assertGreater(len(mine), 25)
                self.assertEqual([p["part"] for p in mine], list(range(len(mine))))
                self.assertEqual([p["hsp_begin"] for p in mine[1:]],
                                 [p["hsp_end"] for p in mine[:-1]])
                self.assertEqual([p["last_part"] for p in mine],
                                 [False] * (len(mine) - 1) + [True])
                self.assertEqual(mine[-1]["hsp_end"], result["strands"][strand]["hsps"])
            self.assertTrue(all(16 * (p["hsp_end"] - p["hsp_begin"]) <= 65536 for p in parts))
            self.assertEqual(after["hsps"] - before["hsps"], result["hsps"])
            self.assertEqual(after["anchors"], before["anchors"])
            self.assertEqual(result["digest"], xxhash.xxh64(data).hexdigest())
            # Nothing is left of it.
            self.assertEqual(after["memory"]["scratch_bytes"], 0)
            # The same again in many chunks, and without a digest.
            chunked, other, _ = self.many(peer, digest=False, max_hits=5000)
            self.assertNotIn("digest", chunked)
            self.assertGreater(chunked["chunks"], 2 * result["chunks"])
            self.assertEqual(other, data)
        daemon.stop()

    def test_limits_of_request_and_server_name_the_numbers(self):
        daemon = self.daemon("--max-hsps", "50000", indexes={"big": self.index_file})
        with daemon.peer() as peer:
            self.assertEqual(peer.welcome["limits"]["max_hsps"], 50000)
            for limit, most in ((None, 50000), (200000, 50000), (999, 999), (0, 0)):
                options = ALL if limit is None else dict(ALL, limit=limit)
                error = peer.error("discover", dict(self.request, index="big", hsps=options))
                self.assert_code(error, "too_large", most)
                self.assertEqual(error["limit"], most)
            small = {"bases": self.query[:2000]}
            result, _, _ = self.many(peer, query=small)
            self.assertGreater(result["hsps"], 0)
            again, _, _ = self.many(peer, query=small, hsps=dict(ALL, limit=result["hsps"]))
            self.assertEqual(again["hsps"], result["hsps"])
            stats = peer.call("stats")
            self.assertEqual(stats["memory"]["scratch_bytes"], 0)
        daemon.stop()

    def test_a_slow_reader_of_hsps_is_held_back_alone(self):
        daemon = self.daemon("--part-bytes", "64K", indexes={"big": self.index_file})
        with daemon.peer() as slow, daemon.peer() as quick:
            number = slow.request("discover", dict(self.request, index="big"))
            parts = poll(lambda: quick.call("stats")["parts"], seconds=60)
            self.assertGreater(parts, 0)
            time.sleep(0.5)
            stalled = quick.call("stats")
            # Parts in the socket's buffers and those made ahead, not the whole.
            self.assertLess(stalled["hsps"], 100000)
            self.assertGreater(stalled["memory"]["scratch_bytes"], 100000 * 16)
            result, _, _ = self.many(quick, query={"bases": self.query[:150000]})
            self.assertGreater(result["hsps"], 20000)
            result, data, _ = slow.anchors(number)
            self.assertEqual(len(data), 16 * result["hsps"])
            self.assertEqual(result["digest"], xxhash.xxh64(data).hexdigest())
        daemon.stop()

    def test_cancelling_gives_the_memory_back(self):
        daemon = self.daemon(indexes={"big": self.index_file})
        with daemon.peer() as peer, daemon.peer() as other:
            for wait in (0, 0.05, 0.2, 0.5):
                number = peer.request("discover", dict(self.request, index="big"))
                time.sleep(wait)
                peer.call("cancel", job=number)
                error, _ = peer.response(number)
                self.assert_code(error, "cancelled")
                self.assertEqual(other.call("stats")["memory"]["scratch_bytes"], 0)
            # One that goes away in the middle.
            other.request("discover", dict(self.request, index="big"))
            time.sleep(0.2)
            other.reset()
            self.assertEqual(poll(lambda: peer.call("stats")["jobs"]["in_flight"] == 0), True)
            self.assertEqual(peer.call("stats")["memory"]["scratch_bytes"], 0)
        daemon.stop()

    def test_several_connections_get_the_same(self):
        daemon = self.daemon("--part-bytes", "64K", threads=2,
                             indexes={"big": self.index_file})
        with daemon.peer() as alone:
            want, data, _ = self.many(alone)
        peers = [daemon.peer() for _ in range(5)]
        numbers = [p.request("discover", dict(self.request, index="big")) for p in peers]
        for peer, number in zip(peers, numbers):
            result, got, _ = peer.anchors(number)
            self.assertEqual(result["digest"], want["digest"])
            self.assertEqual(got, data)
            peer.close()
        daemon.stop()

    # Small batches (an interval of 20,000) and parts, so that what jobs keep is most of what they
    # hold.
    CROWD = ("--max-hsps", "1000000", "--part-bytes", "64K")

    def memory_of_one(self):
        """MiB of job_memory in which such a job gets through alone."""
        for memory in range(16, 128, 4):
            daemon = self.daemon("--job-memory", "%dM" % memory, *self.CROWD,
                                 indexes={"big": self.index_file})
            with daemon.peer() as peer:
                error, _ = peer.response(peer.request("discover", dict(
                    self.request, index="big", interval=20000)))
            daemon.stop()
            if error is None:
                return memory
            self.assert_code(error, "too_large", "scratch memory", "job_memory")
            self.assertEqual(error["limit"], memory << 20)
        raise AssertionError("more than 128 MiB")

    def crowd(self, memory):
        """How six jobs end that are sent at once, by code."""
        daemon = self.daemon("--job-memory", "%dM" % memory, *self.CROWD,
                             indexes={"big": self.index_file})
        peers = [daemon.peer() for _ in range(6)]
        request = dict(self.request, index="big", interval=20000)
        numbers = [p.request("discover", request) for p in peers]
        ends, digests = {"ok": 0, "quota_exceeded": 0}, set()
        for peer, number in zip(peers, numbers):
            error, result = peer.response(number)
            ends[error["code"] if error else "ok"] += 1
            if not error:
                digests.add(result["digest"])
            else:
                self.assert_code(error, "quota_exceeded", "scratch memory", "job_memory")
                self.assertEqual(error["limit"], memory << 20)
                # It may be sent again as it is when nothing of it has come.
                self.assertEqual("retry_ms" in error, not peer.notices)
            peer.close()
        with daemon.peer() as peer:
            result, _, _ = self.many(peer, interval=20000)
            self.assertGreater(result["hsps"], 200000)
            self.assertEqual(digests, {result["digest"]})
            stats = peer.call("stats")
            self.assertEqual(stats["memory"]["scratch_bytes"], 0)
            self.assertGreater(stats["parks"], 0)
        daemon.stop()
        return ends

    def test_jobs_whose_hsps_fill_the_memory_are_refused_and_told_so(self):
        ends = self.crowd(self.memory_of_one())
        # Nobody waits for ever, and somebody is served.
        self.assertGreaterEqual(ends["ok"], 1)
        self.assertGreaterEqual(ends["quota_exceeded"], 1)

    def test_jobs_that_lack_memory_wait_for_those_that_can_go_on(self):
        self.assertEqual(self.crowd(3 * self.memory_of_one()), {"ok": 6, "quota_exceeded": 0})


class RequestTest(hspz_test.TestCase):
    def test_wrong_requests_are_told_what_is_wrong(self):
        index = self.index([("r", bases(random.Random(3), 3000))])
        daemon = self.daemon(indexes={"ref": index})
        query = {"bases": b"ACGTACGTACGTACGTACGTACGT"}
        hsps = {"query": query, "output": "hsps"}
        cases = [
            ({"query": query, "output": "segments"}, '"output" is "segments", wanted "anchors"'),
            ({"seeds": b"", "output": "hsps"}, 'not "seeds"'),
            ({"seeds": b"", "interval": 5}, '"interval" goes with "query"'),
            ({"query": query, "hsps": {}}, '"hsps" goes with "output"'),
            ({"query": query, "interval": 5, "begin": 0}, 'so "begin" has no place'),
            ({"query": query, "interval": 5, "end": 9}, 'so "end" has no place'),
            (dict(hsps, hsps={"xdrops": 1}), '"xdrops" is not a key of "hsps"'),
            (dict(hsps, hsps={"xdrop": -1}), '"xdrop" is -1'),
            (dict(hsps, hsps={"xdrop": 100000001}), '"xdrop" is 100000001'),
            (dict(hsps, hsps={"threshold": 0}), '"threshold" is 0'),
            (dict(hsps, hsps={"entropy": 1}), '"entropy" is 1, wanted true or false'),
            (dict(hsps, hsps={"scope": "block"}), '"scope" is "block", wanted "job" or "chunk"'),
            (dict(hsps, hsps={"limit": 1.5}), '"limit" is the float 1.5'),
            (dict(hsps, hsps={"scores": bytes(252)}), '"scores" is a bin of 252 bytes, wanted 256'),
            (dict(hsps, hsps={"scores": struct.pack("<64i", *[0] * 63 + [-1000001])}),
             'entry 63 of "scores" is -1000001, wanted -1000000 to 1000000'),
            (dict(hsps, hsps=[]), '"hsps" is an array of 0, wanted a map'),
        ]
        with daemon.peer() as peer:
            for request, words in cases:
                with self.subTest(words):
                    error = peer.error("discover", dict(request, index="ref"))
                    self.assert_code(error, "bad_request", words)
            result, data, _ = peer.discover("ref", **hsps)
            self.assertEqual((result["hsps"], data), (0, b""))
        daemon.stop()

    def test_a_query_over_the_limit_is_refused_with_the_number(self):
        index = self.index([("r", bases(random.Random(3), 3000))])
        daemon = self.daemon("--max-query-bases", "1000", indexes={"ref": index})
        with daemon.peer() as peer:
            error = peer.error("discover", index="ref", query={"bases": b"A" * 1001}, output="hsps")
            self.assert_code(error, "too_large", 1001, 1000)
            self.assertEqual(error["limit"], 1000)
            peer.discover("ref", query={"bases": b"A" * 1000}, output="hsps")
        daemon.stop()

    def test_scores_of_the_request_are_used(self):
        rng = random.Random(4)
        text = bases(rng, 400)
        index = self.index([("r", bases(rng, 500) + text + bases(rng, 500))])
        daemon = self.daemon(indexes={"ref": index})
        scores = [-3] * 64
        for base in range(4):
            scores[base * 9] = 2 + base
        request = {"query": {"bases": text.encode()}, "strand": "plus", "output": "hsps",
                   "hsps": {"xdrop": 30, "threshold": 500, "entropy": False,
                            "scores": struct.pack("<64i", *scores)}}
        with daemon.peer() as peer:
            _, data, _ = peer.discover("ref", **request)
            total = sum(2 + "ACGT".index(base) for base in text)
            found = unpack_hsps(data)
            self.assertEqual(len(found), 1)
            # Chance may lengthen it beyond the query's place: nothing of the query is left over.
            self.assertEqual(found[0], (500, 0, 400, total))
        daemon.stop()

    def test_tiny_and_empty_queries_have_no_hsps(self):
        index = self.index([("r", bases(random.Random(3), 3000))])
        daemon = self.daemon(indexes={"ref": index})
        with daemon.peer() as peer:
            for query in (b"", b"A", b"&", b"ACGTACGTACGTACGTAC", b"&&&&&&&&&&&&&&&&&&&&&&&&",
                          b"N" * 5000, bases(random.Random(9), 19).encode()):
                for more in ({}, {"interval": 7}, {"hsps": {"scope": "chunk"}}):
                    result, data, parts = peer.discover("ref", query={"bases": query},
                                                        output="hsps", **more)
                    self.assertEqual((result["hsps"], result["anchors"], data, parts),
                                     (0, 0, b"", []))
        daemon.stop()


if __name__ == "__main__":
    hspz_test.main()
