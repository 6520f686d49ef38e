"""hspz under Slurm: a server on each of four nodes, an array of sixteen tasks, on this machine."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

import hspz_test
from hspz_test import HSPZD, SOURCE, bases, fasta, poll, reverse_complement, tool
from slurm import NODES, Cluster

SLURM = os.path.join(SOURCE, "client", "slurm")
TASKS = 16


def mutated(rng, text):
    """With substitutions, and gaps that make HSPs of about 1,000 bases."""
    return "".join("" if rng.random() < 0.001 else rng.choice("ACGT") if rng.random() < 0.08 else base
                   for base in text)


def read(path):
    with open(path, "rb") as file:
        return file.read()


@unittest.skipIf(hspz_test.SANITIZED, "shows nothing new under a sanitizer")
class SlurmTest(hspz_test.TestCase):
    @classmethod
    def setUpClass(cls):
        tool("openssl")
        hspz_test.need_tls()
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.stop)
        folder = cls.cluster.folder
        folders = [SLURM, os.path.dirname(HSPZD), os.path.dirname(hspz_test.CLIENT)]
        cls.cluster.env["PATH"] = ":".join(folders + [os.environ["PATH"]])
        rng = random.Random(20)
        ref = bases(rng, 300000)
        cls.ref = os.path.join(folder, "ref.hspz")
        hspz_test.build_index(hspz_test.write(os.path.join(folder, "ref.fa"),
                                              fasta([("chr1", ref[:180000]), ("chr2", ref[180000:])])),
                              cls.ref)
        # Two files, one of them compressed; records of all sizes, some of them reversed.
        cls.queries = []
        for i, (count, name) in enumerate(((44, "a.fa"), (30, "b.fa.gz"))):
            records = []
            for n in range(count):
                at, size = rng.randrange(250000), rng.randrange(500, 40000)
                text = mutated(rng, ref[at:at + size])
                records.append(("%d.%d" % (i, n), text if n % 3 else reverse_complement(text)))
            path = hspz_test.write(os.path.join(folder, name.removesuffix(".gz")), fasta(records))
            if name.endswith(".gz"):
                subprocess.run(["gzip", "-n", path], check=True)
            cls.queries.append(os.path.join(folder, name))

    def setUp(self):
        super().setUp()
        self.jobs = []
        self.work = os.path.join(self.cluster.folder, self.id().rsplit(".", 1)[1])

    def tearDown(self):
        for job in self.jobs:
            self.cluster.run("scancel", job, check=None)
        over = poll(lambda: not any(self.cluster.left(job) for job in self.jobs), 30, every=0.2)
        super().tearDown()
        self.assertTrue(over, "jobs are left")
        self.assertTrue(poll(lambda: not os.listdir(self.cluster.env["TMPDIR"]), 10), "files are left")

    def submit(self, *arguments):
        self.jobs.append(self.cluster.submit(
            "--output=%s/%%x-%%A-%%a.out" % self.cluster.folder, *arguments))
        return self.jobs[-1]

    def outputs(self):
        """What jobs printed, for messages."""
        return "\n".join(name + ": " + self.cluster.read(name)[-400:] for name in
                         sorted(os.listdir(self.cluster.folder)) if name.startswith("hspz-"))

    def start_servers(self, *options, nodes=NODES, engine=("--engine", "cpu")):
        for _ in range(3):
            job = self.submit("--nodes=%d" % nodes, *options, os.path.join(SLURM, "servers.sbatch"),
                              self.work, "--index", "ref=" + self.ref, *engine)
            poll(lambda: self.is_up(job, nodes) or self.lost_a_task(job), 60, every=0.2)
            if not poll(lambda: self.is_up(job, nodes), 5, every=0.2) and self.lost_a_task(job):
                self.cluster.run("scancel", job)
                self.wait(job)
                # What Slurm killed in the end did not clear up.
                shutil.rmtree(self.cluster.env["TMPDIR"])
                os.mkdir(self.cluster.env["TMPDIR"])
                continue
            if len(self.addresses()) != nodes:
                break
            return job
        return self.fail("servers at %s: %s" % (self.addresses(), self.outputs()))

    def is_up(self, job, nodes):
        """Whether there is nothing to wait for any more: all have an address, or the job has ended."""
        return len(self.addresses()) == nodes or not self.cluster.left(job)

    def lost_a_task(self, job):
        """Seldom srun does not understand a task that connects to it, and never hears of it again."""
        name = "hspz-servers-%s-4294967294.out" % job
        return os.path.exists(self.cluster.path(name)) and "io_init_msg_unpack" in self.cluster.read(name)

    def addresses(self):
        try:
            lines = read(os.path.join(self.work, "servers")).decode().splitlines()
        except FileNotFoundError:
            return []
        return [line for line in lines if not line.startswith("#")]

    def start_queries(self, tasks=TASKS):
        return self.submit("--array=0-%d" % (tasks - 1), os.path.join(SLURM, "queries.sbatch"),
                           self.work, "hsps", "ref")

    def results(self):
        """{range: (inode, time)} of those that are done."""
        folder = os.path.join(self.work, "results")
        stats = {int(name): os.stat(os.path.join(folder, name)) for name in os.listdir(folder)
                 if name.isdigit()}
        return {number: (st.st_ino, st.st_mtime_ns) for number, st in stats.items()}

    def wait(self, job, doing=lambda: None):
        end = time.monotonic() + 60 * hspz_test.SLOWER
        while self.cluster.left(job):
            self.assertLess(time.monotonic(), end, self.outputs())
            doing()
            time.sleep(0.1)

    def one_daemons(self):
        """The same by one daemon, a command for each file."""
        daemon = self.daemon(indexes={"ref": self.ref})
        whole = b""
        for query in self.queries:
            out = self.path("one.tsv")
            daemon.client("hsps", "ref", query, "--query-block-size", 60000, "-o", out,
                          check=0)
            text = read(out)
            head, rest = text.split(b"\n", 1)
            self.assertGreater(rest.count(b"\n"), 100)
            whole += text if not whole else rest
        return whole

    def test_sixteen_tasks_of_four_servers_that_are_killed_give_what_one_daemon_gives(self):
        """Servers are killed at random meanwhile, and the first array is cancelled half-way: the
        second does what is left, and no more."""
        rng = random.Random(21)
        self.cluster.run("hspz-slurm", "plan", self.work, "--bases", "60000", *self.queries)
        ranges = read(os.path.join(self.work, "ranges")).count(b"\n")
        self.assertGreater(ranges, TASKS)
        self.start_servers()
        killed = []

        def kill():
            servers = self.cluster.processes_of(b"hspzd\0--die-with-parent")
            if servers and len(killed) < 3 * NODES and rng.random() < 0.5:
                killed.append(rng.choice(servers))
                try:
                    os.kill(killed[-1], signal.SIGKILL)
                except ProcessLookupError:
                    killed.pop()

        first = self.start_queries()
        self.assertTrue(poll(lambda: kill() or len(self.results()) >= ranges // 4, 60, every=0.1),
                        self.outputs())
        self.cluster.run("scancel", first)
        self.wait(first)
        before = self.results()
        self.assertLess(len(before), ranges)
        self.assertEqual(len(os.listdir(os.path.join(self.work, "results"))), len(before))
        done = subprocess.run(["hspz-slurm", "gather", self.work, "-o", self.path("all.tsv")],
                              env=self.cluster.env, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, os.path.exists(self.path("all.tsv"))), (1, False))
        self.assertIn("%d ranges have no result yet" % (ranges - len(before)), done.stderr)

        self.wait(self.start_queries(), kill)
        self.assertGreaterEqual(len(killed), NODES)
        after = self.results()
        self.assertEqual(len(after), ranges, self.outputs())
        self.assertEqual({number: after[number] for number in before}, before)
        self.cluster.run("hspz-slurm", "gather", self.work, "-o", self.path("all.tsv"))
        self.assertEqual(read(self.path("all.tsv")), self.one_daemons())
        # What was killed is there again, elsewhere.
        self.assertTrue(poll(lambda: len(self.addresses()) == NODES, 30, every=0.1), self.outputs())

    def test_servers_that_are_told_to_end_finish_what_runs(self):
        """By scancel, and as Slurm does ahead of a time limit; each server has its node's devices."""
        query = self.file("big.fa", fasta([("big", bases(random.Random(22), 600000))]))
        for number, how in enumerate((["scancel"], ["scancel", "--signal=TERM"])):
            job = self.start_servers(nodes=1)
            command = [hspz_test.CLIENT, "--server", self.addresses()[0], "--token-file", self.work + "/token",
                       "--ca", self.work + "/certificate.pem", "--server-name", "hspz"]
            asking = subprocess.Popen(command + ["discover", "ref", query, "--transitions", "2",
                                                 "-o", self.path("out.tsv")], stderr=subprocess.PIPE)
            self.addCleanup(asking.stderr.close)
            self.assertTrue(poll(lambda: json.loads(self.cluster.run(
                *command, "stats", "--json"))["jobs"]["running"] > 0, 30))
            servers = self.cluster.processes_of(b"hspzd\0--die-with-parent")
            self.assertEqual(len(servers), 1)
            told = b"\0CUDA_VISIBLE_DEVICES=0\0" in read("/proc/%d/environ" % servers[0])
            self.assertEqual(told, self.cluster.has_devices)
            self.cluster.run(*how, job)
            # Nobody is sent there any more.
            self.assertTrue(poll(lambda: not self.addresses(), 10))
            self.assertEqual(asking.wait(60 * hspz_test.SLOWER), 0, read(os.path.join(self.work, "log", "n1")))
            self.assertGreater(read(self.path("out.tsv")).count(b"\n"), 100)
            self.wait(job)
            log = read(os.path.join(self.work, "log", "n1")).decode()
            self.assertEqual(log.count('draining jobs=1 connections=1 why="a signal"'), number + 1, log)
            self.assertEqual(log.count("ended status=ok"), number + 1, log)
            self.assertFalse(os.path.exists(os.path.join(self.work, "servers")))

    def test_a_second_job_of_servers_is_refused(self):
        """The first has no devices, and so takes the CPU engine by itself."""
        first = self.start_servers("--gres=none", nodes=1, engine=())
        before = self.addresses()
        second = self.submit("--nodes=1", os.path.join(SLURM, "servers.sbatch"), self.work,
                             "--index", "ref=" + self.ref)
        self.wait(second)
        self.assertIn("job %s has its servers there" % first, self.outputs())
        self.assertEqual(self.addresses(), before)

    def test_servers_that_cannot_start_end_the_job_and_say_where_it_stands(self):
        """An index that is not there; no card that answers, where the job has some."""
        for options, told in ((["--engine", "cpu", "--index", "ref=/nowhere"], "/nowhere"),
                              (["--index", "ref=" + self.ref], "cuda")):
            job = self.submit("--nodes=2", os.path.join(SLURM, "servers.sbatch"), self.work, *options)
            self.wait(job)
            with open("%s/hspz-servers-%s-4294967294.out" % (self.cluster.folder, job), encoding="utf-8") as file:
                self.assertIn("hspzd ended with status 1; see %s/log/n1" % self.work, file.read())
            errors = [line for line in read(os.path.join(self.work, "log", "n1")).decode().splitlines()
                      if " error " in line]
            self.assertIn(told, errors[-1])


@unittest.skipIf(hspz_test.SANITIZED, "shows nothing new under a sanitizer")
class PlanTest(hspz_test.TestCase):
    """What needs no Slurm."""

    def run_it(self, *arguments, check, **env):
        path = os.path.dirname(hspz_test.CLIENT) + ":" + os.environ["PATH"]
        done = subprocess.run([os.path.join(SLURM, "hspz-slurm"), *arguments], capture_output=True,
                              text=True, check=False, cwd=self.folder,
                              env=hspz_test.child_env(TMPDIR=self.folder, PATH=path, **env))
        self.assertEqual(done.returncode, check, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def ranges(self, folder):
        return [line.split("\t") for line in
                read(self.path(folder + "/ranges")).decode().splitlines()]

    def test_ranges_are_the_blocks_that_the_client_makes(self):
        rng = random.Random(23)
        lens = [rng.randrange(30, 400) for _ in range(60)]
        query = self.file("q.fa", fasta([(str(i), bases(rng, n)) for i, n in enumerate(lens)]))
        self.file("q.fq", "@r\nACGTACGT\n+\nIIIIIIII\n")
        self.run_it("plan", "w", "--bases", "1000", "q.fa", "q.fq", check=0)
        want, first, records, total = [], 1, 0, 0
        for size in lens:
            if total > 1000:
                want.append([first, records, total])
                first, records, total = first + records, 0, 0
            total += size + (records > 0)
            records += 1
        want.append([first, records, total])
        got = self.ranges("w")
        self.assertEqual([[int(n) for n in row[2:5]] for row in got[:-1]], want)
        self.assertEqual([int(row[0]) for row in got], list(range(len(want) + 1)))
        self.assertEqual(got[0][5], query)
        self.assertEqual(got[-1][2:], ["0", "0", "0", self.path("q.fq")])
        self.assertIn("already", self.run_it("plan", "w", "q.fa", check=1))

    def test_what_is_wrong_is_said(self):
        query = self.file("q.fa", ">a\nACGTACGTACGTACGTACGTACGT\n")
        self.run_it("plan", "w", "q.fa", check=0)
        self.assertIn("plan FOLDER", self.run_it("plan", "w", check=2))
        self.assertIn("plan FOLDER", self.run_it("queries", "w", "hsps", check=2))
        self.assertIn("no.fa", self.run_it("plan", "v", "no.fa", check=1))
        self.assertIn('"1k"', self.run_it("plan", "v", "--bases", "1k", "q.fa", check=1))
        self.assertFalse(os.path.exists(self.path("v/ranges")))
        self.assertIn('"align"', self.run_it("queries", "w", "align", "ref", check=1))
        for packed in (["--format", "packed"], ["--format=packed", "--unmask"]):
            self.assertIn("packed", self.run_it("queries", "w", "hsps", "ref", *packed, check=1))
        told = self.run_it("queries", "w", "hsps", "ref", "--strand", "plus", check=1, HSPZ_PATIENCE="1")
        self.assertRegex(told, "range 0, of .*q.fa: no server")
        self.assertIn("another command: hsps ref --strand plus",
                      self.run_it("queries", "w", "hsps", "ref", check=1))
        hspz_test.write(query, ">a\nACGTACGTACGTACGTACGTACG\n")
        self.assertIn("not what was planned", self.run_it("queries", "w", "hsps", "ref", "--strand", "plus",
                                                         check=1))
        self.assertIn("1 ranges have no result yet, 0 first", self.run_it("gather", "w", "-o", "x", check=1))
        self.assertEqual(sorted(os.listdir(self.path("w"))), ["command", "log", "ranges", "results"])

    def test_mistakes_of_a_new_user(self):
        self.file("q.fa", ">a\nACGTACGTACGTACGTACGTACGT\n")
        self.file("r.fa", ">b\nACGTACGTACGTACGTACGTACGT\n")
        self.assertIn(self.folder + ": there is no such file", self.run_it("plan", "w", self.folder, check=1))
        self.assertIn("ranges is not there: hspz-slurm plan makes it",
                      self.run_it("gather", "w", "-o", "x", check=1))
        self.run_it("plan", "w", "q.fa", "r.fa", check=0)
        for columns in (["--format", "columns"], ["--format=columns", "--unmask"]):
            self.assertIn("columns", self.run_it("queries", "w", "discover", "packed", *columns, check=1))
        self.assertFalse(os.path.exists(self.path("w/command")))
        self.file("w/servers", "unix:%s\n" % self.path("nobody"))
        # Said once, not for each range; and what it has left behind keeps nobody from another command.
        told = self.run_it("queries", "w", "discover", "packed", "--nonsense", check=2)
        self.assertEqual(told.count("unknown option --nonsense"), 1, told)
        told = self.run_it("queries", "w", "discover", "packed", check=1)
        self.assertIn("another command: discover packed --nonsense; there are none: rm %s" %
                      self.path("w/command"), told)
        os.remove(self.path("w/command"))
        daemon = self.daemon(indexes={"packed": self.index([("r", "ACGTACGTACGTACGTACGTACGTACGT")])})
        self.file("w/servers", daemon.server + "\n")
        self.run_it("queries", "w", "discover", "packed", check=0)
        self.assertEqual(sorted(os.listdir(self.path("w/results"))), ["0", "1"])
        told = self.run_it("queries", "w", "hsps", "packed", check=1)
        self.assertIn("results are of another command: discover packed\n", told)
        self.assertIn("sbatch servers.sbatch " + self.path("w"), self.run_it("servers", "w", check=1))


if __name__ == "__main__":
    hspz_test.main()
