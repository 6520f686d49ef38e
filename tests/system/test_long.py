"""What takes minutes or gigabytes: `tests/run.sh --long`, results noted in tests/bench/NOTES.md."""

import random
import threading
import time

import hspz_test
from hspz_test import CLIENT, SHAPE_12OF19, Relay, bases, child_env, fasta
from lastz import keys_of, lastz_command

POLY = 70000


class LongTest(hspz_test.TestCase):
    def test_ecoli_tsv_gives_what_lastz_gives(self):
        import numpy
        ref = self.file("ref.fa", fasta(hspz_test.read_fasta(hspz_test.mg1655())))
        query = self.file("query.fa", fasta(hspz_test.read_fasta(hspz_test.nc_008253())))
        index = hspz_test.build_index(ref, self.path("ref.hspz"), "--unmask", "--all-positions")
        daemon = self.daemon(indexes={"ecoli": index}, threads=2)
        got = keys_of([CLIENT, "--server", daemon.server, "discover", "ecoli", query, "--unmask"],
                      (2, 5, 7), env=child_env())
        want = keys_of(lastz_command(ref, query, SHAPE_12OF19, True, 1, True,
                                     "zstart1,zstart2+,strand2"), (1, 2, 3))
        self.assertEqual(len(want), 53743981)
        self.assertTrue(numpy.array_equal(got, want))

    def test_a_mute_server_is_given_up_without_being_told(self):
        with Relay(self.path("mute.sock"), lambda c: c.recv(1)) as relay:
            begin = time.monotonic()
            hspz_test.client("index", "list", server=relay.server, check=1)
            self.assertLess(time.monotonic() - begin, 45)

    def test_weight_15_finds_poly_t(self):
        # The word of poly-T at weight 15 is 0x3FFFFFFF: no sentinel may stand in its way.
        shape = "1" * 15
        text = "T" * 40
        index = self.index([("t", "A" + text)], "--seed", shape, "--all-positions")
        daemon = self.daemon(indexes={"t": index})
        with daemon.peer() as peer:
            result, _, _ = peer.discover("t", query={"bases": text.encode()}, strand="plus",
                                         transitions=False)
        self.assertEqual(result["anchors"], 26 * 26)
        daemon.stop()

    def test_four_thousand_million_hits_stream_whole(self):
        # Just under what 32 bits hold, in parts, through a reader that only counts.
        index = self.index([("a", "A" * 65000)], "--all-positions")
        daemon = self.daemon(indexes={"a": index}, threads=2)
        with daemon.peer(timeout=600) as peer:
            number = peer.request("discover", {"index": "a", "query": {"bases": b"A" * 65000},
                                               "strand": "plus", "transitions": False})
            came = 0
            while True:
                message = peer.receive()
                if message[0] == 1:
                    self.assertEqual(message[1], number)
                    self.assertIsNone(message[2])
                    break
                came += len(message[2][1]) // 8
            self.assertEqual(came, 64982 ** 2)
            self.assertEqual(message[3]["anchors"], 64982 ** 2)
            self.assertLess(daemon.peak_mib(), 400)
        daemon.stop()

    def test_twenty_deaf_clients_for_a_minute(self):
        index = self.index([("a", "A" * 20000)], name="poly")
        small = self.index([("s", bases(random.Random(1), 300))], name="small")
        daemon = self.daemon("--write-timeout-ms", "20000",
                             indexes={"poly": index, "small": small})
        deaf = [daemon.peer() for _ in range(20)]
        for peer in deaf:
            peer.request("discover", {"index": "poly", "query": {"bases": b"A" * 20000},
                                      "strand": "plus", "transitions": False})
        end, slowest = time.monotonic() + 60, 0
        with daemon.peer() as other:
            while time.monotonic() < end:
                begin = time.monotonic()
                other.call("discover", index="small", seeds=b"")
                slowest = max(slowest, time.monotonic() - begin)
                time.sleep(0.05)
        self.assertLess(slowest, 1)
        self.assertLess(daemon.peak_mib(), 500)
        for peer in deaf:
            self.assertTrue(peer.closed())
        daemon.stop()

    def test_slow_reader_for_a_minute(self):
        index = self.index([("a", "A" * 20000)], name="poly")
        daemon = self.daemon(indexes={"poly": index})
        with daemon.peer() as slow:
            slow.request("discover", {"index": "poly", "query": {"bases": b"A" * 20000},
                                      "strand": "plus", "transitions": False})
            end = time.monotonic() + 60
            while time.monotonic() < end:
                self.assertTrue(slow.socket.recv(1 << 17))
                time.sleep(0.125)
        self.assertLess(daemon.peak_mib(), 250)
        daemon.stop()

    def test_ten_thousand_whole_conversations_from_eight_sides(self):
        small = self.index([("s", bases(random.Random(1), 300))], name="small")
        daemon = self.daemon(indexes={"small": small}, threads=2)
        with daemon.peer() as peer:
            peer.call("health")
        fds, errors = daemon.fds(), []

        def talk():
            for _ in range(1250):
                try:
                    with daemon.peer() as peer:
                        peer.discover("small", seeds=b"")
                except Exception as error:  # told by the main thread
                    errors.append(error)

        threads = [threading.Thread(target=talk) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.assertTrue(hspz_test.poll(lambda: daemon.fds() <= fds))
        self.assertLess(daemon.peak_mib(), 200)
        daemon.stop()


if __name__ == "__main__":
    hspz_test.main()
