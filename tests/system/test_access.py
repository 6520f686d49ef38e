"""Who may use a daemon and for what: tenants by user, group and token, roles, and what is not told."""

import contextlib
import grp
import hashlib
import json
import os
import random
import re
import stat
import struct
import subprocess
import threading
import time
import unittest

import msgpack

import hspz_test
from hspz_test import Peer, RpcError, bases, client, poll

ME = os.getuid()
ALICE, BOB, CAROL = 20001, 20002, 20003
STAFF, OTHERS = 30001, 30002
TOKEN = "correct horse battery staple"


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def as_user(uid, gid, groups, work):
    """work()'s result, as JSON carries it, done by another user."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read_end)
            os.setgroups(groups)
            os.setgid(gid)
            os.setuid(uid)
            with os.fdopen(write_end, "w") as out:
                json.dump(work(), out)
            status = 0
        finally:
            os._exit(status)
    os.close(write_end)
    with os.fdopen(read_end) as file:
        text = file.read()
    os.waitpid(child, 0)
    return json.loads(text)


def root_only(test):
    return unittest.skipIf(ME != 0, "becomes other users")(test)


class AccessTest(hspz_test.TestCase):
    def setUp(self):
        hspz_test.need_tls()  # tokens tell most of the tenants here apart
        super().setUp()
        os.chmod(self.folder, 0o755)
        self.text = bases(random.Random(3), 2000)
        os.mkdir(self.path("indexes"))
        self.good = self.index([("r", self.text)])
        self.index([("n", self.text)], name="indexes/named")

    def tenants(self, *tenants, me=True, **more):
        """A configuration; `me`: this process's user is an operator, too."""
        mine = [{"name": "me", "role": "operator", "uids": ME}] if me else []
        return dict(more, tenants=mine + list(tenants))

    def start(self, config, **more):
        self.config = self.path("config.json")
        self.write_config(config)
        return self.daemon("--config", self.config, "--index-dir", self.path("indexes"),
                           "--data-dir", self.folder, "--filter-dir", self.folder, indexes={"ref": self.good}, **more)

    def write_config(self, config):
        hspz_test.write(self.config, config if isinstance(config, str) else json.dumps(config))

    def hello_of(self, daemon, token=None):
        """What the daemon says to a peer: its welcome, or the error, and whether it then closes."""
        try:
            with daemon.peer(hello=False) as peer:
                error, result = peer.response(peer.request(
                    "hello", dict({"protocol": 1}, **({} if token is None else {"token": token}))))
                return {"error": error, "result": result,
                        "closed": peer.closed() if error else False}
        except RpcError as why:  # at once, before any request
            return {"error": why.error, "closed": True}
        except OSError as why:
            return {"errno": why.errno}


class RoleTest(AccessTest):
    def setUp(self):
        super().setUp()
        self.node = self.start(self.tenants(
            {"name": "users", "token_sha256": sha256("u")},
            {"name": "others", "token_sha256": sha256("o")},
            {"name": "operators", "role": "operator", "token_sha256": sha256("op")},
            listen=["127.0.0.1:0"]))
        self.where = ("127.0.0.1", self.node.port())

    @staticmethod
    def keys(method):
        return {} if method in ("enumerate", "stats") else {"keys": struct.pack("<2Q", 1, 2)}

    def rows(self):
        """(method, parameters, what a user gets, what an operator gets); None: it is done."""
        query = {"bases": self.text[:300].encode()}
        absolute = self.path("out.hspz")
        small = {"kind": "gqf", "capacity": 100}
        return (
            ("hello", {"protocol": 1}, "bad_request", "bad_request"),
            ("health", None, None, None),
            ("stats", None, None, None),
            ("discover", {"index": "ref", "query": query}, None, None),
            ("discover", {"index": "named", "query": query}, None, None),
            ("discover", {"index": "absent", "query": query}, "unknown_index", "unknown_index"),
            ("discover", {"index": "../ref", "query": query}, "unknown_index", "unknown_index"),
            ("cancel", {"job": 77}, None, None),
            ("shm.open", None, "unsupported", "unsupported"),  # by TCP
            ("index.list", None, None, None),
            ("index.describe", {"index": "ref"}, None, None),
            ("index.describe", {"index": "absent"}, "unknown_index", "unknown_index"),
            ("index.load", {"index": "b", "file": "named.hspz"}, "forbidden", None),
            ("index.load", {"index": "c", "file": self.good}, "forbidden", None),
            ("index.load", {"index": "d", "file": "/nothing"}, "forbidden", "io_error"),
            ("index.load", {"bad": 1}, "forbidden", "bad_request"),
            ("index.build", {"index": "e", "source": "ref.fa", "file": "e.hspz"}, "forbidden",
             None),
            ("index.build", {"index": "f", "source": self.path("ref.fa"), "file": absolute},
             "forbidden", None),
            ("index.unload", {"index": "ref"}, "forbidden", None),
            ("index.unload", {"index": "absent"}, "forbidden", "unknown_index"),
            ("filter.create", dict(small, filter="mine"), None, None),
            ("filter.create", dict(small, filter="others/x"), "forbidden", "forbidden"),
            ("filter.create", {"bad": 1}, "bad_request", "bad_request"),
            ("filter.load", {"filter": "others/x"}, "forbidden", "forbidden"),
            ("filter.load", {"filter": "never"}, "unknown_filter", "unknown_filter"),
            ("filter.save", {"filter": "others/x"}, "forbidden", "forbidden"),
            ("filter.save", {"filter": "mine"}, None, None),
            ("filter.merge", {"filter": "mine", "from": "others/open"}, None, None),
            ("filter.merge", {"filter": "others/open", "from": "mine"}, "forbidden", "forbidden"),
            ("filter.merge", {"filter": "mine", "from": "others/closed"}, "unknown_filter",
             "unknown_filter"),
        ) + tuple(row for method, of_open in (
            ("insert", "forbidden"), ("insert_if_absent", "forbidden"), ("delete", "forbidden"),
            ("decrement", "forbidden"), ("query", None), ("count", None), ("enumerate", None),
            ("stats", None)) for row in (
                ("filter." + method, dict(self.keys(method), filter="mine"), None, None),
                ("filter." + method, dict(self.keys(method), filter="others/open"), of_open, of_open),
                ("filter." + method, dict(self.keys(method), filter="others/closed"),
                 "unknown_filter", "unknown_filter"),
                ("filter." + method, dict(self.keys(method), filter="nobody/absent"),
                 "unknown_filter", "unknown_filter"))) + (
            ("filter.list", None, None, None),
            ("filter.drop", {"filter": "mine"}, None, None),
            ("filter.drop", {"filter": "mine"}, "unknown_filter", "unknown_filter"),
            ("filter.drop", {"filter": "mine", "saved": True}, None, None),
            ("filter.drop", {"filter": "others/absent"}, "unknown_filter", "unknown_filter"),
            ("filter.drop", {"filter": "others/closed"}, "unknown_filter", None),
            ("filter.drop", {"filter": "others/open"}, "forbidden", None),
            ("drain", {"now": True}, "forbidden", "bad_request"),
            ("no.such.method", {}, "unknown_method", "unknown_method"),
        )

    def test_every_method_as_every_role(self):
        with open(os.path.join(hspz_test.SOURCE, "protocol", "message.h"),
                  encoding="utf-8") as file:
            methods = set(re.findall(r"X\(HSPZ_METHOD_\w+,\s+\"([\w.]+)\"\)", file.read()))
        self.assertGreaterEqual(len(methods), 10)
        self.assertEqual(methods - {row[0] for row in self.rows()}, set(), "rows are missing")
        with Peer(self.where, token="o") as other:
            for name, shared in (("open", True), ("closed", False)):
                other.call("filter.create", filter=name, kind="gqf", capacity=100, shared=shared)
        with Peer(self.where, token="u") as user, Peer(self.where, token="op") as operator:
            self.assertEqual((user.welcome["tenant"], user.welcome["role"]), ("users", "user"))
            self.assertEqual((operator.welcome["tenant"], operator.welcome["role"]),
                             ("operators", "operator"))
            for method, params, *wanted in self.rows():
                for peer, want in zip((user, operator), wanted):
                    with self.subTest(method=method, params=params, role=peer.welcome["role"]):
                        error, result = peer.response(peer.request(method, params))
                        self.assertEqual(error and error["code"], want, error)
                        self.assertEqual(result is None, want is not None)
                        if want == "forbidden":
                            self.assertIn(method + " is for operators" if method == "drain" or
                                          "index" in method else "another tenant's", error["message"])
        for method, params, *_ in self.rows():
            if method != "hello":
                with self.subTest(method=method, role="nobody"):
                    with Peer(self.where, hello=False) as peer:
                        error, _ = peer.response(peer.request(method, params))
                        self.assert_code(error, "bad_request", "say hello first")

    def test_an_operator_drains_and_a_user_does_not(self):
        poly = self.index([("p", "A" * 3000)], name="poly")
        with Peer(self.where, token="u") as user, Peer(self.where, token="op") as operator:
            operator.call("index.load", index="poly", file=poly)
            error = user.error("drain")
            self.assert_code(error, "forbidden")
            self.assertEqual(error["message"], "drain is for operators")
            self.assertEqual(user.call("health")["state"], "ready")
            job = user.request("discover", index="poly", query={"bases": b"A" * 3000})
            self.assertTrue(poll(lambda: operator.call("health")["jobs"] == 1))
            answer = operator.call("drain")
            self.assertEqual([answer[k] for k in ("state", "jobs", "loading", "connections")],
                             ["draining", 1, 0, 2])
            self.assert_code(operator.error("discover", index="ref", query={"bases": b"ACGT"}),
                             "shutting_down")
            self.assert_code(operator.error("index.load", index="x", file=poly), "shutting_down")
            self.assert_code(user.error("drain"), "forbidden")
            last = operator.request("drain", wait_ms=60000)
            self.assertEqual(operator.call("health")["state"], "draining")
            self.assert_code(operator.error("drain", wait_ms=1), "bad_request", last)
            self.assertTrue(operator.silent())
            self.assertGreaterEqual(user.result(job)["anchors"], 2982 * 2981)
            self.assertEqual(operator.result(last)["state"], "drained")
            self.assertTrue(user.closed())
        self.assertEqual(self.node.process.wait(30 * hspz_test.SLOWER), 0)
        self.assertRegex(self.node.log(), "draining jobs=1 connections=2 why=\"an operator asked")
        self.assertIn("info drained", self.node.log())
        self.assertFalse(os.path.exists(self.node.path))

    def test_a_users_statistics_are_its_own(self):
        with Peer(self.where, token="u") as user, Peer(self.where, token="o") as other, \
                Peer(self.where, token="op") as operator:
            other.discover("ref", query={"bases": self.text[:300].encode()})
            all_of_it = operator.call("stats")
            names = [row["tenant"] for row in all_of_it["tenants"]]
            self.assertEqual(names, ["me", "users", "others", "operators"])
            self.assertEqual(all_of_it["jobs"]["ok"], 1)
            before = user.call("stats")
            self.assertEqual([row["tenant"] for row in before["tenants"]], ["users"])
            self.assertNotIn("others", str(before))
            self.assertNotIn("jobs", before)
            other.discover("ref", query={"bases": self.text[:300].encode()})
            after = user.call("stats")
            for answer in (before, after):
                answer.pop("uptime_ms")
            self.assertEqual(before, after)

    def test_what_is_forbidden_tells_nothing_of_what_is_there(self):
        with Peer(self.where, token="u") as peer:
            answers = [peer.error("index.unload", index=name) for name in ("ref", "absent")]
            answers += [peer.error("index.load", index="x", file=name)
                        for name in (self.good, "/nothing", "named.hspz", "absent.hspz")]
            self.assertEqual(len({json.dumps(a) for a in answers[:2]}), 1)
            self.assertEqual(len({json.dumps(a) for a in answers[2:]}), 1)

    def test_a_job_of_another_connection_is_as_one_that_is_not_there(self):
        poly = self.index([("p", "A" * 3000)], name="poly")
        with self.node.peer() as operator:
            operator.call("index.load", index="poly", file=poly)
        want = None
        for token in ("u", "o"):  # of the same tenant, and of another
            with Peer(self.where, token="u") as owner, Peer(self.where, token=token) as other:
                owner.next_id = 4242
                job = owner.request("discover", index="poly", query={"bases": b"A" * 3000},
                                    strand="plus", transitions=False)
                poll(lambda: other.call("health")["jobs"] > 0)
                answers = []
                for number in (job, 4243):
                    other.next_id = 9
                    other.request("cancel", job=number)
                    answers.append(msgpack.packb(dict(other.receive()[3], job=0)))
                self.assertEqual(answers[0], answers[1])
                self.assertFalse(msgpack.unpackb(answers[0])["found"])
                # The same number may be in use by both: they are not each other's.
                other.next_id = job
                mine = other.discover("ref", query={"bases": self.text[:100].encode()})
                self.assertGreater(mine[0]["anchors"], 80)
                result, data, _ = owner.anchors(job)
                self.assertEqual(result["anchors"], 2982 * 2981)
                self.assertEqual(len(data), result["anchors"] * 8)
                want = want or data
                self.assertEqual(data, want)


class TokenTest(AccessTest):
    def setUp(self):
        super().setUp()
        self.node = self.start(self.tenants(
            {"name": "lab", "token_sha256": [sha256(TOKEN), sha256("x" * 1024)]},
            listen=["127.0.0.1:0"]))
        self.where = ("127.0.0.1", self.node.port())
        self.tcp = "tcp:127.0.0.1:%d" % self.where[1]

    def test_a_token_is_taken_whole_or_not_at_all(self):
        for token in (TOKEN, "x" * 1024):
            with Peer(self.where, token=token) as peer:
                self.assertEqual(peer.welcome["tenant"], "lab")
        wrong = ["", " ", TOKEN[:-1], TOKEN + " ", TOKEN + "\n", TOKEN.upper(), "\0" + TOKEN,
                 TOKEN + "\0", sha256(TOKEN), "x" * 1023, "x" * 1025, "\xff", "t" * 60000]
        for token in wrong:
            with self.subTest(token=token[:40]), Peer(self.where, hello=False) as peer:
                error, _ = peer.response(peer.request("hello", protocol=1, token=token))
                well_formed = len(token) <= 1024 and not set(token) & set("\0\n")
                self.assertEqual(error["code"], "unauthorized" if well_formed else "bad_request",
                                 error)
                self.assertNotIn(sha256(TOKEN), str(error))
                if error["code"] == "unauthorized":
                    self.assertTrue(peer.closed())
        for token in (7, None, True, ["x"], {"a": 1}, TOKEN.encode()):
            with self.subTest(token=token), Peer(self.where, hello=False) as peer:
                error, _ = peer.response(peer.request("hello", protocol=1, token=token))
                self.assertIn(error["code"], ("bad_request", "unauthorized"))
        with Peer(self.where, hello=False) as peer:
            self.assert_code(peer.error("hello", protocol=1), "unauthorized", "token")
            self.assertTrue(peer.closed())

    def test_a_wrong_token_is_not_made_good_by_a_known_user(self):
        answer = self.hello_of(self.node, "wrong")
        self.assert_code(answer["error"], "unauthorized", "token")
        self.assertTrue(answer["closed"])

    def test_the_log_shows_no_token(self):
        for token in (TOKEN, "wrong-token"):
            try:
                Peer(self.where, token=token).close()
            except RpcError:
                pass
        self.assertTrue(poll(lambda: "unauthorized" in self.node.log()))
        log = self.node.log()
        self.assertNotIn(TOKEN, log)
        self.assertNotIn("wrong-token", log)
        # Who tried is told, without an access log too.
        self.assertRegex(log, r"refused to go on conn=\d+ peer=tcp:127\.0\.0\.1:\d+ code=unauthorized")

    def test_the_client_shows_a_token_from_a_file_or_the_environment(self):
        query = self.file("q.fa", ">q\n%s\n" % self.text[:300])
        want = self.node.client("discover", "ref", query, check=0).stdout
        self.assertGreater(want.count("\n"), 250)
        name = self.file("token", TOKEN + "\n")
        os.chmod(name, 0o600)
        got = client("--token-file", name, "discover", "ref", query, server=self.tcp, check=0)
        self.assertEqual(got.stdout, want)
        got = client("discover", "ref", query, server=self.tcp, check=0,
                     env=hspz_test.child_env(HSPZ_TOKEN=TOKEN))
        self.assertEqual(got.stdout, want)
        for env, words in ((None, "asks for a token"), ("wrong", "the token is none of")):
            done = client("discover", "ref", query, server=self.tcp, check=1,
                          env=hspz_test.child_env(HSPZ_TOKEN=env))
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_nobody_in_particular_cannot_have_memory_held(self):
        before = self.node.rss_mib()
        with Peer(self.where, hello=False) as peer:
            body = b"\x00" * (64 << 20)
            head = b"\x94\x00\x01\xa8discover\x91\x82\xa5index\xa3ref\xa5seeds\xc6"
            peer.send_bytes(head + struct.pack(">I", len(body)))
            peer.send_bytes(body)
            error, _ = peer.response(1)
            self.assert_code(error, "bad_request", "say hello first")
        self.assertLess(self.node.rss_mib() - before, 8)


@root_only
class UserTest(AccessTest):
    def role_of(self, daemon, uid, gid=STAFF + 100, groups=(), token=None):
        answer = as_user(uid, gid, list(groups), lambda: self.hello_of(daemon, token))
        if "errno" in answer:
            return answer["errno"]
        if answer["error"]:
            self.assertEqual(answer["error"]["code"], "unauthorized")
            self.assertTrue(answer["closed"])
            return None
        return answer["result"]["tenant"]

    def test_users_and_groups_are_told_apart(self):
        node = self.start(self.tenants(
            {"name": "alice", "uids": [ALICE]},
            {"name": "staff", "gids": [STAFF]},
            {"name": "others", "gids": OTHERS, "uids": CAROL},
            {"name": "by-token", "token_sha256": sha256(TOKEN)}))
        self.assertEqual(stat.S_IMODE(os.stat(node.path).st_mode), 0o666)
        rows = (
            (ALICE, 1, (), None, "alice"),
            (ALICE, STAFF, (OTHERS,), None, "alice"),  # the user before its groups
            (BOB, 1, (), None, None),
            (BOB, STAFF, (), None, "staff"),
            (BOB, 1, (5, STAFF, 6), None, "staff"),
            (BOB, OTHERS, (STAFF,), None, "staff"),  # the configuration's order
            (BOB, 1, tuple(range(40000, 40300)) + (OTHERS,), None, "others"),
            (CAROL, STAFF, (), None, "others"),
            (BOB, 1, (), TOKEN, "by-token"),
            (ALICE, 1, (), TOKEN, "by-token"),  # what is shown before what is known
            (ALICE, 1, (), "wrong", None),
            (65534, 1, (), None, None),
            (65534, 65534, (65534,), None, None),
        )
        for uid, gid, groups, token, want in rows:
            with self.subTest(uid=uid, gid=gid, groups=groups[:3], token=token):
                self.assertEqual(self.role_of(node, uid, gid, groups, token), want)

    def test_root_is_nobody_unless_named(self):
        node = self.start(self.tenants({"name": "alice", "uids": ALICE}, me=False), wait=False)
        self.assertTrue(poll(lambda: " ready" in node.log(), 30))
        self.assertEqual(self.role_of(node, ALICE), "alice")
        answer = self.hello_of(node)
        self.assert_code(answer["error"], "unauthorized", "user 0")
        done = node.client("health", check=1)
        self.assertIn("user 0 is none of this server's tenants", done.stderr)

    def test_the_socket_has_the_group_and_mode_that_are_asked_for(self):
        tenants = self.tenants({"name": "all", "uids": [ALICE, BOB]})
        for more, mode, gid, alice in (
                ({}, 0o666, 0, "all"),
                ({"socket_group": str(STAFF)}, 0o660, STAFF, "all"),
                ({"socket_group": str(STAFF), "socket_mode": "0600"}, 0o600, STAFF, 13),
                ({"socket_group": "daemon", "socket_mode": "0770"}, 0o770,
                 grp.getgrnam("daemon").gr_gid, 13)):
            with self.subTest(more=more):
                node = self.start(dict(tenants, **more))
                status = os.stat(node.path)
                self.assertEqual((stat.S_IMODE(status.st_mode), status.st_gid), (mode, gid))
                self.assertEqual(self.role_of(node, ALICE, groups=(STAFF,)), alice)
                self.assertEqual(self.role_of(node, BOB), "all" if mode == 0o666 else 13)
                node.stop()

    def test_without_tenants_the_socket_is_the_users_own(self):
        node = self.daemon()
        self.assertEqual(stat.S_IMODE(os.stat(node.path).st_mode), 0o600)
        self.assertEqual(self.role_of(node, ALICE), 13)
        os.chmod(node.path, 0o666)
        self.assertIsNone(self.role_of(node, ALICE))
        with node.peer() as peer:
            self.assertEqual((peer.welcome["tenant"], peer.welcome["role"]), ("", "operator"))


@root_only
class NamespaceTest(AccessTest):
    """In a user namespace all users that it does not map look the same: like nobody."""

    def setUp(self):
        super().setUp()
        if subprocess.run(["unshare", "--user", "true"], check=False,
                          stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no user namespaces")

    def start_in(self, *flags, config=None):
        node = self.daemon(prefix=("unshare", "--user") + flags, config=config, wait=False)
        self.assertTrue(poll(lambda: " ready" in node.log(), 30), node.log())
        os.chmod(node.path, 0o666)
        return node

    def test_users_that_are_not_mapped_are_nobody(self):
        node = self.start_in("--map-root-user")
        self.assertEqual(self.hello_of(node)["result"]["role"], "operator")
        answer = as_user(ALICE, ALICE, [], lambda: self.hello_of(node))
        self.assert_code(answer["error"], "unauthorized", "user 65534")

    def test_a_daemon_that_is_not_mapped_itself_lets_no_such_user_in(self):
        node = self.start_in()
        for uid in (0, ALICE):
            answer = as_user(uid, uid, [], lambda: self.hello_of(node))
            self.assert_code(answer["error"], "unauthorized", "runs as user 65534")

    def test_groups_that_are_not_mapped_are_nobodys(self):
        node = self.start_in("--map-root-user", config={"tenants": [
            {"name": "me", "uids": 0}, {"name": "group", "gids": STAFF}]})
        self.assertEqual(self.hello_of(node)["result"]["tenant"], "me")
        answer = as_user(ALICE, STAFF, [STAFF], lambda: self.hello_of(node))
        self.assert_code(answer["error"], "unauthorized", "user 65534")


class ReloadTest(AccessTest):
    def test_what_a_reload_takes_away_and_gives(self):
        self.index([("p", "A" * 4000)], name="indexes/poly")
        node = self.start(self.tenants(
            {"name": "old", "token_sha256": sha256("old")},
            {"name": "kept", "token_sha256": sha256("kept")}))
        with node.peer(token="old") as old, node.peer(token="kept") as kept:
            job = old.request("discover", index="poly", query={"bases": b"A" * 4000},
                              strand="plus", transitions=False)
            poll(lambda: kept.call("health")["jobs"] == 1)
            self.write_config(self.tenants(
                {"name": "new", "token_sha256": sha256("new")},
                {"name": "kept", "role": "operator", "token_sha256": sha256("kept")}))
            self.assertIn("info reloaded", node.reload())
            # Work under way goes on; what is asked now is refused.
            late = old.request("health")
            error, _ = self.response_of(old, late)
            self.assert_code(error, "unauthorized", "configuration has changed")
            self.assertEqual(self.done[job]["anchors"], 3982 * 3981)
            self.assert_code(old.error("discover", index="ref", query={"bases": b"ACGT"}),
                             "unauthorized")
            kept.call("index.load", index="again", file="named.hspz")
            self.assert_code(self.hello_of(node, "old")["error"], "unauthorized")
            self.assertEqual(self.hello_of(node, "new")["result"]["tenant"], "new")

    def response_of(self, peer, number):
        """The response to `number`; others that come are kept in `done`."""
        self.done = {}
        found = None
        while found is None or not self.done:
            message = peer.receive()
            if message[0] == 1 and message[1] == number:
                found = message[2], message[3]
            elif message[0] == 1:
                self.assertIsNone(message[2])
                self.done[message[1]] = message[3]
        return found

    def test_a_configuration_with_a_mistake_takes_nothing_away(self):
        node = self.start(self.tenants({"name": "a", "token_sha256": sha256("a")}))
        for bad, words in (
                ('{"tenants": [\n{"name": "a"}]}', "line 2: tenants: \\\"a\\\" cannot be recognised"),
                ('{"tenants": []}', "line 1: tenants"),
                ("{", "line 1")):
            self.write_config(bad)
            self.assertIn(words, node.reload())
            self.assertEqual(self.hello_of(node, "a")["result"]["tenant"], "a")
        self.write_config({})
        self.assertIn("at the next start only key=tenants", node.reload())
        self.assertEqual(self.hello_of(node, "a")["result"]["tenant"], "a")
        self.assert_code(self.hello_of(node, "b")["error"], "unauthorized")

    def test_tenants_do_not_come_by_a_reload(self):
        node = self.start({"listen": ["127.0.0.1:0"]})
        self.write_config(self.tenants({"name": "a", "token_sha256": sha256("a")}, me=False))
        self.assertIn("at the next start only key=tenants", node.reload())
        with node.peer() as peer:
            self.assertEqual(peer.welcome["tenant"], "")

    def test_many_reloads_under_traffic_lose_nothing(self):
        tenants = [{"name": "t%d" % i, "token_sha256": sha256(str(i))} for i in range(6)]
        node = self.start(self.tenants(*tenants))
        want = hspz_test.discover([("r", self.text)], [("q", self.text[:200])])
        stop, failures, done = threading.Event(), [], [0]

        def work(number):
            rng = random.Random(number)
            while not stop.is_set():
                try:
                    with node.peer(token=str(rng.randrange(3))) as peer:
                        for _ in range(rng.randrange(1, 4)):
                            data = peer.discover(
                                "ref", query={"bases": self.text[:200].encode()})[1]
                            if data != want:
                                failures.append(len(data))
                            done[0] += 1
                except (OSError, EOFError, RpcError) as why:
                    failures.append(why)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        rng = random.Random(1)
        for _ in range(30):
            some = tenants[:3] + rng.sample(tenants[3:], rng.randrange(4))
            rng.shuffle(some)
            self.write_config(self.tenants(*some))
            self.assertIn("info reloaded", node.reload())
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertGreater(done[0], 20)
        node.stop()


class CrowdTest(AccessTest):
    def open(self, operator):
        return operator.call("stats")["connections"]["open"]

    def test_strangers_at_the_limit_give_way(self):
        node = self.start(self.tenants({"name": "a", "role": "operator", "token_sha256": sha256("a")},
                                       max_connections=12, hello_timeout_ms=60000))
        with contextlib.ExitStack() as stack:
            known = [stack.enter_context(node.peer(token="a")) for _ in range(4)]
            while True:
                begin = time.monotonic()
                strangers = [stack.enter_context(node.peer(hello=False)) for _ in range(8)]
                with contextlib.suppress(OSError, EOFError), node.peer(token="a"):
                    self.assertGreater(time.monotonic() - begin, 0.9)  # they have a second
                    for peer in strangers:
                        peer.close()
                    self.assertTrue(poll(lambda: self.open(known[0]) == 4))
                    continue
                break
            time.sleep(1.2)
            for count in range(1, 6):
                known.append(stack.enter_context(node.peer(token="a")))
                self.assertEqual(known[0].call("health")["state"], "ready")
                self.assertTrue(strangers[count - 1].closed(5))  # the oldest first
            self.assertTrue(all(s.silent(0) for s in strangers[5:]))
            strangers[6].call("hello", protocol=1, token="a")
            known.append(strangers[6])
            known.append(stack.enter_context(node.peer(token="a")))
            self.assertEqual(len(known), 11)
            with self.assertRaises(RpcError):  # one is kept for the other tenant
                node.peer(token="a")
            self.assertTrue(poll(lambda: self.open(known[0]) == 11))
            known.append(stack.enter_context(node.peer()))
            with self.assertRaises((OSError, EOFError)):
                node.peer()
            for peer in known:  # who is known is never sent away for others
                self.assertEqual(peer.call("health")["state"], "ready")

    def test_one_tenant_does_not_shut_others_out(self):
        node = self.start(self.tenants({"name": "many", "token_sha256": sha256("m")},
                                       {"name": "few", "token_sha256": sha256("f")},
                                       max_connections=24))
        with contextlib.ExitStack() as stack:
            many = [stack.enter_context(node.peer(token="m")) for _ in range(20)]
            with self.assertRaises(RpcError) as refused:
                node.peer(token="m")
            self.assert_code(refused.exception.error, "queue_full", "20 connections of tenant \"many\"")
            self.assertGreater(refused.exception.error["retry_ms"], 0)
            out = node.client("health", check=1, env=hspz_test.child_env(HSPZ_TOKEN="m"))
            self.assertIn("--wait SECONDS tries again", out.stderr)
            few = [stack.enter_context(node.peer(token="f")) for _ in range(2)]
            me = [stack.enter_context(node.peer()) for _ in range(2)]
            self.assertEqual(me[0].call("stats")["connections"]["refused"], 2)
            waiting = subprocess.Popen([hspz_test.CLIENT, "--server", node.server, "--wait", "-1", "health"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       env=hspz_test.child_env(HSPZ_TOKEN="m"))
            self.assertTrue(poll(lambda: me[0].call("stats")["connections"]["refused"] > 3))
            many.pop().close()
            self.assertIn(b"ready", waiting.communicate(timeout=60 * hspz_test.SLOWER)[0])
            for peer in many + few + me:
                self.assertEqual(peer.call("health")["state"], "ready")
        node.stop()


class AddressTest(AccessTest):
    def check(self, config, want, *words):
        name = self.file("c.json", json.dumps(config))
        for extra in (["--check-config"], []):
            if not extra and want == 0:
                continue
            done = subprocess.run([hspz_test.HSPZD, "--socket", self.path("s"), "--engine", "cpu",
                                   "--config", name] + extra, capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, want, done.stderr)
            for word in words:
                self.assertIn(word, done.stderr)

    def test_plain_tcp_beyond_loopback_is_refused(self):
        lab = self.tenants({"name": "lab", "token_sha256": sha256(TOKEN)})
        for address in ("0.0.0.0:0", "[::]:0"):
            for config in ({}, {"insecure": True}, lab):
                self.check(dict(config, listen=[address]), 1, "no loopback address", "tenants",
                           "TLS")
        self.check(dict(lab, listen=["127.0.0.1:0"]), 0)
        self.check(dict(lab, listen=["0.0.0.0:0"], insecure=True), 0)

    def test_insecure_is_served_with_a_warning_and_asks_for_a_token(self):
        node = self.start(self.tenants({"name": "lab", "token_sha256": sha256(TOKEN)},
                                       listen=["0.0.0.0:0"], insecure=True))
        self.assertRegex(node.log(), r"warning .*unencrypted.*address=tcp:0\.0\.0\.0:\d+")
        with Peer(("127.0.0.1", node.port()), token=TOKEN) as peer:
            self.assertEqual(peer.welcome["role"], "user")
        with self.assertRaises(RpcError):
            Peer(("127.0.0.1", node.port()))

    def test_settings_that_do_not_fit_are_refused_by_name(self):
        self.check({"tls_certificate": self.path("none"), "tls_key": self.path("none")}, 1,
                   "tls_certificate", "none", "No such file")
        self.check({"socket_group": "no-such-group-here"}, 1, "socket_group", "no-such-group-here")
        junk = self.file("junk", "junk")
        self.check({"tls_certificate": junk, "tls_key": junk}, 1, "tls_certificate", "junk")


if __name__ == "__main__":
    hspz_test.main()
