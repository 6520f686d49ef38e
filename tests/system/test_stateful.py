"""A fuzzer that knows the protocol: seeded sequences of right and wrong messages over several connections,
with a model of what may be answered to each; then the daemon has to be well and hold nothing.

    HSPZ_FUZZ_SECONDS=60 HSPZ_FUZZ_SEED=7 python3 tests/system/test_stateful.py"""

import hashlib
import os
import random
import select
import signal
import socket
import time

import msgpack
import xxhash

import hspz_test
from hspz_test import SLOWER, bases, poll

SECONDS = float(os.environ.get("HSPZ_FUZZ_SECONDS", "8"))
SEED = int(os.environ.get("HSPZ_FUZZ_SEED", "1"))
TOKENS = {"alice": "a-token", "bob": "b-token", None: None}  # the one without is the operator
LATER = {"queue_full", "quota_exceeded"}  # may be the answer to any job


class Wrong(Exception):
    """The daemon did what the model does not know."""


class Line:
    """A connection and what is owed on it: {id: (allowed codes, what to check of a result)}."""

    def __init__(self, fuzzer):
        self.fuzzer = fuzzer
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(fuzzer.daemon.path)
        self.socket.setblocking(False)
        self.unpacker = msgpack.Unpacker(max_buffer_size=1 << 27)
        self.tenant = ""  # not yet greeted
        self.owed, self.jobs, self.cancelled = {}, [], set()
        self.digests = {}
        self.number = 0
        self.ending = self.closed = False  # ending: it was told something that ends it
        self.lost = False  # we broke it: whatever comes is as good as anything
        self.log = []

    def note(self, *what):
        self.log = self.log[-30:] + [what]

    def fail(self, why):
        raise Wrong("%s; tenant %r, owed %r, lately %r" % (why, self.tenant, self.owed, self.log))

    def new_id(self):
        self.number += 1
        return self.number

    # What comes.

    def take(self, message):
        if self.lost:
            return
        if not isinstance(message, list):
            self.fail("not a message: %r" % message)
        if message[0] == 2:
            head, data = message[2]
            if message[1] != "anchors" or not self.jobs or head["job"] != self.jobs[0]:
                self.fail("anchors out of turn: %r, jobs %r" % (head, self.jobs))
            digest, count = self.digests.setdefault(head["job"], (xxhash.xxh64(), [0]))
            digest.update(data)
            count[0] += len(data) // 8
            return
        _, number, error, result = message
        code = error["code"] if error is not None else "ok"
        if number == 0 and self.ending:
            return
        if number not in self.owed:
            self.fail("nobody asked for %r" % (message[:3],))
        allowed, check = self.owed.pop(number)
        if number in self.cancelled:
            allowed = allowed | {"cancelled"}
        if code not in allowed:
            self.fail("%d was answered %s %r, not one of %s" % (number, code, error, allowed))
        if number in self.jobs:
            self.jobs.remove(number)
        if code == "ok" and check is not None:
            check(self, number, result)
        if code in LATER and not isinstance(error.get("retry_ms"), int):
            self.fail("%s without retry_ms" % code)

    def read(self):
        try:
            data = self.socket.recv(1 << 20)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self.closed = True
            if not self.ending:
                self.fail("closed without a reason")
            return
        if not self.lost:
            self.unpacker.feed(data)
            for message in self.unpacker:
                self.take(message)

    def push(self, data):
        """Sends, reading meanwhile: nobody may wait for the other."""
        end = time.monotonic() + 30 * SLOWER
        while data and not self.closed:
            ready, writable, _ = select.select([self.socket], [self.socket], [], 30 * SLOWER)
            if ready:
                self.read()
            if writable and not self.closed:
                try:
                    data = data[self.socket.send(data[:1 << 16]):]
                except (BlockingIOError, ConnectionError):
                    pass
            if time.monotonic() > end:
                self.fail("could not send")

    def settle(self):
        """Until all is answered that is owed, or it is closed."""
        end = time.monotonic() + 40 * SLOWER
        while not self.closed and (self.ending or self.owed):
            if not select.select([self.socket], [], [], 40 * SLOWER)[0] or time.monotonic() > end:
                self.fail("no answer")
            self.read()

    # What goes.

    def request(self, method, params, allowed, check=None, cut=False):
        number = self.new_id()
        self.note(number, method, str(params)[:80])
        self.owed[number] = (set(allowed), check)
        data = msgpack.packb([0, number, method, params])
        if cut and len(data) > 2:
            at = self.fuzzer.rng.randrange(1, len(data))
            self.push(data[:at])
            time.sleep(0.001)
            data = data[at:]
        self.push(data)
        return number


class Fuzzer:
    def __init__(self, test, daemon, seed):
        self.test, self.daemon, self.rng = test, daemon, random.Random(seed)
        self.lines = []

    # Each act is on one line; `greeted` acts are for lines that have said hello.

    def hello(self, line):
        tenant = self.rng.choice(list(TOKENS))
        params = {"protocol": 1, "client": "fuzz"}
        if TOKENS[tenant]:
            params["token"] = TOKENS[tenant]
        if line.tenant != "":
            line.request("hello", [params], {"bad_request"})
            return
        kind = self.rng.random()
        if kind < 0.1:
            params["token"] = "wrong"
            line.request("hello", [params], {"unauthorized"})
            line.ending = True
        elif kind < 0.15:
            params["protocol"] = 2
            line.request("hello", [params], {"unsupported"})
            line.ending = True
        elif kind < 0.2:
            params["nonsense"] = 1
            line.request("hello", [params], {"bad_request"})
        else:
            line.request("hello", [params], {"ok"})
            line.tenant = tenant

    def discover(self, line):
        rng, test = self.rng, self.test
        which = rng.randrange(len(test.queries))
        params = {"index": "r", "query": {"bases": test.queries[which]}}
        allowed = {"ok"} | LATER
        if rng.random() < 0.3:
            params["priority"] = rng.randrange(10)
        if rng.random() < 0.2:
            params["max_hits"] = rng.choice((1, 7, 1000))
        if rng.random() < 0.1:
            params["deadline_ms"] = rng.choice((1, 3, 50))
            allowed |= {"deadline_exceeded"}
        if rng.random() < 0.1:
            params["query"] = {"bases": b"A" * rng.choice((100, 1500))}  # many hits
            which = None

        def check(line, number, result):
            digest, count = line.digests.pop(number, (xxhash.xxh64(), [0]))
            got = (count[0], digest.hexdigest())
            if got != (result["anchors"], result["digest"]):
                line.fail("%r came, %r is told" % (got, result))
            if which is not None and got != test.expected[which]:
                line.fail("%r is not %r" % (got, test.expected[which]))
        number = line.number + 1
        line.jobs.append(number)
        line.request("discover", [params], allowed, check, cut=rng.random() < 0.1)

    def wrong_discover(self, line):
        good = {"index": "r", "query": {"bases": b"ACGT"}}
        change, codes = self.rng.choice((
            ({"index": "none"}, {"unknown_index"}), ({"index": 7}, {"bad_request"}),
            ({"seeds": b"1234567"}, {"bad_request"}), ({"priority": 10}, {"bad_request"}),
            ({"query": {"bases": b"AC5T" * 10}}, {"bad_request"}), ({"strand": "up"}, {"bad_request"}),
            ({"max_hits": 0}, {"bad_request"}), ({"deadline_ms": -1}, {"bad_request"}),
            ({"x" * 300: 1}, {"bad_request"}), ({"index_digest": "0" * 16}, {"bad_request"}),
            ({"encoding": "zip"}, {"unsupported"}), ({"query": {"bases": bytes(70000)}},
                                                     {"bad_request", "too_large"})))
        line.jobs.append(line.number + 1)
        line.request("discover", [dict(good, **change)], codes | LATER)

    def again(self, line):
        """The id of a job that is under way, if it still is: one of the two is then refused."""
        if line.jobs:
            line.note("again", line.jobs[0])
            line.ending = line.lost = True
            line.owed.clear()
            line.push(msgpack.packb([0, line.jobs[0], "discover", [
                {"index": "r", "query": {"bases": b"ACGT"}}]]))
            self.close(line)

    def cancel(self, line):
        number = self.rng.choice(line.jobs or [self.rng.randrange(1000)])
        line.cancelled.add(number)
        line.request("cancel", [{"job": number}], {"ok"})

    def ask(self, line):
        method, params, allowed = self.rng.choice((
            ("stats", [], {"ok"}), ("health", [], {"ok"}), ("stats", [{"first": 1}], {"ok"}),
            ("index.list", [], {"ok"}), ("index.describe", [{"index": "r"}], {"ok"}),
            ("index.describe", [{"index": "no"}], {"unknown_index"}),
            ("health", [{"x": 1}], {"bad_request"}), ("no.method", [], {"unknown_method"}),
            ("", [{}], {"unknown_method"}), ("stats", [{"count": 0}], {"bad_request"}),
            ("discover", [], {"bad_request"}), ("cancel", [{}], {"bad_request"})))
        number = line.number + 1
        if method == "discover":
            line.jobs.append(number)
        line.request(method, params, allowed, cut=self.rng.random() < 0.2)

    def operate(self, line):
        method, params, codes = self.rng.choice((
            ("index.load", {"index": "b", "file": self.test.files["r"]}, {"ok", "bad_request"}),
            ("index.load", {"index": "c", "file": "/none"}, {"io_error"}),
            ("index.unload", {"index": "b"}, {"ok", "unknown_index", "not_ready"}),
            ("index.unload", {"index": "none"}, {"unknown_index"}),
            ("index.build", {"index": "d", "source": "/none", "file": "/none/x"},
             {"io_error", "bad_request"})))
        operator = line.tenant is None
        line.request(method, [params], codes | LATER | {"bad_request"} if operator
                     else {"forbidden"})

    def early(self, line):
        """Before hello."""
        line.request(self.rng.choice(("stats", "discover", "cancel", "index.list")), [],
                     {"bad_request"})

    def notify(self, line):
        line.note("notification")
        line.push(msgpack.packb([2, self.rng.choice(("anchors", "x")), [{}]]))

    def break_it(self, line):
        rng = self.rng
        data = rng.choice((
            msgpack.packb([1, 5, None, {}]), b"\xc1", b"\xdd\xff\xff\xff\xff", b"\x91" * 100, b"\x07",
            msgpack.packb([0, -1, "stats", []]), msgpack.packb({"a": 1}), msgpack.packb([3, 1, "x", []]),
            msgpack.packb([0, 1 << 40, "stats", []]), rng.randbytes(300).replace(b"\xc6", b"\xc1"),
            b"\x94\x00\x01\xdb\xff\xff\xff\xff", msgpack.packb([0, 1, "x" * 70000, []])))
        line.note("broken", data[:20])
        # It may or may not be the end of it, and nothing that is owed may come: so it is ours.
        line.ending = line.lost = True
        line.owed.clear()
        line.push(data)
        self.close(line)

    def half(self, line):
        line.note("half")
        line.ending = line.lost = True
        data = msgpack.packb([0, 99999, "discover", [{"index": "r", "seeds": bytes(100000)}]])
        line.push(data[:self.rng.randrange(1, len(data))])
        self.close(line)

    def read_some(self, line):
        if select.select([line.socket], [], [], 0.002)[0]:
            line.read()

    def settle(self, line):
        line.settle()

    def close(self, line):
        line.socket.close()
        line.closed = True

    def reload(self, _):
        self.daemon.process.send_signal(signal.SIGHUP)

    def step(self):
        rng = self.rng
        self.lines = [line for line in self.lines if not line.closed]
        if len(self.lines) < 2 or (len(self.lines) < 6 and rng.random() < 0.2):
            self.lines.append(Line(self))
        line = rng.choice(self.lines)
        if line.ending:
            line.settle()
            return
        if line.tenant == "":
            acts = ((self.hello, 8), (self.early, 2), (self.break_it, 0.5), (self.close, 0.5),
                    (self.notify, 0.5))
        else:
            acts = ((self.discover, 8), (self.wrong_discover, 3), (self.cancel, 2), (self.ask, 3),
                    (self.operate, 1), (self.hello, 0.5), (self.notify, 0.5), (self.break_it, 0.4),
                    (self.half, 0.3), (self.again, 0.2), (self.read_some, 3), (self.settle, 2),
                    (self.close, 0.4), (self.reload, 0.2))
        rng.choices([a for a, _ in acts], [w for _, w in acts])[0](line)

    def end(self):
        for line in self.lines:
            if not line.closed:
                if not line.ending:
                    line.settle()
                line.socket.close()


class StatefulTest(hspz_test.TestCase):
    def setUp(self):
        super().setUp()
        rng = random.Random(3)
        text = bases(rng, 6000)
        ref = [("r", text + text[1000:2500] + "A" * 1200)]
        self.queries = [text[at:at + n].encode() for at, n in
                        ((0, 30), (500, 400), (1000, 1500), (3000, 900))]
        self.expected = []
        for query in self.queries:
            want = hspz_test.discover(ref, [("q", query.decode())])
            self.assertTrue(want)
            self.expected.append((len(want) // 8, xxhash.xxh64(want).hexdigest()))
        self.files = {"r": self.index(ref)}
        tenants = [{"name": name, "token_sha256": hashlib.sha256(token.encode()).hexdigest(),
                    "weight": 1 + i, "max_jobs": 6 if i else 0, "max_queued_bytes": 30000 * i}
                   for i, (name, token) in enumerate(TOKENS.items()) if name]
        tenants.append({"name": "operator", "role": "operator", "uids": [os.geteuid()]})
        self.config = {"tenants": tenants, "max_jobs": 4, "metrics": "127.0.0.1:0"}

    def assert_well(self, daemon):
        def rest():
            with daemon.peer() as peer:
                stats = peer.call("stats")
            quiet = (stats["connections"]["open"] == 1 and stats["jobs"]["in_flight"] == 0 and
                     stats["requests"]["in_flight"] == 0)
            held = [stats["memory"][k] for k in ("scratch_bytes", "parts_bytes", "ingest_bytes")]
            return stats if quiet and not any(held) else None
        stats = poll(rest, 15)
        self.assertTrue(stats, "it is not at rest")
        for row in stats["tenants"] + stats["indexes"] + stats["devices"]:
            self.assertEqual(row["received"],
                             sum(row[k] for k in ("ok", "refused", "cancelled", "failed")), row)
            self.assertEqual((row["running"], row["waiting"], row["in_flight"]), (0, 0, 0))
        for row in stats["tenants"]:
            self.assertEqual(row["ingest_bytes"], 0)
        # Those that nobody greeted for were refused, and are nobody's.
        for key in ("ok", "cancelled", "failed"):
            self.assertEqual(sum(row[key] for row in stats["tenants"]), stats["jobs"][key])
        with daemon.peer() as peer:
            result, data, _ = peer.discover("r", query={"bases": self.queries[2]})
            self.assertEqual((len(data) // 8, result["digest"]), self.expected[2])
        return stats

    def test_sequences_of_right_and_wrong_messages_end_well(self):
        if not has_metrics():
            del self.config["metrics"]
        daemon = self.daemon("--lanes", "2", "--parts-per-connection", "2", config=self.config,
                             indexes=self.files)
        end, seed, steps = time.monotonic() + SECONDS, SEED, 0
        with daemon.peer() as peer:
            peer.call("health")
        while time.monotonic() < end or steps < 600:
            fuzzer = Fuzzer(self, daemon, seed)
            try:
                for _ in range(300):
                    fuzzer.step()
                    steps += 1
                    if time.monotonic() > end and steps >= 600:
                        break
                fuzzer.end()
            except (Wrong, AssertionError, OSError) as error:
                self.fail("seed %d: %r\n%s" % (seed, error, daemon.log()[-2000:]))
            self.assertTrue(daemon.alive(), "seed %d:\n%s" % (seed, daemon.log()[-3000:]))
            seed += 1
        stats = self.assert_well(daemon)
        self.assertGreater(steps, 200)
        self.assertGreater(stats["jobs"]["ok"], 20)
        for outcome in ("refused", "cancelled"):
            self.assertGreater(stats["jobs"][outcome], 0, stats["jobs"])
        print("%d steps, seeds %d to %d, jobs %r" % (steps, SEED, seed - 1, stats["jobs"]))
        daemon.stop()
        for word in ("a handle was left", "Sanitizer", "runtime error", "broken promise"):
            self.assertNotIn(word, daemon.log())


def has_metrics():
    """Whether hspzd was built with its HTTP listener."""
    done = hspz_test.subprocess.run([hspz_test.HSPZD, "--check-config", "--metrics", "127.0.0.1:0",
                                     "--socket", "/tmp/none"], capture_output=True, check=False)
    return b"built without" not in done.stderr


if __name__ == "__main__":
    hspz_test.main()
