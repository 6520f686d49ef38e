"""Whether parts follow each other as they must, and are all that the server says it sent."""

from __future__ import annotations

import importlib
from typing import Any, Dict, Optional, Tuple

from numpy.typing import NDArray

from .errors import BadPeer
from .parts import Head, Part


def hasher() -> Optional[Any]:
    """An XXH64 with seed 0, None where xxhash is not installed."""
    try:
        return importlib.import_module("xxhash").xxh64(seed=0)
    except ImportError:
        return None


def _group(head: Head) -> Tuple[int, int, int, int]:
    """By what parts are ordered: interval, strand, batch, block."""
    return (head.interval or 0, int(head.strand == "minus"), head.batch, head.ref_block)


class Order:
    """Takes the parts of a job as they come; BadPeer says which does not fit, and how."""

    def __init__(self, hsps: bool, scope: str, intervals: bool, digest: bool) -> None:
        self._hsps = hsps
        self._whole = hsps and scope == "job"
        self._intervals = intervals
        self._hash = hasher() if digest else None
        self._last: Optional[Head] = None
        self._room: Optional[NDArray[Any]] = None
        self.counts = {"plus": 0, "minus": 0}
        self._chunks = {"plus": 0, "minus": 0}

    @property
    def records(self) -> int:
        """That came so far."""
        return self.counts["plus"] + self.counts["minus"]

    def part(self, part: Part) -> None:
        """The next one."""
        head = part.head
        wrong = self._wrong(head)
        if wrong is not None:
            raise BadPeer("%r: %s (%d records came before it)" % (head, wrong, self.records))
        if self._hash is not None:
            # Made once for all parts by columns: new memory for each costs more than filling it.
            records = part.records(self._room)
            if records.flags.owndata:
                self._room = records
            self._hash.update(records.view("u1").data)
        self.counts[head.strand] += len(part)
        self._chunks[head.strand] += head.part == 0
        self._last = head

    def _wrong(self, head: Head) -> Optional[str]:
        last = self._last
        if (head.interval is not None) != self._intervals:
            return "its interval is missing" if self._intervals else "the job has no intervals"
        if head.end <= head.begin or (head.seed_end <= head.seed_begin) != self._whole:
            return "its ranges are empty"
        if self._whole and (head.interval or head.batch or head.chunk):
            return "it is of a chunk, and the job's HSPs are of all chunks"
        same = last is not None and _group(last) == _group(head)
        if last is not None and not last.last_part:
            if not same or head.chunk != last.chunk:
                return "the chunk before it is not finished"
            if head.part != last.part + 1 or head.begin != last.end:
                return "a part is missing or repeated"
            if (head.seed_begin, head.seed_end) != (last.seed_begin, last.seed_end):
                return "its chunk's seeds changed"
            return None
        if head.part != 0:
            return "its chunk's first part is missing"
        if last is not None and (_group(head), head.chunk) <= (_group(last), last.chunk):
            return "it is out of order"
        if last is not None and same and head.seed_begin < last.seed_end:
            return "its seeds overlap the chunk before"
        if self._hsps:
            return "records are missing" if head.begin else None
        if head.chunk != (last.chunk + 1 if last is not None and same else 0):
            return "a chunk is missing"
        if head.begin != (last.end if last is not None and same else 0):
            return "records are missing or repeated"
        return None

    def result(self, result: Dict[str, Any]) -> None:
        """The response: says it what came?"""
        if self._last is not None and not self._last.last_part:
            raise BadPeer("the last chunk is not finished")
        strands = result.get("strands")
        for strand, count in self.counts.items():
            totals = strands.get(strand) if isinstance(strands, dict) else None
            said = totals.get("hsps" if self._hsps else "hits") if isinstance(totals, dict) else None
            if said != count:
                raise BadPeer("%s strand: %d records came, the result says %s" % (strand, count,
                                                                                   said))
            chunks = totals.get("chunks") if isinstance(totals, dict) else None
            if not self._hsps and chunks != self._chunks[strand]:
                raise BadPeer("%s strand: %d chunks came, the result says %s"
                              % (strand, self._chunks[strand], chunks))
        if result.get("hsps" if self._hsps else "anchors") != self.records:
            raise BadPeer("%d records came, the result says otherwise" % self.records)
        if self._hash is not None and result.get("digest") != self._hash.hexdigest():
            raise BadPeer("digest %s, the result says %s" % (self._hash.hexdigest(),
                                                            result.get("digest")))
