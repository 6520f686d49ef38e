"""Many connections, a fifth of them at work: every answer right, nobody dropped, memory flat. The long
form is in test_long.py."""

import hspz_test
from hspz_test import poll
from load import Load


class LoadTest(hspz_test.TestCase):
    def test_two_hundred_connections_for_some_seconds(self):
        load = Load(self)
        daemon = self.daemon("--lanes", "2", indexes=load.files)
        jobs = load.run(daemon, connections=200, active=40, seconds=6)
        self.assertGreater(jobs, 100)
        with daemon.peer() as peer:
            self.assertTrue(poll(lambda: peer.call("stats")["connections"]["open"] == 1))
        self.assertLess(daemon.fds(), 40)
        daemon.stop()


if __name__ == "__main__":
    hspz_test.main()
