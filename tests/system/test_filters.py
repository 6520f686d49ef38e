"""Filters over the protocol, by raw peers, against sets and counts kept here."""

import collections
import json
import os
import random
import signal
import struct
import threading
import time
import unittest

import hspz_test
from hspz_test import SLOWER, poll
from test_fair import tenant

KINDS = ("tcf", "gqf", "bloom", "blocked", "sqf", "rsqf")
EDGES = [0, 1, 2**63, 2**64 - 1, 2**64 - 2]


def pack(numbers):
    return struct.pack("<%dQ" % len(numbers), *numbers)


def unpack(data):
    return list(struct.unpack("<%dQ" % (len(data) // 8), data))


def bits(data, count):
    """The bitmap as booleans; what is left of its last byte is 0."""
    assert len(data) == (count + 7) // 8
    assert count % 8 == 0 or data[-1] >> count % 8 == 0
    return [bool(data[i // 8] >> i % 8 & 1) for i in range(count)]


def random_keys(rng, count):
    return list({rng.getrandbits(64) for _ in range(count)})


class FilterTest(hspz_test.TestCase):
    def ask(self, peer, method, name, keys, answer=None, **more):
        """(result, bitmap, array) of a call with keys."""
        params = dict({"filter": name, "keys": pack(keys)}, **more)
        if answer:
            params["answer"] = answer
        for key in ("values", "counts"):
            if key in params:
                params[key] = pack(params[key])
        return self.answers(peer, peer.request("filter." + method, params), len(keys), answer or (
            "array" if method == "count" else "bitmap"))

    def answers(self, peer, number, count, answer):
        peer.notices = []
        result = peer.result(number)
        self.assertEqual(result["keys"], count)
        parts = [n[2] for n in peer.notices if n[1] == "answers"]
        at, bitmap, array = 0, [], []
        for i, (head, data) in enumerate(parts):
            self.assertEqual((head["job"], head["answer"], head["first"]), (number, answer, at))
            n = head["count"]
            self.assertTrue(n > 0 and (n % 8 == 0 or i == len(parts) - 1))
            if answer in ("array", "both"):
                array += unpack(data[:8 * n])
                data = data[8 * n:]
            if answer in ("bitmap", "both"):
                bitmap += bits(data, n)
            else:
                self.assertEqual(data, b"")
            at += n
        self.assertEqual(at, 0 if answer == "none" else count)
        if answer in ("bitmap", "both"):
            self.assertEqual(sum(bitmap), result["yes"])
        return result, bitmap, array

    def entries(self, peer, name, **more):
        number = peer.request("filter.enumerate", dict(more, filter=name))
        peer.notices = []
        result = peer.result(number)
        words, at = [], 0
        for _, method, (head, data) in peer.notices:
            self.assertEqual((method, head["job"], head["first"]), ("entries", number, at))
            self.assertEqual(len(data), 24 * head["count"])
            words += unpack(data)
            at += head["count"]
        self.assertEqual(result["entries"], at)
        return [tuple(words[i:i + 3]) for i in range(0, len(words), 3)]


class OperationTest(FilterTest):
    def setUp(self):
        super().setUp()
        self.node = self.daemon("--max-filters", "40", "--part-bytes", "64K")
        self.rng = random.Random(5)

    def test_each_kind_holds_what_was_put_in(self):
        for kind in KINDS:
            with self.subTest(kind), self.node.peer() as peer:
                made = peer.call("filter.create", filter=kind, kind=kind, capacity=30000,
                                 rate=0.001)
                self.assertEqual((made["filter"], made["kind"], made["entries"]), (kind, kind, 0))
                self.assertLessEqual(made["expected_rate"], 0.001)
                keys = random_keys(self.rng, 20000) + EDGES
                rest = random_keys(self.rng, 100000)
                result, went, _ = self.ask(peer, "insert", kind, keys)
                self.assertTrue(all(went) and not result["filter_full"])
                _, there, _ = self.ask(peer, "query", kind, keys + rest)
                self.assertTrue(all(there[:len(keys)]))
                self.assertLess(sum(there[len(keys):]), 1.5 * 0.001 * len(rest) + 30)
                # The same call without answers, and as an array.
                result, none, _ = self.ask(peer, "query", kind, keys, answer="none")
                self.assertEqual((result["yes"], none), (len(keys), []))
                stats = peer.call("filter.stats", filter=kind)
                self.assertTrue(0.9 * len(keys) <= stats["entries"] <= len(keys), stats)
                self.assertGreater(stats["load"], 0)
                peer.call("filter.drop", filter=kind)
                self.assert_code(peer.error("filter.stats", filter=kind), "unknown_filter", kind)
        self.node.stop()

    def test_what_a_kind_cannot_do_is_refused(self):
        with self.node.peer() as peer:
            for kind in KINDS:
                peer.call("filter.create", filter=kind, kind=kind, capacity=100)
            can = {"count": ("tcf", "gqf"), "delete": ("tcf", "gqf", "sqf"), "decrement": ("gqf",)}
            for method, kinds in can.items():
                for kind in KINDS:
                    error, _ = peer.response(peer.request("filter." + method,
                                                          filter=kind, keys=pack([1])))
                    self.assertEqual(error and error["code"],
                                     None if kind in kinds else "unsupported", (method, kind))
            for kind in KINDS:
                peer.call("filter.create", filter="other", kind=kind, capacity=100)
                error, _ = peer.response(peer.request("filter.merge", filter=kind, **{
                    "from": "other"}))
                self.assertEqual(error and error["code"],
                                 "unsupported" if kind == "tcf" else None, kind)
                error, _ = peer.response(peer.request("filter.enumerate", filter=kind))
                self.assertEqual(error and error["code"],
                                 "unsupported" if "blo" in kind else None, kind)
                peer.call("filter.drop", filter="other")
        self.node.stop()

    def test_values_come_back(self):
        with self.node.peer() as peer:
            for kind in ("tcf", "gqf"):
                # Tags so long that no two of these keys are taken for each other.
                peer.call("filter.create", filter=kind, kind=kind, capacity=20000, slot_bits=32 if
                          kind == "tcf" else 64, value_bits=20)
                keys = random_keys(self.rng, 10000)
                values = {k: self.rng.getrandbits(20) for k in keys}
                self.ask(peer, "insert", kind, keys[:6000], values=[values[k] for k in keys[:6000]])
                _, went, found = self.ask(peer, "insert_if_absent", kind, keys, answer="both",
                                          values=[values[k] for k in keys])
                self.assertEqual(went, [False] * 6000 + [True] * 4000)
                self.assertEqual(found, [values[k] for k in keys[:6000]] + [0] * 4000)
                _, there, found = self.ask(peer, "query", kind, keys + EDGES, answer="both")
                self.assertEqual(there, [True] * 10000 + [False] * 5)
                self.assertEqual(found, [values[k] for k in keys] + [0] * 5)
                _, _, found = self.ask(peer, "query", kind, keys, answer="array")
                self.assertEqual(found, [values[k] for k in keys])
                error = peer.error("filter.insert", filter=kind, keys=pack([1]),
                                   values=pack([1 << 20]))
                self.assert_code(error, "bad_request", "20 bits")
        self.node.stop()

    def test_counts_are_those_of_a_counter(self):
        with self.node.peer() as peer:
            peer.call("filter.create", filter="c", kind="gqf", capacity=30000, slot_bits=64)
            want = collections.Counter()
            keys = random_keys(self.rng, 5000)
            for _ in range(3):
                some = [self.rng.choice(keys) for _ in range(20000)]
                self.ask(peer, "insert", "c", some)
                want.update(some)
            times = [self.rng.getrandbits(40) for _ in keys[:50]]
            self.ask(peer, "insert", "c", keys[:50], counts=times)
            want.update(dict(zip(keys[:50], times)))
            down = [self.rng.randrange(1, 5) for _ in keys[50:1000]]
            _, was, _ = self.ask(peer, "decrement", "c", keys[50:1000], counts=down)
            self.assertEqual(was, [want[k] > 0 for k in keys[50:1000]])
            want.subtract(dict(zip(keys[50:1000], down)))
            _, was, _ = self.ask(peer, "delete", "c", keys[1000:1100])
            self.assertEqual(was, [want[k] > 0 for k in keys[1000:1100]])
            for key in keys[1000:1100]:
                del want[key]
            want = +want
            _, _, counts = self.ask(peer, "count", "c", keys + EDGES)
            self.assertEqual(counts, [want[k] for k in keys + EDGES])
            self.assertEqual(sorted(c for _, _, c in self.entries(peer, "c")),
                             sorted(want.values()))
            stats = peer.call("filter.stats", filter="c")
            self.assertEqual((stats["entries"], stats["total"]), (len(want), sum(want.values())))
        self.node.stop()

    def test_a_full_filter_says_which_keys_went_in(self):
        # CASES.md D01, D04: one batch, and one by one.
        with self.node.peer() as peer:
            for kind in ("tcf", "gqf", "sqf", "rsqf"):
                for step in (400, 1):
                    peer.call("filter.create", filter="f", kind=kind, slots=128, slot_bits=32)
                    keys, inside, full = random_keys(self.rng, 400), [], False
                    for at in range(0, 400, step):
                        result, went, _ = self.ask(peer, "insert", "f", keys[at:at + step])
                        inside += [k for k, w in zip(keys[at:], went) if w]
                        self.assertEqual(result["filter_full"], not all(went))
                        full = full or result["filter_full"]
                    self.assertTrue(full, kind)
                    self.assertGreaterEqual(len(inside), 115)
                    _, there, _ = self.ask(peer, "query", "f", inside)
                    self.assertTrue(all(there), kind)
                    stats = peer.call("filter.stats", filter="f")
                    self.assertEqual(stats["entries"], len(inside), kind)
                    peer.call("filter.drop", filter="f")
        self.node.stop()

    def test_deletes_of_copies_and_strangers(self):
        # CASES.md D12, D13.
        with self.node.peer() as peer:
            peer.call("filter.create", filter="d", kind="tcf", capacity=40000, slot_bits=32)
            kept, gone = random_keys(self.rng, 15000), random_keys(self.rng, 15000)
            self.ask(peer, "insert", "d", kept + gone)
            for _ in range(3):
                _, was, _ = self.ask(peer, "delete", "d", gone)
                self.assertTrue(all(was))
                _, went, _ = self.ask(peer, "insert", "d", gone)
                self.assertTrue(all(went))
            _, there, _ = self.ask(peer, "query", "d", kept + gone)
            self.assertTrue(all(there))
            result, _, _ = self.ask(peer, "delete", "d", random_keys(self.rng, 20000))
            self.assertLessEqual(result["yes"], 2)
            peer.call("filter.create", filter="q", kind="gqf", capacity=2000)
            self.ask(peer, "insert", "q", [7] * 10000 + kept[:1000])
            _, _, counts = self.ask(peer, "count", "q", [7])
            self.assertGreaterEqual(counts[0], 10000)
        self.node.stop()

    def test_merging_adds_up(self):
        with self.node.peer() as peer:
            for kind in ("bloom", "blocked", "gqf", "sqf", "rsqf"):
                a, b = random_keys(self.rng, 5000), random_keys(self.rng, 5000)
                for name, keys in (("a", a), ("b", b)):
                    peer.call("filter.create", filter=name, kind=kind, capacity=20000)
                    self.ask(peer, "insert", name, keys)
                merged = peer.call("filter.merge", {"filter": "a", "from": "b"})
                self.assertFalse(merged["filter_full"])
                _, there, _ = self.ask(peer, "query", "a", a + b)
                self.assertTrue(all(there), kind)
                stats = peer.call("filter.stats", filter="b")
                self.assertLessEqual(stats["entries"], 5000)
                # A small one does not take it up, and stays as it was.
                peer.call("filter.create", filter="c", kind=kind, capacity=100, seed=1)
                self.assert_code(peer.error("filter.merge", {"filter": "c", "from": "b"}),
                                 "bad_request")
                self.assert_code(peer.error("filter.merge", {"filter": "a", "from": "a"}),
                                 "bad_request", "same filter")
                self.assert_code(peer.error("filter.merge", {"filter": "a", "from": "x"}),
                                 "unknown_filter", '"x"')
                for name in "abc":
                    peer.call("filter.drop", filter=name)
        self.node.stop()

    def test_a_filter_in_parts_is_one_filter(self):
        self.node.stop()
        folder = self.path("kept")
        os.mkdir(folder)
        node = self.daemon("--filter-dir", folder)
        with node.peer() as peer:
            keys = [self.rng.choice(range(6000)) for _ in range(20000)]
            for name, more in (("whole", {}), ("parts", {"parts": 4}), ("more", {"parts": 4})):
                made = peer.call("filter.create", filter=name, kind="gqf", slots=16384, **more)
                self.assertEqual((made["slots"], made.get("parts")), (16384, more.get("parts")))
            for name in ("whole", "parts"):
                self.ask(peer, "insert", name, keys[:15000])
                self.ask(peer, "delete", name, keys[:1000])
            for method in ("query", "count", "insert_if_absent", "decrement", "delete"):
                said = [self.ask(peer, method, name, keys[15000:17000])[1:]
                        for name in ("whole", "parts")]
                self.assertEqual(said[0], said[1], method)
            self.ask(peer, "insert", "more", keys[17000:])
            peer.call("filter.merge", {"filter": "parts", "from": "more"})
            self.ask(peer, "insert", "whole", keys[17000:])
            entries = self.entries(peer, "whole")
            self.assertTrue(len(entries) > 3000)
            self.assertEqual(self.entries(peer, "parts"), entries)
            self.assert_code(peer.error("filter.merge", {"filter": "parts", "from": "whole"}),
                             "bad_request", "in 4 and in 1 parts")
            for parts in (3, 32):
                self.assert_code(peer.error("filter.create", filter="x", kind="tcf", slots=100,
                                            parts=parts), "bad_request", "power of two")
            self.assert_code(peer.error("filter.create", filter="x", kind="counter", capacity=9,
                                        parts=2), "bad_request", "counter")
            saved = peer.call("filter.save", filter="parts")
            peer.call("filter.drop", filter="parts")
            self.assertEqual(peer.call("filter.load", filter="parts"), saved)
            self.assertEqual(self.entries(peer, "parts"), entries)
            for kind in KINDS:
                peer.call("filter.create", filter=kind, kind=kind, capacity=20000, parts=8)
                some = random_keys(self.rng, 20000)
                self.assertFalse(self.ask(peer, "insert", kind, some)[0]["filter_full"], kind)
                self.assertTrue(all(self.ask(peer, "query", kind, some)[1]), kind)
        node.stop()

    def test_enumerating_tells_all_and_sees_changes(self):
        with self.node.peer() as peer, self.node.peer() as writer:
            keys = random_keys(self.rng, 300000)
            peer.call("filter.create", filter="e", kind="gqf", capacity=400000, slot_bits=32)
            self.ask(peer, "insert", "e", keys)
            entries = self.entries(peer, "e")
            self.assertEqual(entries, sorted(entries))
            self.assertEqual(sum(c for _, _, c in entries), len(keys))
            # One that stands still, as nobody reads, sees that the filter is changed meanwhile.
            number = peer.request("filter.enumerate", filter="e")
            self.assertTrue(poll(lambda: not peer.silent(0)))
            self.ask(writer, "insert", "e", [1])
            error, _ = peer.response(number)
            self.assert_code(error, "cancelled", "changed")
            self.assertEqual(sum(c for _, _, c in self.entries(peer, "e")), len(keys) + 1)
        self.node.stop()

    def test_nonsense_is_refused_with_its_limits(self):
        # CASES.md D03, D17.
        with self.node.peer() as peer:
            def error(**more):
                return peer.error("filter.create", dict({"filter": "x", "kind": "gqf"}, **more))
            for more, word in (
                    ({"capacity": 100, "rate": 2.0}, "2^-40"), ({"capacity": 100, "rate": 1.0}, "0.5"),
                    ({"capacity": 100, "rate": -0.1}, "rate"), ({"capacity": 100, "rate": 1e-300}, "rate"),
                    ({"capacity": 100, "rate": float("nan")}, "rate"), ({}, "exactly one"),
                    ({"capacity": 0}, "exactly one"), ({"capacity": 10**18}, "2^40"),
                    ({"capacity": 2**64 - 1}, "2^40"), ({"slots": 2**63}, "2^40"),
                    ({"slots": 1024, "slot_bits": 33}, "8, 16, 32 or 64"),
                    ({"slots": 1024, "slot_bits": 8, "value_bits": 8}, "leaves nothing"),
                    ({"capacity": 5, "slots": 5}, "exactly one"),
                    ({"capacity": 5, "kind": "cuckoo"}, "wanted")):
                self.assert_code(error(**more), "bad_request", word)
            self.assert_code(error(slots=2**30), "too_large", "bytes")
            for name in ("", ".", "..", ".x", "a b", "a/b/c", "/x", "x/", "é", "x" * 65, "a\\b"):
                self.assert_code(error(filter=name, capacity=5), "bad_request")
            self.assert_code(error(filter="other/x", capacity=5), "forbidden", "other/x")
            self.assert_code(peer.error("filter.query", filter="other/x", keys=b""),
                             "unknown_filter", "other/x")
            peer.call("filter.create", filter="x", kind="gqf", capacity=5)
            self.assert_code(error(capacity=5), "bad_request", "already")
            self.assert_code(peer.error("filter.query", filter="x", keys=pack([1]) + b"x"),
                             "bad_request", "multiple of 8")
            self.assert_code(peer.error("filter.insert", filter="x", keys=pack([1]),
                                        counts=pack([1, 2])), "bad_request", "counts")
            self.assertEqual(self.ask(peer, "query", "x", [])[0]["yes"], 0)
            self.assertEqual(self.ask(peer, "insert", "x", [])[0]["filter_full"], False)
            self.assertEqual([f["filter"] for f in peer.call("filter.list")["filters"]], ["x"])
        self.node.stop()

    def test_requests_of_a_connection_go_in_order(self):
        with self.node.peer() as peer:
            keys = random_keys(self.rng, 1000)
            sent = [peer.request("filter.create", filter="o", kind="sqf", capacity=2000),
                    peer.request("filter.insert", filter="o", keys=pack(keys)),
                    peer.request("filter.query", filter="o", keys=pack(keys)),
                    peer.request("filter.delete", filter="o", keys=pack(keys[:500])),
                    peer.request("filter.stats", filter="o"),
                    peer.request("filter.drop", filter="o"),
                    peer.request("filter.query", filter="o", keys=pack(keys))]
            got = [peer.response(number) for number in sent]
            self.assertEqual([e and e["code"] for e, _ in got], [None] * 6 + ["unknown_filter"])
            self.assertEqual([r["yes"] for _, r in got[1:4]], [1000, 1000, 500])
            self.assertEqual([r["entries"] for _, r in got[4:6]], [500, 500])
        self.node.stop()

    def test_list_has_pages(self):
        with self.node.peer() as peer:
            names = ["f%02d" % i for i in range(40)]
            for name in names:
                peer.call("filter.create", filter=name, kind="bloom", capacity=10)
            self.assert_code(peer.error("filter.create", filter="more", kind="bloom", capacity=10),
                             "quota_exceeded", "40 filters")
            got = []
            while len(got) < 40:
                page = peer.call("filter.list", first=len(got), count=7)
                self.assertEqual((page["filter_count"], page["first"]), (40, len(got)))
                self.assertLessEqual(len(page["filters"]), 7)
                got += [f["filter"] for f in page["filters"]]
            self.assertEqual(sorted(got), names)
            self.assertEqual(peer.call("filter.list", first=40)["filters"], [])
        self.node.stop()


class TenantTest(FilterTest):
    def start(self, *tenants, options=(), **more):
        config = {"tenants": list(tenants) + [
            {"name": "operator", "role": "operator", "uids": [os.geteuid()]}]}
        self.config = self.path("config.json")
        hspz_test.write(self.config, json.dumps(config))
        return self.daemon("--config", self.config, *options, **more)

    def make(self, peer, name, keys=(), kind="gqf", **more):
        peer.call("filter.create", dict({"filter": name, "kind": kind, "capacity": 1000}, **more))
        if keys:
            self.ask(peer, "insert", name, keys)

    def test_a_tenants_filters_are_its_own(self):
        daemon = self.start(tenant("a"), tenant("b"))
        with daemon.peer(token="a") as a, daemon.peer(token="b") as b, daemon.peer() as operator:
            self.make(a, "x", [1, 2, 3])
            self.make(a, "open", [4, 5], shared=True)
            self.make(b, "x", [6])
            for peer, keys in ((a, [1, 2, 3]), (b, [6])):
                self.assertEqual(self.ask(peer, "query", "x", [1, 2, 3, 6])[0]["yes"], len(keys))
            # What is not shared is as what is not there, to the byte.
            for method, more in (("query", {"keys": pack([1])}), ("insert", {"keys": pack([1])}),
                                 ("stats", {}), ("enumerate", {}), ("drop", {})):
                texts = {json.dumps(b.error("filter." + method, dict(more, filter=name))).replace(
                    name, "") for name in ("a/x", "a/none", "c/x")}
                self.assertEqual(len(texts), 1, texts)
            # A shared one may be read, by its tenant's name too.
            for peer, name in ((b, "a/open"), (a, "open"), (a, "a/open"), (operator, "a/open")):
                self.assertEqual(self.ask(peer, "query", name, [4, 5, 6])[0]["yes"], 2)
                self.assertEqual(self.ask(peer, "count", name, [4, 6])[2], [1, 0])
                self.assertEqual(len(self.entries(peer, name)), 2)
            for method in ("insert", "insert_if_absent", "delete", "decrement"):
                self.assert_code(b.error("filter." + method, filter="a/open", keys=pack([9])),
                                 "forbidden", "another tenant's")
            self.assert_code(b.error("filter.drop", filter="a/open"), "forbidden")
            self.assertFalse(b.call("filter.merge", {"filter": "x", "from": "a/open"})["filter_full"])
            self.assertEqual(self.ask(b, "query", "x", [4, 5, 6])[0]["yes"], 3)
            self.assertEqual(self.ask(a, "query", "open", [4, 5, 6])[0]["yes"], 2)

            def seen(peer):
                return {f["filter"] for f in peer.call("filter.list")["filters"]}
            self.assertEqual(seen(a), {"x", "open"})
            self.assertEqual(seen(b), {"x", "a/open"})
            self.assertEqual(seen(operator), {"a/x", "a/open", "b/x"})
            operator.call("filter.drop", filter="a/x")
            self.assert_code(operator.error("filter.query", filter="b/x", keys=b""),
                             "unknown_filter")
            self.assertEqual(seen(a), {"open"})
            self.assertEqual(seen(b), {"x", "a/open"})
        daemon.stop()

    def test_quotas_hold(self):
        daemon = self.start(tenant("few", max_filters=2), tenant("small", max_resident_bytes="64K"),
                            tenant("any"), options=("--filter-memory", "1M"))
        with daemon.peer(token="few") as few, daemon.peer(token="small") as small, \
                daemon.peer(token="any") as other:
            self.make(few, "a")
            self.make(few, "b")
            error = few.error("filter.create", filter="c", kind="gqf", capacity=10)
            self.assert_code(error, "quota_exceeded", "2 filters", "this tenant")
            few.call("filter.drop", filter="a")
            self.make(few, "c")
            # Bytes of a tenant: the second of 40,000 does not go with the first.
            self.make(small, "a", kind="bloom", capacity=0, slots=40000 * 8)
            error = small.error("filter.create", filter="b", kind="bloom", slots=40000 * 8)
            self.assert_code(error, "quota_exceeded", "max_resident_bytes", '"small"')
            error = small.error("filter.create", filter="b", kind="bloom", slots=80000 * 8)
            self.assert_code(error, "too_large", "max_resident_bytes")
            self.assertEqual(error["limit"], 65536)
            small.call("filter.drop", filter="a")
            self.assertTrue(poll(lambda: small.response(small.request(
                "filter.create", filter="b", kind="bloom", slots=40000 * 8))[0] is None))
            # And of all.
            self.make(other, "a", kind="bloom", capacity=0, slots=700000 * 8)
            error = other.error("filter.create", filter="b", kind="bloom", slots=700000 * 8)
            self.assert_code(error, "quota_exceeded", "filter_memory")
            error = other.error("filter.create", filter="b", kind="bloom", slots=2000000 * 8)
            self.assert_code(error, "too_large", "budget")
            row = next(r for r in other.call("stats")["tenants"])
            self.assertEqual((row["tenant"], row["filters"]), ("any", 1))
            self.assertGreaterEqual(row["filter_bytes"], 700000)
            other.call("filter.drop", filter="a")
            with daemon.peer() as operator:
                poll(lambda: operator.call("stats")["memory"]["filter_bytes"] < 100000)
                stats = operator.call("stats")
                self.assertEqual(stats["filter_count"], 3)
                self.assertEqual(stats["memory"]["filter_bytes"],
                                 sum(r["filter_bytes"] for r in stats["tenants"]))
        daemon.stop()

    def test_a_reload_drops_filters_of_tenants_that_are_gone(self):
        daemon = self.start(tenant("a"), tenant("b"))
        with daemon.peer(token="a") as a, daemon.peer(token="b") as b:
            self.make(a, "x", [1])
            self.make(b, "x", [2])
            hspz_test.write(self.config, json.dumps({"tenants": [
                tenant("b"), {"name": "operator", "role": "operator", "uids": [os.geteuid()]}]}))
            daemon.reload()
            self.assertEqual(self.ask(b, "query", "x", [1, 2])[0]["yes"], 1)
            self.assert_code(a.error("filter.query", filter="x", keys=b""), "unauthorized")
            with daemon.peer() as operator:
                self.assertEqual([f["filter"] for f in operator.call("filter.list")["filters"]],
                                 ["b/x"])
        daemon.stop()

    def test_saved_filters_are_in_folders_of_their_tenants(self):
        folder = self.path("saved")
        os.mkdir(folder)
        options = ("--filter-dir", folder, "--filter-disk", "64K")
        tenants = (tenant("a"), tenant("b"), tenant(".c"))
        daemon = self.start(*tenants, options=options)
        keys = random_keys(random.Random(1), 700)
        with daemon.peer(token="a") as a, daemon.peer(token="b") as b, daemon.peer(token=".c") as c:
            self.make(a, "x", keys)
            made = a.call("filter.save", filter="x")
            self.assertEqual(made["entries"], 700)
            self.assertEqual(os.listdir(folder), ["a"])
            self.assertEqual(os.listdir(os.path.join(folder, "a")), ["x.hspf"])
            self.assertEqual(os.stat(os.path.join(folder, "a")).st_mode & 0o777, 0o700)
            self.assert_code(a.error("filter.load", filter="x"), "bad_request", "already")
            self.assert_code(b.error("filter.load", filter="x"), "unknown_filter", '"x"')
            self.assert_code(b.error("filter.load", filter="a/x"), "forbidden")
            for name in ("../a/x", "..", "x/../../a/x", "a/../x", "/etc/passwd", "x\0", ".x"):
                error = b.error("filter.load", filter=name)
                self.assertIn(error["code"], ("bad_request", "forbidden"), error)
            self.make(c, "x")
            self.assert_code(c.error("filter.save", filter="x"), "unsupported", "dot")
            # What a tenant may save is bounded.
            self.make(a, "large", kind="bloom", capacity=0, slots=80000 * 8)
            self.assert_code(a.error("filter.save", filter="large"), "too_large", "filter_disk")
            for name in ("l1", "l2"):
                self.make(a, name, kind="bloom", capacity=0, slots=40000 * 8)
            a.call("filter.save", filter="l1")
            self.assert_code(a.error("filter.save", filter="l2"), "quota_exceeded", "filter_disk")
            a.call("filter.save", filter="l1")  # in its own place
            a.call("filter.drop", filter="l1", saved=True)
            a.call("filter.save", filter="l2")
            self.assertEqual(sorted(os.listdir(os.path.join(folder, "a"))), ["l2.hspf", "x.hspf"])
        daemon.stop()
        # A symbolic link in the place of a folder is not followed.
        os.symlink(self.folder, os.path.join(folder, "b"))
        daemon = self.start(*tenants, options=options)
        with daemon.peer(token="a") as a, daemon.peer(token="b") as b:
            self.assertEqual(a.call("filter.list")["filters"], [])
            loaded = a.call("filter.load", filter="x", shared=True)
            self.assertEqual({k: v for k, v in loaded.items() if k != "shared"},
                             {k: v for k, v in made.items() if k != "shared"})
            self.assertEqual(self.ask(b, "query", "a/x", keys)[0]["yes"], 700)
            self.make(b, "x")
            self.assert_code(b.error("filter.save", filter="x"), "io_error", "no folder")
            # Damaged, it is refused, and there is no such filter.
            a.call("filter.drop", filter="x")
            path = os.path.join(folder, "a", "x.hspf")
            with open(path, "rb") as file:
                data = bytearray(file.read())
            for at in (20, 60, 300, len(data) - 1):
                bad = bytearray(data)
                bad[at] ^= 0x55
                hspz_test.write(path, bytes(bad))
                self.assert_code(a.error("filter.load", filter="x"), "bad_file")
            self.assertEqual([f["filter"] for f in a.call("filter.list")["filters"]], [])
            hspz_test.write(path, bytes(data))
            a.call("filter.load", filter="x")
            a.call("filter.drop", filter="x", saved=True)
            self.assert_code(a.error("filter.load", filter="x"), "unknown_filter")
            self.assert_code(a.error("filter.drop", filter="x", saved=True), "unknown_filter")
        daemon.stop()

    def test_nothing_is_saved_without_a_folder(self):
        daemon = self.daemon()
        with daemon.peer() as peer:
            self.make(peer, "x")
            for method in ("save", "load"):
                self.assert_code(peer.error("filter." + method, filter="x"), "unsupported",
                                 "filter_dir")
            self.assert_code(peer.error("filter.drop", filter="x", saved=True), "unsupported")
            self.assertEqual(peer.call("filter.list")["filter_count"], 1)
        daemon.stop()


class TurnTest(FilterTest):
    """Much work for one does not keep another waiting, and can be stopped."""
    MANY = 4000000

    def setUp(self):
        super().setUp()
        self.rng = random.Random(9)
        self.many = self.rng.randbytes(8 * self.MANY)

    def late(self, peer, seconds, name="small", going=lambda: True):
        """The worst of small calls for some seconds, while something else is going on."""
        worst, end = 0, time.monotonic() + seconds
        self.calls = 0
        while (time.monotonic() < end or self.calls <= 5) and going():
            begin = time.monotonic()
            self.assertEqual(self.ask(peer, "query", name, [1, 2, 3])[0]["yes"], 2)
            worst = max(worst, time.monotonic() - begin)
            self.calls += 1
        return worst

    def test_a_large_call_does_not_stall_small_ones(self):
        for kind in ("tcf", "gqf"):
            daemon = self.daemon("--job-memory", "64M")
            with daemon.peer() as big, daemon.peer() as small:
                small.call("filter.create", filter="small", kind="tcf", capacity=100)
                self.ask(small, "insert", "small", [1, 2])
                big.call("filter.create", filter="big", kind=kind, capacity=2 * self.MANY)
                alone = self.late(small, 0.5)
                calls = 0
                for method in ["insert"] + ["query"] * 20:
                    number = big.request("filter." + method, filter="big", keys=self.many,
                                         answer="none")
                    # It has come, and not gone yet, as long as there are two.
                    worst = self.late(small, 1.5, going=lambda: big.silent(0))
                    calls += self.calls
                    self.assertLess(worst, max(10 * alone, 0.25 * SLOWER), kind)
                    self.assertEqual(big.result(number)["yes"], self.MANY)
                    if calls > 5:
                        break
                self.assertGreater(calls, 5)
            daemon.stop()

    @unittest.skipIf(hspz_test.ENGINE == "cuda", "a card is done before anybody can stop it")
    def test_cancel_deadline_and_disconnect_stop_it(self):
        # Of what is answered little finds room: nothing of it ends as long as nobody reads.
        for kind in ("tcf", "gqf"):
            daemon = self.daemon("--part-bytes", "64K", "--parts-per-connection", "1")
            with daemon.peer() as peer, daemon.peer() as other:
                other.call("filter.create", filter="f", kind=kind, capacity=2 * self.MANY)

                def running():
                    return other.call("stats")["jobs"]["running"]
                number = peer.request("filter.insert", filter="f", keys=self.many)
                self.assertTrue(poll(lambda: not peer.silent(0)))
                peer.notices = []
                cancel = peer.request("cancel", job=number)
                error = None
                while error is None:
                    message = peer.receive()
                    if message[0] == 2:
                        peer.notices.append(message)
                    elif message[1] == cancel:
                        self.assertTrue(message[3]["found"])
                    else:
                        self.assertEqual(message[1], number)
                        error = message[2]
                self.assert_code(error, "cancelled")
                done = sum(n[2][0]["count"] for n in peer.notices)
                self.assertTrue(0 < done < self.MANY, done)
                # What was answered for is in.
                self.assertEqual(self.ask(other, "query", "f", unpack(self.many[:8 * done])[-20000:])
                                 [0]["yes"], min(done, 20000))
                error = peer.error("filter.insert", filter="f", keys=self.many, answer="none",
                                   deadline_ms=100)
                self.assert_code(error, "deadline_exceeded")
                peer.request("filter.insert", filter="f", keys=self.many)
                self.assertTrue(poll(lambda: running() == 1))
                peer.close()
                self.assertTrue(poll(lambda: running() == 0))
                other.call("filter.drop", filter="f")
                self.assertTrue(poll(lambda: other.call("stats")["memory"]["filter_bytes"] == 0))
                self.assertTrue(poll(lambda: other.call("stats")["memory"]["ingest_bytes"] == 0))
            daemon.stop()

    def test_whole_filters_are_let_go_midway(self):
        daemon = self.daemon("--filter-dir", self.folder)
        with daemon.peer() as peer:
            for name, first in (("a", 0), ("b", 1000000)):
                peer.call("filter.create", filter=name, kind="gqf", slots=1 << 22)
                self.ask(peer, "insert", name, range(first, first + 1500000), answer="none")
            before = peer.call("filter.stats", filter="a")["entries"]
            for method, more in (("merge", {"from": "b"}), ("save", {})):
                code = None
                for _ in range(20):
                    number = peer.request("filter." + method, dict(more, filter="a"))
                    peer.request("cancel", job=number)
                    answers = {}
                    while len(answers) < 2:
                        _, answered, error, _ = peer.receive()
                        answers[answered] = error
                    code = answers[number] and answers[number]["code"]
                    if code:
                        break
                self.assertEqual(code, "cancelled", method)
            self.assertGreaterEqual(peer.call("filter.stats", filter="a")["entries"], before)
            # One that goes away leaves no work behind, and the filter is as free as before.
            with daemon.peer() as other:
                other.request("filter.merge", {"filter": "a", "from": "b"})
            self.assertTrue(poll(lambda: peer.call("stats")["jobs"]["running"] == 0))
            self.assertEqual(self.ask(peer, "query", "a", [0, 1])[0]["yes"], 2)
        self.assertEqual([f for f in os.listdir(self.folder) if ".tmp-" in f], [])
        daemon.stop()

    def test_a_slow_reader_stops_its_own_job_alone(self):
        daemon = self.daemon("--part-bytes", "64K")
        with daemon.peer() as slow, daemon.peer() as peer:
            peer.call("filter.create", filter="f", kind="tcf", capacity=self.MANY)
            self.ask(peer, "insert", "f", [1, 2])
            number = slow.request("filter.query", filter="f", keys=self.many, answer="array")
            time.sleep(0.5 * SLOWER)
            self.assertLess(self.late(peer, 0.5, "f"), 1 * SLOWER)
            self.ask(peer, "insert", "f", [5])
            _, _, array = self.answers(slow, number, self.MANY, "array")
            self.assertEqual(sum(array), 0)
        daemon.stop()

    def test_writers_and_readers_of_one_filter_all_get_on(self):
        daemon = self.daemon("--lanes", "3")
        with daemon.peer() as peer:
            peer.call("filter.create", filter="f", kind="tcf", capacity=800000, slot_bits=32)
            peer.call("filter.create", filter="g", kind="gqf", capacity=60000, slot_bits=32)
        failures = []

        def work(seed, name):
            rng = random.Random(seed)
            try:
                with daemon.peer() as peer:
                    for _ in range(12):
                        keys = random_keys(rng, 2000)
                        assert all(self.ask(peer, "insert", name, keys)[1])
                        assert all(self.ask(peer, "query", name, keys)[1])
                        assert all(self.ask(peer, "delete", name, keys[:1000])[1])
                        assert all(self.ask(peer, "query", name, keys[1000:])[1])
            except BaseException as error:  # pylint: disable=broad-except
                failures.append(error)
        threads = [threading.Thread(target=work, args=(i, "fg"[i % 2])) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        with daemon.peer() as peer:
            for name in "fg":
                self.assertEqual(peer.call("filter.stats", filter=name)["entries"], 4 * 12 * 1000)
        daemon.stop()

    def test_a_drain_waits_for_calls(self):
        daemon = self.daemon("--part-bytes", "64K", "--parts-per-connection", "1")
        with daemon.peer() as peer:
            peer.call("filter.create", filter="f", kind="tcf", capacity=2 * self.MANY)
            # It does not end before its answers are read.
            number = peer.request("filter.insert", filter="f", keys=self.many)
            with daemon.peer() as other:
                self.assertTrue(poll(lambda: other.call("stats")["jobs"]["running"] == 1))
                os.kill(daemon.pid, signal.SIGTERM)
                self.assertTrue(poll(lambda: "draining" in daemon.log()))
                self.assert_code(other.error("filter.query", filter="f", keys=b""),
                                 "shutting_down")
            self.assertEqual(peer.result(number)["yes"], self.MANY)
        daemon.stop()

    def test_metrics_and_the_log_tell_of_filters(self):
        daemon = self.daemon("--access-log", "yes")
        with daemon.peer() as peer:
            before = peer.call("stats")
            peer.call("filter.create", filter="f", kind="tcf", capacity=1000)
            self.ask(peer, "insert", "f", [1, 2, 3])
            self.ask(peer, "query", "f", [1, 2])
            peer.error("filter.query", filter="g", keys=pack([1]))
            peer.call("filter.enumerate", filter="f")
            after = peer.call("stats")
            self.assertEqual(after["keys"] - before["keys"], 5)
            self.assertEqual(after["answers"], 5)
            self.assertEqual(after["entries"], 3)
            self.assertEqual({k: after["jobs"][k] - before["jobs"][k] for k in after["jobs"]}, {
                "received": 5, "ok": 4, "refused": 1, "cancelled": 0, "failed": 0, "in_flight": 0,
                "running": 0, "waiting": 0, "oldest_waiting_ms": 0})
            self.assertEqual(after["tenants"][0]["keys"], 5)
            log = daemon.log()
            self.assertIn("method=filter.insert status=ok", log)
            self.assertIn("method=filter.query status=unknown_filter", log)
        daemon.stop()


if __name__ == "__main__":
    hspz_test.main()
