"""What goes wrong for people who do this job: sequence files, seeds and coordinates, as a user meets
them. Each test is named after its entry in the case list (tests/README.md has the table)."""

import gzip
import os
import random
import re
import struct
import subprocess
import time
import zlib
from collections import Counter

import hspz_test
from hspz_test import (CLIENT, SHAPE_12OF19, SHAPE_14OF22, SLOWER, bases, build_index, child_env,
                       client, fasta, reverse_complement)


class CaseTest(hspz_test.TestCase):
    def run_discover(self, ref, query, *args, build=(), check=0):
        """Rows of TSV for reference and query given as file contents or records."""
        source = self.file("ref.fa", ref if isinstance(ref, (bytes, str)) else fasta(ref))
        asked = self.file("query.fa", query if isinstance(query, (bytes, str)) else fasta(query))
        index = build_index(source, self.path("ref.hspz"), *build)
        daemon = self.daemon(indexes={"ref": index})
        done = daemon.client("discover", "ref", asked, *args, check=check)
        daemon.stop()
        return [tuple(line.split("\t")) for line in done.stdout.split("\n")[1:] if line]

    def describe(self, path, *build):
        """(name, length) of each sequence of a file, through an index of it."""
        index = build_index(path, self.path("d.hspz"), *build)
        daemon = self.daemon(indexes={"d": index})
        with daemon.peer() as peer:
            got = peer.call("index.describe", index="d")
        daemon.stop()
        return [(name if isinstance(name, str) else name.decode(), length)
                for name, length, _, _ in got["sequences"]], got["digest"]

    def refuse(self, data, *words, name="bad.fa", args=()):
        """`index build` must fail with exit 1, name the file, and leave nothing behind."""
        path = self.file(name, data)
        out = self.path("out.hspz")
        done = client("index", "build", path, "-o", out, *args, check=1)
        self.assertIn(path, done.stderr)
        for word in words:
            self.assertIn(str(word), done.stderr)
        self.assertFalse([n for n in os.listdir(self.folder) if "out.hspz" in n])
        return done.stderr


class SeedTest(CaseTest):
    def test_a04_a_full_batch_of_14of22_with_transitions(self):
        rng = random.Random(4)
        ref = [("r", bases(rng, 3000))]
        query = [("q", bases(rng, 248000) + ref[0][1][500:2500])]
        index = self.index(ref, "--seed", "14of22")
        daemon = self.daemon(indexes={"ref": index})
        with daemon.peer() as peer:
            result, data, _ = peer.discover("ref", query={"bases": query[0][1].encode()})
            self.assert_same_anchors(data, hspz_test.discover(ref, query, SHAPE_14OF22))
            self.assertGreater(result["anchors"], 1900)

    def test_a05_shapes_are_taken_or_refused_by_name(self):
        source = self.file("r.fa", ">r\n" + "ACGTTGCAACGGTCATTGCAGTAACGGGTTTACCCATG" * 3 + "\n")
        for text, words in (("", ()), ("0", ()), ("111", ("3",)), ("1" * 16, ("16",)),
                            ("1" * 33, ("33",)), ("1" * 40, ("40",)),
                            ("1" + "0" * 98 + "1" * 11, ("110",)), ("01110", ("3",)),
                            ("111x", ("x",)), ("13of19", ("13of19",)), ("1 1 1 1", ())):
            with self.subTest(text):
                done = client("index", "build", source, "-o", self.path("x"), "--seed", text)
                self.assertEqual(done.returncode, 2)
                self.assertIn(text[:70], done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)
                self.assertFalse(os.path.exists(self.path("x")))
        digests = {}
        for text in ("12of19", SHAPE_12OF19, SHAPE_12OF19.replace("1", "T"), "1111", "1110T",
                     "0111100"):
            _, digests[text] = self.describe(source, "--seed", text)
        self.assertEqual(digests["12of19"], digests[SHAPE_12OF19])
        self.assertEqual(digests["12of19"], digests[SHAPE_12OF19.replace("1", "T")])
        self.assertNotEqual(digests["1111"], digests["1110T"])
        self.assertNotEqual(digests["1111"], digests["0111100"])

    def test_a06_needed_bytes_are_said_before_they_are_taken(self):
        source = self.file("r.fa", ">r\n" + "ACGT" * 100 + "\n")
        begin = time.monotonic()
        done = client("index", "build", source, "-o", self.path("x"), "--seed", "1" * 15,
                      "--memory", "2048", check=1)
        self.assertLess(time.monotonic() - begin, 5 * SLOWER)
        numbers = [int(n) for n in re.findall(r"\d+", done.stderr.replace(",", ""))]
        self.assertTrue([n for n in numbers if n >= 4 << 30], done.stderr)
        self.assertIn(2 << 30, numbers)
        index = build_index(source, self.path("12.hspz"))
        for memory, status in (("64M", 1), ("256M", 0)):
            done = subprocess.run([hspz_test.HSPZD, "--check-config", "--index", "x=" + index,
                                   "--socket", self.path("s"), "--memory", memory],
                                  capture_output=True, text=True, env=child_env(), check=False)
            self.assertEqual(done.returncode, status, done.stderr)
            said = [int(n) for n in re.findall(r"\d+", done.stdout + done.stderr)]
            self.assertTrue([n for n in said if 64 << 20 <= n < 256 << 20], done)
        self.assertFalse(os.path.exists(self.path("s")))

    def test_a09_anchors_hold_the_first_base_after_the_window(self):
        rng = random.Random(5)
        ref = [("r", bases(rng, 5000))]
        query = ref[0][1][1000:1019]
        daemon = self.daemon(indexes={"ref": self.index(ref)})
        with daemon.peer() as peer:
            _, data, _ = peer.discover("ref", query={"bases": query.encode()}, transitions=False)
        self.assertEqual(hspz_test.unpack_anchors(data), [(1019, 19)])
        daemon.stop()
        rows = self.run_discover(ref, [("q", query)], "--no-transitions")
        self.assertEqual(rows, [("r", "1000", "1019", "q", "0", "19", "+")])

    def test_a10_the_last_position_of_a_sequence_is_seeded(self):
        ref = bases(random.Random(6), 300)
        for length, hits in ((18, 0), (19, 1), (20, 2), (21, 3)):
            rows = self.run_discover([("r", ref)], [("q", ref[-length:])], "--no-transitions",
                                     "--strand", "plus")
            self.assertEqual(len(rows), hits)
            if hits:
                self.assertEqual(rows[-1][2], "300")

    def test_a11_minus_strand_coordinates(self):
        random.seed(7)
        ref = "".join(random.choice("ACGT") for _ in range(200))
        query = reverse_complement(ref[50:100])
        rows = self.run_discover([("r", ref)], [("q", query)], "--no-transitions")
        self.assertEqual(rows, [("r", str(50 + i), str(69 + i), "q", str(31 - i), str(50 - i), "-")
                                for i in range(32)])
        daemon = self.daemon(indexes={"ref": self.path("ref.hspz")})
        with daemon.peer() as peer:
            _, data, _ = peer.discover("ref", query={"bases": query.encode()}, strand="plus",
                                       transitions=False)
            self.assertEqual(data, b"")
            _, data, _ = peer.discover("ref", query={"bases": query.encode()}, strand="minus",
                                       transitions=False)
        self.assertEqual([(r - 19, q - 19) for r, q in hspz_test.unpack_anchors(data)],
                         [(50 + i, i) for i in range(32)])

    def test_a12_step_is_the_references_and_transitions_the_querys(self):
        ref = [("r", bases(random.Random(8), 1000))]
        for step in (1, 2):
            rows = self.run_discover(ref, ref, "--no-transitions", "--strand", "plus", build=(
                "--step", step, "--all-positions"))
            self.assertEqual([row[1:3] for row in rows if row[1] == row[4]],
                             [(str(i), str(i + 19)) for i in range(0, 982, step)])
        core = ref[0][1][400:419]
        sampled = next(i for i, c in enumerate(core) if c == "A" and SHAPE_12OF19[i] == "1")
        other = next(i for i, c in enumerate(core) if c == "A" and SHAPE_12OF19[i] == "0")
        for at, letter, hits in ((sampled, "G", (0, 1)), (sampled, "C", (0, 0)),
                                 (other, "G", (1, 1))):
            query = core[:at] + letter + core[at + 1:]
            got = [len(self.run_discover(ref, [("q", query)], "--strand", "plus", *more))
                   for more in (("--no-transitions",), ())]
            self.assertEqual(tuple(got), hits, (at, letter))

    def test_a14_a_hit_limit_and_a_deadline_end_repeats(self):
        unit = bases(random.Random(9), 5000)
        index = self.index([("r", unit * 200)], name="rep")
        query = self.file("q.fa", fasta([("q", unit * 200)]))
        daemon = self.daemon(indexes={"rep": index})
        done = daemon.client("discover", "rep", query, "--hit-limit", "1000000", "--format",
                             "packed", "-o", self.path("o"), check=1)
        self.assertIn("1000000", done.stderr)
        self.assertFalse(os.path.exists(self.path("o")))
        longer = self.file("long.fa", fasta([("q", unit * 2000)]))  # 2 x 10^9 hits a strand
        begin = time.monotonic()
        done = daemon.client("discover", "rep", longer, "--deadline", "1", "--format", "packed",
                             stdout=subprocess.DEVNULL, check=1)
        self.assertIn("deadline", done.stderr)
        self.assertLess(time.monotonic() - begin, 10 * SLOWER)
        half = self.file("half.fa", ">q\n" + "ACGTTGCAACGGTCATTGCAGTAACG" * 2 + "\n" +
                         "acgttgcaacggtcattgcagtaacg" * 2 + "\n")
        done = daemon.client("--verbose", "discover", "rep", half, check=0)
        self.assertRegex(done.stderr, r"50(\.0+)? ?%")
        daemon.stop()

    def test_references_of_several_blocks_answer_as_one(self):
        rng = random.Random(12)
        text = bases(rng, 4000)
        ref = [("s%d" % i, text[i * 500:i * 500 + 700]) for i in range(7)] + [("e", "")]
        query = [("q", text[200:1800]), ("p", reverse_complement(text[2000:3000]))]
        rows = {}
        for size in (0, 100, 1000, 2500):
            rows[size] = self.run_discover(ref, query, build=(
                "--all-positions", *(("--block-size", size) if size else ())))
        self.assertGreater(len(rows[0]), 3000)
        for size in (100, 1000, 2500):
            self.assertEqual(Counter(rows[size]), Counter(rows[0]))

    def test_a16_one_masked_base_in_a_window_is_enough(self):
        ref = bases(random.Random(10), 19)
        for at in (3, 0):  # a don't-care position, a care position
            masked = ref[:at] + ref[at].lower() + ref[at + 1:]
            self.assertEqual(self.run_discover([("r", ref)], [("q", masked)], build=(
                "--all-positions",)), [])
            self.assertEqual(self.run_discover([("r", masked)], [("q", ref)], build=(
                "--all-positions",)), [])
        rows = self.run_discover([("r", ref)], [("q", ref)], "--no-transitions",
                                 build=("--all-positions",))
        self.assertEqual(len(rows), 1)


class SequenceFileTest(CaseTest):
    RECORDS = [("chr1", "ACGTTGCAACGGTCATTGCAGTAACGGGTTTACCCATGACCATAGACCATTTAGG"),
               ("chr2", "GGATTACATTTACCGGAGGACCATTGACCAGTTAGGACCAT" * 3)]

    def digest_of(self, data, name="x.fa", args=()):
        return self.describe(self.file(name, data), *args)

    def test_a13_masks_and_names_are_the_same_from_fasta_and_2bit(self):
        rng = random.Random(13)
        seq = bases(rng, 400)
        records = [("chr1", seq[:50] + seq[50:120].lower() + "N" * 33 + seq[150:]),
                   ("chr2 x".split()[0], seq[200:].lower() + "NNNN"), ("chr3", seq[:80])]
        query = self.file("q.fa", fasta([("q", seq)]))
        for args in ((), ("--unmask",)):
            want = self.digest_of(fasta(records), args=args)
            for version in (0, 1):
                for order in "<>":
                    got = self.digest_of(hspz_test.twobit(records, version, order), "x.2bit", args)
                    self.assertEqual(got, want)
        # As a query, too.
        index = build_index(query, self.path("q.hspz"))
        daemon = self.daemon(indexes={"q": index})
        two = self.file("x.2bit", hspz_test.twobit(records))
        for args in ((), ("--unmask",)):
            rows = [daemon.client("discover", "q", path, *args, check=0).stdout
                    for path in (self.file("x.fa", fasta(records)), two)]
            self.assertEqual(rows[0], rows[1])
            self.assertGreater(rows[0].count("\n"), 100)
        daemon.stop()

    def test_a15_n_codes_and_junk(self):
        rng = random.Random(15)
        left, right = bases(rng, 60), bases(rng, 60)
        ref = [("r", left + "N" * 100 + right)]
        query = [("q", bases(rng, 60) + "N" * 100 + bases(rng, 60))]
        self.assertEqual(self.run_discover(ref, query), [])
        rows = self.run_discover(ref, ref, "--no-transitions", "--strand", "plus",
                                 build=("--all-positions",))
        self.assertEqual(len(rows), 2 * 42)
        for text in ("ACGTRYKMSWBDHVN*-.acgtryx",):
            self.digest_of(">r\n" + text + "\n")
        for junk, value in ((b"5", "35"), (b"&", "26"), (b"\0", "00"), (b"\xc3\xa9", "c3"),
                            (b"@", "40")):
            said = self.refuse(b">one\nACGT\n>two\nACGTACGT\nAC" + junk + b"GT\n", "5")
            self.assertRegex(said.lower(), "(0x)?%s|%d" % (value, int(value, 16)))

    def test_a17_line_ends(self):
        want = self.digest_of(fasta(self.RECORDS))
        text = fasta(self.RECORDS, 40)
        mixed = ">chr1\r\n" + self.RECORDS[0][1] + "\r\n>chr2\n" + self.RECORDS[1][1] + "\n"
        for data in (text, fasta(self.RECORDS, end="\r\n"), mixed, fasta(self.RECORDS, end="\r"),
                     text.rstrip("\n"), fasta(self.RECORDS, end="\r\n").rstrip(), text + "\n\n",
                     "\n" + text):
            self.assertEqual(self.digest_of(data), want)

    def test_a18_names_are_first_words_byte_for_byte(self):
        seq = self.RECORDS[1][1]
        names = {"a b c": "a", "NC_1.1 x": "NC_1.1", "s:10-20": "s:10-20", "gi|1|ref|2|": "gi|1|ref|2|",
                 "x" * 300: "x" * 300, "名": "名", "t\ttab": "t", '"quoted"': '"quoted"', "b\\n": "b\\n"}
        text = "".join(">%s\n%s\n" % (header, seq) for header in names)
        got, _ = self.digest_of(text)
        self.assertEqual([name for name, _ in got], list(names.values()))
        rows = self.run_discover([("r", seq)], text, "--no-transitions", "--strand", "plus")
        self.assertEqual({row[3] for row in rows}, set(names.values()))
        self.assertTrue(all(len(row) == 7 for row in rows))

    def test_a19_duplicate_names(self):
        seq = self.RECORDS[0][1]
        said = self.refuse(">2L one\n%s\n>2L two\n%s\n" % (seq, seq), "2L", "1", "3")
        self.assertIn("2L", said)
        rows = self.run_discover([("2L", seq)], [("2L", seq), ("2L", seq)], "--no-transitions",
                                 "--strand", "plus", build=("--all-positions",))
        self.assertEqual(Counter(row[3] for row in rows), {"2L": 2 * (len(seq) - 18)})

    def test_a20_empty_things(self):
        for data in (b"", b"\n\n", b"ACGT\n", b"   \n"):
            self.refuse(data)
        self.refuse(">x\nACGT\n>\nACGT\n", "3")
        done = client("index", "build", self.path("nothing.fa"), "-o", self.path("o"), check=1)
        self.assertIn(self.path("nothing.fa"), done.stderr)
        self.assertEqual(self.digest_of(">foo\n\n>bar\nACGTACGT\n")[0], [("foo", 0), ("bar", 8)])
        self.assertEqual(self.digest_of(">foo")[0], [("foo", 0)])
        seq = self.RECORDS[0][1]
        query = ">one\n%s\n>none\n>two\n%s\n>last\n" % (seq, seq)
        rows = self.run_discover(">e\n>r\n%s\n>f\n" % seq, query, "--no-transitions", "--strand",
                                 "plus", build=("--all-positions",))
        self.assertEqual(Counter((row[0], row[3]) for row in rows),
                         {("r", "one"): len(seq) - 18, ("r", "two"): len(seq) - 18})

    def test_a21_shorter_than_the_seed(self):
        seq = self.RECORDS[0][1]
        normal = [("a", seq), ("b", seq)]
        for length, hits in ((1, 0), (18, 0), (19, 1)):
            rows = self.run_discover([("r", seq)], [normal[0], ("short", seq[5:5 + length]),
                                                    normal[1]], "--no-transitions", "--strand",
                                     "plus", build=("--all-positions",))
            counts = Counter(row[3] for row in rows)
            self.assertEqual(counts["a"], len(seq) - 18)
            self.assertEqual(counts["b"], len(seq) - 18)
            self.assertEqual(counts["short"], hits)
        rows = self.run_discover([("ten", seq[:10]), ("r", seq)], normal, "--no-transitions",
                                 build=("--all-positions",))
        self.assertEqual({row[0] for row in rows}, {"r"})
        # No word at all: loads, and answers nothing.
        self.assertEqual(self.run_discover([("x", "ACGT"), ("y", seq[:18])], normal), [])

    def test_a23_2bit_cut_or_absurd(self):
        whole = hspz_test.twobit([("chr1", "ACGTNNNNacgtACGTTTGCA" * 10), ("chr2", "ACGT" * 30)])
        for cut in (0, 3, 10, 15, 18, 25, 30, 40, 60, 90, len(whole) - 1):
            self.refuse(whole[:cut], name="cut.2bit")
        for at in range(len(whole)):
            if whole[at:at + 4] == struct.pack("<I", 10) and at > 20:
                # The N-block count of the first sequence.
                said = self.refuse(whole[:at] + b"\xff\xff\xff\xff" + whole[at + 4:],
                                   name="absurd.2bit")
                self.assertNotIn("emory", said)
                break
        else:
            self.fail("no block count found")
        for version in (2, 0xFFFFFFFF):
            self.refuse(whole[:4] + struct.pack("<I", version) + whole[8:], name="version.2bit")
        # Version 1 has 64-bit offsets; the word alone makes the file wrong.
        self.refuse(whole[:4] + struct.pack("<I", 1) + whole[8:], name="version1.2bit")

    def test_a24_gzip_is_told_by_its_bytes(self):
        text = fasta(self.RECORDS).encode()
        want = self.digest_of(text)
        packed = gzip.compress(text)
        half = len(text) // 2
        members = gzip.compress(text[:half]) + gzip.compress(b"") + gzip.compress(text[half:])
        for name, data in (("x.fa.gz", packed), ("x.fa", packed), ("x.2bit", packed),
                           ("y.gz", text), ("m.gz", members)):
            self.assertEqual(self.digest_of(data, name), want)
        path = self.file("b.fa", text)
        bgzip = subprocess.run([hspz_test.tool("bgzip"), "-c", path], capture_output=True,
                               check=True).stdout
        self.assertEqual(self.digest_of(bgzip, "b.gz"), want)
        for data in (text, packed, bgzip, hspz_test.twobit(self.RECORDS)):
            done = client("index", "build", "-", "-o", self.path("stdin.hspz"), stdin=data, check=0)
            self.assertIn(want[1], done.stderr)
        damaged = bytearray(packed)
        damaged[-8] ^= 1  # the check sum
        self.refuse(bytes(damaged), name="crc.gz")
        self.refuse(packed[:len(packed) // 2], name="half.gz")
        self.refuse(packed[:-4], name="short.gz")
        self.refuse(members[:len(members) - 5], name="members.gz")
        self.refuse(packed + b"junk", name="trailing.gz")
        # Whole records before the damage do not count.
        long = fasta([("c%d" % i, bases(random.Random(i), 500)) for i in range(300)]).encode()
        self.refuse(gzip.compress(long)[:-20], name="late.gz")
        # A damaged query is no shorter query.
        daemon = self.daemon(indexes={"b": build_index(path, self.path("b.hspz"))})
        done = daemon.client("discover", "b", self.file("q.gz", gzip.compress(long)[:-20]), check=1)
        self.assertIn("q.gz", done.stderr)
        daemon.stop()

    def test_a17_a24_fastq_is_read_as_its_sequences(self):
        text = "".join("@%s extra\n%s\n+\n%s\n" % (name, seq, "@" * len(seq))
                       for name, seq in self.RECORDS)
        self.assertEqual(self.digest_of(text, "x.fq"), self.digest_of(fasta(self.RECORDS)))
        self.refuse(text[:-3], name="cut.fq")

    def test_b08_a_damaged_index_is_refused_by_path(self):
        index = build_index(self.file("r.fa", fasta(self.RECORDS)), self.path("r.hspz"), "--seed",
                            "11101")
        with open(index, "rb") as file:
            whole = file.read()
        daemon = self.daemon()
        rng = random.Random(8)
        bad = self.path("bad.hspz")
        places = [0, 4, 8, 12, 16, 24, 32, len(whole) // 2, len(whole) - 1]
        places += [rng.randrange(len(whole)) for _ in range(60)]
        with daemon.peer() as peer:
            for cut in (len(whole) - 1, len(whole) // 2, 100, 1, 0):
                hspz_test.write(bad, whole[:cut])
                self.assert_code(peer.error("index.load", index="bad", file=bad), "bad_file", bad)
            hspz_test.write(bad, whole + b"x")
            self.assert_code(peer.error("index.load", index="bad", file=bad), "bad_file", bad)
            for at in places:
                hspz_test.write(bad, whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1:])
                error = peer.error("index.load", index="bad", file=bad)
                self.assert_code(error, "bad_file", bad)
            hspz_test.write(bad, whole)
            peer.call("index.load", index="bad", file=bad)
        daemon.stop()

    def test_b08_a_killed_builder_leaves_no_file_under_the_name(self):
        source = self.file("big.fa", fasta([("r", bases(random.Random(3), 3000000))]))
        for wait in (0.02, 0.1, 0.2, 0.3):
            process = subprocess.Popen([CLIENT, "index", "build", source, "-o",
                                        self.path("big.hspz")], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, env=child_env())
            time.sleep(wait * (8 if hspz_test.SANITIZED else 1))
            process.kill()
            if process.wait() == 0:
                os.unlink(self.path("big.hspz"))
            self.assertFalse(os.path.exists(self.path("big.hspz")))

    def test_index_is_the_same_for_any_number_of_threads(self):
        source = self.file("r.fa", fasta([("r", bases(random.Random(3), 200000)),
                                          ("a", "A" * 50000)]))
        files = []
        for threads in (1, 2, 3, 8):
            out = self.path("t%d" % threads)
            client("index", "build", source, "-o", out, "--threads", threads, check=0)
            with open(out, "rb") as file:
                files.append(zlib.crc32(file.read()))
        self.assertEqual(len(set(files)), 1)


class ClientTest(CaseTest):
    def start(self):
        self.text = bases(random.Random(20), 3000)
        self.source = self.file("r.fa", fasta([("r", self.text)]))
        return self.daemon(indexes={"r": build_index(self.source, self.path("r.hspz"))})

    def test_e05_a_reader_that_goes_away_is_no_crash(self):
        daemon = self.start()
        poly = build_index(self.file("a.fa", ">a\n" + "A" * 5000 + "\n"), self.path("a.hspz"))
        daemon.client("index", "load", "a", poly, check=0)
        done = subprocess.run(
            ["bash", "-c", '"$0" "$@" | head -1; exit ${PIPESTATUS[0]}', CLIENT, "--server",
             daemon.server, "discover", "a", self.path("a.fa"), "--no-transitions"],
            capture_output=True, text=True, env=child_env(), timeout=60 * SLOWER, check=False)
        self.assertEqual(done.stdout.count("\n"), 1)
        self.assertIn(done.returncode, (1, 128 + 13))
        self.assertNotRegex(done.stderr, "(?i)trace|abort|core")
        self.assertLessEqual(len(done.stderr.splitlines()), 1)
        daemon.client("health", check=0)
        daemon.stop()

    def test_b12_nothing_is_computed_without_a_server(self):
        query = self.file("q.fa", ">q\nACGT\n")
        done = client("discover", "r", query, server="unix:" + self.path("none.sock"), check=1)
        self.assertEqual(done.stdout, "")
        self.assertIn(self.path("none.sock"), done.stderr)
        daemon = self.start()
        done = daemon.client("--verbose", "discover", "r", self.source, check=0)
        self.assertIn("engine " + hspz_test.ENGINE, done.stderr)
        with daemon.peer() as peer:
            self.assertIn(peer.welcome["version"], done.stderr)
            self.assertIn(peer.call("index.describe", index="r")["digest"], done.stderr)
        daemon.stop()

    def test_usage_errors_are_exit_2_and_name_the_option(self):
        daemon = self.start()
        for args, word in ((("discover",), ""), (("frobnicate",), "frobnicate"),
                           (("discover", "r", self.source, "--nope"), "--nope"),
                           (("discover", "r", self.source, "--strand", "up"), "up"),
                           (("discover", "r", self.source, "--format", "xml"), "xml"),
                           (("index", "build", self.source), "-o"), ((), ""),
                           (("--server", "http://x", "health"), "http://x"),
                           (("--wait", "soon", "health"), "soon")):
            with self.subTest(args):
                done = client(*args) if "--server" in args else daemon.client(*args)
                self.assertEqual(done.returncode, 2, done)
                self.assertIn(word, done.stderr)
        for value in ("1e5", "10k", "0x10", "-1", "5x", " 5", "", "18446744073709551616", "nan"):
            with self.subTest(value):
                done = daemon.client("discover", "r", self.source, "--max-hits=" + value)
                self.assertEqual(done.returncode, 2, done)
                self.assertIn("--max-hits", done.stderr)
                self.assertIn(value, done.stderr)
        for args in (("--help",), ("--version",), ("discover", "--help"),
                     ("index", "build", "--help")):
            self.assertTrue(client(*args, check=0).stdout)
        daemon.stop()

    def test_output_forms_say_the_same(self):
        import json
        daemon = self.start()
        query = self.file("q.fa", fasta([("q1", self.text[:300]), ("q2", reverse_complement(
            self.text[500:900]))]))
        tsv = daemon.client("discover", "r", query, check=0).stdout.splitlines()
        self.assertEqual(tsv[0], "#ref\tref_start\tref_end\tquery\tquery_start\tquery_end\tstrand")
        rows = [tuple(line.split("\t")) for line in tsv[1:]]
        objects = [json.loads(line) for line in
                   daemon.client("discover", "r", query, "--format", "jsonl", check=0).stdout
                   .splitlines()]
        keys = tsv[0][1:].split("\t")
        self.assertEqual([tuple(str(o[k]) for k in keys) for o in objects], rows)
        packed = daemon.client("discover", "r", query, "--format", "packed", check=0,
                               text=False).stdout
        self.assertEqual(packed, hspz_test.discover([("r", self.text)], hspz_test.read_fasta(query)))
        self.assertEqual(len(packed), 8 * len(rows))
        for form, want in (("tsv", None), ("packed", packed)):
            out = self.path("out." + form)
            daemon.client("discover", "r", query, "--format", form, "-o", out, check=0)
            with open(out, "rb") as file:
                data = file.read()
            self.assertEqual(data, want or ("\n".join(tsv) + "\n").encode())
        daemon.stop()

    def test_max_hits_of_kegalign_is_taken(self):
        daemon = self.start()
        done = daemon.client("discover", "r", self.source, "--max-hits", "kegalign:1", "--format",
                             "packed", check=0, text=False)
        self.assertTrue(done.stdout)
        with daemon.peer() as peer:
            result, data, _ = peer.discover("r", query={"bases": self.text.encode()},
                                            max_hits=4194304)
        self.assertEqual((data, result["max_hits"]), (done.stdout, 4194304))
        daemon.stop()

    def test_a_file_the_client_may_not_read_is_named(self):
        daemon = self.start()
        done = daemon.client("discover", "r", self.path("absent.fa"), check=1)
        self.assertIn(self.path("absent.fa"), done.stderr)
        done = daemon.client("discover", "r", self.folder, check=1)
        self.assertIn(self.folder, done.stderr)
        done = daemon.client("discover", "nope", self.source, check=1)
        self.assertIn("nope", done.stderr)
        daemon.stop()

    def test_b07_unload_while_a_query_runs_and_two_loads_at_once(self):
        daemon = self.start()
        poly = build_index(self.file("a.fa", ">a\n" + "A" * 8000 + "\n"), self.path("a.hspz"))
        with daemon.peer() as one, daemon.peer() as two:
            first = one.request("index.load", index="a", file=poly)
            second = two.request("index.load", index="a", file=poly)
            errors = [one.response(first)[0], two.response(second)[0]]
            self.assertIn(None, errors)
            number = one.request("discover", {"index": "a", "query": {"bases": b"A" * 8000},
                                              "strand": "plus", "transitions": False})
            one.receive()
            unload = two.request("index.unload", index="a")
            one.notices = []
            self.assertEqual(one.result(number)["anchors"], 7982 * 7981)
            two.response(unload)
        daemon.client("index", "list", check=0)
        daemon.stop()

    def test_b07_loading_past_the_budget_is_refused_and_harms_none(self):
        source = self.file("r.fa", ">r\n" + "ACGTTGCAACGGTCATTGCAGTAACG" * 9 + "\n")
        one, two = (build_index(source, self.path(n)) for n in ("one.hspz", "two.hspz"))
        daemon = self.daemon("--memory", "100M", indexes={"one": one})
        done = daemon.client("index", "load", "two", two, check=1)
        self.assertRegex(done.stderr, "(?s)needs [0-9]+ bytes.*budget")
        rows = daemon.client("discover", "one", source, check=0)
        self.assertGreater(rows.stdout.count("\n"), 10)
        daemon.client("index", "unload", "one", check=0)
        daemon.client("index", "load", "two", two, check=0)
        daemon.stop()

    def test_b09_what_an_index_is_can_be_asked(self):
        daemon = self.start()
        said = daemon.client("index", "describe", "r", check=0).stdout
        with daemon.peer() as peer:
            got = peer.call("index.describe", index="r")
        for value in (SHAPE_12OF19, got["digest"]):
            self.assertIn(value, said)
        daemon.stop()

    def test_indexes_are_listed_loaded_and_unloaded(self):
        daemon = self.start()
        other = build_index(self.source, self.path("o.hspz"), "--step", "2")
        daemon.client("index", "load", "other", other, check=0)
        said = daemon.client("index", "list", check=0).stdout
        self.assertRegex(said, r"(?m)^other\b")
        daemon.client("index", "unload", "other", check=0)
        self.assertNotIn("other", daemon.client("index", "list", check=0).stdout)
        self.assertIn("other", daemon.client("index", "unload", "other", check=1).stderr)
        daemon.stop()


class E04Test(CaseTest):
    def test_e04_every_tiny_job_is_answered(self):
        count = 5000 if hspz_test.SANITIZED else 100000
        import msgpack
        daemon = self.daemon(indexes={"r": self.index([("r", bases(random.Random(1), 100))])})
        with daemon.peer() as peer:
            sent, answered, window = 0, 0, peer.welcome["limits"]["max_jobs"]
            while answered < count:
                batch = b""
                while sent < count and sent - answered < window:
                    batch += msgpack.packb([0, sent, "discover", [{"index": "r", "seeds": b""}]])
                    sent += 1
                if batch:
                    peer.send_bytes(batch)
                message = peer.receive()
                self.assertEqual(message[:3], [1, answered, None])
                answered += 1
            self.assertTrue(peer.silent())
        daemon.stop()


if __name__ == "__main__":
    hspz_test.main()
