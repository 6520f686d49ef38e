"""Ungapped HSPs of one E. coli strain in another: LASTZ against daemon and client, with one engine thread and the
index loaded; in turns.

    tests/bench/hsps_vs_lastz.py [BUILD_FOLDER] [ROUNDS]

Gives seconds by the clock, and of processors (user and system; daemon and client together), which other work on the
machine disturbs less. Every segment of LASTZ has to be there."""

import gzip
import os
import statistics
import subprocess
import sys
import tempfile
import time

REF = "/usr/share/doc/ragout/examples/E.Coli/references/MG1655-K12.fasta.gz"
QUERY = "/usr/share/doc/bowtie/examples/genomes/NC_008253.fna.gz"
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_of(pid):
    """Processor seconds of a running process."""
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def timed(command, out):
    """Clock and processor seconds of a command that writes to a file."""
    begin = time.monotonic()
    with open(out, "wb") as file:
        child = subprocess.Popen(command, stdout=file)
        _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit("%s failed" % command[0])
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime


def segments(path):
    """Start, end on both, strand and score of each line."""
    with open(path) as file:
        rows = [line.split("\t") for line in file if not line.startswith("#")]
    return {(row[1], row[2], row[4], row[5], row[6], row[7].strip()) for row in rows}


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else "build"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    client = os.path.join(build, "client/hspz-client")
    taken = {"lastz": [], "hspz": []}
    with tempfile.TemporaryDirectory() as work:
        ref, query, index, lastz_out, hspz_out, socket = (
            os.path.join(work, name) for name in ("ref.fa", "query.fa", "ref.hspz", "lastz", "hspz", "socket"))
        for source, path in ((REF, ref), (QUERY, query)):
            with gzip.open(source) as packed, open(path, "wb") as out:
                out.write(packed.read())
        subprocess.check_call([client, "index", "build", ref, "-o", index, "--unmask"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
        with open(os.path.join(work, "log"), "wb") as log:
            daemon = subprocess.Popen([os.path.join(build, "daemon/hspzd"), "--socket", socket, "--engine", "cpu",
                                       "--threads", "1", "--index", "ecoli=" + index], stderr=log)
        try:
            ask = [client, "--server", "unix:" + socket, "--wait", "60"]
            subprocess.check_call(ask + ["health"], stdout=subprocess.DEVNULL)
            for _ in range(rounds):
                taken["lastz"].append(timed(
                    ["lastz", ref + "[multiple,unmask]", query + "[unmask]", "--seed=12of19", "--transition",
                     "--nogapped", "--nochain", "--recoverseeds",
                     "--format=general-:name1,zstart1,end1,name2,zstart2+,end2+,strand2,score"], lastz_out))
                before = cpu_of(daemon.pid)
                clock, cpu = timed(ask + ["hsps", "ecoli", query, "--unmask"], hspz_out)
                taken["hspz"].append((clock, cpu + cpu_of(daemon.pid) - before))
                print(", ".join("%s %.2f s (processors %.2f s)" % ((name,) + taken[name][-1]) for name in taken),
                      flush=True)
        finally:
            daemon.terminate()
            daemon.wait()
        lastz, hspz = segments(lastz_out), segments(hspz_out)
    print("%d segments of lastz, %d of hspz, %d the same" % (len(lastz), len(hspz), len(lastz & hspz)))
    if not lastz or lastz - hspz:
        sys.exit("segments are missing: %s" % sorted(lastz - hspz)[:5])
    for i, what in enumerate(("by the clock", "of processors")):
        a, b = (statistics.median(run[i] for run in taken[name]) for name in ("lastz", "hspz"))
        print("%s: lastz %.2f s, hspz %.2f s: %.1f times as fast" % (what, a, b, a / b))


main()
