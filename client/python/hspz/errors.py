"""What can go wrong. What a server, or the way to it, is the reason of is an `hspz.Error`. Arguments that
cannot be are ValueError or TypeError, and files that cannot be read OSError, before anything is sent."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Type


class Error(Exception):
    """Base of all."""


class NoServer(Error):
    """Nothing listens at the address, or it could not be reached."""


class Incomplete(Error):
    """The connection ended, or nothing came for too long, before the answer was whole. What came
    before is right, but not all. The client can only be closed."""


class BadPeer(Error):
    """The peer breaks the protocol, or what came is not what it says it sent. The client can only be
    closed."""


class ServerError(Error):
    """The server's answer to a request was an error; the connection lives on.

    `code` is one of PROTOCOL.md section 4, `text` its line for people. `limit`, `retry_ms` and
    `hits` are whole numbers where the server gave them, else None; `details` is the whole map."""

    code = "internal"

    def __init__(self, code: str, text: str, details: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__("%s: %s" % (code, text) if text else code)
        self.code = code
        self.text = text
        self.details: Dict[str, Any] = dict(details or {})

    def _number(self, key: str) -> Optional[int]:
        value = self.details.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def limit(self) -> Optional[int]:
        """The limit that was the reason."""
        return self._number("limit")

    @property
    def retry_ms(self) -> Optional[int]:
        """When trying again may do, in milliseconds from now."""
        return self._number("retry_ms")

    @property
    def hits(self) -> Optional[int]:
        """The exact number of hits that were too many."""
        return self._number("hits")


class BadRequest(ServerError):
    """`bad_request`: the message, a key, a value or a file's content is not valid."""


class UnknownMethod(ServerError):
    """`unknown_method`"""


class UnknownIndex(ServerError):
    """`unknown_index`"""


class UnknownFilter(ServerError):
    """`unknown_filter`: none of that name, or none that this client may see."""


class Unsupported(ServerError):
    """`unsupported`: the protocol version or an option's value is one the server does not know."""


class Unauthorized(ServerError):
    """`unauthorized`: the server does not know this client."""


class Forbidden(ServerError):
    """`forbidden`: it does, but the client may not do that."""


class TooLarge(ServerError):
    """`too_large`: over a limit that waiting does not change."""


class QueueFull(ServerError):
    """`queue_full`: too much is waiting; may be sent again after `retry_ms`."""


class QuotaExceeded(ServerError):
    """`quota_exceeded`"""


class HitsOverflow(ServerError):
    """`hits_overflow`: a batch has more than 4294967295 hits."""


class DeadlineExceeded(ServerError):
    """`deadline_exceeded`"""


class Cancelled(ServerError):
    """`cancelled`"""


class OutOfMemory(ServerError):
    """`out_of_memory`"""


class DeviceError(ServerError):
    """`device_error`"""


class ShuttingDown(ServerError):
    """`shutting_down`"""


class NotReady(ServerError):
    """`not_ready`: the index is still loading."""


class BadFile(ServerError):
    """`bad_file`: damaged, or of another kind."""


class FileError(ServerError):
    """`io_error`: reading or writing a file failed on the server."""


class Internal(ServerError):
    """`internal`, and every code that this package does not know."""


_KINDS: Dict[str, Type[ServerError]] = {
    "bad_request": BadRequest,
    "unknown_method": UnknownMethod,
    "unknown_index": UnknownIndex,
    "unknown_filter": UnknownFilter,
    "unsupported": Unsupported,
    "unauthorized": Unauthorized,
    "forbidden": Forbidden,
    "too_large": TooLarge,
    "queue_full": QueueFull,
    "quota_exceeded": QuotaExceeded,
    "hits_overflow": HitsOverflow,
    "deadline_exceeded": DeadlineExceeded,
    "cancelled": Cancelled,
    "out_of_memory": OutOfMemory,
    "device_error": DeviceError,
    "shutting_down": ShuttingDown,
    "internal": Internal,
    "not_ready": NotReady,
    "bad_file": BadFile,
    "io_error": FileError,
}


def from_map(error: object) -> ServerError:
    """The exception of a response's error; BadPeer when it is none."""
    if not isinstance(error, dict) or not isinstance(error.get("code"), str):
        raise BadPeer("an error without a code: %.200r" % (error,))
    text = error.get("message")
    code = error["code"]
    return _KINDS.get(code, Internal)(code, text if isinstance(text, str) else "", error)
