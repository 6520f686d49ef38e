"""Peers that lie about shared memory, keep it, write where they should not, or die: each harms itself alone. A
well-behaved neighbour's job gives the right bytes after every one of them."""

import contextlib
import fcntl
import mmap
import os
import random
import signal
import struct
import subprocess
import threading
import time
import unittest

import hspz_test
from hspz_test import RpcError, bases, discover, poll
from shm_peer import ShmPeer

F_ADD_SEALS, F_SEAL_WRITE = 1033, 8
# So many connections come and go for the leak test; a release takes 10000.
CONNECTS = int(os.environ.get("HSPZ_SHM_CONNECTS", "300"))
OUT = {"transport": "shm", "transitions": False}

# What another user than the daemon's can do with the descriptors that a client was given.
STRANGER = """
import errno, os, sys
os.setgid(65534); os.setuid(65534)
fd = int(sys.argv[1])
for attempt in (lambda: os.open("/proc/self/fd/%d" % fd, os.O_RDWR),
                lambda: os.fchmod(fd, 0o600), lambda: os.write(fd, b"x"),
                lambda: os.ftruncate(fd, 0)):
    try:
        attempt()
    except OSError as error:
        print(errno.errorcode[error.errno])
    else:
        print("done")
"""


class Scene(hspz_test.TestCase):
    """A daemon, and a neighbour whose jobs have to be right whatever others do."""

    def setUp(self):
        super().setUp()
        rng = random.Random(41)
        core = bases(rng, 6000)
        self.reference = [("a", core + "A" * 900)]
        self.index_file = self.index(self.reference)
        # Many parts of 64K in a moment.
        self.heavy = {"bases": b"A" * 900}
        self.records = [("q", core[1000:3000])]
        self.query = hspz_test.block_of(self.records).encode()
        self.want = discover(self.reference, self.records)

    def start(self, *args, **more):
        daemon = self.daemon("--part-bytes", "64K", "--parts-per-connection", "3", *args,
                             indexes={"ref": self.index_file}, **more)
        self.neighbour = ShmPeer(daemon.path)
        self.addCleanup(self.neighbour.close)
        return daemon

    def neighbour_is_well(self):
        """Its job is right, whoever does what meanwhile."""
        place = self.neighbour.put(self.query)
        _, data, _ = self.neighbour.discover("ref", transport="shm", query={"bases": place})
        self.assert_same_anchors(data, self.want)

    def expect_ended(self, peer, *words):
        """The server says why, with id 0, and closes."""
        try:
            while True:
                message = peer.receive()
                if message[0] == 1 and message[1] == 0:
                    self.assert_code(message[2], "bad_request", *words)
                    break
        except EOFError:
            self.fail("closed without a word")
        self.assertTrue(peer.closed())
        self.neighbour_is_well()

    @staticmethod
    @contextlib.contextmanager
    def scribbling(fd, size):
        """Meanwhile somebody writes noise there, without an end."""
        stop = threading.Event()

        def scribble():
            rng = random.Random(3)
            noise = rng.randbytes(1 << 16) + b"\xff" * 4096 + bytes(4096)
            while not stop.is_set():
                start = rng.randrange(len(noise) - 4096)
                os.pwrite(fd, noise[start:start + rng.randrange(1, 4096)], rng.randrange(size - 4096))
        scribbler = threading.Thread(target=scribble)
        scribbler.start()
        try:
            yield
        finally:
            stop.set()
            scribbler.join()

    @contextlib.contextmanager
    def scribbling_in_ring(self, peer):
        """The daemon's own user can."""
        os.fchmod(peer.ring_fd, 0o600)
        writer = os.open("/proc/self/fd/%d" % peer.ring_fd, os.O_RDWR)
        try:
            with self.scribbling(writer, peer.ring_bytes):
                yield
        finally:
            os.close(writer)


class HostileTest(Scene):
    def begin(self, daemon, **params):
        """A peer with a job that has lent it all parts it may have."""
        peer = ShmPeer(daemon.path)
        self.addCleanup(peer.close)
        peer.keep = True
        peer.job = peer.request("discover", dict(OUT, index="ref", query=self.heavy, **params))
        while len(peer.kept) < 3:
            peer.notices.append(peer.receive())
            if peer.notices[-1][0] == 1 and "deadline_ms" in params:  # over before it was begun
                return self.begin(daemon, deadline_ms=2 * params["deadline_ms"])
        self.assertEqual(len(set(peer.kept)), 3)
        return peer

    def test_lies_about_what_is_given_back_end_the_connection(self):
        daemon = self.start()
        for wrong in ([1], [65535], [3 * 65536], [1 << 40], [2**64 - 1], [2**64 - 65536]):
            with self.subTest(wrong=wrong):
                peer = self.begin(daemon)
                peer.free(*wrong)
                self.expect_ended(peer, "no part at %d" % wrong[0])
        with self.subTest("twice"):
            peer = self.begin(daemon)
            peer.free(peer.kept[0], peer.kept[0])
            self.expect_ended(peer, "no part at")
        with self.subTest("twice, the second time when it was lent anew and given back"):
            peer = self.begin(daemon)
            first = peer.kept[0]
            peer.give_back()
            peer.response(peer.job)
            peer.free(first)
            self.expect_ended(peer, "no part at")
        with self.subTest("before anything was lent"):
            peer = ShmPeer(daemon.path)
            peer.free(0)
            self.expect_ended(peer, "no part at 0")
            peer.close()
        with self.subTest("what another connection has"):
            holder = self.begin(daemon)
            thief = ShmPeer(daemon.path)
            thief.free(holder.kept[0])
            self.expect_ended(thief, "no part at")
            thief.close()
            holder.give_back()
            self.assertIsNone(holder.response(holder.job)[0])
        for params in ([None], ["0"], [-1], [{}], [0.5], [b"\0"], [[0]], list(range(65))):
            with self.subTest(params=params):
                peer = self.begin(daemon)
                peer.send([2, "shm.free", params])
                self.expect_ended(peer)
        with self.subTest("without any"):
            with ShmPeer(daemon.path, share=False) as peer:
                peer.free(0)
                self.expect_ended(peer, "no shared memory")
        daemon.stop()

    def test_who_never_gives_back_waits_alone_and_is_closed_in_the_end(self):
        daemon = self.start("--write-timeout-ms", "4000")
        peer = self.begin(daemon)
        for _ in range(3):
            self.neighbour_is_well()
        self.assertTrue(peer.silent(1.2))
        late = self.begin(daemon, deadline_ms=300)
        error, _ = late.response(late.job)
        self.assert_code(error, "deadline_exceeded")
        cancelled = self.begin(daemon)
        self.assertTrue(cancelled.call("cancel", job=cancelled.job)["found"])
        self.assert_code(cancelled.response(cancelled.job)[0], "cancelled")
        for each in (peer, late, cancelled):
            self.assertTrue(each.closed(15))
        self.assertIn("gives no part back", daemon.log())
        self.neighbour_is_well()
        daemon.stop()

    def test_one_that_dies_leaves_its_memory_cleared(self):
        segment = (3 * 65536 + (8 << 20)) * 2 + 4096
        daemon = self.start("--shm-memory", segment)
        for how in ("close", "kill"):
            with self.subTest(how):
                peer = self.begin(daemon)
                peer.put(b"secret" * 100)
                ring = mmap.mmap(peer.ring_fd, peer.ring_bytes, prot=mmap.PROT_READ)
                kept = os.dup(peer.input_fd)
                self.assertTrue(any(ring[:65536]))
                if how == "kill":
                    # Held by another process alone, which is killed.
                    child = subprocess.Popen(["sleep", "60"], pass_fds=[peer.socket.fileno()])
                    peer.close()
                    child.send_signal(signal.SIGKILL)
                    child.wait()
                else:
                    peer.close()
                self.assertTrue(poll(lambda: not any(ring[:65536])))
                self.assertTrue(poll(lambda: os.pread(kept, 600, 0) == bytes(600)))
                ring.close()
                os.close(kept)
                self.neighbour_is_well()
        # Both segments can be had again.
        self.assertTrue(poll(lambda: self.can_share(daemon)))
        with ShmPeer(daemon.path):
            with ShmPeer(daemon.path, share=False) as third:
                self.assert_code(third.error("shm.open"), "quota_exceeded")
        daemon.stop()

    def can_share(self, daemon):
        with ShmPeer(daemon.path, share=False) as peer:
            return peer.response(peer.request("shm.open"))[0] is None

    def test_files_can_neither_shrink_nor_grow_nor_be_sealed_further(self):
        daemon = self.start()
        with ShmPeer(daemon.path) as peer:
            for fd, size in ((peer.ring_fd, peer.ring_bytes), (peer.input_fd, peer.input_bytes)):
                for length in (0, 1, size - 1, size + 1, 1 << 40):
                    self.assertRaises(OSError, os.ftruncate, fd, length)
                self.assertRaises(OSError, fcntl.fcntl, fd, F_ADD_SEALS, F_SEAL_WRITE)
                self.assertEqual(os.fstat(fd).st_size, size)
            self.assertRaises(OSError, os.posix_fallocate, peer.input_fd, 0, size + 4096)
            self.assertRaises(OSError, os.pwrite, peer.input_fd, b"x" * 10, size)
            self.assertRaises(OSError, os.pwrite, peer.ring_fd, b"x", 0)
            self.assertRaises(PermissionError, mmap.mmap, peer.ring_fd, 4096,
                              prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self.neighbour_is_well()
        daemon.stop()

    @unittest.skipIf(os.geteuid() != 0, "not root")
    def test_another_user_cannot_open_the_ring_for_writing(self):
        daemon = self.start()
        with ShmPeer(daemon.path) as peer:
            done = subprocess.run(["/usr/bin/python3", "-c", STRANGER, str(peer.ring_fd)],
                                  pass_fds=[peer.ring_fd], capture_output=True, text=True,
                                  check=True)
            self.assertEqual(done.stdout.split(), ["EACCES", "EPERM", "EBADF", "EINVAL"])
        daemon.stop()

    def test_one_who_may_write_the_ring_all_the_same_spoils_its_own_results(self):
        daemon = self.start()
        with ShmPeer(daemon.path) as peer:
            with self.scribbling_in_ring(peer):
                for i in range(12):
                    result, data, _ = peer.discover(
                        "ref", encoding=("columnar", "packed")[i % 2], query=self.heavy, **OUT)
                    self.assertEqual(result["anchors"], sum(
                        p[0]["hit_end"] - p[0]["hit_begin"]
                        for p in (n[2] for n in peer.notices)))
                    self.assertTrue(data)
            self.neighbour_is_well()
        daemon.stop()

    def test_garbage_written_to_the_input_while_it_is_read_is_one_request_or_another(self):
        daemon = self.start()
        rng = random.Random(5)
        size = 8000 * 8
        good = struct.pack("<8000Q", *[rng.randrange(1 << 24) << 32 | i for i in range(8000)])
        with ShmPeer(daemon.path) as peer:
            with self.scribbling(peer.input_fd, size):
                for i in range(60):
                    place = peer.put(good)
                    job = {"seeds": place} if i % 2 else {"query": {"bases": place}}
                    error, result = peer.response(peer.request(
                        "discover", dict(job, index="ref", transport="shm")))
                    self.assertTrue(error is None or error["code"] == "bad_request", error)
            # Whether one got through is the scheduler's; the next one does.
            _, data, _ = peer.discover("ref", seeds=peer.put(good), transport="shm")
            self.assertEqual(data, self.neighbour.discover("ref", seeds=good)[1])
        self.neighbour_is_well()
        daemon.stop()

    def test_places_outside_the_input_are_refused_by_name(self):
        daemon = self.start()
        with ShmPeer(daemon.path) as peer:
            room = peer.input_bytes
            for offset, length in ((room, 8), (room - 7, 8), (0, room + 8), (2**64 - 8, 8),
                                   (2**64 - 8, 16), (8, 2**63), (0, 2**64 - 8)):
                place = {"offset": offset, "length": length}
                with self.subTest(**place):
                    self.assert_code(peer.error("discover", index="ref", seeds=place),
                                     "bad_request", "not within the input")
                    self.assert_code(peer.error("discover", index="ref", query={"bases": place}),
                                     "bad_request", "not within the input")
            for place in ({"offset": 0}, {"length": 8}, {"offset": -8, "length": 8}, 5, None, [],
                          {"offset": 0, "length": 12}):
                self.assert_code(peer.error("discover", index="ref", seeds=place), "bad_request")
            self.assertEqual(peer.discover("ref", seeds={"offset": room, "length": 0})[1], b"")
        self.neighbour_is_well()
        daemon.stop()

    def test_who_does_not_read_its_answers_gets_no_descriptors(self):
        daemon = self.start()
        with ShmPeer(daemon.path, share=False) as peer:
            asked = [peer.request("stats") for _ in range(600)]
            last = peer.request("shm.open")
            time.sleep(0.5)
            for number in asked:
                peer.result(number)
            self.assert_code(peer.response(last)[0], "queue_full", "descriptors")
            peer.share()
            self.assertTrue(peer.discover("ref", transport="shm", query={"bases": self.query})[1])
        self.neighbour_is_well()
        daemon.stop()

    def test_nothing_is_left_of_connections_that_had_rings(self):
        daemon = self.start()
        rng = random.Random(8)

        def come_and_go(i):
            with ShmPeer(daemon.path) as peer:
                way = i % 5
                if way == 0:
                    return
                peer.keep = way == 1
                job = peer.request("discover", dict(
                    OUT, index="ref", query=self.heavy if way < 3 else
                    {"bases": peer.put(self.query[:400])}))
                if way == 1:
                    peer.receive()
                elif way > 2:
                    peer.response(job)
                if way == 4:
                    peer.send([2, "shm.free", [rng.getrandbits(40)]])

        for i in range(50):
            come_and_go(i)
        self.neighbour_is_well()
        settled = poll(lambda: self.neighbour.call("stats")["connections"]["open"] == 1)
        self.assertTrue(settled)
        fds, rss = daemon.fds(), daemon.rss_mib()
        for i in range(CONNECTS):
            come_and_go(i)
        self.neighbour_is_well()
        self.assertTrue(poll(lambda: self.neighbour.call("stats")["connections"]["open"] == 1))
        self.assertTrue(poll(lambda: daemon.fds() <= fds + 2 * 2))
        if not hspz_test.SANITIZED:
            self.assertLess(daemon.rss_mib(), rss + 8)
        daemon.stop()


class KeysTest(Scene):
    """The same of keys and answers, by requests about filters that others use as well."""

    KEYS = 60000  # whose counts fill seven parts of 64K

    def start(self, *args, **more):
        daemon = super().start(*args, **more)
        rng = random.Random(6)
        self.keys = [rng.getrandbits(64) for _ in range(self.KEYS)]
        self.neighbour.call("filter.create", filter="f", kind="gqf", capacity=4 * self.KEYS, slot_bits=64)
        self.neighbour.call("filter.insert", filter="f", keys=self.pack(self.keys), answer="none")
        return daemon

    @staticmethod
    def pack(words):
        return struct.pack("<%dQ" % len(words), *words)

    def neighbour_is_well(self):
        super().neighbour_is_well()
        place = self.neighbour.put(self.pack(self.keys))
        self.neighbour.notices = []
        result = self.neighbour.call("filter.count", filter="f", keys=place, transport="shm")
        counts = b"".join(n[2][1] for n in self.neighbour.notices)
        self.assertEqual((len(counts), result["yes"]), (8 * self.KEYS, self.KEYS))
        self.assertTrue(all(struct.unpack("<%dQ" % self.KEYS, counts)))

    def begin(self, daemon, method="filter.count", **more):
        """A peer that has all parts of its ring, and a job that is not at its end."""
        peer = ShmPeer(daemon.path)
        self.addCleanup(peer.close)
        peer.keep = True
        params = dict(more, filter="f", transport="shm")
        if method != "filter.enumerate":
            params["keys"] = peer.put(self.pack(self.keys))
        peer.job = peer.request(method, params)
        while len(peer.kept) < 3:
            peer.notices.append(peer.receive())
        return peer

    def test_lies_about_what_is_given_back_end_the_connection(self):
        daemon = self.start()
        for method in ("filter.count", "filter.enumerate"):
            for wrong in ([1], [3 * 65536], [2**64 - 65536], None):
                with self.subTest(method=method, wrong=wrong):
                    peer = self.begin(daemon, method)
                    peer.free(*(wrong or 2 * peer.kept[:1]))
                    self.expect_ended(peer, "no part at")
        daemon.stop()

    def test_who_keeps_answers_holds_nobody_up(self):
        """No lock is held while they are kept: others read, and write."""
        daemon = self.start("--write-timeout-ms", "4000")
        kept = [self.begin(daemon), self.begin(daemon, answer="both")]
        for _ in range(3):
            self.neighbour_is_well()
            self.neighbour.call("filter.insert", filter="f", keys=self.pack([1, 2, 3]), answer="none")
        late = self.begin(daemon, deadline_ms=1500)
        self.assert_code(late.response(late.job)[0], "deadline_exceeded")
        ended = self.begin(daemon)
        self.assertTrue(ended.call("cancel", job=ended.job)["found"])
        self.assert_code(ended.response(ended.job)[0], "cancelled")
        for peer in kept + [late, ended]:
            self.assertTrue(peer.closed(15))
        self.assertIn("gives no part back", daemon.log())
        self.neighbour_is_well()
        daemon.stop()

    def test_one_that_dies_leaves_its_memory_cleared(self):
        daemon = self.start()
        for method in ("filter.count", "filter.enumerate", "filter.decrement"):
            with self.subTest(method):
                peer = self.begin(daemon, "filter.count")
                if method == "filter.decrement":
                    # With keys that are not yet read.
                    peer.request(method, filter="f", keys=peer.put(self.pack(range(10**9, 10**9 + 9000))))
                ring = mmap.mmap(peer.ring_fd, peer.ring_bytes, prot=mmap.PROT_READ)
                kept = os.dup(peer.input_fd)
                self.assertTrue(any(ring[:65536]))
                peer.close()
                self.assertTrue(poll(lambda: not any(ring[:65536])))
                self.assertTrue(poll(lambda: os.pread(kept, 600, 0) == bytes(600)))
                ring.close()
                os.close(kept)
                self.neighbour_is_well()
        self.assertTrue(poll(lambda: self.neighbour.call("stats")["shm"]["rings"] == 1))
        daemon.stop()

    def test_places_outside_the_input_are_refused_by_name(self):
        daemon = self.start()
        good = {"offset": 0, "length": 8}
        with ShmPeer(daemon.path) as peer:
            room = peer.input_bytes
            for offset, length in ((room, 8), (room - 7, 8), (0, room + 8), (2**64 - 8, 8),
                                   (2**64 - 8, 16), (8, 2**63), (0, 2**64 - 8)):
                place = {"offset": offset, "length": length}
                for params in ({"keys": place}, {"sequence": place}):
                    # Of too many keys it is that which is told.
                    error = peer.error("filter.insert", dict(params, filter="f"))
                    self.assertIn(error["code"], ("bad_request", "too_large"))
                    if length == 8:
                        self.assertIn("not within the input", error["message"])
                for key in ("values", "counts"):
                    error = peer.error("filter.insert", {"filter": "f", key: place,
                                                         "keys": dict(good, length=length)})
                    self.assertIn(error["code"], ("bad_request", "too_large"))
            for params in ({"keys": {"offset": 0}}, {"keys": dict(good, length=12)},
                           {"keys": good, "values": bytes(8)}, {"keys": bytes(8), "counts": good},
                           {"keys": good, "counts": dict(good, length=16)}, {"keys": 5}, {"keys": None}):
                self.assert_code(peer.error("filter.insert", dict(params, filter="f")), "bad_request")
            for method, params in (("filter.count", {"keys": b""}), ("filter.enumerate", {})):
                self.assert_code(peer.error(method, dict(params, filter="f", transport="smoke")), "bad_request",
                                 "stream")
        with daemon.peer() as plain:
            for method, params in (("filter.count", {"keys": good}), ("filter.enumerate", {"transport": "shm"}),
                                   ("filter.count", {"keys": b"", "transport": "shm"})):
                self.assert_code(plain.error(method, dict(params, filter="f")), "bad_request",
                                 "no shared memory")
        self.neighbour_is_well()
        daemon.stop()

    def test_what_is_copied_counts_as_held_and_is_given_back(self):
        user = {"name": "me", "uids": os.geteuid(), "max_queued_bytes": "900K"}
        daemon = self.start(config={"tenants": [user]})
        with ShmPeer(daemon.path) as peer:
            place = peer.put(bytes(1 << 20))
            for _ in range(5):
                self.assert_code(peer.error("filter.count", filter="f", keys=place), "too_large")
                self.assertEqual(peer.call("filter.count", filter="f", keys=dict(place, length=720000))["keys"],
                                 90000)
        self.neighbour_is_well()
        daemon.stop()

    def test_garbage_written_while_keys_are_read_is_one_request_or_another(self):
        daemon = self.start()
        with ShmPeer(daemon.path) as peer:
            peer.call("filter.create", filter="g", kind="gqf", capacity=10**6, slot_bits=64)
            with self.scribbling(peer.input_fd, 24 * 8000):
                for i in range(30):
                    keys, counts = peer.put(self.pack([1] * 8000)), peer.put(self.pack([1] * 8000), 64000)
                    error, result = peer.response(peer.request("filter.insert", filter="g", keys=keys, counts=counts,
                                                               transport="shm"))
                    self.assertTrue(error is None or error["code"] == "bad_request", error)
                    error, result = peer.response(peer.request("filter.query", filter="f", keys=keys))
                    self.assertEqual((error, result["keys"]), (None, 8000))
        self.neighbour_is_well()
        daemon.stop()

    def test_one_who_may_write_the_ring_spoils_its_own_answers(self):
        daemon = self.start()
        with ShmPeer(daemon.path) as peer:
            with self.scribbling_in_ring(peer):
                for i in range(12):
                    method = ("filter.count", "filter.query", "filter.enumerate")[i % 3]
                    params = {"transport": "shm", "filter": "f"}
                    if i % 3 < 2:
                        params.update(keys=peer.put(self.pack(self.keys)), answer=("both", "array", "bitmap")[i % 2])
                    result = peer.call(method, params)
                    self.assertEqual(result.get("keys", result.get("entries")), self.KEYS)
        self.neighbour_is_well()
        daemon.stop()


if __name__ == "__main__":
    hspz_test.main()
