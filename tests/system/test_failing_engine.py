"""An engine that fails in the middle of a job: whose job ends, what it is told, and that nobody else
notices. The daemon is the real one, linked with an engine that fails on purpose."""

import os
import random
import time

import hspz_test
from hspz_test import SHAPE_12OF19, SLOWER, Peer, RpcError, bases, child_env

CAP = 1003
FAILING = os.path.join(hspz_test.BUILD, "tests", "system", "failing_hspzd")


class FailingEngineTest(hspz_test.TestCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(setattr, hspz_test, "HSPZD", hspz_test.HSPZD)
        hspz_test.HSPZD = FAILING
        rng = random.Random(25)
        self.ref = [("r", bases(rng, 6000))]
        # Five chunks of at most CAP hits, on the plus strand alone.
        self.query = self.ref[0][1][:5 * (CAP - 3)]
        self.want = hspz_test.discover(self.ref, [("q", self.query)], transitions=False,
                                       strand="plus")
        buckets = hspz_test.buckets_of(self.ref[0][1], SHAPE_12OF19)
        counts = [len(buckets.get(word, ())) for word, _ in
                  hspz_test.seeds_of(self.query, SHAPE_12OF19)]
        self.chunks = hspz_test.cut(counts, CAP)
        self.assertEqual(len(self.chunks), 5)

    def start(self, status, chunk, *args):
        return self.daemon(*args, indexes={"ref": self.index(self.ref)}, threads=2, env=child_env(
            HSPZ_FAIL_CAP=str(CAP), HSPZ_FAIL_CHUNK=str(chunk), HSPZ_FAIL_STATUS=status,
            HSPZ_HANG_CAP=str(CAP + 7)))

    def params(self, cap):
        return {"index": "ref", "query": {"bases": self.query.encode()}, "strand": "plus",
                "transitions": False, "max_hits": cap}

    def failed_job(self, peer):
        """(error, anchors, part maps) of a job that must fail."""
        peer.notices = []
        number = peer.request("discover", self.params(CAP))
        error, result = peer.response(number)
        self.assertIsNone(result)
        parts = [n[2] for n in peer.notices]
        self.assertTrue(all(p[0]["job"] == number for p in parts))
        return error, b"".join(p[1] for p in parts), [p[0] for p in parts]

    def assert_serves(self, peer):
        result, data, _ = peer.discover("ref", **{k: v for k, v in self.params(CAP + 1).items()
                                                  if k != "index"})
        self.assert_same_anchors(data, self.want)
        self.assertEqual(result["anchors"], len(self.want) // 8)

    def test_a_job_that_fails_at_its_third_chunk_ends_after_the_second(self):
        for status in ("out_of_memory", "internal"):
            daemon = self.start(status, 2)
            with daemon.peer() as peer, daemon.peer() as other:
                waiting = other.request("discover", self.params(CAP + 1))
                error, data, parts = self.failed_job(peer)
                self.assert_code(error, status, "an unspecified launch failure")
                self.assertEqual(data, self.want[:8 * self.chunks[1][3]])
                self.assertEqual([(p["chunk"], p["hit_end"]) for p in parts if p["last_part"]],
                                 [(0, self.chunks[0][3]), (1, self.chunks[1][3])])
                self.assertEqual(other.anchors(waiting)[1], self.want)
                # The same connection, and others, go on.
                self.assert_serves(peer)
                self.assert_serves(other)
                self.assertEqual(peer.call("health")["state"], "ready")
                jobs = peer.call("stats")["jobs"]
                self.assertEqual((jobs["received"], jobs["ok"], jobs["failed"]), (4, 3, 1))
            daemon.stop(expect=0)

    def test_a_job_that_fails_at_its_first_chunk_sends_nothing(self):
        daemon = self.start("internal", 0)
        with daemon.peer() as peer:
            error, data, _ = self.failed_job(peer)
            self.assert_code(error, "internal")
            self.assertEqual(data, b"")
            self.assert_serves(peer)
        daemon.stop(expect=0)

    def test_the_client_says_what_came_and_leaves_no_file(self):
        daemon = self.start("internal", 2)
        query = self.file("q.fa", hspz_test.fasta([("q", self.query)]))
        out = self.path("out.u64")
        args = ("discover", "ref", query, "--strand", "plus", "--no-transitions", "--format",
                "packed", "--max-hits", CAP)
        done = daemon.client(*args, "-o", out, check=1)
        self.assertIn("an unspecified launch failure", done.stderr)
        self.assertIn("%d anchors" % self.chunks[1][3], done.stderr)
        self.assertEqual([n for n in os.listdir(self.folder) if "out.u64" in n], [])
        done = daemon.client(*args, check=1, text=False)
        self.assertEqual(done.stdout, self.want[:8 * self.chunks[1][3]])
        daemon.stop(expect=0)

    def test_a_lost_device_ends_its_jobs_and_the_process(self):
        daemon = self.start("device_error", 2)
        with daemon.peer() as peer, daemon.peer() as other:
            self.assert_code(self.failed_job(peer)[0], "device_error",
                             "an unspecified launch failure")
            begin = time.monotonic()
            try:
                self.assertNotEqual(other.call("health")["state"], "ready")
            except (OSError, EOFError, RpcError):
                pass  # gone already, or just going
            status = daemon.process.wait(5 * SLOWER)
            self.assertEqual(status, 75, daemon.log())
            self.assertLess(time.monotonic() - begin, 5 * SLOWER)
        self.assertIn("an unspecified launch failure", daemon.log())
        self.assertRaises(OSError, Peer, daemon.path)

    def test_a_lost_device_that_hangs_does_not_keep_the_process(self):
        daemon = self.start("device_error", 0, "--lanes", "2")
        with daemon.peer() as peer, daemon.peer() as hanging, daemon.peer() as watch:
            jobs = [hanging.request("discover", self.params(cap)) for cap in (CAP + 7, CAP + 8)]
            self.assertTrue(hspz_test.poll(
                lambda: watch.call("stats")["jobs"]["running"] >= 1))
            begin = time.monotonic()
            self.assert_code(self.failed_job(peer)[0], "device_error")
            health = watch.call("health")
            self.assertEqual(health["state"], "failed")
            # What waited, and what was asked for since, is refused; what hangs is told at the end.
            self.assert_code(watch.error("discover", self.params(CAP + 1)), "shutting_down")
            self.assert_code(hanging.response(jobs[1])[0], "device_error")
            self.assert_code(hanging.response(jobs[0])[0], "device_error")
            self.assertEqual(daemon.process.wait(10 * SLOWER), 75, daemon.log())
            self.assertLess(time.monotonic() - begin, 5 * SLOWER)
        self.assertFalse(os.path.exists(daemon.path))

    def test_a_device_lost_while_nobody_works_is_noticed(self):
        """Its check fails, or does not come back."""
        for check, words in (("fail", "an unspecified launch failure"),
                             ("hang", "device 0 does not answer")):
            daemon = self.daemon("--lanes", "2", env=child_env(HSPZ_CHECK=check))
            with daemon.peer() as peer:
                self.assertEqual(peer.call("health")["state"], "ready")
                self.assertEqual(daemon.process.wait(40 * SLOWER), 75, daemon.log())
            self.assertIn(words, daemon.log())
            self.assertEqual(daemon.log().count("device lost"), 1)


if __name__ == "__main__":
    hspz_test.main()
