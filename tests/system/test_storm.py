"""A storm of peers, good and bad, on a daemon with tiny budgets: whatever they do, health is answered
in time, every job that ends well has the right anchors, nothing is held once they are gone, and the
daemon ends as it should. HSPZ_STORM=FIRST:COUNT:SECONDS asks for other seeds and longer storms."""

import os
import random
import re
import signal
import socket
import struct
import threading
import time

import msgpack
import xxhash

import hspz_test
from hspz_test import Peer, RpcError, SLOWER, bases, fasta, poll

SHAPE = "11101"
FIRST, COUNT, SECONDS = (int(n) for n in os.environ.get("HSPZ_STORM", "6:2:5").split(":"))
ACTORS = 16
GONE = (EOFError, ConnectionError)  # what a peer may see that provoked it
# What a well-formed discover of an index that is there may be answered with under these budgets.
REFUSALS = {"queue_full", "quota_exceeded", "cancelled", "not_ready", "unknown_index",
            "deadline_exceeded", "shutting_down", "too_large", "io_error"}
METHODS = ("hello", "discover", "cancel", "index.list", "index.describe", "index.load",
           "index.unload", "index.build", "stats", "health", "nothing")


class Storm:
    """Actors that each play one peer after another until the time is over."""

    def __init__(self, test, daemon, seed, stopping=False):
        self.test, self.daemon, self.stopping = test, daemon, stopping
        self.port = int(re.search(r"tcp:127\.0\.0\.1:(\d+)", daemon.log()).group(1))
        self.verified = 0
        self.refused = {}
        self.slowest = 0  # answer to health
        self.longest = (0, "")
        self.failures = []
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.act, args=(random.Random(seed * 1000 + i),))
                        for i in range(ACTORS)] + [threading.Thread(target=self.watch)]
        for thread in self.threads:
            thread.daemon = True
            thread.start()

    def end(self):
        self.over.set()
        end = time.monotonic() + 30 * SLOWER
        for thread in self.threads:
            thread.join(max(0, end - time.monotonic()))
        hung = [t.name for t in self.threads if t.is_alive()]
        if hung or self.failures:
            raise AssertionError("%d actors hang; %s\n%s" % (
                len(hung), "\n".join(self.failures[:3]), self.daemon.log()[-4000:]))

    def open(self, rng, tcp=None, hello=True):
        tcp = rng.random() < 0.3 if tcp is None else tcp
        return Peer(("127.0.0.1", self.port) if tcp else self.daemon.path, hello=hello, timeout=25)

    def act(self, rng):
        plays = [self.good] * 5 + [self.slow, self.vanish, self.junk, self.half, self.mutant,
                                   self.operator, self.operator]
        while not self.over.is_set():
            play = rng.choice(plays)
            begun = time.monotonic()
            try:
                play(rng)
            except GONE + (RpcError,) as error:
                if not self.stopping and play in (self.good, self.slow, self.operator):
                    self.failures.append("%s: %r" % (play.__name__, error))
            except FileNotFoundError:
                if not self.stopping:
                    self.failures.append("the socket is gone")
            except Exception as error:  # pylint: disable=broad-except
                self.failures.append("%s: %r" % (play.__name__, error))
            self.longest = max(self.longest, (time.monotonic() - begun, play.__name__))
            if self.failures or (self.stopping and not self.daemon.alive()):
                return

    def watch(self):
        """Health is answered in time, on a connection of its own each time or the same."""
        rng, peer = random.Random(0), None
        while not self.over.is_set():
            try:
                begun = time.monotonic()
                peer = peer or Peer(self.daemon.path, timeout=25)
                peer.call("health")
                took = time.monotonic() - begun
                self.slowest = max(self.slowest, took)
                if took > 1 * SLOWER:
                    self.failures.append("health took %.1f s" % took)
                if rng.random() < 0.3:
                    peer.close()
                    peer = None
            except GONE + (FileNotFoundError, RpcError) as error:
                if not self.stopping:
                    self.failures.append("health: %r" % error)
                return
            except Exception as error:  # pylint: disable=broad-except
                self.failures.append("health: %r" % error)
                return
            time.sleep(0.03)
        if peer:
            peer.close()

    # Requests.

    def discover(self, rng):
        """(parameters, expected anchors or None)"""
        name = rng.choice(self.test.names)
        number = rng.randrange(len(self.test.queries))
        params = {"index": name, "query": {"bases": self.test.queries[number].encode()}}
        want = self.test.expected[name, number]
        if rng.random() < 0.2:
            params["deadline_ms"] = rng.choice((1, 5, 1000))
        if rng.random() < 0.2:
            params["max_hits"] = rng.choice((1, 100, 5000))
        if rng.random() < 0.1:
            params["index"] = rng.choice(("none", "built", "x"))
            want = None
        if rng.random() < 0.1:
            params["query"] = {"bases": bytes(rng.choice((5000, 100000, 400000)))}
            want = None
        if rng.random() < 0.1:
            params = {"index": name, "seeds": rng.randbytes(rng.choice((0, 7, 8, 8000, 160000)))}
            want = None
        return params, want

    def send_cut(self, peer, rng, data):
        """Whole, or cut anywhere."""
        while data:
            cut = rng.choice((len(data), rng.randint(1, len(data)), min(len(data), 7)))
            peer.send_bytes(data[:cut])
            data = data[cut:]
            if rng.random() < 0.1:
                time.sleep(rng.random() / 100)

    def exchange(self, peer, rng, pace=0.0):
        """A few requests at once; every one of them has to be answered, and rightly."""
        asked, data, naps = {}, b"", 50
        for _ in range(rng.randint(1, 6)):
            number = peer.next_id
            peer.next_id += 1
            method, want = rng.choice((("discover",) * 4 + ("stats", "health", "index.list",
                                                            "cancel", "index.describe"))), None
            params = {}
            if method == "discover":
                params, want = self.discover(rng)
            elif method == "cancel":
                params = {"job": rng.randint(1, number)}
            elif method == "index.describe":
                params = {"index": rng.choice(self.test.names)}
            asked[number] = (method, want, [])
            data += msgpack.packb([0, number, method, [params] if params else []])
        sender = threading.Thread(target=self.send_quietly, args=(peer, rng, data))
        sender.start()
        while asked:
            message = peer.receive()
            if message[0] == 2:
                asked[message[2][0]["job"]][2].append(message[2][1])
                if naps > 0:  # a small cap on hits makes very many parts
                    time.sleep(pace)
                    naps -= 1
                continue
            if message[1] not in asked:
                raise AssertionError("nobody asked for %r" % message)
            self.check(asked.pop(message[1]), message[2], message[3])
        sender.join()

    def send_quietly(self, peer, rng, data):
        try:
            self.send_cut(peer, rng, data)
        except OSError:
            pass  # its reader will see it

    def check(self, asked, error, result):
        method, want, parts = asked
        if error is not None:
            with self.lock:
                self.refused[error["code"]] = self.refused.get(error["code"], 0) + 1
            if (want is not None or method != "discover") and error["code"] not in REFUSALS:
                raise AssertionError("%s: %r" % (method, error))
            return
        if method == "discover" and want is not None:
            if b"".join(parts) != want[0] or result["digest"] != want[1]:
                raise AssertionError("wrong anchors: %r" % result)
            with self.lock:
                self.verified += 1

    # Plays.

    def good(self, rng):
        with self.open(rng) as peer:
            for _ in range(rng.randint(1, 4)):
                self.exchange(peer, rng)

    def slow(self, rng):
        with self.open(rng) as peer:
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            self.exchange(peer, rng, pace=rng.choice((0.001, 0.02)))

    def leave(self, peer, rng):
        if rng.random() < 0.5:
            peer.reset()
        else:
            peer.close()

    def vanish(self, rng):
        peer = self.open(rng)
        for number in range(10, 10 + rng.randint(1, 5)):
            peer.send([0, number, "discover", [self.discover(rng)[0]]])
        if rng.random() < 0.5:
            time.sleep(rng.random() / 20)
            peer.socket.recv(rng.randint(1, 100000))
        self.leave(peer, rng)

    def half(self, rng):
        peer = self.open(rng, hello=rng.random() < 0.7)
        data = msgpack.packb([0, 9, "discover", [self.discover(rng)[0]]])
        peer.send_bytes(data[:rng.randrange(len(data))])
        time.sleep(rng.random() / 20)
        self.leave(peer, rng)

    def junk(self, rng):
        peer = self.open(rng, hello=rng.random() < 0.7)
        data = rng.choice((
            rng.randbytes(rng.randint(1, 2000)),
            b"\x91" * rng.randint(1, 40),
            b"\xdd\xff\xff\xff\xff",
            b"\x94\x00\x01\xa8discover\x91\x81\xa5seeds\xc6" + struct.pack(">I", 1 << 31),
            b"\x94\x00\x01\xa8discover\x91\x81\xa5seeds\xc6" + struct.pack(">I", 200000),
            msgpack.packb([1, 5, None, None]),
            msgpack.packb([2, "anchors", [{}, b"x" * 8]]) * rng.randint(1, 50),
            msgpack.packb([0, 1, "x" * 3000, []]) * 20,
            msgpack.packb([0, 1, "discover", [{str(i): b"y" * 5000 for i in range(30)}]])))
        try:
            self.send_cut(peer, rng, data)
            peer.socket.settimeout(0.05)
            peer.socket.recv(rng.randint(1, 5000))
        except (OSError, TimeoutError):
            pass
        self.leave(peer, rng)

    def value(self, rng, depth=0):
        kind = rng.randrange(9 if depth < 4 else 6)
        if kind < 6:
            return (None, rng.random() < 0.5, rng.choice((0, -1, 1, 2**32, 2**64 - 1)), 1.5,
                    rng.choice(("", "a", "b", "c", "both", "\x00", "z" * 300)),
                    rng.randbytes(rng.choice((0, 8, 5000))))[kind]
        if kind == 6:
            return [self.value(rng, depth + 1) for _ in range(rng.randrange(4))]
        return {rng.choice(("index", "query", "bases", "seeds", "job", "first", "count", "file",
                            "strand", "max_hits", "x")): self.value(rng, depth + 1)
                for _ in range(rng.randrange(4))}

    def mutant(self, rng):
        with self.open(rng) as peer:
            for _ in range(rng.randint(1, 20)):
                params = self.value(rng)
                data = msgpack.packb([0, rng.randrange(20), rng.choice(METHODS), [params]])
                if rng.random() < 0.2:
                    data = bytearray(data)
                    data[rng.randrange(len(data))] = rng.randrange(256)
                peer.send_bytes(bytes(data))
            peer.socket.settimeout(0.05)
            try:
                while peer.socket.recv(1 << 16):
                    pass
            except TimeoutError:
                pass

    def operator(self, rng):
        with self.open(rng, tcp=False) as peer:
            for _ in range(rng.randint(1, 3)):
                name = rng.choice(self.test.names + ["built", "x"])
                method, params = rng.choice((
                    ("index.load", {"index": name, "file": name[0] + ".hspz"}),
                    ("index.unload", {"index": name}),
                    ("index.build", {"index": "built", "source": "a.fa", "file": "built.hspz",
                                     "shape": SHAPE}),
                    ("index.load", {"index": "x", "file": "bad.hspz"})))
                error, _ = peer.response(peer.request(method, params))
                if error and error["code"] not in REFUSALS | {"bad_request", "bad_file"}:
                    raise AssertionError("%s %r: %r" % (method, params, error))


class StormTest(hspz_test.TestCase):
    names = ["a", "b", "c"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        rng = random.Random(7)
        cls.refs = {name: [(name, bases(rng, 2000 + 500 * i))]
                    for i, name in enumerate(cls.names)}
        cls.queries = [bases(rng, n) for n in (19, 60, 150, 400)]
        cls.expected = {}
        for name, ref in cls.refs.items():
            for number, query in enumerate(cls.queries):
                data = hspz_test.discover(ref, [("q", query)], SHAPE)
                cls.expected[name, number] = (data, xxhash.xxh64(data).hexdigest())
        assert min(len(data) for data, _ in cls.expected.values()) > 0

    def setUp(self):
        super().setUp()
        for name, ref in self.refs.items():
            self.file(name + ".fa", fasta(ref))
            hspz_test.build_index(self.path(name + ".fa"), self.path(name + ".hspz"),
                                  "--seed", SHAPE)
        self.file("bad.hspz", b"nothing of the kind")

    def need(self):
        """Bytes that loading the largest takes."""
        probe = self.daemon("--index-dir", self.folder, "--memory", "1")
        with probe.peer() as peer:
            error = peer.error("index.load", index="c", file="c.hspz")
        probe.stop()
        return int(re.search(r"needs (\d+) bytes", error["message"]).group(1))

    def node(self, room):
        """One with room for an index and `room` bytes."""
        return self.daemon("--listen", "127.0.0.1:0", "--index-dir", self.folder, "--data-dir",
                           self.folder, "--memory", self.need() + room, "--job-memory", "2M",
                           "--buffer-memory", "128K", "--part-bytes", "64K", "--max-jobs", "2",
                           "--ingest-per-connection", "256K", "--ingest-total", "512K",
                           "--max-message", "1M", "--lanes", "2", "--idle-unload-s", "1",
                           "--log-level", "debug", "--parts-per-connection", "2")

    def assert_at_rest(self, daemon):
        def rest():
            with daemon.peer() as peer:
                stats = peer.call("stats")
            memory = stats["memory"]
            quiet = (stats["connections"]["open"] == 1 and stats["requests"]["in_flight"] == 0 and
                     stats["jobs"]["in_flight"] == 0)
            held = [memory[k] for k in ("scratch_bytes", "parts_bytes", "ingest_bytes")]
            return stats if quiet and not any(held) else None
        stats = poll(rest, 10)
        if not stats:
            with daemon.peer() as peer:
                self.fail("not at rest: %r" % peer.call("stats"))
        for counts in (stats["requests"], stats["jobs"]):
            self.assertEqual(counts["received"], sum(counts[k] for k in (
                "ok", "refused", "cancelled", "failed")), counts)
        self.assertEqual([stats["jobs"][k] for k in ("running", "waiting")], [0, 0])
        self.assertEqual(stats["memory"]["index_bytes"],
                         sum(row["bytes"] for row in stats["indexes"]), stats)
        self.assertLessEqual(stats["memory"]["index_bytes"], stats["memory"]["index_budget"])
        self.assertEqual([row["in_flight"] for row in stats["indexes"]],
                         [0] * len(stats["indexes"]))

    def assert_clean(self, daemon):
        for word in ("a handle was left", "Sanitizer", "runtime error", "HSPZ_REQUIRE"):
            self.assertNotIn(word, daemon.log())

    def test_a_storm_leaves_nothing_behind(self):
        for seed in range(FIRST, FIRST + COUNT):
            with self.subTest(seed=seed):
                daemon = self.node(room=(8000, 24000, 100000)[seed % 3])
                fds = daemon.fds()
                storm = Storm(self, daemon, seed)
                storm.over.wait(SECONDS)
                poll(lambda storm=storm: storm.verified > 20 or storm.failures, 30)
                storm.end()
                self.assertGreater(storm.verified, 20, storm.refused)
                self.assert_at_rest(daemon)
                self.assertTrue(poll(lambda: daemon.fds() <= fds + 1), (fds, daemon.fds()))
                daemon.stop()
                self.assert_clean(daemon)
                if "HSPZ_STORM" in os.environ:
                    print(seed, storm.verified, storm.refused, "%.3f" % storm.slowest, storm.longest,
                          flush=True)

    def test_a_signal_ends_it_in_the_middle(self):
        for seed in range(FIRST, FIRST + COUNT):
            for signals in (1, 2):
                with self.subTest(seed=seed, signals=signals):
                    daemon = self.node(room=8000)
                    storm = Storm(self, daemon, seed, stopping=True)
                    storm.over.wait(SECONDS / 5)
                    daemon.process.send_signal(signal.SIGTERM)
                    if signals == 2:
                        time.sleep(0.02)
                        daemon.process.send_signal(signal.SIGTERM)
                    try:
                        status = daemon.stop(expect=None, sig=signal.SIGCONT)
                    finally:
                        storm.end()
                    self.assertEqual(status, 0, daemon.log()[-3000:])
                    self.assertIn("ended status=ok", daemon.log())
                    self.assert_clean(daemon)

    def test_jobs_that_wait_hold_no_memory_that_others_wait_for(self):
        daemon = self.node(room=8000)
        with daemon.peer(timeout=20) as peer:
            for first, second in (("a", "b"), ("b", "a"), ("c", "a")):
                peer.discover(second, query={"bases": self.queries[0].encode()})
                numbers, data = [], b""
                for name in (first, second, first):
                    numbers.append(peer.next_id)
                    data += msgpack.packb([0, peer.next_id, "discover", [
                        {"index": name, "query": {"bases": self.queries[1].encode()}}]])
                    peer.next_id += 1
                peer.send_bytes(data)
                for number, name in zip(numbers, (first, second, first)):
                    self.assertEqual(peer.anchors(number)[1], self.expected[name, 1][0])
                # The same with an index that is unloaded meanwhile.
                with daemon.peer() as operator:
                    numbers = [peer.request("discover", index=name, query={
                        "bases": self.queries[3].encode()}) for name in (first, second, first)]
                    operator.response(operator.request("index.unload", index=second))
                    operator.response(operator.request("index.unload", index=first))
                    for number in numbers:
                        error, _ = peer.response(number)
                        self.assertIn(error and error["code"], (None, "unknown_index"))
        self.assert_at_rest(daemon)
        daemon.stop()


if __name__ == "__main__":
    hspz_test.main()
