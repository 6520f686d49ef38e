"""What an index is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Union

from .parts import Anchors, Hsps
from .sequences import Layout, Query, Windows, windows


@dataclass(frozen=True)
class IndexEntry:
    """A row of the server's list. `state` is "building", "loading", "ready", "dropping" or
    "dropped"; `bytes` those in memory."""

    name: str
    state: str
    file: Union[str, bytes]
    bytes: int
    pinned: bool


@dataclass(frozen=True)
class LoadedIndex:
    """The answer to a load, an unload or a build."""

    name: str
    digest: str
    bytes: int


@dataclass(frozen=True)
class Index:
    """An index and its sequences. `shape` is in `1` and `0`; `bases` counts separators."""

    name: str
    state: str
    file: Union[str, bytes]
    shape: str
    weight: int
    span: int
    step: int
    unmask: bool
    all_positions: bool
    digest: str
    sequence_digest: str
    version: str
    bytes: int
    bases: int
    words: int
    blocks: List[List[int]]
    sequences: Layout
    details: Dict[str, Any] = field(repr=False, default_factory=dict)

    def windows(self, part: Union[Anchors, Hsps], query: Query) -> Windows:
        """Where a part's anchors or HSPs are in the sequences of both."""
        return windows(part, self.sequences, self.span, query)


def read_entry(row: Mapping[str, Any]) -> IndexEntry:
    """Of `index.list`."""
    return IndexEntry(str(row["index"]), str(row["state"]), row["file"], int(row["bytes"]),
                      bool(row.get("pinned", False)))


def read_loaded(result: Mapping[str, Any]) -> LoadedIndex:
    """Of `index.load` and its like."""
    return LoadedIndex(str(result["index"]), str(result["digest"]), int(result["bytes"]))


def read_index(page: Mapping[str, Any], blocks: List[List[int]], rows: List[List[Any]]) -> Index:
    """Of the pages of `index.describe`."""
    layout = Layout([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows],
                    [row[3] for row in rows])
    plain = {key: value for key, value in page.items() if key not in ("blocks", "sequences", "first")}
    return Index(
        str(page["index"]), str(page["state"]), page["file"], str(page["shape"]),
        int(page["weight"]), int(page["span"]), int(page["step"]), bool(page["unmask"]),
        bool(page["all_positions"]), str(page["digest"]), str(page["sequence_digest"]),
        str(page["version"]), int(page["bytes"]), int(page["bases"]), int(page["words"]), blocks,
        layout, plain)
