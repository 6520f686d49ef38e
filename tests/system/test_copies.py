"""What is copied on a record's way: nothing of a payload between the engine and the socket, nor between
the socket and the callback, and writes are large."""

import os
import random
import re
import subprocess
import unittest

import hspz_test
from hspz_test import bases, child_env

COUNT_COPIES = os.path.join(hspz_test.BUILD, "tests", "system", "count_copies.so")
MIB = 1 << 20


@unittest.skipIf(hspz_test.SANITIZED, "a preloaded library")
class CopiesTest(hspz_test.TestCase):
    def setUp(self):
        super().setUp()
        rng = random.Random(2)
        # Poly-A meets itself everywhere: 64 MiB of anchors in a moment.
        self.query = self.file("q.fa", ">q\n" + "A" * 2900 + "\n")
        self.index_file = self.index([("r", "A" * 2900 + bases(rng, 1000))])

    def env(self, name):
        return child_env(LD_PRELOAD=COUNT_COPIES, HSPZ_COPIES=self.path(name))

    def copied(self, name):
        with open(self.path(name), encoding="ascii") as file:
            return int(file.read())

    def discover(self, *options, idle=False):
        """(bytes that came, copied by the daemon, by the client)"""
        daemon = self.daemon(env=self.env("daemon"), indexes={"ref": self.index_file})
        out = self.path("out")
        if not idle:
            daemon.client("discover", "ref", self.query, "--strand", "plus", "--no-transitions",
                          "--format", "packed", "-o", out, *options, env=self.env("client"),
                          check=0)
        daemon.stop()
        return (0 if idle else os.path.getsize(out), self.copied("daemon"),
                0 if idle else self.copied("client"))

    def test_the_counter_counts(self):
        """A program that copies is found out."""
        program = "import array; a = array.array('B', bytes(9 << 20)); b = a[:]"
        subprocess.run(["/usr/bin/python3", "-c", program], env=self.env("python"), check=True)
        self.assertGreater(self.copied("python"), 9 * MIB - 1)

    def test_no_payload_is_copied_by_daemon_or_client(self):
        _, still, _ = self.discover(idle=True)
        for options in ([], ["--no-digest"], ["--transport", "stream"], ["--transport", "shm"]):
            size, daemon, client = self.discover(*options)
            self.assertGreater(size, 60 * MIB)
            self.assertLess(daemon - still, MIB)
            self.assertLess(client, MIB // 2)

    def test_nobody_copies_columns_that_are_wanted_as_they_are(self):
        _, still, _ = self.discover(idle=True)
        for options in (["--transport", "stream"], ["--transport", "shm"],
                        ["--transport", "shm", "--no-digest"]):
            size, daemon, client = self.discover("--format", "columns", *options)
            self.assertGreater(size, 30 * MIB)
            self.assertLess(daemon - still, MIB)
            self.assertLess(client, MIB // 2)

    def test_columns_are_written_once_and_decoded_once(self):
        _, still, _ = self.discover(idle=True)
        for transport in ("stream", "shm"):
            size, daemon, client = self.discover("--encoding", "columnar", "--transport", transport)
            self.assertGreater(size, 60 * MIB)
            self.assertLess(daemon - still, MIB)
            self.assertLess(client, MIB)

    def writes(self, *options):
        """(sizes of the daemon's writes, what strace said)"""
        log = self.path("strace")
        daemon = self.daemon(prefix=[hspz_test.tool("strace"), "-D", "-f", "-qq", "-o", log, "-e",
                                     "trace=write,writev,sendmsg,sendto"],
                             indexes={"ref": self.index_file})
        daemon.client("discover", "ref", self.query, "--strand", "plus", "--no-transitions",
                      "--format", "packed", "-o", self.path("out"), *options, check=0)
        daemon.stop()
        with open(log, encoding="utf-8", errors="replace") as file:
            text = file.read()
        os.unlink(log)
        return [int(n) for n in re.findall(
            r"(?:write|writev|sendmsg|sendto)(?:\(| resumed).*= (\d+)$", text, re.M)], text

    def test_a_part_is_one_write_and_columns_are_half_the_bytes(self):
        sent = {}
        for encoding in ("packed", "columnar"):
            sizes, text = self.writes("--encoding", encoding, "--transport", "stream")
            large = [n for n in sizes if n >= 4096]
            sent[encoding] = sum(large)
            # A socket takes what its buffer has room for; what is written is no smaller than that.
            self.assertGreater(sum(large) / len(large), 100000, sorted(large)[:10])
            # Header and payload go in one call.
            self.assertGreater(len(re.findall(r"iov_len=1048\d\d\d", text)), 20)
        self.assertGreater(sent["packed"], 60 * MIB)
        self.assertLess(sent["columnar"], 0.51 * sent["packed"])

    def test_nothing_of_a_payload_is_written_where_memory_is_shared(self):
        sizes, _ = self.writes()
        self.assertGreater(os.path.getsize(self.path("out")), 60 * MIB)
        self.assertGreater(len(sizes), 60)
        self.assertLess(max(sizes), 4096)


if __name__ == "__main__":
    hspz_test.main()
