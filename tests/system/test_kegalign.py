"""`hspz-client kegalign` against a live daemon: KegAlign's own files and commands, byte for byte, and
the alignments that LASTZ makes of them."""

import gzip
import hashlib
import os
import shutil
import signal
import subprocess
import time

import hspz_test as t

# [set, target, query, options]; MAX_HITS where a set names one, else the default, which holds all.
MINI = ("mini_t.fa", "mini_q.fa")
FRUIT = ("apple.fasta.gz", "orange.fasta.gz")
SETS = [
    ("mini8", MINI, ["--seed", "1110100110101", "--notransition"]),
    ("mini8t", MINI, ["--seed", "1110100110101", "--max-hits", "30000"]),
    ("mini12", MINI, ["--hspthresh", "1500", "--max-hits", "2000"]),
    ("mini12step3", MINI, ["--hspthresh=1500", "--step=3"]),
    ("mini14", MINI, ["--seed=14of22", "--hspthresh=1500", "--noentropy"]),
    ("apple", FRUIT, []),
    ("applecap", FRUIT, ["--max-hits", "20000"]),
]


def hashes(name):
    """SHA-256 of every file of segments that KegAlign wrote."""
    with open(t.shared("oracle", name, "SHA256SUMS"), encoding="ascii") as file:
        lines = (line.split() for line in file)
        return {path: digest for digest, path in lines if path.endswith(".segments")}


def blocks(text):
    """Alignment blocks of a MAF file, whatever their order."""
    return sorted(b.strip() for b in text.split("\n\n") for b in [
        "\n".join(line for line in b.splitlines() if not line.startswith("#"))] if b.strip())


class KegAlign(t.TestCase):
    def kegalign(self, server, target, query, *args, check=0, name="run"):
        self.where = self.path(name)
        os.makedirs(self.where, exist_ok=True)
        return t.client("kegalign", target, query, *args, server=server, check=check,
                        cwd=self.where, env=t.child_env(XDG_CACHE_HOME=self.path("cache")))

    def digests(self):
        out = {}
        for name in os.listdir(self.where):
            if name.endswith(".segments"):
                with open(os.path.join(self.where, name), "rb") as file:
                    out[name] = hashlib.sha256(file.read()).hexdigest()
        return out

    def check_set(self, server, name, pair, options):
        target, query = (t.shared("data", f) for f in pair)
        done = self.kegalign(server, target, query, "data/", *options, name=name)
        want = hashes(name)
        self.assertTrue(want)
        self.assertEqual(self.digests(), want)
        with open(t.shared("oracle", name, "lastz-commands.txt"), encoding="ascii") as file:
            self.assertEqual(done.stdout, file.read())
        for side, path in (("ref", target), ("query", query)):
            with open(os.path.join(self.where, side + "_block0.name"), encoding="ascii") as file:
                self.assertEqual(file.read().splitlines(), [n for n, _ in t.read_fasta(path)])

    def test_files_and_commands_are_kegaligns_byte_for_byte(self):
        daemon = self.daemon(threads=2)
        for name, pair, options in SETS:
            with self.subTest(name):
                self.check_set(daemon.server, name, pair, options)
        # All the sets' indexes stay, one for each way to build.
        listed = [line.split("\t")[0] for line in
                  daemon.client("index", "list", check=0).stdout.splitlines()[1:]]
        self.assertEqual(len(listed), 5)

    def test_an_index_of_the_server_is_used_by_its_name(self):
        index = t.build_index(t.shared("data", "apple.fasta.gz"), self.path("a.hspz"))
        daemon = self.daemon(indexes={"apple": index})
        self.kegalign(daemon.server, "apple", t.shared("data", "orange.fasta.gz"), "data/")
        self.assertEqual(self.digests(), hashes("apple"))
        self.assertFalse(os.path.exists(self.path("cache")))

    def test_an_index_folder_of_the_server_serves_as_cache(self):
        os.mkdir(self.path("indexes"))
        daemon = self.daemon("--index-dir", self.path("indexes"))
        for _ in range(2):
            self.kegalign(daemon.server, t.shared("data", "apple.fasta.gz"),
                          t.shared("data", "orange.fasta.gz"), "data/", "--cache",
                          self.path("indexes"))
            self.assertEqual(self.digests(), hashes("apple"))
        self.assertEqual(len(os.listdir(self.path("indexes"))), 1)

    def loaded(self, daemon):
        return daemon.client("index", "list", check=0).stdout.splitlines()[1:]

    def test_an_index_stays_for_the_next_run_or_is_unloaded(self):
        daemon = self.daemon()
        pair = [t.shared("data", name) for name in ("apple.fasta.gz", "orange.fasta.gz")]
        self.kegalign(daemon.server, *pair, "data/", "--unload")
        self.assertEqual((self.loaded(daemon), self.digests()), ([], hashes("apple")))
        self.kegalign(daemon.server, *pair, "data/")
        self.assertEqual(len(self.loaded(daemon)), 1)
        # Not what another run had loaded.
        self.kegalign(daemon.server, *pair, "data/", "--unload")
        self.assertEqual(len(self.loaded(daemon)), 1)

    def test_a_damaged_index_in_the_cache_is_built_anew(self):
        pair = [t.shared("data", name) for name in ("apple.fasta.gz", "orange.fasta.gz")]
        daemon = self.daemon()
        self.kegalign(daemon.server, *pair, "data/", "--unload")
        folder = self.path("cache/hspz")
        path = os.path.join(folder, *os.listdir(folder))
        with open(path, "rb") as file:
            whole = file.read()
        changed = bytes([whole[-1] ^ 1])
        for damaged in (b"", whole[:1000], whole[:-1] + changed, b"x" + whole[1:]):
            for private in (False, True):
                t.write(path, damaged)
                more = ["--private", "--num_gpu", "0"] if private else ["--unload"]
                done = self.kegalign(None if private else daemon.server, *pair, "data/", *more)
                self.assertRegex(done.stderr, path + ": .*built anew")
                self.assertEqual(self.digests(), hashes("apple"))
                with open(path, "rb") as file:
                    self.assertTrue(file.read() == whole)
        daemon.stop()

    def test_names_that_lastz_reads_otherwise_are_copied_or_refused(self):
        target, query = self.plain("apple.fasta.gz", "t.fa"), self.path("x[y],z.fa")
        os.rename(self.plain("orange.fasta.gz", "q.fa"), query)
        daemon = self.daemon()
        done = self.kegalign(daemon.server, target, query)
        line = done.stdout.splitlines()[0]
        self.assertIn(" %s[nameparse" % target, line)
        self.assertIn(" query.fa[nameparse", line)
        if t.tool("lastz"):
            subprocess.run(["sh", "-c", line], check=True, cwd=self.where)
            self.assertGreater(os.path.getsize(self.where + "/tmp1.block0.r0.plus.maf-"), 1000)
        done = self.kegalign(daemon.server, target, query, "--out-dir", "a,b", check=2)
        self.assertIn("a,b: LASTZ takes", done.stderr)
        self.assertFalse(os.path.exists(self.where + "/a,b"))

    def plain(self, data, name):
        return self.file(name, t.fasta(t.read_fasta(t.shared("data", data))))

    def test_a_private_daemon_leaves_nothing_behind(self):
        os.mkdir(self.path("tmp"))
        done = subprocess.run(
            [t.CLIENT, "kegalign", "--private", t.shared("data", "apple.fasta.gz"),
             t.shared("data", "orange.fasta.gz"), "data/", "--num_threads", "2", "--num_gpu", "0"],
            cwd=self.folder, env=t.child_env(XDG_CACHE_HOME=self.path("cache"),
                                          TMPDIR=self.path("tmp")),
            capture_output=True, timeout=120 * t.SLOWER)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.where = self.folder
        self.assertEqual(self.digests(), hashes("apple"))
        self.assertEqual(os.listdir(self.path("tmp")), [])
        self.assertEqual(self.children_with(self.path("tmp")), [])

    def children_with(self, word):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as file:
                    if word.encode() in file.read():
                        found.append(int(pid))
            except OSError:
                pass
        return found

    def test_a_private_daemon_ends_with_a_killed_client(self):
        os.mkdir(self.path("tmp"))
        os.mkfifo(self.path("query"))
        client = subprocess.Popen(
            [t.CLIENT, "kegalign", "--private", t.shared("data", "mini_t.fa"), self.path("query"),
             "data/"], cwd=self.folder, stderr=subprocess.DEVNULL,
            env=t.child_env(XDG_CACHE_HOME=self.path("cache"), TMPDIR=self.path("tmp")))
        end = time.monotonic() + 60 * t.SLOWER
        while not self.children_with(self.path("tmp")) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertTrue(self.children_with(self.path("tmp")))
        client.send_signal(signal.SIGKILL)
        client.wait()
        while self.children_with(self.path("tmp")) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(self.children_with(self.path("tmp")), [])

    def test_a_private_daemon_ends_with_a_stopped_client(self):
        os.mkdir(self.path("tmp"))
        os.mkfifo(self.path("query"))
        client = subprocess.Popen(
            [t.CLIENT, "kegalign", "--private", t.shared("data", "mini_t.fa"), self.path("query"),
             "data/"], cwd=self.folder, stderr=subprocess.PIPE,
            env=t.child_env(XDG_CACHE_HOME=self.path("cache"), TMPDIR=self.path("tmp")))
        end = time.monotonic() + 60 * t.SLOWER
        while not self.children_with(self.path("tmp")) and time.monotonic() < end:
            time.sleep(0.02)
        client.send_signal(signal.SIGTERM)
        _, said = client.communicate(timeout=60 * t.SLOWER)
        self.assertEqual(client.returncode, 1, said)
        self.assertEqual(self.children_with(self.path("tmp")), [])
        self.assertEqual(os.listdir(self.path("tmp")), [])

    def test_a_private_daemon_that_cannot_start_says_why(self):
        cache = self.path("cache")
        os.mkdir(cache)
        target = t.shared("data", "mini_t.fa")
        args = ["kegalign", "--private", target, t.shared("data", "mini_q.fa"), "data/", "--cache",
                cache]
        for _ in range(2):  # also with an index that is there, and good
            done = t.client(*args, check=1, cwd=self.folder,
                            env=t.child_env(HSPZ_CHUNK_WALK="backwards"))
            self.assertIn("the private hspzd ended", done.stderr)
            self.assertIn("HSPZ_CHUNK_WALK", done.stderr)
            self.assertNotIn("anew", done.stderr)

    def test_lastz_makes_of_them_what_kegalign_publishes(self):
        lastz = t.tool("lastz")
        daemon = self.daemon(threads=2)
        # Without DATA_FOLDER the commands name copies that LASTZ can read.
        done = self.kegalign(daemon.server, t.shared("data", "apple.fasta.gz"),
                             t.shared("data", "orange.fasta.gz"))
        self.assertEqual(len(done.stdout.splitlines()), 2)
        env = t.child_env(PATH=os.path.dirname(lastz) + ":" + os.environ["PATH"])
        subprocess.run(["sh", "-e"], input=done.stdout.encode(), cwd=self.where, env=env,
                       check=True, timeout=300 * t.SLOWER)
        text = ""
        for name in sorted(os.listdir(self.where)):
            if name.endswith(".maf-"):
                with open(os.path.join(self.where, name), encoding="ascii") as file:
                    text += file.read() + "\n\n"
        with gzip.open(t.shared("data", "apple_orange.maf.gz"), "rt") as file:
            want = blocks(file.read())
        self.assertEqual(len(want), 31)
        self.assertTrue(blocks(text) == want)  # megabytes: not to be printed

    def test_one_list_of_segments_is_what_lastz_takes(self):
        """Several queries and both strands in one file."""
        daemon = self.daemon(threads=2)
        ref = t.write(self.path("ref.fa"), t.fasta(t.read_fasta(t.shared("data", FRUIT[0]))))
        query = t.write(self.path("query.fa"), t.fasta(t.read_fasta(t.shared("data", FRUIT[1]))))
        index = t.build_index(ref, self.path("ref.hspz"))
        daemon.client("index", "load", "ref", index, check=0)
        daemon.client("hsps", "ref", query, "--format", "segments", "-o", self.path("all.segments"),
                      check=0)
        done = subprocess.run(
            [t.tool("lastz"), ref + "[multiple][nameparse=darkspace]",
             query + "[nameparse=darkspace]", "--segments=" + self.path("all.segments"),
             "--ydrop=9430", "--gappedthresh=3000", "--format=maf-"],
            capture_output=True, check=True, timeout=300 * t.SLOWER, text=True)
        with gzip.open(t.shared("data", "apple_orange.maf.gz"), "rt") as file:
            self.assertTrue(blocks(done.stdout) == blocks(file.read()))

    def test_empty_and_short_queries_give_names_and_no_segments(self):
        daemon = self.daemon()
        for records in ([("a", "")], [("a", "ACGT"), ("b", "")], [("c", "A" * 19)]):
            query = t.write(self.path("q.fa"), t.fasta(records))
            shutil.rmtree(self.path("run"), ignore_errors=True)
            for compat in ("kegalign-0.1", "none"):
                done = self.kegalign(daemon.server, t.shared("data", "mini_t.fa"), query, "data/",
                                     "--compat", compat)
                self.assertEqual(done.stdout, "")
                self.assertEqual(sorted(os.listdir(self.where)),
                                 ["query_block0.name", "ref_block0.name"])

    def test_small_blocks_and_intervals_find_the_same(self):
        """Blocks of one or two sequences, small intervals, one daemon: the set without KegAlign's
        chunks depends on none of it."""
        daemon = self.daemon(threads=2)
        target, query = t.shared("data", "mini_t.fa"), t.shared("data", "mini_q.fa")
        sets = []
        for options in ([], ["--seq_block_size", "2500"], ["--lastz_interval_size", "700"],
                        ["--query-block-size", "1000", "--balanced"], ["--max-hits", "500"]):
            name = "run%d" % len(sets)
            done = self.kegalign(daemon.server, target, query, "data/", "--compat", "none",
                                 "--hspthresh", "1500", *options, name=name)
            lines = []
            for file in os.listdir(self.where):
                if file.endswith(".segments"):
                    self.assertIn("--segments=" + file + " ", done.stdout)
                    with open(os.path.join(self.where, file), encoding="ascii") as segments:
                        lines += segments.read().splitlines()
            sets.append(sorted(lines))
        self.assertGreater(len(sets[0]), 100)
        for other in sets[1:]:
            self.assertEqual(other, sets[0])


t.main()
