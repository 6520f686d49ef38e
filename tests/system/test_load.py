"""Many connections, a fifth of them at work: every answer right, nobody dropped, memory flat.

    HSPZ_LOAD_SECONDS=600 python3 tests/system/test_load.py"""

import os

import hspz_test
from hspz_test import SANITIZED, poll
from load import Load

SECONDS = float(os.environ.get("HSPZ_LOAD_SECONDS", "6" if SANITIZED else "20"))
CONNECTIONS, ACTIVE = (200, 40) if SANITIZED else (1000, 200)


class LoadTest(hspz_test.TestCase):
    def test_a_thousand_connections(self):
        load = Load(self)
        daemon = self.daemon("--lanes", "2", "--max-connections", "1100", indexes=load.files)
        jobs = load.run(daemon, connections=CONNECTIONS, active=ACTIVE, seconds=SECONDS)
        self.assertGreater(jobs, 2 * ACTIVE)
        with daemon.peer() as peer:
            self.assertTrue(poll(lambda: peer.call("stats")["connections"]["open"] == 1))
        self.assertLess(daemon.fds(), 40)
        daemon.stop()


if __name__ == "__main__":
    hspz_test.main()
