"""A discover that is under way: an iterator of its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Generic, Iterator, List, Mapping, Optional, Type, TypeVar

import numpy as np
from numpy.typing import NDArray

from .channel import Channel
from .errors import BadPeer, Error, ServerError, from_map
from .order import Order
from .parts import ANCHOR, HSP, Anchors, Hsps, Part, read_head
from .shared import Shared
from .wire import Notice, Payload

PartT = TypeVar("PartT", bound=Part)


@dataclass(frozen=True)
class Totals:
    """Of one strand."""

    batches: int
    seeds: int
    hits: int
    chunks: int
    hsps: int


@dataclass(frozen=True)
class Summary:
    """What the server says of a job that is done; counts and digest were checked against what came.
    Times are nanoseconds on the server."""

    plus: Totals
    minus: Totals
    anchors: int
    hsps: int
    chunks: int
    max_hits: int
    index_digest: str
    digest: Optional[str]
    queued_ns: int
    engine_ns: int
    total_ns: int


def read_totals(strand: Mapping[str, Any]) -> Totals:
    """Missing counts are 0."""
    return Totals(*(int(strand.get(key, 0))
                    for key in ("batches", "seeds", "hits", "chunks", "hsps")))


def read_summary(result: Mapping[str, Any]) -> Summary:
    """BadPeer when it is none."""
    try:
        timings = result.get("timings", {})
        return Summary(
            read_totals(result["strands"]["plus"]), read_totals(result["strands"]["minus"]),
            int(result["anchors"]), int(result["hsps"]), int(result["chunks"]),
            int(result["max_hits"]), str(result["index_digest"]), result.get("digest"),
            int(timings.get("queued_ns", 0)), int(timings.get("engine_ns", 0)),
            int(timings.get("total_ns", 0)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadPeer("not the result of a discover: %r" % (result,)) from error


class Job:
    """What a client must know of a discovery after nobody else does, to end it."""

    def __init__(self, channel: Channel, number: int, shared: Optional[Shared]) -> None:
        self.channel = channel
        self.number = number
        self.shared = shared
        self.open = True

    def cancel(self) -> None:
        """Has the server stop, and passes over what was on its way."""
        if not self.open:
            return
        self.open = False
        if self.channel.closed:
            return
        asked = self.channel.request("cancel", {"job": self.number})
        waiting = {asked, self.number}
        while waiting:
            message = self.channel.receive(True)
            if not isinstance(message, Notice):
                waiting.discard(message.number)
            elif self.shared is not None and isinstance(message.payload, dict):
                self.shared.pass_over(message.payload)


class Discovery(Generic[PartT]):
    """Iterate over it for the parts, in order; after the last one `summary` is there. A loop that is
    over means that all of it came, was in order, and has the digest that the server told.

    Leave it early with `close()`, or use `with`: the job is then cancelled, and reading on is a
    ValueError, as it is after an error. So it is when the client
    is used for something else after nobody holds the discovery any more."""

    def __init__(self, job: Job, kind: Type[PartT], order: Order, columnar: bool,
                 on_end: Callable[[], None]) -> None:
        self._job = job
        self._kind = kind
        self._order = order
        self._columnar = columnar
        self._shared = job.shared
        self._on_end = on_end
        self._summary: Optional[Summary] = None

    def __enter__(self) -> "Discovery[PartT]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[PartT]:
        return self

    def __next__(self) -> PartT:
        if not self._job.open:
            if self._summary is None:
                raise ValueError("the discovery was ended before all of it came")
            raise StopIteration
        try:
            part = self._next()
        except ServerError:
            self._end()
            raise
        except Error:
            # The connection cannot be used any more: nothing to cancel.
            self._job.open = False
            self._job.channel.close()
            raise
        if part is None:
            self._end()
            raise StopIteration
        return part

    def _next(self) -> Optional[PartT]:
        if self._shared is not None:
            self._shared.give_back()
        message = self._job.channel.receive(True)
        if isinstance(message, Notice):
            hsps = self._kind is Hsps
            if message.method != ("hsps" if hsps else "anchors"):
                raise BadPeer("%r where parts of a discover are due" % message.method)
            if message.head.get("job") != self._job.number:
                raise BadPeer("a part of job %r, not %d" % (message.head.get("job"),
                                                           self._job.number))
            if (message.head.get("encoding") == "columnar") != self._columnar:
                raise BadPeer("a part has another encoding than was asked for")
            head = read_head(message.head, hsps)
            payload = self._payload(message)
            part: Part = (Hsps(head, payload) if hsps else Anchors(head, payload, self._columnar))
            self._order.part(part)
            assert isinstance(part, self._kind)
            return part
        if message.number != self._job.number:
            raise BadPeer("an answer to request %d, which is not open" % message.number)
        if message.error is not None:
            raise from_map(message.error)
        if not isinstance(message.result, dict):
            raise BadPeer("a result that is no map")
        self._order.result(message.result)
        self._summary = read_summary(message.result)
        return None

    def _payload(self, message: Notice) -> Payload:
        if isinstance(message.payload, np.ndarray):
            return message.payload
        if self._shared is None:
            raise BadPeer("a part without its payload")
        return self._shared.take(message.payload)

    def _end(self) -> None:
        self._job.open = False
        self._on_end()

    @property
    def job(self) -> int:
        """Its number on the connection."""
        return self._job.number

    @property
    def records(self) -> int:
        """That came so far."""
        return self._order.records

    @property
    def summary(self) -> Summary:
        """ValueError before the last part was asked for."""
        if self._summary is None:
            raise ValueError("the discovery has not come to its end")
        return self._summary

    def close(self) -> None:
        """Cancels what has not come. May be called again."""
        if self._job.open:
            self._job.cancel()
            self._on_end()

    def collect(self) -> NDArray[Any]:
        """All records, plus strand then minus, as one array of dtype `ANCHOR` or `HSP`: a copy. The
        bytes are those of `hspz-client discover --format packed`. ValueError when some were read
        before."""
        if self._order.records:
            raise ValueError("records were read before: collect() is for all of them")
        dtype = HSP if self._kind is Hsps else ANCHOR
        parts: List[NDArray[Any]] = [part.records() for part in self]
        return np.concatenate(parts) if parts else np.empty(0, dtype)


def scoring(xdrop: Optional[int], threshold: Optional[int], entropy: Optional[bool],
            scope: Optional[str], limit: Optional[int], scores: Any) -> Dict[str, Any]:
    """The request's map `hsps`."""
    params: Dict[str, Any] = {"xdrop": xdrop, "threshold": threshold, "entropy": entropy,
                              "scope": scope, "limit": limit}
    params = {key: value for key, value in params.items() if value is not None}
    if scores is not None:
        table = np.ascontiguousarray(scores, "<i4")
        if table.shape != (8, 8):
            raise ValueError("scores: 8 rows of 8, not %r" % (table.shape,))
        params["scores"] = table.data.cast("B")
    return params
