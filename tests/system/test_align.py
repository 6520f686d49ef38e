"""hspz-client align and compare. The truth is LASTZ run by hand on all segments at once, and for
apple and orange the alignments that KegAlign's repository publishes; LASTZ programs that fail in
every way are played by scripts."""

import fcntl
import glob
import gzip
import os
import random
import re
import resource
import signal
import subprocess
import time
import unittest
from collections import Counter

import hspz_test
from hspz_test import (CLIENT, SLOWER, bases, child_env, client, fasta, poll, reverse_complement,
                       shared, tool, write)

OPTIONS = ["--ydrop=9430", "--gappedthresh=3000"]


def maf_blocks(data):
    """Multiset of MAF blocks, each its lines but the comments."""
    blocks = Counter(block.strip("\n") for block in
                     "\n".join(line for line in data.split("\n") if not line.startswith("#"))
                     .split("\n\n"))
    del blocks[""]
    return blocks


def axt_blocks(data):
    return Counter(block.split(" ", 1)[1] for block in
                   "\n".join(line for line in data.split("\n") if not line.startswith("#"))
                   .strip("\n").split("\n\n"))


def mutate(rng, seq, rate, gaps):
    out, at = [], 0
    while at < len(seq):
        roll = rng.random()
        if roll < rate:
            out.append(rng.choice("ACGT"))
        elif roll < rate + gaps:
            at += rng.randint(0, 30)
            out.append(bases(rng, rng.randint(0, 30)))
        else:
            out.append(seq[at])
        at += 1
    return "".join(out)


def stub(path, body):
    """A program that calls itself LASTZ, and runs `body` (shell) when it is to align."""
    write(path, "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'lastz (version 9.9 released x)'; "
                "exit 1; fi\n" + body + "\n")
    os.chmod(path, 0o755)
    return path


class Align(hspz_test.TestCase):
    def setUp(self):
        super().setUp()
        self.lastz = tool("lastz")

    def apple(self):
        return [shared("data", "apple.fasta.gz"), shared("data", "orange.fasta.gz"),
                shared("oracle", "apple")]

    def align(self, *args, out="out.maf", check=0, **more):
        done = client("align", "-o", self.path(out), *args, check=check, **more)
        with open(self.path(out), encoding="utf-8") as file:
            return file.read(), done.stderr

    def segments(self, target, query, name="made.segments", *options):
        """LASTZ's own HSPs of two FASTA files, as a segment file."""
        done = subprocess.run([self.lastz, target + "[nameparse=darkspace][multiple]",
                               query + "[nameparse=darkspace]", "--nogapped", *options,
                               "--format=general-:name1,start1,end1,name2,start2,end2,strand2,"
                               "score"], capture_output=True, text=True, check=True)
        self.assertGreater(done.stdout.count("\n"), 2)
        return self.file(name, done.stdout)

    def by_hand(self, target, query, segments, form, *options):
        """LASTZ on the segments of a strand at a time, in the query's order."""
        order = {name: i for i, (name, _) in enumerate(hspz_test.read_fasta(query))}
        with open(segments, encoding="utf-8") as file:
            lines = sorted(file, key=lambda line: order[line.split()[3]])
        out = ""
        for strand, sign in (("plus", "+"), ("minus", "-")):
            part = self.file("by_hand." + strand, "".join(
                line for line in lines if line.split()[6] == sign))
            out += subprocess.run(
                [self.lastz, target + "[nameparse=darkspace][multiple]",
                 query + "[nameparse=darkspace]", "--format=" + form, "--strand=" + strand,
                 "--segments=" + part, *(options or OPTIONS)],
                capture_output=True, text=True, check=True).stdout
        return out


class WholeTest(Align):
    def test_apple_and_orange_give_the_published_alignments(self):
        with gzip.open(shared("data", "apple_orange.maf.gz"), "rt") as file:
            want = maf_blocks(file.read())
        self.assertEqual(sum(want.values()), 31)
        first, said = self.align(*self.apple(), "--processes", "1")
        self.assertEqual(maf_blocks(first), want)
        self.assertTrue(first.startswith("##maf version=1 "))
        self.assertEqual(first.count("##maf"), 1)
        self.assertIn("31 alignments of 1225 segments", said)
        for processes in ("2", "4"):
            self.assertEqual(self.align(*self.apple(), "--processes", processes)[0], first)
        self.assertEqual(self.align(*self.apple(), "--piece-cost", "1")[0], first)
        self.assertEqual(self.align(*self.apple(), "--whole")[0], first)
        self.assertEqual(os.listdir(self.folder), ["out.maf"])
        written = client("align", *self.apple(), check=0, env=child_env(TMPDIR=self.folder))
        self.assertEqual(written.stdout, first)
        self.assertEqual(os.listdir(self.folder), ["out.maf"])

    def test_blocks_stand_by_target_and_place(self):
        text, _ = self.align(*self.apple())
        names = [name for name, _ in hspz_test.read_fasta(self.apple()[0])]
        places = []
        for block in text.split("\n\n")[:-1]:
            words = next(line for line in block.split("\n") if line.startswith("s ")).split()
            places.append((names.index(words[1]), int(words[2])))
        self.assertEqual(len(places), 31)
        self.assertEqual(places, sorted(places))

    def pair(self, seed):
        """Two genomes of a few sequences with gaps, inversions, repeats near and far."""
        rng = random.Random(seed)
        repeat, unit = bases(rng, 700), bases(rng, 90)
        first = bases(rng, 9000) + repeat + bases(rng, 2500) + repeat + bases(rng, 4000)
        second = bases(rng, 3000) + unit * 12 + bases(rng, 1200) + repeat
        target = [("chr#1", first), ("t|2.x", second)]
        inverted = first[:5000] + reverse_complement(first[5000:8000]) + first[8000:]
        query = [("HG#2#a", mutate(rng, inverted, 0.12, 0.004)),
                 ("q2", mutate(rng, second + bases(rng, 800) + first[9000:11000], 0.05, 0.002)),
                 ("unrelated", bases(rng, 1500))]
        return target, query

    def test_pieces_give_what_one_process_gives(self):
        mended = 0
        for seed in range(3):
            target, query = self.pair(seed)
            # LASTZ by hand cannot read names with # in segments.
            plain = [[(n.replace("#", "."), s) for n, s in side] for side in (target, query)]
            t, q = self.file("t.fa", fasta(plain[0])), self.file("q.fa", fasta(plain[1]))
            segments = self.segments(t, q)
            want = maf_blocks(self.by_hand(t, q, segments, "maf-"))
            self.assertGreater(sum(want.values()), 5)
            whole, _ = self.align(t, q, segments, "--whole")
            self.assertEqual(maf_blocks(whole), want)
            for cut in (["--piece-cost", "1"], ["--reach", "100", "--piece-cost", "1"],
                        ["--reach", "400"], []):
                text, said = self.align(t, q, segments, *cut)
                self.assertEqual(text, whole, cut)
                mended += "done again" in said
            self.assertEqual(maf_blocks(self.align(t, q, segments, "--reach", "100", "--inner",
                                                   "2000", "--whole")[0]),
                             maf_blocks(self.by_hand(t, q, segments, "maf-", *OPTIONS,
                                                     "--inner=2000")))
        self.assertGreater(mended, 0, "no cut was ever mended: the test shows little")

    def test_a_sequence_against_itself(self):
        rng = random.Random(8)
        repeat = bases(rng, 600)
        seq = "".join(bases(rng, 1500) + mutate(rng, repeat, 0.1, 0.003) for _ in range(6))
        same = self.file("same.fa", fasta([("one", seq), ("two", bases(rng, 2000))]))
        segments = self.segments(same, same)
        for options in ([], ["--notrivial"]):
            want = maf_blocks(self.by_hand(same, same, segments, "maf-", *OPTIONS, *options))
            self.assertGreater(sum(want.values()), 10)
            for cut in (["--whole"], ["--reach", "100", "--piece-cost", "1"], []):
                self.assertEqual(maf_blocks(self.align(same, same, segments, *cut, *options)[0]),
                                 want, cut)

    def test_names_with_signs_that_lastz_reads_otherwise(self):
        target, query = self.pair(5)
        plain = [[(n.replace("#", "."), s) for n, s in side] for side in (target, query)]
        t, q = self.file("t.fa", fasta(plain[0])), self.file("q.fa", fasta(plain[1]))
        segments = self.segments(t, q)
        want, _ = self.align(t, q, segments)
        odd = os.path.join(self.folder, "a folder [multiple],'x::y")
        os.mkdir(odd)
        names = [os.path.join(odd, name) for name in ("t[1..2].fa", "q{2}.fa", "s [3].segments")]
        write(names[0], fasta(target))
        write(names[1], fasta(query))
        with open(segments, encoding="utf-8") as file:
            write(names[2], file.read().replace("chr.1", "chr#1").replace("HG.2.a", "HG#2#a"))
        got, _ = self.align(*names, out=os.path.join(odd, "out [x].maf"))
        self.assertIn("s chr#1 ", got)
        self.assertEqual(got.replace("chr#1", "chr.1").replace("HG#2#a", "HG.2.a"), want)

    def test_axt_and_paf_are_lastzs(self):
        target, query = self.pair(6)
        plain = [[(n.replace("#", "."), s) for n, s in side] for side in (target, query)]
        t, q = self.file("t.fa", fasta(plain[0])), self.file("q.fa", fasta(plain[1]))
        segments = self.segments(t, q)
        want = axt_blocks(self.by_hand(t, q, segments, "axt"))
        text, _ = self.align(t, q, segments, "--format", "axt", "--piece-cost", "1")
        self.assertGreater(sum(want.values()), 5)
        self.assertEqual(axt_blocks(text), want)
        heads = [line.split()[0] for line in text.split("\n") if line[:1].isdigit()]
        self.assertEqual(heads, [str(i) for i in range(len(heads))])
        want = Counter(self.by_hand(t, q, segments, "paf").splitlines())
        text, _ = self.align(t, q, segments, "--format", "paf", "--piece-cost", "1")
        self.assertEqual(Counter(text.splitlines()), want)

    def test_options_reach_lastz(self):
        target, query = self.pair(7)
        plain = [[(n.replace("#", "."), s) for n, s in side] for side in (target, query)]
        t, q = self.file("t.fa", fasta(plain[0])), self.file("q.fa", fasta(plain[1]))
        segments = self.segments(t, q)
        scores = self.file("sco[res", "gap_open_penalty = 600\ngap_extend_penalty = 50\n"
                           "    A    C    G    T\nA  90 -100  -40 -110\nC -100  95 -120  -40\n"
                           "G -40 -120   95 -100\nT -110 -40 -100   90\n")
        plain_scores = self.file("scores", open(scores, encoding="ascii").read())
        want = self.by_hand(t, q, segments, "maf-", "--ydrop=5000", "--gappedthresh=2000",
                            "--scores=" + plain_scores, "--ambiguous=iupac",
                            "--allocate:traceback=20M")
        got, _ = self.align(t, q, segments, "--ydrop", "5000", "--gappedthresh", "2000",
                            "--scoring", scores, "--ambiguous", "iupac", "--",
                            "--allocate:traceback=20M")
        self.assertEqual(maf_blocks(got), maf_blocks(want))
        self.assertNotEqual(maf_blocks(got), maf_blocks(self.by_hand(t, q, segments, "maf-")))

    def test_cut_alignments_are_told(self):
        target, query = self.pair(1)
        plain = [[(n.replace("#", "."), s) for n, s in side] for side in (target, query)]
        t, q = self.file("t.fa", fasta(plain[0])), self.file("q.fa", fasta(plain[1]))
        said = self.align(t, q, self.segments(t, q), "--", "--allocate:traceback=1M")[1]
        self.assertRegex(said, r"warning: LASTZ cut \d+ extensions short")

    def test_a_server_finds_the_segments(self):
        target, query, _ = self.apple()
        index = hspz_test.build_index(target, self.path("apple.hspz"))
        daemon = self.daemon(indexes={"apple": index})
        with gzip.open(shared("data", "apple_orange.maf.gz"), "rt") as file:
            want = maf_blocks(file.read())
        text, _ = self.align(target, query, "--index", "apple", server=daemon.server)
        self.assertEqual(maf_blocks(text), want)
        plus, _ = self.align(target, query, "--index", "apple", "--strand", "plus", "--hspthresh",
                             "4000", server=daemon.server)
        self.assertTrue(0 < len(maf_blocks(plus)) < 31)
        done = client("align", target, query, "--index", "pear", "-o", self.path("x"), check=1,
                      server=daemon.server)
        self.assertIn("pear", done.stderr)
        self.assertFalse(os.path.exists(self.path("x")))
        done = client("align", query, target, "--index", "apple", "-o", self.path("x"), check=1,
                      server=daemon.server)
        self.assertIn(query + ": its sequences are not those of the index", done.stderr)
        with gzip.open(target, "rt") as file:
            head, rest = file.read().split("\n", 1)
        changed = rest.replace("G", "C", 1) if "G" in rest[:70] else "G" + rest[1:]
        other = self.file("other.fa", head + "\n" + changed)
        done = client("align", other, query, "--index", "apple", "-o", self.path("x"), check=1,
                      server=daemon.server)
        self.assertIn(other + ": its sequences have names and lengths of those of the index, but "
                      "other bases", done.stderr)
        masked = self.file("masked.fa", head + "\n" + re.sub(
            "^[^>].*$", lambda line: line.group().lower(), rest, flags=re.M))
        paf = ("hsps", "apple", query, "--strand", "plus", "--format", "paf", "--target")
        for path, status in ((target, 0), (masked, 0), (other, 1)):
            done = client(*paf, path, check=status, server=daemon.server)
            self.assertEqual(done.stdout.count("\n") > 500, status == 0)
            self.assertEqual("other bases" in done.stderr, status == 1)
        self.assertFalse(os.path.exists(self.path("x")))
        daemon.stop()

    def test_progress_is_shown_on_a_terminal_and_gone_at_the_end(self):
        ours, theirs = os.openpty()
        program = stub(self.path("slow"), "sleep 0.5; exec '%s' \"$@\"" % self.lastz)
        process = subprocess.Popen([CLIENT, "align", *self.apple(), "-o", self.path("o"),
                                    "--lastz", program, "--processes", "2"], stderr=theirs,
                                   env=child_env())
        os.close(theirs)
        shown = b""
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:
                break
            if not data:
                break
            shown += data
        os.close(ours)
        self.assertEqual(process.wait(), 0)
        self.assertRegex(shown, rb"aligning \[[#.]{20}\] \d of 4 pieces, 2 running")
        self.assertIn(b"\r\x1b[K31 alignments of 1225 segments", shown)

    def test_no_segments_give_no_alignment(self):
        text, said = self.align(*self.apple()[:2], self.file("none.segments", "# nothing\n"))
        self.assertEqual([line for line in text.split("\n") if not line.startswith("#")], [""])
        self.assertIn("0 alignments", said)

    def test_a_run_that_found_no_hsp_gives_no_alignment(self):
        target, query = self.file("t.fa", ">t\n" + "A" * 500), self.file("q.fa", ">q\n" + "C" * 500)
        daemon = self.daemon(indexes={"t": hspz_test.build_index(target, self.path("t.hspz"))})
        folder = self.path("hsps")
        os.mkdir(folder)
        client("hsps", "t", query, "--out-dir", folder, server=daemon.server, check=0)
        daemon.stop()
        self.assertEqual(glob.glob(folder + "/*.segments"), [])
        self.assertIn("0 alignments", self.align(target, query, folder)[1])
        empty = self.file("none.segments", "# nothing\n")
        self.assertIn("equal\t0\t0\n", client("compare", folder, empty, check=0).stdout)
        other = self.file("one.segments", "t 1 2 q 1 2 + 5\n")
        client("compare", folder, other, check=1)


class BadInputTest(Align):
    def refused(self, segments, *words, code=1):
        done = client("align", *self.apple()[:2], self.file("x.segments", segments), "-o",
                      self.path("out.maf"), check=code)
        for word in (*words, "is kept in %s.pieces: " % self.path("out.maf")):
            self.assertIn(word, done.stderr)
        self.assertFalse(os.path.exists(self.path("out.maf")))

    def test_segments_that_do_not_fit_are_named(self):
        good = "APPLE_id100_len10000 1 100 ORANGE_id100_len10000 1 100 + 3000\n"
        self.refused(good + good.replace("APPLE", "PEAR"), "x.segments: line 2: target "
                     "PEAR_id100_len10000 is no sequence of", "apple.fasta.gz")
        self.refused(good + good.replace("ORANGE", "PEAR"), "line 2: query PEAR")
        self.refused(good.replace("1 100 O", "11991 12090 O"), "line 1: target", "not that long")
        self.refused(good.replace("1 100 +", "19901 20000 +"), "line 1: query", "not that long")
        self.refused(good + "APPLE 5\n", "line 2: 2 fields")

    def test_what_lastz_says_of_sequences_is_told_by_their_names(self):
        seq = bases(random.Random(3), 300)
        target = self.file("t.fa", fasta([("good", seq), ("bad|R", seq[:100] + "R" + seq[101:])]))
        segments = self.file("s.segments", "good 1 90 good 1 90 + 8000\nbad|R 1 90 good 1 90 + 8000\n")
        done = client("align", target, target, segments, "-o", self.path("o"), check=1)
        self.assertIn("bad fasta character", done.stderr)
        self.assertIn("--ambiguous=iupac", done.stderr)
        self.assertRegex(done.stderr, r"s\d is bad\|R\n")
        client("align", target, target, segments, "-o", self.path("o"), "--ambiguous", "iupac",
               check=0)

    def test_usage(self):
        for args, words in (
                ([], "TARGET is missing"),
                (["a", "b"], "SEGMENTS is missing, or --index"),
                (["a", "b", "c", "--index", "x"], "only one of SEGMENTS and --index"),
                (["a", "-", "--index", "x"], "QUERY is read twice"),
                (["-", "b", "--index", "x"], "TARGET is read twice"),
                (["a", "b", "c", "--hspthresh", "5"], "are for --index"),
                (["a", "b", "c", "--ydrop", "x"], "--ydrop \"x\""),
                (["a", "b", "c", "--", "--chain"], "--whole"),
                (["a", "b", "c", "--", "--format=sam"], "align sets it"),
                (["a", "b", "c", "--", "q.fa"], "begin with --"),
                (["a", "b", "c", "--processes", "0"], "from 1 to")):
            self.assertIn(words, client("align", *args, check=2).stderr, args)
        target = self.file("t.fa", ">a\nA\n")
        self.assertIn("input itself", client("align", target, "b", "c", "-o", target,
                                             check=2).stderr)

    def test_a_missing_lastz_is_said_with_the_way_to_get_it(self):
        done = client("align", *self.apple(), "-o", self.path("o"), "--lastz", "no-such-lastz",
                      check=1)
        self.assertIn("no-such-lastz", done.stderr)
        self.assertIn("apt-get install lastz", done.stderr)
        done = client("align", *self.apple(), "-o", self.path("o"), "--lastz", "/bin/true", check=1)
        self.assertIn("/bin/true is no LASTZ", done.stderr)
        self.assertEqual(os.listdir(self.folder), [])


class FailureTest(Align):
    def fails(self, body, *words, check=1, **more):
        done = client("align", *self.apple(), "-o", self.path("out.maf"), "--processes", "2",
                      "--lastz", stub(self.path("stub"), body), check=check, **more)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertFalse(os.path.exists(self.path("out.maf")))
        return done.stderr

    def test_exit_status_command_and_last_words_are_told(self):
        self.fails("echo oh dear >&2; exit 3", "exit status 3", "it said: oh dear", "command: cd ",
                   "--strand=", "--segments=hspz-s-")

    def test_a_long_complaint_is_told_from_its_end(self):
        said = self.fails("seq 100000 >&2; echo the end >&2; exit 1", "the end")
        self.assertLess(len(said), 4000)

    def test_death_by_signal_is_told(self):
        self.fails("kill -SEGV $$", "killed by signal 11 (Segmentation fault)")

    def test_half_an_output_is_a_failure(self):
        self.fails("echo a score=5; exit 0", "has not written its last line")

    def test_nonsense_is_a_failure(self):
        self.fails("echo nonsense; echo '# lastz end-of-file'", "line 1: no a line of MAF")
        self.fails("printf 'a score=1\\ns s0 5 2 + 9 AC\\ns s1 5 3 + 9 AC\\n\\n"
                   "# lastz end-of-file\\n'", "line 3: ")

    def test_a_hanging_lastz_ends_with_its_client(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            body = "echo $$ >> '%s'; trap '' TERM; sleep 1000" % self.path("pids")
            process = subprocess.Popen(
                [CLIENT, "align", *self.apple(), "-o", self.path("out.maf"), "--processes", "2",
                 "--lastz", stub(self.path("stub"), body)], stderr=subprocess.PIPE, text=True,
                env=child_env())
            self.assertTrue(poll(lambda: os.path.exists(self.path("pids")) and len(
                open(self.path("pids"), encoding="ascii").read().split()) == 2))
            process.send_signal(number)
            said = process.communicate(timeout=20 * SLOWER)[1]
            self.assertEqual(process.returncode, 1)
            self.assertIn("stopped by a signal", said)
            for pid in open(self.path("pids"), encoding="ascii").read().split():
                self.assertFalse(os.path.exists("/proc/" + pid))
            os.unlink(self.path("pids"))
        self.assertFalse(os.path.exists(self.path("out.maf")))

    def test_ends_are_told_to_who_was_started_ignoring_them(self):
        def ignore():
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        self.fails("exit 3", "exit status 3", preexec_fn=ignore)

    def test_one_failure_ends_the_others(self):
        body = "if mkdir '%s' 2>/dev/null; then sleep 1000; else exit 7; fi" % self.path("first")
        begin = time.monotonic()
        self.fails(body, "exit status 7")
        self.assertLess(time.monotonic() - begin, 20 * SLOWER)

    def test_a_piece_that_cannot_be_written_is_told(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (400000, 400000))
        said = self.fails("head -c 500000 /dev/zero", "out.maf.pieces/hspz-p-", "File too large",
                          preexec_fn=limit)
        self.assertNotIn("lastz failed", said)

    def test_an_output_that_cannot_be_is_told_before_any_work(self):
        program = stub(self.path("stub"), "echo x >> '%s'; exit 1" % self.path("count"))
        os.mkdir(self.path("folder"))
        done = client("align", *self.apple(), "-o", self.path("folder"), "--lastz", program,
                      check=1)
        self.assertIn(self.path("folder") + ": cannot write it: Is a directory", done.stderr)
        self.assertFalse(os.path.exists(self.path("count")))
        self.assertEqual(sorted(os.listdir(self.folder)), ["folder", "stub"])

    def test_a_full_disk_at_the_end_is_told(self):
        done = client("align", *self.apple(), "-o", "/dev/full", "--work", self.path("work"),
                      check=1)
        self.assertIn("No space left on device", done.stderr)
        tmp = self.path("tmp")
        os.mkdir(tmp)
        for output in ("/dev/full", "/dev/null"):
            client("align", *self.apple(), "-o", output, check=int(output == "/dev/full"),
                   env=child_env(TMPDIR=tmp))
            self.assertFalse(os.path.exists(output + ".pieces"))
            self.assertEqual(os.listdir(tmp), [])
        # All is done but the writing.
        text, said = self.align(*self.apple(), "--work", self.path("work"))
        self.assertRegex(said, r"4 pieces \(4 done before\)")
        self.assertEqual(text.count("\na "), 31)

    def test_killed_in_the_middle_it_goes_on_with_the_same_bytes(self):
        want, _ = self.align(*self.apple(), "--piece-cost", "1", out="want.maf")
        # A LASTZ may outlive the client that started it: each run counts for itself.
        # The first run stands still after some pieces, until it is killed.
        program = stub(self.path("stub"), "echo x >> \"$COUNT\"\n"
                       "while [ ! -e '%s' ] && [ $(wc -l < \"$COUNT\") -gt 12 ]; do sleep 0.05; done\n"
                       "exec '%s' \"$@\"" % (self.path("go"), self.lastz))
        args = [*self.apple(), "-o", self.path("out.maf"), "--piece-cost", "1", "--processes", "2",
                "--lastz", program]
        process = subprocess.Popen([CLIENT, "align", *args], stderr=subprocess.DEVNULL,
                                   env=child_env(COUNT=self.path("first")))
        done = lambda: glob.glob(self.path("out.maf.pieces/hspz-p-*"))
        self.assertTrue(poll(lambda: len(done()) >= 5, every=0.005))
        process.kill()
        process.wait()
        self.file("go", "")
        kept = len(done())
        self.assertLess(kept, 31)
        self.assertFalse(os.path.exists(self.path("out.maf")))
        said = client("align", *args, check=0, env=child_env(COUNT=self.path("second"))).stderr
        self.assertIn("31 pieces (%d done before)" % kept, said)
        with open(self.path("second"), encoding="ascii") as file:
            self.assertEqual(len(file.readlines()), 31 - kept)
        with open(self.path("out.maf"), encoding="utf-8") as file:
            self.assertEqual(file.read().replace("v9.9", "v" + want.split("lastz.v")[1].split()[0]),
                             want)
        self.assertFalse(os.path.exists(self.path("out.maf.pieces")))

    def test_a_damaged_piece_is_done_again(self):
        want, _ = self.align(*self.apple(), out="want.maf")
        client("align", *self.apple(), "-o", "/dev/full", "--work", self.path("w"), check=1)
        first, second, *_ = sorted(glob.glob(self.path("w/hspz-p-*")))
        write(first, b"")
        with open(second, "rb") as file:
            text = file.read()
        write(second, text[:len(text) // 2])
        got, said = self.align(*self.apple(), "--work", self.path("w"))
        self.assertRegex(said, r"4 pieces \(2 done before\)")
        self.assertEqual(got, want)

    def test_damaged_copies_of_genomes_are_written_anew(self):
        want, _ = self.align(*self.apple(), out="want.maf")
        for damage in (lambda text: text[:len(text) // 2], lambda text: text + b"A\n",
                       lambda text: text.replace(b"G", b"C", 1), lambda _: b""):
            client("align", *self.apple(), "-o", "/dev/full", "--work", self.path("w"), check=1)
            for piece in glob.glob(self.path("w/hspz-p-*")):
                os.remove(piece)
            for path in glob.glob(self.path("w/hspz-[tqs]-*")):
                with open(path, "rb") as file:
                    text = file.read()
                write(path, damage(text))
            got, said = self.align(*self.apple(), "--work", self.path("w"))
            self.assertRegex(said, r"4 pieces \(0 done before\)")
            self.assertEqual(got, want)

    def test_other_options_use_nothing_of_before(self):
        client("align", *self.apple(), "-o", "/dev/full", "--work", self.path("w"), check=1)
        said = self.align(*self.apple(), "--work", self.path("w"), "--ydrop", "3000")[1]
        self.assertIn("(0 done before)", said)

    def test_two_at_once_do_not_share_a_folder(self):
        os.mkdir(self.path("w"))
        with open(self.path("w/hspz-lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = client("align", *self.apple(), "-o", self.path("o"), "--work", self.path("w"),
                          check=1)
        self.assertIn("another hspz-client works in this folder", done.stderr)

    def test_a_folder_of_others_keeps_what_is_not_ours(self):
        os.mkdir(self.path("w"))
        self.file("w/mine.txt", "x")
        self.align(*self.apple(), "--work", self.path("w"))
        self.assertEqual(os.listdir(self.path("w")), ["mine.txt"])


class PartitionTest(Align):
    def commands(self, folder, prefix=""):
        """KegAlign's files and commands in `folder`, made for FASTA."""
        for path in glob.glob(shared("oracle", "apple", "*.segments")):
            with open(path, "rb") as file:
                write(os.path.join(folder, os.path.basename(path)), file.read())
        for name, path in (("t.fa", self.apple()[0]), ("q.fa", self.apple()[1])):
            with gzip.open(path) as file:
                write(os.path.join(folder, name), file.read())
        return "".join(
            "lastz t.fa[nameparse=darkspace][multiple] q.fa[nameparse=darkspace] --format=maf- "
            "--ydrop=9430 --gappedthresh=3000 --strand={0} --segments={1}tmp1.block0.r0.{0}.segments"
            " --output={1}tmp1.block0.r0.{0}.maf- 2> {1}tmp1.block0.r0.{0}.err\n".format(s, prefix)
            for s in ("plus", "minus"))

    def run_all(self, folder, commands):
        for line in commands.splitlines():
            subprocess.run(["sh", "-c", line], check=True, cwd=folder)
        text = ""
        for path in glob.glob(os.path.join(folder, "*.maf-")):
            with open(path, encoding="utf-8") as file:
                text += file.read()
        return maf_blocks(text)

    def test_parts_together_give_the_published_alignments(self):
        with gzip.open(shared("data", "apple_orange.maf.gz"), "rt") as file:
            want = maf_blocks(file.read())
        self.file("list", self.commands(self.folder))
        before = client("compare", shared("oracle", "apple"), self.folder, check=0).stdout
        done = client("partition", "list", "--segments", "100", cwd=self.folder, check=0)
        lines = done.stdout.splitlines()
        self.assertGreater(len(lines), 8)
        self.assertIn("--segments=tmp1.block0.r0.plus.split2.segments "
                      "--output=tmp1.block0.r0.plus.split2.maf- "
                      "2> tmp1.block0.r0.plus.split2.err", done.stdout)
        parts = glob.glob(self.path("*.split*.segments"))
        self.assertEqual(len(parts), len(lines))
        self.assertFalse(os.path.exists(self.path("tmp1.block0.r0.plus.segments")))
        self.assertIn("equal\t1226\t1226", before)
        sizes = []
        for part in parts:
            with open(part, encoding="utf-8") as file:
                sizes.append(len(file.readlines()))
        self.assertEqual(sum(sizes), 1225)  # of the one that KegAlign has twice, one
        self.assertLess(max(sizes), 200)
        self.assertEqual(self.run_all(self.folder, done.stdout), want)

    def test_small_files_and_commands_of_parts_are_left_alone(self):
        commands = self.commands(self.folder)
        done = client("partition", "-", stdin=commands.encode(), cwd=self.folder, check=0)
        self.assertEqual(done.stdout, commands)
        self.assertTrue(os.path.exists(self.path("tmp1.block0.r0.plus.segments")))

    def test_quoted_names_are_read_as_a_shell_does(self):
        folder = os.path.join(self.folder, "it's a [x]")
        os.mkdir(folder)
        commands = self.commands(folder, "@")
        quoted = folder.replace("'", "'\\''") + "/"
        line = commands.splitlines()[0].replace(" --output=@", "' '--output=@") \
            .replace(" --segments", " '--segments").replace(" 2> @", "' 2> '@") + "'\n"
        line = line.replace("@", quoted)
        done = client("partition", "-", "--segments", "100", "--keep", stdin=line.encode(),
                      check=0)
        self.assertTrue(os.path.exists(os.path.join(folder, "tmp1.block0.r0.plus.split2.segments")))
        self.assertTrue(os.path.exists(os.path.join(folder, "tmp1.block0.r0.plus.segments")))
        words = subprocess.run(["sh", "-c", "printf '%s\\n' " + done.stdout.splitlines()[1]
                                .split("2>")[0]], capture_output=True, text=True, check=True)
        self.assertIn("--output=" + folder + "/tmp1.block0.r0.plus.split2.maf-\n", words.stdout)

    def test_parts_do_not_stay_after_a_failure(self):
        commands = self.commands(self.folder)
        os.mkdir(self.path("tmp1.block0.r0.minus.split2.segments"))
        parts = lambda: [path for path in glob.glob(self.path("*.split*")) if os.path.isfile(path)]
        done = client("partition", "-", "--segments", "100", stdin=commands.encode(),
                      cwd=self.folder, check=1)
        self.assertIn("tmp1.block0.r0.minus.split2.segments", done.stderr)
        self.assertEqual((done.stdout, parts()), ("", []))
        os.rmdir(self.path("tmp1.block0.r0.minus.split2.segments"))
        with open("/dev/full", "wb") as full:
            client("partition", "-", "--segments", "100", stdin=commands.encode(),
                   cwd=self.folder, stdout=full, check=1)
        self.assertEqual(parts(), [])
        client("partition", "-", "--segments", "100", stdin=commands.encode(), cwd=self.folder,
               check=0)
        self.assertGreater(len(parts()), 8)
        done = client("partition", "-", "--segments", "100", stdin=commands.encode(),
                      cwd=self.folder, check=1)
        self.assertIn("(it was cut already: tmp1.block0.r0.plus.split1.segments is there)",
                      done.stderr)
        self.assertGreater(len(parts()), 8)

    def test_what_is_no_command_is_refused_and_nothing_removed(self):
        commands = self.commands(self.folder)
        for bad, words in (("lastz a b --format=maf\n", "standard input: line 3: no --segments="),
                           ("lastz a b --segments=absent.segments\n", "absent.segments")):
            done = client("partition", "-", "--segments", "100", stdin=(commands + bad).encode(),
                          cwd=self.folder, check=1)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertTrue(os.path.exists(self.path("tmp1.block0.r0.plus.segments")))
        sequences = self.file("t.fa", ">t\nACGT\n")
        self.assertIn("t.fa: line 1: no --segments=",
                      client("partition", sequences, check=1).stderr)
        self.assertIn("absent: cannot open it: No such file or directory",
                      client("partition", self.path("absent"), check=1).stderr)
        with open("/dev/full", "wb") as full:
            client("partition", "-", "--segments", "100", stdin=commands.encode(),
                   cwd=self.folder, stdout=full, check=1)
        self.assertTrue(os.path.exists(self.path("tmp1.block0.r0.plus.segments")))


class CompareTest(hspz_test.TestCase):
    def test_kegaligns_cap_made_nine_more_that_are_contained(self):
        done = client("compare", shared("oracle", "apple"), shared("oracle", "applecap"), "--list",
                      check=1)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[:6], ["#class\tA\tB", "equal\t1226\t1226", "rescored\t0\t0",
                                     "shifted\t0\t0", "contained\t0\t9", "only\t0\t0"])
        self.assertEqual(len(lines), 15)
        self.assertTrue(all(line.startswith("contained\tB\t") for line in lines[6:]))

    def test_order_files_and_compression_do_not_matter(self):
        folder = self.path("shuffled")
        os.mkdir(folder)
        lines = []
        for path in glob.glob(shared("oracle", "ecoli", "*.segments")):
            with open(path, "rb") as file:
                lines += file.readlines()
        random.Random(1).shuffle(lines)
        write(os.path.join(folder, "1.segments.gz"), gzip.compress(b"".join(lines[:9000])))
        write(os.path.join(folder, "2.segments"), b"".join(lines[9000:]))
        done = client("compare", shared("oracle", "ecoli"), folder, check=0)
        self.assertIn("equal\t26954\t26954\n", done.stdout)

    def test_what_cannot_be_told_is_neither_equal_nor_different(self):
        good = self.file("a.segments", "t 1 2 q 1 2 + 5\n")
        for bad, words in ((self.file("b.segments", "t 1 2 q 1 3 + 5\n"), "b.segments: line 1"),
                           (self.path("absent"), "No such file")):
            self.assertIn(words, client("compare", good, bad, check=2).stderr)
        self.assertIn("B is missing", client("compare", good, check=2).stderr)
        self.assertIn("equal\t1\t1\n", client("compare", good, good, check=0).stdout)
        other = self.file("c.segments", "t 2 3 q 2 3 + 5\n")
        self.assertIn("shifted\t1\t1\n", client("compare", good, other, check=1).stdout)
        self.assertIn("only\t1\t1\n", client("compare", good, other, "--tolerance", "0",
                                             check=1).stdout)


if __name__ == "__main__":
    hspz_test.main()
