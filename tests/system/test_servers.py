"""A client with several servers: the bytes of one, whoever comes, goes, is slow or has another index."""

import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import hspz_test
from hspz_test import CLIENT, SLOWDOWN, SLOWER, bases, child_env, client, fasta, poll, reverse_complement

COMMANDS = [
    ("discover", "--format", "tsv"),
    ("discover", "--format", "jsonl", "--strand", "minus"),
    ("discover", "--format", "packed", "--max-hits", "100"),
    ("discover", "--format", "columns"),
    ("discover", "--masking", "3"),
    ("discover", "--encoding", "columnar", "--no-digest"),
    ("hsps", "--format", "tsv"),
    ("hsps", "--format", "jsonl"),
    ("hsps", "--format", "packed", "--strand", "minus"),
    ("hsps", "--format", "segments"),
    ("hsps", "--compat", "kegalign-0.1", "--interval", "200000"),
]


class Names(threading.Thread):
    """A name server for the clients of a test: `records` is {(name, type): [data of a record]}."""
    A, SRV = 1, 33

    def __init__(self):
        super().__init__()
        self.records, self.asked, self.over = {}, [], False
        self.address = "127.%d.%d.%d" % tuple(random.SystemRandom().randrange(1, 255)
                                              for _ in range(3))
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((self.address, 53))
        self.socket.settimeout(0.1)

    def stop(self):
        self.over = True
        self.join()
        self.socket.close()

    @staticmethod
    def name(text):
        labels = [label for label in text.split(".") if label]
        return b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"

    def serve(self, name, port, *records):
        """Makes name the SRV records (priority, weight, target), all of one port or of theirs."""
        self.records[name, self.SRV] = [
            struct.pack(">HHH", priority, weight, port or int(target.split(":")[1])) +
            self.name(target.split(":")[0]) for priority, weight, target in records]

    def run(self):
        while not self.over:
            try:
                query, peer = self.socket.recvfrom(4096)
            except TimeoutError:
                continue
            at, labels = 12, []
            while query[at]:
                labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
                at += 1 + query[at]
            name, kind = ".".join(labels), struct.unpack_from(">H", query, at + 1)[0]
            self.asked.append((name, kind))
            data = self.records.get((name, kind))
            known = any(name == n for n, _ in self.records)
            answers = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 1, len(d)) + d
                               for d in data or [])
            self.socket.sendto(query[:2] + struct.pack(
                ">HHHHH", 0x8180 | (0 if known else 3), 1, len(data or []), 0, 0) +
                query[12:at + 5] + answers, peer)


def changed(rng, text):
    """Other bases here and there, and bases left out, so that there are many HSPs."""
    return "".join(c if r > 0.03 else rng.choice("ACGT") if r > 0.002 else ""
                   for c, r in ((c, rng.random()) for c in text))


class ServersTest(hspz_test.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = tempfile.mkdtemp(prefix="hspz-")
        cls.addClassCleanup(shutil.rmtree, cls.data, True)
        rng = random.Random(91)
        ref = [("r%d" % i, bases(rng, 30000)) for i in range(4)]
        long = [changed(rng, ref[i % 4][1]) for i in range(20 // SLOWDOWN)]
        long = "".join(s if i % 3 else reverse_complement(s) for i, s in enumerate(long))
        query = [("short%d" % i, changed(rng, ref[i % 4][1][:rng.randrange(1, 20000)]))
                 for i in range(12)]
        query += [("none", "ACG"), ("long", long), ("N", "N" * 50)] + [
            ("q%d" % i, changed(rng, ref[i % 4][1])) for i in range(6 // SLOWDOWN)]
        cls.ref = hspz_test.write(os.path.join(cls.data, "ref.fa"), fasta(ref))
        cls.query = hspz_test.write(os.path.join(cls.data, "query.fa"), fasta(query))
        # The same twice: seconds of work.
        cls.much = hspz_test.write(os.path.join(cls.data, "much.fa"), fasta(
            [("%s.%d" % (name, i), seq) for i in range(2) for name, seq in query]))
        cls.index_file = hspz_test.build_index(cls.ref, os.path.join(cls.data, "ref.hspz"))
        cls.blocks = hspz_test.build_index(cls.ref, os.path.join(cls.data, "blocks.hspz"),
                                           "--block-size", "50000")
        cls.other = hspz_test.build_index(cls.query, os.path.join(cls.data, "other.hspz"))
        cls.wanted = {}

    def start(self, number, *args, ref=None, **more):
        return self.daemon(*args, indexes={"ref": ref or self.index_file, "blocks": self.blocks},
                           socket_path=self.path("s%d" % number), **more)

    @staticmethod
    def many(daemons):
        return [word for d in daemons for word in ("--server", d.server)]

    def want(self, index, query, command):
        """What one server gives; asked for once."""
        key = index, query, command
        if key not in self.wanted:
            daemon = self.start(9)
            done = daemon.client(command[0], index, query, *command[1:], text=False, check=0)
            self.assertGreater(len(done.stdout), 2000, command)
            self.wanted[key] = done.stdout
            daemon.stop()
        return self.wanted[key]

    def begin(self, *args):
        """A client under way; its output goes to a file."""
        with open(self.path("out"), "wb") as out:
            return subprocess.Popen([CLIENT] + [str(a) for a in args], stdout=out,
                                    stderr=subprocess.PIPE, env=child_env(), text=True)

    def finish(self, process, want, status=0):
        _, said = process.communicate(timeout=120 * SLOWER)
        self.assertEqual(process.returncode, status, said)
        with open(self.path("out"), "rb") as out:
            got = out.read()
        if status == 0:
            self.assertEqual(len(got), len(want), said)
            self.assertTrue(got == want, said)
        return said

    @staticmethod
    def work(said):
        """{address: (units, positions, failures)} of what -v says."""
        return {m[0]: (int(m[1]), int(m[2]), int(m[3])) for m in re.findall(
            r"^server (\S+): (\d+) units, (\d+) positions, [\d.]+ s, (\d+) failures", said, re.M)}

    def test_three_give_the_bytes_of_one(self):
        some = [COMMANDS[i] for i in (2, 6, 9)]
        wants = {(index, command): self.want(index, self.query, command) for index, command in
                 [("ref", c) for c in (COMMANDS[:2] + some if hspz_test.SANITIZED else COMMANDS)] +
                 [("blocks", c) for c in some]}
        daemons = [self.start(i) for i in range(3)]
        for (index, command), want in wants.items():
            done = client(*self.many(daemons), "-v", command[0], index, self.query, *command[1:],
                          text=False, check=0)
            self.assertTrue(done.stdout == want, (index, command, done.stderr))
            units = [w[0] for w in self.work(done.stderr).values()]
            self.assertEqual(len(units), 3, done.stderr)
            self.assertGreater(sum(units), 0 if "--compat" in command else 1, done.stderr)
        # A file appears whole, and files of KegAlign's are the same.
        out = self.path("hits.tsv")
        client(*self.many(daemons), "discover", "ref", self.query, "-o", out, check=0)
        with open(out, "rb") as file:
            self.assertTrue(file.read() == wants["ref", COMMANDS[0]])
        archives = []
        for servers in (self.many(daemons[:1]), self.many(daemons)):
            archives.append(self.path("%d.tar.gz" % len(servers)))
            client(*servers, "hsps", "blocks", self.query, "--tar", archives[-1], check=0)
        with open(archives[0], "rb") as one, open(archives[1], "rb") as three:
            content = one.read()
            self.assertGreater(len(content), 2000)
            self.assertTrue(content == three.read())

    def test_seeds_and_limits(self):
        daemons = [self.start(i) for i in range(2)]
        seeds = self.file("seeds", hspz_test.pack_seeds(list(hspz_test.seeds_of(
            hspz_test.read_fasta(self.ref)[0][1], hspz_test.SHAPE_12OF19))))
        one = daemons[0].client("discover", "ref", "--seeds", seeds, "--format", "packed",
                                text=False, check=0).stdout
        two = client(*self.many(daemons), "discover", "ref", "--seeds", seeds, "--format", "packed",
                     text=False, check=0).stdout
        self.assert_same_anchors(two, one)
        want = self.want("ref", self.query, COMMANDS[0])
        hits = want.count(b"\n") - 1
        client(*self.many(daemons), "discover", "ref", self.query, "--hit-limit", hits, check=0)
        done = client(*self.many(daemons), "discover", "ref", self.query, "--hit-limit", hits - 1,
                      check=1)
        self.assertIn("the job has %d hits; its hit_limit is %d" % (hits, hits - 1), done.stderr)
        done = client(*self.many(daemons), "discover", "ref", self.query, "--hit-limit", 7, check=1)
        self.assertRegex(done.stderr, "server unix:%s.*its hit_limit is 7" % self.path("s"))

    def test_one_killed_at_any_time(self):
        rng = random.Random()
        for command in (COMMANDS[0], COMMANDS[6]):
            want = self.want("ref", self.much, command)
            daemons = [self.start(i) for i in range(3)]
            words = ("-v", command[0], "ref", self.much, *command[1:])
            begun = time.monotonic()
            self.finish(self.begin(*self.many(daemons), *words), want)
            whole = time.monotonic() - begun
            for _ in range(1 if hspz_test.SANITIZED else 3):
                process = self.begin(*self.many(daemons), *words)
                victim = rng.randrange(3)
                time.sleep(rng.random() * whole)
                daemons[victim].process.kill()
                daemons[victim].process.wait()
                daemons[victim] = self.start(victim)
                said = self.finish(process, want)
                self.assertEqual(len(self.work(said)), 3, said)
            for daemon in daemons:
                daemon.stop()

    def test_one_that_comes_back_is_used_again(self):
        want = self.want("ref", self.much, COMMANDS[0])
        daemons = [self.start(i) for i in range(2)]
        daemons[0].process.kill()
        daemons[0].process.wait()
        process = self.begin(*self.many(daemons), "-v", "--wait", "-1", "discover", "ref",
                             self.much)
        daemons[1].wait_jobs(running=1)
        daemons[1].process.kill()
        daemons[1].process.wait()
        # Nobody is there, and the client waits.
        daemons[0] = self.start(0)
        said = self.finish(process, want)
        work = self.work(said)
        self.assertGreater(work[daemons[0].server][0], 0, said)
        self.assertGreater(work[daemons[1].server][2], 0, said)
        self.assertIn("note: server " + daemons[1].server, said)

    def test_one_that_drains(self):
        want = self.want("ref", self.much, COMMANDS[0])
        daemons = [self.start(i) for i in range(2)]
        process = self.begin(*self.many(daemons), "-v", "discover", "ref", self.much)
        daemons[0].wait_jobs(running=1)
        daemons[0].stop()
        said = self.finish(process, want)
        self.assertGreater(self.work(said)[daemons[1].server][0], 0, said)

    def test_a_slow_one_gets_less(self):
        want = self.want("ref", self.much, COMMANDS[0])
        daemons = [self.start(i) for i in range(3)]
        over = threading.Event()

        def slow():
            while not over.wait(0.01):
                daemons[0].process.send_signal(signal.SIGSTOP)
                over.wait(0.2)
                daemons[0].process.send_signal(signal.SIGCONT)
        thread = threading.Thread(target=slow)
        thread.start()
        try:
            said = self.finish(self.begin(*self.many(daemons), "-v", "discover", "ref", self.much),
                               want)
        finally:
            over.set()
            thread.join()
        work = self.work(said)
        slowest = work.pop(daemons[0].server)[1]
        self.assertLess(slowest, min(w[1] for w in work.values()), said)

    def test_one_that_hangs_does_not_stop_the_others(self):
        want = self.want("ref", self.query, COMMANDS[0])
        daemons = [self.start(i) for i in range(2)]
        process = self.begin(*self.many(daemons), "-v", "discover", "ref", self.query)
        daemons[0].wait_jobs(running=1)
        daemons[0].process.send_signal(signal.SIGSTOP)
        try:
            said = self.finish(process, want)
        finally:
            daemons[0].process.send_signal(signal.SIGCONT)
        self.assertGreater(self.work(said)[daemons[1].server][0], 0, said)

    def test_none_is_left(self):
        daemons = [self.start(i) for i in range(2)]
        process = self.begin(*self.many(daemons), "discover", "ref", self.much, "-o",
                             self.path("hits.tsv"))
        daemons[0].wait_jobs(running=1)
        for daemon in daemons:
            daemon.process.kill()
            daemon.process.wait()
        said = self.finish(process, b"", status=1)
        self.assertIn("no server is left of 2", said)
        for daemon in daemons:
            self.assertRegex(said, "hspz-client: server %s: .*(not running|closed|reset)" %
                             daemon.server)
        self.assertEqual([n for n in os.listdir(self.folder) if n.startswith("hits")], [])
        # Nor is one there at the start.
        done = client(*self.many(daemons), "hsps", "ref", self.query, check=1)
        self.assertIn("no server answers for index ref", done.stderr)
        for daemon in daemons:
            self.assertRegex(done.stderr, "hspz-client: server %s: .*not running" % daemon.server)
        live = self.start(3)
        done = client(*self.many([live]), "--server", "unix:" + self.path("nobody"), "discover",
                      "nothing", self.query, check=1)
        self.assertIn("server unix:%s: " % self.path("nobody"), done.stderr)
        self.assertRegex(done.stderr, "server %s: .*nothing.*index list" % live.server)

    def test_full_ones_are_left_to_others(self):
        want = self.want("ref", self.query, COMMANDS[0])
        daemons = [self.start(i, "--max-all-jobs", "1") for i in range(2)]
        # More than a connection holds of what is not read.
        long = dict(hspz_test.read_fasta(self.query))["long"].encode() * SLOWDOWN

        def fill(peer):
            """A job that nobody reads."""
            peer.request("discover", index="ref", query={"bases": long})
            self.assertTrue(poll(lambda: peer.socket.recv(1, socket.MSG_PEEK)))
        with daemons[0].peer() as one, daemons[1].peer() as two:
            fill(one)
            said = self.finish(self.begin(*self.many(daemons), "-v", "discover", "ref",
                                          self.query), want)
            work = self.work(said)
            self.assertEqual(work[daemons[0].server][0], 0, said)
            self.assertGreater(work[daemons[0].server][2], 0, said)
            fill(two)
            done = client(*self.many(daemons), "discover", "ref", self.query, check=1)
            for daemon in daemons:
                self.assertRegex(done.stderr, "client: server %s: .*at most 1 may" % daemon.server)
            self.assertIn("--wait SECONDS tries again", done.stderr)
            process = self.begin(*self.many(daemons), "--wait", "-1", "discover", "ref", self.query)
            refused = [d.jobs()["refused"] for d in daemons]
            self.assertTrue(poll(lambda: all(d.jobs()["refused"] > r + 1
                                             for d, r in zip(daemons, refused)), 30))
            self.assertIsNone(process.poll())
        self.finish(process, want)

    def test_another_index_is_refused_by_name(self):
        daemons = [self.start(0), self.start(1, ref=self.other)]
        for servers in (daemons, daemons[::-1]):
            for command in ("discover", "hsps"):
                done = client(*self.many(servers), command, "ref", self.query, "-o",
                              self.path("hits"), check=1)
                self.assertRegex(done.stderr, r"server %s has another index ref \(digest "
                                 r"[0-9a-f]{16}\) than server %s \(digest [0-9a-f]{16}\)" %
                                 (servers[1].server, servers[0].server))
                self.assertFalse(os.path.exists(self.path("hits")))

    def test_a_signal_ends_it(self):
        daemons = [self.start(i) for i in range(2)]
        process = self.begin(*self.many(daemons), "discover", "ref", self.much, "-o",
                             self.path("hits.tsv"))
        daemons[0].wait_jobs(running=1)
        process.send_signal(signal.SIGINT)
        self.assertIn("stopped by a signal", self.finish(process, b"", status=1))
        for daemon in daemons:
            daemon.wait_jobs(running=0, waiting=0)
            daemon.stop()

    def test_a_reader_that_goes_away_ends_it_quietly(self):
        daemons = [self.start(i) for i in range(2)]
        process = subprocess.Popen([CLIENT, *self.many(daemons), "discover", "ref", self.much],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_env())
        process.stdout.read(1000)
        process.stdout.close()
        said = process.stderr.read()
        process.stderr.close()
        self.assertEqual((process.wait(60 * SLOWER), said), (1, b""))

    def test_a_file_names_them(self):
        want = self.want("ref", self.query, COMMANDS[0])
        daemons = [self.start(i) for i in range(2)]
        names = self.file("servers", "# of the job\n\n  %s  # node 1\n\t%s\r\n%s" % (
            daemons[0].server, daemons[1].server, daemons[1].server))
        done = client("--servers", names, "-v", "discover", "ref", self.query, text=False, check=0)
        self.assertTrue(done.stdout == want)
        # One that is named twice has two connections.
        self.assertEqual(len(re.findall("^server unix:.* units", done.stderr, re.M)), 3)
        for content, said in (("# nobody\n", "it names no server"), ("", "it names no server"),
                              (daemons[0].server + "\n\nudp:x\n", "servers:3: address \"udp:x\""),
                              ("unix:/x\0y", "servers:1: a byte 0"),
                              ("x" * 600, "servers:1: too long"),
                              ("unix:/x\n" * 1025, "servers:1025: more than 1024 servers")):
            self.file("servers", content)
            done = client("--servers", names, "discover", "ref", self.query, check=1)
            self.assertIn(said, done.stderr)
        done = client("--servers", self.path("none"), "discover", "ref", self.query, check=1)
        self.assertIn("none: cannot read the servers: No such file", done.stderr)

    def test_a_file_that_comes_late_is_waited_for(self):
        want = self.want("ref", self.query, COMMANDS[0])
        process = self.begin("--servers", self.path("servers"), "--wait", "-1", "discover", "ref",
                             self.query)
        daemon = self.start(0)
        self.assertIsNone(process.poll())
        self.file("new", daemon.server + "\n")
        os.rename(self.path("new"), self.path("servers"))
        self.finish(process, want)

    def test_a_file_that_changes_is_read_again(self):
        want = self.want("ref", self.query, COMMANDS[0])
        first, second = self.start(0), self.start(1)
        names = self.file("servers", first.server + "\n")
        process = self.begin("--servers", names, "-v", "discover", "ref", self.query)
        first.wait_jobs(running=1)
        # It does nothing more, and would stop the client for long.
        first.process.send_signal(signal.SIGSTOP)
        try:
            self.file("servers", "nonsense\n")
            time.sleep(1)
            self.file("new", second.server + "\n")
            os.rename(self.path("new"), names)
            said = self.finish(process, want)
        finally:
            first.process.send_signal(signal.SIGCONT)
        self.assertIn("servers:1: address \"nonsense\"", said)
        self.assertGreater(self.work(said)[second.server][0], 0, said)

    def proxy(self, daemons):
        """HAProxy as the handbook has it before two daemons; its address."""
        program = hspz_test.tool("haproxy")
        port = hspz_test.free_port()
        with open(os.path.join(hspz_test.SOURCE, "client/handbook/operator.md"),
                  encoding="utf-8") as book:
            text = re.search("```haproxy\n(.*?)```", book.read(), re.S).group(1)
        for i, daemon in enumerate(daemons):
            text = text.replace("10.1.0.1%d:7979" % (i + 1), "unix@" + daemon.path)
        text = text.replace("10.1.0.1:7979", "127.0.0.1:%d" % port).replace("inter 2s",
                                                                            "inter 200ms")
        config = self.file("haproxy.cfg", "global\n    maxconn 100\n" + text)
        with open(self.path("haproxy.log"), "wb") as log:
            process = subprocess.Popen([program, "-db", "-f", config], stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        address = "tcp:127.0.0.1:%d" % port
        client("--server", address, "--wait", "60", "health", check=0)
        return address

    def test_behind_haproxy(self):
        want = self.want("ref", self.query, COMMANDS[0])
        daemons = [self.start(i) for i in range(2)]
        address = self.proxy(daemons)
        # One connection is as to a daemon; with two, each comes to another daemon.
        done = client("--server", address, "discover", "ref", self.query, text=False, check=0)
        self.assertTrue(done.stdout == want)
        jobs = [d.jobs()["ok"] for d in daemons]
        self.finish(self.begin("--server", address, "--server", address, "discover", "ref",
                               self.query), want)
        for daemon, before in zip(daemons, jobs):
            self.assertGreater(daemon.jobs()["ok"], before)

    def test_a_daemon_behind_haproxy_dies_mid_stream(self):
        rng = random.Random()
        want = self.want("ref", self.much, COMMANDS[0])
        daemons = [self.start(i) for i in range(2)]
        address = self.proxy(daemons)
        for victim in range(2):
            process = self.begin("--server", address, "--server", address, "-v", "discover", "ref",
                                 self.much)
            daemons[victim].wait_jobs(running=1)
            time.sleep(rng.random())
            daemons[victim].process.kill()
            daemons[victim].process.wait()
            said = self.finish(process, want)
            self.assertEqual(len(re.findall("^server tcp:.* units", said, re.M)), 2, said)
            daemons[victim] = self.start(victim)
            client("--server", address, "--wait", "60", "health", check=0)
        # Both are gone: the proxy alone is no server.
        for daemon in daemons:
            daemon.process.kill()
            daemon.process.wait()
        done = client("--server", address, "--server", address, "discover", "ref", self.query,
                      check=1)
        self.assertEqual(done.stderr.count("hspz-client: server %s: " % address), 2, done.stderr)

    def names(self):
        """A name server, and what comes before a command that asks it."""
        unshare = hspz_test.tool("unshare")
        conf = self.path("resolv.conf")
        self.file("resolv.conf", "")
        # Root, for a port below 1024 and another /etc/resolv.conf.
        prefix = [unshare, "--mount", "sh", "-c",
                  'mount --bind %s "$(readlink -f /etc/resolv.conf)" && exec "$@"' % conf, "sh"]
        if subprocess.run(prefix + ["true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no mounts of its own")
        names = Names()
        self.file("resolv.conf", "nameserver %s\n" % names.address)
        names.start()
        self.addCleanup(names.stop)
        return names, prefix

    def test_dns_names_them(self):
        names, prefix = self.names()
        want = self.want("ref", self.query, COMMANDS[0])
        daemons = [self.start(i, "--listen", "127.0.0.1:0") for i in range(3)]
        for i in range(3):
            names.records["node%d.hpc.test" % i, names.A] = [b"\x7f\0\0\1"]
        nodes = ["node%d.hpc.test:%d" % (i, d.port()) for i, d in enumerate(daemons)]

        def ask(address, *args):
            return subprocess.run(prefix + [CLIENT, "--server", address, *args, "-v", "discover",
                                            "ref", self.query], capture_output=True, check=False,
                                  timeout=60 * SLOWER, env=child_env())
        # Two, and one in reserve.
        names.serve("_hspz._tcp.hpc.test", 0, (20, 5, nodes[2]), (10, 1, nodes[0]),
                    (10, 7, nodes[1]))
        done = ask("srv:hpc.test")
        said = done.stderr.decode()
        self.assertTrue(done.stdout == want, said)
        work = self.work(said)
        self.assertEqual(set(work), {"tcp:" + node for node in nodes})
        self.assertEqual(work["tcp:" + nodes[2]][0], 0, said)
        self.assertIn(("_hspz._tcp.hpc.test", names.SRV), names.asked)
        # The reserve is there when the others are not.
        for daemon in daemons[:2]:
            daemon.process.kill()
            daemon.process.wait()
        done = ask("srv:_hspz._tcp.hpc.test")
        said = done.stderr.decode()
        self.assertTrue(done.stdout == want, said)
        self.assertGreater(self.work(said)["tcp:" + nodes[2]][0], 0, said)
        # No records, none of a server, no such name.
        names.records["_other._tcp.hpc.test", names.SRV] = []
        names.serve("_none._tcp.hpc.test", 1, (0, 0, "."))
        for name in ("_other._tcp.hpc.test", "_none._tcp.hpc.test", "nothing.test"):
            done = ask("srv:" + name)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"%s: DNS names no server" % name.encode(), done.stderr)
        # Others that are named do without it.
        done = ask("srv:nothing.test", "--server", "tcp:" + nodes[2])
        self.assertTrue(done.stdout == want, done.stderr)
        # With TLS a server is asked for its certificate.
        names.serve("_hspz._tcp.hpc.test", 0, (0, 0, nodes[2]))
        done = ask("tls-srv:hpc.test")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"server tls:%s: " % nodes[2].encode(), done.stderr)

    def test_dns_that_names_them_late_is_waited_for(self):
        names, prefix = self.names()
        want = self.want("ref", self.query, COMMANDS[0])
        daemon = self.start(0, "--listen", "127.0.0.1:0")
        with open(self.path("out"), "wb") as out:
            process = subprocess.Popen(
                prefix + [CLIENT, "--server", "srv:hpc.test", "--wait", "-1", "discover", "ref",
                          self.query], stdout=out, stderr=subprocess.PIPE, env=child_env(),
                text=True)
        self.assertTrue(poll(lambda: names.asked, 30))
        names.records["localhost", names.A] = [b"\x7f\0\0\1"]
        names.serve("_hspz._tcp.hpc.test", daemon.port(), (0, 0, "localhost"))
        self.finish(process, want)

    def test_what_works_with_one_server_names_the_option_that_has_several(self):
        names, fasta_file = self.file("servers", "unix:/x\n"), self.file("a.fa", ">a\nACGT\n")
        servers = ((("--server", "unix:/x", "--server", "unix:/y"), "works with one server, not with 2; give one --server"),
                   (("--servers", names), "works with one server, not with those of --servers %s; name it" % names),
                   (("--server", "unix:/x", "--server", "srv:x.y"),
                    "works with one server, not with those of --server srv:x.y; name it"))
        commands = (("it", "kegalign", "ref", fasta_file), ("it", "kegalign", "--private", fasta_file, fasta_file),
                    ("it", "mask", fasta_file, "-o", "/dev/null", "--index", "ref"),
                    ("it", "mask", fasta_file, "-o", "/dev/null"), ("it", "plot", "ref", fasta_file, "-o", "/dev/null"),
                    ("it", "filter", "create", "f", "--kind", "tcf", "--capacity", "9"), ("it", "filter", "insert", "f"),
                    ("it", "kmers", "count", "f", fasta_file, "-k", "9"), ("it", "top", "--once"),
                    ("--hit-stats", "discover", "ref", fasta_file, "--hit-stats"),
                    ("--mask-filter", "discover", "ref", fasta_file, "--mask-filter", "f"),
                    ("--mask-filter", "hsps", "ref", fasta_file, "--mask-filter", "f"))
        for options, says in servers:
            for what, *command in commands:
                said = client(*options, *command, check=2).stderr
                self.assertIn(": %s %s" % (what, says), said, command)

    def test_usage(self):
        names = self.file("servers", "unix:/x\n")
        for args, said in (
                (["--server", "unix:/x", "--server", "unix:/y", "index", "list"], "one server"),
                (["--servers", names, "filter", "list"], "one server"),
                (["--servers", names, "--server", "unix:/x", "discover", "r", "q"], "not both"),
                (["--server", "unix:/x", "--server", "udp:y", "discover", "r", "q"], "udp:y"),
                (["--server", "srv:x", "index", "list"], "one server"),
                (["--server", "srv:", "discover", "r", "q"], "a name of DNS"),
                (["--server", "tls-srv:" + "x" * 254, "discover", "r", "q"], "a name of DNS"),
                (["--server", "srv:a/b", "discover", "r", "q"], "a name of DNS"),
                (["--servers", names, "discover", "r", "q", "--hit-stats"], "--hit-stats"),
                (["--server", "unix:/x"] * 1 + ["--server", "unix:/x"] * 64 + ["health"],
                 "more than 64")):
            done = client(*args, check=2)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    hspz_test.main()
