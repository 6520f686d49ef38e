"""A node that several people share: who may do what, what is told when it ends."""

import contextlib
import json
import os
import random
import re
import signal
import threading

import hspz_test
from hspz_test import Peer, bases


class RoleTest(hspz_test.TestCase):
    def setUp(self):
        super().setUp()
        self.text = bases(random.Random(3), 2000)
        self.good = self.index([("r", self.text)])
        os.mkdir(self.path("indexes"))
        self.named = self.index([("n", self.text)], name="indexes/named")
        self.node = self.daemon("--listen", "127.0.0.1:0", "--index-dir", self.path("indexes"),
                                "--data-dir", self.folder, indexes={"ref": self.good})
        port = int(re.search(r"tcp:127\.0\.0\.1:(\d+)", self.node.log()).group(1))
        self.peer = Peer(("127.0.0.1", port))
        self.addCleanup(self.peer.close)

    def test_a_tcp_peer_is_a_user_and_a_unix_peer_an_operator(self):
        self.assertEqual(self.peer.welcome["role"], "user")
        with self.node.peer() as peer:
            self.assertEqual(peer.welcome["role"], "operator")

    def test_a_user_may_not_touch_what_is_everybodys(self):
        outside = self.path("pwn.hspz")
        for method, params in (
                ("index.load", {"index": "x", "file": self.good}),
                ("index.load", {"index": "x", "file": "named.hspz"}),
                ("index.unload", {"index": "ref"}),
                ("index.unload", {"index": "nothing"}),
                ("index.build", {"index": "x", "source": self.path("ref.fa"), "file": outside}),
                ("index.build", {"index": "x", "source": "ref.fa", "file": "named.hspz"})):
            with self.subTest(method=method, params=params):
                self.assert_code(self.peer.error(method, params), "forbidden", "operators")
        self.assertFalse(os.path.exists(outside))
        names = [row["index"] for row in self.peer.call("index.list")["indexes"]]
        self.assertEqual(names, ["ref"])

    def test_a_user_may_discover_in_what_is_served_and_what_is_loaded_on_demand(self):
        for name in ("ref", "named"):
            result, data, _ = self.peer.discover(name, query={"bases": self.text[:500].encode()})
            self.assertGreater(result["anchors"], 400)
            self.assertEqual(result["anchors"] * 8, len(data))

    def test_an_operator_may_all_of_it(self):
        with self.node.peer() as peer:
            peer.call("index.build", index="b", source="ref.fa", file="b.hspz")
            peer.call("index.load", index="a", file=self.good)
            for name in ("a", "b", "ref"):
                peer.call("index.unload", index=name)
            self.assertEqual(peer.call("index.list")["indexes"], [])


class NameTest(hspz_test.TestCase):
    def test_what_to_do_without_a_folder_is_said(self):
        daemon = self.daemon()
        with daemon.peer() as peer:
            error = peer.error("index.load", index="x", file="x.hspz")
            self.assert_code(error, "forbidden", "absolute path", "--index-dir")
            for name in ("a/b", "a=b"):
                self.assert_code(peer.error("index.build", index=name, source="/x", file="/y"),
                                 "bad_request", name)
        daemon.stop()


class SampleTest(hspz_test.TestCase):
    def test_the_sample_configuration_is_one(self):
        with open(os.path.join(hspz_test.SOURCE, "systemd", "hspzd.json"),
                  encoding="utf-8") as file:
            config = json.load(file)
        config["index_dir"] = self.folder
        self.daemon(config=config).stop(expect=0)


class ShareTest(hspz_test.TestCase):
    """Indexes that share a memory too small for all of them."""

    SHAPE = "11111111111"

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("indexes"))
        rng = random.Random(8)
        self.text = {name: bases(rng, 4000) for name in "abc"}
        self.files = {name: self.index([(name, text)], "--seed", self.SHAPE,
                                       name="indexes/" + name)
                      for name, text in self.text.items()}
        self.want = {name: hspz_test.discover([(name, text)], [("q", text[:900])],
                                              shape=self.SHAPE, strand="plus", transitions=False)
                     for name, text in self.text.items()}
        with self.start() as (_, peer):
            self.bytes = peer.call("index.describe", index="a")["bytes"]

    @contextlib.contextmanager
    def start(self, *args, **more):
        daemon = self.daemon("--index-dir", self.path("indexes"), *args, **more)
        with daemon.peer() as peer:
            yield daemon, peer
        daemon.stop(expect=0)

    def room_for_two(self):
        return ("--memory", str(self.bytes * 5 // 2))

    def ask(self, peer, name):
        _, data, _ = peer.discover(name, query={"bases": self.text[name][:900].encode()},
                                   strand="plus", transitions=False)
        self.assert_same_anchors(data, self.want[name])

    def states(self, peer):
        return {row["index"]: row["state"] for row in peer.call("index.list")["indexes"]}

    def test_the_least_recently_used_goes_and_comes_back(self):
        with self.start(*self.room_for_two()) as (_, peer):
            for name, gone in (("a", ""), ("b", ""), ("c", "a"), ("b", "a"), ("a", "c"),
                               ("a", "c"), ("c", "b")):
                self.ask(peer, name)
                states = self.states(peer)
                self.assertEqual([n for n in states if states[n] != "ready"], list(gone), states)
                memory = peer.call("stats")["memory"]
                self.assertLessEqual(memory["index_bytes"], memory["index_budget"])
                self.assertEqual(memory["index_bytes"],
                                 self.bytes * sum(s == "ready" for s in states.values()))

    def test_an_index_of_the_start_stays(self):
        with self.start(*self.room_for_two(), indexes={"a": self.files["a"]}) as (_, peer):
            for name in "bcbcabc":
                self.ask(peer, name)
                self.assertEqual(self.states(peer)["a"], "ready")

    def test_what_does_not_fit_is_refused_and_drops_nobody(self):
        big = self.index([("r", bases(random.Random(1), 100))], name="indexes/big")  # 67 MB
        with self.start(*self.room_for_two()) as (_, peer):
            self.ask(peer, "a")
            for _ in range(2):
                number = peer.request("discover", index="big", query={"bases": b"ACGT" * 9})
                error, _ = peer.response(number)
                self.assert_code(error, "too_large", "memory")
                self.assert_code(peer.error("index.load", index="x", file=big), "too_large")
                self.assert_code(peer.error("index.describe", index="big"), "too_large")
            self.assertEqual(self.states(peer), {"a": "ready"})
            self.ask(peer, "a")

    def test_a_file_that_changed_meanwhile_is_refused(self):
        with self.start(*self.room_for_two()) as (_, peer):
            for name in "abc":
                self.ask(peer, name)
            self.assertEqual(self.states(peer)["a"], "dropped")
            os.replace(self.files["b"], self.files["a"])
            number = peer.request("discover", index="a", query={"bases": b"ACGT" * 9})
            self.assertIn(peer.response(number)[0]["code"], ("bad_file", "bad_request"))
            peer.call("index.unload", index="a")
            self.ask(peer, "c")

    def test_an_idle_one_is_given_back(self):
        with self.start("--idle-unload-s", "1", indexes={"c": self.files["c"]}) as (_, peer):
            self.ask(peer, "a")
            self.assertTrue(hspz_test.poll(lambda: self.states(peer)["a"] == "dropped"))
            self.assertTrue(hspz_test.poll(
                lambda: peer.call("stats")["memory"]["index_bytes"] == self.bytes))
            self.assertEqual(self.states(peer)["c"], "ready")
            self.ask(peer, "a")

    def test_the_client_needs_no_load(self):
        query = self.file("q.fa", hspz_test.fasta([("q", self.text["b"][:900])]))
        with self.start() as (daemon, peer):
            done = daemon.client("discover", "b", query, "--strand", "plus", "--no-transitions",
                                 "--format", "packed", check=0, text=False)
            self.assert_same_anchors(done.stdout, self.want["b"])
            self.assertEqual(self.states(peer), {"b": "ready"})
            for name in ("nobody", "../indexes/a", ".a", "a.hspz"):
                for method in ("discover", "index.describe"):
                    more = {"seeds": b""} if method == "discover" else {}
                    self.assert_code(peer.error(method, index=name, **more), "unknown_index")
            self.assert_code(peer.error("discover", index="a", seeds=b"", step=2), "bad_request")
            peer.call("index.unload", index="b")

    def test_many_at_once_get_what_they_asked_for(self):
        """More indexes wanted than fit, on several lanes: jobs wait, and are right."""
        faults = []

        def run(daemon, seed):
            rng = random.Random(seed)
            try:
                with daemon.peer() as peer:
                    for _ in range(25):
                        self.ask(peer, rng.choice("abc"))
            except BaseException as fault:  # pylint: disable=broad-except
                faults.append(fault)

        with self.start(*self.room_for_two(), "--lanes", "3") as (daemon, peer):
            threads = [threading.Thread(target=run, args=(daemon, n)) for n in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(faults, [])
            stats = peer.call("stats")
            self.assertEqual(stats["jobs"]["in_flight"], 0)
            self.assertEqual(stats["jobs"]["ok"], 6 * 25)
            self.assertLessEqual(stats["memory"]["index_bytes"], stats["memory"]["index_budget"])

    def test_a_user_gone_while_it_loads_is_forgotten(self):
        with self.start(*self.room_for_two()) as (daemon, peer):
            for _ in range(20):
                with daemon.peer() as other:
                    for name in "abc":
                        other.request("index.describe", index=name)
                        other.request("discover", index=name, seeds=b"")
            self.ask(peer, "a")


class ReloadTest(hspz_test.TestCase):
    def test_sighup_changes_what_may_change_and_drops_no_work(self):
        text = {name: bases(random.Random(n), 2000) for n, name in enumerate("abc")}
        files = {name: self.index([(name, seq)], name=name) for name, seq in text.items()}
        path = self.path("d.json")

        def configure(**config):
            hspz_test.write(path, json.dumps(config))

        def reload(word):
            seen = daemon.log().count(word)
            daemon.process.send_signal(signal.SIGHUP)
            self.assertTrue(hspz_test.poll(lambda: daemon.log().count(word) > seen), daemon.log())

        configure(indexes={"a": files["a"], "b": files["b"]}, max_jobs=3)
        daemon = self.daemon("--config", path)
        with daemon.peer() as peer:
            slow = peer.request("discover", index="a", query={
                "bases": os.urandom(3000000).translate(bytes(b"ACGT"[i & 3] for i in range(256)))})
            hspz_test.poll(lambda: "job queued" in daemon.log())
            configure(indexes={"b": files["b"], "c": files["c"]}, max_jobs=5, part_bytes="64K",
                      log_level="debug")
            reload(" reloaded")
            self.assertIn("key=part_bytes", daemon.log())
            with daemon.peer() as other:
                self.assertEqual(other.welcome["limits"]["max_jobs"], 5)
                self.assertTrue(hspz_test.poll(lambda: [
                    (row["index"], row["state"]) for row in other.call("index.list")["indexes"]
                ] == [("b", "ready"), ("c", "ready")]))
                result, _, _ = other.discover("c", query={"bases": text["c"].encode()})
                self.assertGreater(result["anchors"], 1900)
            self.assertIsNotNone(peer.result(slow))
            hspz_test.write(path, '{\n"max_jobs": "x"}')
            reload("not reloaded")
            self.assertIn("line 2: max_jobs", daemon.log())
            configure(indexes={"b": files["c"], "c": files["c"]})
            reload(" reloaded")
            with daemon.peer() as other:
                self.assertEqual(other.welcome["limits"]["max_jobs"], 64)
                self.assertTrue(hspz_test.poll(
                    lambda: other.call("index.list")["indexes"][0]["file"] == files["c"]))
                result, _, _ = other.discover("b", query={"bases": text["c"].encode()})
                self.assertGreater(result["anchors"], 1900)
        daemon.stop(expect=0)

    def test_a_file_that_is_no_index_does_not_take_the_place_of_one_that_is_served(self):
        text = {name: bases(random.Random(n), 2000) for n, name in enumerate("ab")}
        files = {name: self.index([(name, seq)], name=name) for name, seq in text.items()}
        path = self.path("d.json")
        hspz_test.write(path, json.dumps({"indexes": {"r": files["a"]}}))
        daemon = self.daemon("--config", path)
        with open(files["b"], "rb") as file:
            whole = file.read()
        damaged = self.path("damaged.hspz")
        hspz_test.write(damaged, whole[:-100] + bytes(b ^ 1 for b in whole[-100:]))
        with daemon.peer() as peer:
            for wrong in (self.path("none.hspz"), self.path("a.fa"), self.folder, damaged):
                # Twice: the same mistake once more does no more harm.
                for _ in range(2):
                    hspz_test.write(path, json.dumps({"indexes": {"r": wrong}}))
                    before = len(daemon.log())
                    daemon.reload()
                    self.assertTrue(hspz_test.poll(lambda: re.search(
                        "error .*the old one stays.* index=r .*" + wrong, daemon.log()[before:])))
                    self.assertNotIn("unload", daemon.log()[before:])
                    rows = peer.call("index.list")["indexes"]
                    self.assertEqual([(row["index"], row["state"], row["file"]) for row in rows],
                                     [("r", "ready", files["a"])])
                    result, _, _ = peer.discover("r", query={"bases": text["a"].encode()})
                    self.assertGreater(result["anchors"], 1900)
            hspz_test.write(path, json.dumps({"indexes": {"r": files["b"]}}))
            self.assertNotIn("error", daemon.reload())
            self.assertTrue(hspz_test.poll(
                lambda: peer.call("index.list")["indexes"][0]["file"] == files["b"]))
            result, _, _ = peer.discover("r", query={"bases": text["b"].encode()})
            self.assertGreater(result["anchors"], 1900)
        daemon.stop()

    def test_an_index_is_served_until_that_of_its_new_file_is_ready(self):
        text = {name: bases(random.Random(n), 2000) for n, name in enumerate("abc")}
        files = {name: self.index([(name, seq)], name=name) for name, seq in text.items()}
        path = self.path("d.json")
        hspz_test.write(path, json.dumps({"indexes": {"r": files["a"]}}))
        daemon = self.daemon("--config", path)
        with daemon.peer() as peer:
            # There and back and on, faster than they can be loaded: the last one counts.
            for name in "bacbacb" * 3:
                hspz_test.write(path, json.dumps({"indexes": {"r": files[name]}}))
                daemon.process.send_signal(signal.SIGHUP)
                rows = peer.call("index.list")["indexes"]
                self.assertEqual([(row["index"], row["state"]) for row in rows], [("r", "ready")])
                self.assertGreater(max(
                    peer.discover("r", query={"bases": seq.encode()})[0]["anchors"]
                    for seq in text.values()), 1900)
                self.assertIn(peer.call("index.describe", index="r")["file"], files.values())
            self.assertTrue(hspz_test.poll(
                lambda: peer.call("index.list")["indexes"][0]["file"] == files["b"] and
                peer.call("health")["state"] == "ready"))
            hspz_test.write(path, json.dumps({"indexes": {"r": files["c"]}}))
            daemon.process.send_signal(signal.SIGHUP)
            hspz_test.write(path, json.dumps({"indexes": {}}))
            daemon.reload()
            self.assertTrue(hspz_test.poll(lambda: peer.call("index.list")["indexes"] == [] and
                                           peer.call("health")["state"] == "ready"))
        daemon.stop(expect=0)

    def test_changed_again_while_an_index_is_loaded_the_last_one_counts(self):
        text = {name: bases(random.Random(n), 2000) for n, name in enumerate("ab")}
        files = {name: self.index([(name, seq)], name=name) for name, seq in text.items()}
        path = self.path("d.json")

        def configure(indexes):
            hspz_test.write(path, json.dumps({"indexes": {n: files[f] for n, f in indexes.items()}}))
            daemon.reload()  # before an index is loaded

        def served():
            return {row["index"]: row["file"] for row in peer.call("index.list")["indexes"]
                    if row["state"] == "ready"}

        hspz_test.write(path, "{}")
        daemon = self.daemon("--config", path)
        with daemon.peer() as peer:
            for _ in range(3):
                configure({"x": "a", "y": "a", "z": "a"})
                configure({"x": "b", "z": "a"})
                configure({"x": "a", "y": "b"})
                configure({"x": "b"})
                self.assertTrue(hspz_test.poll(lambda: served() == {"x": files["b"]}), served())
                result, _, _ = peer.discover("x", query={"bases": text["b"].encode()})
                self.assertGreater(result["anchors"], 1900)
                configure({})
                self.assertTrue(hspz_test.poll(lambda: served() == {}))
            self.assertIn("once it is loaded", daemon.log())
            self.assertNotIn("error", daemon.log())
            self.assertTrue(hspz_test.poll(
                lambda: peer.call("stats")["memory"]["index_bytes"] == 0))
        daemon.stop(expect=0)

    def test_a_hangup_while_the_first_indexes_load_is_not_lost(self):
        files = {n: self.index([(n, bases(random.Random(1), 2000))], "--seed", "1" * 13, name=n)
                 for n in "ab"}
        path = self.path("d.json")
        hspz_test.write(path, json.dumps({"indexes": {"a": files["a"]}}))
        daemon = self.daemon("--config", path, wait=False)
        self.assertTrue(hspz_test.poll(lambda: "loading index" in daemon.log()))
        hspz_test.write(path, json.dumps({"indexes": {"b": files["b"]}}))
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_ready()
        with daemon.peer() as peer:
            self.assertTrue(hspz_test.poll(lambda: [
                (row["index"], row["state"]) for row in peer.call("index.list")["indexes"]
            ] == [("b", "ready")]), daemon.log())
        self.assertIn("will be reloaded when ready", daemon.log())
        daemon.stop(expect=0)


class EndTest(hspz_test.TestCase):
    def test_jobs_of_a_server_that_stops_at_once_are_told(self):
        """Of a job that runs for seconds and finds nothing, so that an answer always has room."""
        query = os.urandom(20000000).translate(bytes(b"ACGT"[i & 3] for i in range(256)))
        daemon = self.daemon(indexes={"ref": self.index([("a", "A" * 40)])})
        with daemon.peer() as peer:
            jobs = [peer.request("discover", index="ref", query={"bases": query}, begin=begin)
                    for begin in (0, 1)]
            hspz_test.poll(lambda: daemon.log().count("job queued") == 2)
            for word in ("draining", "at once"):
                daemon.process.send_signal(signal.SIGTERM)
                self.assertTrue(hspz_test.poll(lambda word=word: word in daemon.log()))
            for number in jobs:
                self.assert_code(peer.response(number)[0], "shutting_down")
            self.assertTrue(peer.closed())
        daemon.stop(expect=0)


if __name__ == "__main__":
    hspz_test.main()
