"""The HTTP listener: what Prometheus and health checks see, read by http.client and by promtool."""

import http.client
import random
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest

import hspz_test
from hspz_test import SLOWER, bases, poll
from shm_peer import ShmPeer


def samples(text):
    """{name: {labels: value}}, the types, by a plain reading of the text format."""
    values, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line[7:].split()
            assert name not in types, name
            types[name] = kind
        elif not line.startswith("#"):
            name, labels, value = re.fullmatch(
                r"([a-z_]+)(?:\{((?:[a-z]+=\"(?:[^\"\\]|\\.)*\",?)*)\})? (\S+)", line).groups()
            labels = tuple(re.findall(r"([a-z]+)=\"((?:[^\"\\]|\\.)*)\"", labels or ""))
            assert labels not in values.setdefault(name, {}), line
            values[name][labels] = float(value)
    return values, types


class MetricsTest(hspz_test.TestCase):
    def start(self, *args, **more):
        daemon = self.daemon("--metrics", "127.0.0.1:0", *args, wait=False, **more)
        found = poll(lambda: re.search(r"metrics address=tcp:127\.0\.0\.1:(\d+)", daemon.log()) or
                     daemon.process.poll() is not None)
        if "built without" in daemon.log():
            raise unittest.SkipTest("built without libmicrohttpd")
        self.assertTrue(found, daemon.log())
        self.port = int(found.group(1))
        daemon.wait_ready()
        return daemon

    def get(self, path, method="GET", body=None, timeout=10):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout * SLOWER)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), dict(answer.getheaders())
        finally:
            connection.close()

    def metrics(self):
        status, text, headers = self.get("/metrics")
        self.assertEqual(status, 200)
        self.assertIn("version=0.0.4", headers["Content-Type"])
        return samples(text)

    def work(self, daemon):
        """Jobs of every end; what stats says after them."""
        with daemon.peer() as peer:
            for _ in range(5):
                peer.call("discover", index="r", query={"bases": self.text.encode()})
            self.assertEqual(peer.error("discover", index="r", query={"bases": b"5"})["code"],
                             "bad_request")
            late = peer.error("discover", index="r", query={"bases": b"A" * 3000}, deadline_ms=1)
            self.assertEqual(late["code"], "deadline_exceeded")
            return peer.call("stats")

    def setUp(self):
        super().setUp()
        self.text = bases(random.Random(5), 4000)
        self.files = {"r": self.index([("r", self.text + "A" * 3000)]),
                      'odd "name\\ é': self.index([("x", "ACGT" * 50)], name="odd")}

    def test_metrics_say_what_stats_says(self):
        daemon = self.start(indexes=self.files)
        stats = self.work(daemon)
        values, types = self.metrics()
        tenant, device = (("tenant", ""),), (("device", "0"),)
        index = (("index", "r"),)
        self.assertIn((("index", 'odd \\"name\\\\ é'),), values["hspz_index_bytes"])
        rows = [("tenant", tenant, stats["tenants"][0]), ("device", device, stats["devices"][0])]
        rows += [("index", index, row) for row in stats["indexes"] if row["index"] == "r"]
        self.assertEqual(len(rows), 3)
        for scope, label, row in rows:
            self.assertEqual((row["received"], row["ok"], row["refused"], row["failed"]),
                             (7, 5, 1, 1))
            name = "hspz_%s_" % scope
            for outcome in ("ok", "refused", "cancelled", "failed"):
                self.assertEqual(values[name + "jobs_total"][label + (("outcome", outcome),)],
                                 row[outcome])
            for metric, key in (("seeds_total", "seeds"), ("hits_total", "hits"),
                                ("records_total", "records"), ("jobs_running", "running"),
                                ("record_bytes_total", "bytes_out"), ("jobs_waiting", "waiting")):
                self.assertEqual(values[name + metric][label], row[key], metric)
            self.assertAlmostEqual(values[name + "device_seconds_total"][label],
                                   row["device_ns"] / 1e9)
            self.assertGreater(row["device_ns"], 0)
            # Buckets are cumulative, and end in the count.
            counts = [values[name + "job_seconds_bucket"][label + (("le", le),)] for le in
                      ["%.17g" % (ms / 1000) for ms in stats["latency_ms"]] + ["+Inf"]]
            self.assertEqual(counts, [sum(row["latency"][:i + 1]) for i in range(len(counts))])
            self.assertEqual((counts[-1], values[name + "job_seconds_count"][label]), (7, 7))
            self.assertGreater(values[name + "job_seconds_sum"][label], 0)
            self.assertEqual(values[name + "job_wait_seconds_count"][label], 7)
        self.assertEqual(values["hspz_requests_total"][(("outcome", "refused"),)],
                         stats["requests"]["refused"])
        self.assertEqual(values["hspz_state"][(("state", "ready"),)], 1)
        self.assertEqual(sum(values["hspz_state"].values()), 1)
        self.assertEqual(types["hspz_tenant_job_seconds"], "histogram")
        daemon.stop()

    def test_metrics_say_what_goes_through_shared_memory(self):
        daemon = self.start(indexes=self.files)
        with ShmPeer(daemon.path) as peer:
            _, data, parts = peer.discover("r", transport="shm",
                                           query={"bases": peer.put(self.text.encode())})
            stats = peer.call("stats")["shm"]
            values, types = self.metrics()
        self.assertEqual((stats["bytes_in"], stats["bytes_out"], stats["parts"], stats["rings"]),
                         (len(self.text), len(data), len(parts), 1))
        for name, key in (("rings", "rings"), ("rings_limit", "limit"), ("opened_total", "opened"),
                          ("refused_total", "refused"), ("parts_total", "parts"),
                          ("sent_bytes_total", "bytes_out"), ("waits_total", "waits"),
                          ("received_bytes_total", "bytes_in")):
            self.assertEqual(values["hspz_shm_" + name][()], stats[key], name)
            self.assertEqual(types["hspz_shm_" + name],
                             "counter" if name.endswith("_total") else "gauge")
        self.assertEqual(values["hspz_shm_wait_seconds_total"][()] * 1000 // 1, stats["waited_ms"])
        daemon.stop()

    @unittest.skipIf(shutil.which("promtool") is None, "no promtool")
    def test_promtool_finds_nothing_to_say(self):
        daemon = self.start(indexes=self.files)
        self.work(daemon)
        _, text, _ = self.get("/metrics")
        self.assertGreater(len(text), 5000)
        done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True,
                              capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        daemon.stop()

    def test_health_follows_the_state(self):
        daemon = self.start(indexes={"r": self.files["r"]})
        self.assertEqual(self.get("/healthz")[:2], (200, "ready\n"))
        with daemon.peer() as peer:
            # A job whose reader sleeps keeps the drain from its end.
            peer.request("discover", index="r", query={"bases": b"A" * 3000})
            self.assertTrue(poll(lambda: self.metrics()[0]["hspz_jobs"][()] == 1))
            daemon.process.send_signal(signal.SIGTERM)
            self.assertTrue(poll(lambda: self.get("/healthz")[:2] == (503, "draining\n")))
        self.assertEqual(daemon.process.wait(20 * SLOWER), 0)

    def test_it_answers_again_after_the_process_stood_still(self):
        daemon = self.start()
        self.assertEqual(self.get("/healthz")[0], 200)
        daemon.process.send_signal(signal.SIGSTOP)
        with self.assertRaises(OSError):
            self.get("/healthz", timeout=1)
        daemon.process.send_signal(signal.SIGCONT)
        self.assertTrue(poll(lambda: self.get("/healthz")[0] == 200))
        daemon.stop()

    def test_other_requests_are_refused_and_harm_nothing(self):
        daemon = self.start()
        self.assertEqual(self.get("/")[0], 404)
        self.assertEqual(self.get("/metrics/../x")[0], 404)
        self.assertEqual(self.get("/metrics", "POST", b"x" * 100000)[0], 405)
        self.assertEqual(self.get("/metrics", "HEAD")[:2], (200, ""))
        for junk in (b"\x00" * 5000, b"GET " + b"/" * 100000 + b" HTTP/1.1\r\n\r\n", b"\x94\x00\x01"):
            with socket.create_connection(("127.0.0.1", self.port)) as connection:
                try:
                    connection.sendall(junk)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(4096):
                        pass
                except OSError:
                    pass
        # Silent ones take only what is theirs.
        silent = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(40)]
        with daemon.peer() as peer:
            self.assertEqual(peer.call("health")["state"], "ready")
        self.assertLess(daemon.fds(), 60)
        for connection in silent:
            connection.close()
        self.assertTrue(poll(lambda: self.get("/healthz")[0] == 200))
        daemon.stop()

    def test_scrapes_while_it_works_and_ends(self):
        import threading
        daemon = self.start(indexes=self.files)
        over, seen, failures = threading.Event(), [0], []

        def scrape():
            while not over.is_set():
                try:
                    seen[0] += self.get("/metrics")[0] == 200
                except OSError:
                    if not over.is_set():
                        failures.append("refused")
                        return
        threads = [threading.Thread(target=scrape) for _ in range(3)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 2
        while not failures and (time.monotonic() < end or (
                seen[0] <= 10 and time.monotonic() < end + 20 * SLOWER)):
            self.work(daemon)
        over.set()
        daemon.stop()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertGreater(seen[0], 10)

    def test_addresses_are_checked_and_named(self):
        for wrong, words in (("x", "HOST:PORT"), ("192.0.2.1:9", "to metrics with insecure")):
            daemon = self.daemon("--metrics", wrong, wait=False)
            self.assertNotEqual(daemon.process.wait(10 * SLOWER), 0)
            if "built without" in daemon.log():
                raise unittest.SkipTest("built without libmicrohttpd")
            self.assertIn("metrics: ", daemon.log())
            self.assertIn(words, daemon.log())
        daemon = self.start()
        second = self.daemon("--metrics", "127.0.0.1:%d" % self.port, wait=False,
                             socket_path=self.path("second"))
        self.assertEqual(second.process.wait(10 * SLOWER), 1)
        self.assertIn(str(self.port), second.log())
        daemon.stop()


if __name__ == "__main__":
    hspz_test.main()
