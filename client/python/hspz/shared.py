"""Memory that a server shares with a client of its UNIX socket: a ring that parts come in, and an
input for what is sent (PROTOCOL.md sections 6.25 and 7.5).

A place in the ring is given back when no array looks at it any more. The server has no more than so
many places per connection, so that once all but one are looked at, the parts that follow are copied:
whoever keeps every part gets every part, and no array ever changes under its owner's eyes while the
client is open."""

from __future__ import annotations

import mmap
import os
import weakref
from collections import deque
from typing import Any, Deque, Dict, List, Optional

import numpy as np

from .channel import Channel
from .errors import BadPeer, ServerError
from .wire import Payload


class Shared:
    """Of one connection. Closing forgets the memory, which lives on while arrays look at it."""

    def __init__(self, channel: Channel, ring: mmap.mmap, input_: Optional[mmap.mmap],
                 places: int) -> None:
        self._channel = channel
        self._ring = ring
        self._input = input_
        self._places = places
        self._held = 0
        self._free: Deque[int] = deque()

    def take(self, place: Dict[str, Any]) -> Payload:
        """The payload at a place, which is then the client's."""
        offset, length = place.get("offset"), place.get("length")
        if (not isinstance(offset, int) or not isinstance(length, int) or offset < 0 or length < 0
                or offset + length > len(self._ring)):
            raise BadPeer("a payload at %r of %d shared bytes" % (place, len(self._ring)))
        payload: Payload = np.frombuffer(self._ring, np.uint8, length, offset)
        if self._held >= self._places - 1:
            self._free.append(offset)
            payload = payload.copy()
            self.give_back()
            return payload
        self._held += 1
        weakref.finalize(payload, self._drop, offset).atexit = False
        return payload

    def _drop(self, offset: int) -> None:
        self._held -= 1
        self._free.append(offset)

    def pass_over(self, place: Dict[str, Any]) -> None:
        """Gives back a place whose payload nobody wants."""
        offset = place.get("offset")
        if isinstance(offset, int):
            self._free.append(offset)
            self.give_back()

    def give_back(self) -> None:
        """Tells the server which places are free."""
        offsets: List[int] = []
        while self._free:
            offsets.append(self._free.popleft())
        if offsets:
            self._channel.notify("shm.free", offsets)

    def put(self, data: memoryview) -> Optional[Dict[str, int]]:
        """Writes what is to be sent, and says where; None when it does not fit. What was there before
        must have been answered for."""
        if self._input is None or data.nbytes > len(self._input) or data.nbytes == 0:
            return None
        self._input[:data.nbytes] = data
        return {"offset": 0, "length": data.nbytes}


def open_shared(channel: Channel, places: int) -> Shared:
    """Asks for it; ServerError when there is none to have, and the connection is as before."""
    number = channel.request("shm.open", {})
    descriptors: List[int] = []
    try:
        result, descriptors = channel.receive_descriptors(number, 2)
        sizes = [result.get("ring_bytes"), result.get("input_bytes")]
        if len(descriptors) != 2 or not all(isinstance(n, int) and n >= 0 for n in sizes):
            raise BadPeer("shared memory without its descriptors")
        ring_bytes, input_bytes = (int(n or 0) for n in sizes)
        if ring_bytes == 0 or os.fstat(descriptors[0]).st_size < ring_bytes:
            raise BadPeer("a ring of %d bytes" % ring_bytes)
        ring = mmap.mmap(descriptors[0], ring_bytes, prot=mmap.PROT_READ)
        input_ = mmap.mmap(descriptors[1], input_bytes) if input_bytes else None
        return Shared(channel, ring, input_, places)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def refused(error: ServerError) -> bool:
    """Whether it only means that payloads go through the socket."""
    return error.code in ("unsupported", "quota_exceeded", "queue_full")
