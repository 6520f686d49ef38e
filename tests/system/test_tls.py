"""TLS: independent peers (Python's ssl, openssl), certificates of both sides, and what is refused."""

import contextlib
import hashlib
import json
import os
import random
import re
import select
import signal
import socket
import ssl
import subprocess
import threading
import time
import unittest

import msgpack
import xxhash

import hspz_test
from hspz_test import SLOWER, Peer, RpcError, bases, client, poll, tool

TOKEN = "correct horse battery staple"
NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


def run(*command, **more):
    return subprocess.run(command, capture_output=True, check=False, timeout=60 * SLOWER, **more)


class Authority:
    """Signs certificates; made with the openssl program."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.certificate = os.path.join(folder, name + ".pem")
        self.key = os.path.join(folder, name + ".key")
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                     "-nodes", "-keyout", self.key, "-out", self.certificate, "-days", "30",
                     "-subj", "/CN=" + name)

    def openssl(self, *args):
        done = run(tool("openssl"), *args)
        if done.returncode != 0:
            raise AssertionError("openssl %s: %s" % (" ".join(args), done.stderr.decode()))
        return done.stdout

    def sign(self, name, extension=NAMES, days=10):
        """(certificate, key) files."""
        certificate, key, request, extra = (os.path.join(self.folder, name + end)
                                            for end in (".pem", ".key", ".csr", ".ext"))
        hspz_test.write(extra, extension + "\n")
        self.openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                     "-nodes", "-keyout", key, "-out", request, "-subj", "/CN=" + name)
        self.openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key,
                     "-CAcreateserial", "-days", str(days), "-extfile", extra, "-out", certificate)
        return certificate, key


def fingerprint(path):
    """SHA-256 of a certificate, as openssl prints it."""
    text = run(tool("openssl"), "x509", "-in", path, "-noout", "-fingerprint",
               "-sha256").stdout.decode()
    return text.strip().split("=")[1]


class TlsCase(hspz_test.TestCase):
    def setUp(self):
        hspz_test.need_tls()
        super().setUp()
        self.ca = Authority(self.folder, "ca")
        self.certificate, self.key = self.ca.sign("server")
        self.text = bases(random.Random(5), 3000)
        self.good = self.index([("r", self.text)])

    def start(self, *args, tenants=(), **more):
        self.config = self.path("config.json")
        config = dict({"listen": ["127.0.0.1:0"], "tls_certificate": self.certificate,
                       "tls_key": self.key,
                       "tenants": [{"name": "me", "role": "operator", "uids": os.getuid()},
                                   {"name": "lab", "token_sha256": hashlib.sha256(
                                       TOKEN.encode()).hexdigest()}] + list(tenants)}, **more)
        hspz_test.write(self.config, json.dumps(config))
        self.node = self.daemon("--config", self.config, *args, indexes={"ref": self.good})
        self.where = ("127.0.0.1", self.node.port())
        return self.node

    def context(self, ca=None, own=None):
        context = ssl.create_default_context(cafile=ca or self.ca.certificate)
        if own:
            context.load_cert_chain(*own)
        return context

    def peer(self, token=TOKEN, ca=None, own=None, **more):
        return Peer(self.where, token=token, context=self.context(ca, own), **more)

    def client(self, *args, host="localhost", port=None, token=TOKEN, ca="ca", **more):
        trust = ["--ca", self.ca.certificate if ca == "ca" else ca] if ca else []
        return client(*trust, *args, server="tls:%s:%d" % (host, port or self.where[1]),
                      env=hspz_test.child_env(HSPZ_TOKEN=token), **more)

    def client_hello(self):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        with self.assertRaises(ssl.SSLWantReadError):
            tls.do_handshake()
        return outgoing.read()

    def serves(self):
        with self.peer() as peer:
            self.assertEqual(peer.call("health")["state"], "ready")


class PeerTest(TlsCase):
    def test_anchors_are_the_same_over_tls_as_over_the_socket(self):
        poly = self.index([("p", "A" * 3000)], name="poly")
        self.start("--index", "poly=" + poly)
        query = {"bases": self.text[100:2900].encode()}
        want = hspz_test.discover([("r", self.text)], [("q", self.text[100:2900])])
        with self.peer() as secure, self.node.peer() as plain:
            self.assertEqual(secure.socket.version(), "TLSv1.3")
            self.assertEqual((secure.welcome["tenant"], secure.welcome["role"]), ("lab", "user"))
            result, data, _ = secure.discover("ref", query=query)
            self.assert_same_anchors(data, want)
            self.assertEqual(result["digest"], plain.discover("ref", query=query)[0]["digest"])
            # 71 MB in parts, each of many records.
            big = dict(query={"bases": b"A" * 3000}, strand="plus", transitions=False)
            first, data, parts = secure.discover("poly", **big)
            self.assertEqual(len(data), 8 * 2982 * 2981)
            self.assertGreater(len(parts), 60)
            second, other, _ = plain.discover("poly", **big)
            self.assertEqual((first["digest"], first["anchors"]),
                             (second["digest"], second["anchors"]))
            self.assertEqual(data, other)
        self.node.stop()

    def test_a_large_request_comes_whole(self):
        self.start()
        seeds = hspz_test.pack_seeds(hspz_test.seeds_of(self.text, hspz_test.SHAPE_12OF19))
        many = seeds * (24000000 // len(seeds))
        with self.peer() as secure, self.node.peer() as plain:
            first = secure.discover("ref", seeds=many)
            second = plain.discover("ref", seeds=many)
            self.assertGreater(first[0]["anchors"], 2900000)
            self.assertEqual(first[1], second[1])

    def test_many_small_jobs_sent_before_any_is_read(self):
        self.start("--max-jobs", "1000")
        want = hspz_test.discover([("r", self.text)], [("q", self.text[:200])])
        with self.peer() as peer:
            numbers = [peer.request("discover", index="ref",
                                    query={"bases": self.text[:200].encode()})
                       for _ in range(500)]
            for number in numbers:
                self.assertEqual(peer.anchors(number)[1], want)

    def test_a_reader_that_stops_costs_a_bounded_amount_of_memory(self):
        poly = self.index([("p", "A" * 8000)], name="poly")
        self.start("--index", "poly=" + poly, "--buffer-memory", "8M")
        self.serves()
        before = self.node.rss_mib()
        with self.peer() as peer:
            job = peer.request("discover", index="poly", query={"bases": b"A" * 8000},
                               strand="plus", transitions=False)  # 509 MB
            time.sleep(1.5)
            if not hspz_test.SANITIZED:
                self.assertLess(self.node.rss_mib() - before, 40)
            self.serves()
            result, anchors = 0, 0
            digest = xxhash.xxh64()
            while not result:
                message = peer.receive()
                if message[0] == 2:
                    anchors += len(message[2][1]) // 8
                    digest.update(message[2][1])
                else:
                    self.assertIsNone(message[2])
                    result = message[3]
            self.assertEqual(message[1], job)
            self.assertEqual(anchors, 7982 * 7981)
            self.assertEqual(result["anchors"], anchors)
            self.assertEqual(result["digest"], digest.hexdigest())

    def test_jobs_are_answered_when_the_server_stops_at_once(self):
        self.start()
        # Much to look for and little to find, and many that wait behind it.
        long = bytes(random.Random(1).choices(b"ACGT", k=1 << 20)) * 32
        with self.peer() as peer:
            jobs = [peer.request("discover", index="ref", query={"bases": long})]
            jobs += [peer.request("discover", index="ref", query={"bases": b"ACGT" * 10})
                     for _ in range(40)]
            with self.peer() as other:
                self.assertTrue(poll(lambda: other.call("health")["jobs"] == len(jobs)))
            self.node.process.send_signal(signal.SIGTERM)
            poll(lambda: "draining" in self.node.log())
            self.node.process.send_signal(signal.SIGTERM)
            codes = []
            with contextlib.suppress(EOFError):
                while len(codes) < len(jobs):
                    message = peer.receive()
                    if message[0] == 1:
                        self.assertEqual(message[1], jobs[len(codes)])
                        codes.append(message[2]["code"])
            self.assertEqual(len(codes), len(jobs))
            self.assertEqual(set(codes), {"shutting_down"})
        self.assertEqual(self.node.stop(), 0)

    def test_openssl_s_client_is_a_peer(self):
        self.start()
        hello = msgpack.packb([0, 1, "hello", [{"protocol": 1, "token": TOKEN}]])
        health = msgpack.packb([0, 2, "health", []])
        process = subprocess.Popen(
            [tool("openssl"), "s_client", "-quiet", "-verify_return_error", "-CAfile",
             self.ca.certificate, "-verify_hostname", "localhost", "-connect",
             "127.0.0.1:%d" % self.where[1]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        unpacker = msgpack.Unpacker()
        try:
            process.stdin.write(hello + health)
            process.stdin.flush()
            answers = []
            while len(answers) < 2:
                data = process.stdout.read1(65536)
                self.assertTrue(data)
                unpacker.feed(data)
                answers += list(unpacker)
        finally:
            process.kill()
            process.communicate()
        self.assertEqual([a[:3] for a in answers], [[1, 1, None], [1, 2, None]])
        self.assertEqual(answers[0][3]["tenant"], "lab")
        self.assertEqual(answers[1][3]["state"], "ready")

    def test_only_tls_1_3_is_spoken(self):
        self.start()
        for flag in ("-tls1_2", "-tls1_1", "-tls1"):
            done = run(tool("openssl"), "s_client", flag, "-cipher", "ALL:@SECLEVEL=0", "-connect",
                       "127.0.0.1:%d" % self.where[1], input=b"")
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertIn(b"alert protocol version", done.stderr)
        old = self.context()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with self.assertRaises(ssl.SSLError):
            Peer(self.where, token=TOKEN, context=old)
        # No session is to be resumed: each connection shows its certificates.
        done = run(tool("openssl"), "s_client", "-CAfile", self.ca.certificate, "-connect",
                   "127.0.0.1:%d" % self.where[1], input=b"")
        self.assertIn(b"TLSv1.3", done.stdout)
        self.assertNotIn(b"New Session Ticket", done.stdout)
        self.serves()

    def test_a_token_is_asked_for(self):
        self.start()
        for token, words in ((None, "asks for a token"), ("wrong", "the token is none of")):
            with self.assertRaisesRegex(RpcError, words):
                self.peer(token=token)
            done = self.client("health", token=token, check=1)
            self.assertIn(words, done.stderr)

    def test_without_tenants_tls_is_for_loopback(self):
        done = run(hspz_test.HSPZD, "--socket", self.path("s"), "--check-config",
                   "--tls-certificate", self.certificate, "--tls-key", self.key, "--listen",
                   "0.0.0.0:0")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"no loopback address", done.stderr)
        node = self.daemon("--tls-certificate", self.certificate, "--tls-key", self.key,
                           "--listen", "127.0.0.1:0")
        with Peer(("127.0.0.1", node.port()), context=self.context()) as peer:
            self.assertEqual((peer.welcome["tenant"], peer.welcome["role"]), ("", "user"))
        node.stop()

    def test_the_address_file_says_what_clients_take(self):
        path = self.path("addresses")
        self.start("--address-file", path)
        with open(path, encoding="utf-8") as file:
            unix, tls = file.read().splitlines()
        self.assertEqual((unix, tls), (self.node.server, "tls:127.0.0.1:%d" % self.node.port()))
        done = client("--ca", self.ca.certificate, "health", server=tls.replace("127.0.0.1", "localhost"),
                      env=hspz_test.child_env(HSPZ_TOKEN=TOKEN), check=0)
        self.assertIn("ready", done.stdout)

    def test_every_address_serves_tls_where_tenants_and_tls_are_set(self):
        self.start(listen=["0.0.0.0:0"])
        self.assertNotIn("unencrypted", self.node.log())
        self.serves()


    def test_a_handed_over_address_speaks_tls_too(self):
        activate = tool("systemd-socket-activate")
        port = hspz_test.free_port()
        config = {"tls_certificate": self.certificate, "tls_key": self.key, "tenants": [
            {"name": "lab", "token_sha256": hashlib.sha256(TOKEN.encode()).hexdigest()}]}
        self.where = ("127.0.0.1", port)
        node = self.daemon(prefix=(activate, "-l", "0.0.0.0:%d" % port), config=config, wait=False,
                           indexes={"ref": self.good})

        def served():
            with contextlib.suppress(OSError, EOFError), self.peer() as peer:
                return peer.call("health")["state"] == "ready"
        self.assertTrue(poll(served, 20), node.log())
        self.assertRegex(node.log(), "from=inherited tls=yes")
        node.stop()
        del config["tenants"]
        node = self.daemon(prefix=(activate, "-l", "0.0.0.0:%d" % port), config=config, wait=False)

        def ended():
            with contextlib.suppress(OSError):
                socket.create_connection(self.where, timeout=1).close()
            return not node.alive()
        self.assertTrue(poll(ended, 20))
        self.assertIn("no loopback address", node.log())


class GarbageTest(TlsCase):
    def raw(self):
        return contextlib.closing(socket.create_connection(self.where, timeout=30 * SLOWER))

    def ends(self, sock):
        """Seconds until the peer closes."""
        begin = time.monotonic()
        try:
            while sock.recv(65536):
                pass
        except ConnectionError:
            pass
        return time.monotonic() - begin

    def test_garbage_ends_the_connection_at_once(self):
        self.start()
        rng = random.Random(11)
        good = self.client_hello()
        cases = [b"\x94\x00\x01\xa5hello\x91\x81\xa8protocol\x01", b"GET / HTTP/1.1\r\n\r\n",
                 b"\x00", b"\xff" * 100000, b"\x80\x2e\x01\x03\x01" + bytes(60),
                 b"\x16\x03\x01\xff\xff" + bytes(70000), b"\x16\x03\x01\x00\x00" * 40,
                 b"\x16" + rng.randbytes(70000), b"\x15\x03\x03\x00\x02\x02\x28" * 3,
                 b"\x16\x03\x01\x00\x04\x01\xff\xff\xff", good + good]
        for data in cases:
            with self.subTest(data=data[:16]), self.raw() as sock:
                with contextlib.suppress(ConnectionError):
                    sock.sendall(data)
                    sock.shutdown(socket.SHUT_WR)
                self.assertLess(self.ends(sock), 5 * SLOWER)
        with self.raw() as sock:
            sock.sendall(cases[0])
            self.assertLess(self.ends(sock), 2 * SLOWER)
        for _ in range(60):
            broken = bytearray(good)
            for _ in range(rng.randrange(1, 8)):
                broken[rng.randrange(5, len(broken))] = rng.randrange(256)
            with self.raw() as sock:
                with contextlib.suppress(ConnectionError):
                    sock.sendall(broken)
                    sock.shutdown(socket.SHUT_WR)
                self.ends(sock)
        self.serves()
        self.assertIn("bad_peer", self.node.log())
        self.assertEqual(self.node.stop(), 0)

    def test_garbage_after_the_handshake_ends_it_too(self):
        self.start()
        with self.raw() as sock:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = self.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
            for _ in range(3):
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    sock.sendall(outgoing.read())
                    incoming.write(sock.recv(65536))
            sock.sendall(outgoing.read())
            tls.write(msgpack.packb([0, 1, "hello", [{"protocol": 1, "token": TOKEN}]]))
            record = bytearray(outgoing.read())
            record[-1] ^= 1
            sock.sendall(record)
            self.assertLess(self.ends(sock), 5 * SLOWER)
        self.serves()

    def test_half_a_handshake_is_given_the_time_for_a_hello(self):
        self.start("--hello-timeout-ms", "1000")
        good = self.client_hello()
        for part in (b"", good[:1], good[:5], good[:100], good):
            begin = time.monotonic()
            with self.subTest(part=len(part)), self.raw() as sock:
                sock.sendall(part)
                self.ends(sock)
                seconds = time.monotonic() - begin
                self.assertGreater(seconds, 0.99)
                self.assertLess(seconds, 4 * SLOWER)
        with self.raw() as plain, self.context().wrap_socket(
                plain, server_hostname="localhost") as sock:
            self.assertLess(self.ends(sock), 4 * SLOWER)
        self.serves()

    def test_a_handshake_in_crumbs_is_one(self):
        self.start()
        here, there = socket.socketpair()

        def crumble():
            with contextlib.suppress(OSError):
                with socket.create_connection(self.where) as server:
                    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

                    def back():
                        with contextlib.suppress(OSError):
                            while data := server.recv(7):
                                there.sendall(data)
                        with contextlib.suppress(OSError):
                            there.shutdown(socket.SHUT_RDWR)
                    thread = threading.Thread(target=back)
                    thread.start()
                    while data := there.recv(1):
                        server.sendall(data)
                    with contextlib.suppress(OSError):
                        server.shutdown(socket.SHUT_RDWR)
                    thread.join()
        thread = threading.Thread(target=crumble)
        thread.start()
        here.settimeout(60 * SLOWER)
        with self.context().wrap_socket(here, server_hostname="localhost") as secure:
            secure.sendall(msgpack.packb([0, 1, "hello", [{"protocol": 1, "token": TOKEN}]]))
            unpacker = msgpack.Unpacker()
            answer = None
            while answer is None:
                unpacker.feed(secure.recv(65536))
                answer = next(iter(unpacker), None)
            self.assertEqual(answer[3]["tenant"], "lab")
        thread.join()


class CrowdTest(TlsCase):
    COUNT = 200

    def answered(self, socks):
        return len(select.select(socks, [], [], 0)[0])

    def test_handshakes_that_come_at_once_do_not_hold_up_others(self):
        # Each takes some milliseconds with such a key.
        self.certificate, self.key = self.path("rsa.pem"), self.path("rsa.key")
        self.ca.openssl("req", "-x509", "-newkey", "rsa:3072", "-nodes", "-keyout", self.key, "-out",
                        self.certificate, "-days", "30", "-subj", "/CN=rsa")
        self.start()
        hello, seen = self.client_hello(), []
        with self.node.peer() as other:
            for _ in range(8):
                with contextlib.ExitStack() as stack:
                    socks = [stack.enter_context(socket.create_connection(self.where))
                             for _ in range(self.COUNT)]
                    self.assertTrue(poll(lambda: other.call("stats")["connections"]["open"] ==
                                         self.COUNT + 1))
                    # All are there when it looks, and before the one that asks for something.
                    self.node.process.send_signal(signal.SIGSTOP)
                    for sock in socks:
                        sock.sendall(hello)
                    number = other.request("health")
                    self.node.process.send_signal(signal.SIGCONT)
                    other.result(number)
                    seen.append(self.answered(socks))
                    self.assertTrue(poll(lambda: self.answered(socks) == self.COUNT, 30))
                self.assertTrue(poll(lambda: other.call("stats")["connections"]["open"] == 1))
                if seen[-1] < self.COUNT // 2:
                    break
        self.assertLess(seen[-1], self.COUNT // 2, seen)
        self.node.stop()


class CertificateTest(TlsCase):
    def served(self):
        """The fingerprint that a new connection sees."""
        with self.peer() as peer:
            return hashlib.sha256(peer.socket.getpeercert(binary_form=True)).hexdigest()

    def test_a_certificate_is_reloaded_under_traffic(self):
        poly = self.index([("p", "A" * 3000)], name="poly")
        self.start("--index", "poly=" + poly)
        first = self.served()
        self.assertEqual(first, fingerprint(self.certificate).replace(":", "").lower())
        big = dict(query={"bases": b"A" * 3000}, strand="plus", transitions=False)
        with self.node.peer() as plain:
            want = plain.discover("poly", **big)[0]["digest"]
        with self.peer() as peer:
            job = peer.request("discover", index="poly", **big)
            peer.notices = []
            while not peer.notices:
                peer.notices.append(peer.receive())
            for number in range(3):
                certificate, key = self.ca.sign("renewed-%d" % number)
                os.replace(certificate, self.certificate)
                os.replace(key, self.key)
                self.assertIn("certificate loaded", self.node.reload())
                fresh = self.served()
                self.assertNotEqual(fresh, first)
                self.assertEqual(fresh, fingerprint(self.certificate).replace(":", "").lower())
                first = fresh
            begun = peer.notices
            result, data, _ = peer.anchors(job)
            whole = b"".join(n[2][1] for n in begun) + data
            self.assertEqual(result["digest"], want)
            self.assertEqual(len(whole), 8 * result["anchors"])
            self.assertEqual(xxhash.xxh64(whole).hexdigest(), want)
        self.node.stop()

    def test_a_bad_certificate_leaves_the_old_one(self):
        self.start()
        first = self.served()
        with open(self.certificate, "rb") as file:
            good = file.read()
        other = self.ca.sign("other")[1]
        with open(other, "rb") as file:
            other_key = file.read()
        for path, data, words in (
                (self.certificate, b"garbage", "tls_certificate"),
                (self.certificate, b"", "tls_certificate"),
                (self.certificate, good[:len(good) // 2], "tls_certificate"),
                (self.key, other_key, "tls_key"),
                (self.key, None, "No such file")):
            with open(path, "rb") as file:
                was = file.read()
            if data is None:
                os.unlink(path)
            else:
                hspz_test.write(path, data)
            self.assertRegex(self.node.reload(), "certificate not reloaded.*" + words)
            self.assertEqual(self.served(), first)
            hspz_test.write(path, was)
        self.assertIn("certificate loaded", self.node.reload())

    def test_other_files_wait_for_the_next_start(self):
        self.start()
        first = self.served()
        certificate, key = self.ca.sign("other")
        for changed in ({"tls_key": key}, {"tls_certificate": certificate, "tls_key": key}):
            with open(self.config, encoding="utf-8") as file:
                config = dict(json.load(file), **changed)
            hspz_test.write(self.config, json.dumps(config))
            said = self.node.reload()
            for option in changed:
                self.assertIn("at the next start only key=" + option, said)
            self.assertNotIn("certificate", said.replace("key=tls_certificate", ""))
            self.assertEqual(self.served(), first)

    def test_a_daemon_does_not_start_with_a_bad_certificate(self):
        encrypted, pipe = self.path("encrypted.key"), self.path("pipe")
        os.mkfifo(pipe)
        run(tool("openssl"), "ec", "-in", self.key, "-aes256", "-passout", "pass:x", "-out",
            encrypted)
        for certificate, key, words in ((self.key, self.key, "tls_certificate"),
                                        (self.certificate, self.certificate, "tls_key"),
                                        (self.certificate, encrypted, "tls_key"),
                                        (self.folder, self.key, "tls_certificate"),
                                        (pipe, self.key, "no regular file")):
            for extra in ((), ("--check-config",)):
                done = run(hspz_test.HSPZD, "--socket", self.path("s"), "--listen", "127.0.0.1:0",
                           "--tls-certificate", certificate, "--tls-key", key, *extra,
                           stdin=subprocess.DEVNULL)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(words.encode(), done.stderr)

    def test_a_key_that_all_may_read_is_warned_of(self):
        self.assertEqual(os.stat(self.key).st_mode & 0o777, 0o600)
        self.start()
        self.assertNotIn("everybody", self.node.log())
        os.chmod(self.key, 0o644)
        self.assertRegex(self.node.reload(), "warning .*everybody.*server.key")

    def test_an_expired_certificate_is_served_with_a_warning(self):
        self.certificate, self.key = self.ca.sign("expired", days=-1)
        self.start()
        self.assertRegex(self.node.log(), "warning .*not valid now")
        done = self.client("health", check=1)
        self.assertIn("certificate has expired", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_the_client_verifies_whom_it_talks_to(self):
        foreign = Authority(self.folder, "foreign")
        self.start()
        query = self.file("q.fa", ">q\n%s\n" % self.text[:500])
        want = self.node.client("discover", "ref", query, check=0).stdout
        self.assertGreater(want.count("\n"), 400)
        for host in ("localhost", "127.0.0.1"):
            self.assertEqual(self.client("discover", "ref", query, host=host, check=0).stdout, want)
        tried = (
            (dict(ca=foreign.certificate), "unable to get local issuer|self-signed"),
            (dict(ca=None), "unable to get local issuer|self-signed"),
            (dict(host="127.0.0.2"), "IP address mismatch|cannot|not running|no server"),
        )
        for more, words in tried:
            with self.subTest(more=more):
                done = self.client("discover", "ref", query, check=1, **more)
                self.assertRegex(done.stderr, words)
                self.assertEqual(done.stdout, "")
        done = self.client("--server-name", "elsewhere", "health", check=1)
        self.assertIn("not taken for elsewhere: hostname mismatch", done.stderr)
        self.assertEqual(self.client("--server-name", "localhost", "health", host="127.0.0.1",
                                     check=0).stdout.split("\n")[0], "state: ready")
        # The token is not shown to a server that is not the one.
        self.assertEqual(self.node.log().count("unauthorized"), 0)

    def test_certificates_of_the_wrong_name_or_kind_are_refused(self):
        for extension, host in (("subjectAltName=DNS:other.example", "localhost"),
                                ("subjectAltName=DNS:localhost", "127.0.0.1"),
                                ("subjectAltName=DNS:*", "localhost"),
                                ("extendedKeyUsage=clientAuth\n" + NAMES, "localhost")):
            with self.subTest(extension=extension):
                self.certificate, self.key = self.ca.sign("odd", extension)
                self.start()
                done = self.client("health", host=host, check=1)
                self.assertRegex(done.stderr, "not taken for %s: (hostname mismatch|IP address "
                                 "mismatch|unsuitable certificate purpose|.*purpose)" % host)
                self.node.stop()

    def test_a_client_that_is_told_certificates_speaks_tls_or_fails(self):
        self.start()
        for args in (["--ca", self.ca.certificate], ["--server-name", "x"],
                     ["--certificate", self.certificate, "--key", self.key]):
            done = client(*args, "health", server=self.node.server, check=1)
            self.assertIn("certificates are for tls: addresses", done.stderr)
        for args, words in ((["--certificate", self.certificate], "need each other"),
                            (["--certificate", self.path("none"), "--key", self.key],
                             "none: cannot read the certificate"),
                            (["--certificate", self.key, "--key", self.key], "server.key")):
            self.assertIn(words, self.client(*args, "health", check=1).stderr)
        done = self.client("health", ca=self.path("none"), check=1)
        self.assertIn("none: cannot read the certificates", done.stderr)
        done = self.client("health", ca=self.key, check=1)
        self.assertIn("server.key", done.stderr)

    def test_the_wrong_kind_of_server_is_told(self):
        self.start()
        done = client("health", server="tcp:127.0.0.1:%d" % self.where[1], check=1)
        self.assertIn("closed the connection (if it speaks TLS: tls:127.0.0.1:%d)" % self.where[1],
                      done.stderr)
        plain = self.daemon("--listen", "127.0.0.1:0", socket_path=self.path("plain.sock"))
        done = self.client("health", port=plain.port(), check=1)
        self.assertRegex(done.stderr, "TLS: |closed the connection")


class ReadmeTest(TlsCase):
    """What README.md says of tenants, tokens and TLS, typed as it stands there."""

    def section(self):
        with open(os.path.join(hspz_test.SOURCE, "README.md"), encoding="utf-8") as file:
            return file.read().split("### Who may use it")[1].split("\n## ")[0]

    def test_the_configuration_and_the_token_are_good(self):
        section = self.section()
        config = json.loads(re.search(r"\n    \{\n.*?\n    \}\n", section, re.S).group(0))
        recipe = re.search(r"\n    (\(umask.*)\n", section).group(1)
        digest = run("bash", "-c", recipe, cwd=self.folder).stdout.decode().split()[0]
        self.assertEqual(os.stat(self.path("token")).st_mode & 0o777, 0o600)
        config.update(listen=["127.0.0.1:0"], tls_certificate=self.certificate, tls_key=self.key)
        config["tenants"][0]["uids"].append(os.getuid() or 1)
        config["tenants"][2]["token_sha256"] = digest
        self.node = self.daemon(config=config, indexes={"pylori": self.good})
        self.where = ("127.0.0.1", self.node.port())
        done = self.client("--token-file", self.path("token"), "-v", "index", "list", token=None,
                           check=0)
        self.assertIn("pylori", done.stdout)
        self.assertIn("tenant pipeline", done.stderr)
        self.node.stop()


class ClientCertificateTest(TlsCase):
    def setUp(self):
        super().setUp()
        self.mine = self.ca.sign("alice", "extendedKeyUsage=clientAuth")
        self.unnamed = self.ca.sign("bob", "extendedKeyUsage=clientAuth")
        self.late = self.ca.sign("late", "extendedKeyUsage=clientAuth", days=-1)
        self.foreign = Authority(self.folder, "foreign").sign("alice2")
        self.start(tls_client_ca=self.ca.certificate, tenants=[
            {"name": "alice", "certificate_sha256": fingerprint(self.mine[0])},
            {"name": "late", "certificate_sha256": [fingerprint(self.late[0])]},
            {"name": "foreign", "certificate_sha256": fingerprint(self.foreign[0])}])

    def test_a_certificate_names_a_tenant(self):
        with self.peer(token=None, own=self.mine) as peer:
            self.assertEqual(peer.welcome["tenant"], "alice")
        with self.peer(own=self.mine) as peer:  # a token is shown on purpose
            self.assertEqual(peer.welcome["tenant"], "lab")
        with self.peer() as peer:
            self.assertEqual(peer.welcome["tenant"], "lab")
        done = self.client("--certificate", self.mine[0], "--key", self.mine[1], "-v", "discover",
                           "ref", self.path("ref.fa"), token=None, check=0)
        self.assertIn("tenant alice", done.stderr)
        self.assertGreater(done.stdout.count("\n"), 2900)

    def test_others_are_refused(self):
        with self.assertRaisesRegex(RpcError, "the certificate is none of"):
            self.peer(token=None, own=self.unnamed)
        with self.assertRaisesRegex(RpcError, "asks for a token or certificate"):
            self.peer(token=None)
        with self.assertRaisesRegex(RpcError, "the token is none of"):
            self.peer(token="wrong", own=self.mine)
        for own, words in ((self.late, "certificate expired"),
                           (self.foreign, "unknown ca")):
            with self.assertRaises((ssl.SSLError, EOFError, ConnectionError)):
                self.peer(token=TOKEN, own=own)
            done = self.client("--certificate", own[0], "--key", own[1], "health", check=1)
            self.assertIn(words, done.stderr)
        self.serves()

    def test_a_revoked_certificate_is_refused_after_a_reload(self):
        with open(self.config, encoding="utf-8") as file:
            config = json.load(file)
        with self.peer(token=None, own=self.mine) as peer:
            config["tenants"] = [t for t in config["tenants"] if t["name"] != "alice"]
            hspz_test.write(self.config, json.dumps(config))
            self.node.reload()
            self.assert_code(peer.error("health"), "unauthorized")
        with self.assertRaisesRegex(RpcError, "the certificate is none of"):
            self.peer(token=None, own=self.mine)


class CutTest(TlsCase):
    def test_a_stream_that_is_cut_is_a_failure(self):
        """Without TLS's own notice of an end, as whoever cuts the line could."""
        poly = self.index([("p", "A" * 3000)], name="poly")
        self.start("--index", "poly=" + poly)
        query = self.file("q.fa", ">q\n%s\n" % ("A" * 3000))
        listener = socket.create_server(("127.0.0.1", 0))

        def cut():
            with listener.accept()[0] as near, socket.create_connection(self.where) as far:
                passed = [0]

                def forward():
                    with contextlib.suppress(OSError):
                        while data := near.recv(65536):
                            far.sendall(data)
                thread = threading.Thread(target=forward)
                thread.start()
                while passed[0] < 5000000 and (data := far.recv(65536)):
                    near.sendall(data)
                    passed[0] += len(data)
                near.shutdown(socket.SHUT_RDWR)
                thread.join()
        thread = threading.Thread(target=cut)
        thread.start()
        out = self.path("out.tsv")
        done = self.client("discover", "poly", query, "--strand", "plus", "--no-transitions", "-o",
                           out, port=listener.getsockname()[1], check=1)
        thread.join()
        listener.close()
        self.assertIn("closed the connection", done.stderr)
        self.assertFalse(os.path.exists(out))
        self.assertTrue(poll(lambda: self.idle()))

    def idle(self):
        with self.node.peer() as peer:
            return peer.call("health")["jobs"] == 0

    def test_storm_of_connections_that_come_and_go(self):
        self.start("--hello-timeout-ms", "10000")
        want = hspz_test.discover([("r", self.text)], [("q", self.text[:300])])
        stop = time.monotonic() + 3
        bad, good = [], [0]

        def play(seed):
            rng = random.Random(seed)
            while time.monotonic() < stop or (good[0] <= 20 and not bad and
                                              time.monotonic() < stop + 20 * SLOWER):
                kind = rng.randrange(5)
                try:
                    if kind == 0:
                        with socket.create_connection(self.where) as sock:
                            sock.sendall(b"\x16" + rng.randbytes(rng.randrange(400)))
                    elif kind == 1:
                        peer = self.peer()
                        peer.request("discover", index="ref",
                                     query={"bases": self.text.encode()})
                        peer.reset()
                    else:
                        with self.peer() as peer:
                            data = peer.discover(
                                "ref", query={"bases": self.text[:300].encode()})[1]
                            good[0] += 1
                            if data != want:
                                bad.append(len(data))
                except (OSError, EOFError) as why:
                    if kind > 1:
                        bad.append(why)
        threads = [threading.Thread(target=play, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(bad, [])
        self.assertGreater(good[0], 20)
        self.assertTrue(poll(lambda: self.idle()))
        self.assertEqual(self.node.stop(), 0)


@unittest.skipIf(hspz_test.SANITIZED, "a preloaded library")
class MemoryTest(TlsCase):
    LIBRARY = os.path.join(hspz_test.BUILD, "tests", "system", "fail_alloc.so")

    def test_a_daemon_lives_through_each_failing_allocation(self):
        """One connection with TLS and one job, with one allocation failing at a time."""
        want = hspz_test.discover([("r", self.text)], [("q", self.text[:400])])
        rng = random.Random(4)
        total = self.counted_run(0, want)
        self.assertGreater(total, 1000)
        served = 0
        for number in sorted(rng.sample(range(1, total + 1), 60)):
            served += self.counted_run(number, want) > 0
        self.assertGreater(served, 20)

    def counted_run(self, number, want):
        """How many allocations were seen; 0 when the daemon ended by itself."""
        count = self.path("count")
        self.start_with(hspz_test.child_env(LD_PRELOAD=self.LIBRARY, HSPZ_FAIL_ALLOC=str(number),
                                            HSPZ_ALLOC_COUNT=count))
        poll(lambda: " ready" in self.node.log() or not self.node.alive(), 20)
        if self.node.alive():
            self.where = ("127.0.0.1", self.node.port())
            data = poll(lambda: self.ask(), 10)
            what = "allocation %d: %s" % (number, self.node.log())
            self.assertEqual(data, want, what)
            self.node.stop()
            with open(count, encoding="ascii") as file:
                return int(file.read())
        self.assertIn(self.node.process.returncode, (1, -6), self.node.log())
        return 0

    def start_with(self, env):
        config = {"listen": ["127.0.0.1:0"], "tls_certificate": self.certificate,
                  "tls_key": self.key, "tenants": [{"name": "lab", "token_sha256": hashlib.sha256(
                      TOKEN.encode()).hexdigest()}]}
        self.node = self.daemon(config=config, indexes={"ref": self.good}, wait=False, env=env)

    def ask(self):
        try:
            with self.peer(timeout=10) as peer:
                return peer.discover("ref", query={"bases": self.text[:400].encode()})[1]
        except (OSError, EOFError, RpcError):
            return None

    def test_a_client_fails_well_whatever_allocation_fails(self):
        self.start()
        command = [hspz_test.CLIENT, "--server", "tls:localhost:%d" % self.where[1], "--ca",
                   self.ca.certificate, "health"]
        count = self.path("count")

        def once(number):
            return run(*command, env=hspz_test.child_env(
                LD_PRELOAD=self.LIBRARY, HSPZ_FAIL_ALLOC=str(number), HSPZ_ALLOC_COUNT=count,
                HSPZ_TOKEN=TOKEN))
        self.assertEqual(once(0).returncode, 0)
        with open(count, encoding="ascii") as file:
            total = int(file.read())
        failed = 0
        for number in sorted(random.Random(2).sample(range(1, total + 1), 150)):
            done = once(number)
            self.assertIn(done.returncode, (0, 1), (number, done))
            failed += done.returncode == 1
            if done.returncode == 1:
                self.assertTrue(done.stderr.strip(), number)
            else:
                self.assertIn(b"state: ready", done.stdout)
        self.assertGreater(failed, 10)


if __name__ == "__main__":
    hspz_test.main()
