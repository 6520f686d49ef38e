"""Where a server listens."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Address:
    """`kind` is "unix", "tcp" or "tls"; `host` a host name or address, of "unix" the path."""

    kind: str
    host: str
    port: int = 0

    def __str__(self) -> str:
        if self.kind == "unix":
            return "unix:" + self.host
        return "%s:%s:%d" % (self.kind, "[%s]" % self.host if ":" in self.host else self.host,
                             self.port)


def parse(text: str) -> Address:
    """`unix:PATH`, or `tcp:HOST:PORT` or `tls:HOST:PORT` with an IPv6 address in brackets. ValueError
    names what is wrong."""
    if text.startswith("unix:") and len(text) > 5:
        return Address("unix", text[5:])
    match = re.fullmatch(r"(tcp|tls):(?:\[([0-9A-Fa-f:.%\w]+)\]|([^:\[\]]+)):([0-9]{1,5})", text)
    if match is None or not 0 < int(match.group(4)) < 65536:
        raise ValueError("server %r: it is unix:PATH, tcp:HOST:PORT or tls:HOST:PORT" % text)
    return Address(match.group(1), match.group(2) or match.group(3), int(match.group(4)))


def default() -> Address:
    """Where hspz-client looks: `HSPZ_SERVER`, else hspz.sock in `XDG_RUNTIME_DIR`, else the service's
    socket; of the two the one that is there."""
    text = os.environ.get("HSPZ_SERVER")
    if text:
        return parse(text)
    service = "/run/hspz/hspz.sock"
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        path = os.path.join(runtime, "hspz.sock")
        if os.path.exists(path) or not os.path.exists(service):
            return Address("unix", path)
    return Address("unix", service)
