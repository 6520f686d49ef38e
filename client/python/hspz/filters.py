"""Filters: approximate sets and counts of 64-bit keys that the server keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import BadPeer, from_map
from .parts import U64
from .sequences import Bases, bytes_of
from .wire import Notice, Payload, as_bytes, as_u64

if TYPE_CHECKING:
    from .client import Client

ENTRY = np.dtype([("fingerprint", "<u8"), ("value", "<u8"), ("count", "<u8")])
"""An entry of a filter: the bits of a key's hash that it keeps, value, count."""


@dataclass(frozen=True)
class FilterEntry:
    """A row of the list of filters. Another tenant's is named TENANT/NAME."""

    name: str
    kind: str
    shared: bool
    bytes: int


@dataclass(frozen=True)
class FilterState:
    """What a filter has come to and how full it is; what a kind does not have is 0. `full` is of
    merge alone: nothing was taken up, as it does not fit."""

    name: str
    kind: str
    shared: bool
    k: int
    canonical: bool
    parts: int
    capacity: int
    slots: int
    slot_bits: int
    block_slots: int
    hashes: int
    value_bits: int
    seed: int
    full_slots: int
    bytes: int
    expected_rate: float
    entries: int
    total: int
    used: int
    load: float
    rate: float
    full: bool


@dataclass(frozen=True)
class Answers:
    """What was told of keys, all of them together and in order. `yes` of `keys` went in, were there,
    or were taken away. `full`: the filter is full, and not all went in. `present` says it of each
    key, `array` is its count, or its value; None where it was not asked for."""

    keys: int
    yes: int
    full: bool
    present: Optional[NDArray[np.bool_]]
    array: Optional[U64]


def read_state(row: Mapping[str, Any]) -> FilterState:
    """Of a result as of `filter.create`; BadPeer when it is none."""
    try:
        numbers: Dict[str, Any] = {
            key: int(row.get(key, 0))
            for key in ("k", "capacity", "slots", "slot_bits", "block_slots", "hashes", "value_bits",
                        "seed", "full_slots", "bytes", "entries", "total", "used")}
        numbers.update((key, float(row.get(key, 0))) for key in ("expected_rate", "load", "rate"))
        return FilterState(name=str(row["filter"]), kind=str(row["kind"]),
                           shared=bool(row.get("shared", False)),
                           canonical=bool(row.get("canonical", False)),
                           parts=int(row.get("parts", 1)),
                           full=bool(row.get("filter_full", False)), **numbers)
    except (KeyError, TypeError, ValueError) as error:
        raise BadPeer("not the state of a filter: %r" % (row,)) from error


class Filter:
    """A filter by name, which need not be there: every call is a request of its own. Keys may be any
    array of whole numbers; more than the server takes at a time are sent in several requests, so
    that when one fails those before it are done."""

    def __init__(self, client: "Client", name: str) -> None:
        self._client = client
        self.name = name

    def __repr__(self) -> str:
        return "<Filter %s>" % self.name

    def insert(self, keys: ArrayLike, *, values: Optional[ArrayLike] = None,
               counts: Optional[ArrayLike] = None, **more: Any) -> Answers:
        """Puts keys in; `values` (tcf, gqf) and `counts` (gqf) go with them. `present` says which
        went in."""
        return self._keys("filter.insert", keys, "bitmap", values, counts, more)

    def insert_if_absent(self, keys: ArrayLike, *, values: Optional[ArrayLike] = None,
                         **more: Any) -> Answers:
        """Puts in those that are not there; `array` has the values of those that were."""
        return self._keys("filter.insert_if_absent", keys, "both", values, None, more)

    def query(self, keys: ArrayLike, *, values: bool = False, **more: Any) -> Answers:
        """Which keys are there. With `values`, `array` has theirs."""
        return self._keys("filter.query", keys, "both" if values else "bitmap", None, None, more)

    def count(self, keys: ArrayLike, **more: Any) -> Answers:
        """How often each key is there, in `array`: tcf, gqf and counter."""
        return self._keys("filter.count", keys, "both", None, None, more)

    def delete(self, keys: ArrayLike, **more: Any) -> Answers:
        """Takes keys away: tcf (one copy of each), gqf, sqf. Only what went in."""
        return self._keys("filter.delete", keys, "bitmap", None, None, more)

    def decrement(self, keys: ArrayLike, *, counts: Optional[ArrayLike] = None,
                  **more: Any) -> Answers:
        """Lowers counts, by 1 or by `counts`: gqf."""
        return self._keys("filter.decrement", keys, "bitmap", None, counts, more)

    def insert_sequence(self, bases: Bases, **more: Any) -> Answers:
        """Puts in the k-mers of a sequence, or of a `Query`; of a filter that was made with `k`. What
        is told is by the base that a k-mer begins with; where none begins, nothing went in."""
        return self._sequence("filter.insert", bases, "bitmap", more)

    def query_sequence(self, bases: Bases, **more: Any) -> Answers:
        """Which k-mers of a sequence are there, by the base that they begin with."""
        return self._sequence("filter.query", bases, "bitmap", more)

    def count_sequence(self, bases: Bases, **more: Any) -> Answers:
        """How often each k-mer of a sequence is there, in `array`: tcf, gqf and counter."""
        return self._sequence("filter.count", bases, "both", more)

    def enumerate(self, **more: Any) -> NDArray[Any]:
        """All entries, as an array of dtype `ENTRY`. `more`: deadline_ms, priority."""
        pieces: List[Payload] = []

        def take(notice: Notice) -> None:
            first, count = _range(notice, sum(piece.nbytes for piece in pieces) // ENTRY.itemsize)
            if not isinstance(notice.payload, np.ndarray) or \
                    notice.payload.nbytes != count * ENTRY.itemsize:
                raise BadPeer("entries %d to %d do not hold what they say" % (first, first + count))
            pieces.append(notice.payload)

        result = self._job("filter.enumerate", dict(more, filter=self.name), "entries", take)
        entries = np.concatenate(pieces).view(ENTRY) if pieces else np.empty(0, ENTRY)
        if result.get("entries") != len(entries):
            raise BadPeer("%d entries came, the result says %r" % (len(entries),
                                                                  result.get("entries")))
        return entries

    def merge(self, source: str) -> FilterState:
        """Puts in what the filter of name `source` has."""
        return self._state("filter.merge", **{"from": source})

    def save(self) -> FilterState:
        """Writes it to the server's disk, under its name."""
        return self._state("filter.save")

    def drop(self, *, saved: bool = False) -> FilterState:
        """It is gone; with `saved`, what was saved of it goes as well."""
        return self._state("filter.drop", **({"saved": True} if saved else {}))

    def stats(self) -> FilterState:
        """What it is and how full it is."""
        return self._state("filter.stats")

    def _state(self, method: str, **params: Any) -> FilterState:
        return read_state(self._client.call(method, dict(params, filter=self.name), long=True))

    def _job(self, method: str, params: Mapping[str, Any], notices: str, take: Any
             ) -> Dict[str, Any]:
        channel = self._client.channel()
        number = channel.request(method, params)
        while True:
            message = channel.receive(True)
            if isinstance(message, Notice):
                if message.method != notices or message.head.get("job") != number:
                    raise BadPeer("%r of job %r is not due" % (message.method,
                                                              message.head.get("job")))
                take(message)
            elif message.number != number:
                raise BadPeer("an answer to request %d, which is not open" % message.number)
            elif message.error is not None:
                raise from_map(message.error)
            elif not isinstance(message.result, dict):
                raise BadPeer("%s: the result is no map" % method)
            else:
                return message.result

    def _keys(self, method: str, keys: ArrayLike, answer: str, values: Optional[ArrayLike],
              counts: Optional[ArrayLike], more: Mapping[str, Any]) -> Answers:
        columns = {"keys": as_u64(keys, "keys")}
        for name, given in (("values", values), ("counts", counts)):
            if given is not None:
                columns[name] = as_u64(given, name)
                if len(columns[name]) != len(columns["keys"]):
                    raise ValueError("%s: %d for %d keys" % (name, len(columns[name]),
                                                             len(columns["keys"])))
        answer = str(more.get("answer", answer))
        at_once = self._at_once()
        done: List[Answers] = []
        for begin in range(0, max(1, len(columns["keys"])), at_once):
            params: Dict[str, Any] = dict(more, filter=self.name, answer=answer)
            for name, column in columns.items():
                params[name] = as_bytes(column[begin:begin + at_once])
            count = len(columns["keys"][begin:begin + at_once])
            done.append(self._answers(method, params, answer, count))
        return _together(done)

    def _at_once(self) -> int:
        return max(1, self._client.server.limits.get("max_keys", 1 << 20))

    def _sequence(self, method: str, bases: Bases, answer: str,
                  more: Mapping[str, Any]) -> Answers:
        data = bytes_of(bases)
        answer = str(more.get("answer", answer))
        at_once = self._at_once()
        overlap = 0
        if data.nbytes > at_once:
            # A k-mer that two pieces share is of the first of them that has it whole.
            overlap = max(0, self.stats().k - 1)
            if overlap >= at_once:
                raise ValueError("the server takes %d bases at a time" % at_once)
        done: List[Answers] = []
        begin = 0
        while True:
            piece = data[begin:begin + at_once]
            last = begin + piece.nbytes == data.nbytes
            params = dict(more, filter=self.name, answer=answer, sequence=piece)
            told = self._answers(method, params, answer, piece.nbytes)
            keep = piece.nbytes - (0 if last else overlap)
            done.append(Answers(keep, told.yes, told.full,
                                None if told.present is None else told.present[:keep],
                                None if told.array is None else told.array[:keep]))
            if last:
                return _together(done)
            begin += keep

    def _answers(self, method: str, params: Mapping[str, Any], answer: str, count: int) -> Answers:
        bits = np.zeros(count, np.bool_) if answer in ("bitmap", "both") else None
        array = np.zeros(count, np.uint64) if answer in ("array", "both") else None
        at = 0

        def take(notice: Notice) -> None:
            nonlocal at
            first, number = _range(notice, at)
            payload = notice.payload
            size = (8 * number if array is not None else 0) + \
                ((number + 7) // 8 if bits is not None else 0)
            if first + number > count or not isinstance(payload, np.ndarray) or \
                    payload.nbytes != size or notice.head.get("answer") != answer:
                raise BadPeer("answers %d to %d of %d keys do not hold what they say"
                              % (first, first + number, count))
            if array is not None:
                array[first:first + number] = payload[:8 * number].view("<u8")
                payload = payload[8 * number:]
            if bits is not None:
                bits[first:first + number] = np.unpackbits(payload, count=number,
                                                           bitorder="little")
            at = first + number

        result = self._job(method, params, "answers", take)
        if result.get("keys") != count or (answer != "none" and at != count):
            raise BadPeer("answers for %d of %d keys came" % (at, count))
        yes = result.get("yes")
        if not isinstance(yes, int) or (bits is not None and int(bits.sum()) != yes):
            raise BadPeer("the answers are not the %r that the result says" % (yes,))
        return Answers(count, yes, bool(result.get("filter_full", False)), bits, array)


def _together(done: List[Answers]) -> Answers:
    """Those of several requests, as one."""
    present = [a.present for a in done if a.present is not None]
    arrays = [a.array for a in done if a.array is not None]
    return Answers(sum(a.keys for a in done), sum(a.yes for a in done), any(a.full for a in done),
                   np.concatenate(present) if present else None,
                   np.concatenate(arrays) if arrays else None)


def _range(notice: Notice, due: int) -> Tuple[int, int]:
    """(first, count) of a notification, which must go on at `due`."""
    first, count = notice.head.get("first"), notice.head.get("count")
    if not isinstance(first, int) or not isinstance(count, int) or first != due or count <= 0:
        raise BadPeer("%s from %r, %d are due" % (notice.method, first, due))
    return first, count


class Filters:
    """A client's way to filters: `client.filters`."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    def __getitem__(self, name: str) -> Filter:
        """One by name; nothing is asked yet."""
        return Filter(self._client, name)

    def create(self, name: str, kind: str, *, capacity: Optional[int] = None,
               rate: Optional[float] = None, slots: Optional[int] = None,
               slot_bits: Optional[int] = None, block_slots: Optional[int] = None,
               hashes: Optional[int] = None, value_bits: Optional[int] = None,
               seed: Optional[int] = None, k: Optional[int] = None, canonical: bool = False,
               shared: bool = False, parts: Optional[int] = None) -> Filter:
        """A new one, empty, for `capacity` keys or of `slots`: exactly one of the two; a `counter`
        grows from `capacity` on. With `k` its keys are k-mers; `canonical`: the smaller of one and
        its reverse complement. `parts` (2, 4, 8, 16) go to the server's GPUs in turn."""
        params = {"capacity": capacity, "rate": None if rate is None else float(rate),
                  "slots": slots, "slot_bits": slot_bits, "block_slots": block_slots,
                  "hashes": hashes, "value_bits": value_bits, "seed": seed,
                  "k": k, "canonical": canonical or None, "shared": shared or None,
                  "parts": parts}
        given = {key: value for key, value in params.items() if value is not None}
        self._client.call("filter.create", dict(given, filter=name, kind=kind), long=True)
        return Filter(self._client, name)

    def load(self, name: str, *, shared: bool = False) -> Filter:
        """Takes one up again that was saved."""
        more = {"shared": True} if shared else {}
        self._client.call("filter.load", dict(more, filter=name), long=True)
        return Filter(self._client, name)

    def list(self) -> List[FilterEntry]:
        """All that this client can see."""
        return [FilterEntry(str(row["filter"]), str(row["kind"]), bool(row["shared"]),
                            int(row["bytes"]))
                for row in self._client.pages("filter.list", {}, "filters", "filter_count")]
