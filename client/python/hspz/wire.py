"""Bytes to messages and back: MessagePack-RPC as PROTOCOL.md sections 1 to 3 have it.

A notification's head is decoded by msgpack; the header of its payload is read here, and the payload
received straight into an array of its own. So what comes in an array was never copied after the
socket gave it, but for the few hundred bytes that came in one piece with the head."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Mapping, Optional, Protocol, Tuple, Union

import msgpack
import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import BadPeer, Incomplete

PART_BYTES_LIMIT = 8388608
_HEAD_BYTES_LIMIT = 1 << 20
_FIRST_READ = 4096
_LARGE_BIN = 4096

Payload = NDArray[np.uint8]


class Stream(Protocol):
    """What of a socket is needed."""

    def recv_into(self, buffer: memoryview, nbytes: int = 0) -> int: ...

    def sendall(self, data: Any) -> None: ...


class Silence(Exception):
    """Nothing came for the socket's time; the reader may be asked again."""


@dataclass
class Response:
    """`error` is None or a map."""

    number: int
    error: Optional[Dict[str, Any]]
    result: Any


@dataclass
class Notice:
    """Of `anchors` and the like: a head, and a payload or the place of one."""

    method: str
    head: Dict[str, Any]
    payload: Union[Payload, Dict[str, Any]]


class Reader:
    """Takes messages off a stream, one at a time."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._buffer = bytearray(_FIRST_READ)
        self._begin = self._end = 0

    def feed(self, data: bytes) -> None:
        """Bytes that somebody else received, as if they came now."""
        self._room(len(data))
        self._buffer[self._end:self._end + len(data)] = data
        self._end += len(data)

    def message(self) -> Union[Response, Notice]:
        """The next one. Silence: none came in time. Incomplete: the peer closed, or came to a stop
        inside a payload. BadPeer: not a message of this protocol."""
        while True:
            if self._end > self._begin:
                try:
                    return self._parse()
                except msgpack.OutOfData:
                    pass
                except BadPeer:
                    raise
                except (msgpack.UnpackException, ValueError, TypeError, RecursionError) as error:
                    raise BadPeer("not a message of the protocol: %s" % error) from error
            self._fill()

    def _room(self, count: int) -> None:
        """Space for `count` bytes at the end."""
        if self._begin == self._end:
            self._begin = self._end = 0
        if self._end + count <= len(self._buffer):
            return
        held = self._end - self._begin
        if held + count > _HEAD_BYTES_LIMIT:
            raise BadPeer("a message without an end: %d bytes" % (held + count))
        room = bytearray(max(len(self._buffer), 2 * (held + count)))
        room[:held] = memoryview(self._buffer)[self._begin:self._end]
        self._buffer, self._begin, self._end = room, 0, held

    def _receive(self, into: memoryview) -> int:
        try:
            count = self._stream.recv_into(into)
        except (socket.timeout, TimeoutError):
            raise Silence from None
        except OSError as error:
            raise Incomplete("the connection broke: %s" % error) from error
        if count == 0:
            raise Incomplete("the server closed the connection")
        return count

    def _fill(self) -> None:
        # No more at a time than a head may need: what comes with it of a payload is copied.
        count = max(_FIRST_READ, self._end - self._begin)
        self._room(count)
        with memoryview(self._buffer) as view:
            self._end += self._receive(view[self._end:self._end + count])

    def _parse(self) -> Union[Response, Notice]:
        """Moves past the message only once it is whole; msgpack.OutOfData until then."""
        unpacker = msgpack.Unpacker(raw=False, strict_map_key=True,
                                    max_buffer_size=2 * _HEAD_BYTES_LIMIT)
        with memoryview(self._buffer) as view:
            unpacker.feed(view[self._begin:self._end])
        length = unpacker.read_array_header()
        kind = unpacker.unpack()
        if kind == 1 and length == 4:
            number, error, result = unpacker.unpack(), unpacker.unpack(), unpacker.unpack()
            if not isinstance(number, int) or not (error is None or isinstance(error, dict)):
                raise BadPeer("a response of other types")
            self._begin += unpacker.tell()
            return Response(number, error, result)
        if kind != 2 or length != 3:
            raise BadPeer("neither a response nor a notification")
        method = unpacker.unpack()
        count = unpacker.read_array_header()
        if count != 2:
            for _ in range(count):
                unpacker.unpack()
            self._begin += unpacker.tell()
            return Notice(str(method), {}, {})
        head = unpacker.unpack()
        if not isinstance(method, str) or not isinstance(head, dict):
            raise BadPeer("a notification of other types")
        at = self._begin + unpacker.tell()
        header = self._bin_header(at)
        if header is None:
            value = unpacker.unpack()
            self._begin += unpacker.tell()
            return Notice(method, head, value if isinstance(value, dict) else {})
        self._begin = at + header[0]
        return Notice(method, head, self._payload(header[1]))

    def _bin_header(self, at: int) -> Optional[Tuple[int, int]]:
        """(bytes of the header, of the payload), None when the value is no bin."""
        if at >= self._end:
            raise msgpack.OutOfData
        width = {0xc4: 1, 0xc5: 2, 0xc6: 4}.get(self._buffer[at])
        if width is None:
            return None
        if at + 1 + width > self._end:
            raise msgpack.OutOfData
        length = int.from_bytes(self._buffer[at + 1:at + 1 + width], "big")
        if length > PART_BYTES_LIMIT:
            raise BadPeer("a payload of %d bytes" % length)
        return 1 + width, length

    def _payload(self, length: int) -> Payload:
        payload: Payload = np.empty(length, np.uint8)
        got = min(length, self._end - self._begin)
        with payload.data as into:
            into[:got] = memoryview(self._buffer)[self._begin:self._begin + got]
            self._begin += got
            while got < length:
                try:
                    got += self._receive(into[got:])
                except Silence:
                    raise Incomplete("a payload stopped after %d of %d bytes" % (got, length)
                                     ) from None
        return payload


def encode(number: int, method: str, params: Mapping[str, Any]) -> List[Any]:
    """A request as pieces to send one after the other. Memoryviews become bins, and large ones are
    pieces themselves, so that they need not be copied."""
    packer = msgpack.Packer(use_bin_type=True)
    pieces: List[Any] = []
    small = bytearray()

    def add(value: Any) -> None:
        if isinstance(value, Mapping):
            small.extend(packer.pack_map_header(len(value)))
            for key, inner in value.items():
                small.extend(packer.pack(key))
                add(inner)
        elif isinstance(value, memoryview):
            small.extend(_bin(value.nbytes))
            if value.nbytes <= _LARGE_BIN:
                small.extend(value)
            else:
                pieces.extend((bytes(small), value))
                small.clear()
        else:
            small.extend(packer.pack(value.item() if isinstance(value, np.generic) else value))

    small.extend(packer.pack_array_header(4))
    for part in (0, number, method):
        add(part)
    small.extend(packer.pack_array_header(1 if params else 0))
    if params:
        add(params)
    if small:
        pieces.append(bytes(small))
    return pieces


def _bin(length: int) -> bytes:
    """The shortest header of a bin."""
    for code, width in ((0xc4, 1), (0xc5, 2), (0xc6, 4)):
        if length < 1 << 8 * width:
            return bytes([code]) + length.to_bytes(width, "big")
    raise ValueError("%d bytes are too many for a message" % length)


def encode_notice(method: str, params: List[Any]) -> bytes:
    """A notification."""
    data: bytes = msgpack.packb([2, method, params])
    return data


def as_bytes(value: Any) -> memoryview:
    """The bytes of an array, of bytes, or of ASCII text, without a copy where they lie in a row."""
    if isinstance(value, str):
        value = value.encode("ascii")
    if isinstance(value, np.ndarray):
        value = np.ascontiguousarray(value)
        if value.size == 0:
            return memoryview(b"")
        return value.data.cast("B")
    return memoryview(value).cast("B")


def as_u64(values: ArrayLike, what: str) -> NDArray[np.uint64]:
    """As little-endian u64, a view where it is one already; ValueError for what is no whole number from
    0 to 2^64 - 1."""
    if not isinstance(values, np.ndarray):
        # numpy makes floats of a list with small numbers and such from 2^63 on.
        listed = list(values) if isinstance(values, Iterable) else [values]
        if all(isinstance(v, (int, np.integer)) and 0 <= v < 1 << 64 for v in listed):
            return np.array(listed, "<u8")
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError("%s: one dimension, not %d" % (what, array.ndim))
    if array.size and (array.dtype.kind not in "ui" or int(array.min()) < 0):
        raise ValueError("%s: whole numbers from 0 to 2^64 - 1" % what)
    return np.ascontiguousarray(array, "<u8")
