"""A stub server that keeps filters exactly, as plain Python lists: what is answered is the truth. It
shares no code with hspz."""

import struct

import msgpack

import stub


class Filter:
    def __init__(self, params):
        self.params = params
        self.kind = params["kind"]
        self.room = params.get("capacity") or params.get("slots")
        self.entries = {}  # key: [values], or of a gqf its count
        self.copies = 0

    def size(self):
        return len(self.entries) if self.kind == "gqf" else self.copies

    def run(self, method, key, value, count):
        """(yes, number, full) of one key."""
        there = key in self.entries
        held = self.entries.get(key)
        if method == "query":
            return there, (held[0] if there and self.kind != "gqf" else 0), False
        if method == "count":
            return there, (0 if not there else held if self.kind == "gqf" else len(held)), False
        if method == "delete":
            self.copies -= there
            if there and self.kind == "tcf":
                held.pop(0)
            if there and (self.kind != "tcf" or not held):
                del self.entries[key]
            return there, 0, False
        if method == "decrement":
            if there:
                self.entries[key] -= count
                if self.entries[key] <= 0:
                    del self.entries[key]
            return there, 0, False
        if method == "insert_if_absent" and there:
            return False, held[0] if self.kind != "gqf" else 0, False
        if self.size() >= self.room and not (self.kind == "gqf" and there):
            return False, 0, True
        if self.kind == "gqf":
            self.entries[key] = self.entries.get(key, 0) + count
        else:
            self.entries.setdefault(key, []).append(value)
            self.copies += 1
        return True, 0, False


def numbers(data):
    return struct.unpack("<%dQ" % (len(data) // 8), data)


class FilterStub(stub.Stub):
    """`part`: keys of an `answers`, a multiple of 8. Faults: see answers()."""

    def __init__(self, path, part=64, **faults):
        faults.setdefault("limits", {"max_message": 1 << 30, "max_keys": 1 << 20})
        self.filters = {}
        self.saved = {}
        super().__init__(path, part=part, **faults)

    def info(self, name, f, **more):
        size = f.size()
        p = f.params
        return dict({
            "filter": name, "kind": f.kind, "shared": p.get("shared", False),
            "capacity": p.get("capacity", 0), "slots": 1000, "slot_bits": 16, "block_slots": 16,
            "hashes": 0, "value_bits": p.get("value_bits", 0), "seed": p.get("seed", 0),
            "full_slots": f.room, "bytes": 2000, "expected_rate": p.get("rate", 0.25),
            "entries": size, "total": size, "used": size, "load": size / 1000, "rate": 0.5,
            "filter_full": False}, **more)

    def answer(self, peer, message):
        _, number, method, params = message
        if not method.startswith("filter."):
            return super().answer(peer, message)
        params = params[0] if params else {}
        method = method[len("filter."):]
        if self.faults.get("busy"):
            self.faults["busy"] -= 1
            return self.reply(peer, number, error={"code": "queue_full", "message": "busy",
                                                   "retry_ms": 10, "limit": 1})
        if method == "list":
            names = sorted(self.filters) + ["a/n%03d" % i for i in range(self.faults.get("more", 0))]
            first = params.get("first", 0)
            page = names[first:first + min(params.get("count", 300), 100)]
            return self.reply(peer, number, {"filter_count": len(names), "first": first, "filters": [
                {"filter": n, "kind": "tcf", "shared": "/" in n, "bytes": 7} for n in page]})
        name = params["filter"]
        if method == "create":
            if name in self.filters:
                return self.reply(peer, number, error={"code": "bad_request",
                                                       "message": "there is a filter " + name})
            self.filters[name] = Filter(params)
            return self.reply(peer, number, self.info(name, self.filters[name]))
        if method == "load":
            self.filters[name] = self.saved[name]
            self.filters[name].params["shared"] = params.get("shared", False)
            return self.reply(peer, number, self.info(name, self.filters[name]))
        if name not in self.filters:
            return self.reply(peer, number, error={"code": "unknown_filter",
                                                   "message": "there is no filter " + name})
        f = self.filters[name]
        if method == "save":
            self.saved[name] = f
        elif method == "drop":
            del self.filters[name]
            if params.get("saved"):
                self.saved.pop(name, None)
        elif method == "merge":
            other = self.filters[params["from"]]
            if len(set(f.entries) | set(other.entries)) > f.room:
                return self.reply(peer, number, self.info(name, f, filter_full=True))
            for key, count in other.entries.items():
                f.entries[key] = f.entries.get(key, 0) + count
        elif method == "enumerate":
            return self.enumerate(peer, number, f)
        elif method != "stats":
            return self.keys(peer, number, f, method, params)
        self.reply(peer, number, self.info(name, f))

    def timings(self):
        return {"queued_ns": 1, "engine_ns": 2, "total_ns": 3}

    def enumerate(self, peer, number, f):
        rows = []
        for key in sorted(f.entries):
            held = f.entries[key]
            rows += [(key, 0, held)] if f.kind == "gqf" else [(key, v, 1) for v in held]
        for first in range(0, len(rows), self.part):
            some = rows[first:first + self.part]
            if self.faults.get("skip") == first:
                continue
            peer.sendall(msgpack.packb([2, "entries", [
                {"job": number, "first": first, "count": len(some)},
                b"".join(struct.pack("<3Q", *row) for row in some)]]))
        count = len(rows) + self.faults.get("extra", 0)
        self.reply(peer, number, {"entries": count, "timings": self.timings()})

    def keys(self, peer, number, f, method, params):
        keys = numbers(params["keys"])
        values = numbers(params.get("values", b"")) or (0,) * len(keys)
        counts = numbers(params.get("counts", b"")) or (1,) * len(keys)
        assert len(keys) == len(values) == len(counts)
        yes, found, full = [], [], False
        for key, value, count in zip(keys, values, counts):
            one, n, refused = f.run(method, key, value, count)
            yes.append(one)
            found.append(n)
            full = full or refused
        answer = params.get("answer", "array" if method == "count" else "bitmap")
        for first in range(0, len(keys), self.part):
            if answer == "none":
                break
            if not self.answers(peer, number, answer, first, yes[first:first + self.part],
                                found[first:first + self.part]):
                return False
        self.reply(peer, number, {"keys": len(keys), "yes": sum(yes) + self.faults.get("extra", 0),
                                  "filter_full": full, "timings": self.timings()})

    def answers(self, peer, number, answer, first, yes, found):
        bits = bytearray((len(yes) + 7) // 8)
        for i, one in enumerate(yes):
            bits[i // 8] |= one << i % 8
        if "behind" in self.faults and len(yes) % 8:
            bits[-1] |= 0x80
        array = struct.pack("<%dQ" % len(found), *found)
        payload = {"bitmap": bytes(bits), "array": array, "both": array + bytes(bits)}[answer]
        head = {"job": number, "answer": answer, "first": first, "count": len(yes)}
        if self.faults.get("close_at") == first:
            return False
        if self.faults.get("skip") == first:
            return True
        if self.faults.get("short") == first:
            payload = payload[:-1]
        head.update(self.faults.get("change", {}) if first == 0 else {})
        peer.sendall(msgpack.packb([2, "answers", [head, payload]]))
        return True
