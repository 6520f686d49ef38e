"""Turns between tenants: shares by weight, small jobs beside large ones, priorities, quotas, deadlines."""

import hashlib
import multiprocessing
import os
import random
import signal
import struct
import threading
import time
import traceback
import unittest

import hspz_test
from hspz_test import SLOWER, bases, poll

SHAPE = "1110100110010101111"
# On a card everything is quicker, and what a machine that is busy with other things does to its turns is less.
CARD = hspz_test.ENGINE == "cuda"
SEARCH_BASES = 1000000 if CARD else 200000
SMALL_JOBS = 1000 if CARD else 300
# A turn and the step that ends it: of a search on the CPU engine, tens of milliseconds.
PART_MS = 2 if CARD else 40
# A chunk of as many hits: this many A in the reference, and about as many in the query.
CHUNK_HITS, CHUNK_BASES = 1 << 31, 46400
CODES = {"A": 0, "C": 1, "G": 2, "T": 3}


def words(text, count):
    """Seeds of the first `count` windows, as bytes."""
    out = []
    for at in range(count):
        word = 0
        for care, base in zip(SHAPE, text[at:]):
            word = word << 2 | CODES[base] if care == "1" else word
        out.append(struct.pack("<II", at, word))
    return b"".join(out)


def tenant(name, **more):
    return dict({"name": name, "token_sha256": hashlib.sha256(name.encode()).hexdigest()}, **more)


class Crowd:
    """Connections that each ask for the same again and again, and read what comes: in a process of
    their own, so that they are in nobody's way."""

    def __init__(self, test, daemon, token, params, connections, ahead):
        self.daemon, self.token, self.params, self.ahead = daemon, token, params, ahead
        self.process = multiprocessing.get_context("fork").Process(
            target=self.work, args=(connections,))
        self.process.start()
        test.addCleanup(self.leave)

    def work(self, connections):
        for _ in range(connections):
            threading.Thread(target=self.ask).start()

    def ask(self):
        try:
            with self.daemon.peer(token=self.token) as peer:
                numbers = [peer.request("discover", p) for p in self.params[:self.ahead]]
                while True:
                    message = peer.receive()
                    if message[0] == 1:
                        if message[1:3] != [numbers.pop(0), None]:
                            raise AssertionError(message)
                        numbers.append(peer.request("discover", self.params[-1]))
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def leave(self):
        """Without the answers that are owed."""
        self.process.kill()
        self.process.join()
        if self.process.exitcode != -signal.SIGKILL:
            raise AssertionError("a crowd failed")


class Base(hspz_test.TestCase):
    def setUp(self):
        super().setUp()
        self.text = bases(random.Random(11), 200000)
        self.files = {"r": self.index([("r", self.text + "A" * CHUNK_BASES)]),
                      "s": self.index([("s", self.text[:2000])], name="s")}
        # Much to look up and little to read, so that no reader holds its tenant up.
        other = bases(random.Random(12), SEARCH_BASES).encode()
        self.search = {"index": "s", "query": {"bases": other}}

    def start(self, *tenants, options=(), **more):
        config = {"tenants": list(tenants) + [
            {"name": "operator", "role": "operator", "uids": [os.geteuid()]}]}
        return self.daemon(*options, indexes=self.files, config=config, **more)

    def stats(self, daemon):
        """{tenant: its part of stats}"""
        with daemon.peer() as peer:
            return {row["tenant"]: row for row in peer.call("stats")["tenants"]}


class FairTest(Base):
    def assert_shares(self, daemon, one, other, ratio):
        """`one` comes to have `ratio` times the device time of `other`, within a tenth: counted from
        when both have work, over at least some seconds. On a machine that is busy with other things a
        turn may last long, and it takes more of them."""
        self.assertTrue(poll(lambda: all(self.stats(daemon)[n]["device_ns"] for n in (one, other))))
        time.sleep(0.3)
        before, seen = self.stats(daemon), []

        def close():
            now = self.stats(daemon)
            took = [now[n]["device_ns"] - before[n]["device_ns"] for n in (one, other)]
            if sum(took) > 2e9 and took[1] > 0:
                seen.append(round(took[0] / took[1], 2))
                return 0.9 * ratio < seen[-1] < 1.1 * ratio
            return False
        self.assertTrue(poll(close, 40, 0.5), seen)
        print("%s to %s: %s of device time, %s wanted" % (one, other, seen[-1], ratio))

    def test_weights_share_the_device(self):
        daemon = self.start(tenant("one", weight=1), tenant("three", weight=3))
        # The light one has more connections, and more of its jobs waiting.
        # As many as a card has lanes can use all of it.
        crowds = [Crowd(self, daemon, "one", [self.search] * 20, 8, 20),
                  Crowd(self, daemon, "three", [self.search] * 2, 4, 2)]
        self.assert_shares(daemon, "three", "one", 3)
        for crowd in crowds:
            crowd.leave()
        daemon.stop()

    def test_a_single_connection_gets_its_weight(self):
        daemon = self.start(tenant("one", weight=1), tenant("three", weight=3), options=("--lanes", "1"))
        crowds = [Crowd(self, daemon, name, [self.search] * 2, 1, 2) for name in ("one", "three")]
        self.assert_shares(daemon, "three", "one", 3)
        for crowd in crowds:
            crowd.leave()
        daemon.stop()

    def test_a_changed_weight_holds_after_a_reload(self):
        daemon = self.start(tenant("one"), tenant("other"), options=("--lanes", "1"))
        crowds = [Crowd(self, daemon, name, [self.search] * 2, 2, 2) for name in ("one", "other")]
        self.assert_shares(daemon, "one", "other", 1)
        at = daemon.command.index("--config") + 1
        with open(daemon.command[at], encoding="utf-8") as file:
            text = file.read()
        hspz_test.write(daemon.command[at], text.replace('"name": "one"', '"name": "one", "weight": 4'))
        daemon.process.send_signal(hspz_test.signal.SIGHUP)
        self.assertTrue(poll(lambda: self.stats(daemon)["one"]["weight"] == 4))
        self.assert_shares(daemon, "one", "other", 4)
        for crowd in crowds:
            crowd.leave()
        daemon.stop()

    @unittest.skipIf(hspz_test.SANITIZED, "bounds of time")
    def test_a_capped_tenant_leaves_the_device_idle(self):
        daemon = self.start(tenant("capped", device_share=20), options=("--lanes", "1"))
        crowd = Crowd(self, daemon, "capped", [self.search] * 2, 2, 2)
        self.assertTrue(poll(lambda: self.stats(daemon)["capped"]["device_ns"] > 2e8))
        begin, before, seen = time.monotonic(), self.stats(daemon)["capped"]["device_ns"], []

        def capped():
            took = self.stats(daemon)["capped"]["device_ns"] - before
            seen.append(round(took / 1e9 / (time.monotonic() - begin), 3))
            return 0.07 < seen[-1] < 0.26
        time.sleep(3)
        # A turn may last long on a machine that is busy with other things: over a longer time.
        self.assertTrue(poll(capped, 20, 0.5), seen)
        print("capped at 20 %%: %.1f %% of device time" % (100 * seen[-1]))
        crowd.leave()
        daemon.stop()

    def small(self, peer, seeds, count):
        """Milliseconds that each of `count` jobs took."""
        took = []
        for _ in range(count):
            begin = time.monotonic()
            result, data, _ = peer.discover("r", seeds=seeds)
            took.append((time.monotonic() - begin) * 1000)
            self.assertEqual(result["anchors"], len(data) // 8)
            self.assertGreater(result["anchors"], 900)
            time.sleep(0.001)
        return sorted(took)

    @unittest.skipIf(hspz_test.SANITIZED, "bounds of time")
    def test_an_interactive_tenant_hardly_notices_a_bulk_one(self):
        if os.getloadavg()[0] > 2 * os.cpu_count():
            self.skipTest("the machine is busy with other things")
        daemon = self.start(tenant("bulk"), tenant("interactive"))
        seeds = words(self.text, 1000)
        poly = {"index": "r", "strand": "plus", "transitions": False, "max_hits": (1 << 32) - 1}
        chunk = dict(poly, query={"bases": b"A" * CHUNK_BASES})
        rest = dict(poly, query={"bases": b"A" * 2000})
        self.assertGreater((CHUNK_BASES - len(SHAPE)) ** 2, CHUNK_HITS)
        # One connection with 64 jobs, the first of one chunk; the same and searches; searches alone.
        stream, searches = ([chunk] + [rest] * 63, 1, 64), ([self.search] * 3, 3, 3)
        with daemon.peer(token="interactive") as peer:
            for name, crowds in (("64 jobs", [stream]), ("64 jobs, searches", [stream, searches]),
                                 ("searches", [searches])):
                self.assert_unnoticed(name, daemon, peer, seeds, crowds)
        daemon.stop()

    def assert_unnoticed(self, name, daemon, peer, seeds, crowds):
        """One that asks for 1,000 seeds at a time waits little longer beside the others."""
        tries = []
        for _ in range(5):
            idle = self.small(peer, seeds, SMALL_JOBS)
            others = [Crowd(self, daemon, "bulk", *crowd) for crowd in crowds]
            self.assertTrue(poll(lambda: self.stats(daemon)["bulk"]["running"] ==
                                 sum(crowd[1] for crowd in crowds)))
            before = self.stats(daemon)["bulk"]
            begin = time.monotonic()
            busy = self.small(peer, seeds, SMALL_JOBS)
            took = time.monotonic() - begin
            bulk = self.stats(daemon)["bulk"]
            for other in others:
                other.leave()
            self.assertTrue(poll(lambda: self.stats(daemon)["bulk"]["in_flight"] == 0))
            self.assertGreater(bulk["device_ns"], before["device_ns"])
            p50, p99 = SMALL_JOBS // 2, SMALL_JOBS * 99 // 100
            tries.append((idle[p99], busy[p50], busy[p99]))
            print("beside %s: ms of 1,000 seeds, idle p99 %.2f, median %.2f, p99 %.2f; lanes for bulk %.2f" % (
                (name,) + tries[-1] + ((bulk["device_ns"] - before["device_ns"]) / took / 1e9,)))
            if busy[p99] < max(5 * idle[p99], 2 * PART_MS) and busy[p50] < PART_MS:
                return
        self.fail("idle p99, busy median, busy p99: %s" % tries)

    def test_a_higher_priority_of_the_same_tenant_goes_first(self):
        daemon = self.start(tenant("t"))
        with daemon.peer(token="t") as low, daemon.peer(token="t") as high:
            long = {"index": "s", "query": {"bases": self.search["query"]["bases"] * 100},
                    "priority": 2}
            first = low.request("discover", long)
            self.assertTrue(poll(lambda: self.stats(daemon)["t"]["running"] == 1))
            second = high.request("discover", dict(self.search, priority=7))
            result = high.result(second)
            self.assertGreater(result["anchors"], 0)
            self.assertTrue(poll(lambda: self.stats(daemon)["t"]["running"] == 1))
            low.call("cancel", job=first)
        daemon.stop()

    def test_priorities_are_bounded(self):
        daemon = self.start(tenant("t"))
        with daemon.peer(token="t") as peer:
            for wrong in (10, -1, "high", 2.5, None):
                self.assert_code(peer.error("discover", dict(self.search, priority=wrong)),
                                 "bad_request", "priority")
            seeds = words(self.text, 10)
            for good in (0, 4, 9):
                self.assertGreater(peer.call("discover", index="r", seeds=seeds,
                                             priority=good)["anchors"], 8)
        daemon.stop()


class QuotaTest(Base):
    """What a tenant may hold at a time."""

    def deaf(self):
        """A job that waits for its reader for ever, once it has begun."""
        return {"index": "r", "query": {"bases": b"A" * 3000}, "strand": "plus",
                "transitions": False}

    def test_jobs_over_the_quota_are_told_when_to_come_again(self):
        daemon = self.start(tenant("few", max_jobs=2), tenant("many"))
        seeds = words(self.text, 10)
        with daemon.peer(token="few") as one, daemon.peer(token="few") as two, \
                daemon.peer(token="many") as other:
            one.request("discover", self.deaf())
            cancelled = two.request("discover", self.deaf())
            self.assertTrue(poll(lambda: self.stats(daemon)["few"]["in_flight"] == 2))
            error = two.error("discover", index="r", seeds=seeds)
            self.assert_code(error, "queue_full", "tenant", 2)
            self.assertEqual(error["limit"], 2)
            self.assertGreaterEqual(error["retry_ms"], 20)
            self.assertLessEqual(error["retry_ms"], 60000)
            query = self.file("few.fa", ">q\n" + self.text[:100] + "\n")
            done = daemon.client("discover", "r", query, check=1,
                                 env=hspz_test.child_env(HSPZ_TOKEN="few"))
            self.assertIn('2 jobs of tenant "few" are waiting or running; at most 2 may (max_jobs)\n'
                          'hspz-client: --wait SECONDS tries again', done.stderr)
            self.assertGreater(other.call("discover", index="r", seeds=seeds)["anchors"], 8)
            # It is free again with the end of one.
            two.call("cancel", job=cancelled)
            self.assertEqual(two.response(cancelled)[0]["code"], "cancelled")
            self.assertGreater(two.call("discover", index="r", seeds=seeds)["anchors"], 8)
        self.assertTrue(poll(lambda: self.stats(daemon)["few"]["in_flight"] == 0))
        row = self.stats(daemon)["few"]
        self.assertEqual((row["received"], row["ok"], row["refused"], row["cancelled"]),
                         (5, 1, 2, 2))
        daemon.stop()

    def test_bytes_over_the_quota_are_refused_and_given_back(self):
        daemon = self.start(tenant("small", max_queued_bytes=3 << 19), tenant("large"))
        seeds = words(self.text, 10)
        body = seeds * 13000  # 1 MiB
        with daemon.peer(token="small") as one, daemon.peer(token="small") as two, \
                daemon.peer(token="large") as other:
            one.request("discover", self.deaf())
            self.assertTrue(poll(lambda: self.stats(daemon)["small"]["running"] == 1))
            one.request("discover", index="r", seeds=body)
            self.assertTrue(poll(lambda: self.stats(daemon)["small"]["in_flight"] == 2))
            self.assertGreater(self.stats(daemon)["small"]["ingest_bytes"], len(body))
            error = two.error("discover", index="r", seeds=body)
            self.assert_code(error, "quota_exceeded", 3 << 19)
            self.assertGreaterEqual(error["retry_ms"], 20)
            error = two.error("discover", index="r", seeds=body * 2)
            self.assert_code(error, "too_large", 3 << 19)
            self.assertNotIn("retry_ms", error)
            self.assertGreater(other.call("discover", index="r", seeds=body)["anchors"], 8)
        self.assertTrue(poll(lambda: self.stats(daemon)["small"]["ingest_bytes"] == 0))
        with daemon.peer(token="small") as peer:
            self.assertGreater(peer.call("discover", index="r", seeds=body)["anchors"], 8)
        daemon.stop()

    def test_a_job_that_could_never_run_is_refused_as_it_comes(self):
        daemon = self.start(tenant("t"), options=("--job-memory", "1M"))
        seeds = words(self.text, 10)
        with daemon.peer(token="t") as peer, daemon.peer(token="t") as other:
            peer.request("discover", self.deaf())
            daemon.wait_jobs(running=1)
            # Behind one that has no end: at its turn would be never.
            for params in ({"seeds": seeds * 10000}, {"query": {"bases": self.text[:90000].encode()}}):
                error = peer.error("discover", dict(params, index="r"))
                self.assert_code(error, "too_large", "scratch memory", "job_memory")
                self.assertEqual(error["limit"], 1 << 20)
                self.assertNotIn("retry_ms", error)
            self.assert_code(peer.error("discover", dict(
                index="r", query={"bases": b"ACGT"}, output="hsps", hsps={"xdrop": -1})), "bad_request")
            daemon.wait_jobs(running=1, waiting=0)
            self.assertGreater(other.call("discover", index="r", seeds=seeds)["anchors"], 8)
            self.assertEqual(self.stats(daemon)["t"]["refused"], 3)
        daemon.stop()

    def test_many_tiny_jobs_are_counted_with_what_each_holds(self):
        daemon = self.start(tenant("small", max_queued_bytes=64 << 10),
                            options=("--max-jobs", "10000"))
        with daemon.peer(token="small") as peer:
            peer.request("discover", self.deaf())
            self.assertTrue(poll(lambda: self.stats(daemon)["small"]["running"] == 1))
            numbers = [peer.request("discover", index="r", seeds=b"") for _ in range(200)]
            self.assertTrue(poll(lambda: self.stats(daemon)["small"]["refused"] > 100))
            self.assertLessEqual(self.stats(daemon)["small"]["ingest_bytes"], 64 << 10)
            self.assertGreater(self.stats(daemon)["small"]["in_flight"], 5)
            self.assertTrue(numbers)
        daemon.stop()

    def test_a_full_server_says_when_to_come_again(self):
        daemon = self.start(tenant("t"), options=("--max-all-jobs", "1"))
        with daemon.peer(token="t") as one, daemon.peer(token="t") as two:
            one.request("discover", self.deaf())
            self.assertTrue(poll(lambda: self.stats(daemon)["t"]["running"] == 1))
            error = two.error("discover", index="r", seeds=b"")
            self.assert_code(error, "queue_full")
            self.assertEqual(error["limit"], 1)
            self.assertGreaterEqual(error["retry_ms"], 20)
        daemon.stop()

    def test_one_tenant_does_not_use_up_what_is_for_all(self):
        # A quarter is kept: of 16 jobs one for each, of 4 MiB a third of one.
        daemon = self.start(tenant("hog"), tenant("small"), options=(
            "--max-all-jobs", "16", "--ingest-total", "4M", "--ingest-per-connection", "4M"))
        seeds = words(self.text, 10)
        with daemon.peer(token="hog") as hog, daemon.peer(token="small") as small:
            hog.request("discover", self.deaf())
            daemon.wait_jobs(running=1)
            for _ in range(13):
                hog.request("discover", index="r", seeds=seeds)
            daemon.wait_jobs(waiting=13)
            with daemon.peer(token="hog") as again:
                error = again.error("discover", index="r", seeds=seeds)
                self.assert_code(error, "queue_full", "14 jobs", "tenants that have few")
                self.assertEqual(error["limit"], 16)
                self.assertGreaterEqual(error["retry_ms"], 20)
            self.assertGreater(small.call("discover", index="r", seeds=seeds)["anchors"], 8)
        daemon.wait_jobs(running=0, waiting=0)
        with daemon.peer(token="hog") as hog, daemon.peer(token="hog") as again, \
                daemon.peer(token="small") as small:
            hog.request("discover", self.deaf())
            hog.request("discover", index="r", seeds=seeds * 37000)  # 2.8 MiB
            daemon.wait_jobs(running=1, waiting=1)
            error = again.error("discover", index="r", seeds=seeds * 10000)
            self.assert_code(error, "quota_exceeded")
            self.assertGreaterEqual(error["retry_ms"], 20)
            error = again.error("discover", index="r", seeds=seeds * 47000)  # 3.6 MiB
            self.assert_code(error, "too_large")
            self.assertLess(error["limit"], 3.5 * (1 << 20))
            self.assertNotIn("retry_ms", error)
            self.assertGreater(small.call("discover", index="r", seeds=seeds * 4000)["anchors"], 8)
        daemon.stop()

    def test_indexes_over_the_quota_of_memory_make_room_for_each_other(self):
        folder = self.path("indexes")
        os.mkdir(folder)
        texts = {name: bases(random.Random(i), 3000) for i, name in enumerate("abc")}
        for name, text in texts.items():
            # Shapes of weight 8: a few hundred kB each, much alike.
            file = self.index([("r", text)], "--seed", "1" * 8, name=name)
            os.rename(file, os.path.join(folder, name + ".hspz"))
        size = os.path.getsize(os.path.join(folder, "a.hspz"))
        daemon = self.start(tenant("two", max_resident_bytes=size * 5 // 2),
                            tenant("none", max_resident_bytes=size // 2), tenant("any"),
                            options=("--index-dir", folder))

        def ask(peer, name):
            return peer.call("discover", index=name, query={"bases": texts[name].encode()})

        def ready():
            with daemon.peer() as peer:
                return {row["index"] for row in peer.call("stats")["indexes"]
                        if row["state"] == "ready"} - {"r", "s"}
        with daemon.peer(token="two") as peer, daemon.peer(token="none") as small:
            for name in "abcab":
                self.assertGreater(ask(peer, name)["anchors"], 2900)
                row = self.stats(daemon)["two"]
                self.assertLessEqual(row["resident_bytes"], size * 5 // 2)
                self.assertGreater(row["resident_bytes"], size // 2)
            self.assertTrue(poll(lambda: ready() == {"a", "b"}))
            error = small.error("discover", index="c", query={"bases": b"ACGT" * 10})
            self.assert_code(error, "too_large", "c", size // 2)
            self.assertEqual(error["limit"], size // 2)
            self.assertIn('index "c" needs %d bytes; tenant "none" may have indexes and filters of '
                          '%d bytes in memory (max_resident_bytes)' % (size, size // 2),
                          error["message"])
            # What is in memory already is for everybody.
            self.assertGreater(ask(small, "a")["anchors"], 2900)
            with daemon.peer(token="any") as other:
                self.assertGreater(ask(other, "c")["anchors"], 2900)
            self.assertEqual(ready(), {"a", "b", "c"})
        daemon.stop()

    def test_a_deadline_is_kept_while_waiting(self):
        daemon = self.start(tenant("t"))
        with daemon.peer(token="t") as peer:
            peer.request("discover", self.deaf())
            self.assertTrue(poll(lambda: self.stats(daemon)["t"]["running"] == 1))
            begin = time.monotonic()
            late = peer.request("discover", dict(self.deaf(), deadline_ms=300))
            # Nobody reads, so that the one before it does not end.
            self.assertTrue(poll(lambda: self.stats(daemon)["t"]["failed"] == 1))
            took = time.monotonic() - begin
            code = None
            while code is None:
                message = peer.receive()
                code = message[2]["code"] if message[0] == 1 and message[1] == late else None
            self.assertEqual(code, "deadline_exceeded")
            self.assertGreaterEqual(took, 0.3)
            self.assertLess(took, 0.9 * SLOWER)
        daemon.stop()

    def test_a_user_is_told_of_itself_alone(self):
        daemon = self.start(tenant("me"), tenant("somebody"))
        with daemon.peer(token="somebody") as peer:
            peer.call("discover", index="r", seeds=words(self.text, 10))
        with daemon.peer(token="me") as peer:
            got = peer.call("stats")
            self.assertEqual(set(got), {"version", "engine", "state", "uptime_ms", "latency_ms",
                                        "tenant_count", "tenants"})
            self.assertEqual([row["tenant"] for row in got["tenants"]], ["me"])
            self.assertEqual(got["tenants"][0]["received"], 0)
        with daemon.peer() as peer:
            got = peer.call("stats")
            self.assertEqual([row["tenant"] for row in got["tenants"]],
                             ["me", "somebody", "operator"])
            page = peer.call("stats", first=1, count=1)
            self.assertEqual([row["tenant"] for row in page["tenants"]], ["somebody"])
            self.assertEqual((page["tenant_count"], page["index_count"], page["device_count"]),
                             (3, 2, 1))
            self.assertEqual((page["indexes"], page["devices"]), (got["indexes"][1:], []))
            for got in (got["tenants"][1], next(i for i in got["indexes"] if i["index"] == "r"),
                        got["devices"][0]):
                self.assertEqual((got["received"], got["ok"], got["seeds"]), (1, 1, 10))
                self.assertEqual(sum(got["latency"]), 1)
                self.assertGreater(got["device_ns"], 0)
                self.assertGreaterEqual(got["records"], 9)
                self.assertEqual(got["bytes_out"], 8 * got["records"])
        daemon.stop()


if __name__ == "__main__":
    hspz_test.main()
