"""What TLS handshakes that come all at once do to somebody else's requests.

    tests/bench/tls_storm.py [CONNECTIONS [rsa:BITS | ec]]

HSPZ_BUILD names the build folder. A process of its own asks for 1,000 seeds at a time over the UNIX
socket, first alone, then while so many connections shake hands; and the daemon's processor time is
shared out among them."""

import json
import os
import random
import select
import socket
import ssl
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import hspz_test  # noqa: E402


def certificate(folder, kind):
    key = ["-newkey", kind] if kind != "ec" else ["-newkey", "ec", "-pkeyopt",
                                                  "ec_paramgen_curve:P-256"]
    paths = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    hspz_test.subprocess.run(
        [hspz_test.tool("openssl"), "req", "-x509", *key, "-nodes", "-keyout", paths[1], "-out",
         paths[0], "-days", "30", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    return paths


def other_tenant(daemon, seeds, until):
    """[(when, seconds)] of requests until `until` has something to read."""
    took = []
    with daemon.peer() as peer:
        while not select.select([until], [], [], 0)[0]:
            begin = time.monotonic()
            peer.discover("r", seeds=seeds)
            took.append((begin, time.monotonic() - begin))
            time.sleep(0.0005)
    return took


class Hand:
    """One connection, with its first words ready."""

    def __init__(self, context, port):
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.shaken = self.step()
        self.socket = socket.create_connection(("127.0.0.1", port))

    def step(self):
        try:
            self.tls.do_handshake()
            return True
        except ssl.SSLWantReadError:
            return False

    def send(self):
        self.socket.sendall(self.outgoing.read())

    def receive(self):
        self.incoming.write(self.socket.recv(65536))
        self.shaken = self.step()
        if self.shaken:
            self.send()


def shake_all(hands):
    """(begin, end) of it."""
    begin = time.monotonic()
    for hand in hands:
        hand.send()
    open_ = {hand.socket: hand for hand in hands}
    while open_:
        for ready in select.select(list(open_), [], [])[0]:
            open_[ready].receive()
            if open_[ready].shaken:
                del open_[ready]
    return begin, time.monotonic()


def fork_tenant(daemon, seeds):
    """(pipe to stop it, pipe to read what it measured)"""
    stop_read, stop_write = os.pipe()
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        with os.fdopen(write_end, "w") as out:
            json.dump(other_tenant(daemon, seeds, stop_read), out)
        os._exit(0)
    os.close(write_end)
    return stop_write, read_end


def show(name, times):
    times = sorted(times)
    print("%-10s %5d requests: median %.2f ms, 99 %% %.2f ms, longest %.2f ms" % (
        name, len(times), *(1000 * times[int(q * (len(times) - 1))] for q in (0.5, 0.99, 1))))


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    kind = sys.argv[2] if len(sys.argv) > 2 else "ec"
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        cert, key = certificate(folder, kind)
        text = hspz_test.bases(rng, 100000)
        source = hspz_test.write(os.path.join(folder, "r.fa"), hspz_test.fasta([("r", text)]))
        daemon = hspz_test.Daemon(
            folder, "--tls-certificate", cert, "--tls-key", key, "--listen", "127.0.0.1:0",
            indexes={"r": hspz_test.build_index(source, os.path.join(folder, "r.hspz"))})
        try:
            seeds = hspz_test.pack_seeds(list(hspz_test.seeds_of(
                text[5000:6018], hspz_test.SHAPE_12OF19))[:1000])
            context = ssl.create_default_context(cafile=cert)
            stop, measured = fork_tenant(daemon, seeds)
            time.sleep(2)
            hands = [Hand(context, daemon.port()) for _ in range(count)]
            time.sleep(2)
            begin, end = shake_all(hands)
            time.sleep(0.5)
            os.write(stop, b".")
            with os.fdopen(measured) as file:
                took = json.load(file)
            used = daemon.cpu_seconds()
            again = [Hand(context, daemon.port()) for _ in range(count)]
            shake_all(again)
            used = daemon.cpu_seconds() - used
        finally:
            daemon.stop(expect=None)
    show("alone", [t for at, t in took if at < begin - 2])
    show("with them", [t for at, t in took if begin - 0.05 < at + t and at < end])
    print("%d handshakes in %.0f ms; %.2f ms of the daemon's processor each" % (
        count, 1000 * (end - begin), 1000 * used / count))


main()
