"""`hspz-client filter` against a stub server that keeps filters exactly: what is read, sent, written
and said, and what it makes of a server that fails or lies."""

import gzip
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from filter_stub import FilterStub, numbers  # noqa: E402

CLIENT = os.path.join(os.environ["HSPZ_BUILD"], "client", "hspz-client")
TOP = 2 ** 64 - 1


def raw(*columns):
    return b"".join(struct.pack("<%dQ" % len(row), *row) for row in zip(*columns))


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="hspz-filters-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.rng = random.Random(5)

    def stub(self, **faults):
        server = FilterStub(os.path.join(self.dir, "s%d.sock" % random.getrandbits(30)), **faults)
        self.addCleanup(server.close)
        return server

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        return self.path(name)

    def run_client(self, server, *arguments, data=None, status=0):
        command = [CLIENT, "--server", server.address, "filter"] + [str(a) for a in arguments]
        data = data.encode() if isinstance(data, str) else data
        done = subprocess.run(command, input=data, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, status, (command, done.stderr))
        if status != 0:
            self.assertNotRegex(done.stderr.decode(), "(?i)sanitizer|assert|broken promise")
        return done

    def out(self, server, *arguments, **more):
        return self.run_client(server, *arguments, **more).stdout.decode()

    def err(self, server, *arguments, status=1, **more):
        return self.run_client(server, *arguments, status=status, **more).stderr.decode()

    def filter(self, server, kind="tcf", capacity=100000, *more, name="f"):
        self.out(server, "create", name, "--kind", kind, "--capacity", capacity, *more)
        return server.filters[name]


class KeysTest(Case):
    def keys(self, count=1000):
        return [0, TOP, 1] + [self.rng.getrandbits(64) for _ in range(count)]

    def test_text_of_all_forms_is_read(self):
        server = self.stub()
        f = self.filter(server)
        text = ("# a comment, however long " + "x" * 5000 + "\n1\n\n 2 \n\t0x3\r\n0XfF\n" + str(TOP) +
                "\n00000000007\n#\n0xffffffffffffffff\n\r\n  \n9")
        self.assertEqual(self.out(server, "insert", "f", data=text), "8 keys, 8 inserted\n")
        self.assertEqual(sorted(f.entries), [1, 2, 3, 7, 9, 255, TOP])
        self.assertEqual(len(f.entries[TOP]), 2)

    def test_gzip_standard_input_and_files_are_alike(self):
        keys = self.keys()
        text = "".join("%d\n" % k for k in keys)
        sets = []
        for source, data in ((self.write("k.txt", text), None), ("-", text), (None, text),
                             (self.write("k.gz", gzip.compress(text.encode())), None),
                             ("-", gzip.compress(text.encode()))):
            server = self.stub()
            f = self.filter(server)
            self.out(server, "insert", "f", *([source] if source else []), data=data)
            sets.append(f.entries)
        self.assertEqual(len(sets[0]), len(keys))
        self.assertTrue(all(s == sets[0] for s in sets))

    def test_raw_keys_are_taken_as_they_are(self):
        # The first bytes are those of gzip.
        keys = [0x8b1f, 0x00088b1f] + self.keys(20000)
        server = self.stub()
        f = self.filter(server)
        path = self.write("k.u64", raw(keys))
        self.assertEqual(self.out(server, "insert", "f", path, "--raw"),
                         "%d keys, %d inserted\n" % (len(keys), len(keys)))
        self.assertEqual(sorted(f.entries), sorted(keys))

    def test_answers_are_those_of_the_keys_in_order(self):
        inside, outside = self.keys(300), self.keys(300)[3:]
        server = self.stub()
        self.filter(server)
        self.out(server, "insert", "f", data="".join("%d\n" % k for k in inside))
        asked = inside + outside
        self.rng.shuffle(asked)
        text = "".join("%d\n" % k for k in asked)
        want = [k in set(inside) for k in asked]
        for batch in (1, 7, 64, 100, 1000):
            out = self.out(server, "query", "f", "--batch", batch, data=text)
            self.assertEqual(out, "#key\tpresent\n" + "".join(
                "%d\t%d\n" % row for row in zip(asked, want)))
            bits = self.run_client(server, "query", "f", "--batch", batch, "--format", "raw",
                                   data=text).stdout
            got = [bits[i // 8] >> i % 8 & 1 for i in range(len(asked))]
            self.assertEqual((got, len(bits)), ([int(w) for w in want], (len(asked) + 7) // 8))
        out = self.out(server, "query", "f", "--hex", "-o", self.path("o.tsv"), data=text)
        self.assertEqual(out, "")
        with open(self.path("o.tsv"), encoding="ascii") as file:
            self.assertEqual(file.read(), "#key\tpresent\n" + "".join(
                "0x%016x\t%d\n" % row for row in zip(asked, want)))
        self.assertEqual(self.out(server, "query", "f", "--format", "none", data=text),
                         "%d keys, %d present\n" % (len(asked), len(inside)))

    def test_what_is_written_can_be_read_again(self):
        server = self.stub()
        self.filter(server)
        self.out(server, "insert", "f", data="5\n6\n")
        out = self.out(server, "query", "f", "--hex", data="5\n7\n")
        with_column = self.err(server, "query", "f", data=out)
        self.assertIn("standard input, line 2: 2 numbers, where 1 is wanted", with_column)

    def test_values_go_with_their_keys(self):
        keys = self.keys(500)
        values = [self.rng.getrandbits(20) for _ in keys]
        server = self.stub()
        f = self.filter(server, "tcf", 10000, "--value-bits", 20)
        text = "".join("%d\t%d\n" % row for row in zip(keys, values))
        self.out(server, "insert", "f", "--values", "--batch", 77, data=text)
        self.assertEqual(f.entries, {k: [v] for k, v in zip(keys, values)})
        asked = "".join("%d\n" % k for k in keys + [12345])
        out = self.out(server, "query", "f", "--values", data=asked)
        self.assertEqual(out, "#key\tpresent\tvalue\n" + "".join(
            "%d\t1\t%d\n" % row for row in zip(keys, values)) + "12345\t0\t0\n")
        got = self.run_client(server, "query", "f", "--values", "--format", "raw", "--batch", 10,
                              data=asked).stdout
        self.assertEqual(list(numbers(got)), values + [0])
        again = self.out(server, "insert", "f", "--values", "--if-absent", "--format", "tsv", "--raw",
                         data=raw([keys[3], 777], [1, 2]))
        self.assertEqual(again, "#key\tinserted\n%d\t0\n777\t1\n" % keys[3])
        self.assertEqual(f.entries[777], [2])

    def test_counts_go_with_their_keys(self):
        keys = self.keys(200)
        counts = [self.rng.randrange(1, 1000) for _ in keys]
        server = self.stub()
        f = self.filter(server, "gqf")
        self.out(server, "insert", "f", "--counts", "--raw", data=raw(keys, counts))
        self.assertEqual(f.entries, dict(zip(keys, counts)))
        out = self.out(server, "count", "f", data="%d\n4\n" % keys[5])
        self.assertEqual(out, "#key\tcount\n%d\t%d\n4\t0\n" % (keys[5], counts[5]))
        got = self.run_client(server, "count", "f", "--format", "raw", "--raw",
                              data=raw(keys)).stdout
        self.assertEqual(list(numbers(got)), counts)
        self.out(server, "decrement", "f", "--counts",
                 data="%d %d\n%d 1\n" % (keys[5], counts[5], keys[6]))
        self.assertNotIn(keys[5], f.entries)
        self.assertEqual(f.entries.get(keys[6], 0), counts[6] - 1)
        self.out(server, "insert", "f", "--values", "--counts", data="9 0 3\n")
        self.assertEqual(f.entries[9], 3)
        params = [r for r in server.requests if r[2] == "filter.insert"][-1][3][0]
        self.assertEqual((params["values"], params["counts"]), (raw([0]), raw([3])))

    def test_deletes_say_what_was_there(self):
        server = self.stub()
        f = self.filter(server)
        self.out(server, "insert", "f", data="1\n1\n2\n")
        self.assertEqual(self.out(server, "delete", "f", data="1\n3\n"), "2 keys, 1 deleted\n")
        self.assertEqual(f.entries, {1: [0], 2: [0]})
        self.assertEqual(self.out(server, "delete", "f", "--format", "tsv", data="1\n1\n2\n"),
                         "#key\tdeleted\n1\t1\n1\t0\n2\t1\n")
        self.assertEqual(f.entries, {})

    def test_nothing_in_is_nothing_out(self):
        server = self.stub()
        self.filter(server)
        self.assertEqual(self.out(server, "insert", "f", data=""), "0 keys, 0 inserted\n")
        self.assertEqual(self.out(server, "query", "f", data="# none\n"), "#key\tpresent\n")
        self.assertEqual(self.out(server, "query", "f", "--raw", "--format", "raw", data=b""), "")

    def test_summaries_as_json(self):
        server = self.stub()
        self.filter(server)
        self.assertEqual(json.loads(self.out(server, "insert", "f", "--json", data="1\n2\n")),
                         {"filter": "f", "keys": 2, "inserted": 2, "full": False})
        self.assertEqual(json.loads(self.out(server, "query", "f", "--json", data="1\n3\n")),
                         {"filter": "f", "keys": 2, "present": 1, "full": False})

    def test_batches_keep_to_what_the_server_takes(self):
        server = self.stub(limits={"max_message": 1 << 30, "max_keys": 50})
        f = self.filter(server)
        self.out(server, "insert", "f", "--batch", 1000, data="".join("%d\n" % k for k in range(501)))
        self.assertEqual(len(f.entries), 501)
        sent = [len(m[3][0]["keys"]) // 8 for m in server.requests if m[2] == "filter.insert"]
        self.assertEqual(sent, [50] * 10 + [1])

    def test_a_full_server_is_waited_for(self):
        server = self.stub()
        self.filter(server)
        server.faults["busy"] = 3
        self.assertIn("busy", self.err(server, "insert", "f", data="1\n"))
        server.faults["busy"] = 3
        self.assertEqual(self.out(server, "insert", "f", "--wait", 20, data="1\n"),
                         "1 keys, 1 inserted\n")


class RefusalTest(Case):
    def test_lines_that_are_no_keys_are_named(self):
        server = self.stub()
        f = self.filter(server)
        for line, text in (("x", '"x"'), ("-1", '"-1"'), ("1e5", '"1e5"'), ("10k", '"10k"'),
                           ("0x", '"0x"'), ("5x", '"5x"'), ("1.0", '"1.0"'), ("+5", '"+5"'),
                           (str(2 ** 64), str(2 ** 64)), ("0x1" + "0" * 16, "0x1"), ("nan", "nan"),
                           ("1\x00", '"1?"'), ("\xa05", '"??5"'), ("9" * 200, '9"...'),
                           ("1,2", '"1,2"')):
            said = self.err(server, "insert", "f", self.write("bad.txt", "1\n# c\n2\n" + line + "\n3\n"))
            self.assertIn("bad.txt, line 4: ", said)
            self.assertIn(text, said)
            self.assertEqual(f.entries, {})
        self.assertIn("line 1: longer than 255 bytes",
                      self.err(server, "insert", "f", data=b"\x01" * 3000))
        for columns, line, text in (([], "1 2", "2 numbers, where 1 is wanted"),
                                    (["--values"], "1", "1 number, where 2 are wanted"),
                                    (["--values", "--counts"], "1 2", "2 numbers, where 3 are")):
            said = self.err(server, "insert", "f", *columns, data=line)
            self.assertIn("standard input, line 1: " + text, said)

    def test_a_bad_line_behind_batches_says_what_was_done(self):
        server = self.stub()
        f = self.filter(server)
        said = self.err(server, "insert", "f", "--batch", 8,
                        data="".join("%d\n" % k for k in range(20)) + "oops\n")
        self.assertIn('standard input, line 21: "oops"', said)
        self.assertIn("failed after 16 keys; what was done to the filter stays done", said)
        self.assertEqual(len(f.entries), 16)

    def test_raw_bytes_must_be_whole_records(self):
        server = self.stub()
        self.filter(server)
        for size in (1, 7, 9, 65536 + 4):
            said = self.err(server, "insert", "f", "--raw", data=b"\1" * size)
            self.assertIn("%d bytes at its end are no whole record of 8 bytes" % (size % 8), said)
        said = self.err(server, "insert", "f", "--raw", "--values", data=b"\1" * 24)
        self.assertIn("8 bytes at its end are no whole record of 16 bytes", said)

    def test_a_failed_query_leaves_no_file(self):
        server = self.stub()
        self.filter(server)
        self.err(server, "query", "f", "-o", self.path("out"), "--batch", 8,
                 data="1\n" * 20 + "x\n")
        self.assertEqual([n for n in os.listdir(self.dir) if "out" in n], [])

    def test_a_full_filter_says_which_keys_did_not_go_in(self):
        server = self.stub()
        f = self.filter(server, "tcf", 25)
        text = "# keys\n" + "".join("%d\n" % k for k in range(40))
        done = self.run_client(server, "insert", "f", "--batch", 10, data=text, status=1)
        self.assertEqual(done.stdout.decode(), "30 keys, 25 inserted\n")
        self.assertIn("filter f is full: 5 of 30 keys did not go in, the first on line 27; what "
                      "follows line 31 was not sent", done.stderr.decode())
        self.assertEqual(sorted(f.entries), list(range(25)))
        done = self.run_client(server, "insert", "f", "--format", "tsv", data="7\n99\n", status=1)
        self.assertEqual(done.stdout.decode(), "#key\tinserted\n7\t0\n99\t0\n")
        done = self.run_client(server, "insert", "f", "--json", "--raw", data=raw([3]), status=1)
        self.assertEqual(json.loads(done.stdout), {"filter": "f", "keys": 1, "inserted": 0,
                                                   "full": True})
        self.assertIn("the first on record 1;", done.stderr.decode())

    def test_usage(self):
        server = self.stub()
        for arguments, text in (
                ([], "a command is missing"), (["frob"], "unknown command frob"),
                (["create", "f"], "--kind is missing"), (["create"], "NAME is missing"),
                (["create", "f", "--kind", "cuckoo"], "tcf, gqf, bloom, blocked, sqf, rsqf or counter"),
                (["create", "f", "--kind", "tcf"], "one of --capacity and --slots"),
                (["create", "f", "--kind", "tcf", "--capacity", "1", "--slots", "2"], "one of"),
                (["create", "f", "--kind", "counter", "--slots", "2"], "which grows: --capacity"),
                (["stats", ""], "NAME is empty"), (["insert", "", "a"], "NAME is empty"),
                (["insert"], "NAME is missing"), (["insert", "f", "a", "b"], "one argument too many"),
                (["insert", "f", "--json", "--format", "raw"], "--json or --format"),
                (["insert", "f", "--if-absent", "--counts"], "--if-absent or --counts"),
                (["query", "f", "--counts"], "unknown option --counts"),
                (["delete", "f", "--values"], "unknown option --values"),
                (["count", "f", "--if-absent"], "unknown option --if-absent"),
                (["query", "f", "--format", "jsonl"], "tsv, raw or none"),
                (["insert", "f", "-o", "x"], "nothing is written of each key"),
                (["enumerate", "f", "--format", "none"], "tsv or raw"),
                (["merge", "f"], "FROM is missing"), (["list", "x"], "one argument too many"),
                (["load", "f", "--saved"], "unknown option --saved")):
            said = self.err(server, *arguments, status=2)
            self.assertIn(text, said)
            self.assertIn("Try: hspz-client filter", said)
        for option in ("--capacity", "--slots", "--hashes", "--slot-bits"):
            for value in ("1e5", "10k", "0x10", "-1", "5x", " 5", "", str(2 ** 64), "nan", "0"):
                said = self.err(server, "create", "f", "--kind", "tcf", option, value, status=2)
                self.assertIn('%s "%s"' % (option, value), said)
        for value in ("1e", "x", "-1", "", ".", ".5", "1.", "0x1p-3", "nan", "inf", "1e999", "0,5"):
            said = self.err(server, "create", "f", "--kind", "tcf", "--capacity", "5", "--rate", value,
                            status=2)
            self.assertIn('--rate "%s"' % value, said)
        self.assertEqual(server.filters, {})

    def test_a_file_that_is_not_there(self):
        server = self.stub()
        self.filter(server)
        self.assertIn("nosuch", self.err(server, "insert", "f", "/nosuch/keys"))
        for call in ("insert", "query", "count", "enumerate"):
            done = self.run_client(server, call, "g", status=1, data="1\n")
            self.assertEqual(done.stdout, b"")
            self.assertEqual(done.stderr.decode(), "hspz-client: there is no filter g\n")
        path = self.write("k.txt", "1\n")
        self.assertIn("the input itself", self.err(server, "query", "f", path, "-o", path, status=2))


class StopTest(Case):
    def test_a_signal_ends_it_while_it_waits_for_keys(self):
        server = self.stub()
        f = self.filter(server)
        command = [CLIENT, "--server", server.address, "filter", "insert", "f", "--batch", "8"]
        client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        client.stdin.write(b"1\n2\n" * 40000)
        client.stdin.flush()
        end = time.monotonic() + 30
        while len(f.entries) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.2)
        client.send_signal(signal.SIGINT)
        self.assertEqual(client.wait(30), 1)
        said = client.stderr.read().decode()
        self.assertIn("stopped by a signal", said)
        self.assertRegex(said, r"failed after \d+ keys; what was done to the filter stays done")
        client.stdin.close()
        client.stdout.close()
        client.stderr.close()


class LyingServerTest(Case):
    def test_answers_that_do_not_add_up_are_refused(self):
        text = "".join("%d\n" % k for k in range(203))
        for faults in ({"extra": 1}, {"skip": 0}, {"skip": 64}, {"skip": 192}, {"short": 64},
                       {"behind": True}, {"change": {"first": 8}}, {"change": {"count": 63}},
                       {"change": {"answer": "array"}}, {"change": {"job": 77}},
                       {"change": {"first": 2 ** 64 - 64}}):
            server = self.stub()
            self.filter(server)
            self.out(server, "insert", "f", data=text)
            server.faults.update(faults)
            said = self.err(server, "query", "f", "-o", self.path("q"), data=text)
            self.assertRegex(said, "not valid", faults)
            self.assertFalse(os.path.exists(self.path("q")))
        server = self.stub()
        self.filter(server)
        server.faults["close_at"] = 128
        said = self.err(server, "insert", "f", data=text)
        self.assertIn("failed after 128 keys", said)

    def test_entries_that_do_not_add_up_are_refused(self):
        for faults in ({"extra": 1}, {"skip": 0}, {"skip": 64}, {"skip": 192}):
            server = self.stub()
            self.filter(server)
            self.out(server, "insert", "f", data="".join("%d\n" % k for k in range(203)))
            server.faults.update(faults)
            self.assertRegex(self.err(server, "enumerate", "f"), "not valid", faults)


class OtherCallsTest(Case):
    def test_create_says_what_it_has_come_to(self):
        server = self.stub()
        out = self.out(server, "create", "f", "--kind", "gqf", "--capacity", 500, "--rate", "2.5e-1",
                       "--value-bits", 3, "--seed", TOP, "--shared", "--slot-bits", 16,
                       "--parts", 4)
        self.assertEqual(server.filters["f"].params,
                         {"filter": "f", "kind": "gqf", "capacity": 500, "rate": 0.25,
                          "value_bits": 3, "seed": TOP, "shared": True, "slot_bits": 16,
                          "parts": 4})
        lines = dict(line.split(None, 1) for line in out.splitlines())
        self.assertEqual((lines["filter"], lines["kind"], lines["capacity"], lines["memory"]),
                         ("f", "gqf", "500", "2000 bytes"))
        self.assertIn("there is a filter f",
                      self.err(server, "create", "f", "--kind", "tcf", "--slots", 64))
        self.out(server, "insert", "f", data="3\n3\n")
        stats = json.loads(self.out(server, "stats", "f", "--json"))
        want = {k: v for k, v in server.info("f", server.filters["f"]).items()
                if k != "filter_full"}
        self.assertEqual(stats, {"k": 0, "canonical": False, "parts": 1, **want})
        self.assertIn("entries        1\n", self.out(server, "stats", "f"))

    def test_list_gives_all_pages(self):
        server = self.stub(more=250)
        self.filter(server)
        out = self.out(server, "list").splitlines()
        self.assertEqual(out[0], "#filter\tkind\tshared\tbytes")
        self.assertEqual(out[1:], ["f\ttcf\tno\t7"] + ["a/n%03d\ttcf\tyes\t7" % i for i in range(250)])
        rows = json.loads(self.out(server, "list", "--json"))
        self.assertEqual(len(rows), 251)
        self.assertEqual(rows[1], {"filter": "a/n000", "kind": "tcf", "shared": True, "bytes": 7})
        self.assertEqual(json.loads(self.out(self.stub(), "list", "--json")), [])

    def test_merge_save_load_drop(self):
        server = self.stub()
        f = self.filter(server, "gqf", 10)
        self.filter(server, "gqf", 20, name="g")
        self.out(server, "insert", "f", data="1\n2\n")
        self.out(server, "insert", "g", data="2\n3\n")
        self.assertEqual(self.out(server, "merge", "f", "g"), "")
        self.assertEqual(f.entries, {1: 1, 2: 2, 3: 1})
        self.out(server, "insert", "g", data="".join("%d\n" % k for k in range(20)))
        self.assertIn("filter f is full: what g has does not fit", self.err(server, "merge", "f", "g"))
        self.out(server, "save", "f")
        self.out(server, "drop", "f")
        self.assertEqual(list(server.filters), ["g"])
        self.out(server, "load", "f", "--shared")
        self.assertTrue(server.filters["f"].params["shared"])
        self.out(server, "drop", "f", "--saved")
        self.assertEqual(server.saved, {})
        self.assertIn("there is no filter f", self.err(server, "stats", "f"))

    def test_enumerate_writes_all_entries(self):
        server = self.stub()
        self.filter(server, "gqf")
        keys = sorted(self.rng.getrandbits(64) for _ in range(300))
        self.out(server, "insert", "f", "--counts", "--raw", data=raw(keys, range(1, 301)))
        rows = list(zip(keys, range(1, 301)))
        self.assertEqual(self.out(server, "enumerate", "f"), "#fingerprint\tvalue\tcount\n" +
                         "".join("%d\t0\t%d\n" % row for row in rows))
        self.assertEqual(self.out(server, "enumerate", "f", "--hex").splitlines()[1],
                         "0x%016x\t0\t1" % keys[0])
        out = self.run_client(server, "enumerate", "f", "--format", "raw").stdout
        self.assertEqual(numbers(out), tuple(n for k, c in rows for n in (k, 0, c)))

    def test_help_of_each_fits_a_screen_and_has_an_example(self):
        done = subprocess.run([CLIENT, "filter", "--help"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)
        names = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")]
        self.assertEqual(len(names), 13)
        for name in names:
            done = subprocess.run([CLIENT, "filter", name, "--help"], capture_output=True, text=True)
            lines = done.stdout.splitlines()
            self.assertEqual(done.returncode, 0)
            self.assertTrue(lines[0].startswith("Usage: hspz-client filter " + name))
            self.assertTrue(lines[-1].startswith("Example: "))
            self.assertLess(len(lines), 25)
            self.assertLessEqual(max(map(len, lines)), 80)


unittest.main()
