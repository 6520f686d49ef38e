"""A stub server of HSP jobs: exact matches that cannot be longer, of 19 bases or more, score 100 a
base. What it sends is looked up here without hspz; what a test expects is found sequence by sequence,
never in block coordinates."""

import struct

import msgpack
import xxhash

import stub
from stub import reverse_complement

LEAST = 19


def matches(ref, query):
    """(ref start, query start, length) of maximal exact matches of ACGT, in no order."""
    places = {}
    for at in range(len(ref) - LEAST + 1):
        places.setdefault(ref[at:at + LEAST], []).append(at)
    found = set()
    for q in range(len(query) - LEAST + 1):
        word = query[q:q + LEAST]
        if not set(word) <= set("ACGT"):
            continue
        for r in places.get(word, ()):
            a, b = r, q
            while a > 0 and b > 0 and ref[a - 1] == query[b - 1] and ref[a - 1] in "ACGT":
                a, b = a - 1, b - 1
            end = r + LEAST
            while (end < len(ref) and end - a + b < len(query) and ref[end] == query[end - a + b]
                   and ref[end] in "ACGT"):
                end += 1
            found.add((a, b, end - a))
    return found


def true_hsps(refs, queries, strands="+-"):
    """(ref, ref start, query, query start on its strand, length, strand, query length)."""
    return [(ref, r, query, q, n, strand, len(bases)) for ref, ref_bases in refs
            for query, bases in queries for strand in strands
            for r, q, n in matches(ref_bases,
                                   bases if strand == "+" else reverse_complement(bases))]


class HspStub(stub.Stub):
    """Parts hold `part` HSPs. With `interval` in a request, HSPs come interval by interval by their
    query start."""

    def discover(self, peer, job, params):
        if params.get("index_digest") not in (None, self.index.digest):
            return self.reply(peer, job, error={"code": "unknown_index", "message": "replaced"})
        bases = params["query"]["bases"].decode()
        want = params.get("strand", "both")
        interval = params.get("interval", 0)
        chunked = params.get("hsps", {}).get("scope") == "chunk"
        last = len(bases) - len(stub.SHAPE)
        strands = [s for s in ("plus", "minus") if want in (s, "both")]
        groups = []
        for strand in strands:
            text = bases if strand == "plus" else reverse_complement(bases)
            for number, block in enumerate(self.index.blocks):
                hsps = sorted((q, r, n) for r, q, n in matches(block, text))
                for q, r, n in hsps:
                    k = 0
                    if interval and strand == "plus":
                        k = min(q // interval, max(last - 1, 0) // interval)
                    elif interval:
                        k = max(last - q - 1, 0) // interval
                    groups.append(((k, strands.index(strand), number), (r, q, n, 100 * n)))
        groups.sort(key=lambda g: g[0])  # stable: query starts ascend in a group
        whole, parts = b"", []
        for key in sorted({g[0] for g in groups}):
            mine = [h for k, h in groups if k == key]
            for part, begin in enumerate(range(0, len(mine), self.part)):
                end = min(begin + self.part, len(mine))
                head = {"job": job, "batch": 0, "strand": strands[key[1]], "ref_block": key[2],
                        "chunk": 0, "part": part, "last_part": end == len(mine), "seed_begin": 0,
                        "seed_end": 5 if chunked else 0, "hsp_begin": begin, "hsp_end": end}
                if interval:
                    head["interval"] = key[0]
                payload = b"".join(struct.pack("<IIIi", *h) for h in mine[begin:end])
                whole += payload
                parts.append((head, payload))
        if self.faults.get("bad_hsp"):
            head, payload = parts[0]
            parts[0] = (head, struct.pack("<I", 0xfffffff0) + payload[4:])
            whole = b"".join(p for _, p in parts)
        for i, part in enumerate(parts):
            if self.faults.get("close_after") == i:
                return False
            peer.sendall(msgpack.packb([2, "hsps", list(part)], use_bin_type=True))
        counts = [sum(1 for g in groups if g[0][1] == i) for i in range(len(strands))]
        totals = {s: {"batches": 1 if s in strands else 0, "seeds": 5, "hits": 5,
                      "chunks": len(groups), "hsps": counts[strands.index(s)] if s in strands else 0}
                  for s in ("plus", "minus")}
        self.reply(peer, job, {
            "strands": totals, "anchors": 0, "hsps": len(groups),
            "chunks": sum(t["chunks"] for t in totals.values()), "max_hits": 1 << 28,
            "index_digest": self.index.digest, "digest": xxhash.xxh64(whole).hexdigest(),
            "timings": {"queued_ns": 1, "engine_ns": 2, "total_ns": 3}})
