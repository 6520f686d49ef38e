"""Payloads through shared memory: the bytes are those of the stream, whatever the encoding and wherever the request
was; who does not get any; and what is left behind."""

import os
import random
import struct
import time

import hspz_test
from hspz_test import SHAPE_12OF19, RpcError, bases, discover
from shm_peer import ShmPeer
from test_columns import read_columns


def pack(words):
    return struct.pack("<%dQ" % len(words), *words)


class FilterTest(hspz_test.TestCase):
    """Keys and answers: those of the stream, wherever they are."""

    def setUp(self):
        super().setUp()
        self.rng = random.Random(32)

    def answers(self, peer, method, **params):
        number = peer.request("filter." + method, params)
        peer.notices = []
        result = peer.result(number)
        numbers, bits, at = b"", [], 0
        for _, name, (head, data) in peer.notices:
            self.assertIn(name, ("answers", "entries"))
            self.assertEqual((head["job"], head["first"]), (number, at))
            at, answer = at + head["count"], head.get("answer", "entries")
            size = {"entries": 24, "bitmap": 0}.get(answer, 8) * head["count"]
            numbers += data[:size]
            bits += [data[size + i // 8] >> i % 8 & 1 for i in range(head["count"])
                     if answer in ("bitmap", "both")]
        del result["timings"]
        if method == "enumerate" and params["filter"].startswith(("tcf", "counter")) and hspz_test.ENGINE != "cpu":
            # Which of its places a key takes depends on who came first, and of a tcf also which of both blocks'
            # fingerprints it gives.
            words = struct.unpack("<%dQ" % (len(numbers) // 8), numbers)
            numbers = sorted(words[1::3]) if params["filter"].startswith("tcf") else \
                sorted(zip(words[::3], words[1::3], words[2::3]))
        return result, numbers, bits

    def placed(self, peer, params):
        """The same with its payloads in the input, in any order."""
        params, at = dict(params), 5
        for key in ("counts", "keys", "sequence", "values"):
            if key in params:
                params[key] = peer.put(params[key], at)
                at += params[key]["length"] + 3
        return params

    def calls(self):
        keys = [self.rng.getrandbits(64) for _ in range(30000)]
        asked = pack(keys[:20000] + [self.rng.getrandbits(64) for _ in range(10001)])
        values = pack([self.rng.getrandbits(8) for _ in keys])
        counts = pack([1 + self.rng.randrange(5) for _ in keys])
        yield "tcf", [("insert", {"keys": pack(keys), "values": values}),
                      ("query", {"keys": asked, "answer": "both"}), ("delete", {"keys": pack(keys[::3])}),
                      ("insert_if_absent", {"keys": asked, "values": pack([7] * 30001), "answer": "array"}),
                      ("query", {"keys": b""}), ("enumerate", {})]
        yield "gqf", [("insert", {"keys": pack(keys), "values": values, "counts": counts, "answer": "none"}),
                      ("count", {"keys": asked}), ("decrement", {"keys": pack(keys[::2]), "counts": pack([1] * 15000)}),
                      ("query", {"keys": asked}), ("enumerate", {})]
        yield "counter", [("insert", {"sequence": bases(self.rng, 40000).encode()}),
                          ("count", {"sequence": bases(self.rng, 30000).encode()}), ("enumerate", {})]

    def test_answers_are_the_same_wherever_keys_and_they_are(self):
        daemon = self.daemon("--part-bytes", "64K", "--parts-per-connection", "2", threads=2)
        with daemon.peer() as plain, ShmPeer(daemon.path) as peer:
            for kind, calls in self.calls():
                more = {"k": 9} if kind == "counter" else {"value_bits": 8, "slot_bits": 32}
                ways = [("stream", False), ("stream", True), ("shm", False), ("shm", True)]
                for i, _ in enumerate(ways):
                    peer.call("filter.create", dict(more, filter="%s%d" % (kind, i), kind=kind,
                                                    capacity=40000, seed=3))
                for method, params in calls:
                    found = []
                    for i, (transport, placed) in enumerate(ways):
                        here = self.placed(peer, params) if placed else params
                        found.append(self.answers(peer, method, filter="%s%d" % (kind, i), transport=transport,
                                                  **here))
                    # Their difference in full would take for ever to tell.
                    for way, other in zip(ways[1:], found[1:]):
                        self.assertEqual(other[0], found[0][0], (kind, method, way))
                        self.assertTrue(other[1:] == found[0][1:], (kind, method, way))
                    if params and next(iter(params.values())) and params.get("answer") != "none":
                        self.assertGreater(len(found[0][1]) + len(found[0][2]), 3000)
            counted = plain.call("stats")["shm"]
            self.assertGreater(counted["parts"], 30)
            self.assertGreater(counted["bytes_in"], 2000000)
            self.assertEqual(peer.kept, [])
        daemon.stop()

    def test_the_client_sends_large_calls_through_memory(self):
        daemon = self.daemon("--part-bytes", "64K", "--listen", "127.0.0.1:0")
        keys = self.file("keys", pack([self.rng.getrandbits(64) for _ in range(60000)]))
        few = self.file("few", pack([1, 2, 3]))
        out = []
        for server in (daemon.server, "tcp:127.0.0.1:%d" % daemon.port()):
            name = server[:3]
            hspz_test.client("filter", "create", name, "--kind", "tcf", "--capacity", "100000", server=server, check=0)
            out.append([])
            for command, file in (("query", few), ("insert", keys), ("count", keys), ("query", keys)):
                with daemon.peer() as plain:
                    before = plain.call("stats")["shm"]
                    out[-1].append(hspz_test.client("filter", command, name, file, "--raw", server=server, check=0).stdout)
                    after = plain.call("stats")["shm"]
                large = file == keys and server == daemon.server
                self.assertEqual(after["bytes_in"] - before["bytes_in"], 480000 if large else 0)
                self.assertEqual(after["parts"] > before["parts"], large)
                self.assertEqual(after["opened"] - before["opened"], large)
        self.assertEqual(out[0], out[1])
        self.assertGreater(len(out[0][-1]), 480000)
        daemon.stop()


class ShmTest(hspz_test.TestCase):
    def setUp(self):
        super().setUp()
        rng = random.Random(31)
        unit = bases(rng, 300)
        core = bases(rng, 20000)
        self.reference = [("a", core[:9000] + unit * 9), ("b", core[9000:] + "A" * 900)]
        self.index_file = self.index(self.reference)
        self.records = [("q", core[2000:6000] + unit * 5 + "A" * 700), ("p", core[12000:15000])]
        self.query = hspz_test.block_of(self.records).encode()
        self.seeds = struct.pack("<9000Q", *[rng.randrange(1 << 24) << 32 | i for i in range(9000)])

    def share(self, daemon, **more):
        return ShmPeer(daemon.path, **more)

    def jobs(self):
        query = {"query": {"bases": self.query}}
        return [query, dict(query, strand="minus"), dict(query, max_hits=77),
                dict(query, interval=900), dict(query, digest=False), {"seeds": self.seeds},
                {"seeds": b""}, dict(query, output="hsps", hsps={"threshold": 1500})]

    def placed(self, peer, job, offset):
        """The same job with its payload in the input."""
        if "seeds" in job:
            return dict(job, seeds=peer.put(job["seeds"], offset))
        return dict(job, query={"bases": peer.put(job["query"]["bases"], offset)})

    def test_bytes_are_the_same_over_every_transport_and_encoding(self):
        for part_bytes, parts, threads in (("64K", 1, 2), ("64K", 3, 1), ("1M", 4, 1)):
            daemon = self.daemon("--part-bytes", part_bytes, "--parts-per-connection", parts,
                                 threads=threads, indexes={"ref": self.index_file})
            total = 0
            with daemon.peer() as plain, self.share(daemon) as peer:
                for job in self.jobs():
                    for encoding in ("packed", "columnar"):
                        if "output" in job and encoding == "columnar":
                            continue
                        job = dict(job, encoding=encoding)
                        with self.subTest(job={k: v for k, v in job.items()
                                               if k not in ("seeds", "query")}, parts=parts):
                            want, data, heads = plain.discover("ref", **job)
                            for transport in ("shm", "stream"):
                                for placed in (False, True):
                                    this = dict(job, transport=transport)
                                    if placed:
                                        this = self.placed(peer, this, 4097)
                                    got, came, parts_of = peer.discover("ref", **this)
                                    self.assertEqual(came, data)
                                    for key in set(want) - {"timings"}:
                                        self.assertEqual(got[key], want[key], key)
                                    self.assertEqual([dict(h, job=0) for h in parts_of],
                                                     [dict(h, job=0) for h in heads])
                            total += len(data)
            self.assertGreater(total, 10 << 20)
            daemon.stop()

    def test_what_comes_is_what_discovery_must_give(self):
        daemon = self.daemon("--part-bytes", "64K", indexes={"ref": self.index_file})
        want = discover(self.reference, self.records)
        with self.share(daemon) as peer:
            _, data, heads = peer.discover("ref", transport="shm",
                                           query={"bases": peer.put(self.query)})
        self.assert_same_anchors(data, want)
        self.assertGreater(len(heads), 20)
        daemon.stop()

    def test_the_client_gets_the_same_over_every_transport(self):
        daemon = self.daemon("--part-bytes", "64K", "--listen", "127.0.0.1:0",
                             indexes={"ref": self.index_file})
        tcp = "tcp:127.0.0.1:%d" % daemon.port()
        query = self.file("q.fa", hspz_test.fasta(self.records))
        outs = {}
        for form in ("packed", "tsv", "columns"):
            for encoding in ("packed", "columnar")[form == "columns":]:
                for server, transport in ((daemon.server, "auto"), (daemon.server, "stream"),
                                          (daemon.server, "shm"), (tcp, "auto")):
                    done = hspz_test.client(
                        "discover", "ref", query, "--format", form, "--encoding", encoding,
                        "--transport", transport, server=server, check=0, text=False)
                    outs.setdefault(form, set()).add(done.stdout)
        self.assertEqual([len(v) for v in outs.values()], [1, 1, 1])
        want = discover(self.reference, self.records)
        self.assert_same_anchors(outs["packed"].pop(), want)
        self.assert_same_anchors(read_columns(outs["columns"].pop())[0], want)
        done = hspz_test.client("discover", "ref", query, "--transport", "shm", server=tcp, check=1)
        self.assertIn("UNIX socket only", done.stderr)
        done = hspz_test.client("discover", "ref", query, "--transport", "smoke", server=tcp,
                                check=2)
        self.assertIn("auto, stream or shm", done.stderr)
        with daemon.peer() as peer:
            self.assertGreater(peer.call("stats")["bytes_out"], 0)
        daemon.stop()
        daemon = self.daemon("--shm-memory", "0", indexes={"ref": self.index_file})
        done = daemon.client("discover", "ref", query, "--transport", "shm", check=1)
        self.assertIn("shares no memory", done.stderr)
        self.assertEqual(daemon.client("discover", "ref", query, "--format", "tsv",
                                       check=0, text=False).stdout, outs["tsv"].pop())
        daemon.stop()

    def test_some_are_refused_and_go_on_by_the_stream(self):
        daemon = self.daemon("--shm-memory", "12M", "--listen", "127.0.0.1:0",
                             indexes={"ref": self.index_file})
        job = {"query": {"bases": self.query}}
        with ShmPeer(("127.0.0.1", daemon.port()), share=False) as peer:
            self.assert_code(peer.error("shm.open"), "unsupported", "UNIX socket")
            _, want, _ = peer.discover("ref", **job)
        with self.share(daemon) as first, self.share(daemon, share=False) as second:
            self.assert_code(second.error("shm.open"), "quota_exceeded", "1 segments")
            self.assertEqual(second.discover("ref", **job)[1], want)
            self.assert_code(second.error("discover", dict(job, index="ref", transport="shm")),
                             "bad_request", "no shared memory")
            self.assert_code(first.error("shm.open"), "bad_request", "already")
            self.assertEqual(first.discover("ref", transport="shm", **job)[1], want)
        self.assertTrue(hspz_test.poll(lambda: self.can_share(daemon)))
        daemon.stop()
        daemon = self.daemon("--shm-memory", "0", indexes={"ref": self.index_file})
        with self.share(daemon, share=False) as peer:
            self.assert_code(peer.error("shm.open"), "unsupported", "shm_memory")
            self.assertEqual(peer.discover("ref", **job)[1], want)
        daemon.stop()

    def can_share(self, daemon):
        try:
            with self.share(daemon):
                return True
        except RpcError:
            return False

    def test_what_goes_through_memory_is_counted(self):
        daemon = self.daemon("--part-bytes", "64K", "--parts-per-connection", "2", "--shm-memory", "9M",
                             indexes={"ref": self.index_file})
        with daemon.peer() as plain, self.share(daemon) as peer:
            def counted():
                return plain.call("stats")["shm"]

            self.assertEqual(counted(), dict(dict.fromkeys(counted(), 0), rings=1, limit=1, opened=1))
            with self.share(daemon, share=False) as second:
                self.assert_code(second.error("shm.open"), "quota_exceeded")
                second.discover("ref", query={"bases": self.query})
            self.assert_code(peer.error("shm.open"), "bad_request")
            out = plain.call("stats")["bytes_out"]
            _, data, parts = peer.discover("ref", transport="shm", query={"bases": peer.put(self.query)})
            self.assertGreater(len(parts), 20)
            now = counted()
            for key, value in (("parts", len(parts)), ("bytes_out", len(data)), ("refused", 1),
                               ("bytes_in", len(self.query)), ("opened", 1)):
                self.assertEqual(now[key], value, key)
            # They did not go through the socket.
            self.assertLess(plain.call("stats")["bytes_out"] - out, len(data) / 10)
            # One who keeps its parts has its job wait, once, until it gives them back.
            peer.keep = True
            number = peer.request("discover", index="ref", transport="shm", query={"bases": self.query})
            while len(peer.kept) < 2:
                peer.notices.append(peer.receive())
            self.assertTrue(hspz_test.poll(lambda: counted()["waits"] > now["waits"]))
            before = counted()
            time.sleep(0.3)
            self.assertEqual(counted(), before)
            peer.give_back()
            peer.result(number)
            after = counted()
            self.assertGreaterEqual(after["waited_ms"], before["waited_ms"] + 290)
            self.assertEqual(after["bytes_out"], 2 * len(data))
            # Nor does one wait that was cancelled, though its parts are kept on.
            peer.keep = True
            number = peer.request("discover", index="ref", transport="shm", query={"bases": self.query})
            while len(peer.kept) < 2:
                peer.notices.append(peer.receive())
            self.assertTrue(hspz_test.poll(lambda: counted()["waits"] > after["waits"]))
            peer.call("cancel", job=number)
            self.assert_code(peer.response(number)[0], "cancelled")
            after = counted()
            time.sleep(0.2)
            self.assertEqual(counted(), after)
            peer.give_back()
            peer.call("health")
            self.assertEqual(counted(), after)
        with daemon.peer() as plain:
            self.assertTrue(hspz_test.poll(lambda: plain.call("stats")["shm"]["rings"] == 0))
        daemon.stop()

    def test_a_tenant_has_its_limit(self):
        user = {"name": "me", "uids": os.geteuid(), "max_shm_bytes": "25M"}
        daemon = self.daemon(config={"tenants": [user]}, indexes={"ref": self.index_file})
        with self.share(daemon), self.share(daemon):
            with self.share(daemon, share=False) as third:
                error = third.error("shm.open")
                self.assert_code(error, "quota_exceeded", "max_shm_bytes")
                self.assertEqual(error["limit"], 25 << 20)
        self.assertTrue(hspz_test.poll(lambda: self.can_share(daemon)))
        daemon.stop()

    def test_a_copied_request_counts_as_one_that_is_held(self):
        user = {"name": "me", "uids": os.geteuid(), "max_queued_bytes": "64K"}
        daemon = self.daemon(config={"tenants": [user]}, indexes={"ref": self.index_file})
        with self.share(daemon) as peer:
            place = peer.put(self.seeds)
            self.assertGreater(len(self.seeds), 65536)
            error = peer.error("discover", index="ref", seeds=place)
            self.assert_code(error, "too_large")
            result, _, _ = peer.discover("ref", seeds=dict(place, length=8000))
            self.assertEqual(result["strands"]["plus"]["seeds"], 1000)
            stats = peer.call("stats")
        self.assertNotIn("ingest", {k for k, v in stats.items() if v and k == "held"})
        daemon.stop()


if __name__ == "__main__":
    hspz_test.main()
