"""hspz-client and a server that shares memory: as it should, and as it should not. What comes is held against the same
stub's stream."""

import array
import fcntl
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import msgpack

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from filter_stub import FilterStub  # noqa: E402
from stub import Index, Stub  # noqa: E402

CLIENT = os.path.join(os.environ["HSPZ_BUILD"], "client", "hspz-client")
F_ADD_SEALS, F_SEAL_SHRINK = 1033, 2
RING, PLACE, INPUT = 1 << 20, 4096, 1 << 16
TIMEOUT = 60  # seconds, to end what hangs


class Placing:
    """A socket to which parts are sent as places of a ring."""

    def __init__(self, peer, server):
        self.peer, self.server, self.at = peer, server, 0

    def __getattr__(self, name):
        return getattr(self.peer, name)

    def sendall(self, data):
        message = msgpack.unpackb(data)
        if message[0] == 2:
            payload = message[2][1]
            os.pwrite(self.server.ring, payload, self.at)
            offset, length = self.server.faults.get("place", (self.at, len(payload)))
            message[2][1] = {"offset": offset, "length": length}
            self.server.places.append(self.at)
            self.at += PLACE
            self.server.parts_sent = self.at // PLACE
            assert self.at <= RING
            data = msgpack.packb(message)
        self.peer.sendall(data)


class ShmStub(Stub):
    def __init__(self, *args, **more):
        self.freed, self.places = [], []  # offsets, in order
        self.ring = self.input = -1
        self.served = threading.Semaphore(0)  # connections that have ended
        super().__init__(*args, **more)

    def serve(self, peer):
        super().serve(peer)
        self.served.release()

    def memory(self, name, size):
        fd = os.memfd_create(name, os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, size)
        if not self.faults.get("unsealed"):
            fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)
        return fd

    def answer(self, peer, message):
        if message[0] == 2:
            assert message[1] == "shm.free", message
            self.freed += message[2]
            return None
        if message[2] != "shm.open":
            return super().answer(peer, message)
        if "refuse_shm" in self.faults:
            return self.reply(peer, message[1], error={"code": self.faults["refuse_shm"],
                                                       "message": "none is left"})
        self.ring = self.memory("ring", RING - self.faults.get("short", 0))
        self.input = self.memory("input", INPUT)
        fds = array.array("i", [self.ring, self.input, self.input][:self.faults.get("fds", 2)])
        reply = msgpack.packb([1, message[1], None, self.faults.get(
            "sizes", {"ring_bytes": RING, "input_bytes": INPUT})])
        peer.sendmsg([reply], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)] if fds else [])
        return None

    def discover(self, peer, job, params):
        self.transport = params.pop("transport", "stream")
        places = [params.get("seeds"), params.get("query", {}).get("bases")]
        self.placed = [p for p in places if isinstance(p, dict)]
        for place in self.placed:
            data = os.pread(self.input, place["length"], place["offset"])
            if "seeds" in params:
                params["seeds"] = data
            else:
                params["query"]["bases"] = data
        return super().discover(Placing(peer, self) if self.transport == "shm" else peer, job,
                                params)


class ShmFilterStub(ShmStub, FilterStub):
    """Requests about filters, with keys and answers in shared memory where the client asks for that."""

    def __init__(self, *args, **more):
        self.seen = []  # of each request about keys: its transport, the keys of it that were placed
        super().__init__(*args, **more)

    def answer(self, peer, message):
        if message[0] == 2 or not message[2].startswith("filter."):
            return super().answer(peer, message)
        params = message[3][0]
        shm = params.pop("transport", "stream") == "shm"
        placed = sorted(key for key in ("keys", "values", "counts") if isinstance(params.get(key), dict))
        for key in placed:
            params[key] = os.pread(self.input, params[key]["length"], params[key]["offset"])
        self.seen.append((message[2][7:], shm, placed))
        return super().answer(Placing(peer, self) if shm else peer, message)


class ShmFilterTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="hspz-shm-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.keys = os.path.join(self.dir, "keys")
        with open(self.keys, "wb") as file:
            file.write(random.Random(3).randbytes(8 * 3000))

    def run_client(self, *args, status=0, **faults):
        """What the last of some commands says."""
        with ShmFilterStub(os.path.join(self.dir, "s.sock"), **faults) as server:
            for command in (["create", "f", "--kind", "gqf", "--capacity", "9000"],
                            ["insert", "f", self.keys, "--raw"], list(args)):
                done = subprocess.run([CLIENT, "--server", server.address, "--timeout", str(TIMEOUT), "filter"] +
                                      command, capture_output=True, timeout=2 * TIMEOUT, check=False)
                # What the client sent is read, also what it wants no answer to.
                self.assertTrue(server.served.acquire(timeout=TIMEOUT))
                if done.returncode:
                    break
            self.assertEqual(done.returncode, status, done.stderr)
        return done, server

    def test_keys_and_answers_go_through_shared_memory(self):
        for command in (["count", "f", self.keys, "--raw"], ["query", "f", self.keys, "--raw"], ["enumerate", "f"]):
            plain, server = self.run_client(*command, refuse_shm="unsupported")
            self.assertEqual({shm for _, shm, _ in server.seen}, {False})
            done, server = self.run_client(*command)
            self.assertEqual(done.stdout, plain.stdout)
            self.assertGreater(len(done.stdout), 24000)
            name = command[0]
            # Stats, whether a Bloom filter is overfull, have nothing for a ring.
            self.assertEqual([seen for seen in server.seen[1:] if seen != ("stats", False, [])], [
                ("insert", True, ["keys"]), (name, True, [] if name == "enumerate" else ["keys"])])
            # Each place was given back, in order, once; as many of the insert's as of the other's.
            self.assertGreater(server.parts_sent, 40)
            self.assertEqual(server.freed, 2 * [PLACE * i for i in range(server.parts_sent)])

    def test_small_calls_do_not_ask_for_it(self):
        with open(self.keys, "wb") as file:
            file.write(bytes(800))
        _, server = self.run_client("count", "f", self.keys, "--raw")
        self.assertNotIn("shm.open", [m[2] for m in server.requests])

    def test_places_outside_the_ring_end_it(self):
        for place in ((RING, 8), (RING - 7, 8), (2**64 - 8, 8)):
            done, _ = self.run_client("count", "f", self.keys, "--raw", status=1, place=place)
            self.assertIn(b"outside the shared memory", done.stderr)
        done, _ = self.run_client("count", "f", self.keys, "--raw", status=1, place=(0, 2**63))
        self.assertIn(b"not what its count says", done.stderr)


class ShmClientTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="hspz-shm-")
        self.addCleanup(shutil.rmtree, self.dir)
        rng = random.Random(12)
        refs = [("r", "".join(rng.choices("ACGT", k=6000)))]
        self.index = Index(refs, per_block=3)
        self.query = os.path.join(self.dir, "q.fa")
        with open(self.query, "w", encoding="ascii") as file:
            file.write(">q\n" + refs[0][1][500:1100] + "".join(rng.choices("ACGT", k=4000)) + "\n")
        self.truth = self.run_client(transport="stream")[0].stdout
        self.assertGreater(len(self.truth), 100)

    def run_client(self, *args, transport="auto", status=0, **faults):
        with ShmStub(os.path.join(self.dir, "s.sock"), self.index, **faults) as server:
            done = subprocess.run([CLIENT, "--server", server.address, "--timeout", str(TIMEOUT), "discover",
                                   "ref", self.query, "--format", "packed", "--transport",
                                   transport, *args], capture_output=True, timeout=2 * TIMEOUT, check=False)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertTrue(server.served.acquire(timeout=TIMEOUT))
        return done, server

    def test_parts_and_requests_go_through_shared_memory(self):
        for encoding in ("packed", "columnar"):
            for transport in ("auto", "shm"):
                done, server = self.run_client("--encoding", encoding, transport=transport)
                self.assertEqual(done.stdout, self.truth)
                self.assertEqual(server.transport, "shm")
                self.assertEqual(len(server.placed), 1)
                # Each place was given back, in order, once.
                self.assertGreater(len(server.freed), 20)
                self.assertEqual(server.freed, [PLACE * i for i in range(len(server.freed))])
                self.assertEqual(len(server.freed), server.parts_sent)
        self.assertEqual(self.run_client(transport="stream")[1].transport, "stream")

    def test_what_a_server_cannot_share_comes_by_the_stream(self):
        for faults in ({"refuse_shm": "quota_exceeded"}, {"refuse_shm": "unknown_method"},
                       {"refuse_shm": "unsupported"}, {"fds": 0}, {"fds": 1}, {"unsealed": True},
                       {"short": 4096}, {"short": RING}, {"sizes": {}},
                       {"sizes": {"ring_bytes": 2**63, "input_bytes": 0}},
                       {"sizes": {"ring_bytes": 0, "input_bytes": 0}}):
            with self.subTest(**faults):
                done, server = self.run_client(**faults)
                self.assertEqual(done.stdout, self.truth)
                self.assertEqual(server.transport, "stream")
                done, server = self.run_client(transport="shm", status=1, **faults)
                self.assertEqual(done.stdout, b"")
                self.assertTrue(done.stderr)
        # One descriptor too many is let go.
        self.assertEqual(self.run_client(fds=3)[0].stdout, self.truth)

    def test_an_input_that_is_too_small_is_not_used(self):
        sizes = {"ring_bytes": RING, "input_bytes": 4600}
        done, server = self.run_client(sizes=sizes)
        self.assertEqual((len(server.placed), done.stdout), (1, self.truth))
        done, server = self.run_client(sizes=dict(sizes, input_bytes=4500))
        self.assertEqual((len(server.placed), done.stdout), (0, self.truth))

    def test_places_outside_the_ring_end_it(self):
        for place in ((RING, 160), (RING - 8, 160), (2**64 - 8, 160), (2**64 - 160, 160)):
            with self.subTest(place=place):
                done, _ = self.run_client(status=1, place=place)
                self.assertIn(b"outside the shared memory", done.stderr)
        done, _ = self.run_client(status=1, place=(8, 2**63))
        self.assertIn(b"not valid", done.stderr)

    def test_what_is_not_what_was_promised_is_noticed(self):
        done, _ = self.run_client(status=1, place=(RING - PLACE, 160))
        self.assertTrue(done.stderr)


if __name__ == "__main__":
    unittest.main()
