"""What it costs to hand anchors to a client on the same machine, by transport and encoding: processor seconds per GB of
packed anchors, of the daemon's loop (its other threads are the engine) and of all of hspz-client, the rate against the
stream's, GB of payload a second beside what a bare socket of the kind carries, and anchors a second, also beside those of
packed ones. Rounds of all ways in turn; medians. `columnar` is columns as they come, `unpacked` columns of which the client makes
packed anchors.

    tests/bench/transport_cost.py [ROUNDS [BASES]]

HSPZ_BUILD names the build folder; HSPZ_TEST_ENGINE and HSPZ_TEST_OPTIONS as for the system tests. Poly-A of so many BASES (12000;
36000 are enough for a card) has their square in anchors. Nothing is checksummed, and the client writes to /dev/null. Its
start and the upload of the query count too."""

import os
import resource
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import hspz_test  # noqa: E402

WAYS = [(transport, form) for form in ("packed", "columnar", "unpacked")
        for transport in (("stream", "shm", "tcp") if form != "unpacked" else ("stream", "shm"))]
OPTIONS = {"packed": ("--format", "packed"), "columnar": ("--format", "columns"),
           "unpacked": ("--format", "packed", "--encoding", "columnar")}
PIECE = 1 << 20


def loop_seconds(daemon):
    """On a processor, of the thread that serves the sockets."""
    with open("/proc/%d/task/%d/schedstat" % (daemon.pid, daemon.pid), encoding="ascii") as file:
        return int(file.read().split()[0]) / 1e9


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def bus_gigabytes():
    """A second, from the card to pinned memory: stream_bench begins with it. None where there is none."""
    program = os.path.join(hspz_test.BUILD, "tests", "bench", "stream_bench")
    if hspz_test.ENGINE != "cuda" or not os.path.exists(program):
        return None
    with subprocess.Popen(["stdbuf", "-oL", program, "--bases", "1000000"], stdout=subprocess.PIPE,
                          text=True) as bench:
        line = bench.stdout.readline()
        bench.kill()
    return float(line.split(",")[-1]) if line.startswith("bus,") else None


def bare_gigabytes(family, total=4 << 30):
    """A second, through a socket between two processes that do nothing else."""
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind("" if family == socket.AF_UNIX else ("127.0.0.1", 0))
        listener.listen(1)
        pid = os.fork()
        if pid == 0:
            with socket.socket(family, socket.SOCK_STREAM) as sender:
                sender.connect(listener.getsockname())
                piece = bytes(PIECE)
                for _ in range(total // PIECE):
                    sender.sendall(piece)
            os._exit(0)
        taker, _ = listener.accept()
        room, got, begin = bytearray(PIECE), 0, time.perf_counter()
        with taker:
            while got < total:
                got += taker.recv_into(room)
        took = time.perf_counter() - begin
        os.waitpid(pid, 0)
    return total / took / 1e9


def discover(daemon, query, transport, form):
    """(loop seconds, client seconds, seconds)"""
    loop, client, begin = loop_seconds(daemon), children_seconds(), time.perf_counter()
    server = "tcp:127.0.0.1:%d" % daemon.port() if transport == "tcp" else daemon.server
    hspz_test.client("discover", "r", query, "--strand", "plus", "--no-transitions", "--no-digest",
                     "-o", "/dev/null", "--transport", "stream" if transport == "tcp" else transport,
                     *OPTIONS[form], server=server, check=0)
    return (loop_seconds(daemon) - loop, children_seconds() - client, time.perf_counter() - begin)


def median(values):
    return sorted(values)[len(values) // 2]


def print_table(times, anchors, bare, bus, start):
    """A row for each way. `net` is without the time of a query that has no anchors; `packed` is a ratio of such."""
    gigabytes = 8 * anchors / 1e9
    print("%-8s %-8s %8s %7s %7s %7s %7s %7s %11s %11s %9s %9s" % (
        "", "", "G anch/s", "net", "packed", "GB/s", "bare", "bus", "loop s/GB", "client s/GB", "both",
        "stream's"))
    for transport, form in WAYS:
        own, stream = times[transport, form], times["stream", form]
        loop, client = (median([t[i] for t in own]) / gigabytes for i in (0, 1))
        both = [median([t[0] + t[1] for t in each]) / gigabytes for each in (own, stream)]
        took = median([t[2] for t in own])
        packed = (median([t[2] for t in times[transport, "packed"]]) - start) / (took - start)
        rate = gigabytes / took * (1 if form == "packed" else 0.5)
        to_bare = "%.2f" % (rate / bare[transport]) if transport in bare else ""
        to_bus = "%.3f" % (rate / bus) if bus is not None else ""
        print("%-8s %-8s %8.3f %7.3f %7.2f %7.2f %7s %7s %11.4f %11.4f %9.4f %9.3f" % (
            transport, form, anchors / took / 1e9, anchors / (took - start) / 1e9, packed, rate, to_bare, to_bus, loop, client,
            both[0], both[0] / both[1]))


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    bases = int(sys.argv[2]) if len(sys.argv) > 2 else 12000
    bus = bus_gigabytes()
    bare = {"stream": bare_gigabytes(socket.AF_UNIX), "tcp": bare_gigabytes(socket.AF_INET)}
    with tempfile.TemporaryDirectory() as folder:
        source = hspz_test.write(os.path.join(folder, "r.fa"), ">r\n" + "A" * bases + "\n")
        query = hspz_test.write(os.path.join(folder, "q.fa"), ">q\n" + "A" * bases + "\n")
        nothing = hspz_test.write(os.path.join(folder, "n.fa"), ">q\n" + "C" * bases + "\n")
        index = hspz_test.build_index(source, os.path.join(folder, "r.hspz"))
        daemon = hspz_test.Daemon(folder, "--listen", "127.0.0.1:0", indexes={"r": index})
        try:
            with daemon.peer() as peer:
                begun = peer.call("stats")["anchors"]
            discover(daemon, query, *WAYS[0])
            with daemon.peer() as peer:
                anchors = peer.call("stats")["anchors"] - begun
            times = {way: [] for way in WAYS}
            for _ in range(rounds):
                for way in WAYS:
                    times[way].append(discover(daemon, query, *way))
            start = median([discover(daemon, nothing, "shm", "columnar")[2] for _ in range(5)])
        finally:
            daemon.stop()
    print("%.2f GB of packed anchors, %d rounds; a query without any takes %.3f s" % (
        8 * anchors / 1e9, rounds, start))
    print("a bare UNIX stream %.2f GB/s, TCP %.2f GB/s, the bus %s" % (
        bare["stream"], bare["tcp"], "%.2f GB/s" % bus if bus is not None else "of no card"))
    print_table(times, anchors, bare, bus, start)


main()
