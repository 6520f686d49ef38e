"""hspzd on a card, from outside: equal to the CPU engine's bytes, and steady for long.

  tests/gpu/served.py [smoke] [soak] [--engine cuda] [--bin DIR] [--hspzd='--placement split ...']
                      [--small N] [--large N] [--cancels N] [--reloads N]

smoke  two E. coli strains packed, from a CUDA and a CPU hspzd: the same bytes; apple x orange: 411,940
soak   10,000 small and 100 large batches, 1,000 cancels, 20 reloads: right, and host and device memory
       the same after as before

Needs Python and its msgpack (tests/gpu/bundle.sh brings one). Prints a line for each part, ok or
FAILED, and ends with their counts; non-zero when anything failed."""

import argparse
import hashlib
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.append(os.path.join(TOP, "bundle", "python"))
import msgpack  # noqa: E402

GENOMES = (os.path.join(TOP, "bundle", "genomes"), "/usr/share/doc")
MG1655 = "ragout/examples/E.Coli/references/MG1655-K12.fasta.gz"
NC_008253 = "bowtie/examples/genomes/NC_008253.fna.gz"
APPLE_ORANGE_HITS = 411940  # as LASTZ prints them; and of the two strains
COLI_HITS = 53743981
CONNECTIONS = 6
DEVICE_DRIFT_MIB = 2
HOST_DRIFT_MIB = 48


class Failed(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failed(what)


def find(*names):
    for top in names:
        if os.path.exists(top):
            return top
    raise Failed("none of these is there: " + ", ".join(names))


def genome(name):
    return find(*(os.path.join(top, name) for top in GENOMES))


def shared(name):
    return find(os.path.join(TOP, "bundle", "shared", name),
                os.path.join(os.environ.get("HSPZ_SHARED", os.path.join(TOP, "..", "shared")), name))


class Server:
    def __init__(self, options, engine, folder, indexes):
        self.path = os.path.join(folder, engine + ".sock")
        self.log = os.path.join(folder, engine + ".log")
        command = [os.path.join(options.bin, "hspzd"), "--engine", engine, "--socket", self.path]
        for name, file in indexes.items():
            command += ["--index", name + "=" + file]
        if engine == options.engine:
            command += options.hspzd.split()
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stderr=log)
        options.started.append(self.process)
        self.client_program = os.path.join(options.bin, "hspz-client")
        self.client("health", wait=120)

    def client(self, *args, wait=0, out=None):
        command = [self.client_program, "--server", "unix:" + self.path, "--wait", str(wait), *args]
        done = subprocess.run(command, stdout=out or subprocess.PIPE, stderr=subprocess.PIPE,
                              check=False)
        if done.returncode != 0:
            raise Failed("%s: %s\n%s" % (" ".join(args), done.stderr.decode(), self.tail()))

    def tail(self):
        with open(self.log, errors="replace") as log:
            return "".join(log.readlines()[-8:])

    def rss_mib(self):
        with open("/proc/%d/status" % self.process.pid) as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) / 1024

    def stop(self):
        self.process.terminate()
        expect(self.process.wait(60) == 0, "hspzd ended with %d" % self.process.returncode)


class Peer:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(120)
        self.socket.connect(path)
        self.unpacker = msgpack.Unpacker(max_buffer_size=1 << 30)
        self.number = 0
        self.call("hello", protocol=1, client="soak")

    def send(self, method, **params):
        self.number += 1
        self.socket.sendall(msgpack.packb([0, self.number, method, [params] if params else []]))
        return self.number

    def receive(self):
        while True:
            for message in self.unpacker:
                return message
            data = self.socket.recv(1 << 20)
            expect(data, "the server hung up")
            self.unpacker.feed(data)

    def answer(self, number):
        """(error, result, bytes of anchors) of a request."""
        count = 0
        while True:
            message = self.receive()
            if message[0] == 2:
                count += len(message[2][1]) if message[2][0]["job"] == number else 0
            elif message[1] == number:
                return message[2], message[3], count

    def call(self, method, **params):
        error, result, _ = self.answer(self.send(method, **params))
        expect(error is None, "%s: %s" % (method, error))
        return result

    def close(self):
        self.socket.close()


def build_index(options, source, out, *more):
    subprocess.run([os.path.join(options.bin, "hspz-client"), "index", "build", source, "-o", out,
                    "--unmask", *more], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return out


def bases_of(path):
    import gzip
    with gzip.open(path, "rb") as file:
        return b"".join(line.strip() for line in file if not line.startswith(b">")).upper()


def device_mib():
    """Memory used on all cards; 0 where there is no nvidia-smi."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return 0
    said = subprocess.run([tool, "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                          stdout=subprocess.PIPE, check=True).stdout
    return sum(int(line) for line in said.split())


def digest(path):
    state = hashlib.blake2b()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(1 << 22), b""):
            state.update(piece)
    return state.hexdigest()


# --- smoke ----------------------------------------------------------------------------------------

def smoke(options, folder):
    fruit = build_index(options, shared("data/apple.fasta.gz"), os.path.join(folder, "apple.hspz"),
                        "--all-positions")
    coli = build_index(options, genome(MG1655), os.path.join(folder, "coli.hspz"),
                       "--all-positions")
    digests = {}
    for engine in (options.engine, "cpu"):
        server = Server(options, engine, folder, {"apple": fruit, "coli": coli})
        for name, query in (("apple", shared("data/orange.fasta.gz")), ("coli", genome(NC_008253))):
            out = os.path.join(folder, name + ".u64")
            begin = time.monotonic()
            server.client("discover", name, query, "--unmask", "--format", "packed", "-o", out)
            count = os.path.getsize(out) // 8
            print("  %s, %s: %d anchors, %.2f s" % (engine, name, count,
                                                     time.monotonic() - begin), flush=True)
            digests.setdefault(name, []).append((digest(out), count))
            os.unlink(out)
        server.stop()
    for name, seen in digests.items():
        expect(seen[0] == seen[1], "%s: the engines differ: %s" % (name, seen))
    expect(digests["apple"][0][1] == APPLE_ORANGE_HITS, "apple: %d" % digests["apple"][0][1])
    expect(digests["coli"][0][1] == COLI_HITS, "coli: %d" % digests["coli"][0][1])


# --- soak -----------------------------------------------------------------------------------------

class Soak:
    def __init__(self, options, folder):
        self.options = options
        self.index = build_index(options, genome(MG1655), os.path.join(folder, "coli.hspz"))
        self.bases = bases_of(genome(NC_008253))
        self.server = Server(options, options.engine, folder, {})
        self.control = Peer(self.server.path)
        self.control.call("index.load", index="coli", file=self.index)
        self.known = {}
        self.lock = threading.Lock()

    def check(self, key, error, result, count):
        """A batch gives what it gave the first time."""
        expect(error is None, "%s: %s" % (key, error))
        got = (result["anchors"], result["digest"])
        expect(count == 8 * got[0], "%s: %d bytes, %d anchors" % (key, count, got[0]))
        with self.lock:
            expect(self.known.setdefault(key, got) == got,
                   "%s: %s, and before %s" % (key, got, self.known[key]))

    def each(self, count, work):
        """work(peer, rng) so many times, spread over connections."""
        faults = []

        def run(number):
            rng = random.Random(number)
            try:
                peer = Peer(self.server.path)
                for _ in range(number, count, CONNECTIONS):
                    work(peer, rng)
                peer.close()
            except Exception as fault:  # pylint: disable=broad-except
                faults.append(fault)

        threads = [threading.Thread(target=run, args=(n,)) for n in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if faults:
            raise Failed("%r\n%s" % (faults[0], self.server.tail()))

    def discover(self, peer, begin, length):
        return peer.send("discover", index="coli",
                         query={"bases": self.bases[begin:begin + length]})

    def small(self, peer, rng):
        begin = rng.randrange(64) * 60000
        self.check(("small", begin), *peer.answer(self.discover(peer, begin, 500)))

    def large(self, peer, rng):
        begin = rng.randrange(8) * 400000
        self.check(("large", begin), *peer.answer(self.discover(peer, begin, 600000)))

    def cancel(self, peer, rng):
        number = self.discover(peer, 0, 600000)
        time.sleep(rng.random() * 0.02)
        stop = peer.send("cancel", job=number)
        answers = {}
        while len(answers) < 2:
            message = peer.receive()
            if message[0] == 1:
                answers[message[1]] = message[2]
        expect(answers[stop] is None, answers[stop])
        expect(answers[number] is None or answers[number]["code"] == "cancelled", answers[number])

    def reload(self, peer, rng):
        peer.call("index.unload", index="coli")
        peer.call("index.load", index="coli", file=self.index)
        self.small(peer, rng)

    def reloads(self, count):
        rng = random.Random(0)
        for _ in range(count):
            self.reload(self.control, rng)

    def round(self, small, large, cancels, reloads):
        for name, count, run in (("small", small, lambda n: self.each(n, self.small)),
                                 ("large", large, lambda n: self.each(n, self.large)),
                                 ("cancels", cancels, lambda n: self.each(n, self.cancel)),
                                 ("reloads", reloads, self.reloads)):
            begin = time.monotonic()
            run(count)
            print("  %6d %-8s %7.1f s, host %.0f MiB, device %d MiB" % (
                count, name, time.monotonic() - begin, self.server.rss_mib(), device_mib()),
                flush=True)

    def settled(self):
        """Host and device memory once nothing runs."""
        end = time.monotonic() + 20
        while self.control.call("health")["jobs"] > 0 and time.monotonic() < end:
            time.sleep(0.1)
        stats = self.control.call("stats")
        expect(stats["jobs"]["in_flight"] == 0, stats["jobs"])
        return self.server.rss_mib(), device_mib()


def soak(options, folder):
    s = Soak(options, folder)
    # What is kept for the next job is grown first: every size, on every lane.
    for _ in range(2):
        s.round(options.small // 20, options.large // 2, options.cancels // 10, 3)
    host, device = s.settled()
    s.round(options.small, options.large, options.cancels, options.reloads)
    host_after, device_after = s.settled()
    cancelled = s.control.call("stats")["jobs"]["cancelled"]
    s.control.close()
    s.server.stop()
    print("  host %.0f to %.0f MiB, device %d to %d MiB, %d jobs cancelled in time" % (
        host, host_after, device, device_after, cancelled))
    expect(host_after - host <= HOST_DRIFT_MIB, "host memory grew")
    expect(device_after - device <= DEVICE_DRIFT_MIB, "device memory grew")
    expect(cancelled > 0 or options.cancels == 0, "no job was cancelled in time")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=["smoke", "soak", []])
    parser.add_argument("--engine", default="cuda")
    parser.add_argument("--bin", default=os.path.join(TOP, "bundle", "bin"))
    parser.add_argument("--hspzd", default="", help="options of hspzd, as one word")
    for name, count in (("small", 10000), ("large", 100), ("cancels", 1000), ("reloads", 20)):
        parser.add_argument("--" + name, type=int, default=count)
    options = parser.parse_args()
    options.started = []
    failed = []
    parts = options.parts or ["smoke", "soak"]
    for part in parts:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="hspz-") as folder:
            try:
                {"smoke": smoke, "soak": soak}[part](options, folder)
                print("ok %s (%d s)" % (part, time.monotonic() - begin), flush=True)
            except (Failed, OSError, subprocess.SubprocessError) as fault:
                failed.append(part)
                print("FAILED %s: %s" % (part, fault), flush=True)
            for process in options.started:
                if process.poll() is None:
                    process.kill()
                    process.wait()
    print("%d passed, failed: %s" % (len(parts) - len(failed), " ".join(failed) or "none"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
