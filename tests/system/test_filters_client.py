"""`hspz-client filter` with a real hspzd: every kind against exact sets and counts, jellyfish's for the
words of a genome; the documented hash; what is refused."""

import collections
import gzip
import hashlib
import json
import math
import os
import random
import resource
import struct
import subprocess
import threading
import unittest

import numpy

import hspz_test
from hspz_test import CLIENT, SANITIZED, child_env

TOP = 2 ** 64 - 1
KINDS = ("tcf", "gqf", "bloom", "blocked", "sqf", "rsqf")
DELETES = ("tcf", "gqf", "sqf")
GOLDEN = 0x9e3779b97f4a7c15


def raw(*columns):
    return b"".join(struct.pack("<%dQ" % len(row), *row) for row in zip(*columns))


def lines(*columns):
    return "".join("\t".join(map(str, row)) + "\n" for row in zip(*columns)).encode()


def most(expected):
    """How often a thing may be seen that is expected so often: 1.2 times, and chance."""
    return 1.2 * expected + 5 * math.sqrt(expected) + 3


def mix(x):
    """The finaliser of splitmix64, as published."""
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & TOP
    x = (x ^ x >> 27) * 0x94d049bb133111eb & TOP
    return x ^ x >> 31


class FilterCase(hspz_test.TestCase):
    def setUp(self):
        super().setUp()
        self.rng = random.Random(11)
        os.mkdir(self.path("filters"))
        self.served = self.daemon("--filter-dir", self.path("filters"), "--filter-memory", "64M")

    def run_filter(self, *args, status=0, data=None, **more):
        return self.served.client("filter", *args, check=status, stdin=data, text=False, **more)

    def out(self, *args, **more):
        return self.run_filter(*args, **more).stdout.decode()

    def err(self, *args, status=1, **more):
        return self.run_filter(*args, status=status, **more).stderr

    def create(self, name, kind, **more):
        options = [w for key, value in more.items() for w in ("--" + key.replace("_", "-"), value)]
        return json.loads(self.out("create", name, "--kind", kind, "--json", *options))

    def stats(self, name):
        return json.loads(self.out("stats", name, "--json"))

    def present(self, name, keys, **more):
        """[whether each is there]"""
        bits = self.run_filter("query", name, "--raw", "--format", "raw", data=raw(keys), **more).stdout
        self.assertEqual(len(bits), (len(keys) + 7) // 8)
        return [bits[i // 8] >> i % 8 & 1 == 1 for i in range(len(keys))]

    def counts(self, name, keys):
        got = self.run_filter("count", name, "--raw", "--format", "raw", data=raw(keys)).stdout
        self.assertEqual(len(got), 8 * len(keys))
        return list(struct.unpack("<%dQ" % len(keys), got))

    def insert(self, name, keys, *args, **more):
        """How many went in."""
        done = self.out("insert", name, "--raw", "--json", *args, data=raw(keys), **more)
        return json.loads(done)["inserted"]

    def keys(self, count):
        return [self.rng.getrandbits(64) for _ in range(count)]


class KindsTest(FilterCase):
    def test_every_kind_keeps_its_promises(self):
        for kind in KINDS:
            plan = self.create(kind, kind, capacity=5000, rate="0.005", seed=3)
            self.assertLessEqual(plan["expected_rate"], 0.0050001)
            members = [0, TOP, 1, 2 ** 63] + self.keys(4996)
            self.assertEqual(self.out("insert", kind, "--batch", 700, data=lines(members)),
                             "5000 keys, 5000 inserted\n")
            self.assertTrue(all(self.present(kind, members)))
            strangers = self.keys(40000)
            found = sum(self.present(kind, strangers))
            self.assertLessEqual(found, most(40000 * plan["expected_rate"]))
            if plan["expected_rate"] > 1e-3:
                self.assertGreater(found, 0)
            stats = self.stats(kind)
            self.assertLessEqual(abs(stats["entries"] - 5000), 50)
            self.assertGreater(stats["load"], 0.05)
            if kind not in DELETES:
                self.assertIn("cannot delete", self.err("delete", kind, data=lines(members[:9])))
                self.assertTrue(all(self.present(kind, members)))
                continue
            gone, kept = members[:2500], members[2500:]
            self.out("delete", kind, "--batch", 999, data=lines(gone))
            missing = self.present(kind, kept).count(False)
            self.assertLessEqual(missing, 0 if kind == "tcf" else most(2500 * plan["expected_rate"]))
            self.assertLessEqual(sum(self.present(kind, gone)), most(2500 * plan["expected_rate"]))

    def test_a_mix_of_calls_is_an_exact_multiset_where_all_bits_are_kept(self):
        self.create("g", "gqf", slots=4096, slot_bits=64, seed=9)
        universe = [0, TOP] + self.keys(500)
        truth = collections.Counter()
        for _ in range(40):
            some = self.rng.choices(universe, k=self.rng.randrange(1, 300))
            times = [self.rng.choice((1, 1, 2, 3, 300, 2 ** 33)) for _ in some]
            dice = self.rng.randrange(4)
            if dice < 2:
                self.out("insert", "g", "--counts", data=lines(some, times))
                truth.update(dict())
                for key, count in zip(some, times):
                    truth[key] += count
            elif dice == 2:
                self.out("decrement", "g", "--counts", "--raw", data=raw(some, times))
                for key, count in zip(some, times):
                    truth[key] = max(0, truth[key] - count)
            else:
                done = json.loads(self.out("delete", "g", "--json", data=lines(some)))
                self.assertEqual(done["deleted"], len({k for k in some if truth[k] > 0}))
                for key in some:
                    truth[key] = 0
            self.assertEqual(self.counts("g", universe), [truth[k] for k in universe])
        stats = self.stats("g")
        self.assertGreater(stats["entries"], 50)
        self.assertEqual(stats["entries"], sum(1 for v in truth.values() if v > 0))
        self.assertEqual(stats["total"], sum(truth.values()))

    def test_enumerated_fingerprints_are_the_documented_hash(self):
        for seed in (0, 7, TOP):
            name = "s%d" % (seed % 100)
            self.create(name, "gqf", slots=4096, slot_bits=64, seed=seed)
            keys = [0, TOP] + self.keys(1000)
            self.out("insert", name, "--counts", "--raw", data=raw(keys, range(1, 1003)))
            salt = mix(seed + GOLDEN & TOP)
            want = sorted((mix(k ^ salt), 0, n) for n, k in enumerate(keys, 1))
            got = [tuple(map(int, line.split("\t")))
                   for line in self.out("enumerate", name).splitlines()[1:]]
            self.assertEqual(got, want)
            data = self.run_filter("enumerate", name, "--format", "raw").stdout
            self.assertEqual(list(struct.iter_unpack("<3Q", data)), want)

    def test_values_and_if_absent(self):
        for kind, bits in (("tcf", 32), ("gqf", 64)):
            self.create(kind, kind, slots=4096, slot_bits=bits, value_bits=20)
            keys = [0, TOP] + self.keys(2000)
            values = [self.rng.getrandbits(20) for _ in keys]
            self.out("insert", kind, "--values", data=lines(keys, values))
            self.assertEqual(self.out("query", kind, "--values", data=lines(keys)),
                             "#key\tpresent\tvalue\n" +
                             lines(keys, [1] * len(keys), values).decode())
            more = keys[:50] + self.keys(50)
            out = self.out("insert", kind, "--values", "--if-absent", "--format", "tsv",
                           data=lines(more, [5] * 100))
            self.assertEqual(out, "#key\tinserted\n" + lines(more, [0] * 50 + [1] * 50).decode())
            said = self.err("insert", kind, "--values", data=b"1 7\n2 1048576\n")
            self.assertIn("1048576, over the filter's 20 bits", said)


class CasesTest(FilterCase):
    def test_a_full_filter_says_which_keys_did_not_go_in(self):
        for kind in ("tcf", "gqf", "sqf", "rsqf"):
            for batch in (1000, 10):
                name = "%s%d" % (kind, batch)
                plan = self.create(name, kind, slots=128)
                keys = self.keys(400)
                done = self.run_filter("insert", name, "--batch", batch, "--format", "tsv",
                                       data=lines(keys), status=1)
                rows = [line.split("\t") for line in done.stdout.decode().splitlines()[1:]]
                inside = [int(k) for k, bit in rows if bit == "1"]
                self.assertEqual([int(k) for k, _ in rows], keys[:len(rows)])
                self.assertGreaterEqual(len(inside), plan["full_slots"])
                self.assertLess(len(inside), 400)
                self.assertIn("filter %s is full: %d of %d keys did not go in, the first on line %d; "
                              "what follows line %d was not sent" % (
                                  name, len(rows) - len(inside), len(rows),
                                  [bit for _, bit in rows].index("0") + 1, len(rows)), done.stderr)
                self.assertTrue(all(self.present(name, inside)))
        self.assertTrue(self.served.alive())

    def test_counters_do_not_wrap(self):
        self.create("g", "gqf", slots=1024, slot_bits=8)
        self.out("insert", "g", "--batch", 7000, data=b"5\n" * 69980)
        want = 69980
        for more in (69980, 2 ** 32 - 1, 2 ** 62, TOP):
            self.assertEqual(self.counts("g", [5, 6]), [want, 0])
            self.out("insert", "g", "--counts", data=b"5 %d\n" % more)
            want = min(want + more, TOP)
        self.assertEqual(self.counts("g", [5]), [TOP])
        self.assertLess(self.stats("g")["used"], 20)

    def test_strangers_deleted_cost_no_more_than_the_rate(self):
        self.create("t", "tcf", capacity=20000, slot_bits=8)
        members = self.keys(20000)
        self.assertEqual(self.insert("t", members), 20000)
        rate = self.stats("t")["rate"]
        gone = json.loads(self.out("delete", "t", "--raw", "--json", data=raw(self.keys(20000))))
        self.assertLessEqual(gone["deleted"], most(20000 * rate))
        self.assertLessEqual(self.present("t", members).count(False), gone["deleted"])
        self.assertEqual(self.stats("t")["entries"], 20000 - gone["deleted"])

    def test_kept_keys_outlive_others_removed_and_added(self):
        self.create("t", "tcf", capacity=37500)
        kept, others = self.keys(15000), self.keys(15000)
        self.insert("t", kept)
        for _ in range(3):
            self.assertEqual(self.insert("t", others), 15000)
            done = json.loads(self.out("delete", "t", "--raw", "--json", data=raw(others)))
            self.assertEqual(done["deleted"], 15000)
        self.assertTrue(all(self.present("t", kept)))

    def test_many_copies_of_a_key_leave_room(self):
        self.create("t", "tcf", slots=8192)
        self.run_filter("insert", "t", "--batch", 100000, data=b"42\n" * 10000, status=1)
        copies = self.counts("t", [42])[0]
        self.assertLess(copies, 200)
        others = self.keys(1000)
        self.assertEqual(self.insert("t", others), 1000)
        self.create("g", "gqf", slots=8192)
        self.assertEqual(self.insert("g", [42] * 10000), 10000)
        self.assertEqual(self.counts("g", [42]), [10000])
        self.assertLess(self.stats("g")["used"], 10)

    def test_two_who_insert_the_same_insert_each_once(self):
        self.create("t", "tcf", capacity=200000, slot_bits=32)
        keys = self.keys(100000)
        done = []

        def insert():
            done.append(self.insert("t", keys, "--if-absent", "--batch", 1000))
        threads = [threading.Thread(target=insert) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sum(done), 100000)
        self.out("delete", "t", "--raw", data=raw(keys))
        self.assertEqual(self.stats("t")["entries"], 0)

    def test_nonsense_sizes_are_refused_with_limits(self):
        for options, text in ((("--capacity", 10 ** 18), "capacity is 1000000000000000000"),
                              (("--capacity", TOP), "at most 2^40"),
                              (("--capacity", 1000, "--rate", 2), "rate is 2"),
                              (("--capacity", 1000, "--rate", "1e-300"), "between 2^-40 and 0.5"),
                              (("--slots", 2 ** 63), "slots is 9223372036854775808"),
                              (("--slots", 64, "--slot-bits", 33), "slot_bits is 33"),
                              (("--capacity", 10 ** 9), "")):
            for kind in ("tcf", "gqf"):
                said = self.err("create", "x", "--kind", kind, *options)
                self.assertIn(text, said)
        self.assertEqual(json.loads(self.out("list", "--json")), [])
        self.assertIn("..", self.err("create", "../x", "--kind", "tcf", "--slots", 64))

    def test_measured_rates_are_those_asked_for(self):
        for number, size in enumerate((1000, 3333, 20001)):
            for kind in KINDS:
                name = "%s%d" % (kind, size)
                rate = (0.01, 0.001)[number % 2]
                plan = self.create(name, kind, capacity=size, rate=rate, seed=size)
                self.assertEqual(self.insert(name, range(size)), size)
                found = sum(self.present(name, range(2 ** 40, 2 ** 40 + 60000 * 3, 3)))
                self.assertLessEqual(found, most(60000 * rate))
                self.assertLessEqual(found, most(60000 * plan["expected_rate"]))


class KeptTest(FilterCase):
    def test_saved_filters_come_back(self):
        for kind in KINDS:
            self.create(kind, kind, capacity=3000, seed=5)
            self.insert(kind, range(100, 2100))
            before = self.stats(kind)
            self.out("save", kind)
            self.out("drop", kind)
            self.assertIn("no filter", self.err("stats", kind))
            self.out("load", kind)
            self.assertEqual(self.stats(kind), before)
            self.assertTrue(all(self.present(kind, range(100, 2100))))
        self.served.stop()
        again = self.daemon("--filter-dir", self.path("filters"))
        self.served = again
        self.assertEqual(json.loads(self.out("list", "--json")), [])
        self.out("load", "gqf")
        self.assertTrue(all(self.present("gqf", range(100, 2100))))
        self.out("drop", "gqf", "--saved")
        self.assertNotEqual(self.err("load", "gqf"), "")

    def test_merging_adds_up(self):
        for kind in KINDS:
            a, b = kind + ".a", kind + ".b"
            for name, keys in ((a, range(1000)), (b, range(900, 1900))):
                self.create(name, kind, capacity=4000, rate="1e-4", seed=1)
                self.insert(name, keys)
            if kind == "tcf":
                self.assertIn("merge", self.err("merge", a, b))
                continue
            self.out("merge", a, b)
            self.assertTrue(all(self.present(a, range(1900))))
            self.assertLess(sum(self.present(a, range(10 ** 6, 10 ** 6 + 10000))), 20)
            self.assertFalse(all(self.present(b, range(900))))
        counts = self.counts("gqf.a", range(1900))
        self.assertEqual(sum(counts), 2000)
        self.assertEqual(counts[900:1000], [2] * 100)
        self.create("other", "gqf", capacity=4000, rate="1e-4", seed=2)
        self.assertNotEqual(self.err("merge", "gqf.a", "other"), "")

    def test_keys_stream_through_bounded_memory(self):
        if SANITIZED:
            raise unittest.SkipTest("a sanitizer takes memory of its own")
        self.create("b", "blocked", slots=2 ** 24, hashes=4)
        count, limit = 16 << 20, 96 << 20
        command = [CLIENT, "--server", self.served.server, "filter", "insert", "b", "--raw",
                   "--batch", "100000"]
        client = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=child_env(),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        for first in range(0, count, 1 << 18):
            client.stdin.write(numpy.arange(first, first + (1 << 18), dtype="<u8").tobytes())
        out = client.communicate()[0]
        self.assertEqual(out, b"%d keys, %d inserted\n" % (count, count))


class TenantsTest(FilterCase):
    def test_another_tenants_filter_is_read_only_and_only_when_shared(self):
        hspz_test.need_tls()
        tenants = [{"name": name, "token_sha256": hashlib.sha256(name.encode()).hexdigest()}
                   for name in ("ann", "bob")]
        self.served.stop()
        self.served = self.daemon(config={"tenants": tenants}, wait=False)
        token = {name: ("--token-file", self.file(name, name), "--wait", "30")
                 for name in ("ann", "bob")}
        keys = self.keys(500)
        for name, options in (("own", ()), ("open", ("--shared",))):
            self.out("create", name, "--kind", "tcf", "--capacity", 1000, *options, *token["ann"])
            self.out("insert", name, *token["ann"], data=lines(keys))
        rows = self.out("list", *token["bob"]).splitlines()[1:]
        self.assertEqual([row.split("\t")[:3] for row in rows], [["ann/open", "tcf", "yes"]])
        self.assertEqual(len(self.out("list", *token["ann"]).splitlines()), 3)
        there = self.out("query", "ann/open", "--json", *token["bob"], data=lines(keys))
        self.assertEqual(json.loads(there)["present"], 500)
        for call in ("insert", "delete"):
            self.assertIn("another tenant", self.err(call, "ann/open", *token["bob"],
                                                     data=lines(keys)))
        for call in ("insert", "query", "delete", "count"):
            self.assertIn("no filter", self.err(call, "ann/own", *token["bob"], data=lines(keys)))
            self.assertIn("no filter", self.err(call, "own", *token["bob"], data=lines(keys)))
        self.assertNotEqual(self.err("drop", "ann/open", *token["bob"]), "")
        there = self.out("query", "own", "--json", *token["ann"], data=lines(keys))
        self.assertEqual(json.loads(there)["present"], 500)


class ReadmeTest(FilterCase):
    def test_the_readme_shows_what_is_shown(self):
        with open(os.path.join(hspz_test.SOURCE, "README.md"), encoding="utf-8") as file:
            block = file.read().split("\n## Filters\n")[1].split("\n\n")[1]
        block = [line[4:] for line in block.split("\n")]
        commands = [line[2:] for line in block if line.startswith("$ ")]
        self.assertEqual(len(commands), 3)
        done = subprocess.run(["bash", "-ec", "\n".join(commands)], capture_output=True, text=True,
                              env=child_env(HSPZ_SERVER=self.served.server, PATH=":".join(
                                  [os.path.dirname(CLIENT), os.environ["PATH"]])))
        self.assertEqual(done.stdout.splitlines(),
                         [line for line in block if not line.startswith("$ ")], done.stderr)


class GenomeTest(FilterCase):
    def test_words_of_a_genome_are_counted_as_jellyfish_counts_them(self):
        path = hspz_test.genome("ragout", "examples/H.Pylori/references/G27.fasta.gz")
        jellyfish = hspz_test.tool("jellyfish")
        k = 21
        plain = self.path("g.fa")
        with gzip.open(path, "rb") as source, open(plain, "wb") as to:
            to.write(source.read())
        subprocess.run([jellyfish, "count", "-m", str(k), "-s", "4M", "-C", "-o",
                        self.path("g.jf"), plain], check=True)
        dump = subprocess.run([jellyfish, "dump", "-c", self.path("g.jf")], capture_output=True,
                              check=True).stdout.decode().split()
        codes = str.maketrans("ACGT", "0123")
        keys = [int(word.translate(codes), 4) for word in dump[::2]]
        want = [int(n) for n in dump[1::2]]
        self.assertGreater(len(keys), 1500000)

        # The canonical words of the genome, by numpy.
        table = numpy.full(256, 4, dtype=numpy.uint64)
        for code, letter in enumerate("ACGT"):
            table[ord(letter)] = code
        with open(plain, encoding="ascii") as file:
            bases = "".join(line.strip() for line in file if not line.startswith(">"))
        code = table[numpy.frombuffer(bases.encode(), dtype=numpy.uint8)]
        self.assertEqual(int(code.max()), 3)
        n = len(code) - k + 1
        word = numpy.zeros(n, dtype=numpy.uint64)
        back = numpy.zeros(n, dtype=numpy.uint64)
        for i in range(k):
            word = word << numpy.uint64(2) | code[i:i + n]
            back |= (numpy.uint64(3) - code[i:i + n]) << numpy.uint64(2 * i)
        words = numpy.minimum(word, back).astype("<u8").tobytes()

        self.create("kmers", "gqf", capacity=int(1.1 * len(keys)), slot_bits=64)
        self.out("insert", "kmers", "--raw", data=words)
        stats = self.stats("kmers")
        self.assertEqual((stats["entries"], stats["total"]), (len(keys), n))
        got = self.run_filter("count", "kmers", "--raw", "--format", "raw",
                              data=numpy.array(keys, dtype="<u8").tobytes()).stdout
        self.assertEqual(numpy.frombuffer(got, dtype="<u8").tolist(), want)


if __name__ == "__main__":
    hspz_test.main()
