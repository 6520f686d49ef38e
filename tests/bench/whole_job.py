#!/usr/bin/env python3
"""How long a whole KegAlign job takes, from the command to its last file in memory (tmpfs).

    tests/bench/whole_job.py [--hspzd-options TEXT] [--hspzd PROGRAM] [--client PROGRAM] NAME KEGALIGN_SECONDS REF QUERY [NAME ...]

`resident`: `hspz-client kegalign` with the index loaded, the median of five. `cold`: nothing runs and no index is
made: hspzd starts (on a card with the driver's part), indexes and serves, the client writes, hspzd ends. REF and QUERY are used
as they are, unmasked where NAME ends in `+unmask`: their bases in upper case. KEGALIGN_SECONDS: what its process took on
the like, 0 if unknown.
"""
import argparse
import gzip
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time


def upper(source, out):
    opened = gzip.open if source.endswith(".gz") else open
    with opened(source, "rt") as file, open(out, "w") as made:
        for line in file:
            made.write(line if line[0] == ">" else line.upper())
    return out


def timed(command):
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def segments(folder):
    count = size = 0
    for name in os.listdir(folder):
        if name.endswith(".segments"):
            with open(os.path.join(folder, name), "rb") as file:
                text = file.read()
            count += text.count(b"\n")
            size += len(text)
    return count, size


class Job:
    def __init__(self, options, folder, ref, query):
        self.options, self.folder, self.ref, self.query = options, folder, ref, query
        self.socket = "unix:" + os.path.join(folder, "hspz.sock")
        self.cache = os.path.join(folder, "cache")
        self.number = 0

    def start(self):
        self.daemon = subprocess.Popen(
            [self.options.hspzd, "--socket", self.socket.split(":")[1], "--index-dir", self.cache]
            + shlex.split(self.options.hspzd_options),
            stderr=open(os.path.join(self.folder, "log"), "ab"))

    def stop(self):
        self.daemon.terminate()
        if self.daemon.wait(60) != 0:
            sys.exit("hspzd: exit status %d" % self.daemon.returncode)

    def out(self):
        self.number += 1
        path = os.path.join(self.folder, "out%d" % self.number)
        os.mkdir(path)
        return path

    def run(self):
        out = self.out()
        took = timed([self.options.client, "--server", self.socket, "--wait", "60", "kegalign",
                      self.ref, self.query, "--nogapped", "--cache", self.cache,
                      "--out-dir", out])
        made = segments(out)
        shutil.rmtree(out)
        return took, made

    def cold(self):
        begin = time.monotonic()
        os.mkdir(self.cache)
        self.start()
        _, made = self.run()
        self.stop()
        took = time.monotonic() - begin
        shutil.rmtree(self.cache)
        return took, made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hspzd", default="build/daemon/hspzd")
    parser.add_argument("--client", default="build/client/hspz-client")
    parser.add_argument("--hspzd-options", default="", help="options of hspzd, as one word")
    parser.add_argument("pairs", nargs="+")
    options = parser.parse_args()
    for i in range(0, len(options.pairs), 4):
        name, kegalign, ref, query = options.pairs[i:i + 4]
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            if name.endswith("+unmask"):
                ref, query = (upper(path, os.path.join(folder, new)) for path, new in
                              ((ref, "ref.fa"), (query, "query.fa")))
            job = Job(options, folder, ref, query)
            colds = [job.cold() for _ in range(2)]
            os.mkdir(job.cache)
            job.start()
            first, made = job.run()
            warm = [job.run() for _ in range(5)]
            job.stop()
            if made[0] == 0 or any(other != made for _, other in warm + colds):
                sys.exit("%s: not the same files each time" % name)
            resident, cold = statistics.median(took for took, _ in warm), min(took for took, _ in colds)
            line = "%-20s %d HSPs, %.1f MB; resident %.3f s, cold %.3f s, index and first job %.3f s" % (
                name, made[0], made[1] / 1e6, resident, cold, first)
            if float(kegalign) > 0:
                line += "; KegAlign %s s: %.1f and %.1f times" % (
                    kegalign, float(kegalign) / resident, float(kegalign) / cold)
            print(line, flush=True)


main()
