"""Every allocation failing once, in the real programs: each run ends well or says what it lacks; none
crashes, hangs, or leaves a file under its name."""

import gzip
import os
import random
import re
import signal
import struct
import subprocess
import unittest

import hspz_test
from hspz_test import CLIENT, bases, child_env, fasta, poll

FAIL_ALLOC = os.path.join(hspz_test.BUILD, "tests", "system", "fail_alloc.so")
SHAPE = "11101"


@unittest.skipIf(hspz_test.SANITIZED, "a preloaded library")
class MemoryTest(hspz_test.TestCase):
    def setUp(self):
        super().setUp()
        self.text = bases(random.Random(1), 400)
        records = fasta([("a", self.text[:250]), ("b", self.text[250:])])
        self.ref = self.file("ref.fa.gz", gzip.compress(records.encode()))
        self.two = self.file("ref.2bit", hspz_test.twobit([("a", self.text)]))
        self.good = hspz_test.build_index(self.ref, self.path("good.hspz"), "--seed", SHAPE)

    def env(self, number=0):
        return child_env(LD_PRELOAD=FAIL_ALLOC, HSPZ_FAIL_ALLOC=str(number),
                         HSPZ_ALLOC_COUNT=self.path("count"))

    def counted(self):
        with open(self.path("count"), encoding="ascii") as file:
            return int(file.read())

    def numbers(self, total):
        """Every allocation, or a spread of them where there are very many."""
        return range(1, total + 1) if total <= 400 else sorted(
            set(range(1, 200)) | set(random.Random(total).sample(range(1, total + 1), 200)))

    def take(self, path):
        with open(path, "rb") as file:
            data = file.read()
        os.unlink(path)
        return data

    def every_allocation(self, command, output=None, failure=1):
        run = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                   timeout=60)
        whole = subprocess.run(command, env=self.env(), check=True, **run)
        want = self.take(output) if output else None
        total = self.counted()
        self.assertGreater(total, 10)
        failed = 0
        for number in self.numbers(total):
            done = subprocess.run(command, env=self.env(number), check=False, **run)
            what = "%s with allocation %d of %d failing: %r" % (command[1:3], number, total, done)
            self.assertIn(done.returncode, (0, failure), what)
            if done.returncode == failure:
                failed += 1
                self.assertTrue(done.stderr.strip(), what)
            else:
                self.assertEqual(re.sub(rb"uptime_ms.*", b"", done.stdout),
                                 re.sub(rb"uptime_ms.*", b"", whole.stdout), what)
            if output and (done.returncode == 0 or os.path.exists(output)):
                # The last thing that can fail is to sync the folder of a whole file.
                self.assertEqual(self.take(output), want, what)
                self.assertTrue(done.returncode == 0 or b"is written" in done.stderr, what)
            if output:
                self.assertEqual([n for n in os.listdir(self.folder)
                                  if os.path.basename(output) in n], [], what)
        self.assertGreater(failed, 5)

    def test_align_compare_and_partition(self):
        lines = "a 1 30 a 1 30 + 5\nb 1 30 a 5 34 - 7\na 200 230 b 100 130 + 9\n"
        segments = self.file("s.segments", lines)
        # Its own programs are not under test: a sed that fails in its pipe would go unnoticed.
        program = self.file("lastz", "#!/bin/sh\nunset LD_PRELOAD\n"
                            "if [ \"$1\" = --version ]; then echo 'lastz (version 9 x)'; exit; fi\n"
                            "printf 'a score=9\\ns s0 0 4 + 250 ACGT\\ns s0 0 4 + 250 AC-T\\n\\n'"
                            " | sed 's/4 + 250 AC-T/3 + 250 AC-T/'\necho '# lastz end-of-file'\n")
        os.chmod(program, 0o755)
        scores = self.file("scores", "gap_open_penalty = 400\n")
        out = self.path("out.maf")
        self.every_allocation([CLIENT, "align", self.ref, self.ref, segments, "-o", out,
                               "--processes", "2", "--piece-cost", "1", "--reach", "100",
                               "--scoring", scores, "--lastz", program, "--work",
                               self.path("work")], out)
        self.every_allocation([CLIENT, "compare", segments, self.folder, "--list"], failure=2)
        commands = self.file("commands", "lastz --segments=%s 2> %s\n"
                             % (segments, segments.replace("segments", "err")))
        self.every_allocation([CLIENT, "partition", commands, "--segments", "1", "--keep"])

    def test_index_build(self):
        out = self.path("out.hspz")
        for source in (self.ref, self.two):
            self.every_allocation([CLIENT, "index", "build", source, "-o", out, "--seed", SHAPE,
                                   "--threads", "2"], out)

    def test_client_calls(self):
        daemon = self.daemon(indexes={"ref": self.good})
        to = [CLIENT, "--server", daemon.server]
        self.every_allocation(to + ["discover", "ref", self.ref])
        out = self.path("hits.u64")
        self.every_allocation(to + ["discover", "ref", self.ref, "--format", "packed", "-o", out],
                              out)
        for args in (["index", "list"], ["index", "describe", "ref"], ["health"]):
            self.every_allocation(to + args)
        daemon.stop()

    def test_a_client_with_several_servers(self):
        daemons = [self.daemon(indexes={"ref": self.good}, socket_path=self.path("s%d" % i))
                   for i in range(2)]
        names = self.file("servers", "".join(d.server + "\n" for d in daemons))
        out = self.path("hits.tsv")
        self.every_allocation([CLIENT, "--servers", names, "discover", "ref", self.ref, "-o", out],
                              out)
        self.every_allocation([CLIENT, "--server", daemons[0].server, "--server",
                               daemons[1].server, "hsps", "ref", self.ref])

    def test_daemon(self):
        self.daemons_with_a_failing_allocation()

    def test_daemon_with_tenants_and_metrics(self):
        if b"built without" in subprocess.run(
                [hspz_test.HSPZD, "--metrics", "127.0.0.1:0", "--socket", self.path("none"),
                 "--check-config"], capture_output=True, check=False).stderr:
            self.skipTest("built without libmicrohttpd")
        config = {"tenants": [{"name": "here", "role": "operator", "uids": [os.geteuid()],
                               "max_jobs": 9, "max_resident_bytes": "1G", "device_share": 90}],
                  "metrics": "127.0.0.1:0", "access_log": "yes", "log_level": "error",
                  "address_file": self.path("addresses")}
        self.daemons_with_a_failing_allocation(config)

    def test_daemon_with_filters(self):
        os.mkdir(self.path("filters"))
        self.daemons_with_a_failing_allocation({"filter_dir": self.path("filters"),
                                                "log_level": "error"}, self.ask_filters,
                                               [6, 6, [0, 3, 0], ["a", "b"], 6, 6])

    def daemons_with_a_failing_allocation(self, config=None, ask=None, want=None):
        """Start, some jobs, stop. Whatever fails, the daemon ends by itself or serves on."""
        # libuv ends the process itself when it has no memory for its signal pipe and thread pool,
        # which it makes once, before anything is served.
        aborted = 0
        ask = ask or self.ask
        want = want or hspz_test.discover([("a", self.text[:250]), ("b", self.text[250:])],
                                  [("q", self.text)], shape=SHAPE)
        total, served = None, 0
        for number in [0] + list(range(1, 1000)):
            if total is not None and number not in self.numbers(total):
                continue
            daemon = self.daemon(*(() if config else ("--log-level", "error")), config=config,
                                 indexes={"ref": self.good}, wait=False, env=self.env(number))
            answered = poll(lambda: ask(daemon) or not daemon.alive(), 10, 0.01)
            what = "allocation %d of %s: %s" % (number, total, daemon.log())
            self.assertTrue(answered, what)
            if daemon.alive():
                # What failed once works the next time.
                data = poll(lambda: ask(daemon), 5)
                self.assertEqual(data, want, what)
                served += 1
                daemon.stop(expect=None)
            elif daemon.process.returncode == -signal.SIGABRT and not daemon.log():
                aborted += 1
                self.assertLessEqual(aborted, 8, what)
                self.clear(daemon.path)
                continue
            self.assertIn(daemon.process.returncode, (0, 1), what)
            if daemon.process.returncode == 1:
                self.assertTrue(daemon.log().strip(), what)
            self.clear(daemon.path)
            if number == 0:
                total = self.counted()
                self.assertGreater(total, 50)
        self.assertGreater(served, 0)

    def clear(self, path):
        if os.path.exists(path):
            os.unlink(path)

    def ask(self, daemon):
        try:
            with daemon.peer(timeout=5) as peer:
                return peer.discover("ref", query={"bases": self.text.encode()})[1]
        except (OSError, EOFError, hspz_test.RpcError):
            return None

    def ask_filters(self, daemon):
        """What all requests about filters tell, each once."""
        try:
            with daemon.peer(timeout=5) as peer:
                def call(method, name, *keys, **more):
                    if keys:
                        more["keys"] = struct.pack("<%dQ" % len(keys), *keys)
                    return peer.call("filter." + method, dict(more, filter=name))
                for name in "ab":
                    peer.response(peer.request("filter.drop", filter=name, saved=True))
                    call("create", name, kind="gqf", capacity=100, value_bits=4, slot_bits=32)
                call("insert", "a", 1, 2, 3, values=struct.pack("<3Q", 1, 2, 3))
                call("insert_if_absent", "b", 3, 4, 5, 6, answer="both")
                call("merge", "a", **{"from": "b"})
                call("decrement", "a", 3)
                call("delete", "b", 3)
                peer.notices = []
                got = [call("query", "a", 1, 2, 3, 4, 5, 6, 7)["yes"], call("stats", "a")["entries"]]
                call("query", "a", 7, 3, 8, answer="array")
                got.append(list(struct.unpack("<3Q", peer.notices[-1][2][1])))
                got.append(sorted(f["filter"] for f in peer.call("filter.list")["filters"]))
                call("save", "a")
                call("drop", "a")
                got += [call("load", "a")["entries"], call("enumerate", "a")["entries"]]
                return got
        except (OSError, EOFError, hspz_test.RpcError):
            return None


if __name__ == "__main__":
    hspz_test.main()
