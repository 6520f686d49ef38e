"""Sequences of a query and of an index, and which of them a position of a block is in."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from typing import Iterable, List, Sequence, Tuple, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .parts import Anchors, Hsps
from .wire import as_bytes

Name = Union[str, bytes]
I64 = NDArray[np.int64]


class Layout:
    """Sequences that lie one after the other in one or more blocks. Arrays are by sequence."""

    def __init__(self, names: Sequence[Name], lengths: ArrayLike, blocks: ArrayLike,
                 offsets: ArrayLike) -> None:
        self.names: List[Name] = list(names)
        self.lengths: I64 = np.asarray(lengths, np.int64).reshape(-1)
        self.blocks: I64 = np.asarray(blocks, np.int64).reshape(-1)
        self.offsets: I64 = np.asarray(offsets, np.int64).reshape(-1)

    def __len__(self) -> int:
        return len(self.names)

    def locate(self, block: int, positions: ArrayLike) -> Tuple[I64, I64]:
        """(number of the sequence, position in it) of each position of a block. ValueError for one
        that is in no sequence of it."""
        at: I64 = np.asarray(positions, np.int64)
        of_block = np.flatnonzero(self.blocks == block)
        starts = self.offsets[of_block]
        place = np.searchsorted(starts, at, "right") - 1
        if at.size and (not of_block.size or int(place.min()) < 0):
            raise ValueError("block %d has no such position" % block)
        sequence: I64 = of_block[place] if at.size else np.empty(0, np.int64)
        within: I64 = at - self.offsets[sequence]
        if at.size and bool((within >= self.lengths[sequence]).any()):
            raise ValueError("a position is between sequences, or after them")
        return sequence, within


class Query(Layout):
    """A query's sequences, joined as the server wants them."""

    def __init__(self, records: Iterable[Tuple[Name, Union[str, bytes]]]) -> None:
        pairs = [(name, bases.encode("ascii") if isinstance(bases, str) else bytes(bases))
                 for name, bases in records]
        lengths = np.array([len(bases) for _, bases in pairs], np.int64)
        offsets = np.concatenate(([0], np.cumsum(lengths + 1)[:-1])) if pairs else lengths
        super().__init__([name for name, _ in pairs], lengths, np.zeros(len(pairs)), offsets)
        self.bases = b"&".join(bases for _, bases in pairs)

    @classmethod
    def from_fasta(cls, path: str) -> "Query":
        """Of a FASTA file, gzip or not. A name is the first word of its header; one that is not UTF-8
        is bytes. ValueError says what is wrong with it, and where."""
        with open(path, "rb") as file:
            data = file.read()
        if data[:2] == b"\x1f\x8b":
            try:
                data = gzip.decompress(data)
            except (EOFError, OSError, zlib.error) as error:
                raise ValueError("%s: gzip data that is damaged: %s" % (path, error)) from error
        records: List[Tuple[Name, List[bytes]]] = []
        for number, line in enumerate(data.split(b"\n"), 1):
            line = line.strip()
            if line.startswith(b">"):
                words = line[1:].split(None, 1)
                if line[1:2].isspace() or not words:
                    raise ValueError("%s: line %d: a record without a name" % (path, number))
                try:
                    records.append((words[0].decode(), []))
                except UnicodeDecodeError:
                    records.append((words[0], []))
            elif line:
                if not records:
                    raise ValueError("%s: line %d: bases before the first header" % (path, number))
                records[-1][1].append(b"".join(line.split()))
        if not records:
            raise ValueError("%s: no sequences" % path)
        return cls((name, b"".join(lines)) for name, lines in records)


@dataclass(frozen=True)
class Windows:
    """Rows of `hspz-client discover`, or of `hsps`: 0-based, half-open, the query's on its plus strand
    whatever the strand. `ref` and `query` are numbers of sequences."""

    strand: str
    ref: I64
    ref_start: I64
    ref_end: I64
    query: I64
    query_start: I64
    query_end: I64

    def __len__(self) -> int:
        return len(self.ref)


def windows(part: Union[Anchors, Hsps], index: "Layout", span: int, query: Query) -> Windows:
    """Where the windows of a part's anchors, or its HSPs, are in their sequences. `span` is that of
    the index."""
    if isinstance(part, Anchors):
        back = span
        length: I64 = np.full(len(part), span, np.int64)
    else:
        back = 0
        length = part.length.astype(np.int64)
    ref, ref_start = index.locate(part.ref_block, part.reference.astype(np.int64) - back)
    begin = part.query.astype(np.int64) - back
    if part.strand == "minus":
        begin = len(query.bases) - begin - length
    number, query_start = query.locate(0, begin)
    return Windows(part.strand, ref, ref_start, ref_start + length, number, query_start,
                   query_start + length)


Bases = Union[Query, str, bytes]


def bytes_of(bases: Bases) -> memoryview:
    """The bases of a query, or those given, sequences joined by `&`."""
    return as_bytes(bases.bases if isinstance(bases, Query) else bases)
