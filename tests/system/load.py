"""Many connections at once, some of them working: one thread each for a part of them, by select."""

import random
import selectors
import socket
import threading
import time

import msgpack
import xxhash

import hspz_test
from hspz_test import SLOWER, bases


class Worker:
    """One connection that asks for one query after another and checks what comes."""

    def __init__(self, path, load, rng):
        self.load, self.rng = load, rng
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.socket.settimeout(60 * SLOWER)
        self.unpacker = msgpack.Unpacker(max_buffer_size=1 << 26)
        self.number, self.jobs = 1, 0
        self.digest, self.count = None, 0
        self.send("hello", {"protocol": 1, "client": "load"})

    def send(self, method, params):
        self.socket.sendall(msgpack.packb([0, self.number, method, [params]]))

    def ask(self):
        self.number += 1
        self.query = self.rng.randrange(len(self.load.queries))
        self.digest, self.count = xxhash.xxh64(), 0
        self.send("discover", {"index": "r", "query": {"bases": self.load.queries[self.query]}})

    def take(self, message):
        if message[0] == 2:
            head, data = message[2]
            assert head["job"] == self.number, "anchors of job %d" % head["job"]
            assert head["hit_end"] - head["hit_begin"] == len(data) // 8
            self.digest.update(data)
            self.count += len(data) // 8
            return
        assert message[1:3] == [self.number, None], message
        if self.digest is not None:
            want = self.load.expected[self.query]
            got = (self.count, self.digest.hexdigest())
            told = (message[3]["anchors"], message[3]["digest"])
            assert got == told == want, "%s, told %s, expected %s" % (got, told, want)
            self.jobs += 1
        if self.load.over.is_set():
            self.digest = None
        else:
            self.ask()

    def readable(self):
        """False when it is done."""
        data = self.socket.recv(1 << 18)
        assert data, "the server has closed"
        self.unpacker.feed(data)
        for message in self.unpacker:
            self.take(message)
        return not (self.load.over.is_set() and self.digest is None)


class Load:
    def __init__(self, test, seed=1):
        self.test = test
        rng = random.Random(seed)
        text = bases(rng, 20000)
        ref = [("r", text + text[3000:9000])]
        self.queries, self.expected = [], []
        for _ in range(6):
            begin, length = rng.randrange(15000), rng.choice((60, 400, 1500))
            query = text[begin:begin + length]
            want = hspz_test.discover(ref, [("q", query)])
            assert want
            self.queries.append(query.encode())
            self.expected.append((len(want) // 8, xxhash.xxh64(want).hexdigest()))
        self.files = {"r": test.index(ref)}
        self.over = threading.Event()

    def drive(self, workers, failures):
        try:
            with selectors.DefaultSelector() as selector:
                for worker in workers:
                    selector.register(worker.socket, selectors.EVENT_READ, worker)
                left = len(workers)
                while left > 0:
                    ready = selector.select(60 * SLOWER)
                    assert ready, "nothing comes any more"
                    for key, _ in ready:
                        if not key.data.readable():
                            selector.unregister(key.fileobj)
                            left -= 1
        except Exception as error:  # pylint: disable=broad-except
            failures.append(error)

    def run(self, daemon, connections, active, seconds):
        """Jobs done; every answer was right, nobody was dropped, and memory did not grow."""
        test, rng = self.test, random.Random(7)
        idle = [daemon.peer() for _ in range(connections - active)]
        workers = [Worker(daemon.path, self, random.Random(rng.random())) for _ in range(active)]
        failures = []
        threads = [threading.Thread(target=self.drive, args=(workers[i::4], failures))
                   for i in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(seconds / 3)
        warm = daemon.rss_mib()
        time.sleep(seconds * 2 / 3)
        end = daemon.rss_mib()
        self.over.set()
        for thread in threads:
            thread.join()
        test.assertEqual(failures, [])
        jobs = sum(worker.jobs for worker in workers)
        with daemon.peer() as peer:
            def counted():
                stats = peer.call("stats")
                return (stats["jobs"]["ok"], stats["jobs"]["received"], stats["connections"]["open"],
                        stats["memory"]["ingest_bytes"])
            want = (jobs, jobs, connections + 1, 0)
            hspz_test.poll(lambda: counted() == want)
            test.assertEqual(counted(), want)
        # Nobody was forgotten: each has had its turns, and the silent ones are still served.
        test.assertGreater(min(worker.jobs for worker in workers), 0)
        test.assertLess(max(worker.jobs for worker in workers),
                        20 + 10 * sorted(w.jobs for w in workers)[active // 2])
        for peer in idle:
            test.assertEqual(peer.call("health")["state"], "ready")
            peer.close()
        for worker in workers:
            worker.socket.close()
        print("%d connections, %d of them active, %d s: %d jobs, RSS %d MiB, then %d" % (
            connections, active, seconds, jobs, warm, end))
        if not hspz_test.SANITIZED:
            test.assertLess(end, warm * 1.1 + 16, "RSS grew from %d to %d MiB" % (warm, end))
        return jobs
