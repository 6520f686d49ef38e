"""The wire blocks of protocol/PROTOCOL.md with Debian's python3-msgpack, a MessagePack library that is
not ours: each unpacks to a MessagePack-RPC message and packs again to the same bytes."""

import os
import re
import struct
import sys

try:
    import msgpack
except ImportError:
    if "msgpack" in os.environ.get("HSPZ_REQUIRE", "").split(","):
        raise
    print("python3-msgpack is not installed")
    sys.exit(77)

PATH = os.path.join(os.environ["HSPZ_SOURCE"], "protocol", "PROTOCOL.md")


def blocks():
    with open(PATH, encoding="utf-8") as file:
        text = file.read()
    for match in re.finditer(r"^```wire (\w+) (\S+)\n(.*?)^```$", text, re.M | re.S):
        digits = "".join(line.split("#")[0] for line in match.group(3).split("\n"))
        yield match.group(1), match.group(2), bytes.fromhex(digits)


def check(kind, name, data):
    # Defaults of a current msgpack-python: str must be UTF-8, map keys str.
    message = msgpack.unpackb(data, raw=False, strict_map_key=True)
    assert msgpack.packb(message, use_bin_type=True) == data, "packs to other bytes"
    assert isinstance(message, list)
    if kind == "request":
        zero, number, method, params = message
        assert zero == 0 and 0 <= number < 2**32 and method == name
        assert params == [] or len(params) == 1 and isinstance(params[0], dict)
    elif kind == "notification":
        two, method, params = message
        if method == "shm.free":
            assert name == method and params and all(isinstance(at, int) for at in params)
            return
        fields, payload = params
        assert two == 2 and method == name
        if name in ("answers", "entries"):
            count = fields["count"]
            size = {"bitmap": (count + 7) // 8, "array": 8 * count,
                    "both": 8 * count + (count + 7) // 8}.get(fields.get("answer"), 24 * count)
            assert (payload["length"] if isinstance(payload, dict) else len(payload)) == size > 0
            return
        record, noun = {"anchors": (8, "hit"), "hsps": (16, "hsp")}[name]
        count = fields[noun + "_end"] - fields[noun + "_begin"]
        if isinstance(payload, dict):
            assert set(payload) == {"offset", "length"} and payload["length"] == record * count > 0
            return
        if fields.get("encoding") == "columnar":
            runs = (len(payload) - 4 * count) // 8
            sizes = struct.unpack("<%dI" % (2 * runs), payload[:8 * runs])[1::2]
            assert sum(sizes) == count and len(payload) == 8 * runs + 4 * count
        else:
            assert len(payload) == record * count > 0
    else:
        one, number, error, result = message
        assert one == 1 and 0 <= number < 2**32
        if kind == "error":
            assert error["code"] == name and error["message"] and result is None
        else:
            assert kind == "response" and error is None and isinstance(result, dict)


def main():
    count = 0
    for kind, name, data in blocks():
        try:
            check(kind, name, data)
        except Exception:
            print("%s %s: %s" % (kind, name, data.hex()))
            raise
        # One byte at a time through the streaming unpacker: one message, after the last byte.
        unpacker = msgpack.Unpacker(raw=False)
        seen = []
        for at in range(len(data)):
            unpacker.feed(data[at:at + 1])
            seen += [at for _ in unpacker]
        assert seen == [len(data) - 1]
        count += 1
    assert count >= 21, count
    print("%d blocks" % count)


main()
