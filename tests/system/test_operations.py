"""What operators and batch jobs rely on: addresses in a file, ends that come by themselves, silence that
is not waited for, a watchdog that means something."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import hspz_test
from hspz_test import SLOWER, Peer, bases, child_env, poll


class BatchTest(hspz_test.TestCase):
    """Inside a batch system's allocation."""

    def addresses(self, path):
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()

    def test_any_free_port_is_told_in_a_file(self):
        path = self.path("addresses")
        daemon = self.daemon("--listen", "127.0.0.1:0", "--address-file", path)
        unix, tcp = self.addresses(path)
        self.assertEqual(unix, daemon.server)
        port = int(re.fullmatch(r"tcp:127\.0\.0\.1:(\d+)", tcp).group(1))
        self.assertGreater(port, 0)
        for address in (unix, tcp):
            out = hspz_test.client("health", server=address, check=0).stdout
            self.assertIn("ready", out)
        self.assertEqual([n for n in os.listdir(self.folder) if n.startswith("addresses")],
                         ["addresses"])
        daemon.stop()
        self.assertFalse(os.path.exists(path))

    def test_an_address_file_that_is_anothers_stays(self):
        path = self.path("addresses")
        one = self.daemon("--address-file", path)
        two = self.daemon("--address-file", path, socket_path=self.path("two.sock"))
        self.assertEqual(self.addresses(path), [two.server])
        one.stop()
        self.assertEqual(self.addresses(path), [two.server])
        two.stop()
        self.assertFalse(os.path.exists(path))

    def test_an_address_file_that_cannot_be_written_is_named(self):
        path = self.path("none/addresses")
        daemon = self.daemon("--address-file", path, wait=False)
        self.assertEqual(daemon.process.wait(10 * SLOWER), 1)
        self.assertIn(path, daemon.log())
        self.assertFalse(os.path.exists(daemon.path))

    def test_it_ends_when_nobody_is_there(self):
        daemon = self.daemon("--idle-exit-s", "2", wait=False)
        daemon.wait_listening()
        with daemon.peer() as peer:
            # Somebody who is connected is somebody.
            time.sleep(3.5)
            self.assertEqual(peer.call("health")["state"], "ready")
            begin = time.monotonic()
        self.assertEqual(daemon.process.wait(20 * SLOWER), 0)
        self.assertGreater(time.monotonic() - begin, 0.9)
        self.assertIn("idle_exit_s", daemon.log())

    def test_it_waits_all_of_the_idle_time_for_the_first_to_come(self):
        begin = time.monotonic()
        daemon = self.daemon("--idle-exit-s", "4", wait=False)
        self.assertEqual(daemon.process.wait(20 * SLOWER), 0)
        self.assertGreater(time.monotonic() - begin, 3.9)
        self.assertIn("idle_exit_s", daemon.log())

    def test_those_who_come_and_go_keep_it(self):
        daemon = self.daemon("--idle-exit-s", "3")
        end = time.monotonic() + 7
        while time.monotonic() < end:
            with daemon.peer() as peer:
                self.assertEqual(peer.call("health")["state"], "ready")
            time.sleep(0.4)
        self.assertTrue(daemon.alive(), daemon.log())
        self.assertEqual(daemon.process.wait(20 * SLOWER), 0)
        self.assertIn("idle_exit_s", daemon.log())

    def parent(self, *args):
        """A process that starts hspzd, says its pid and waits; (process, the daemon's pid)."""
        code = ("import subprocess, sys, time\n"
                "child = subprocess.Popen(sys.argv[1:])\n"
                "print(child.pid, flush=True)\n"
                "time.sleep(1000)\n")
        process = subprocess.Popen(
            [sys.executable, "-c", code, hspz_test.HSPZD, "--socket", self.path("hspz.sock"),
             "--engine", "cpu", "--threads", "1", *args], stdout=subprocess.PIPE, env=child_env(),
            stderr=subprocess.DEVNULL)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, int(process.stdout.readline())

    def gone(self, pid):
        """Ended, if perhaps not yet waited for by whoever adopted it."""
        try:
            with open("/proc/%d/stat" % pid, encoding="ascii") as file:
                return file.read().rsplit(")", 1)[1].split()[0] == "Z"
        except FileNotFoundError:
            return True

    def test_it_dies_with_its_parent_when_asked(self):
        files = self.index([("r", "A" * 5000)])
        parent, pid = self.parent("--die-with-parent", "--index", "r=" + files)
        self.addCleanup(lambda: self.gone(pid) or os.kill(pid, signal.SIGKILL))
        self.assertTrue(poll(lambda: hspz_test.listens(self.path("hspz.sock"))))
        # Not even a job that would never end keeps it.
        with Peer(self.path("hspz.sock")) as peer:
            self.assertTrue(poll(lambda: peer.call("health")["state"] == "ready"))
            peer.request("discover", {"index": "r", "query": {"bases": b"A" * 5000}})
            self.assertTrue(poll(lambda: peer.socket.recv(1, socket.MSG_PEEK)))
            self.assertFalse(self.gone(pid))
            parent.kill()
            parent.wait()
            self.assertTrue(poll(lambda: self.gone(pid), 15))
        self.assertFalse(os.path.exists(self.path("hspz.sock")))

    def test_it_outlives_the_thread_that_started_it(self):
        started = []
        thread = threading.Thread(target=lambda: started.append(self.daemon("--die-with-parent")))
        thread.start()
        thread.join()
        daemon, = started
        time.sleep(1.5)
        with daemon.peer() as peer:
            self.assertEqual(peer.call("health")["state"], "ready")
        self.assertNotIn("signal", daemon.log())
        daemon.stop()

    def test_it_does_not_begin_without_its_parent(self):
        script = 'sleep 0.3; grep PPid /proc/$$/status; exec "$0" --die-with-parent --socket "$1" --engine cpu'
        done = subprocess.run(["sh", "-c", 'sh -c "$0" "$@" &', script, hspz_test.HSPZD, self.path("s")],
                              capture_output=True, text=True, env=child_env(), timeout=20 * SLOWER,
                              check=True)
        if done.stdout.split() != ["PPid:", "1"]:
            self.skipTest("orphans have another parent here")
        self.assertIn("has ended", done.stderr)

    def test_it_outlives_its_parent_when_not_asked(self):
        parent, pid = self.parent()
        self.addCleanup(lambda: self.gone(pid) or os.kill(pid, signal.SIGKILL))
        self.assertTrue(poll(lambda: hspz_test.listens(self.path("hspz.sock"))))
        parent.kill()
        parent.wait()
        time.sleep(2)
        with Peer(self.path("hspz.sock")) as peer:
            self.assertEqual(peer.call("health")["state"], "ready")
        os.kill(pid, signal.SIGTERM)
        self.assertTrue(poll(lambda: self.gone(pid)))


class SilenceTest(hspz_test.TestCase):
    def test_an_idle_connection_is_closed_and_a_used_one_is_not(self):
        files = {"r": self.index([("r", "A" * 5000)])}
        daemon = self.daemon("--idle-timeout-ms", "3000", indexes=files)
        begin = time.monotonic()
        with daemon.peer() as idle, daemon.peer() as used, daemon.peer() as working:
            # A job that waits for its reader is no silence.
            working.request("discover", {"index": "r", "query": {"bases": b"A" * 3000}})
            while idle.silent(0.3) and time.monotonic() - begin < 30 * SLOWER:
                self.assertEqual(used.call("health")["state"], "ready")
            self.assertTrue(idle.closed(1))
            self.assertGreater(time.monotonic() - begin, 2.9)
            self.assertEqual(used.call("stats")["connections"]["timed_out"], 1)
            while not working.silent(0.1):  # it got parts, and no end
                self.assertTrue(working.socket.recv(1 << 20))
        daemon.stop()

    def test_a_slow_loris_is_closed_whatever_it_drips(self):
        daemon = self.daemon("--frame-timeout-ms", "1500", "--hello-timeout-ms", "1500")
        greeting = Peer(daemon.path, hello=False)
        dripping = daemon.peer()
        self.addCleanup(greeting.close)
        self.addCleanup(dripping.close)
        # Half a hello, and a body of a discover, byte by byte.
        parts = [(greeting, iter(bytes.fromhex("940001a568656c6c6f91") * 9)),
                 (dripping, iter(bytes.fromhex("940002a8646973636f76657291" "82a5696e646578a172"
                                               "a57365656473c600100000") + bytes(1000)))]
        begin = time.monotonic()
        open_ = dict.fromkeys(range(2), True)
        while any(open_.values()) and time.monotonic() - begin < 10 * SLOWER:
            for i, (peer, data) in enumerate(parts):
                try:
                    if open_[i]:
                        peer.send_bytes(bytes([next(data)]))
                        open_[i] = not peer.closed(0.02)
                except OSError:
                    open_[i] = False
            time.sleep(0.05)
        self.assertFalse(any(open_.values()), open_)
        with daemon.peer() as peer:
            self.assertEqual(peer.call("health")["state"], "ready")
        daemon.stop()

    def test_tcp_peers_are_asked_whether_they_live(self):
        daemon = self.daemon("--listen", "127.0.0.1:0", "--address-file", self.path("a"))
        with open(self.path("a"), encoding="ascii") as file:
            port = int(file.read().split(":")[-1])
        with Peer(("127.0.0.1", port)) as peer:
            local = peer.socket.getsockname()[1]
            # Both ends are on this machine: the daemon's is the one whose peer is ours.
            shown = subprocess.run(["ss", "-tnoH", "sport", "=", ":%d" % port], text=True,
                                   capture_output=True, check=True).stdout
            line = next(l for l in shown.splitlines() if l.split()[4].endswith(":%d" % local))
            self.assertIn("keepalive", line)
        daemon.stop()


class WatchdogTest(hspz_test.TestCase):
    def test_the_watchdog_is_fed_only_while_lanes_answer(self):
        self.addCleanup(setattr, hspz_test, "HSPZD", hspz_test.HSPZD)
        hspz_test.HSPZD = os.path.join(hspz_test.BUILD, "tests", "system", "failing_hspzd")
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.bind(self.path("notify"))
        self.addCleanup(receiver.close)
        text = bases(random.Random(4), 3000)
        daemon = self.daemon(indexes={"r": self.index([("r", text)])}, env=child_env(
            NOTIFY_SOCKET=self.path("notify"), WATCHDOG_USEC="3000000", HSPZ_HANG_CAP="77"))

        def fed(seconds, enough=1000):
            """How often, within the time; no longer than until it was often enough."""
            end, count = time.monotonic() + seconds, 0
            while time.monotonic() < end and count < enough:
                receiver.settimeout(max(end - time.monotonic(), 0.01))
                try:
                    count += b"WATCHDOG=1" in receiver.recv(4096)
                except TimeoutError:
                    pass
            return count
        self.assertEqual(fed(10 * SLOWER, 2), 2)
        with daemon.peer() as peer:
            peer.call("discover", index="r", query={"bases": text.encode()})
            self.assertEqual(fed(10 * SLOWER, 2), 2)
            peer.request("discover", index="r", query={"bases": text.encode()}, max_hits=77)
            self.assertTrue(poll(lambda: "a lane does not answer" in daemon.log()))
            fed(0.5)  # what was sent before that
            # The loop still answers, but a lane does not.
            self.assertEqual(peer.call("health")["state"], "ready")
            self.assertEqual(fed(3.2), 0)
        daemon.process.kill()


class LogTest(hspz_test.TestCase):
    def lines(self, daemon):
        return [json.loads(line) for line in daemon.log().splitlines()]

    def test_the_access_log_follows_each_request_from_its_coming_to_its_end(self):
        files = {"r": self.index([("r", "A" * 5000)])}
        daemon = self.daemon("--access-log", "yes", "--log-format", "json", "--log-level", "debug",
                             "--listen", "127.0.0.1:0", "--address-file", self.path("a"),
                             indexes=files)
        with open(self.path("a"), encoding="ascii") as file:
            port = int(file.read().split(":")[-1])
        with daemon.peer() as peer:
            peer.call("health")
            job = peer.request("discover", index="r", query={"bases": b"A" * 100})
            peer.result(job)
            bad = peer.request("no.such\nmethod")
            self.assertEqual(peer.response(bad)[0]["code"], "unknown_method")
            load = peer.request("index.load", index="x", file=self.path("none"))
            self.assertEqual(peer.response(load)[0]["code"], "io_error")
            gone = peer.request("discover", index="r", query={"bases": b"A" * 4000})
            # Left while it runs, which the log alone tells: what is sent comes in its own time.
            self.assertTrue(poll(lambda: daemon.log().count('"job begun"') == 2))
        with Peer(("127.0.0.1", port)) as peer:
            peer.call("health")
        daemon.stop()
        lines = self.lines(daemon)
        hello = [l for l in lines if l["message"] == "hello"]
        conn = next(l["conn"] for l in lines if l["message"] == "request" and l["id"] == job and
                    l["method"] == "discover")
        mine = [l for l in lines if l.get("conn") == conn]
        self.assertEqual(next(l["peer"] for l in hello if l["conn"] == conn).split(",")[0],
                         "uid:%d" % os.geteuid())
        self.assertTrue(hello[-1]["peer"].startswith("tcp:127.0.0.1:"), hello[-1])
        self.assertEqual({l["id"]: (l["method"], l["status"]) for l in mine
                          if l["message"] == "request" and l["id"] > 1},
                         {2: ("health", "ok"), job: ("discover", "ok"),
                          bad: ("no.such\nmethod", "unknown_method"),
                          load: ("index.load", "io_error"), gone: ("discover", "cancelled")})
        self.assertEqual([l["message"] for l in mine if l.get("job") == job],
                         ["job queued", "job begun", "job done"])
        self.assertEqual([l["message"] for l in mine if l.get("job") == gone],
                         ["job queued", "job begun", "job ended"])
        self.assertEqual([l["message"] for l in mine if l["message"] == "connection closed"],
                         ["connection closed"])
        self.assertEqual(mine[0]["message"], "connection accepted")
        self.assertEqual(mine[0]["peer"], next(l["peer"] for l in hello if l["conn"] == conn))

    def test_without_it_requests_leave_no_lines(self):
        daemon = self.daemon()
        with daemon.peer() as peer:
            for _ in range(20):
                peer.call("health")
        daemon.stop()
        for word in ("request", "hello", "accepted"):
            self.assertNotIn(word, daemon.log())


class ClientTest(hspz_test.TestCase):
    """What hspz-client makes of a busy server."""

    def setUp(self):
        super().setUp()
        self.text = bases(random.Random(9), 4000)
        self.files = {"r": self.index([("r", self.text + "A" * 3000)])}
        self.query = self.file("q.fa", ">q\n%s\n" % self.text[:500])
        self.deaf = {"index": "r", "query": {"bases": b"A" * 3000}}

    def test_a_full_server_is_waited_for_when_asked(self):
        daemon = self.daemon("--max-all-jobs", "1", indexes=self.files)
        with daemon.peer() as peer:
            peer.request("discover", self.deaf)
            self.assertTrue(poll(lambda: peer.socket.recv(1, socket.MSG_PEEK)))
            out = daemon.client("discover", "r", self.query, check=1)
            self.assertIn("at most 1 may", out.stderr)
            self.assertLessEqual(out.stdout.count("\n"), 1)  # the header
            begin = time.monotonic()
            daemon.client("--wait", "2", "discover", "r", self.query, check=1)
            self.assertGreater(time.monotonic() - begin, 1.5)
            waiting = subprocess.Popen(
                [hspz_test.CLIENT, "--server", daemon.server, "--wait", "-1", "discover", "r",
                 self.query], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_env())
            refused = daemon.jobs()["refused"]
            self.assertTrue(poll(lambda: daemon.jobs()["refused"] > refused + 1))
            self.assertIsNone(waiting.poll())
        out, errors = waiting.communicate(timeout=30 * SLOWER)
        self.assertEqual(waiting.returncode, 0, errors)
        self.assertGreater(out.count(b"\n"), 400)
        self.assertEqual(out, daemon.client("discover", "r", self.query, text=False).stdout)
        daemon.stop()

    def test_waiting_for_room_is_stopped_by_a_signal(self):
        daemon = self.daemon("--max-all-jobs", "1", indexes=self.files)
        with daemon.peer() as peer:
            peer.request("discover", self.deaf)
            self.assertTrue(poll(lambda: peer.socket.recv(1, socket.MSG_PEEK)))
            waiting = subprocess.Popen(
                [hspz_test.CLIENT, "--server", daemon.server, "--wait", "-1", "discover", "r",
                 self.query], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_env())
            self.assertTrue(poll(lambda: daemon.jobs()["refused"] > 0))
            waiting.send_signal(signal.SIGINT)
            _, errors = waiting.communicate(timeout=10 * SLOWER)
            self.assertEqual(waiting.returncode, 1)
            self.assertIn(b"stopped", errors)
        daemon.stop()

    def test_a_drain_is_followed_to_its_end(self):
        daemon = self.daemon(indexes=self.files)
        with daemon.peer() as peer:
            job = peer.request("discover", self.deaf)
            daemon.wait_jobs(running=1)
            out = daemon.client("drain", "--no-wait", check=0).stdout
            self.assertRegex(out, r"^draining: 1 jobs, 0 loads, [23] connections\n$")
            # Nobody else gets in any more, and a signal to end it asks for the same again.
            self.assertIn("not running", daemon.client("drain", check=1).stderr)
            daemon.process.send_signal(signal.SIGTERM)
            self.assertTrue(poll(lambda: "name=SIGTERM" in daemon.log()))
            self.assertGreater(peer.result(job)["anchors"], 2982 * 2981)
        self.assertEqual(daemon.process.wait(30 * SLOWER), 0)
        for busy in (True, False):
            daemon = self.daemon(indexes=self.files)
            with daemon.peer() as peer:
                if busy:
                    job = peer.request("discover", self.deaf)
                    daemon.wait_jobs(running=1)
                process = subprocess.Popen(
                    [hspz_test.CLIENT, "--server", daemon.server, "--timeout", "3", "drain"],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_env())
                lines = []
                if busy:
                    lines.append(process.stdout.readline())
                    self.assertRegex(lines[0], rb"^draining: 1 jobs, 0 loads, 2 connections\n$")
                    time.sleep(3.5)  # it asks again, and has nothing new to say
                    self.assertIsNone(process.poll())
                    self.assertTrue(poll(lambda: re.search(
                        r"info draining jobs=1 connections=2 parts=\d+", daemon.log())))
                    self.assertGreater(peer.result(job)["anchors"], 2982 * 2981)
                out, errors = process.communicate(timeout=60 * SLOWER)
                self.assertEqual((process.returncode, errors), (0, b""))
                self.assertEqual(out.splitlines()[-1], b"drained")
            self.assertEqual(daemon.process.wait(30 * SLOWER), 0)

    def test_a_drain_that_is_cut_short_is_a_failure(self):
        daemon = self.daemon(indexes=self.files)
        with daemon.peer() as peer:
            peer.request("discover", self.deaf)
            daemon.wait_jobs(running=1)
            process = subprocess.Popen([hspz_test.CLIENT, "--server", daemon.server, "drain"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_env())
            self.assertRegex(process.stdout.readline(), rb"^draining: 1 jobs")
            for count in (1, 2):
                daemon.process.send_signal(signal.SIGTERM)
                self.assertTrue(poll(lambda count=count: daemon.log().count("name=SIGTERM") == count))
            out, errors = process.communicate(timeout=60 * SLOWER)
            self.assertEqual((process.returncode, out), (1, b""))
            self.assertIn(b"the server ended before it was drained", errors)
        self.assertEqual(daemon.process.wait(30 * SLOWER), 0)

    def test_a_priority_is_taken_or_refused(self):
        daemon = self.daemon(indexes=self.files)
        plain = daemon.client("discover", "r", self.query, check=0).stdout
        self.assertEqual(daemon.client("discover", "r", self.query, "--priority", "9",
                                       check=0).stdout, plain)
        self.assertGreater(plain.count("\n"), 400)
        for wrong in ("10", "-1", "x"):
            out = daemon.client("discover", "r", self.query, "--priority", wrong, check=2)
            self.assertIn("--priority", out.stderr)
        daemon.stop()

    def test_top_prints_once_what_stats_says(self):
        daemon = self.daemon(indexes=self.files)
        for _ in range(3):
            daemon.client("discover", "r", self.query, check=0)
        with daemon.peer() as peer:
            peer.request("discover", self.deaf)
            self.assertTrue(poll(lambda: peer.socket.recv(1, socket.MSG_PEEK)))
            for args in ((), ("--once",)):
                out = daemon.client("top", *args, check=0).stdout
                self.assertNotIn("\033", out)
                lines = out.splitlines()
                self.assertRegex(lines[0], r"^hspzd \S+, cpu, ready for 0:0\d:\d\d, 2 of 1024 "
                                           r"connections, 1 jobs running, 0 waiting$")
                for title, name in (("TENANT", "(everybody)"), ("INDEX", "r"), ("DEVICE", "0 cpu")):
                    at = next(i for i, line in enumerate(lines) if line.startswith(title))
                    self.assertTrue(lines[at + 1].startswith(name), lines)
                    self.assertRegex(lines[at + 1], r" 1 +0 +\S+ +\S+ +\S+ +\d+% +<\S+ +<\S+$")
        daemon.stop()

    def top(self, daemon):
        """In a terminal: its process, the terminal's other end, and what it showed."""
        import pty
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        process = subprocess.Popen([hspz_test.CLIENT, "--server", daemon.server, "top", "--every",
                                    "0.2"], stdout=slave, stderr=slave, env=child_env())
        os.close(slave)
        seen = b""
        while seen.count(b"TENANT") < 3:
            seen += os.read(master, 65536)
        return process, master, seen

    def test_top_tells_of_the_servers_end_where_it_can_be_read(self):
        daemon = self.daemon(indexes=self.files)
        process, master, seen = self.top(daemon)
        daemon.stop()
        while not re.search(rb"hspz-client: .*\n", seen):
            seen += os.read(master, 65536)
        self.assertEqual(process.wait(10 * SLOWER), 1)
        self.assertRegex(seen, rb"\033\[\?1049lhspz-client: unix:.*\n$")

    def test_top_refreshes_in_a_terminal_and_leaves_it_as_it_was(self):
        daemon = self.daemon(indexes=self.files)
        process, master, seen = self.top(daemon)
        process.send_signal(signal.SIGINT)
        while not seen.endswith(b"\033[?1049l"):
            seen += os.read(master, 65536)
        self.assertEqual(process.wait(10 * SLOWER), 0)
        self.assertTrue(seen.startswith(b"\033[?1049h\033[?25l"))
        self.assertTrue(seen.endswith(b"\033[?25h\033[?1049l"))
        self.assertRegex(seen, rb"ready for 0:0\d:\d\d")
        daemon.stop()


if __name__ == "__main__":
    hspz_test.main()
