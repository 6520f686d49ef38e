"""kmers_vs_jellyfish.py FILE K [THREADS]: exact counts of a file's k-mers by hspzd's CPU engine and by jellyfish with as many
threads; then what k-mers that came once need, against a table of pairs alone. HSPZ_BUILD names the build folder."""

import json
import os
import subprocess
import sys
import tempfile
import time

import numpy

BUILD = os.environ.get("HSPZ_BUILD", "build")


def timed(*command):
    """(seconds, processor seconds, output)"""
    before, start = os.times(), time.monotonic()
    out = subprocess.run(list(map(str, command)), check=True, capture_output=True).stdout
    after = os.times()
    return (time.monotonic() - start,
            after.children_user + after.children_system - before.children_user - before.children_system, out)


def cpu_of(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    path, k = sys.argv[1], int(sys.argv[2])
    threads = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    with tempfile.TemporaryDirectory() as folder:
        server = "unix:" + os.path.join(folder, "s")
        daemon = subprocess.Popen(
            [os.path.join(BUILD, "daemon", "hspzd"), "--socket", server[5:], "--engine", "cpu", "--threads",
             str(threads), "--filter-memory", "64G"], stderr=subprocess.DEVNULL)
        client = lambda *args: timed(os.path.join(BUILD, "client", "hspz-client"), "--server", server,
                                     "--wait", 60, *args)
        client("stats")
        idle = cpu_of(daemon.pid)
        wall, cpu, out = client("kmers", "count", "all", path, "-k", k, "--json")
        cpu += cpu_of(daemon.pid) - idle
        made = json.loads(out)
        print("%d k-mers, %d different" % (made["kmers"], made["different"]))
        print("hspz       %6.2f s %6.2f processor s, %d bytes" % (wall, cpu, made["bytes"]))
        for size in (made["different"], 1 << 20):
            w, c, _ = timed("jellyfish", "count", "-m", k, "-C", "-s", size, "-t", threads, "-o",
                            os.path.join(folder, "j.jf"), path)
            print("jellyfish  %6.2f s %6.2f processor s, -s %d; hspz takes %.2f of the time, %.2f of the processor"
                  % (w, c, size, wall / w, cpu / c))
        _, _, out = client("kmers", "dump", "all", "--format", "raw")
        pairs = numpy.frombuffer(out, dtype="<u8").reshape(-1, 2)
        used = lambda name: json.loads(client("filter", "stats", name, "--json")[2])["bytes"]
        for name, rows, more in (("singles", pairs[pairs[:, 1] == 1], 0), ("plain-singles", pairs[pairs[:, 1] == 1], 1),
                                 ("plain", pairs, 1)):
            rows = rows.copy()
            rows[:, 1] += more  # with a count over 1 a key goes to the table at once
            raw = os.path.join(folder, "raw")
            rows.tofile(raw)
            client("filter", "create", name, "--kind", "counter", "--capacity", 65536, "--k", k)
            client("filter", "insert", name, raw, "--raw", "--counts")
            print("%-14s %10d keys, %6.2f bytes each" % (name, len(rows), used(name) / max(1, len(rows))))
        print("all            %10d keys, %6.2f bytes each" % (len(pairs), used("all") / len(pairs)))
        daemon.terminate()
        daemon.wait()


main()
