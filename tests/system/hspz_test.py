"""Support of the black-box tests: the real programs, a peer that is not ours, and a slow, plain
reckoning of what discovery must give.

A test file ends in `hspz_test.main()`. Everything lives in a temporary folder that goes with the
test. Nothing here uses libhspz: requests are packed by Debian's python3-msgpack."""

import atexit
import contextlib
import gzip
import hashlib
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import msgpack

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import reports  # noqa: E402,F401 pylint: disable=wrong-import-position,unused-import
import rest  # noqa: E402 pylint: disable=wrong-import-position

SOURCE = os.environ.get("HSPZ_SOURCE") or os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("HSPZ_BUILD") or os.path.join(SOURCE, "build")
HSPZD = os.path.join(BUILD, "daemon", "hspzd")
CLIENT = os.path.join(BUILD, "client", "hspz-client")
SHARED = os.environ.get("HSPZ_SHARED") or os.path.join(SOURCE, "..", "shared")
REQUIRED = os.environ.get("HSPZ_REQUIRE", "").split(",")
# The engine under test, and options of hspzd that go with it.
ENGINE = os.environ.get("HSPZ_TEST_ENGINE", "cpu")
OPTIONS = os.environ.get("HSPZ_TEST_OPTIONS", "").split()


def _sanitizers():
    try:
        with open(os.path.join(BUILD, "meson-info", "intro-buildoptions.json"),
                  encoding="utf-8") as file:
            value = [o["value"] for o in json.load(file) if o["name"] == "b_sanitize"][0]
            return "" if value == "none" else value
    except (OSError, IndexError):
        return ""


# Under a sanitizer everything is slower and bigger: bounds of memory and time are then not tested.
SANITIZED = _sanitizers()
# What a limit of time is multiplied by. It is there to end what hangs, and says nothing of how quick
# a thing is: the machine may be slow, and others may be at work on it.
SLOWER = int(os.environ.get("HSPZ_TEST_SLOWER", 16 if SANITIZED else 4))
# How many times as long work takes: what is large only to take a while is as much smaller.
SLOWDOWN = 3 if SANITIZED else 1

SHAPE_12OF19 = "1110100110010101111"
SHAPE_14OF22 = "1110101100110010101111"


def shared(*parts):
    """A path in the shared folder; skips the test where there is none, unless it is required."""
    if not os.path.isdir(SHARED):
        if "shared" in REQUIRED:
            raise AssertionError("HSPZ_REQUIRE names shared, but %s is absent" % SHARED)
        raise unittest.SkipTest("no shared folder")
    return os.path.join(SHARED, *parts)


def genome(package, name):
    """An example genome of a Debian package, unpacked or not."""
    for top in ("/", os.path.join(SOURCE, "build-genomes")):
        path = os.path.join(top, "usr/share/doc", package, name)
        if os.path.exists(path):
            return path
    if "shared" in REQUIRED:
        raise AssertionError("%s of package %s-examples is absent" % (name, package))
    raise unittest.SkipTest("no %s" % name)


def mg1655():
    return genome("ragout", "examples/E.Coli/references/MG1655-K12.fasta.gz")


def nc_008253():
    return genome("bowtie", "examples/genomes/NC_008253.fna.gz")


def tool(name):
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin")
    if path is None:
        if "shared" in REQUIRED:
            raise AssertionError("%s is absent" % name)
        raise unittest.SkipTest("no %s" % name)
    return path


def need_tls():
    """Skips the test where hspzd was built without TLS, and so without tokens."""
    done = subprocess.run([HSPZD, "--check-config", "--tls-certificate", "/", "--tls-key", "/"],
                          capture_output=True, text=True, check=False)
    if "built without TLS" in done.stderr:
        if "tls" in REQUIRED:
            raise AssertionError("HSPZ_REQUIRE names tls, but " + done.stderr)
        raise unittest.SkipTest("built without TLS")


def need_plot():
    """Skips the test where hspz-client was built without cairo."""
    done = subprocess.run([CLIENT, "plot", "/", "-o", "/dev/null"], capture_output=True, text=True,
                          check=False)
    if "built without cairo" in done.stderr:
        raise unittest.SkipTest("built without cairo")


def need_systemd():
    """Skips the test where hspzd was built without libsystemd."""
    with open(HSPZD, "rb") as program:
        if b"libsystemd.so" not in program.read():
            raise unittest.SkipTest("built without systemd")


# --- sequences and their files -------------------------------------------------------------------

def bases(rng, count, letters="ACGT"):
    return "".join(rng.choices(letters, k=count))


COMPLEMENT = str.maketrans("ACGTRYKMBVDHacgtrykmbvdh", "TGCAYRMKVBHDtgcayrmkvbhd")


def reverse_complement(text):
    return text[::-1].translate(COMPLEMENT)


def fasta(records, width=60, end="\n"):
    lines = []
    for name, seq in records:
        lines.append(">" + name)
        lines += [seq[i:i + width] for i in range(0, len(seq), width)]
    return end.join(lines) + end


def write(path, data):
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    return path


def read_fasta(path):
    opener = gzip.open if path.endswith(".gz") else open
    records = []
    with opener(path, "rt") as file:
        for line in file:
            line = line.rstrip("\r\n")
            if line.startswith(">"):
                records.append([line[1:].split()[0], []])
            elif line:
                records[-1][1].append(line)
    return [(name, "".join(parts)) for name, parts in records]


def twobit(records, version=0, order="<"):
    """A 2bit file with its N and mask blocks (UCSC's format)."""
    def runs(seq, test):
        starts, lens, at = [], [], 0
        while at < len(seq):
            if not test(seq[at]):
                at += 1
                continue
            end = at
            while end < len(seq) and test(seq[end]):
                end += 1
            starts.append(at)
            lens.append(end - at)
            at = end
        return starts, lens

    bodies = []
    for _, seq in records:
        body = struct.pack(order + "I", len(seq))
        for starts, lens in (runs(seq, lambda c: c in "Nn"), runs(seq, str.islower)):
            body += struct.pack(order + "I", len(starts))
            body += struct.pack(order + "%dI" % len(starts), *starts)
            body += struct.pack(order + "%dI" % len(lens), *lens)
        body += struct.pack(order + "I", 0)
        codes = ["TCAG".find(c.upper()) if c in "TCAGtcag" else 0 for c in seq]
        codes += [0] * (-len(codes) % 4)
        body += bytes(codes[i] << 6 | codes[i + 1] << 4 | codes[i + 2] << 2 | codes[i + 3]
                      for i in range(0, len(codes), 4))
        bodies.append(body)
    offset_form = order + ("Q" if version == 1 else "I")
    head = struct.pack(order + "4I", 0x1A412743, version, len(records), 0)
    at = len(head) + sum(1 + len(n.encode()) + struct.calcsize(offset_form) for n, _ in records)
    index = b""
    for (name, _), body in zip(records, bodies):
        raw = name.encode()
        index += bytes([len(raw)]) + raw + struct.pack(offset_form, at)
        at += len(body)
    return head + index + b"".join(bodies)


# --- what discovery must give, reckoned plainly --------------------------------------------------

def block_of(records):
    return "&".join(seq for _, seq in records)


def words_of(block, shape, unmask=False):
    """(position, word) of every window that has a word."""
    if unmask:
        block = block.upper()
    care = [i for i, c in enumerate(shape) if c != "0"]
    codes = {"A": 0, "C": 1, "G": 2, "T": 3}
    good = 0
    for end, base in enumerate(block, 1):
        good = good + 1 if base in codes else 0
        if good >= len(shape):
            word = 0
            for i in care:
                word = word << 2 | codes[block[end - len(shape) + i]]
            yield end - len(shape), word


def buckets_of(block, shape, step=1, all_positions=False, unmask=False):
    skipped = (len(shape) + 1) % step
    first = (step - skipped) % step if all_positions else step - skipped
    buckets = {}
    for position, word in words_of(block, shape, unmask):
        if position >= first and (position - first) % step == 0:
            buckets.setdefault(word, []).append(position)
    return buckets


def seeds_of(block, shape, transitions=False, unmask=False):
    weight = len(shape) - shape.count("0")
    for position, word in words_of(block, shape, unmask):
        yield word, position
        if transitions:
            for t in range(weight):
                yield word ^ 2 << 2 * t, position


def anchors_of(buckets, seeds, span):
    """Anchors as (reference, query), both after the window, in the contract's order."""
    return [(ref + span, query + span) for word, query in seeds
            for ref in reversed(buckets.get(word, ()))]


def discover(ref, query, shape=SHAPE_12OF19, transitions=True, unmask=False, strand="both", step=1,
             all_positions=False):
    """Packed anchors of a query of fewer than 250,000 positions."""
    buckets = buckets_of(block_of(ref), shape, step, all_positions, unmask)
    plus = block_of(query)
    out = []
    for name, block in (("plus", plus), ("minus", reverse_complement(plus))):
        if strand in (name, "both"):
            out += anchors_of(buckets, seeds_of(block, shape, transitions, unmask), len(shape))
    return pack_anchors(out)


def pack_anchors(pairs):
    return b"".join(struct.pack("<II", ref, query) for ref, query in pairs)


def unpack_anchors(data):
    return list(struct.iter_unpack("<II", data))


def unpack_hsps(data):
    """[(ref start, query start, length, score)]"""
    return list(struct.iter_unpack("<IIIi", data))


def pack_seeds(seeds):
    return b"".join(struct.pack("<II", query, word) for word, query in seeds)


def cut(counts, cap):
    """Chunks of SPEC C.3 as (first seed, last seed, first hit, end hit), by walking the counts."""
    chunks, first, hits, start = [], 0, 0, 0
    ends = []
    for count in counts:
        hits += count
        ends.append(hits)
    while hits - start > cap:
        border = next(i for i, end in enumerate(ends) if end >= start + cap)
        last = border - 1 if border > 0 and ends[border - 1] > start else border
        chunks.append((first, last, start, ends[last]))
        first, start = last + 1, ends[last]
    if hits > start:
        chunks.append((first, len(counts) - 1, start, hits))
    return chunks


# --- the programs --------------------------------------------------------------------------------

def child_env(**changes):
    env = {k: v for k, v in os.environ.items()
           if k not in ("HSPZ_SERVER", "XDG_RUNTIME_DIR", "NOTIFY_SOCKET", "MALLOC_PERTURB_",
                        "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")}
    for key, value in changes.items():
        if value is None:
            env.pop(key, None)
        else:
            env[key] = value
    return env


def client(*args, server=None, check=None, stdin=None, timeout=120, env=None, text=True, cwd=None,
           stdout=subprocess.PIPE, preexec_fn=None):
    """Runs hspz-client to its end. `check` is the exit status it must have."""
    command = [CLIENT] + (["--server", server] if server else []) + [str(a) for a in args]
    done = subprocess.run(command, input=stdin, stdout=stdout, stderr=subprocess.PIPE,
                          timeout=timeout * SLOWER, env=env or child_env(), cwd=cwd,
                          preexec_fn=preexec_fn)
    if text:
        done.stdout = done.stdout.decode() if done.stdout is not None else None
    done.stderr = done.stderr.decode(errors="replace")
    if check is not None and done.returncode != check:
        raise AssertionError("%s: exit %d, not %d\n%s" % (" ".join(command), done.returncode, check,
                                                         done.stderr[-2000:]))
    return done


def make_index(ref, out, *args):
    client("index", "build", ref, "-o", out, "--threads", "2", *args, check=0)
    return out


class Indexes:
    """The last few indexes built. A table of 64 MiB is written for the shortest reference, and most tests of a
    class have the same one: the next test gets another name of the file, unless it was written to since."""
    MOST = 4

    def __init__(self):
        self.folder = None
        self.kept = {}  # (digest of the reference, options): [path, modified, test it was given to]
        self.test = None

    def clear(self):
        if self.folder is not None and self.owner == os.getpid():
            shutil.rmtree(self.folder, True)

    def keep(self, key, out):
        if self.folder is None:
            self.folder = tempfile.mkdtemp(prefix="hspz-indexes-")
            self.owner = os.getpid()
            atexit.register(self.clear)
        path = os.path.join(self.folder, "%d" % random.getrandbits(60))
        os.link(out, path)
        self.kept[key] = [path, os.stat(path).st_mtime_ns, self.test]
        if len(self.kept) > self.MOST:
            self.drop(next(iter(self.kept)))

    def drop(self, key):
        os.unlink(self.kept.pop(key)[0])

    def build(self, ref, out, *args):
        """A test that asks twice gets two files."""
        with open(ref, "rb") as file:
            key = hashlib.sha256(file.read()).digest(), args
        with contextlib.suppress(OSError):
            if key in self.kept:
                path, modified, test = self.kept.pop(key)
                self.kept[key] = [path, modified, self.test]  # the last to go
                if os.stat(path).st_mtime_ns != modified:
                    self.drop(key)
                elif self.test is not None and test is not self.test:
                    os.link(path, out)
                    return out
                else:
                    return make_index(ref, out, *args)
        make_index(ref, out, *args)
        with contextlib.suppress(OSError):
            self.keep(key, out)
        return out


indexes = Indexes()


def build_index(ref, out, *args):
    return indexes.build(ref, out, *map(str, args))


class Daemon:
    """A real hspzd on a private socket."""

    def __init__(self, folder, *args, indexes=None, threads=1, config=None, env=None, wait=True,
                 prefix=(), socket_path=None, preexec_fn=None, pass_fds=()):
        self.folder = folder
        self.path = socket_path or os.path.join(folder, "hspz.sock")
        self.server = "unix:" + self.path
        self.log_path = tempfile.mkstemp(prefix="hspzd-", suffix=".log", dir=folder)[1]
        command = list(prefix) + [HSPZD, "--socket", self.path, "--engine", ENGINE, "--threads",
                                  str(threads)] + OPTIONS
        if config is not None:
            name = os.path.join(folder, "hspzd-%d.json" % random.getrandbits(32))
            write(name, config if isinstance(config, str) else json.dumps(config))
            command += ["--config", name]
        for name, file in (indexes or {}).items():
            command += ["--index", "%s=%s" % (name, file)]
        self.command = command + [str(a) for a in args]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, env=env or child_env(),
                                            preexec_fn=preexec_fn, pass_fds=pass_fds)
        if wait:
            self.wait_ready()

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_ready(self, seconds=60):
        end = time.monotonic() + seconds * SLOWER
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError("hspzd ended with %s:\n%s" % (self.process.returncode,
                                                                  self.log()[-3000:]))
            try:
                with Peer(self.path) as peer:
                    if peer.call("health")["state"] == "ready":
                        return
            except (OSError, RpcError, EOFError):
                pass
            time.sleep(0.02)
        raise AssertionError("hspzd is not ready:\n" + self.log()[-3000:])

    def wait_listening(self):
        """Until it can be connected to: its socket has a name before it listens."""
        if not poll(lambda: listens(self.path), 30):
            raise AssertionError("nobody listens:\n" + self.log()[-3000:])

    def client(self, *args, **more):
        return client(*args, server=self.server, **more)

    def peer(self, **more):
        return Peer(self.path, **more)

    def jobs(self):
        """The counts of all jobs, asked for on a connection of its own."""
        with self.peer() as peer:
            return peer.call("stats")["jobs"]

    def wait_jobs(self, **counts):
        """Until so many jobs are running, waiting, ...: an answer or a part may come before or after
        the daemon counts the job it is of."""
        if not poll(lambda: counts.items() <= self.jobs().items(), 30):
            raise AssertionError("%s, not %s" % (self.jobs(), counts))

    def port(self):
        """Of its first TCP address, once that is bound."""
        found = poll(lambda: re.search(r"address=tcp:[^ ]*:(\d+)", self.log()), 30)
        return int(found.group(1))

    def reload(self):
        """SIGHUP; returns what is logged until it is done."""
        before = len(self.log())
        self.process.send_signal(signal.SIGHUP)
        poll(lambda: re.search("info reloaded|error \"?not reloaded", self.log()[before:]), 30)
        return self.log()[before:]

    def status(self, key):
        with open("/proc/%d/status" % self.pid, encoding="ascii") as file:
            return int(re.search(r"^%s:\s+(\d+)" % key, file.read(), re.M).group(1))

    def rss_mib(self):
        return self.status("VmRSS") / 1024

    def peak_mib(self):
        return self.status("VmHWM") / 1024

    def fds(self):
        return len(os.listdir("/proc/%d/fd" % self.pid))

    def cpu_seconds(self):
        with open("/proc/%d/stat" % self.pid, encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def alive(self):
        return self.process.poll() is None

    def stop(self, expect=0, sig=signal.SIGTERM, seconds=30):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            status = self.process.wait(seconds * SLOWER)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("hspzd did not stop within %d s:\n%s" % (
                seconds, self.log()[-3000:])) from None
        if expect is not None and status != expect:
            raise AssertionError("hspzd ended with %d, not %d:\n%s" % (status, expect,
                                                                      self.log()[-3000:]))
        return status


class RpcError(Exception):
    def __init__(self, error):
        super().__init__(error)
        self.error = error
        self.code = error.get("code") if isinstance(error, dict) else None


class Peer:
    """A msgpack-rpc client over a plain socket, with msgpack's default buffer sizes."""

    def __init__(self, where, hello=True, timeout=60, token=None, context=None,
                 server_name="localhost"):
        """`context`: an ssl.SSLContext to speak TLS with."""
        if isinstance(where, tuple):
            self.socket = socket.create_connection(where, timeout=timeout * SLOWER)
        else:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                # Blocking: with a time-out, a full backlog would be an error at once.
                self.socket.connect(where)
            except OSError:
                self.socket.close()
                raise
            self.socket.settimeout(timeout * SLOWER)
        if context is not None:
            try:
                self.socket = context.wrap_socket(self.socket, server_hostname=server_name)
            except BaseException:
                self.socket.close()
                raise
        self.unpacker = msgpack.Unpacker()
        self.next_id = 1  # 0 is the server's, for errors of no request
        self.notices = []
        if hello:
            try:
                self.welcome = self.call("hello", dict(
                    {"protocol": 1, "client": "test"}, **({"token": token} if token else {})))
            except BaseException:
                self.socket.close()
                raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        """Closes with RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send_bytes(self, data):
        self.socket.sendall(data)

    def send(self, message):
        self.send_bytes(msgpack.packb(message))

    def request(self, method, params=None, **more):
        """Sends a request, returns its id. Parameters may be a map, keywords, or a bare list."""
        number = self.next_id
        self.next_id += 1
        if params is None:
            params = more
        self.send([0, number, method, params if isinstance(params, list)
                   else [params] if params else []])
        return number

    def receive(self):
        """The next message; EOFError when the peer closed."""
        while True:
            try:
                return next(self.unpacker)
            except StopIteration:
                pass
            data = self.socket.recv(1 << 18)
            if not data:
                raise EOFError
            self.unpacker.feed(data)

    def closed(self, seconds=10):
        """True when the peer closes within the time, whatever it says before."""
        end = time.monotonic() + seconds * SLOWER
        while True:
            left = end - time.monotonic()
            if left <= 0:
                return False
            if select.select([self.socket], [], [], left)[0]:
                try:
                    if not self.socket.recv(1 << 18):
                        return True
                except ConnectionError:
                    return True

    def silent(self, seconds=0.3):
        """True when nothing is there to read for that long."""
        return not select.select([self.socket], [], [], seconds)[0]

    def response(self, number):
        """[error, result] of a request; notifications before it are kept in `notices`."""
        while True:
            message = self.receive()
            if message[0] == 2:
                self.notices.append(message)
            elif message[0] == 1 and message[1] == number:
                return message[2], message[3]
            elif message[1] == 0:
                raise RpcError(message[2])
            else:
                raise AssertionError("an answer nobody waits for: %r" % (message[:3],))

    def result(self, number):
        error, result = self.response(number)
        if error is not None:
            raise RpcError(error)
        return result

    def call(self, method, params=None, **more):
        return self.result(self.request(method, params, **more))

    def error(self, method, params=None, **more):
        """The error map of a call that must fail."""
        error, result = self.response(self.request(method, params, **more))
        if error is None:
            raise AssertionError("%s succeeded: %r" % (method, result))
        return error

    def anchors(self, number):
        """(result, bytes of anchors or HSPs, part maps) of a discover job."""
        self.notices = []
        result = self.result(number)
        parts = [n[2] for n in self.notices
                 if n[1] in ("anchors", "hsps") and n[2][0]["job"] == number]
        return result, b"".join(p[1] for p in parts), [p[0] for p in parts]

    def discover(self, index, **params):
        return self.anchors(self.request("discover", dict(params, index=index)))


class Relay(contextlib.AbstractContextManager):
    """A listener at a UNIX path that plays a server: `serve(connection)` runs per connection."""

    def __init__(self, path, serve):
        import threading
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen(8)
        self.server = "unix:" + path
        self.serve = serve
        self.open = []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.open.append(connection)
            try:
                self.serve(connection)
            except (OSError, ValueError):
                pass  # a descriptor of what is closed already is -1

    def __exit__(self, *_):
        self.listener.close()
        for connection in self.open:
            connection.close()


class TestCase(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="hspz-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        indexes.test = self
        self.daemons = []

    def tearDown(self):
        for daemon in self.daemons:
            if daemon.process.poll() is None:
                daemon.process.kill()
                daemon.process.wait()

    def path(self, name):
        return os.path.join(self.folder, name)

    def file(self, name, data):
        return write(self.path(name), data)

    def daemon(self, *args, **more):
        daemon = Daemon(self.folder, *args, **more)
        self.daemons.append(daemon)
        return daemon

    def index(self, records, *args, name="ref"):
        """Index file built by the client from records."""
        source = self.file(name + ".fa", fasta(records))
        return build_index(source, self.path(name + ".hspz"), *args)

    def assert_same_anchors(self, got, want, what=""):
        """Byte equality; says where the first difference is. Two empty results are an error: use
        assertEqual where nothing is expected."""
        self.assertTrue(want, "nothing expected %s" % what)
        if got == want:
            return
        got, want = unpack_anchors(got), unpack_anchors(want)
        for i, (a, b) in enumerate(zip(got, want)):
            if a != b:
                self.fail("%s anchor %d of %d is %s, not %s" % (what, i, len(want), a, b))
        self.fail("%s %d anchors, not %d" % (what, len(got), len(want)))

    def assert_code(self, error, code, *words):
        self.assertIsInstance(error, dict)
        self.assertEqual(error.get("code"), code, error)
        for word in words:
            self.assertIn(str(word), error.get("message", ""), error)


def listens(path):
    """Whether somebody listens at a UNIX path."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(path) == 0


def free_port():
    """A TCP port that nobody has, and that nobody is given who asks for any."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        first = int(file.read().split()[0])
    while True:
        port = random.SystemRandom().randrange(first - 12000, first)
        with contextlib.suppress(OSError), socket.create_server(("0.0.0.0", port)):
            return port


def poll(check, seconds=10, every=0.02):
    """Waits until check() is true; returns its value, or the last one."""
    end = time.monotonic() + seconds * SLOWER
    while True:
        value = check()
        if value or time.monotonic() > end:
            return value
        time.sleep(every)


class TimedResult(unittest.TextTestResult):
    """Says beside each test how long it took."""

    def startTest(self, test):
        self.begun = time.monotonic()
        super().startTest(test)

    def addSuccess(self, test):
        self.stream.write("%.1f s " % (time.monotonic() - self.begun))
        super().addSuccess(test)


def main():
    """Runs the file's tests, or with HSPZ_TEST_REST=yes those that a sanitizer changes; exits 77 when every
    one was skipped."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    loader = rest.Loader() if os.environ.get("HSPZ_TEST_REST") == "yes" else unittest.defaultTestLoader
    program = unittest.main(exit=False, argv=sys.argv, testLoader=loader,
                            testRunner=unittest.TextTestRunner(verbosity=2, resultclass=TimedResult))
    result = program.result
    skipped = len(result.skipped)
    if isinstance(loader, rest.Loader) and loader.left:
        print(rest.MARK + " ".join(loader.left), flush=True)
        if result.testsRun == 0:
            sys.exit(77)
    if not result.wasSuccessful() or result.testsRun + skipped == 0:
        sys.exit(1)
    sys.exit(77 if skipped >= max(result.testsRun, 1) else 0)
