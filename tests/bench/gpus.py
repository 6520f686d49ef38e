#!/usr/bin/env python3
"""A simulated pair of genomes through hspzd and hspz-client on one, two, four, ... GPUs of this host: the same bytes on all,
rates against one GPU, memory, what a tiny batch costs, and what becomes of jobs when a GPU is lost or hangs.

    tests/bench/gpus.py [--bases N] [--clients C] [--tiny N] [served] [lost] [hung]

HSPZ_BUILD names the build folder; HSPZ_TEST_ENGINE and HSPZ_TEST_OPTIONS as for the system tests. The GPUs are those of
nvidia-smi, or SOFT_CARD_DEVICES of the software card.

served  C clients to a GPU at once, discover (each with all anchors of the pair, packed, to /dev/null) and hsps (a file in
        memory); the digests that the server gives and the client checks, and the files, must be the same
lost    on two or more (lost_hspzd): a kernel reads outside all memory on one GPU amid such jobs. One hspzd has all
        GPUs: what its jobs come to, when it ends, when the one that is started then has answered. One hspzd to a GPU, and a
        client that names all of them: its bytes, with a GPU lost and with an hspzd killed
hung    on two or more: all multiprocessors of one GPU are taken for some seconds; an index on all GPUs, and one
        whose blocks are spread over them. All jobs must give the same bytes"""

import argparse
import collections
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import hspz_test  # noqa: E402

LOST = os.path.join(hspz_test.BUILD, "tests", "gpu", "lost_hspzd")
LOSE_CAP = 4099  # of the job that harms its GPU
BUS = 55e9  # bytes a second from a card
# A job goes through all blocks with each 250,000 bases of its query, and a GPU has the whole query sent again each time
# that the job comes back to it: with 100 Mbp in one job those of a pair take minutes.
SMALL = ("--query-block-size", "1000000")
OPTIONS = ("--job-memory", "16G", "--shm-memory", "4G", "--part-bytes", "8M")


def gpu_count():
    tool = shutil.which("nvidia-smi")
    if "SOFT_CARD_DEVICES" in os.environ or tool is None:
        return int(os.environ.get("SOFT_CARD_DEVICES", "1"))
    said = subprocess.run([tool, "-L"], capture_output=True, text=True, check=True).stdout
    return said.count("UUID: GPU-")


def names(first, count=1):
    return ",".join(str(d) for d in range(first, first + count))


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Wrong(Exception):
    pass


class Pair:
    """A simulated pair, its index in one block and in many, and a short query for the culprit."""

    def __init__(self, folder, bases, blocks, limit):
        """`limit`: seconds that a job may take."""
        self.folder, self.limit, self.daemons, self.clients = folder, limit, [], []
        self.ref, self.query = self.path("r.fa"), self.path("q.fa")
        simulate = os.path.join(hspz_test.BUILD, "tests", "bench", "simulate")
        subprocess.run([simulate, "--bases", str(bases), "--sequences", "20", self.ref, self.query], check=True)
        self.index = self.built("one.hspz")
        self.in_blocks = self.built("blocks.hspz", "--block-size", str(bases // blocks))
        with open(self.query, encoding="ascii") as file:
            file.readline()
            self.short = file.read(200000 if bases > 10000000 else 4000).split(">")[0].replace("\n", "").encode().upper()

    def path(self, name):
        return os.path.join(self.folder, name)

    def built(self, name, *args):
        hspz_test.client("index", "build", self.ref, "-o", self.path(name), *args, check=0)
        return self.path(name)

    def daemon(self, gpus, *args, index=None, program=None, socket="hspz.sock", **env):
        """hspzd on GPUs named as `--devices` has them."""
        before = hspz_test.HSPZD
        hspz_test.HSPZD = program or before
        try:
            daemon = hspz_test.Daemon(self.folder, "--devices", gpus, *OPTIONS, *args, indexes={"r": index or self.index},
                                      env=hspz_test.child_env(**env), socket_path=self.path(socket), wait=False)
        finally:
            hspz_test.HSPZD = before
        self.daemons.append(daemon)
        daemon.wait_ready()
        return daemon

    def end(self, failed):
        """What a part that failed left."""
        for daemon in self.daemons:
            if daemon.alive():
                if failed:
                    say_state(daemon)
                daemon.process.kill()
                daemon.process.wait()
        for process in self.clients:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.daemons, self.clients = [], []


class Jobs:
    """Processes of hspz-client that run at the same time."""

    def __init__(self, pair, servers, command, count, *options, number=0):
        self.command, self.begin, self.limit = command, time.monotonic(), pair.limit
        self.outs = [pair.path("out%d" % (number + i)) if command == "hsps" else "/dev/null" for i in range(count)]
        self.errors = [open(pair.path("err%d" % (number + i)), "w+", encoding="utf-8") for i in range(count)]
        more = options + (("--format", "packed") if command == "discover" else ())
        self.running = [subprocess.Popen(
            [hspz_test.CLIENT, "-q", "-v", *(word for server in servers for word in ("--server", server)), command, "r",
             pair.query, "-o", out, *more], stdin=subprocess.DEVNULL, stdout=error, stderr=error)
            for out, error in zip(self.outs, self.errors)]
        pair.clients += self.running

    def wait(self):
        """[(exit status, what came, what went wrong, stderr)] and seconds."""
        try:
            statuses = [process.wait(max(0, self.begin + self.limit - time.monotonic())) for process in self.running]
        except subprocess.TimeoutExpired:
            running = [str(i) for i, process in enumerate(self.running) if process.poll() is None]
            raise Wrong("after %d s clients %s of %d are still at %s" % (
                self.limit, ", ".join(running), len(self.running), self.command)) from None
        took, found = time.monotonic() - self.begin, []
        for status, out, error in zip(statuses, self.outs, self.errors):
            error.seek(0)
            said = error.read()
            error.close()
            came = re.findall(r"(?:anchors|HSPs) [^\n]*digest (\w+);", said)
            wrong = "; ".join(re.findall("(?m)^hspz-client: (.*)$", said))
            found.append((status, digest(out) if status == 0 and self.command == "hsps" else tuple(came), wrong, said))
        return found, took


def sure(found, want=None):
    """That all jobs ended well with the same, which is returned."""
    for status, came, wrong, _ in found:
        want = want or came
        if status != 0 or not came or came != want:
            raise Wrong("exit status %d, %s where %s was to come: %s" % (status, came, want, wrong))
    return want


def anchors_of(found):
    return sum(int(n) for n in re.findall(r": (\d+) anchors", found[0][3]))


# --- served ---------------------------------------------------------------------------------------

def tiny_us(daemon, count):
    """Round trip of a job of one window, the median."""
    times = []
    with daemon.peer() as peer:
        for _ in range(count):
            begin = time.perf_counter()
            peer.discover("r", query={"bases": b"ACGTTGCATGCCATGGTAC"})
            times.append(time.perf_counter() - begin)
    return sorted(times)[count // 2] * 1e6


def served(pair, options, counts, hsps):
    first, want = {}, {"hsps": hsps}
    for gpus in counts:
        daemon = pair.daemon(names(0, gpus))
        for command in ("discover", "hsps"):
            clients = gpus * options.clients
            found, alone = Jobs(pair, [daemon.server], command, 1).wait()
            want[command] = sure(found, want.get(command))
            took = []
            for _ in range(2):
                found, seconds = Jobs(pair, [daemon.server], command, clients).wait()
                sure(found, want[command])
                took.append(seconds)
            rate = clients / min(took)
            first.setdefault(command, rate)
            line = "%d GPUs, %s: one client %.2f s; %d clients %.2f s, %.2f pairs/s, %.3f times one GPU" % (
                gpus, command, alone, clients, min(took), rate, rate / first[command])
            if command == "discover":
                share = 8 * anchors_of(found) * rate / gpus / BUS
                line += "; %d anchors each, %.3f of the bus" % (anchors_of(found), share)
            print(line, flush=True)
        print("%d GPUs: a tiny batch %.1f us; hspzd %.0f MiB, at most %.0f" % (
            gpus, tiny_us(daemon, options.tiny), daemon.rss_mib(), daemon.peak_mib()), flush=True)
        daemon.stop()


# --- lost and hung --------------------------------------------------------------------------------

def harm(pair, daemon):
    """A job that harms the GPU it is on: what it came to, an error's code and text or the digest."""
    with daemon.peer(timeout=pair.limit / hspz_test.SLOWER) as peer:
        number = peer.request("discover", {"index": "r", "query": {"bases": pair.short}, "unmask": True,
                                           "max_hits": LOSE_CAP})
        try:
            error, result = peer.response(number)
        except TimeoutError:
            raise Wrong("nothing came of the culprit for %d s" % pair.limit) from None
        except (OSError, EOFError) as gone:
            return "the connection ended (%s)" % type(gone).__name__
    return "%s: %s" % (error["code"], error["message"]) if error else "digest " + result["digest"]


def say_jobs(what, found, want):
    right = sum(status == 0 and came == want for status, came, _, _ in found)
    others = sum(status == 0 and came != want for status, came, _, _ in found)
    print("  %s: %d of %d the same bytes, %d failed" % (what, right, len(found), len(found) - right - others))
    for text in sorted({wrong for status, _, wrong, _ in found if status != 0}):
        print("    " + text)
    if others:
        raise Wrong("%d jobs ended well with other bytes" % others)


def say_log(daemon):
    for line in daemon.log().splitlines():
        if re.search("device.* (lost|answer)|given up", line):
            print("    " + line)


def threads_of(process):
    """State of each thread, and what it waits for in the kernel: the loop's, then how many of the others are how."""
    found = []
    for task in sorted(os.listdir("/proc/%d/task" % process.pid), key=int):
        said = []
        for name in ("stat", "wchan"):
            with open("/proc/%d/task/%s/%s" % (process.pid, task, name), encoding="ascii", errors="replace") as file:
                said.append(file.read())
        found.append("%s %s" % (said[0].rsplit(")", 1)[1].split()[0], said[1]))
    others = collections.Counter(found[1:])
    return "the loop's %s; others %s" % (found[0], ", ".join("%d %s" % (n, how) for how, n in others.most_common()))


def say_state(daemon):
    """Of a part that failed, or had to be ended: what hspzd did."""
    print("    " + daemon.log()[-3000:].replace("\n", "\n    "))
    try:
        with daemon.peer(timeout=10 / hspz_test.SLOWER) as peer:
            stats = peer.call("stats")
        print("    jobs %s" % stats["jobs"])
        for device in stats["devices"]:
            print("    device " + ", ".join("%s %s" % (key, device[key]) for key in (
                "device", "state", "turns", "queued", "in_flight", "parts", "redone", "step_ns")))
    except (OSError, EOFError, hspz_test.RpcError) as fault:
        print("    stats: %s: %s" % (type(fault).__name__, fault))
    print("    threads: " + threads_of(daemon.process), flush=True)


def lose_one_of_all(pair, options, gpus, want):
    """One hspzd that has all GPUs."""
    print("%d GPUs, one hspzd, one GPU lost:" % gpus)
    daemon = pair.daemon(names(0, gpus), program=LOST, HSPZ_LOSE_CAP=str(LOSE_CAP), HSPZ_LOSE_PART="1")
    _, alone = Jobs(pair, [daemon.server], "hsps", 2 * gpus).wait()
    jobs = Jobs(pair, [daemon.server], "hsps", 2 * gpus)
    time.sleep(alone * options.amid)
    begin = time.monotonic()
    print("  the culprit: " + harm(pair, daemon))
    status = daemon.process.wait(60)
    ended = time.monotonic() - begin
    again = pair.daemon(names(0, gpus), program=LOST)
    ready = time.monotonic() - begin
    found, _ = jobs.wait()
    say_jobs("jobs under way", found, want)
    say_log(daemon)
    found, took = Jobs(pair, [again.server], "hsps", 2 * gpus).wait()
    sure(found, want)
    again.stop()
    print("  hspzd ended with %d after %.2f s; started again it was ready %.2f s after the loss and gave %d jobs the same bytes in "
          "%.2f s (before: %.2f)" % (status, ended, ready, len(found), took, alone), flush=True)


def lose_one_of_many(pair, options, gpus, want, kill):
    """One hspzd to a GPU."""
    daemons = [pair.daemon(names(d), program=LOST, socket="hspz%d.sock" % d, HSPZ_LOSE_CAP=str(LOSE_CAP), HSPZ_LOSE_PART="1")
               for d in range(gpus)]
    servers = [daemon.server for daemon in daemons]
    found, alone = Jobs(pair, servers, "hsps", 1).wait()
    sure(found, want)
    jobs = Jobs(pair, servers, "hsps", 1)
    time.sleep(alone * options.amid)
    begin = time.monotonic()
    if kill:
        daemons[-1].process.kill()
    else:
        print("  the culprit: " + harm(pair, daemons[-1]))
    status = daemons[-1].process.wait(60)
    ended = time.monotonic() - begin
    found, took = jobs.wait()
    sure(found, want)
    print("%d GPUs, an hspzd each, one %s (exit status %d after %.2f s): the client has the same bytes after %.2f s, "
          "undisturbed %.2f" % (gpus, "killed" if kill else "with its GPU lost", status, ended, took, alone), flush=True)
    for daemon in daemons[:-1]:
        daemon.stop()


def lost(pair, options, counts, want):
    for gpus in counts[1:]:
        lose_one_of_all(pair, options, gpus, want)
        lose_one_of_many(pair, options, gpus, want, False)
        lose_one_of_many(pair, options, gpus, want, True)


def hang_one(pair, options, gpus, placement, index, want, *args):
    print("%d GPUs, placement %s, one GPU taken for %d ms:" % (gpus, placement, options.hang_ms), flush=True)
    daemon = pair.daemon(names(0, gpus), "--placement", placement, "--device-timeout-ms", str(options.timeout_ms), program=LOST, index=index,
                         HSPZ_LOSE_CAP=str(LOSE_CAP), HSPZ_LOSE_PART="1", HSPZ_HANG_MS=str(options.hang_ms))
    found, alone = Jobs(pair, [daemon.server], "hsps", 2 * gpus, *args).wait()
    want = sure(found, want)
    print("  %d jobs undisturbed in %.2f s" % (len(found), alone), flush=True)
    jobs = Jobs(pair, [daemon.server], "hsps", 2 * gpus, *args)
    time.sleep(alone * options.amid)
    begin = time.monotonic()
    culprit, culprit_s = harm(pair, daemon), time.monotonic() - begin
    print("  the culprit: %s, after %.2f s" % (culprit, culprit_s), flush=True)
    found, took = jobs.wait()
    say_jobs("jobs under way", found, want)
    # Nobody harms it twice.
    same = harm(pair, daemon)
    back = hspz_test.poll(lambda: "device answers again" in daemon.log(), options.hang_ms / 1000 + 10)
    with daemon.peer() as peer:
        devices = peer.call("stats")["devices"]
    say_log(daemon)
    print("  the same without harm: %s; jobs %.2f s, undisturbed %.2f; the device is back: %s; done again %s, parts %s" % (
        same == culprit, took, alone, "yes" if back else "no", [d["redone"] for d in devices], [d["parts"] for d in devices]), flush=True)
    found, after = Jobs(pair, [daemon.server], "hsps", 2 * gpus, *args).wait()
    sure(found, want)
    print("  then %d jobs in %.2f s" % (len(found), after), flush=True)
    daemon.stop()
    return want


def hung(pair, options, counts, want):
    in_blocks = None
    for gpus in counts[1:]:
        hang_one(pair, options, gpus, "replicate", pair.index, want)
        if in_blocks is None:
            daemon = pair.daemon("0", index=pair.in_blocks)
            found, took = Jobs(pair, [daemon.server], "hsps", 2, *SMALL).wait()
            in_blocks = sure(found)
            print("1 GPUs, all blocks there: 2 jobs in %.2f s" % took, flush=True)
            daemon.stop()
        hang_one(pair, options, gpus, "blocks", pair.in_blocks, in_blocks, *SMALL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bases", type=int, default=100000000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--tiny", type=int, default=2000)
    parser.add_argument("--amid", type=float, default=0.4, help="when harm is done, of the time the jobs take")
    parser.add_argument("--hang-ms", type=int, default=6000)
    parser.add_argument("--timeout-ms", type=int, default=1000, help="hspzd's device_timeout_ms then")
    parser.add_argument("--limit", type=float, default=60, help="seconds that a job may take")
    parser.add_argument("parts", nargs="*", choices=["served", "lost", "hung", []])
    options = parser.parse_args()
    parts = options.parts or ["served", "lost", "hung"]
    most = gpu_count()
    counts = [n for n in (1, 2, 4, 8) if n <= most]
    print("%d GPUs" % most, flush=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        pair = Pair(folder, options.bases, 4 * most, options.limit)
        daemon = pair.daemon("0")
        want = sure(Jobs(pair, [daemon.server], "hsps", 1).wait()[0])
        daemon.stop()
        failed = []
        for name, part in (("served", served), ("lost", lost), ("hung", hung)):
            try:
                if name in parts:
                    part(pair, options, counts, want)
            except (Wrong, AssertionError, OSError, EOFError, subprocess.SubprocessError, hspz_test.RpcError) as fault:
                failed.append(name)
                print("gpus.py: %s: %s: %s" % (name, type(fault).__name__, fault), flush=True)
            pair.end(name in failed)
    return 1 if failed else 0


sys.exit(main())
