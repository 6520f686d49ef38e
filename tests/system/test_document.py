"""The daemon against protocol/PROTOCOL.md: the documented requests are understood byte for byte, and
answers have the documented keys, in the documented order and types."""

import os
import random
import re
import struct

import msgpack

import hspz_test
from hspz_test import bases

DOCUMENT = os.path.join(hspz_test.SOURCE, "protocol", "PROTOCOL.md")


def blocks():
    """(kind, name, bytes) of every example."""
    with open(DOCUMENT, encoding="utf-8") as file:
        text = file.read()
    for kind, name, body in re.findall(r"^```wire (\w+) ([\w.]+)\n(.*?)^```", text, re.M | re.S):
        yield kind, name, bytes.fromhex(re.sub(r"#[^\n]*", "", body))


def form(value):
    """What a value is made of; lists by their first element."""
    if isinstance(value, dict):
        return [(key, form(inner)) for key, inner in value.items()]
    if isinstance(value, list):
        return ["list"] + [form(inner) for inner in value[:1]]
    return type(value).__name__


class DocumentTest(hspz_test.TestCase):
    def setUp(self):
        super().setUp()
        self.blocks = list(blocks())
        self.assertGreater(len(self.blocks), 25)
        example = next(msgpack.unpackb(data) for kind, name, data in self.blocks
                       if (kind, name) == ("request", "discover") and b"example" in data)
        self.query = example[3][0]["query"]["bases"].decode()
        self.assertEqual(len(self.query), 19)
        rest = bases(random.Random(8), 5000)
        self.text = rest[:1000] + self.query + rest[1019:]
        self.index_file = self.index([("r", self.text)], name="example")

    def documented(self, name, holds=b""):
        return [msgpack.unpackb(data) for kind, method, data in self.blocks
                if kind == "response" and method == name and holds in data]

    def test_answers_have_the_documented_keys(self):
        daemon = self.daemon("--memory", "4G", "--filter-dir", self.folder,
                             indexes={"example": self.index_file})
        source = self.path("example.fa")
        with daemon.peer(hello=False) as peer:
            got = {"hello": peer.call("hello", protocol=1, client="x")}
            got["discover"] = peer.call("discover", index="example",
                                        query={"bases": self.query.encode()})
            self.assertTrue(peer.notices)
            got["cancel"] = peer.call("cancel", job=77)
            got["index.load"] = peer.call("index.load", index="a", file=self.index_file)
            got["index.list"] = peer.call("index.list")
            got["index.describe"] = peer.call("index.describe", index="example")
            got["index.unload"] = peer.call("index.unload", index="a")
            got["index.build"] = peer.call("index.build", index="b", source=source,
                                           file=self.path("b.hspz"))
            got["stats"] = peer.call("stats")
            got["shm.open"] = peer.call("shm.open")
            got["health"] = peer.call("health")
            notice = peer.notices[0]
            got.update(self.filter_answers(peer))
            got["drain"] = peer.call("drain")
        for name, answer in got.items():
            # Where a digest may be left out, the example that has it.
            wanted = self.documented(name, b"\xa6digest" if name == "discover" else b"")
            self.assertTrue(wanted, name)
            self.assertEqual(form(answer), form(wanted[0][3]), name)
        part = next(msgpack.unpackb(data) for kind, name, data in self.blocks
                    if (kind, name) == ("notification", "anchors"))
        self.assertEqual(form(notice[2][0]), form(part[2][0]))
        self.assertEqual({name for kind, name, _ in self.blocks if kind == "request"}, set(got))
        daemon.stop()

    def filter_answers(self, peer):
        """Of every method; notifications have the documented keys."""
        peer.notices = []
        keys = struct.pack("<2Q", 17, 19)
        got = {"filter.create": peer.call("filter.create", filter="a", kind="gqf", capacity=100)}
        peer.call("filter.create", filter="b", kind="gqf", capacity=100)
        for method in ("insert", "insert_if_absent", "query", "count", "delete", "decrement"):
            name = "filter." + method
            got[name] = peer.call(name, filter="a", keys=keys)
        peer.call("filter.insert", filter="b", keys=keys)
        got["filter.merge"] = peer.call("filter.merge", {"filter": "a", "from": "b"})
        got["filter.enumerate"] = peer.call("filter.enumerate", filter="a")
        for name in ("save", "stats", "drop", "load"):
            got["filter." + name] = peer.call("filter." + name, filter="a")
        got["filter.list"] = peer.call("filter.list")
        for kind, method, data in self.blocks:
            if kind == "notification" and method in ("answers", "entries"):
                head = msgpack.unpackb(data)[2][0]
                here = [n[2][0] for n in peer.notices if n[1] == method]
                self.assertTrue(here)
                for one in here:
                    self.assertEqual(form(one), form(head))
        return got

    def answer(self, peer, number):
        """The error of a request's response; parts in the ring are given back as they come."""
        while True:
            message = peer.receive()
            if message[0] == 1:
                self.assertEqual(message[1], number)
                return message[2]
            if isinstance(message[2][1], dict):
                peer.send([2, "shm.free", [message[2][1]["offset"]]])

    def test_documented_requests_are_understood(self):
        os.mkdir(self.path("filters"))
        daemon = self.daemon("--filter-dir", self.path("filters"),
                             indexes={"example": self.index_file})
        # After a drain nothing else is served.
        for kind, name, data in sorted(self.blocks, key=lambda block: block[1] == "drain"):
            if kind != "request":
                continue
            with self.subTest(name):
                with daemon.peer(hello=name != "hello") as peer:
                    if b"offset" in data:
                        peer.call("shm.open")
                    peer.send_bytes(data)
                    error = self.answer(peer, msgpack.unpackb(data)[1])
                    if error is not None:
                        # Folders, indexes and filters of the examples are not there; one has every
                        # key, of which two do not go together.
                        self.assertTrue(error["code"] in ("unknown_index", "unknown_filter",
                                                          "forbidden", "io_error", "bad_file") or
                                        "exactly one of them" in error["message"], error)
                    if name in ("hello", "stats", "health", "index.list", "cancel", "filter.list"):
                        self.assertIsNone(error)
        daemon.stop()

    def test_the_example_of_coordinates_is_answered_with_its_bytes(self):
        daemon = self.daemon(indexes={"example": self.index_file})
        request = next(data for kind, name, data in self.blocks
                       if (kind, name) == ("request", "discover") and b"example" in data)
        job = msgpack.unpackb(request)[1]
        parts = [data for kind, name, data in self.blocks if (kind, name) == (
            "notification", "anchors") and msgpack.unpackb(data)[2][0]["job"] == job]
        self.assertEqual(len(parts), 1)
        with daemon.peer() as peer:
            peer.send_bytes(request)
            came = b""
            while len(came) < len(parts[0]):
                came += peer.socket.recv(1 << 16)
        self.assertEqual(came[:len(parts[0])], parts[0])
        daemon.stop()


if __name__ == "__main__":
    hspz_test.main()
