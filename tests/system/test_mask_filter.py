"""Queries masked by filters of k-mers: who may name which, and what drops and changes meanwhile do."""

import json
import os
import random

import hspz_test
from hspz_test import SHAPE_12OF19, bases, fasta, poll, unpack_anchors
from test_fair import tenant
from test_kmers import cut

SPAN = len(SHAPE_12OF19)


class WireTest(hspz_test.TestCase):
    def setUp(self):
        super().setUp()
        rng = random.Random(11)
        self.unit = bases(rng, 400)
        self.text = bases(rng, 1500) + self.unit * 12 + bases(rng, 1500)
        self.query = bases(rng, 300) + self.unit + bases(rng, 300)
        self.index_file = self.index([("r", self.text)])

    def start(self, *args, **more):
        return self.daemon(*args, indexes={"ref": self.index_file}, **more)

    def fill(self, peer, name, text, kind="gqf", **more):
        peer.call("filter.create", dict({"filter": name, "kind": kind, "capacity": 10000, "k": 15,
                                         "canonical": True}, **more))
        peer.call("filter.insert", {"filter": name, "sequence": text.encode()})

    def job(self, **more):
        return dict({"index": "ref", "query": {"bases": self.query.encode()}, "transitions": False},
                    **more)

    def left(self, data, words):
        """Of an answer without a mask, plus strand, what windows leave that begin with no word."""
        found = cut(self.query, 15)
        return [a for a in unpack_anchors(data) if found[a[1] - SPAN] not in words]

    def test_requests_sent_before_make_the_filter(self):
        daemon = self.start()
        with daemon.peer() as peer:
            result, data, _ = peer.discover(**self.job(strand="plus"))
            made = [peer.request("filter.create", filter="f", kind="gqf", capacity=1000, k=15,
                                 canonical=True),
                    peer.request("filter.insert", {"filter": "f", "sequence": self.unit[:200].encode()})]
            masked = peer.request("discover", self.job(strand="plus", mask_filter="f"))
            for number in made:
                peer.result(number)
            after, rest, parts = peer.anchors(masked)
            words = {w for w in cut(self.unit[:200], 15) if w}
            self.assertEqual(unpack_anchors(rest), self.left(data, words))
            self.assertTrue(0 < after["anchors"] < result["anchors"])
            seeds = len(self.query) - SPAN + 1
            self.assertEqual(result["strands"]["plus"]["seeds"], seeds)
            gone = sum(w in words for w in cut(self.query, 15)[:seeds])
            self.assertEqual(after["strands"]["plus"]["seeds"], seeds - gone)
            self.assertEqual(parts[-1]["seed_end"], seeds - gone)
            # All of it masked is an answer as well.
            self.fill(peer, "all", self.query)
            result, data, _ = peer.discover(**self.job(mask_filter="all"))
            self.assertEqual((result["anchors"], result["strands"]["minus"]["seeds"], data),
                             (0, 0, b""))

    def test_what_is_no_mask_is_refused(self):
        daemon = self.start()
        with daemon.peer() as peer:
            self.fill(peer, "bloom", self.unit[:200], kind="bloom")
            peer.call("filter.create", filter="plain", kind="gqf", capacity=10)
            for more, code, words in (
                    ({"mask_filter": "none"}, "unknown_filter", 'no filter "none"'),
                    ({"mask_filter": "a b"}, "bad_request", "no filter's name"),
                    ({"mask_filter": ""}, "bad_request", "mask_filter"),
                    ({"mask_filter": 3}, "bad_request", "mask_filter"),
                    ({"mask_count": 3}, "bad_request", "mask_filter"),
                    ({"mask_filter": "bloom", "mask_count": -1}, "bad_request", "mask_count"),
                    ({"mask_filter": "plain"}, "bad_request", "no k"),
                    ({"mask_filter": "bloom", "mask_count": 1}, "unsupported", "no counts")):
                self.assert_code(peer.error("discover", self.job(**more)), code, words)
            self.assert_code(peer.error("discover", index="ref", seeds=b"", mask_filter="bloom"),
                             "bad_request", '"mask_filter" goes with "query"')
            self.assertGreater(peer.call("discover", self.job(mask_filter="bloom"))["anchors"], 0)
            self.assertEqual(peer.call("health")["state"], "ready")

    def test_filters_of_others_are_as_those_that_are_not_there(self):
        config = self.path("config.json")
        hspz_test.write(config, json.dumps({"tenants": [tenant("a"), tenant("b"), {
            "name": "operator", "role": "operator", "uids": [os.geteuid()]}]}))
        daemon = self.start("--config", config)
        with daemon.peer(token="a") as a, daemon.peer(token="b") as b:
            self.fill(a, "own", self.unit)
            self.fill(a, "open", self.unit, shared=True)
            texts = {json.dumps(b.error("discover", self.job(mask_filter=name))).replace(name, "")
                     for name in ("a/own", "a/none", "c/own")}
            self.assertEqual(len(texts), 1, texts)
            self.assertIn("unknown_filter", texts.pop())
            want = a.call("discover", self.job(mask_filter="own"))["digest"]
            for peer, name in ((a, "open"), (a, "a/own"), (b, "a/open")):
                self.assertEqual(peer.call("discover", self.job(mask_filter=name))["digest"], want)
            self.assertNotEqual(b.call("discover", self.job())["digest"], want)

    def test_a_filter_that_is_dropped_serves_its_job_to_the_end(self):
        daemon = self.start("--part-bytes", "64K")
        with daemon.peer() as other:
            self.fill(other, "f", self.unit[:200])
            query = (self.query + "&") * 700
            job = {"index": "ref", "query": {"bases": query.encode()}, "mask_filter": "f"}
            want = other.call("discover", job)
            self.assertGreater(want["anchors"], 1000000)
            used = lambda: other.call("stats")["memory"]["filter_bytes"]
            before = used()
            with daemon.peer() as peer:
                number = peer.request("discover", job)
                self.assertEqual(peer.receive()[1], "anchors")  # it has begun, and its reader stops
                other.call("filter.drop", filter="f")
                self.assertEqual(other.call("filter.list")["filters"], [])
                self.assert_code(other.error("discover", job), "unknown_filter")
                self.assertEqual(used(), before)
                self.assertEqual(peer.result(number)["digest"], want["digest"])
            self.assertTrue(poll(lambda: used() == 0))

    def test_a_filter_that_is_changed_ends_its_job_and_waits_for_no_reader(self):
        daemon = self.start("--part-bytes", "64K")
        with daemon.peer() as other, daemon.peer() as peer:
            self.fill(other, "f", self.unit[:200])
            query = (self.query + "&") * 700
            job = {"index": "ref", "query": {"bases": query.encode()}, "mask_filter": "f"}
            number = peer.request("discover", job)
            self.assertEqual(peer.receive()[1], "anchors")
            other.call("filter.insert", {"filter": "f", "sequence": self.unit.encode()})
            error, _ = peer.response(number)
            self.assert_code(error, "cancelled", 'filter "f" was changed')
            # Readers do not mind each other.
            number = peer.request("discover", job)
            self.assertEqual(peer.receive()[1], "anchors")
            other.call("filter.query", {"filter": "f", "sequence": self.unit.encode()})
            self.assertGreater(peer.result(number)["anchors"], 0)
            # One that ends while it waits for its turn lets go.
            number = peer.request("discover", job)
            self.assertEqual(peer.receive()[1], "anchors")
            peer.call("cancel", job=number)
            self.assert_code(peer.response(number)[0], "cancelled", "job")
            other.call("filter.drop", filter="f")
            self.assertTrue(poll(lambda: other.call("stats")["memory"]["filter_bytes"] == 0))

    def test_many_jobs_and_writers_end(self):
        """Jobs that a filter masks, while it is changed all the time: each has a right answer or says
        that it has none."""
        daemon = self.start()
        with daemon.peer() as other:
            self.fill(other, "f", self.unit, kind="counter")
            want = other.call("discover", self.job(mask_filter="f"))["digest"]
            peers = [daemon.peer() for _ in range(6)]
            done = changed = 0
            for turn in range(12):
                numbers = [(p, p.request("discover", self.job(mask_filter="f"))) for p in peers]
                writes = [other.request("filter.insert", {"filter": "f", "sequence": self.unit.encode()})
                          for _ in range(4 if turn < 11 else 0)]  # at last none is disturbed
                for peer, number in numbers:
                    error, result = peer.response(number)
                    if error is None:
                        self.assertEqual(result["digest"], want)
                        done += 1
                    else:
                        self.assert_code(error, "cancelled", "was changed")
                        changed += 1
                for number in writes:
                    other.result(number)
            self.assertGreaterEqual(done, 6)
            self.assertEqual(done + changed, 72)
            for peer in peers:
                peer.close()


class ClientTest(hspz_test.TestCase):
    def test_the_option_is_checked(self):
        query = self.file("q.fa", fasta([("q", "ACGT" * 20)]))
        for value in ("", ":3", "f:", "f:x", "f:-1", "x" * 300):
            done = hspz_test.client("discover", "ref", query, "--mask-filter", value,
                                    server="unix:/none", check=2)
            self.assertIn("--mask-filter", done.stderr)
            hspz_test.client("hsps", "ref", query, "--mask-filter", value, server="unix:/none", check=2)
        for command in ("discover", "hsps"):
            done = hspz_test.client("--server", "unix:/a", "--server", "unix:/b", command, "ref", query,
                                    "--mask-filter", "f", check=2)
            self.assertIn("--mask-filter works with one server, not with 2;", done.stderr)
        for more in (["--seeds", query], [query, "--hit-stats"]):
            done = hspz_test.client("discover", "ref", *more, "--mask-filter", "f",
                                    server="unix:/none", check=2)
            self.assertIn("--mask-filter", done.stderr)

    def test_other_odd_options_are_told(self):
        query = self.file("q.fa", fasta([("q", "ACGT" * 20)]))
        for arguments, text in ((("kmers", "count", "", query), "NAME is empty"),
                                (("discover", "", query), "NAME is empty"),
                                (("mask", query, "--k", "15"), "--k is of --kmers")):
            done = hspz_test.client(*arguments, server="unix:/none" if arguments[0] != "mask" else None,
                                    check=2)
            self.assertIn(text, done.stderr)

    def test_a_filter_that_has_more_than_it_was_made_for_is_told(self):
        daemon = self.daemon()
        few, many = (self.file(name, "".join("%d\n" % n for n in range(count)))
                     for name, count in (("few", 100), ("many", 3000)))
        for kind in ("bloom", "blocked"):
            daemon.client("filter", "create", kind, "--kind", kind, "--capacity", "1000", check=0)
            for keys, warns in ((few, False), (many, True)):
                done = daemon.client("filter", "insert", kind, keys, check=0)
                self.assertEqual("more than it was made for" in done.stderr, warns, done.stderr)
                self.assertRegex(done.stdout, r"^\d+ keys, \d+ inserted\n$")
                done = daemon.client("filter", "stats", kind, check=0)
                self.assertEqual("more than it was made for" in done.stderr, warns, done.stderr)
        text = self.file("t.fa", fasta([("t", bases(random.Random(2), 4000))]))
        done = daemon.client("kmers", "count", "k", text, "-k", "21", "--kind", "bloom", "--capacity",
                             "1000", check=0)
        self.assertIn("warning: filter k has ", done.stderr)
        done = daemon.client("kmers", "histogram", "k", check=1)
        self.assertIn("filter k is a bloom filter, which has no counts", done.stderr)

    def test_errors_are_told(self):
        index = self.index([("r", bases(random.Random(1), 3000))])
        daemon = self.daemon(indexes={"ref": index})
        query = self.file("q.fa", fasta([("q", bases(random.Random(1), 500))]))
        out = self.path("out.tsv")
        done = daemon.client("discover", "ref", query, "--mask-filter", "none:7", "-o", out, check=1)
        self.assertIn('there is no filter "none"', done.stderr)
        self.assertFalse(os.path.exists(out))
        daemon.client("filter", "create", "s", "--kind", "blocked", "--capacity", "1000", check=0)
        for command in ("discover", "hsps"):
            done = daemon.client(command, "ref", query, "--mask-filter", "s", check=1)
            self.assertIn("no k", done.stderr)


if __name__ == "__main__":
    hspz_test.main()
