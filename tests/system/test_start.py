"""Sockets, readiness and the first contact: stale and foreign paths, second daemons, handed-over
sockets, slow loads, servers that are not there or not whole."""

import os
import random
import re
import socket
import stat
import subprocess
import sys
import time
import unittest


import hspz_test
from hspz_test import CLIENT, SLOWER, Peer, Relay, bases, child_env, client, poll

SLOW_READS = os.path.join(hspz_test.BUILD, "tests", "system", "slow_reads.so")


class StartTest(hspz_test.TestCase):
    def small_index(self):
        return self.index([("r", bases(random.Random(2), 500))], name="small")

    def refused_start(self, *args, path=None, seconds=5):
        """Starts a daemon that must fail; returns what it says."""
        begin = time.monotonic()
        daemon = self.daemon(*args, wait=False, socket_path=path)
        status = daemon.process.wait(seconds * SLOWER)
        self.assertNotEqual(status, 0)
        self.assertLess(time.monotonic() - begin, seconds * SLOWER)
        return daemon.log()


class PathTest(StartTest):
    def test_a_dead_socket_is_replaced(self):
        path = self.path("hspz.sock")
        dead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        dead.bind(path)
        dead.close()
        daemon = self.daemon()
        daemon.peer().close()
        daemon.stop()
        self.assertFalse(os.path.exists(path))

    def test_a_live_daemon_is_left_alone_and_named(self):
        first = self.daemon(indexes={"small": self.small_index()})
        inode = os.stat(first.path).st_ino
        begin = time.monotonic()
        # An index that is not there: the address is looked at before any index is.
        log = self.refused_start("--index", "x=" + self.path("absent.hspz"))
        self.assertLess(time.monotonic() - begin, 5 * SLOWER)
        self.assertIn(first.path, log)
        self.assertNotIn("absent", log)
        self.assertEqual(os.stat(first.path).st_ino, inode)
        first.peer().close()
        first.stop()

    def test_a_taken_port_is_named(self):
        first = self.daemon("--listen", "127.0.0.1:0")
        port = poll(lambda: re.search(r"127\.0\.0\.1:(\d+)", first.log())).group(1)
        log = self.refused_start("--listen", "127.0.0.1:" + port, "--index",
                                 "x=" + self.path("absent.hspz"), path=self.path("other.sock"))
        self.assertIn("127.0.0.1:" + port, log)
        self.assertNotIn("absent", log)
        self.assertFalse(os.path.exists(self.path("other.sock")))
        with Peer(("127.0.0.1", int(port))) as peer:
            peer.call("health")
        first.stop()

    def test_what_is_no_socket_is_never_removed(self):
        for name, make in (("file", lambda p: hspz_test.write(p, "mine")),
                           ("dir", os.mkdir),
                           ("link", lambda p: os.symlink(self.path("file"), p)),
                           ("dangling", lambda p: os.symlink(self.path("nothing"), p)),
                           ("fifo", os.mkfifo)):
            path = self.path(name)
            make(path)
            before = os.lstat(path)
            log = self.refused_start(path=path)
            self.assertIn(path, log)
            after = os.lstat(path)
            self.assertEqual((before.st_ino, before.st_mode), (after.st_ino, after.st_mode))
        with open(self.path("file"), encoding="ascii") as file:
            self.assertEqual(file.read(), "mine")

    def test_paths_that_cannot_be_are_named(self):
        for path in (self.path("no/such/dir/s.sock"), self.path("x" * 200)):
            self.assertIn(path[-50:], self.refused_start(path=path))

    def test_two_started_together_leave_one(self):
        daemons = [self.daemon(wait=False) for _ in range(4)]
        poll(lambda: sum(d.alive() for d in daemons) <= 1, 10)
        alive = [d for d in daemons if d.alive()]
        self.assertEqual(len(alive), 1)
        alive[0].wait_ready()
        alive[0].stop()

    def test_the_socket_is_its_users_alone_whatever_the_umask(self):
        for mask in (0o077, 0o000, 0o777):
            daemon = self.daemon(preexec_fn=lambda m=mask: os.umask(m) and None)
            self.assertEqual(stat.S_IMODE(os.stat(daemon.path).st_mode), 0o600)
            daemon.stop()

    def test_an_outsider_gets_one_clear_line(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        daemon = self.daemon()
        os.chmod(self.folder, 0o755)
        if subprocess.run(["test", "-x", CLIENT], preexec_fn=self.become_nobody).returncode:
            self.skipTest("another user cannot reach the build")
        done = daemon.client("health", check=1, preexec_fn=self.become_nobody)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1)
        self.assertIn("ermission denied", done.stderr)
        daemon.stop()

    @staticmethod
    def become_nobody():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    def test_addresses_that_are_not_loopback_are_refused(self):
        for address in ("0.0.0.0:0", "[::]:0"):
            self.assertIn(address.rsplit(":", 1)[0].strip("[]"),
                          self.refused_start("--listen", address))

    def test_loopback_over_tcp_is_warned_of(self):
        daemon = self.daemon("--listen", "127.0.0.1:0")
        self.assertRegex(daemon.log().lower(), "warn")
        daemon.stop()


class HandedOverTest(StartTest):
    """Sockets from systemd: never unlinked, matched by address, refused when they do not fit."""

    HAND_OVER = ("import os, sys\n"
                 "for i, fd in enumerate(map(int, sys.argv[1].split(','))):\n"
                 "    os.dup2(os.dup(fd), 3 + i) if fd != 3 + i else None\n"
                 "    os.set_inheritable(3 + i, True)\n"
                 "os.environ.update(LISTEN_PID=sys.argv[2] if sys.argv[2] != 'self' else "
                 "str(os.getpid()), LISTEN_FDS=str(len(sys.argv[1].split(','))))\n"
                 "os.execv(sys.argv[3], sys.argv[3:])\n")

    def hand_over(self, sockets, *args, pid="self", wait=True, socket_path=None):
        hspz_test.need_systemd()
        # High numbers, so that none is in the way of another.
        import fcntl
        fds = [fcntl.fcntl(s.fileno(), fcntl.F_DUPFD, 100) for s in sockets]
        try:
            return self.daemon(*args, wait=wait, pass_fds=fds, socket_path=socket_path, prefix=(
                sys.executable, "-c", self.HAND_OVER, ",".join(map(str, fds)), pid))
        finally:
            for fd in fds:
                os.close(fd)

    def listener(self, name="hspz.sock"):
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(self.path(name))
        listening.listen(16)
        self.addCleanup(listening.close)
        return listening

    def test_a_handed_over_socket_serves_and_stays(self):
        listening = self.listener()
        inode = os.stat(self.path("hspz.sock")).st_ino
        for _ in range(2):
            daemon = self.hand_over([listening])
            daemon.peer().close()
            daemon.stop()
            self.assertEqual(os.stat(self.path("hspz.sock")).st_ino, inode)

    def test_systemd_socket_activate_hands_over(self):
        hspz_test.need_systemd()
        activate = hspz_test.tool("systemd-socket-activate")
        path = self.path("hspz.sock")
        daemon = self.daemon(wait=False, prefix=(activate, "-l", path))
        daemon.wait_ready()
        daemon.stop()
        self.assertTrue(os.path.exists(path))

    def test_unix_and_tcp_are_told_apart(self):
        tcp = socket.socket()
        tcp.bind(("127.0.0.1", 0))
        tcp.listen(16)
        self.addCleanup(tcp.close)
        for order in (1, -1):
            daemon = self.hand_over([self.listener("s%d.sock" % order), tcp][::order],
                                    "--listen", "127.0.0.1:%d" % tcp.getsockname()[1],
                                    socket_path=self.path("s%d.sock" % order))
            daemon.peer().close()
            with Peer(tcp.getsockname()) as peer:
                peer.call("health")
            daemon.stop()

    def test_a_hand_over_meant_for_another_process_is_not_ours(self):
        listening = self.listener("theirs.sock")
        daemon = self.hand_over([listening], pid="1", socket_path=self.path("ours.sock"))
        daemon.peer().close()
        daemon.stop()
        self.assertFalse(os.path.exists(self.path("ours.sock")))
        self.assertTrue(os.path.exists(self.path("theirs.sock")))

    def test_what_is_no_listening_stream_socket_is_refused(self):
        dgram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        dgram.bind(self.path("dgram.sock"))
        plain = open(self.file("plain", "x"), "rb")
        self.addCleanup(plain.close)
        self.addCleanup(dgram.close)
        deaf = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        deaf.bind(self.path("deaf.sock"))
        self.addCleanup(deaf.close)
        for bad in (dgram, plain, deaf):
            daemon = self.hand_over([bad], wait=False)
            self.assertNotEqual(daemon.process.wait(10 * SLOWER), 0)
            self.assertTrue(daemon.log())


@unittest.skipIf(hspz_test.SANITIZED, "a preloaded library")
class LoadingTest(StartTest):
    """A disk on which the index takes a few seconds to read."""

    def slow(self, ms, **more):
        env = child_env(LD_PRELOAD=SLOW_READS, HSPZ_SLOW_READ_MS=str(ms), **more)
        return self.daemon(indexes={"small": self.small_index()}, wait=False, env=env)

    def test_wait_has_three_outcomes(self):
        nobody = "unix:" + self.path("nobody.sock")
        none = client("--server", nobody, "--wait", "0", "index", "list", check=1)
        self.assertIn(self.path("nobody.sock"), none.stderr)
        gate = self.file("gate", "")
        daemon = self.slow(10, HSPZ_SLOW_READ_WHILE=gate)
        daemon.wait_listening()
        with daemon.peer() as peer:
            health = peer.call("health")
            self.assertEqual(health["state"], "loading", health)
            begin = time.monotonic()
            loading = daemon.client("--wait", "1", "index", "list", check=1)
            self.assertLess(time.monotonic() - begin, 3 * SLOWER)
            self.assertIn("loading", loading.stderr)
            self.assertRegex(loading.stderr, r"\d+(\.\d+)? ?%")
            self.assert_code(peer.error("discover", index="small", seeds=b""), "not_ready")
            os.unlink(gate)
            # The states are never taken back.
            ready = daemon.client("--wait", "60", "index", "list", check=0)
            self.assertIn("small", ready.stdout)
            self.assertEqual(peer.call("health")["state"], "ready")
        daemon.stop()

    def test_wait_finds_a_server_that_comes_up_late(self):
        process = subprocess.Popen([CLIENT, "--server", "unix:" + self.path("hspz.sock"), "--wait",
                                    "60", "health"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=child_env())
        time.sleep(0.7)
        self.assertIsNone(process.poll())
        daemon = self.daemon()
        out, errors = process.communicate(timeout=30 * SLOWER)
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn(b"ready", out)
        daemon.stop()

    def notices(self, address, ms):
        hspz_test.need_systemd()
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.bind(address.replace("@", "\0"))
        receiver.settimeout(20 * SLOWER)
        self.addCleanup(receiver.close)
        daemon = self.slow(ms, NOTIFY_SOCKET=address)
        seen, times = [], []
        while not any("READY=1" in text for text in seen):
            seen.append(receiver.recv(4096).decode())
            times.append(time.monotonic())
            if "READY=1" not in seen[-1]:
                self.assertIsNone(daemon.process.poll(), daemon.log())
        # Ready means bound and loaded.
        with daemon.peer() as peer:
            peer.call("index.describe", index="small")
        daemon.stop()
        receiver.setblocking(False)
        try:
            while True:
                seen.append(receiver.recv(4096).decode())
        except BlockingIOError:
            pass
        return seen, times

    def test_systemd_is_told_progress_readiness_and_the_end(self):
        seen, times = self.notices(self.path("notify"), 300)
        before = seen[:[i for i, text in enumerate(seen) if "READY=1" in text][0]]
        self.assertTrue(any(re.search(r"STATUS=.*\d", text) for text in before), seen)
        self.assertTrue(any(re.search(r"EXTEND_TIMEOUT_USEC=\d+", text) for text in before), seen)
        asked = [int(n) for n in re.findall(r"EXTEND_TIMEOUT_USEC=(\d+)", "\n".join(before))]
        self.assertLess(max(b - a for a, b in zip(times, times[1:])), min(asked) / 1e6)
        self.assertTrue(any("STOPPING=1" in text for text in seen), seen)

    def test_an_abstract_notify_socket_works(self):
        seen, _ = self.notices("@hspz-test-%d" % os.getpid(), 1)
        self.assertTrue(any("STOPPING=1" in text for text in seen), seen)

    def test_no_more_time_is_asked_for_while_stuck(self):
        hspz_test.need_systemd()
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.bind(self.path("notify"))
        receiver.settimeout(4)
        self.addCleanup(receiver.close)
        daemon = self.slow(3600000, NOTIFY_SOCKET=self.path("notify"))
        daemon.wait_listening()
        # It has asked for the last time once it asks for nothing in the time of a few requests.
        end = time.monotonic() + 30 * SLOWER
        said, quiet = [], False
        while not quiet and time.monotonic() < end:
            try:
                said.append(receiver.recv(4096).decode())
            except TimeoutError:
                quiet = True
        self.assertTrue(quiet, said)
        self.assertFalse([text for text in said if "READY" in text])

    def test_killed_while_loading_then_started_again_serves(self):
        daemon = self.slow(300)
        daemon.wait_listening()
        time.sleep(0.3)
        daemon.process.kill()
        daemon.process.wait()
        again = self.daemon(indexes={"small": self.path("small.hspz")})
        again.stop()

    def test_a_signal_while_loading_stops(self):
        # As soon as there is an address, also.
        for _ in range(6):
            daemon = self.slow(50)
            while not os.path.exists(daemon.path):
                self.assertIsNone(daemon.process.poll(), daemon.log())
            daemon.stop(expect=0, seconds=10)
            self.assertFalse(os.path.exists(daemon.path))


class FailingLoadTest(StartTest):
    def test_a_bad_index_at_start_is_named_and_ends_the_start(self):
        path = self.file("bad.hspz", b"HSPZ" + bytes(5000))
        self.assertIn(path, self.refused_start("--index", "bad=" + path))
        self.assertFalse(os.path.exists(self.path("hspz.sock")))

    def test_an_absent_index_at_start_is_named(self):
        path = self.path("absent.hspz")
        self.assertIn(path, self.refused_start("--index", "x=" + path))


class FirstContactTest(StartTest):
    """Servers that are dead, mute, or talk nonsense: the client fails, in bounded time."""

    def fails(self, server, *args, seconds):
        begin = time.monotonic()
        done = client("--server", server, *args, "index", "list", timeout=seconds + 30, check=1)
        self.assertLess(time.monotonic() - begin, seconds * SLOWER)
        self.assertEqual(done.stdout, "")
        self.assertTrue(done.stderr.strip())
        self.assertNotIn("core dumped", done.stderr)
        return done.stderr

    def test_nothing_there(self):
        self.fails("unix:" + self.path("nobody.sock"), seconds=5)
        self.fails("unix:" + self.path("nobody.sock"), "--wait", "1", seconds=5)
        with socket.socket() as deaf:  # and nobody else gets its port meanwhile
            deaf.bind(("127.0.0.1", 0))
            port = deaf.getsockname()[1]
            self.assertIn(str(port), self.fails("tcp:127.0.0.1:%d" % port, seconds=5))

    def test_a_dead_socket_is_no_server(self):
        dead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        dead.bind(self.path("dead.sock"))
        dead.close()
        self.fails("unix:" + self.path("dead.sock"), seconds=5)

    def test_a_mute_server_is_given_up(self):
        with Relay(self.path("mute.sock"), lambda c: c.recv(1)) as relay:
            self.fails(relay.server, "--timeout", "2", seconds=10)

    def test_garbage_is_refused(self):
        for junk in (b"SSH-2.0-OpenSSH_9.2p1\r\n", bytes(100), b"\xff" * 100, b"\x91" * 100000,
                     b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x94\x01\x00\xc0\xc0",
                     b"\x94\x01\x07\xc0\x80", b""):
            def serve(connection, junk=junk):
                connection.recv(100)
                connection.sendall(junk)
                connection.close()
            path = self.path("junk%d.sock" % random.getrandbits(32))
            with Relay(path, serve) as relay:
                self.fails(relay.server, seconds=10)

    def test_a_server_is_named_by_environment_too(self):
        daemon = self.daemon()
        for env in (dict(HSPZ_SERVER=daemon.server), dict(XDG_RUNTIME_DIR=self.folder)):
            client("index", "list", env=child_env(**env), check=0)
        done = client("index", "list", env=child_env(XDG_RUNTIME_DIR=self.path("empty")))
        self.assertEqual(done.returncode, 1)
        self.assertIn("hspz.sock", done.stderr)
        daemon.stop()


class ShortAnswerTest(StartTest):
    """A proxy between a real daemon and a real client that loses part of the stream."""

    def through(self, daemon, cut_after):
        """A relay that closes cleanly after so many bytes from the server."""
        def serve(near):
            far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            far.connect(daemon.path)
            import select
            passed = 0
            with far, near:
                while True:
                    for ready in select.select([near, far], [], [])[0]:
                        data = ready.recv(65536)
                        if not data:
                            return
                        if ready is far:
                            data = data[:cut_after - passed]
                            passed += len(data)
                        (far if ready is near else near).sendall(data)
                        if passed >= cut_after:
                            return
        return Relay(self.path("relay%d.sock" % cut_after), serve)

    def test_a_stream_that_ends_early_is_a_failure_that_says_how_much_came(self):
        text = "A" * 1200
        index = self.index([("a", text)], name="poly")
        query = self.file("q.fa", ">q\n" + text + "\n")
        daemon = self.daemon("--part-bytes", "64K", indexes={"poly": index})
        args = ("discover", "poly", query, "--strand", "plus", "--no-transitions", "--format",
                "packed")
        whole = daemon.client(*args, check=0, text=False).stdout
        self.assertEqual(len(whole), 8 * 1182 * 1181)
        for cut in (400000, 3000000, len(whole)):
            with self.through(daemon, cut) as relay:
                done = client(*args, server=relay.server, check=1, text=False)
                self.assertEqual(done.stdout, whole[:len(done.stdout)])
                self.assertLess(len(done.stdout), len(whole))
                self.assertIn(str(len(done.stdout) // 8), done.stderr.replace(",", ""))
                self.assertNotIn("done", done.stderr)
        daemon.stop()

    def test_a_changed_byte_is_a_failure(self):
        text = bases(random.Random(9), 2000)
        index = self.index([("a", text)], name="ref")
        query = self.file("q.fa", ">q\n" + text + "\n")
        daemon = self.daemon(indexes={"ref": index})

        def serve(near):
            import select
            far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            far.connect(daemon.path)
            with far, near:
                while True:
                    for ready in select.select([near, far], [], [])[0]:
                        data = ready.recv(65536)
                        if not data:
                            return
                        at = data.find(b"anchors")
                        if ready is far and len(data) > 6000:
                            data = bytearray(data)
                            data[min(max(at, 0) + 4000, len(data) - 2000)] ^= 1
                        (far if ready is near else near).sendall(data)
        with Relay(self.path("relay.sock"), serve) as relay:
            out = self.path("out.u64")
            done = client("discover", "ref", query, "--format", "packed", "-o", out,
                          server=relay.server, check=1)
            self.assertRegex(done.stderr, "digest|does not|differ")
            self.assertFalse(os.path.exists(out))
        daemon.stop()


if __name__ == "__main__":
    hspz_test.main()
