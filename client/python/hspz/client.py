"""A connection to hspzd."""

from __future__ import annotations

import os
import time
import weakref
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Type, Union

from numpy.typing import ArrayLike

from . import address as addresses
from .channel import Channel, Tls, connect as connect_socket
from .discovery import Discovery, Job, PartT, scoring
from .errors import BadPeer, Error, Incomplete, NoServer, NotReady, QueueFull, ServerError, \
    Unsupported
from .filters import Filters
from .index import Index, IndexEntry, LoadedIndex, read_entry, read_index, read_loaded
from .order import Order, hasher
from .parts import Anchors, Hsps
from .sequences import Bases, Query, bytes_of
from .shared import Shared, open_shared, refused
from .wire import as_bytes, as_u64

VERSION = "0.1.0"
PROTOCOL = 1


@dataclass(frozen=True)
class Server:
    """What the server says of itself. `tenant` and `role` are who it takes this client for; `limits`
    are those of PROTOCOL.md section 6.1."""

    name: str
    version: str
    engine: str
    tenant: str
    role: str
    state: str
    devices: List[Dict[str, Any]]
    limits: Dict[str, int]
    details: Dict[str, Any] = field(repr=False, default_factory=dict)


def _read_server(result: Mapping[str, Any]) -> Server:
    if result.get("protocol") != PROTOCOL:
        raise BadPeer("the server speaks protocol %r" % (result.get("protocol"),))
    limits = result.get("limits")
    numbers = {key: value for key, value in limits.items() if isinstance(value, int)} \
        if isinstance(limits, dict) else {}
    name, version, engine, tenant, role, state = (
        str(result.get(key, "")) for key in ("server", "version", "engine", "tenant", "role",
                                             "state"))
    return Server(name, version, engine, tenant, role, state, list(result.get("devices", [])),
                  numbers, dict(result))


class Client:
    """Not for several threads at a time: parallel work opens several. `with` closes it.

    One discovery at a time: a call that is made while one is open raises ValueError, unless nobody
    holds that one any more; then it is cancelled."""

    def __init__(self, channel: Channel, server: Server) -> None:
        self._channel = channel
        self._shared: Optional[Shared] = None
        self._may_share: Optional[bool] = None
        self._job: Optional[Job] = None
        self._discovery: Optional["weakref.ref[Discovery[Any]]"] = None
        self._wait_until = 0.0
        self.server = server
        self.filters = Filters(self)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection, and what runs on it. May be called again. Arrays that came through
        memory shared with the server must not be looked at after it."""
        self._channel.close()

    def channel(self) -> Channel:
        """The connection, with nothing under way on it."""
        if self._job is not None and self._job.open and not self._channel.closed:
            held = self._discovery() if self._discovery is not None else None
            if held is not None:
                raise ValueError("a discovery is under way: read it to its end, or close it")
            self._job.cancel()
        self._job = None
        return self._channel

    def call(self, method: str, params: Optional[Mapping[str, Any]] = None, *, long: bool = False
             ) -> Dict[str, Any]:
        """Any request without notifications, and its result. `long`: it may take as long as it
        likes."""
        return self.channel().call(method, params or {}, long)

    def pages(self, method: str, params: Mapping[str, Any], key: str, total: str) -> List[Any]:
        """All rows of a list that comes in pages."""
        rows: List[Any] = []
        while True:
            page = self.call(method, dict(params, first=len(rows)))
            got, count = page.get(key), page.get(total)
            if not isinstance(got, list) or not isinstance(count, int):
                raise BadPeer("%s: a page without its rows" % method)
            rows += got
            if len(rows) >= count or not got:
                return rows

    # --- the server ---

    def health(self) -> Dict[str, Any]:
        """`state`, `percent` of loading, `jobs`, ... as of PROTOCOL.md section 6.10."""
        return self.call("health")

    def stats(self) -> Dict[str, Any]:
        """What the server has done and holds, as of section 6.9, its lists whole."""
        whole = self.call("stats")
        for key, count in (("tenants", "tenant_count"), ("indexes", "index_count"),
                           ("devices", "device_count")):
            rows = whole.get(key)
            while isinstance(rows, list) and len(rows) < int(whole.get(count, 0)):
                page = self.call("stats", {"first": len(rows)}).get(key)
                if not page:
                    break
                rows += page
        return whole

    def drain(self, wait_ms: int = 0) -> Dict[str, Any]:
        """For operators: has the server finish what it does, and end. Section 6.26."""
        return self.call("drain", {"wait_ms": wait_ms} if wait_ms else {}, long=True)

    # --- indexes ---

    def indexes(self) -> List[IndexEntry]:
        """All that the server has, by name."""
        return [read_entry(row) for row in self.pages("index.list", {}, "indexes", "index_count")]

    def describe(self, name: str) -> Index:
        """What an index is, and where its sequences are."""
        blocks: List[List[int]] = []
        rows: List[List[Any]] = []
        while True:
            page = self.call("index.describe", {"index": name, "first": max(len(rows), len(blocks))
                                                if rows else 0}, long=True)
            try:
                blocks += page["blocks"]
                rows += page["sequences"]
                if len(rows) >= page["sequence_count"] or not page["sequences"]:
                    return read_index(page, blocks, rows)
            except (KeyError, TypeError, ValueError, IndexError) as error:
                raise BadPeer("not the description of an index: %s" % error) from error

    def load(self, name: str, file: str, *, shape: Optional[str] = None,
             index_digest: Optional[str] = None, step: Optional[int] = None) -> LoadedIndex:
        """For operators: serves an index file under a name. `file` is one of the server's index
        directory, or absolute. Returns when it is ready."""
        return read_loaded(self.call("index.load", _given(
            index=name, file=file, shape=shape, index_digest=index_digest, step=step), long=True))

    def unload(self, name: str) -> LoadedIndex:
        """For operators: takes an index out of the list."""
        return read_loaded(self.call("index.unload", {"index": name}, long=True))

    def build(self, name: str, source: str, file: str, *, shape: Optional[str] = None,
              step: Optional[int] = None, unmask: bool = False, all_positions: bool = False,
              block_size: Optional[int] = None) -> LoadedIndex:
        """For operators: makes an index of a FASTA or 2bit file of the server's, writes `file`, and
        serves it."""
        return read_loaded(self.call("index.build", _given(
            index=name, source=source, file=file, shape=shape, step=step, unmask=unmask or None,
            all_positions=all_positions or None, block_size=block_size), long=True))

    # --- jobs ---

    def discover(self, index: str, query: Optional[Bases] = None, *,
                 seeds: Optional[ArrayLike] = None, strand: Optional[str] = None,
                 transitions: Optional[int] = None, unmask: Optional[bool] = None,
                 begin: Optional[int] = None, end: Optional[int] = None,
                 interval: Optional[int] = None, max_hits: Optional[int] = None,
                 hit_limit: Optional[int] = None, max_word_count: Optional[int] = None,
                 keep_words: Optional[int] = None, mask_filter: Optional[str] = None,
                 mask_count: Optional[int] = None, deadline_ms: Optional[int] = None,
                 priority: Optional[int] = None, index_digest: Optional[str] = None,
                 encoding: str = "packed",
                 transport: str = "stream", digest: Optional[bool] = None) -> Discovery[Anchors]:
        """The anchors of a query (a `Query`, or bases, sequences joined by `&`; not a file's name), or of
        seeds (u64: word << 32 | position).
        What is None is as the server has it: both strands, with transitions.

        `mask_filter` names a filter of k-mers on the server: windows of the query that begin with a
        k-mer which it has more than `mask_count` times (0) are left out.

        `encoding` "columnar" takes fewer bytes where windows have many anchors. `transport` "shm"
        has parts come through memory shared with the server, over a UNIX socket; "auto" does if
        the server has some. Neither changes a result. `digest`: have all bytes checked; by default
        if xxhash is installed."""
        params = _given(
            index=index, strand=strand, transitions=transitions, unmask=unmask, begin=begin, end=end,
            interval=interval, max_hits=max_hits, hit_limit=hit_limit, max_word_count=max_word_count,
            keep_words=keep_words, mask_filter=mask_filter, mask_count=mask_count,
            deadline_ms=deadline_ms, priority=priority,
            index_digest=index_digest)
        if encoding != "packed":
            params["encoding"] = encoding
        return self._discover(Anchors, params, query, seeds, transport, digest, "job")

    def hsps(self, index: str, query: Bases, *, strand: Optional[str] = None,
             transitions: Optional[int] = None, unmask: Optional[bool] = None,
             begin: Optional[int] = None, end: Optional[int] = None, interval: Optional[int] = None,
             max_hits: Optional[int] = None, hit_limit: Optional[int] = None,
             max_word_count: Optional[int] = None, keep_words: Optional[int] = None,
             mask_filter: Optional[str] = None, mask_count: Optional[int] = None,
             deadline_ms: Optional[int] = None, priority: Optional[int] = None,
             index_digest: Optional[str] = None,
             xdrop: Optional[int] = None, threshold: Optional[int] = None,
             entropy: Optional[bool] = None, scope: Optional[str] = None,
             limit: Optional[int] = None, scores: Optional[ArrayLike] = None,
             transport: str = "stream", digest: Optional[bool] = None) -> Discovery[Hsps]:
        """The HSPs of a query. `xdrop` to `scores` (8 rows of 8) are those of PROTOCOL.md section
        6.2; the rest is as of `discover`."""
        params = _given(
            index=index, strand=strand, transitions=transitions, unmask=unmask, begin=begin, end=end,
            interval=interval, max_hits=max_hits, hit_limit=hit_limit, max_word_count=max_word_count,
            keep_words=keep_words, mask_filter=mask_filter, mask_count=mask_count,
            deadline_ms=deadline_ms, priority=priority,
            index_digest=index_digest, output="hsps")
        how = scoring(xdrop, threshold, entropy, scope, limit, scores)
        if how:
            params["hsps"] = how
        return self._discover(Hsps, params, query, None, transport, digest, scope or "job")

    def _discover(self, kind: Type[PartT], params: Dict[str, Any], query: Optional[Bases],
                  seeds: Optional[ArrayLike], transport: str, digest: Optional[bool], scope: str
                  ) -> Discovery[PartT]:
        if (query is None) == (seeds is None):
            raise ValueError("either a query or seeds")
        if transport not in ("stream", "shm", "auto"):
            raise ValueError("transport %r: it is stream, shm or auto" % transport)
        channel = self.channel()
        if digest is None:
            digest = hasher() is not None
        if not digest:
            params["digest"] = False
        shared = self._share(transport == "shm") if transport != "stream" else None
        if seeds is not None:
            data = as_bytes(as_u64(seeds, "seeds"))
        else:
            data = bytes_of(query or b"")
        place: Any = shared.put(data) if shared is not None else None
        if shared is not None:
            params["transport"] = "shm"
        if seeds is not None:
            params["seeds"] = data if place is None else place
        else:
            params["query"] = {"bases": data if place is None else place}
        job = Job(channel, channel.request("discover", params), shared)
        order = Order(kind is Hsps, scope, bool(params.get("interval")), digest)
        made: Discovery[PartT] = Discovery(job, kind, order, params.get("encoding") == "columnar",
                                           self._ended)
        self._job, self._discovery = job, weakref.ref(made)
        return made

    def _ended(self) -> None:
        self._job = self._discovery = None

    def _share(self, must: bool) -> Optional[Shared]:
        if self._shared is None and not self._channel.local:
            if must:
                raise Unsupported("unsupported", "memory is shared over a UNIX socket only")
            return None
        if self._shared is None and (must or self._may_share is not False):
            try:
                self._shared = open_shared(self._channel,
                                           self.server.limits.get("parts_per_connection", 1))
            except ServerError as error:
                if must or not refused(error):
                    raise
                self._may_share = False
        return self._shared


def _given(**params: Any) -> Dict[str, Any]:
    return {key: value for key, value in params.items() if value is not None}


def connect(server: Union[str, addresses.Address, None] = None, *, token: Optional[str] = None,
            tls: Optional[Tls] = None, wait: Optional[float] = 0, name: str = "hspz-python",
            connect_timeout: float = 10, answer_timeout: float = 30, silence_timeout: float = 300
            ) -> Client:
    """Connects to `unix:PATH`, `tcp:HOST:PORT` or `tls:HOST:PORT`; by default to where hspz-client
    does. `token` is who one is, where the server asks for it; by default `HSPZ_TOKEN`.

    `wait`: seconds to wait for a server that is not up or still loading; None: for ever. Otherwise
    NoServer or NotReady is raised at once. An address that is none is a ValueError. A short call is given up after `answer_timeout` seconds, a
    long one when nothing came for `silence_timeout`."""
    if server is not None and not isinstance(server, (str, addresses.Address)):
        raise TypeError("server: text such as \"unix:PATH\", not %r" % (server,))
    where = addresses.default() if server is None else \
        addresses.parse(server) if isinstance(server, str) else server
    if token is None:
        token = os.environ.get("HSPZ_TOKEN") or None
    until = None if wait is None else time.monotonic() + wait
    pause = 0.05
    while True:
        try:
            return _connect_once(where, token, tls, until != 0 and wait != 0, name, connect_timeout,
                                 answer_timeout, silence_timeout)
        except (NoServer, NotReady, Incomplete, QueueFull) as error:
            left = pause if until is None else until - time.monotonic()
            if left <= 0:
                raise
            after = error.retry_ms if isinstance(error, ServerError) else None
            time.sleep(min(left, pause if after is None else after / 1000))
            pause = min(2 * pause, 1)


def _connect_once(where: addresses.Address, token: Optional[str], tls: Optional[Tls],
                  ready: bool, name: str, connect_timeout: float, answer_timeout: float,
                  silence_timeout: float) -> Client:
    channel = Channel(connect_socket(where, tls, connect_timeout), answer_timeout, silence_timeout)
    try:
        hello = _given(protocol=PROTOCOL, client="%s %s" % (name, VERSION), token=token)
        server = _read_server(channel.call("hello", hello))
        if ready and server.state != "ready":
            raise NotReady("not_ready", "the server is %s" % server.state)
        return Client(channel, server)
    except Error:
        channel.close()
        raise
