"""What a node does to a service: kills, full disks, clocks that jump, storms of signals, one instance after
another at the same place, and networks that lose, delay and cut."""

import glob
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

import hspz_test
from hspz_test import CLIENT, SLOWER, Peer, bases, child_env, poll

FAKETIME = (glob.glob("/usr/lib/*/faketime/libfaketime.so.1") or [None])[0]


class Base(hspz_test.TestCase):
    def setUp(self):
        super().setUp()
        text = bases(random.Random(21), 60000)
        self.ref = [("r", text + text[:20000] + "A" * 4000)]
        self.query = text[10000:40000]
        self.files = {"r": self.index(self.ref)}
        self.query_file = self.file("q.fa", ">q\n%s\n" % self.query)
        self.search = {"index": "r", "query": {"bases": self.query.encode()}}

    def ask(self, peer, want=None):
        """One job's anchors, compared with those of another."""
        result, data, _ = peer.discover(**self.search)
        self.assertEqual(result["anchors"], len(data) // 8)
        self.assertGreater(len(data), 8 * 20000)
        if want is not None:
            self.assertEqual(data, want)
        return data


class HardshipTest(Base):
    def test_clients_that_try_again_outlive_kills(self):
        daemon = self.daemon(indexes=self.files)
        want = daemon.client("discover", "r", self.query_file, text=False, check=0).stdout
        over, done, failures = threading.Event(), [], []

        def client():
            while not over.is_set() and not failures:
                out = hspz_test.client("--wait", "30", "discover", "r", self.query_file,
                                       server=daemon.server, text=False)
                if out.returncode == 0 and out.stdout == want:
                    done.append("whole")
                elif out.returncode == 1 and out.stderr and want.startswith(out.stdout[:1000]):
                    done.append("told")
                else:
                    failures.append((out.returncode, len(out.stdout), out.stderr[-300:]))
        threads = [threading.Thread(target=client) for _ in range(3)]
        for thread in threads:
            thread.start()
        current = daemon
        for _ in range(4):
            time.sleep(0.5)
            current.process.kill()
            current.process.wait()
            current = self.daemon(indexes=self.files)
        before = done.count("whole")
        self.assertTrue(poll(lambda: done.count("whole") > before + 3 or failures, 30))
        over.set()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        current.stop()

    def test_a_log_that_cannot_be_written_stops_nothing(self):
        path = self.path("hspz.sock")
        with open("/dev/full", "wb") as full:
            process = subprocess.Popen(
                [hspz_test.HSPZD, "--socket", path, "--engine", "cpu", "--threads", "1",
                 "--access-log", "yes", "--index", "r=" + self.files["r"]], stderr=full, stdout=full,
                stdin=subprocess.DEVNULL, env=child_env())
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertTrue(poll(lambda: hspz_test.listens(path)))
        with Peer(path) as peer:
            self.assertTrue(poll(lambda: peer.call("health")["state"] == "ready"))
            want = self.ask(peer)
            for _ in range(10):
                self.ask(peer, want)
        process.terminate()
        self.assertEqual(process.wait(30 * SLOWER), 0)

    @unittest.skipIf(FAKETIME is None or hspz_test.SANITIZED, "no libfaketime to preload")
    def test_steps_of_the_clock_move_nothing_but_the_log(self):
        stamp = self.file("faketime", "+0\n")
        daemon = self.daemon(
            "--hello-timeout-ms", "600000", "--frame-timeout-ms", "600000", "--write-timeout-ms",
            "600000", "--idle-timeout-ms", "600000", indexes=self.files, env=child_env(
                LD_PRELOAD=FAKETIME, FAKETIME_TIMESTAMP_FILE=stamp, FAKETIME_NO_CACHE="1",
                FAKETIME_DONT_FAKE_MONOTONIC="1"))
        with daemon.peer() as peer, daemon.peer() as quiet:
            want = self.ask(peer)
            half = Peer(daemon.path, hello=False)
            half.send_bytes(b"\x94\x00")
            for step in ("+3650d", "-3650d", "+1h", "-1h", "+0"):
                hspz_test.write(stamp, step + "\n")
                self.ask(peer, want)
                result, _, _ = peer.discover(**dict(self.search, deadline_ms=60000))
                self.assertLess(result["timings"]["total_ns"], 600e9)
                time.sleep(0.1)
            stats = peer.call("stats")
            self.assertLess(stats["uptime_ms"], 600000)
            self.assertEqual(stats["connections"]["timed_out"], 0)
            self.assertEqual(quiet.call("health")["state"], "ready")
            half.close()
        daemon.stop()
        years = {line[:4] for line in daemon.log().splitlines()}
        self.assertGreater(len(years), 2, "the clock did not step")

    def test_a_storm_of_hangups_loses_no_work(self):
        config = {"max_jobs": 64}
        daemon = self.daemon(indexes=self.files, config=config)
        name = daemon.command[daemon.command.index("--config") + 1]
        over, failures, done = threading.Event(), [], []

        def work():
            try:
                with daemon.peer() as peer:
                    want = self.ask(peer)
                    while not over.is_set():
                        self.ask(peer, want)
                        done.append(1)
            except Exception as error:  # pylint: disable=broad-except
                failures.append(error)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for i in range(150):
            # Now and then one that cannot be read.
            text = json.dumps({"max_jobs": 64 + i}) if i % 7 else "{"
            hspz_test.write(name + ".new", text)
            os.replace(name + ".new", name)
            daemon.process.send_signal(signal.SIGHUP)
            time.sleep(0.02)
        self.assertTrue(poll(lambda: len(done) > 10 or failures))
        over.set()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertIn("not reloaded", daemon.log())
        self.assertIn(" reloaded", daemon.log())
        daemon.stop()

    def test_instances_that_overlap_at_one_path_leave_one_that_serves(self):
        """The old one drains while the new one is started again and again, as a manager would."""
        daemon = self.daemon(indexes=self.files)
        for _ in range(3):
            with daemon.peer() as peer:
                number = peer.request("discover", index="r", query={"bases": b"A" * 3000},
                                      strand="plus", transitions=False)
                self.assertTrue(poll(lambda: peer.socket.recv(1, socket.MSG_PEEK)))
                daemon.process.send_signal(signal.SIGTERM)
                # Who was there first is served to the end, once others have knocked.
                results, new, attempts = [], None, 0
                reader = threading.Thread(target=lambda: results.append(peer.result(number)))
                while new is None:
                    candidate = self.daemon(indexes=self.files, wait=False)
                    poll(lambda: candidate.process.poll() is not None or
                         "listening" in candidate.log(), 10)
                    if candidate.process.poll() is None:
                        new = candidate
                    else:
                        self.assertEqual(candidate.process.returncode, 1)
                        self.assertIn(candidate.path, candidate.log())
                        if attempts == 0:
                            reader.start()
                    attempts += 1
                    self.assertLess(attempts, 500)
                reader.join()
                self.assertGreaterEqual(results[0]["anchors"], 2982 * 3982)
                self.assertGreater(attempts, 1)
            self.assertEqual(daemon.process.wait(30 * SLOWER), 0)
            new.wait_ready()
            daemon = new
        self.assertTrue(os.path.exists(daemon.path))
        daemon.stop()
        self.assertFalse(os.path.exists(daemon.path))


def run(*command, check=True):
    return subprocess.run(command, check=check, capture_output=True, text=True)


@unittest.skipIf(os.geteuid() != 0 or not all(shutil.which(n) for n in ("ip", "tc", "nft")),
                 "network namespaces need root, ip, tc and nft")
class NetworkTest(Base):
    """Two network namespaces with a cable between them: the daemon in one, clients in the other."""

    def setUp(self):
        super().setUp()
        self.near, self.far = ("hspz%d%s" % (os.getpid(), side) for side in "ab")
        try:
            for name, address in ((self.near, "10.255.77.1/24"), (self.far, "10.255.77.2/24")):
                run("ip", "netns", "add", name)
                self.addCleanup(run, "ip", "netns", "del", name, check=False)
                run("ip", "-n", name, "link", "set", "lo", "up")
                if name == self.far:
                    run("ip", "link", "add", "hz0", "netns", self.near, "type", "veth", "peer", "name",
                        "hz0", "netns", self.far)
                    for end, own in ((self.near, "10.255.77.1/24"), (self.far, address)):
                        run("ip", "-n", end, "address", "add", own, "dev", "hz0")
                        run("ip", "-n", end, "link", "set", "hz0", "up")
        except subprocess.CalledProcessError as error:
            raise unittest.SkipTest("no network namespaces: %s" % error.stderr.strip()) from None
        token = "cable"
        self.token_file = self.file("token", token + "\n")
        tenants = [{"name": "far", "token_sha256": hashlib.sha256(token.encode()).hexdigest()},
                   {"name": "here", "role": "operator", "uids": [0]}]
        self.server = self.daemon(
            "--listen", "10.255.77.1:7979", "--insecure", "yes", "--write-timeout-ms", "6000",
            "--frame-timeout-ms", "6000", indexes=self.files, config={"tenants": tenants},
            prefix=("ip", "netns", "exec", self.near))
        self.want = self.server.client("discover", "r", self.query_file, text=False, check=0).stdout
        self.assertGreater(self.want.count(b"\n"), 20000)

    def client(self, *args, query=None):
        return subprocess.Popen(
            ["ip", "netns", "exec", self.far, CLIENT, "--server", "tcp:10.255.77.1:7979",
             "--token-file", self.token_file, *args, "discover", "r", query or self.query_file],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_env())

    def poly(self, length):
        """A query with 3,982 hits at each of its windows."""
        return self.file("poly.fa", ">p\n%s\n" % ("A" * length))

    def assert_whole(self, process, seconds, want=None):
        out, errors = process.communicate(timeout=seconds * SLOWER)
        self.assertEqual((process.returncode, errors[-300:]), (0, b""))
        self.assertEqual(out, want or self.want)

    def stats(self):
        with self.server.peer() as peer:
            return peer.call("stats")

    def test_lost_packets_cost_time_only(self):
        for name in (self.near, self.far):
            run("ip", "netns", "exec", name, "nft", "add table inet t; add chain inet t c "
                "{ type filter hook input priority 0; }; add rule inet t c meta l4proto tcp numgen "
                "random mod 100 < 3 drop")
        self.assert_whole(self.client(), 100)
        self.server.stop()

    def test_a_slow_line_holds_back_only_who_is_on_it(self):
        line = ("dev", "hz0", "root", "tbf", "burst", "64kbit", "latency", "200ms", "rate")
        run("ip", "netns", "exec", self.near, "tc", "qdisc", "add", *line, "1mbit")
        query = self.poly(1000)
        want = self.server.client("discover", "r", query, text=False, check=0).stdout
        process = self.client(query=query)
        self.assertTrue(poll(lambda: self.stats()["jobs"]["running"] == 1))
        begin = time.monotonic()
        self.server.client("discover", "r", self.query_file, check=0)
        self.assertLess(time.monotonic() - begin, 3 * SLOWER)
        self.assertIsNone(process.poll())
        run("ip", "netns", "exec", self.near, "tc", "qdisc", "change", *line, "40mbit")
        self.assert_whole(process, 60, want)
        self.server.stop()

    def test_a_cut_line_is_noticed_on_both_sides(self):
        run("ip", "netns", "exec", self.near, "tc", "qdisc", "add", "dev", "hz0", "root", "tbf", "rate",
            "1mbit", "burst", "32kbit", "latency", "200ms")
        process = self.client("--timeout", "3", query=self.poly(3000))
        self.assertTrue(poll(lambda: self.stats()["jobs"]["running"] == 1))
        time.sleep(0.3)
        run("ip", "-n", self.far, "link", "set", "hz0", "down")
        out, errors = process.communicate(timeout=40 * SLOWER)
        self.assertEqual(process.returncode, 1, errors)
        self.assertLess(out.count(b"\n"), 2982 * 3982)
        self.assertIn(b"10.255.77.1:7979", errors)
        # The daemon gives the job up once nothing was taken for write_timeout_ms.
        self.assertTrue(poll(lambda: self.stats()["jobs"]["in_flight"] == 0, 30))
        self.assertEqual(self.stats()["connections"]["timed_out"], 1)
        run("ip", "-n", self.far, "link", "set", "hz0", "up")
        run("ip", "netns", "exec", self.near, "tc", "qdisc", "del", "dev", "hz0", "root")
        self.assert_whole(self.client(), 60)
        self.server.stop()


class DelayTest(Base):
    def test_a_long_way_changes_nothing_but_the_time(self):
        """A relay that holds everything back for a while, both ways, and cuts it anew."""
        daemon = self.daemon(indexes=self.files)
        want = daemon.client("discover", "r", self.query_file, text=False, check=0).stdout
        path = self.path("relay.sock")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(listener.close)
        listener.bind(path)
        listener.listen(8)
        rng = random.Random(2)

        def carry(source, sink):
            while True:
                data = source.recv(rng.choice((100, 5000, 1 << 18)))
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                time.sleep(0.002)
                sink.sendall(data)

        def serve():
            while True:
                try:
                    near, _ = listener.accept()
                except OSError:
                    return
                far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                far.connect(daemon.path)
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=quietly, args=(carry, *pair), daemon=True).start()

        def quietly(what, *args):
            try:
                what(*args)
            except OSError:
                pass
        threading.Thread(target=serve, daemon=True).start()
        begin = time.monotonic()
        out = hspz_test.client("discover", "r", self.query_file, server="unix:" + path, text=False,
                               check=0)
        self.assertEqual(out.stdout, want)
        self.assertGreater(time.monotonic() - begin, 0.02)
        daemon.stop()


if __name__ == "__main__":
    hspz_test.main()
