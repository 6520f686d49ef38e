"""A small server of protocol 1 for tests of the client: one index, anchors by brute force, faults on
demand. It shares no code with hspz."""

import itertools
import os
import socket
import struct
import sys
import threading

import msgpack
import xxhash

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import reports  # noqa: E402,F401 pylint: disable=wrong-import-position,unused-import

SHAPE = "1110100110010101111"
CODE = {"A": 0, "C": 1, "G": 2, "T": 3}
COMPLEMENT = {"A": "T", "C": "G", "G": "C", "T": "A"}
BATCH = 250000


def reverse_complement(bases):
    return "".join(COMPLEMENT.get(b, b) for b in reversed(bases))


def words(bases):
    """(position, word) of every window without an invalid base."""
    for at in range(len(bases) - len(SHAPE) + 1):
        window = bases[at:at + len(SHAPE)]
        if all(b in CODE for b in window):
            yield at, "".join(b for b, c in zip(window, SHAPE) if c == "1")


class Index:
    """Sequences as [(name, bases)], joined by & into blocks of `per_block` sequences."""

    def __init__(self, sequences, per_block=1000):
        self.sequences = sequences
        self.table = []
        self.blocks = []
        for i, (name, bases) in enumerate(sequences):
            if i % per_block == 0:
                self.blocks.append("")
            else:
                self.blocks[-1] += "&"
            self.table.append((name, len(bases), len(self.blocks) - 1, len(self.blocks[-1])))
            self.blocks[-1] += bases
        self.digest = xxhash.xxh64("|".join(b for _, b in sequences).encode()).hexdigest()
        self.buckets = []
        for block in self.blocks:
            bucket = {}
            for at, word in words(block):
                bucket.setdefault(word, []).append(at)
            self.buckets.append(bucket)

    def anchors(self, bases, strands):
        """[(strand, batch, ref_block, seeds, [anchor])], empty ones left out."""
        out = []
        for strand in strands:
            text = bases if strand == "plus" else reverse_complement(bases)
            found = list(words(text))
            for begin in range(0, max(len(text), 1), BATCH):
                seeds = [(at, word) for at, word in found if begin <= at < begin + BATCH]
                for number, bucket in enumerate(self.buckets):
                    hits = [at + len(SHAPE) << 32 | ref + len(SHAPE)
                            for at, word in seeds for ref in reversed(bucket.get(word, []))]
                    if hits:
                        out.append((strand, begin // BATCH, number, len(seeds), hits))
        return out


class Stub:
    """Serves until closed. `faults` name what goes wrong; see where each is looked up. Parts hold
    `part` anchors."""

    def __init__(self, path, index=None, part=20, **faults):
        self.index = index
        self.part = part
        self.faults = faults
        self.requests = []
        self.largest = 0
        self.limits = faults.pop("limits", {"max_message": 1 << 30, "max_query_bases": 1 << 30})
        self.state = "ready"
        self.percent = 100
        if isinstance(path, tuple):
            self.listener = socket.create_server(path)
            self.address = "tcp:127.0.0.1:%d" % self.listener.getsockname()[1]
        else:
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(path)
            self.listener.listen(16)
            self.address = "unix:" + path
        self.path = path
        self.closed = False
        self.sockets = []
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.close()

    def close(self):
        self.closed = True
        for s in self.sockets + [self.listener]:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
        if isinstance(self.path, str) and os.path.exists(self.path):
            os.unlink(self.path)

    def accept(self):
        while not self.closed:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            self.sockets.append(peer)
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        try:
            if self.faults.get("garbage"):
                peer.sendall(self.faults["garbage"])
                peer.recv(1 << 16)
                return
            if self.faults.get("silent"):
                while peer.recv(1 << 16):
                    pass
                return
            self.talk(peer)
        except OSError:
            pass
        finally:
            peer.close()

    def talk(self, peer):
        if self.faults.get("refuse"):
            code, text = self.faults["refuse"]
            return self.reply(peer, 0, error={"code": code, "message": text})
        unpacker = msgpack.Unpacker(raw=False, max_buffer_size=1 << 30)
        while True:
            data = peer.recv(1 << 20)
            if not data:
                return
            if self.faults.get("talk_first") and b"discover" in data:
                peer.sendall(msgpack.packb([2, "later", [bytes(self.faults.pop("talk_first"))]]))
            unpacker.feed(data)
            for message in unpacker:
                self.requests.append(message)
                if self.answer(peer, message) is False:
                    return

    def reply(self, peer, number, result=None, error=None):
        peer.sendall(msgpack.packb([1, number, error, result]))

    def answer(self, peer, message):
        kind, number, method, params = message
        params = params[0] if params else {}
        if method == "hello":
            if self.faults.get("hello_error"):
                code, text = self.faults["hello_error"]
                return self.reply(peer, number, error={"code": code, "message": text})
            return self.reply(peer, number, {
                "protocol": 1, "server": "hspzd", "version": "9.8.7", "engine": "stub",
                "devices": [{"name": "one", "memory_bytes": 0}, {"name": "two"}],
                "tenant": "", "role": "operator", "state": self.state, "limits": self.limits})
        if self.faults.get("expel"):
            code, text = self.faults["expel"]
            self.reply(peer, 0, error={"code": code, "message": text})
            return False
        if method == "health":
            result = {"state": self.state, "uptime_ns": 1}
            if self.state == "loading":
                result["percent"] = self.percent
            return self.reply(peer, number, result)
        if method == "stats":
            return self.reply(peer, number, self.faults.get("stats") or {
                "jobs": {"ok": 3}, "big": 2 ** 64 - 1, "f": 0.25,
                "names": ["a\tb", "\u540d"], "none": None})
        if method == "cancel":
            return self.reply(peer, number, {"job": params["job"], "found": True})
        if method == "index.list":
            return self.list(peer, number, params)
        if self.state == "loading":
            return self.reply(peer, number, error={"code": "not_ready", "message": "still loading"})
        if method in ("index.load", "index.unload", "index.build"):
            return self.reply(peer, number, {"index": params["index"],
                                             "digest": self.index.digest, "bytes": 7})
        if params.get("index") != "ref":
            return self.reply(peer, number, error={"code": "unknown_index",
                                                   "message": "there is no index here"})
        if method == "index.describe":
            return self.describe(peer, number, params)
        if method == "discover":
            return self.discover(peer, number, params)
        return self.reply(peer, number, error={"code": "unknown_method", "message": method})

    def list(self, peer, number, params):
        names = ["ref"] + ["n%d" % i for i in range(self.faults.get("extra_indexes", 0))]
        first = self.faults.get("list_first", params.get("first", 0))
        page = names[first:first + min(params.get("count", 300), 100)]
        self.reply(peer, number, {"index_count": len(names), "first": first, "indexes": [
            {"index": n, "state": "ready", "file": n + ".hspz", "bytes": 11, "pinned": False}
            for n in page]})

    def describe(self, peer, number, params):
        first, count = params.get("first", 0), min(params.get("count", 500), 3)
        table = self.index.table[first:first + count]
        digest = self.index.digest
        if self.faults.get("replace_index") and first > 0:
            digest = "0" * 16
        self.reply(peer, number, {
            "index": "ref", "state": "ready", "file": "ref.hspz", "shape": SHAPE, "weight": 12,
            "span": len(SHAPE), "step": 1, "unmask": False, "all_positions": True,
            "digest": digest, "version": "9.8.7", "bytes": 1234,
            "bases": sum(len(b) for b in self.index.blocks),
            "words": sum(len(p) for b in self.index.buckets for p in b.values()),
            "block_count": len(self.index.blocks), "sequence_count": len(self.index.table),
            "first": first,
            "blocks": [[len(b), 0] for b in self.index.blocks[first:first + count]],
            "sequences": [list(row) for row in table]})

    def parts(self, job, params):
        if "seeds" in params:
            seeds = struct.unpack("<%dQ" % (len(params["seeds"]) // 8), params["seeds"])
            groups = [("plus", 0, 0, len(seeds), list(seeds))]
        else:
            bases = params["query"]["bases"].decode("ascii")
            self.largest = max(self.largest, len(bases))
            if params.get("unmask"):
                bases = bases.upper()
            strands = {"both": ["plus", "minus"]}.get(params.get("strand", "both"),
                                                      [params.get("strand")])
            groups = [] if self.faults.get("no_anchors") else self.index.anchors(bases, strands)
        out = []
        for strand, batch, block, seeds, hits in groups:
            for part, begin in enumerate(range(0, len(hits), self.part)):
                end = min(begin + self.part, len(hits))
                out.append(({"job": job, "batch": batch, "strand": strand, "ref_block": block,
                             "chunk": 0, "part": part, "last_part": end == len(hits),
                             "seed_begin": 0, "seed_end": seeds, "hit_begin": begin,
                             "hit_end": end},
                            struct.pack("<%dQ" % (end - begin), *hits[begin:end])))
        if params.get("encoding") == "columnar":
            return groups, [self.by_columns(*part) for part in out]
        return groups, out

    def by_columns(self, head, payload):
        anchors = list(struct.iter_unpack("<II", payload))
        runs = [[query, len(list(same))]
                for query, same in itertools.groupby(anchors, lambda a: a[1])]
        if self.faults.get("empty_run"):
            runs.append([7, 0])
        if self.faults.get("short_run"):
            runs[-1][1] += 1
        if not self.faults.get("no_encoding"):
            head["encoding"] = "columnar"
        numbers = [n for run in runs for n in run] + [ref for ref, _ in anchors]
        return head, struct.pack("<%dI" % len(numbers), *numbers)

    def discover(self, peer, job, params):
        if params.get("index_digest") not in (None, self.index.digest):
            return self.reply(peer, job, error={"code": "unknown_index", "message": "replaced"})
        groups, parts = self.parts(job, params)
        whole = b"".join(struct.pack("<%dQ" % len(g[4]), *g[4]) for g in groups)
        faults = self.faults
        if "swap" in faults:
            i, k = faults["swap"]
            parts[i], parts[k] = parts[k], parts[i]
        if "skip" in faults:
            del parts[faults["skip"]]
        if "repeat" in faults:
            parts.insert(faults["repeat"], parts[faults["repeat"]])
        if "foreign_job" in faults:
            parts[0][0]["job"] += 1
        if "change" in faults:
            at, key, value = faults["change"]
            parts[at][0][key] = value
        if "damage" in faults:
            head, payload = parts[faults["damage"]]
            parts[faults["damage"]] = (head, payload[:3] + bytes([payload[3] ^ 1]) + payload[4:])
        for i, (head, payload) in enumerate(parts):
            if faults.get("close_after") == i:
                return False
            if faults.get("cut_inside") == i:
                message = msgpack.packb([2, "anchors", [head, payload]], use_bin_type=True)
                peer.sendall(message[:len(message) // 2])
                return False
            if faults.get("stall_after") == i:
                while peer.recv(1 << 16):
                    pass
                return False
            if faults.get("cancel_after") == i:
                request = msgpack.unpackb(peer.recv(1 << 16))
                self.requests.append(request)
                self.answer(peer, request)
                return self.reply(peer, job, error={"code": "cancelled", "message": "cancelled"})
            if "error_after" in faults and faults["error_after"][0] == i:
                return self.reply(peer, job, error={"code": faults["error_after"][1],
                                                    "message": "the card fell off"})
            peer.sendall(msgpack.packb([2, "anchors", [head, payload]], use_bin_type=True))
        if faults.get("close_after") == -1:
            return False
        strands = {}
        for name in ("plus", "minus"):
            mine = [g for g in groups if g[0] == name]
            strands[name] = {"batches": len({g[1] for g in mine}),
                             "seeds": sum(g[3] for g in mine),
                             "hits": sum(len(g[4]) for g in mine), "chunks": len(mine),
                             "hsps": 0}
        count = len(whole) // 8 + faults.get("extra_total", 0)
        result = {"strands": strands, "anchors": count, "hsps": 0, "chunks": len(groups),
                  "max_hits": params.get("max_hits", 1 << 28), "index_digest": self.index.digest,
                  "timings": {"queued_ns": 1, "engine_ns": 2, "total_ns": 3}}
        if params.get("digest", True):
            digest = xxhash.xxh64(whole).hexdigest()
            result["digest"] = "0" * 16 if faults.get("wrong_digest") else digest
        if "result" in faults:
            result.update(faults["result"])
        self.reply(peer, job, result)
