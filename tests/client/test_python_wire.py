"""The Python package's reader and writer against protocol/PROTOCOL.md, byte for byte, and against
peers that tell something else."""

import os
import random
import re
import socket
import sys
import threading
import unittest

import msgpack
import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from python_hspz import SOURCE, hspz  # noqa: E402

wire = hspz.wire
SEEDS = [(position + 1) << 32 | position for position in range(5)]
ANCHORS = [(30, 20), (20, 20), (10, 20)]


def blocks():
    """(kind, name, bytes) of every example of the document."""
    with open(os.path.join(SOURCE, "protocol", "PROTOCOL.md"), encoding="utf-8") as file:
        text = file.read()
    for kind, name, body in re.findall(r"^```wire (\w+) ([\w.]+)\n(.*?)^```", text, re.M | re.S):
        yield kind, name, bytes.fromhex(re.sub(r"#[^\n]*", "", body))


class Crumbs:
    """A stream that gives `step` bytes at a time, and then its end."""

    def __init__(self, data, step):
        self.data, self.step, self.at = data, step, 0

    def recv_into(self, buffer, nbytes=0):
        count = min(self.step, len(buffer), len(self.data) - self.at)
        buffer[:count] = self.data[self.at:self.at + count]
        self.at += count
        return count


def plain(message):
    """A message in the words of msgpack, to compare."""
    if isinstance(message, wire.Response):
        return [1, message.number, message.error, message.result]
    payload = message.payload
    return [2, message.method, [message.head, payload if isinstance(payload, dict)
                                else payload.tobytes()]]


def memory(value):
    """With memoryviews for bins, as requests have them."""
    if isinstance(value, dict):
        return {key: memory(inner) for key, inner in value.items()}
    return memoryview(value) if isinstance(value, bytes) else value


class DocumentTest(unittest.TestCase):
    def setUp(self):
        self.blocks = list(blocks())
        self.assertGreater(len(self.blocks), 60)

    def test_messages_of_the_server_are_read_whole_and_in_crumbs(self):
        from_server = [b for b in self.blocks if b[0] in ("response", "error", "notification")
                       and b[1] != "shm.free"]
        stream = b"".join(data for _, _, data in from_server)
        wanted = [msgpack.unpackb(data) for _, _, data in from_server]
        self.assertGreater(sum(w[0] == 2 for w in wanted), 10)
        for step in (1, 7, 4096, 1 << 20):
            reader = wire.Reader(Crumbs(stream, step))
            self.assertEqual([plain(reader.message()) for _ in wanted], wanted)
            with self.assertRaises(hspz.Incomplete):
                reader.message()

    def test_large_payloads_are_read_at_any_cut(self):
        rng = random.Random(4)
        messages = [[2, "anchors", [{"job": n}, rng.randbytes(size)]] for n, size in
                    enumerate((0, 1, 255, 256, 4000, 4090, 65535, 65536, 300000, 8388608))]
        stream = b"".join(msgpack.packb(m) for m in messages)
        for step in (4099, 65537, 1 << 24):
            reader = wire.Reader(Crumbs(stream, step))
            for wanted in messages:
                message = reader.message()
                self.assertEqual(plain(message), wanted)
                self.assertTrue(message.payload.flags.owndata)
        too_long = b"\x93\x02\xa7anchors\x92\x80\xc6" + (8388609).to_bytes(4, "big")
        with self.assertRaisesRegex(hspz.BadPeer, "8388609"):
            wire.Reader(Crumbs(too_long, 100)).message()

    def test_requests_are_written_byte_for_byte(self):
        requests = [(name, data) for kind, name, data in self.blocks if kind == "request"]
        self.assertGreater(len(requests), 30)
        for name, data in requests:
            _, number, method, params = msgpack.unpackb(data)
            pieces = wire.encode(number, method, memory(params[0]) if params else {})
            self.assertEqual(b"".join(map(bytes, pieces)), data, name)
        large = np.arange(5000, dtype="<u8")
        pieces = wire.encode(1, "discover", {"seeds": wire.as_bytes(large), "digest": False})
        self.assertEqual(msgpack.unpackb(b"".join(map(bytes, pieces))),
                         [0, 1, "discover", [{"seeds": large.tobytes(), "digest": False}]])
        self.assertTrue(np.shares_memory(np.frombuffer(pieces[1], np.uint8), large))

    def test_damaged_messages_are_an_error_of_the_package(self):
        rng = random.Random(9)
        from_server = [data for kind, _, data in self.blocks if kind != "request"]
        kinds = set()
        for _ in range(3000):
            data = bytearray(rng.choice(from_server))
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(min(len(data), 200))] = rng.randrange(256)
            reader = wire.Reader(Crumbs(bytes(data), rng.choice((3, 100, 5000))))
            try:
                while True:
                    reader.message()
            except hspz.Error as error:
                kinds.add(type(error))
        self.assertEqual(kinds, {hspz.Incomplete, hspz.BadPeer})
        for data in (b"\xc1", b"\x90", b"\x05", b"\x91" * 2000, b"\xdd\xff\xff\xff\xff" + b"\x01" * 50,
                     b"\x94\x01\xa1x\xc0\x80", b"\x94\x01\x01\x05\x80", b"\x93\x02\x05\x92\x80\xc4\x00"):
            with self.assertRaises(hspz.Error):
                wire.Reader(Crumbs(data, 4096)).message()


class Script:
    """A peer that reads what the client sends, and answers each request with prepared bytes; `sent`
    are the requests."""

    def __init__(self, answers):
        self.ours, theirs = socket.socketpair()
        self.ours.settimeout(20)
        self.sent = []
        self.answers = list(answers)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        limits = {"max_keys": 1000, "parts_per_connection": 4}
        server = hspz.Server("hspzd", "0", "cpu", "", "operator", "ready", [], limits)
        self.client = hspz.Client(hspz.channel.Channel(theirs, 10, 10), server)

    def run(self):
        unpacker = msgpack.Unpacker()
        while True:
            try:
                data = self.ours.recv(65536)
            except OSError:
                return
            if not data:
                return
            unpacker.feed(data)
            for request in unpacker:
                self.sent.append(request)
                if not self.answers:
                    self.ours.close()
                    return
                answer = self.answers.pop(0)
                self.ours.sendall(answer(request) if callable(answer) else answer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()
        self.ours.close()
        self.thread.join(20)


def numbered(messages):
    """Bytes of messages, with the request's id as theirs and as their job's."""
    def answer(request):
        out = b""
        for message in messages:
            message = msgpack.unpackb(msgpack.packb(message))
            if message[0] == 1:
                message[1] = request[1]
            else:
                message[2][0]["job"] = request[1]
            out += msgpack.packb(message)
        return out
    return answer


class DiscoverTest(unittest.TestCase):
    """The document's worked examples, replayed."""

    def setUp(self):
        self.messages = [(kind, name, msgpack.unpackb(data)) for kind, name, data in blocks()]
        first = next(i for i, (kind, name, m) in enumerate(self.messages)
                     if (kind, name) == ("request", "discover") and m[3][0].get("max_hits") == 4)
        self.request = self.messages[first][2]
        self.stream = []
        for kind, _, message in self.messages[first + 1:]:
            if kind == "request":
                break
            self.stream.append(message)
        self.assertGreater(len(self.stream), 3)

    def discover(self, stream, **more):
        with Script([numbered(stream)]) as script:
            discovery = script.client.discover("example", seeds=SEEDS, max_hits=4,
                                               **dict({"digest": True}, **more))
            parts = list(discovery)
            return script.sent, parts, discovery.summary

    def test_the_example_of_chunks(self):
        sent, parts, summary = self.discover(self.stream)
        self.assertEqual(sent[0][3], self.request[3])
        self.assertEqual([len(p) for p in parts],
                         [m[2][0]["hit_end"] - m[2][0]["hit_begin"] for m in self.stream[:-1]])
        self.assertEqual(summary.anchors, 9)
        self.assertEqual(summary.plus.seeds, 5)
        pairs = [(int(a), int(b)) for p in parts for a, b in zip(p.reference, p.query)]
        # Reference positions 10, 20, 30, then 40, then 11 to 51, each bucket backwards; span 19.
        self.assertEqual(pairs, [(r + 19, q + 19) for r, q in
                                 [(30, 1), (20, 1), (10, 1), (40, 2)] +
                                 [(r, 4) for r in (51, 41, 31, 21, 11)]])
        for part in parts:
            self.assertFalse(part.reference.flags.owndata)
            self.assertTrue(np.shares_memory(part.reference, part.records()))

    def test_the_example_of_columns(self):
        first = next(i for i, (kind, name, m) in enumerate(self.messages)
                     if (kind, name) == ("request", "discover")
                     and m[3][0].get("encoding") == "columnar" and "seeds" in m[3][0])
        with Script([numbered([m for _, _, m in self.messages[first + 1:first + 3]])]) as script:
            part, = list(script.client.discover("example", seeds=SEEDS, encoding="columnar",
                                                digest=True))
            self.assertEqual(script.sent[0][3], self.messages[first][2][3])
        self.assertEqual([column.tolist() for column in part.runs()], [[20, 21, 23], [3, 1, 5]])
        self.assertEqual(part.reference.tolist(), [49, 39, 29, 59, 70, 60, 50, 40, 30])
        self.assertEqual(part.query.tolist(), 3 * [20] + [21] + 5 * [23])
        self.assertFalse(part.reference.flags.owndata)
        _, packed, _ = self.discover(self.stream)
        self.assertEqual(part.packed().tolist(), [a for p in packed for a in p.packed().tolist()])

    def damaged(self):
        """(what, stream) of streams that are not what the server sent."""
        parts, result = self.stream[:-1], self.stream[-1]
        for i in range(len(parts)):
            yield "without part %d" % i, parts[:i] + parts[i + 1:] + [result]
            yield "part %d twice" % i, parts[:i + 1] + parts[i:] + [result]
            flipped = bytearray(parts[i][2][1])
            flipped[5] ^= 1
            yield "another bit in part %d" % i, \
                parts[:i] + [[2, "anchors", [parts[i][2][0], bytes(flipped)]]] + parts[i + 1:] + [result]
            for key, value in (("hit_end", 100), ("strand", "up"), ("chunk", 7), ("part", 3),
                               ("last_part", None), ("interval", 0), ("seed_begin", -1),
                               ("encoding", "columnar"), ("batch", True)):
                head = dict(parts[i][2][0], **{key: value})
                yield "%s of part %d" % (key, i), \
                    parts[:i] + [[2, "anchors", [head, parts[i][2][1]]]] + parts[i + 1:] + [result]
        yield "in another order", parts[::-1] + [result]
        yield "of HSPs", [[2, "hsps", parts[0][2]]] + parts[1:] + [result]
        yield "without payload", [[2, "anchors", [parts[0][2][0], {"offset": 0, "length": 24}]]]
        for key, value in (("anchors", 8), ("strands", {}), ("digest", "0" * 16), ("strands", None)):
            yield key, parts + [[1, 0, None, dict(result[3], **{key: value})]]
        yield "no result", parts + [[1, 0, None, None]]
        yield "an error without a code", parts + [[1, 0, {}, None]]

    def test_streams_that_are_not_whole_are_refused(self):
        count = 0
        for what, stream in self.damaged():
            with self.subTest(what):
                with self.assertRaises(hspz.BadPeer):
                    self.discover(stream)
            count += 1
        self.assertGreater(count, 30)

    def test_a_stream_cut_short_is_incomplete(self):
        with Script([numbered(self.stream[:2])]) as script:
            discovery = script.client.discover("example", seeds=SEEDS)
            next(discovery)
            next(discovery)
            script.ours.shutdown(socket.SHUT_RDWR)
            with self.assertRaises(hspz.Incomplete):
                next(discovery)
            with self.assertRaises(ValueError):
                discovery.summary
            with self.assertRaises(hspz.Incomplete):
                script.client.health()

    def test_an_error_after_parts_is_raised_with_its_numbers(self):
        error = {"code": "too_large", "message": "1005 hits, over the hit limit", "hits": 1005,
                 "limit": 1000}
        health = [1, 0, None, {"state": "ready"}]
        with Script([numbered(self.stream[:2] + [[1, 0, error, None]]),
                     numbered([health])]) as script:
            with self.assertRaises(hspz.TooLarge) as caught:
                list(script.client.discover("example", seeds=SEEDS))
            self.assertEqual((caught.exception.code, caught.exception.text, caught.exception.hits,
                              caught.exception.limit, caught.exception.retry_ms),
                             ("too_large", error["message"], 1005, 1000, None))
            self.assertEqual(script.client.health()["state"], "ready")

    def test_every_code_has_its_exception(self):
        with open(os.path.join(SOURCE, "protocol", "PROTOCOL.md"), encoding="utf-8") as file:
            codes = re.findall(r"^\| ([0-9]+) \| `(\w+)` \|", file.read(), re.M)
        sent = [code for number, code in codes if 0 < int(number) < 64]
        self.assertGreater(len(sent), 18)
        kinds = {code: type(hspz.errors.from_map({"code": code, "message": "m"})) for code in sent}
        self.assertEqual(len(set(kinds.values())), len(sent))
        strange = hspz.errors.from_map({"code": "of_tomorrow"})
        self.assertEqual((type(strange), strange.code), (hspz.Internal, "of_tomorrow"))

    def test_a_silent_server_is_asked_for_its_health(self):
        with Script([b"", numbered([[1, 0, None, {"state": "ready"}]]),
                     lambda request: numbered(self.stream)([0, 1])]) as script:
            script.client.channel()._silence_s = 0.2
            parts = []
            discovery = script.client.discover("example", seeds=SEEDS, max_hits=4)
            try:
                parts += list(discovery)
            except hspz.Incomplete:
                self.fail("given up after %s" % [r[2] for r in script.sent])
            self.assertEqual(sum(map(len, parts)), 9)
            self.assertEqual([r[2] for r in script.sent], ["discover", "health", "health"])
        with Script([b"", b""]) as script:
            script.client.channel()._silence_s = 0.1
            with self.assertRaisesRegex(hspz.Incomplete, "nothing came"):
                next(script.client.discover("example", seeds=SEEDS))


class ValuesTest(unittest.TestCase):
    def test_addresses(self):
        for text in ("unix:/run/x y.sock", "tcp:localhost:7979", "tls:node7:1", "tcp:[::1]:65535"):
            self.assertEqual(str(hspz.address.parse(text)), text)
        for text in ("", "unix:", "tcp:x", "tcp:x:0", "tcp:x:65536", "udp:x:1", "tcp:::1:7", "x:1",
                     "tcp:x:-1", "tcp::5"):
            with self.assertRaises(ValueError):
                hspz.address.parse(text)

    def test_positions_are_found_in_their_sequences(self):
        rng = random.Random(6)
        lengths = [rng.randrange(1, 40) for _ in range(300)]
        blocks, offsets, rows = [], [], {}
        block, at = 0, 0
        for i, length in enumerate(lengths):
            if at > 500:
                block, at = block + 1, 0
            blocks.append(block)
            offsets.append(at)
            rows.update(((block, at + k), (i, k)) for k in range(length))
            at += length + 1
        layout = hspz.Layout(["s%d" % i for i in range(300)], lengths, blocks, offsets)
        self.assertGreater(block, 5)
        for number in range(block + 1):
            wanted = [(p, where) for (b, p), where in rows.items() if b == number]
            rng.shuffle(wanted)
            sequence, within = layout.locate(number, [p for p, _ in wanted])
            self.assertEqual(list(zip(sequence.tolist(), within.tolist())), [w for _, w in wanted])
        for number, position in ((0, -1), (0, lengths[0]), (block + 1, 0), (block, 10000)):
            with self.assertRaises(ValueError):
                layout.locate(number, [position])
        self.assertEqual([a.tolist() for a in layout.locate(0, [])], [[], []])

    def test_keys_are_whole_numbers(self):
        with Script([]) as script:
            some = script.client.filters["f"]
            for keys in ([1.5], [-1], ["a"], [[1, 2]], [1 << 64]):
                with self.assertRaises((ValueError, OverflowError)):
                    some.query(keys)
            with self.assertRaises(ValueError):
                some.insert([1, 2], values=[1])
            self.assertEqual(script.sent, [])
        wide = [0, 1 << 63, 5, (1 << 64) - 1, np.uint64(7)]
        for given in (wide, tuple(wide), np.array(wide, np.uint64), np.array(wide, ">u8")):
            self.assertEqual(wire.as_u64(given, "keys").tolist(), wide)
        own = np.arange(3, dtype="<u8")
        self.assertIs(wire.as_u64(own, "keys"), own)
        self.assertEqual(len(wire.as_u64([], "keys")), 0)

    def test_versions_are_the_trees(self):
        with open(os.path.join(SOURCE, "meson.build"), encoding="utf-8") as file:
            version = re.search(r"version: '([0-9.]+)'", file.read()).group(1)
        with open(os.path.join(SOURCE, "client", "python", "pyproject.toml"), encoding="utf-8") as file:
            self.assertIn('\nversion = "%s"\n' % version, file.read())
        self.assertEqual(hspz.__version__, version)


if __name__ == "__main__":
    unittest.main()
