"""What only a card can show: it is lost in earnest, named in all ways, full, or short of pinned memory.

Runs from a bundle (tests/gpu/device.sh) or a build with the CUDA engine; skips without a card."""

import contextlib
import ctypes
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "system"))
import hspz_test  # noqa: E402
from hspz_test import bases, child_env  # noqa: E402

LOST = os.path.join(hspz_test.BUILD, "tests", "gpu", "lost_hspzd")
OLD = os.path.join(hspz_test.BUILD, "tests", "gpu", "old_hspzd")
LOSE_CAP = 4099


def cards():
    """UUIDs of the visible cards."""
    tool = shutil.which("nvidia-smi")
    said = subprocess.run([tool, "-L"], capture_output=True, text=True,
                          check=False).stdout if tool else ""
    return re.findall(r"UUID: (GPU-[0-9a-f-]+)", said)


class Driver:
    """The driver's interface, as far as holding memory goes."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(self.device), 0)
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.device)
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name, *args):
        code = getattr(self.lib, name)(*args)
        if code != 0:
            raise OSError("%s: %d" % (name, code))

    def free_and_all(self):
        free, all_bytes = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(all_bytes))
        return free.value, all_bytes.value

    @contextlib.contextmanager
    def hold(self, leave):
        """All of the card's free memory but `leave` bytes."""
        held = []
        try:
            while True:
                free, _ = self.free_and_all()
                size = min(1 << 33, free - leave)
                if size < 1 << 24:
                    break
                at = ctypes.c_uint64()
                self.call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(size))
                held.append(at)
            yield
        finally:
            for at in held:
                self.call("cuMemFree_v2", at)


class CardTest(hspz_test.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.uuids = cards()
        if not cls.uuids:
            if "gpu" in hspz_test.REQUIRED:
                raise AssertionError("HSPZ_REQUIRE names gpu, but there is no card")
            raise unittest.SkipTest("no card")
        hspz_test.ENGINE = "cuda"

    def setUp(self):
        super().setUp()
        self.addCleanup(setattr, hspz_test, "HSPZD", hspz_test.HSPZD)
        self.ref = [("r", bases(random.Random(3), 30000))]
        self.query = self.ref[0][1][:9000]
        self.want = hspz_test.discover(self.ref, [("q", self.query)], transitions=False,
                                       strand="plus")
        self.small = self.index(self.ref)

    def params(self, cap=1 << 20):
        return {"query": {"bases": self.query.encode()}, "strand": "plus", "transitions": False,
                "max_hits": cap}

    def assert_serves(self, daemon):
        with daemon.peer() as peer:
            self.assert_same_anchors(peer.discover("ref", **self.params())[1], self.want)

    def refused(self, *args, env=None):
        """What hspzd says when it does not start."""
        done = subprocess.run([hspz_test.HSPZD, "--engine", "cuda", "--socket", self.path("s"),
                               "--index", "ref=" + self.small, *args], env=env or child_env(),
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertNotIn(done.returncode, (0, 2), done)
        self.assertGreater(done.returncode, 0, done)
        self.assertFalse(os.path.exists(self.path("s")))
        return done.stderr

    # C01

    def test_an_illegal_access_ends_its_job_health_and_the_process(self):
        hspz_test.HSPZD = LOST
        daemon = self.daemon(indexes={"ref": self.small}, env=child_env(
            HSPZ_LOSE_CAP=str(LOSE_CAP), HSPZ_LOSE_PART="1"))
        self.assert_serves(daemon)
        with daemon.peer() as peer, daemon.peer() as other:
            begin = time.monotonic()
            error = peer.error("discover", dict(self.params(LOSE_CAP), index="ref"))
            self.assert_code(error, "device_error", "illegal memory access")
            try:
                self.assertNotEqual(other.call("health")["state"], "ready")
            except (OSError, EOFError):
                pass
            self.assertEqual(daemon.process.wait(10), 75, daemon.log())
            self.assertLess(time.monotonic() - begin, 6)
        self.assertRegex(daemon.log(), "(?m)^.*illegal memory access.*$")
        # What the supervisor does next works.
        hspz_test.HSPZD = os.path.join(hspz_test.BUILD, "daemon", "hspzd")
        self.assert_serves(self.daemon(indexes={"ref": self.small}))

    # C10

    def test_cards_are_named_by_number_and_uuid_as_cuda_does(self):
        uuid = self.uuids[0]
        for visible in (uuid, uuid[:12], "0"):
            daemon = self.daemon(indexes={"ref": self.small},
                                 env=child_env(CUDA_VISIBLE_DEVICES=visible))
            self.assert_serves(daemon)
            daemon.stop()
        for device in (uuid, uuid[:12], "0"):
            daemon = self.daemon("--devices", device, indexes={"ref": self.small})
            self.assert_serves(daemon)
            daemon.stop()

    def test_a_card_that_is_not_there_is_one_clear_line(self):
        for visible in ("MIG-0a1b2c3d-0000-0000-0000-000000000000", "99",
                        "GPU-ffffffff-0000-0000-0000-000000000000", ""):
            said = self.refused(env=child_env(CUDA_VISIBLE_DEVICES=visible))
            self.assertIn("no device is visible", said, visible)
        self.assertIn("'99'", self.refused("--devices", "99"))
        self.assertIn("'MIG-0a1b'", self.refused("--devices", "MIG-0a1b"))

    # C11

    def test_a_neighbour_that_holds_the_card_is_told_at_the_start(self):
        driver = Driver()
        with driver.hold(leave=1100 << 20):
            said = self.refused("--device-memory", "20G")
            self.assertRegex(said, r"21474836480 bytes are asked for, but of \d+ only \d+ are free")
            # An index of weight 14 takes 1 GiB; what fits is served.
            big = self.index(self.ref, "--seed", "14of22", name="big")
            said = self.refused("--index", "big=" + big)
            self.assertRegex(said, r"no memory for \d+ bytes more; .* \d+ of \d+ are free")
            self.assert_serves(self.daemon(indexes={"ref": self.small}))

    def test_a_neighbour_that_comes_later_costs_only_what_needs_memory(self):
        daemon = self.daemon("--index-dir", self.folder, indexes={"ref": self.small})
        self.assert_serves(daemon)
        self.index(self.ref, "--seed", "14of22", name="big")
        driver = Driver()
        with driver.hold(leave=64 << 20), daemon.peer() as peer:
            error = peer.error("discover", dict(self.params(), index="big"))
            self.assert_code(error, "out_of_memory")
            self.assert_serves(daemon)
            self.assertEqual(peer.call("health")["state"], "ready")
        with daemon.peer() as peer:
            peer.discover("big", **self.params())
        self.assert_serves(daemon)
        daemon.stop()

    def test_memory_is_back_after_a_thousand_connections(self):
        daemon = self.daemon("--index-dir", self.folder, indexes={"ref": self.small})
        driver = Driver()

        def round_of(connections, loads):
            for _ in range(connections):
                self.assert_serves(daemon)
            with daemon.peer() as peer:
                for _ in range(loads):
                    peer.call("index.load", index="again", file=self.small)
                    peer.discover("again", **self.params())
                    peer.call("index.unload", index="again")

        round_of(50, 5)
        before, _ = driver.free_and_all()
        round_of(1000, 50)
        after, _ = driver.free_and_all()
        self.assertLessEqual(before - after, 2 << 20)
        daemon.stop()

    # B11

    def test_the_first_query_is_as_quick_as_the_second(self):
        records = [("r", bases(random.Random(11), 20000000))]
        file = self.index(records, name="large")
        try:
            with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as drop:
                drop.write("3\n")
        except OSError:
            pass
        daemon = self.daemon(indexes={"ref": self.small, "large": file})
        params = {"query": {"bases": records[0][1][:200000].encode()}}
        with daemon.peer() as peer:
            peer.discover("ref", **self.params())
            seconds = []
            for _ in range(3):
                begin = time.monotonic()
                peer.discover("large", **params)
                seconds.append(time.monotonic() - begin)
        self.assertLess(seconds[0], 2 * max(seconds[1], 0.02), seconds)
        daemon.stop()

    # E15

    def test_little_pinned_memory_is_no_crash(self):
        for options, limit in (((), 65536), (("--buffer-memory", "0"), None),
                               (("--buffer-memory", "1"), None),
                               (("--buffer-memory", "64G"), None)):
            def lower(limit=limit):
                if limit is not None:
                    resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
            daemon = self.daemon(*options, indexes={"ref": self.small}, preexec_fn=lower)
            self.assert_serves(daemon)
            daemon.stop()

    # E18

    def test_a_build_for_other_cards_says_so(self):
        if not os.path.exists(OLD):
            self.skipTest("no build for other cards")
        hspz_test.HSPZD = OLD
        said = self.refused()
        self.assertRegex(said, r"has compute capability \d+\.\d+; this build is for 8\.0")


if __name__ == "__main__":
    hspz_test.main()
