"""Each call of libuv that the daemon makes failing once, over a short session: the daemon ends by itself
and says why, or serves on; no accepted job is lost, and nothing is left at the end."""

import collections
import errno
import os
import random
import re
import ssl
import time

import hspz_test
from hspz_test import SLOWER, Peer, RpcError, bases, child_env, poll
from test_tls import Authority

UV_HSPZD = os.path.join(hspz_test.BUILD, "tests", "system", "uv_hspzd")
# A peer whose connection it was may see these.
GONE = (OSError, EOFError, RpcError)


class UvTest(hspz_test.TestCase):
    context = None

    def setUp(self):
        super().setUp()
        self.addCleanup(setattr, hspz_test, "HSPZD", hspz_test.HSPZD)
        hspz_test.HSPZD = UV_HSPZD
        self.text = bases(random.Random(8), 900)
        self.good = self.index([("r", self.text + "A" * 2000)], "--seed", "11101101101")
        self.want = hspz_test.discover([("r", self.text + "A" * 2000)], [("q", self.text[:300])],
                                       shape="11101101101")
        self.config = {"indexes": {"ref": self.good}, "listen": ["127.0.0.1:0"],
                       "idle_unload_s": 3600, "access_log": "yes", "max_jobs": 4}

    def start(self, failing=""):
        return self.daemon(config=self.config, wait=False, env=child_env(
            HSPZ_FAIL_UV=failing, HSPZ_UV_COUNTS=self.path("counts")))

    def counts(self):
        with open(self.path("counts"), encoding="ascii") as file:
            return collections.OrderedDict((name, int(count)) for name, count in
                                           (line.split() for line in file))

    def peer(self, where, **more):
        """Over TCP with TLS, where that is spoken."""
        return Peer(where, timeout=20, context=self.context if isinstance(where, tuple) else None,
                    **more)

    def query(self):
        return {"bases": self.text[:300].encode()}

    def ask(self, where):
        """Whether a fresh connection there gets the right answer."""
        try:
            with self.peer(where) as peer:
                data = peer.discover("ref", query=self.query())[1]
        except GONE:
            return False
        self.assertEqual(data, self.want)
        return True

    def talk(self, where):
        """A session with all that moves handles: jobs, one after another and one that has to wait
        for its reader, a deadline, a load, an unload, a wrong word. Any of it may be cut short."""
        with self.peer(where) as peer:
            numbers = [peer.request("discover", index="ref", query=self.query()) for _ in range(3)]
            for number in numbers:
                self.assertEqual(peer.anchors(number)[1], self.want)
            deaf = peer.request("discover", index="ref", query={"bases": b"A" * 2000})
            late = peer.request("discover", index="ref", query=self.query(), deadline_ms=30)
            time.sleep(0.1)  # not reading
            codes = {}
            while len(codes) < 2:
                message = peer.receive()
                if message[0] == 1:
                    codes[message[1]] = message[2] and message[2]["code"]
            self.assertEqual(codes, {late: "deadline_exceeded", deaf: None})
            if peer.welcome["role"] == "operator":
                peer.call("index.load", index="again", file=self.good)
                peer.call("index.unload", index="again")
        with self.peer(where, hello=False) as peer:
            peer.error("hello", protocol=9)
            self.assertTrue(peer.closed())

    def session(self, daemon):
        for where in (daemon.path, ("127.0.0.1", daemon.port())):
            try:
                self.talk(where)
            except TimeoutError:
                raise
            except GONE:
                pass

    def run_with(self, failing=""):
        """True when the daemon served to its end."""
        daemon = self.start(failing)
        ready = poll(lambda: " ready" in daemon.log() or not daemon.alive(), 30)
        self.assertTrue(ready, daemon.log())
        if daemon.alive():
            self.session(daemon)
            # What failed once works the next time.
            for where in (daemon.path, ("127.0.0.1", daemon.port())):
                self.assertTrue(poll(lambda where=where: self.ask(where), 10), daemon.log())
            daemon.stop(expect=0)
            self.assertIn("ended status=ok", daemon.log())
            queued, ended = (re.findall(pattern + r".* (conn=\d+ job=\d+) ", daemon.log())
                             for pattern in ("job queued", "job (?:done|ended)"))
            self.assertEqual(sorted(queued), sorted(ended))
            served = True
        else:
            self.assertEqual(daemon.process.wait(10 * SLOWER), 1, daemon.log())
            self.assertRegex(daemon.log(), " error (cannot start|.*index)")
            served = False
        for word in ("a handle was left", "Sanitizer", "runtime error", "broken promise"):
            self.assertNotIn(word, daemon.log())
        if self.counts()["failed"] and "idle" not in failing:  # the handshake is then done at once
            # In the log a peer that cannot be named is a question mark.
            self.assertRegex(daemon.log(), r"ENOMEM|EINVAL|not enough memory|invalid argument|peer=\?")
        if os.path.exists(daemon.path):
            self.fail("the socket is left")
        os.unlink(daemon.log_path)
        return served

    def fail_each(self, *names):
        """Fails each call of these functions, or of all; (served to the end, ended by itself)."""
        self.assertTrue(self.run_with())
        counts = self.counts()
        self.assertEqual(counts.pop("failed"), 0)
        unused = [] if self.context else ["idle_start"]  # of TLS handshakes
        self.assertEqual([name for name, count in counts.items() if count == 0], unused)
        served, ended, failed = 0, 0, 0
        for name in names or counts:
            count = counts[name]
            numbers = range(1, count + 1) if count <= 12 else [1, 2, 3, count // 2, count]
            for number in numbers:
                for code in (-errno.ENOMEM, -errno.EINVAL):
                    if code == -errno.EINVAL and number % 2:
                        continue
                    with self.subTest(call=name, number=number, code=code):
                        good = self.run_with("%s:%d:%d" % (name, number, code))
                        served, ended = served + good, ended + (not good)
                        failed += self.counts()["failed"]
        # How often a stream is written to differs from run to run.
        self.assertGreater(failed, 0.9 * (served + ended))
        return served, ended

    def test_whatever_call_fails_nothing_is_lost(self):
        served, ended = self.fail_each()
        self.assertGreater(served, 20)
        self.assertGreater(ended, 8)

    def test_nor_where_tls_is_spoken(self):
        hspz_test.need_tls()
        authority = Authority(self.folder, "ca")
        self.context = ssl.create_default_context(cafile=authority.certificate)
        self.config["tls_certificate"], self.config["tls_key"] = authority.sign("server")
        served, _ = self.fail_each("accept", "idle_start", "read_start", "shutdown", "tcp_init",
                                   "write")
        self.assertGreater(served, 20)


if __name__ == "__main__":
    hspz_test.main()
