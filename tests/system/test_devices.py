"""One daemon with many devices, which the CPU engine plays (--simulate-devices). Whatever the devices
do, each job's answer is the one that follows from the contract, every part there once and in its place."""

import contextlib
import random

import hspz_test
from hspz_test import SHAPE_12OF19, bases, poll

CAP = 60  # hits of a chunk, and so of a part


def parts_of(parts):
    return [{k: v for k, v in part.items() if k != "job"} for part in parts]


class DevicesTest(hspz_test.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        rng = random.Random(7)
        cls.ref = [("r", bases(rng, 6000))]
        cls.query = cls.ref[0][1][1000:4000] + bases(rng, 500)
        cls.want = hspz_test.discover(cls.ref, [("q", cls.query)], transitions=False)
        buckets = hspz_test.buckets_of(hspz_test.block_of(cls.ref), SHAPE_12OF19)
        cls.chunks = []
        for strand, block in (("plus", cls.query), ("minus", hspz_test.reverse_complement(cls.query))):
            seeds = hspz_test.seeds_of(block, SHAPE_12OF19)
            counts = [len(buckets.get(word, ())) for word, _ in seeds]
            cls.chunks += [(strand, i, chunk[2], chunk[3])
                           for i, chunk in enumerate(hspz_test.cut(counts, CAP))]

    def start(self, devices, *args, **more):
        return self.daemon("--simulate-devices", devices, *args,
                           indexes={"ref": self.index(self.ref)}, **more)

    def ask(self, peer, **more):
        return peer.request("discover", {
            "index": "ref", "query": {"bases": self.query.encode()}, "transitions": False,
            "max_hits": CAP, **more})

    def check(self, peer, number):
        result, data, parts = peer.anchors(number)
        self.assert_same_anchors(data, self.want)
        self.assertEqual([(p["strand"], p["chunk"], p["hit_begin"], p["hit_end"]) for p in parts],
                         self.chunks)
        self.assertTrue(all(p["part"] == 0 and p["last_part"] for p in parts))
        self.assertEqual(result["anchors"], len(self.want) // 8)
        self.assertEqual(result["chunks"], len(self.chunks))
        return result["digest"]

    def peers(self, daemon, count, stack):
        return [stack.enter_context(daemon.peer()) for _ in range(count)]

    def run_jobs(self, daemon, count, each=1, **more):
        """So many connections with a number of jobs each, all at once; their digest."""
        with contextlib.ExitStack() as stack:
            jobs = [(peer, self.ask(peer, **more))
                    for peer in self.peers(daemon, count, stack) for _ in range(each)]
            digests = {self.check(peer, number) for peer, number in jobs}
        self.assertEqual(len(digests), 1)
        return digests.pop()

    def devices(self, daemon):
        """Of `stats`, all pages."""
        with daemon.peer() as peer:
            found = []
            while True:
                page = peer.call("stats", {"first": len(found)})
                found += page["devices"]
                if len(found) == page["device_count"]:
                    return found

    def one_device(self):
        daemon = self.daemon(indexes={"ref": self.index(self.ref)})
        digest = self.run_jobs(daemon, 1)
        daemon.stop(expect=0)
        return digest

    def test_eight_and_sixty_four_devices_answer_as_one_does(self):
        digest = self.one_device()
        for count in (8, 64):
            daemon = self.start("%dx2000" % count)
            with daemon.peer() as peer:
                self.assertEqual(len(peer.welcome["devices"]), count)
            self.assertEqual(self.run_jobs(daemon, count), digest)
            devices = self.devices(daemon)
            self.assertEqual([d["device"] for d in devices], list(range(count)))
            parts = [d["parts"] for d in devices]
            self.assertGreater(sum(p > 0 for p in parts), count * 3 // 4, parts)
            self.assertEqual(sum(parts), count * len(self.chunks))
            self.assertEqual(sum(d["ok"] for d in devices), count)
            daemon.stop(expect=0)

    def test_uneven_devices_make_parts_by_their_speed(self):
        digest = self.one_device()
        # Long beside what a turn waits for a processor.
        daemon = self.start("6x15000,2x60000")
        self.assertEqual(self.run_jobs(daemon, 24, each=2), digest)
        devices = self.devices(daemon)
        parts = [d["parts"] for d in devices]
        self.assertEqual(sum(parts), 48 * len(self.chunks))
        # A quarter is what their speed asks for.
        fast, slow = sum(parts[:6]) / 6, sum(parts[6:]) / 2
        self.assertLess(slow, fast / 2, parts)
        self.assertGreater(slow, fast / 10, parts)
        self.assertTrue(poll(lambda: not any(d["turns"] + d["queued"] for d in self.devices(daemon))))
        daemon.stop(expect=0)

    def test_what_a_device_had_that_fails_is_done_again(self):
        digest = self.one_device()
        for good, bad in ((5, (0, 7, 30)), (56, (0, 1, 2, 3, 4, 5, 6, 20))):
            daemon = self.start("%dx2000," % good + ",".join("2000:fails=%d" % n for n in bad))
            self.assertEqual(self.run_jobs(daemon, 2 * (good + len(bad))), digest)
            devices = self.devices(daemon)
            self.assertEqual([d["state"] for d in devices],
                             ["ready"] * good + ["lost"] * len(bad))
            if good == 5:  # top shows 32 of them
                shown = daemon.client("top", "--once", check=0).stdout
                self.assertEqual(shown.count("\nlost: "), 3, shown)
                self.assertIn("\nlost: 5 sim", shown)
            self.assertEqual([d["parts"] for d in devices[good:]], list(bad))
            self.assertEqual(sum(d["parts"] for d in devices),
                             2 * (good + len(bad)) * len(self.chunks))
            self.assertTrue(all(d["redone"] > 0 for d in devices[good:]))
            self.assertEqual({d["redone"] for d in devices[:good]}, {0})
            with daemon.peer() as peer:
                health = peer.call("health")
                jobs = peer.call("stats")["jobs"]
            self.assertEqual((health["state"], health["devices"], health["devices_ready"]),
                             ("ready", good + len(bad), good))
            self.assertEqual((jobs["ok"], jobs["failed"]), (2 * (good + len(bad)), 0))
            self.assertEqual(daemon.log().count("device lost, others go on"), len(bad))
            daemon.stop(expect=0)

    def test_hsps_and_long_parts_come_once(self):
        """What a lost device had found is found again, and what was sent of it left out."""
        rng = random.Random(3)
        unit = bases(rng, 60)
        repeats = "".join(unit + bases(rng, rng.randrange(9, 60)) for _ in range(140))
        index = self.index([("r", repeats)], name="repeats")
        extras = ({"output": "hsps"}, {"encoding": "columnar"},
                  {"output": "hsps", "hsps": {"scope": "chunk"}},
                  {"transitions": True, "max_hits": 100000})
        for extra in extras[:2] if hspz_test.SANITIZED else extras:
            params = {"index": "repeats", "query": {"bases": repeats.encode()}, "max_hits": 30000,
                      **extra}
            answers = []
            for devices in ((), ("--simulate-devices",
                                 "3x500,500:fails=0,500:fails=1,500:fails=2,500:fails=9")):
                daemon = self.daemon(*devices, "--part-bytes", "65536", indexes={"repeats": index})
                with contextlib.ExitStack() as stack:
                    jobs = [(peer, self.ask(peer, **params))
                            for peer in self.peers(daemon, 6, stack)]
                    answers += [peer.anchors(number) for peer, number in jobs]
                daemon.stop(expect=0)
            wanted = answers[0]
            self.assertGreater(len(wanted[2]), 3)
            for result, data, parts in answers:
                self.assertEqual(data, wanted[1])
                self.assertEqual(parts_of(parts), parts_of(wanted[2]))
                self.assertEqual(result["digest"], wanted[0]["digest"])
                self.assertEqual(result["strands"], wanted[0]["strands"])

    def test_when_all_have_failed_jobs_are_told_and_the_daemon_ends(self):
        daemon = self.start("4x1000:fails=20")
        with contextlib.ExitStack() as stack:
            jobs = [(peer, self.ask(peer)) for peer in self.peers(daemon, 6, stack)]
            for peer, number in jobs:
                error, _ = peer.response(number)
                self.assertIn(error["code"], ("device_error", "shutting_down"))
            self.assertEqual(daemon.process.wait(10 * hspz_test.SLOWER), 75, daemon.log())
        self.assertEqual(daemon.log().count("device lost, others go on"), 3)
        self.assertEqual(daemon.log().count("device lost, ending"), 1)

    # More than a step lasts of a device that only waits for a processor, less than one that hangs.
    TIMEOUT_MS = 2000 if hspz_test.SANITIZED else 600
    TIMEOUT = ("--device-timeout-ms", TIMEOUT_MS)

    def states(self, daemon):
        return [d["state"] for d in self.devices(daemon)]

    def test_what_a_device_had_that_hangs_is_done_again(self):
        digest = self.one_device()
        for good, bad in ((5, (0, 7, 30)), (58, (0, 1, 2, 3, 4, 5))):
            jobs = 3 * (good + len(bad))
            daemon = self.start("%dx2000," % good + ",".join("2000:hangs=%d" % n for n in bad),
                                *self.TIMEOUT)
            self.assertEqual(self.run_jobs(daemon, jobs), digest)
            devices = self.devices(daemon)
            self.assertEqual([d["state"] for d in devices],
                             ["ready"] * good + ["stuck"] * len(bad))
            self.assertEqual([d["parts"] for d in devices[good:]], list(bad))
            self.assertEqual([d["redone"] for d in devices], [0] * good + [1] * len(bad))
            self.assertEqual(sum(d["parts"] for d in devices), jobs * len(self.chunks))
            with daemon.peer() as peer:
                self.assertEqual(peer.call("health")["devices_ready"], good)
            # They never come back, and the daemon ends all the same.
            daemon.stop(expect=0, seconds=10)

    def test_a_device_that_comes_back_is_used_again(self):
        """What it made meanwhile, into memory that nobody else was given, is thrown away."""
        digest = self.one_device()
        daemon = self.start("2000:hangs=3:for=%d,3x2000" % (8 * self.TIMEOUT_MS), *self.TIMEOUT)
        query = self.file("q.fa", hspz_test.fasta([("q", self.query)]))
        self.assertEqual(self.run_jobs(daemon, 12), digest)
        self.assertEqual(self.states(daemon), ["stuck"] + ["ready"] * 3)
        done = daemon.client("discover", "ref", query, "--no-transitions", "--format", "packed",
                             "--transport", "shm", "--max-hits", CAP, check=0, text=False)
        self.assert_same_anchors(done.stdout, self.want)
        self.assertTrue(poll(lambda: self.states(daemon) == ["ready"] * 4, 20))
        parts = self.devices(daemon)[0]["parts"]
        self.assertEqual(parts, 3)
        self.assertEqual(self.run_jobs(daemon, 12), digest)
        self.assertGreater(self.devices(daemon)[0]["parts"], parts)
        self.assertEqual(daemon.log().count("device answers again"), 1)
        daemon.stop(expect=0)

    def test_a_hang_in_shared_memory_leaves_the_others_places(self):
        daemon = self.start("2000:hangs=3:for=%d,2000" % (5 * self.TIMEOUT_MS), *self.TIMEOUT)
        query = self.file("q.fa", hspz_test.fasta([("q", self.query)]))
        args = ("discover", "ref", query, "--no-transitions", "--format", "packed", "--transport",
                "shm", "--max-hits", CAP)
        for _ in range(3):
            done = daemon.client(*args, check=0, text=False)
            self.assert_same_anchors(done.stdout, self.want)
        self.assertEqual(self.devices(daemon)[0]["redone"], 1)
        # The memory that the step may write into was the first client's, who has gone long since.
        self.assertTrue(poll(lambda: self.states(daemon) == ["ready"] * 2, 20))
        with daemon.peer() as peer:
            self.assertTrue(poll(lambda: peer.call("stats")["connections"]["open"] == 1))
        daemon.stop(expect=0)

    def test_who_cancels_or_leaves_meanwhile_is_let_go(self):
        daemon = self.start("2x2000:hangs=0:for=%d,2000" % (5 * self.TIMEOUT_MS), *self.TIMEOUT)
        with daemon.peer() as peer, daemon.peer() as watch:
            gone = daemon.peer()
            number = self.ask(peer)
            self.ask(gone)
            self.assertTrue(poll(lambda: watch.call("stats")["jobs"]["running"] == 2))
            gone.close()
            peer.call("cancel", job=number)
            self.assert_code(peer.response(number)[0], "cancelled")
            self.assertTrue(poll(lambda: watch.call("health")["jobs"] == 0))
            self.check(peer, self.ask(peer))
            self.assertTrue(poll(lambda: self.states(daemon) == ["ready"] * 3, 20))
            self.assertTrue(poll(lambda: watch.call("stats")["connections"]["open"] == 2))
            self.check(peer, self.ask(peer))
            jobs = watch.call("stats")["jobs"]
            self.assertEqual((jobs["received"], jobs["ok"], jobs["cancelled"]), (4, 2, 2))

            def used():
                memory = watch.call("stats")["memory"]
                return memory["scratch_bytes"], memory["ingest_bytes"], memory["parts_bytes"]
            poll(lambda: used() == (0, 0, 0))  # a part is given back once it is sent
            self.assertEqual(used(), (0, 0, 0))
        daemon.stop(expect=0)

    def test_when_none_answers_jobs_are_told_and_the_daemon_ends(self):
        daemon = self.start("3x1000:hangs=9", *self.TIMEOUT)
        with contextlib.ExitStack() as stack:
            jobs = [(peer, self.ask(peer)) for peer in self.peers(daemon, 6, stack)]
            for peer, number in jobs:
                error, _ = peer.response(number)
                self.assertIn(error["code"], ("device_error", "shutting_down"))
            self.assertEqual(daemon.process.wait(20 * hspz_test.SLOWER), 75, daemon.log())
        self.assertIn("the last one, does not answer", daemon.log())

    BLOCKS = 7

    def blocks(self, name="blocks"):
        """An index of so many blocks, and a query that has hits in each."""
        rng = random.Random(name)
        sequences = [("s%d" % i, bases(rng, 900)) for i in range(self.BLOCKS)]
        query = "".join(s[200:500] for _, s in sequences[::-1])
        return self.index(sequences, "--block-size", "800", "--seed", "1110110010110101",
                          name=name), query

    def answers(self, daemon, index, query, count):
        """Of so many jobs of each kind at once, which must be alike: by kind data, parts and digest."""
        kinds = ({"transitions": False, "max_hits": 40}, {"transitions": True, "max_hits": 10000},
                 {"output": "hsps", "max_hits": 300}, {"output": "hsps", "hsps": {"scope": "chunk"},
                                                       "max_hits": 300})
        got = []
        for kind in kinds:
            with contextlib.ExitStack() as stack:
                jobs = [(peer, self.ask(peer, index=index, query={"bases": query.encode()}, **kind))
                        for peer in self.peers(daemon, count, stack)]
                same = [(data, parts_of(parts), result["digest"], result["strands"])
                        for result, data, parts in (peer.anchors(n) for peer, n in jobs)]
            for one in same:
                self.assertEqual(one, same[0])
            self.assertEqual({p["ref_block"] for p in same[0][1]}, set(range(self.BLOCKS)))
            got.append(same[0])
        return got

    def test_each_placement_of_an_index_gives_the_same(self):
        index, query = self.blocks()
        daemon = self.daemon(indexes={"blocks": index})
        want = self.answers(daemon, "blocks", query, 1)
        daemon.stop(expect=0)
        for placement, busy in (("replicate", range(4, 9)), ("split", range(1, 2)),
                                ("blocks", range(7, 8))):
            daemon = self.daemon("--simulate-devices", "8x100", "--placement", placement,
                                 indexes={"blocks": index})
            self.assertEqual(self.answers(daemon, "blocks", query, 5), want)
            parts = [d["parts"] for d in self.devices(daemon)]
            self.assertIn(sum(p > 0 for p in parts), busy, (placement, parts))
            daemon.stop(expect=0)

    def test_blocks_that_only_a_lost_device_held_are_told(self):
        index, query = self.blocks()
        daemon = self.daemon("--simulate-devices", "2x100,100:fails=3,5x100", "--placement",
                             "blocks", indexes={"blocks": index})
        with daemon.peer() as peer:
            error = peer.error("discover", {"index": "blocks", "query": {"bases": query.encode()},
                                            "max_hits": 40})
            self.assert_code(error, "device_error")
            self.assertEqual(peer.call("health")["state"], "ready")
            # Loaded again it is on those that work.
            peer.call("index.unload", index="blocks")
            peer.call("index.load", index="blocks", file=index)
            self.assertEqual(len(self.answers(daemon, "blocks", query, 3)), 4)
        daemon.stop(expect=0)

    def test_jobs_at_rest_on_a_device_that_hangs_for_ever_are_told(self):
        """Those that have begun wait behind the step that hangs, and only its device has their block."""
        index, query = self.blocks()
        for lanes in 1, 3:
            daemon = self.daemon("--simulate-devices", "2000:hangs=12,2000", "--placement", "blocks",
                                 "--lanes", lanes, *self.TIMEOUT, indexes={"blocks": index})
            with contextlib.ExitStack() as stack:
                jobs = [(peer, self.ask(peer, index="blocks", query={"bases": query.encode()}, max_hits=40))
                        for peer in self.peers(daemon, 6, stack)]
                for peer, number in jobs:
                    self.assert_code(peer.response(number)[0], "device_error")
            jobs = daemon.jobs()
            self.assertEqual((jobs["in_flight"], jobs["failed"]), (0, 6))
            self.assertEqual(self.states(daemon), ["stuck", "ready"])
            daemon.stop(expect=0)

    def test_groups_say_which_devices_hold_which_index(self):
        (one, query), (two, other) = self.blocks("one"), self.blocks("two")
        ref = self.index(self.ref)
        indexes = {"one": one, "two": two, "ref": ref}
        daemon = self.daemon(indexes=indexes)
        want = [self.answers(daemon, "one", query, 1), self.answers(daemon, "two", other, 1)]
        daemon.stop(expect=0)
        groups = [{"devices": [1, 2], "indexes": ["one"]},
                  {"devices": [4, 5, 6], "indexes": ["none", "two"], "placement": "blocks"}]
        daemon = self.daemon("--simulate-devices", "1000,2x1000:fails=900,5x1000", indexes=indexes,
                             config={"groups": groups})
        self.assertEqual(self.answers(daemon, "one", query, 2), want[0])
        used = [d["device"] for d in self.devices(daemon) if d["parts"] > 0]
        self.assertLessEqual(set(used), {1, 2})
        self.assertEqual(self.answers(daemon, "two", other, 2), want[1])
        used = {d["device"] for d in self.devices(daemon) if d["parts"] > 0} - {1, 2}
        self.assertEqual(used, {4, 5, 6})
        self.run_jobs(daemon, 16)
        self.assertGreater(sum(d["parts"] > 0 for d in self.devices(daemon)), 6)
        # Once the devices of a group are lost its indexes are, and no others.
        with daemon.peer() as peer:
            def lost():
                number = self.ask(peer, index="one", query={"bases": query.encode()}, max_hits=40)
                error, _ = peer.response(number)
                return error
            self.assert_code(poll(lost, 30), "device_error")
            self.assertEqual(self.states(daemon)[:4], ["ready", "lost", "lost", "ready"])
            self.assertEqual(self.answers(daemon, "two", other, 1), want[1])
            self.check(peer, self.ask(peer))
        daemon.stop(expect=0)
        groups[1]["devices"].append(8)
        daemon = self.daemon("--simulate-devices", "8x0", config={"groups": groups}, wait=False)
        self.assertEqual(daemon.process.wait(30 * hspz_test.SLOWER), 1, daemon.log())
        self.assertIn('the one of index \\"none\\" has device 8, and there are 8', daemon.log())

    def test_a_wrong_group_is_told_at_a_reload_and_changes_nothing(self):
        index = self.index(self.ref)
        four = '"simulate_devices": "4x10000"'  # so that a job is not done before the next one comes
        daemon = self.daemon(indexes={"ref": index}, config='{"max_jobs": 5, %s}' % four)
        file = daemon.command[daemon.command.index("--config") + 1]
        wrong = ('{"max_jobs": 0, ' + four + ',\n "groups": [\n  {"devices": [0, 3], "indexes": ["a"]},\n'
                 '  {"devices": [1, 4],\n   "indexes": ["b"]}]}',
                 '{"max_jobs": 0, ' + four + ',\n "groups": [\n  {"devices": [0], "indexes": ["a"]},\n'
                 '  {"devices": [1], "indexes": ["a"]}]}')
        for text, says in zip(wrong, (r'line 4: groups: the one of index \"b\" has device 4, and there are 4, from 0',
                                      r'line 4: groups: indexes: index \"a\" is named twice')):
            hspz_test.write(file, text)
            said = daemon.reload()
            self.assertIn('error not reloaded why="%s: %s' % (file, says), said)
            self.assertNotIn("takes effect", said)
            self.run_jobs(daemon, 2, each=3)  # more than 0 may wait
        hspz_test.write(file, wrong[0].replace("4]", "3]"))
        said = daemon.reload()
        self.assertIn("info reloaded", said)
        self.assertIn("takes effect at the next start only key=groups", said)
        with daemon.peer() as peer:
            first, second = self.ask(peer), self.ask(peer)
            answers = {}
            while len(answers) < 2:
                message = peer.receive()
                if message[0] == 1:
                    answers[message[1]] = message[2]
            self.assertIsNone(answers[first])
            self.assert_code(answers[second], "queue_full")
        # Which devices the next start finds is not known now.
        hspz_test.write(file, wrong[0].replace("4x10000", "5x0"))
        said = daemon.reload()
        self.assertIn("info reloaded", said)
        self.assertIn("key=simulate_devices", said)
        daemon.stop(expect=0)

    def test_a_list_that_is_none_is_refused_with_its_entry(self):
        daemon = self.daemon("--simulate-devices", "4x100,oops", wait=False)
        self.assertEqual(daemon.process.wait(30 * hspz_test.SLOWER), 2, daemon.log())
        self.assertIn('simulate_devices: "oops"', daemon.log())

    def test_devices_of_no_use_are_told(self):
        if hspz_test.ENGINE != "cpu":
            self.skipTest("there may be a card")
        ref = self.index(self.ref)
        for more, says in ((("--engine", "cpu"), "devices: only the cuda engine has such, not cpu"),
                           (("--simulate-devices", "2x0"), "devices: simulate_devices stands for them")):
            daemon = self.daemon("--devices", "0", *more, indexes={"ref": ref}, wait=False)
            self.assertEqual(daemon.process.wait(30 * hspz_test.SLOWER), 2, daemon.log())
            self.assertIn(says, daemon.log())
        # No card hides behind that.
        daemon = self.daemon("--devices", "0", "--engine", "auto", indexes={"ref": ref},
                             env=hspz_test.child_env(CUDA_VISIBLE_DEVICES=""))
        self.assertRegex(daemon.log(), "warning .*no cuda device, taking cpu without those of `devices`.* why=")
        daemon.stop(expect=0)

    def test_hangs_that_hold_all_shared_memory_leave_the_stream(self):
        query = self.file("q.fa", hspz_test.fasta([("q", self.query)]))
        for parts in 1, 4:
            daemon = self.start("%dx2000:hangs=0,2000" % (parts + 1), "--device-timeout-ms", "200",
                                "--parts-per-connection", str(parts))
            # Each of the devices that hang is asked once, with a part in the ring while there is room.
            done = daemon.client("discover", "ref", query, "--no-transitions", "--format", "packed",
                                 "--transport", "shm", "--max-hits", CAP, check=0, text=False)
            self.assert_same_anchors(done.stdout, self.want)
            self.assertEqual(self.states(daemon), ["stuck"] * (parts + 1) + ["ready"])
            daemon.stop(expect=0)

    def test_a_hang_does_not_keep_a_daemon_that_stops(self):
        for devices in "2000:hangs=0", "2x2000:hangs=0":
            daemon = self.start(devices, "--device-timeout-ms", "4000", "--drain-timeout-ms", "100")
            with daemon.peer() as peer:
                number = self.ask(peer)
                self.assertTrue(poll(lambda: peer.call("health")["jobs"] == 1))
                daemon.process.terminate()
                self.assertEqual(daemon.process.wait(60), 0, daemon.log())
                self.assertRaises(hspz_test.RpcError, self.check, peer, number)
            self.assertIn("the time to drain is over", daemon.log())
            self.assertIn("work does not come back, ending without it", daemon.log())


if __name__ == "__main__":
    hspz_test.main()
