#!/usr/bin/env python3
"""HSPs of a genome against indexes of several: pairs of genomes a second, by cards and clients, beside
what client/handbook/cluster_model.py says of them.

    tests/bench/cohort.py [--cards 0 0,1] [--genomes 1 20] [--clients 1 4 16] [--seconds 5] REF QUERY

An index of N genomes has REF and copies of it in which one base of 50 is another. REF and QUERY are in upper case
all. `--cards ""` leaves the choice to hspzd: the CPU engine, where there is no card. Each client is a process of
hspz-client after the other, which write to memory; every result must be the same.
"""
import argparse
import gzip
import hashlib
import os
import random
import shlex
import subprocess
import sys
import tempfile
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "client", "handbook"))
import cluster_model  # noqa: E402 pylint: disable=wrong-import-position

# Of the model's pair of E. coli strains, whatever REF and QUERY are.
QUERY, _, HITS, PASSING, HSPS = cluster_model.PAIRS["E. coli, unmasked"][:5]


def records(path):
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt") as file:
        return [(lines[0].split()[0], "".join(lines[1:]).upper()) for lines in
                (text.split("\n") for text in file.read().split(">")[1:])]


def strain(rng, text):
    made = bytearray(text, "ascii")
    for at in rng.sample(range(len(made)), len(made) // 50):
        made[at] = rng.choice(b"ACGT")
    return made.decode()


def write(path, named):
    with open(path, "w", encoding="ascii") as file:
        for name, text in named:
            file.write(">%s\n%s\n" % (name, text))
    return path


class Server:
    def __init__(self, options, folder, index, cards):
        self.address = "unix:" + os.path.join(folder, "hspz.sock")
        command = [options.hspzd, "--socket", self.address[5:], "--index", "ref=" + index, "--job-memory", "16G"]
        self.log = open(os.path.join(folder, "log"), "ab")
        self.daemon = subprocess.Popen(command + (["--devices", cards] if cards else []) +
                                       shlex.split(options.hspzd_options), stderr=self.log)
        self.client = [options.client, "--quiet", "--server", self.address, "--wait", "120"]

    def ask(self, query, out):
        """The digest of what comes."""
        subprocess.run(self.client + ["hsps", "ref", query, "-o", out], check=True)
        with open(out, "rb") as file:
            return hashlib.sha256(file.read()).digest()

    def stop(self):
        self.daemon.terminate()
        status = self.daemon.wait()
        self.log.close()
        if status != 0:
            sys.exit("hspzd: exit status %d" % status)


def rate(server, query, folder, clients, seconds, want):
    """Results a second."""
    end = time.monotonic() + seconds
    done, wrong = [], []

    def work(number):
        while time.monotonic() < end and not wrong:
            try:
                same = server.ask(query, os.path.join(folder, "out%d" % number)) == want
            except (OSError, subprocess.CalledProcessError) as error:
                wrong.append(error)
                return
            done.append(time.monotonic())
            if not same:
                wrong.append("not the same HSPs each time")
    begin = time.monotonic()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        sys.exit("cohort.py: %s" % wrong[0])
    return len(done) / (max(done) - begin)


def reckoned(model, genomes, cards, clients):
    engine = model.engine(QUERY, genomes * HITS, PASSING, genomes * HSPS)
    return genomes * min(cards / engine, clients / (engine + model.client(QUERY, genomes * HSPS)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hspzd", default="build/daemon/hspzd")
    parser.add_argument("--client", default="build/client/hspz-client")
    parser.add_argument("--hspzd-options", default="", help="as one word")
    parser.add_argument("--cards", nargs="+", default=["0"])
    parser.add_argument("--genomes", nargs="+", type=int, default=[1])
    parser.add_argument("--clients", nargs="+", type=int, default=[1, 4, 16])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("ref")
    parser.add_argument("query")
    options = parser.parse_args()
    model = cluster_model.Model()
    rng = random.Random(1)
    ref = records(options.ref)
    print("%8s %8s %8s %12s %12s %8s %8s" % ("genomes", "cards", "clients", "pairs/s", "the model's", "ratio",
                                             "to first"))
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        query = write(os.path.join(folder, "query.fa"), records(options.query))
        for genomes in options.genomes:
            joined = ref + [("%s.%d" % (name, i), strain(rng, text))
                            for i in range(1, genomes) for name, text in ref]
            index = os.path.join(folder, "ref.hspz")
            subprocess.run([options.client, "--quiet", "index", "build",
                            write(os.path.join(folder, "ref.fa"), joined), "-o", index], check=True)
            first = {}
            for cards in options.cards:
                count = cards.count(",") + 1
                server = Server(options, folder, index, cards)
                try:
                    want = server.ask(query, os.path.join(folder, "first"))
                    for clients in options.clients:
                        got = genomes * rate(server, query, folder, clients, options.seconds, want)
                        first.setdefault(clients, got)
                        says = reckoned(model, genomes, count, clients)
                        print("%8d %8d %8d %12.2f %12.2f %8.2f %8.2f" % (
                            genomes, count, clients, got, says, says / got, got / first[clients]), flush=True)
                finally:
                    server.stop()


main()
