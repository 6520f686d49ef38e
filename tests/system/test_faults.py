"""Peers, disks and processes that fail: what is lost is said, what is held is freed, others are served."""

import errno
import os
import random
import resource
import signal
import socket
import struct
import subprocess
import threading
import time
import unittest

import hspz_test
from hspz_test import CLIENT, SLOWER, Peer, RpcError, bases, child_env, client, poll

# A light shape: its table is small, so that indexes are made and loaded at once.
SHAPE = "1110100110101"
SPAN = len(SHAPE)
POLY = 20000


def poly_hits(length):
    """Windows of a poly-A query times the indexed ones of the reference."""
    return (length - SPAN + 1) * (POLY - SPAN)


BIG = {"index": "poly", "query": {"bases": b"A" * POLY}, "strand": "plus", "transitions": False}
SMALL_QUERY = "ACGTTGCAACGGTCATTGCAGTAACGGGTTTACCCATG"
SMALL = "T" + SMALL_QUERY
SMALL_ANCHORS = hspz_test.discover([("s", SMALL)], [("q", SMALL_QUERY)], SHAPE, strand="plus",
                                   transitions=False)


class FaultTest(hspz_test.TestCase):
    def setUp(self):
        super().setUp()
        self.poly = self.index([("a", "A" * POLY)], "--seed", SHAPE, name="poly")
        self.small = self.index([("s", SMALL)], "--seed", SHAPE, name="small")
        self.query = self.file("poly_q.fa", ">q\n" + "A" * POLY + "\n")

    def start(self, *args, **more):
        return self.daemon(*args, indexes={"poly": self.poly, "small": self.small}, **more)

    def assert_serves(self, daemon, within=None):
        begin = time.monotonic()
        with daemon.peer() as peer:
            self.assert_small(peer)
        if within:
            self.assertLess(time.monotonic() - begin, within * SLOWER)

    def assert_small(self, peer):
        result, data, _ = peer.discover("small", query={"bases": SMALL_QUERY.encode()},
                                        strand="plus", transitions=False)
        self.assert_same_anchors(data, SMALL_ANCHORS)
        self.assertEqual(result["anchors"], len(SMALL_ANCHORS) // 8)

    def jobs(self, daemon):
        with daemon.peer() as peer:
            stats = peer.call("stats")
            return stats["jobs"]

    def idle(self, daemon):
        """Waits until no job is left, returns the counters."""
        def look():
            jobs = self.jobs(daemon)
            return jobs if jobs["running"] == 0 and jobs["waiting"] == 0 else None
        jobs = poll(look, 20)
        self.assertTrue(jobs, "jobs are left: %s" % self.jobs(daemon))
        return jobs


class KilledTest(FaultTest):
    def stream(self, daemon, *args):
        """A client with a long packed stream under way into a pipe."""
        process = subprocess.Popen(
            [CLIENT, "--server", daemon.server, "discover", "poly", self.query, "--strand", "plus",
             "--no-transitions", "--format", "packed", *args], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_env())
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        return process

    def test_client_killed_mid_stream_frees_its_job(self):
        daemon = self.start()
        process = self.stream(daemon)
        self.assertEqual(len(process.stdout.read(1 << 20)), 1 << 20)
        process.kill()
        process.wait()
        self.assertGreaterEqual(self.idle(daemon)["cancelled"], 1)
        self.assert_serves(daemon)
        daemon.stop()

    def test_daemon_killed_mid_stream_is_a_failure_that_says_how_much_came(self):
        daemon = self.start()
        process = self.stream(daemon)
        got = len(process.stdout.read(1 << 20))
        daemon.process.kill()
        daemon.process.wait()
        rest, errors = process.communicate(timeout=30 * SLOWER)
        self.assertEqual(process.returncode, 1, errors)
        came = (got + len(rest)) // 8
        self.assertLess(came, poly_hits(POLY))
        self.assertRegex(errors.decode(), r"\d{5,}")
        self.assertNotIn(b"done", errors)

    def test_daemon_killed_mid_stream_leaves_no_file_under_the_name(self):
        daemon = self.start()
        out = self.path("out.u64")
        process = self.stream(daemon, "-o", out)
        poll(lambda: [n for n in os.listdir(self.folder) if n.startswith("out.u64") or
                      "out.u64" in n], 10)
        daemon.process.kill()
        daemon.process.wait()
        _, errors = process.communicate(timeout=30 * SLOWER)
        self.assertEqual(process.returncode, 1, errors)
        self.assertEqual([n for n in os.listdir(self.folder) if "out.u64" in n], [])

    def test_daemon_killed_then_started_again_serves_at_the_same_path(self):
        daemon = self.start()
        daemon.process.kill()
        daemon.process.wait()
        self.assertTrue(os.path.exists(daemon.path))
        again = self.start()
        self.assert_serves(again)
        again.stop()


class DiskFullTest(FaultTest):
    def test_full_disk_on_standard_output_is_a_failure(self):
        daemon = self.start()
        query = self.file("q.fa", ">q\n" + SMALL_QUERY + "\n")
        for form in ("tsv", "jsonl", "packed"):
            with open("/dev/full", "wb") as full:
                done = daemon.client("discover", "small", query, "--format", form, stdout=full,
                                     check=1)
            self.assertIn("No space left on device", done.stderr)

    def test_full_disk_under_a_long_stream_ends_it(self):
        daemon = self.start()
        with open("/dev/full", "wb") as full:
            done = daemon.client("discover", "poly", self.query, "--strand", "plus",
                                 "--no-transitions", "--format", "packed", stdout=full, check=1)
        self.assertIn("No space left on device", done.stderr)
        self.idle(daemon)
        self.assert_serves(daemon)

    def limited(self, megabytes):
        """Files may grow to so much; more is an error, not a signal."""
        def apply():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (megabytes << 20, megabytes << 20))
        return apply

    def test_output_file_that_cannot_grow_leaves_nothing(self):
        daemon = self.start()
        out = self.path("out.u64")
        done = daemon.client("discover", "poly", self.query, "--strand", "plus",
                             "--no-transitions", "--format", "packed", "-o", out, check=1,
                             preexec_fn=self.limited(8))
        self.assertIn("File too large", done.stderr)
        self.assertEqual([n for n in os.listdir(self.folder) if "out.u64" in n], [])
        self.assert_serves(daemon)

    def test_index_build_that_cannot_grow_leaves_nothing(self):
        source = self.file("r.fa", hspz_test.fasta([("r", bases(random.Random(1), 1000))]))
        done = client("index", "build", source, "-o", self.path("r.hspz"), check=1,
                      preexec_fn=self.limited(1))
        self.assertIn("File too large", done.stderr)
        self.assertEqual([n for n in os.listdir(self.folder) if "r.hspz" in n], [])

    def test_a_full_file_system_is_named(self):
        mount = self.path("disk")
        os.mkdir(mount)
        if os.geteuid() != 0 or subprocess.run(
                ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", mount],
                stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no tmpfs can be mounted here")
        try:
            daemon = self.start()
            done = daemon.client("discover", "poly", self.query, "--strand", "plus",
                                 "--no-transitions", "--format", "packed", "-o",
                                 mount + "/out.u64", check=1)
            self.assertIn("No space left on device", done.stderr)
            done = client("index", "build", self.query, "-o", mount + "/x.hspz", check=1)
            self.assertIn("No space left on device", done.stderr)
            self.assertEqual(os.listdir(mount), [])
        finally:
            subprocess.run(["umount", mount], check=False)


class SlowReaderTest(FaultTest):
    @unittest.skipIf(hspz_test.SANITIZED, "bounds of memory")
    def test_a_slow_reader_is_held_back_alone(self):
        daemon = self.start()
        with daemon.peer() as slow, daemon.peer() as other:
            self.assert_small(other)
            before = daemon.rss_mib()
            slow.request("discover", BIG)
            end, read, peak = time.monotonic() + 6, 0, 0
            while time.monotonic() < end or read <= 1 << 20:
                read += len(slow.socket.recv(1 << 17))  # about 1 MB/s
                begin = time.monotonic()
                self.assert_small(other)
                self.assertLess(time.monotonic() - begin, 1 * SLOWER)
                peak = max(peak, daemon.rss_mib())
                time.sleep(0.125)
            self.assertGreater(read, 1 << 20)
            self.assertLess(peak - before, 64)
        self.idle(daemon)
        daemon.stop()

    @unittest.skipIf(hspz_test.SANITIZED, "bounds of memory")
    def test_twenty_that_never_read_are_bounded_and_then_closed(self):
        daemon = self.start("--write-timeout-ms", "4000")
        with daemon.peer() as other:
            self.assert_small(other)
            before = daemon.rss_mib()
            deaf = [daemon.peer() for _ in range(20)]
            for peer in deaf:
                for _ in range(3):
                    peer.request("discover", BIG)
            peak, end = 0, time.monotonic() + 3
            while time.monotonic() < end:
                self.assert_small(other)
                peak = max(peak, daemon.rss_mib())
                time.sleep(0.05)
            self.assertLess(peak - before, 400)
            jobs = self.idle(daemon)
            self.assertEqual(jobs["received"], jobs["ok"] + jobs["refused"] + jobs["cancelled"] +
                             jobs["failed"])
            for peer in deaf:
                peer.close()
            self.assert_small(other)
        daemon.stop()


class ConnectionTest(FaultTest):
    def test_ten_thousand_connects_leave_nothing(self):
        daemon = self.start()
        with daemon.peer() as peer:
            self.assert_small(peer)
            fds, memory = daemon.fds(), daemon.rss_mib()
            for i in range(1000 if hspz_test.SANITIZED else 10000):
                connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                connection.connect(daemon.path)
                if i % 3 == 1:
                    try:
                        connection.send(b"\x94\x00")
                    except ConnectionError:
                        pass  # more at a time than are served
                connection.close()
            self.assertTrue(poll(lambda: daemon.fds() <= fds, 20), daemon.fds() - fds)
            if not hspz_test.SANITIZED:
                self.assertLess(daemon.rss_mib() - memory, 8)
            self.assert_small(peer)
        daemon.stop()

    def crowd(self, daemon, count):
        """Connections that are not waited for, but that the backlog may have to have room for."""
        end = time.monotonic() + 2 * SLOWER
        for _ in range(count):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.addCleanup(connection.close)
            connection.setblocking(False)
            while connection.connect_ex(daemon.path) == errno.EAGAIN and time.monotonic() < end:
                time.sleep(0.01)
            yield connection

    def assert_serves_again(self, daemon):
        def served():
            try:
                self.assert_serves(daemon)
                return True
            except (OSError, EOFError, RpcError):
                return False
        self.assertTrue(poll(served, 10))

    def test_few_descriptors_are_kept_for_those_who_are_in(self):
        daemon = self.start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE,
                                                                  (64, 64)))
        with daemon.peer() as inside:
            crowd = list(self.crowd(daemon, 120))
            def stats():
                return inside.call("stats")["connections"]
            self.assertTrue(poll(lambda: stats()["open"] == stats()["limit"]), stats())
            self.assert_small(inside)
            self.assertEqual((stats()["accept_errors"], stats()["open"]), (0, stats()["limit"]))
            for connection in crowd:
                connection.close()
            self.assert_serves_again(daemon)
            self.assert_small(inside)
        daemon.stop()

    def test_running_out_of_descriptors_harms_no_one_who_is_in(self):
        daemon = self.start()
        with daemon.peer() as inside:
            _, most = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (daemon.fds() + 6, most))
            crowd = list(self.crowd(daemon, 120))
            # Those that cannot be taken are closed, by libuv; nobody is asked again and again.
            crowd[-1].settimeout(10 * SLOWER)
            self.assertEqual(crowd[-1].recv(1), b"")
            states = []
            for _ in range(100):
                with open("/proc/%d/stat" % daemon.pid, encoding="ascii") as file:
                    states.append(file.read().rsplit(")", 1)[1].split()[0])
                time.sleep(0.01)
            self.assertLess(states.count("R"), 50)
            self.assert_small(inside)
            for connection in crowd:
                connection.close()
            resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (most, most))
            self.assert_serves_again(daemon)
        daemon.stop()

    def test_connections_over_the_limit_are_closed_at_once(self):
        daemon = self.start("--max-connections", "5")
        peers = []
        with self.assertRaises((EOFError, ConnectionError, RpcError)):
            for _ in range(6):
                peers.append(daemon.peer())
        self.assertEqual(len(peers), 5)
        self.assert_small(peers[0])
        peers.pop().close()
        self.assertTrue(poll(lambda: self.enters(daemon), 5))
        for peer in peers:
            peer.close()
        daemon.stop()

    def enters(self, daemon):
        try:
            daemon.peer().close()
            return True
        except (EOFError, ConnectionError, RpcError):
            return False

    def test_resets_and_half_closes_end_jobs_running_and_waiting(self):
        daemon = self.start()
        started = self.jobs(daemon)["cancelled"]
        # Running: FIN, RST, half-close.
        for way in ("close", "reset", "half"):
            peer = daemon.peer()
            peer.request("discover", BIG)
            peer.request("discover", BIG)  # waits behind it
            daemon.wait_jobs(running=1, waiting=1)
            if way == "half":
                peer.socket.shutdown(socket.SHUT_WR)
            else:
                getattr(peer, way)()
            jobs = self.idle(daemon)
            self.assertEqual(jobs["cancelled"] - started, 2, way)
            started = jobs["cancelled"]
            peer.close()
        # Over TCP a reset arrives as such.
        self.assert_serves(daemon)
        daemon.stop()

    def test_a_tcp_reset_frees_the_job(self):
        daemon = self.start("--listen", "127.0.0.1:0")
        port = self.tcp_port(daemon)
        for way in ("reset", "close"):
            peer = Peer(("127.0.0.1", port))
            peer.request("discover", BIG)
            daemon.wait_jobs(running=1)
            getattr(peer, way)()
            self.idle(daemon)
        self.assert_serves(daemon)
        daemon.stop()

    def tcp_port(self, daemon):
        import re
        return int(poll(lambda: re.search(r"127\.0\.0\.1:(\d+)", daemon.log())).group(1))

    def test_memory_is_back_after_cancelled_jobs(self):
        daemon = self.start()
        self.cycle(daemon, 5)
        before, fds = daemon.rss_mib(), daemon.fds()
        self.cycle(daemon, 40)
        self.assertTrue(poll(lambda: daemon.fds() <= fds))
        if not hspz_test.SANITIZED:
            self.assertLess(daemon.rss_mib() - before, 8)
        daemon.stop()

    def cycle(self, daemon, count):
        for i in range(count):
            peer = daemon.peer()
            peer.request("discover", BIG)
            peer.socket.recv(1 << 16)
            (peer.reset if i % 2 else peer.close)()
        self.idle(daemon)

    def test_five_hundred_jobs_closed_at_random_times(self):
        daemon = self.start(threads=2)
        errors = []

        def worker(seed):
            rng = random.Random(seed)
            for _ in range(50):
                try:
                    peer = daemon.peer()
                    peer.request("discover", BIG if rng.random() < 0.5 else {
                        "index": "small", "query": {"bases": SMALL_QUERY.encode()}})
                    time.sleep(rng.random() * 0.2)
                    (peer.reset if rng.random() < 0.5 else peer.close)()
                except Exception as error:  # told by the main thread
                    errors.append(error)

        threads = [threading.Thread(target=worker, args=(i,)) for i in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.idle(daemon)
        self.assert_serves(daemon)
        daemon.stop()


class SignalTest(FaultTest):
    def test_sigterm_lets_jobs_finish_and_takes_no_new_ones(self):
        daemon = self.start()
        with daemon.peer() as peer, daemon.peer() as other:
            number = peer.request("discover", dict(BIG, query={"bases": b"A" * 4000}))
            peer.receive()
            daemon.process.send_signal(signal.SIGTERM)
            self.assertTrue(poll(lambda: self.refused(daemon)))
            try:
                self.assert_code(other.error("discover", index="small", seeds=b""),
                                 "shutting_down")
            except (EOFError, ConnectionError):
                pass  # an idle connection may be closed instead
            peer.notices = []
            self.assertEqual(peer.result(number)["anchors"], poly_hits(4000))
            self.assertTrue(peer.closed())
        self.assertEqual(daemon.process.wait(10 * SLOWER), 0)
        self.assertFalse(os.path.exists(daemon.path))

    def refused(self, daemon):
        try:
            with daemon.peer(hello=False):
                return False
        except OSError:
            return True

    def test_a_second_signal_stops_at_once(self):
        daemon = self.start()
        with daemon.peer() as peer:
            peer.request("discover", BIG)
            peer.socket.recv(100)
            daemon.process.send_signal(signal.SIGTERM)
            self.assertTrue(poll(lambda: "draining" in daemon.log()))
            time.sleep(0.3)
            self.assertTrue(daemon.alive())  # nobody reads, so it drains
            daemon.process.send_signal(signal.SIGTERM)
            self.assertIsNotNone(daemon.process.wait(5 * SLOWER))
        self.assertFalse(os.path.exists(daemon.path))

    def test_sigint_drains_too(self):
        daemon = self.start()
        daemon.stop(expect=0, sig=signal.SIGINT, seconds=5)

    def test_sigterm_with_fifty_streams_ends_within_the_drain_time(self):
        daemon = self.start("--drain-timeout-ms", "500")
        peers = [daemon.peer() for _ in range(50)]
        for i, peer in enumerate(peers):
            peer.request("discover", BIG)
            if i % 5 == 0:
                peer.reset()
        daemon.stop(expect=0, seconds=10)
        for peer in peers:
            peer.close()

    def test_sighup_drops_no_work(self):
        daemon = self.start()
        with daemon.peer() as peer:
            number = peer.request("discover", dict(BIG, query={"bases": b"A" * 2000}))
            daemon.process.send_signal(signal.SIGHUP)
            self.assertEqual(peer.result(number)["anchors"], poly_hits(2000))
        self.assert_serves(daemon)
        daemon.stop()


class CountersTest(FaultTest):
    def test_counters_add_up(self):
        daemon = self.start("--max-seeds", "1000")
        before = self.jobs(daemon)
        with daemon.peer() as peer:
            for _ in range(50):
                self.assert_small(peer)
            for _ in range(20):
                peer.error("discover", index="small", seeds=bytes(8 * 1001))
            for _ in range(20):
                owed = {peer.request("discover", BIG)}
                owed.add(peer.request("cancel", job=min(owed)))
                while owed:
                    message = peer.receive()
                    if message[0] == 1:
                        owed.remove(message[1])
            for _ in range(10):
                peer.error("discover", index="small", seeds=5)
        after = self.idle(daemon)
        grown = {key: after[key] - before[key] for key in
                 ("received", "ok", "refused", "cancelled", "failed")}
        self.assertEqual(grown["received"], 100)
        self.assertEqual(grown["ok"], 50)
        self.assertEqual(grown["cancelled"], 20)
        self.assertEqual(grown["refused"] + grown["failed"], 30)
        self.assertIn("oldest_waiting_ms", after)
        daemon.stop()


class BusyTest(FaultTest):
    @unittest.skipIf(hspz_test.SANITIZED, "bounds of time")
    def test_health_answers_while_a_large_batch_is_worked_on(self):
        daemon = self.start()
        stop, times = threading.Event(), []

        def ping():
            with daemon.peer() as peer:
                while not stop.is_set():
                    begin = time.monotonic()
                    peer.call("health")
                    times.append(time.monotonic() - begin)
                    time.sleep(0.05)

        thread = threading.Thread(target=ping)
        thread.start()
        try:
            seeds = struct.pack("<II", 0, 0xABCD) * (12 << 20)  # 96 MiB
            with daemon.peer() as peer:
                for _ in range(3):
                    self.assertEqual(peer.call("discover", index="small",
                                               seeds=seeds)["anchors"], 0)
                for _ in range(8):
                    peer.request("discover", BIG)
                end = time.monotonic() + 3
                while time.monotonic() < end or len(times) <= 20:
                    peer.socket.recv(1 << 20)
        finally:
            stop.set()
            thread.join()
        times.sort()
        self.assertGreater(len(times), 20)
        # What takes a while takes longer by as much as there is more to do than processors.
        slower = SLOWER * max(1, os.getloadavg()[0] / os.cpu_count())
        self.assertLess(times[int(len(times) * 0.99) - 1], 0.2 * slower, times[-5:])
        self.assertLess(times[-1], 1 * slower)
        daemon.stop()

    @unittest.skipIf(hspz_test.SANITIZED, "bounds of time")
    def test_a_bulk_client_does_not_starve_a_small_one(self):
        daemon = self.start("--max-jobs", "1000")
        stop = threading.Event()
        text = b"A" * 1500  # about 3 * 10^7 hits each

        def bulk():
            with daemon.peer() as peer:
                for _ in range(200):
                    peer.request("discover", {"index": "poly", "query": {"bases": text},
                                              "strand": "plus", "transitions": False})
                while not stop.is_set():
                    peer.socket.recv(1 << 20)

        thread = threading.Thread(target=bulk)
        thread.start()
        waits = []
        try:
            daemon.wait_jobs(running=1)
            with daemon.peer() as peer:
                for _ in range(10):
                    begin = time.monotonic()
                    self.assert_small(peer)
                    waits.append(time.monotonic() - begin)
                    time.sleep(0.1)
            self.assertGreater(self.jobs(daemon)["waiting"], 0)
        finally:
            stop.set()
            thread.join()
        waits.sort()
        self.assertLess(waits[5], 0.5 * SLOWER, waits)
        self.assertLess(waits[-1], 2 * SLOWER, waits)
        daemon.stop()


if __name__ == "__main__":
    hspz_test.main()
