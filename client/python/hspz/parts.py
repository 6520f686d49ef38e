"""What discovery gives: parts of anchors or HSPs as numpy arrays.

Arrays are little-endian whatever the machine, and views of what was received: no array here is a
copy, but those that are said to be made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

import numpy as np
from numpy.typing import NDArray

from .errors import BadPeer
from .wire import Payload

ANCHOR = np.dtype([("reference", "<u4"), ("query", "<u4")])
"""An anchor: both positions are of the first base after the window."""

HSP = np.dtype([("reference", "<u4"), ("query", "<u4"), ("length", "<u4"), ("score", "<i4")])
"""An HSP: both positions are of the first base that it covers."""

U32 = NDArray[np.uint32]
I32 = NDArray[np.int32]
U64 = NDArray[np.uint64]


@dataclass(frozen=True)
class Head:
    """Which part it is, as PROTOCOL.md section 7 has it. `begin` and `end` count records: `hit_begin`
    and `hit_end`, or `hsp_begin` and `hsp_end`."""

    interval: Optional[int]
    batch: int
    strand: str
    ref_block: int
    chunk: int
    part: int
    last_part: bool
    seed_begin: int
    seed_end: int
    begin: int
    end: int


def read_head(head: Dict[str, Any], hsps: bool) -> Head:
    """BadPeer for a key that is missing or of another type."""
    noun = "hsp" if hsps else "hit"
    keys = ("batch", "ref_block", "chunk", "part", "seed_begin", "seed_end", noun + "_begin",
            noun + "_end")
    numbers = [head.get(key) for key in keys]
    interval = head.get("interval")
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers):
        raise BadPeer("a part without its numbers: %r" % (head,))
    if head.get("strand") not in ("plus", "minus") or not isinstance(head.get("last_part"), bool):
        raise BadPeer("a part without its strand: %r" % (head,))
    if interval is not None and not isinstance(interval, int):
        raise BadPeer("a part of no interval: %r" % (head,))
    batch, ref_block, chunk, part, seed_begin, seed_end, begin, end = (int(n or 0) for n in numbers)
    return Head(interval, batch, head["strand"], ref_block, chunk, part, head["last_part"],
                seed_begin, seed_end, begin, end)


class Part:
    """What anchors and HSPs have in common. `strand` is "plus" or "minus"; query positions are that
    strand's."""

    def __init__(self, head: Head) -> None:
        self.head = head

    @property
    def strand(self) -> str:
        """"plus" or "minus\""""
        return self.head.strand

    @property
    def ref_block(self) -> int:
        """Block of the reference that positions are in."""
        return self.head.ref_block

    def records(self, room: Optional[NDArray[Any]] = None) -> NDArray[Any]:
        """As an array of dtype `ANCHOR` or `HSP`."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self.head.end - self.head.begin

    def __repr__(self) -> str:
        return "<%s: %d, strand %s, block %d>" % (type(self).__name__, len(self), self.strand,
                                                   self.ref_block)


class Anchors(Part):
    """A part of a job's anchors, in the job's order."""

    def __init__(self, head: Head, payload: Payload, columnar: bool) -> None:
        super().__init__(head)
        self._query: Optional[U32] = None
        self._counts: Optional[U32] = None
        count = len(self)
        if not columnar:
            if payload.nbytes != 8 * count:
                raise BadPeer("a part of %d bytes does not hold %d anchors" % (payload.nbytes,
                                                                               count))
            self._records: Optional[NDArray[Any]] = payload.view(ANCHOR)
            self._reference: U32 = self._records["reference"]
            self._query = self._records["query"]
            return
        runs, odd = divmod(payload.nbytes - 4 * count, 8)
        if runs < 0 or odd:
            raise BadPeer("a part of %d bytes does not hold %d anchors by columns"
                          % (payload.nbytes, count))
        numbers = payload.view("<u4")
        self._records = None
        self._runs: U32 = numbers[0:2 * runs:2]
        self._counts = numbers[1:2 * runs:2]
        self._reference = numbers[2 * runs:]
        if int(self._counts.sum(dtype=np.uint64)) != count or not self._counts.all():
            raise BadPeer("the runs of a part do not hold its %d anchors" % count)

    @property
    def reference(self) -> U32:
        """Reference positions: of the first base after the window, in `ref_block`. A view."""
        return self._reference

    @property
    def query(self) -> U32:
        """Query positions: of the first base after the window. A view; by columns made at the first
        use, and kept."""
        if self._query is None:
            assert self._counts is not None
            self._query = np.repeat(self._runs, self._counts)
        return self._query

    def runs(self) -> Optional[Tuple[U32, U32]]:
        """By columns: (query position, number of anchors) of each run, in order, as they came; the
        anchors of a run are neighbours in `reference`. None of packed parts."""
        return None if self._counts is None else (self._runs, self._counts)

    def records(self, room: Optional[NDArray[Any]] = None) -> NDArray[Any]:
        """As an array of dtype `ANCHOR`: a view of packed parts, else made, in `room` if there is
        enough."""
        if self._records is not None:
            return self._records
        fits = room is not None and len(room) >= len(self)
        made = room[:len(self)] if room is not None and fits else np.empty(len(self), ANCHOR)
        made["reference"], made["query"] = self.reference, self.query
        return made

    def packed(self) -> U64:
        """As the u64 of SPEC and PROTOCOL.md: reference in the low half. As `records`."""
        return self.records().view("<u8")


class Hsps(Part):
    """A part of a job's HSPs, ordered by query, reference, length, and score from high to low."""

    def __init__(self, head: Head, payload: Payload) -> None:
        super().__init__(head)
        if payload.nbytes != HSP.itemsize * len(self):
            raise BadPeer("a part of %d bytes does not hold %d HSPs" % (payload.nbytes, len(self)))
        self._records: NDArray[Any] = payload.view(HSP)

    @property
    def reference(self) -> U32:
        """First base in the reference, in `ref_block`. These are all views."""
        column: U32 = self._records["reference"]
        return column

    @property
    def query(self) -> U32:
        """First base in the query, on the part's strand."""
        column: U32 = self._records["query"]
        return column

    @property
    def length(self) -> U32:
        """Bases that it covers in both."""
        column: U32 = self._records["length"]
        return column

    @property
    def score(self) -> I32:
        """Its score."""
        column: I32 = self._records["score"]
        return column

    def records(self, room: Optional[NDArray[Any]] = None) -> NDArray[Any]:
        """As an array of dtype `HSP`. A view."""
        return self._records
