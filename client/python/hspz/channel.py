"""One connection: requests out, responses and notifications in, and what happens when neither comes."""

from __future__ import annotations

import socket
import ssl
from typing import Any, Dict, List, Mapping, Optional, Set, Tuple, Union

from .address import Address
from .errors import BadPeer, Error, Incomplete, NoServer, from_map
from .wire import Notice, Reader, Response, Silence, encode, encode_notice


class Tls:
    """How to speak TLS: who signed the server (`ca_file`, PEM; None: the system's), what name its
    certificate has (None: the address's host), and what the client shows of itself."""

    def __init__(self, ca_file: Optional[str] = None, server_name: Optional[str] = None,
                 certificate_file: Optional[str] = None, key_file: Optional[str] = None) -> None:
        self.server_name = server_name
        self.context = ssl.create_default_context(cafile=ca_file)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        if certificate_file is not None:
            self.context.load_cert_chain(certificate_file, key_file)


def connect(address: Address, tls: Optional[Tls], timeout: float) -> socket.socket:
    """A connected socket; NoServer says why there is none."""
    made: Optional[socket.socket] = None
    try:
        if address.kind == "unix":
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            # Blocking: with a time-out, a full backlog would be an error at once.
            made.connect(address.host)
        else:
            made = socket.create_connection((address.host, address.port), timeout)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.kind == "tls":
            tls = tls or Tls()
            made = tls.context.wrap_socket(made, server_hostname=tls.server_name or address.host)
        return made
    except OSError as error:
        if made is not None:
            made.close()
        raise NoServer("%s: %s" % (address, error)) from error


class Channel:
    """Not for several threads at a time. After Incomplete or BadPeer it can only be closed."""

    def __init__(self, connected: socket.socket, answer_s: float, silence_s: float) -> None:
        self.socket = connected
        self.reader = Reader(connected)
        self._next = 1  # 0 is the server's, for errors of no request
        self._answer_s = answer_s
        self._silence_s = silence_s
        self._probes: Set[int] = set()
        self._broken: Optional[Error] = None
        self.closed = False
        self.local = connected.family == socket.AF_UNIX

    def close(self) -> None:
        """Ends the connection; may be called again."""
        self.closed = True
        self.socket.close()

    def request(self, method: str, params: Mapping[str, Any]) -> int:
        """Sends it; returns its number."""
        number = self._next
        self._next = self._next % 0xffffffff + 1
        self._send(encode(number, method, params))
        return number

    def notify(self, method: str, params: List[Any]) -> None:
        """Sends what has no answer."""
        self._send([encode_notice(method, params)])

    def _send(self, pieces: List[Any]) -> None:
        self._check()
        self.socket.settimeout(self._silence_s)
        try:
            for piece in pieces:
                self.socket.sendall(piece)
        except OSError as error:
            # The server may have said why before it closed.
            why = self._last_words()
            self._broken = Incomplete("the request could not be sent: %s" % (why or error))
            raise self._broken from error

    def _last_words(self) -> Optional[Error]:
        self.socket.settimeout(1)
        try:
            while True:
                message = self.reader.message()
                if isinstance(message, Response) and message.number == 0:
                    return from_map(message.error)
        except (Error, Silence, OSError):
            return None

    def _check(self) -> None:
        if self.closed:
            raise Incomplete("the client is closed")
        if self._broken is not None:
            raise self._broken

    def receive(self, long: bool) -> Union[Response, Notice]:
        """The next message. Of a long call: when nothing came for a while the server is asked for its
        health, and is gone when it does not answer that either."""
        self._check()
        try:
            return self._receive(long)
        except (Incomplete, BadPeer) as error:
            self._broken = error
            raise

    def _receive(self, long: bool) -> Union[Response, Notice]:
        silent = False
        while True:
            wait = self._silence_s if long else self._answer_s
            self.socket.settimeout(wait)
            try:
                message = self.reader.message()
            except Silence:
                if silent or not long:
                    raise Incomplete("nothing came from the server for %g s" % wait) from None
                silent = True
                self._probes.add(self.request("health", {}))
                continue
            silent = False
            if isinstance(message, Response):
                if message.number in self._probes:
                    self._probes.discard(message.number)
                    continue
                if message.number == 0:
                    raise Incomplete("the server ended the connection: %s" % from_map(message.error))
            return message

    def answer(self, number: int, long: bool = False) -> Any:
        """The result of a request that has no notifications; its error is raised."""
        while True:
            message = self.receive(long)
            if isinstance(message, Notice):
                continue  # of a job that was given up
            if message.number != number:
                self._broken = BadPeer("an answer to request %d, which is not open" % message.number)
                raise self._broken
            if message.error is not None:
                raise from_map(message.error)
            return message.result

    def call(self, method: str, params: Mapping[str, Any], long: bool = False) -> Dict[str, Any]:
        """A request and its result, which is a map in every method of the protocol."""
        result = self.answer(self.request(method, params), long)
        if not isinstance(result, dict):
            self._broken = BadPeer("%s: the result is no map" % method)
            raise self._broken
        return result

    def receive_descriptors(self, number: int, count: int) -> Tuple[Dict[str, Any], List[int]]:
        """The result of a request whose response has descriptors with its first byte."""
        self.socket.settimeout(self._answer_s)
        try:
            data, descriptors, _, _ = socket.recv_fds(self.socket, 4096, count)
        except OSError as error:
            self._broken = Incomplete("the connection broke: %s" % error)
            raise self._broken from error
        self.reader.feed(data)
        result = self.answer(number) if data else None
        return (result if isinstance(result, dict) else {}), descriptors
