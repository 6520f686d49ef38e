"""What it costs to hand anchors to a client on the same machine, by transport and encoding: processor seconds per GB of
packed anchors, of the daemon's loop (its other threads are the engine) and of all of hspz-client, and the rate against the
stream's. Rounds of all ways in turn; medians.

    tests/bench/transport_cost.py [ROUNDS]

HSPZ_BUILD names the build folder. Nothing is checksummed, and the client writes to /dev/null."""

import os
import resource
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import hspz_test  # noqa: E402

POLY = 12000
WAYS = [(transport, encoding) for encoding in ("packed", "columnar")
        for transport in ("stream", "shm")]


def loop_seconds(daemon):
    """On a processor, of the thread that serves the sockets."""
    with open("/proc/%d/task/%d/schedstat" % (daemon.pid, daemon.pid), encoding="ascii") as file:
        return int(file.read().split()[0]) / 1e9


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def discover(daemon, query, transport, encoding):
    """(loop seconds, client seconds, seconds)"""
    loop, client, begin = loop_seconds(daemon), children_seconds(), time.perf_counter()
    daemon.client("discover", "r", query, "--strand", "plus", "--no-transitions", "--no-digest",
                  "--format", "packed", "-o", "/dev/null", "--transport", transport, "--encoding",
                  encoding, check=0)
    return (loop_seconds(daemon) - loop, children_seconds() - client, time.perf_counter() - begin)


def median(values):
    return sorted(values)[len(values) // 2]


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        source = hspz_test.write(os.path.join(folder, "r.fa"), ">r\n" + "A" * POLY + "\n")
        query = hspz_test.write(os.path.join(folder, "q.fa"), ">q\n" + "A" * POLY + "\n")
        index = hspz_test.build_index(source, os.path.join(folder, "r.hspz"))
        daemon = hspz_test.Daemon(folder, indexes={"r": index})
        try:
            with daemon.peer() as peer:
                begun = peer.call("stats")["anchors"]
            discover(daemon, query, *WAYS[0])
            with daemon.peer() as peer:
                gigabytes = (peer.call("stats")["anchors"] - begun) * 8 / 1e9
            times = {way: [] for way in WAYS}
            for _ in range(rounds):
                for way in WAYS:
                    times[way].append(discover(daemon, query, *way))
        finally:
            daemon.stop()
    print("%.2f GB of packed anchors, %d rounds" % (gigabytes, rounds))
    print("%-8s %-9s %12s %12s %12s %10s %8s" % ("", "", "loop s/GB", "client s/GB", "both s/GB",
                                               "to stream", "rate"))
    for transport, encoding in WAYS:
        own, stream = times[transport, encoding], times["stream", encoding]
        loop, client = (median([t[i] for t in own]) / gigabytes for i in (0, 1))
        both = [median([t[0] + t[1] for t in each]) for each in (own, stream)]
        print("%-8s %-9s %12.4f %12.4f %12.4f %10.3f %8.2f" % (
            transport, encoding, loop, client, loop + client, both[0] / both[1],
            median([t[2] for t in stream]) / median([t[2] for t in own])))


main()
