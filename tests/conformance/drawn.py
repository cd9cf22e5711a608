"""Messages drawn byte by byte, as the pages draw them.

Nothing here uses our encoder to make bytes that are then decoded: a drawing is hexadecimal text written from the page.
"""

from __future__ import annotations

from typing import Any

import pytest

from zenspark.errors import DecodeError
from zenspark.wire.codec import decode_network, decode_transport, encode
from zenspark.wire.messages import Del, Err, Push, Put, Query, Reply, Request, Response
from zenspark.wire.values import Mapping, Timestamp, WireExpr, ZenohId

NO_KEY = WireExpr(scope=0, suffix="", mapping=Mapping.RECEIVER)
"""What the single byte `00` means behind a header with neither N nor M."""

STAMP_BYTES = "f9 9e ce 89 82 8a ad c1 66 01 33"
"""Nine bytes of clock, then an id of one byte."""
STAMP = Timestamp(7386664595088445305, ZenohId(0x33))


def drawn(text: str) -> bytes:
    """Turns a drawing into bytes; a line may end in a remark behind `#`."""
    return bytes.fromhex("".join(line.partition("#")[0] for line in text.splitlines()))


def vle(value: int) -> str:
    """Draws a number seven bits a byte, the lowest first, bit 7 set while more follow."""
    spelled = ""
    while value > 0x7F:
        spelled += f"{value & 0x7F | 0x80:02x} "
        value >>= 7
    return spelled + f"{value:02x} "


def accepted(text: str) -> Any:  # noqa: ANN401 - a message with whatever fields
    """Decodes a drawing by the layer its id belongs to; it may have another spelling than ours."""
    data = drawn(text)
    return decode_network(data) if data[0] & 0x1F >= 0x19 else decode_transport(data)


def exact(text: str) -> Any:  # noqa: ANN401 - a message with whatever fields
    """Decodes a drawing and checks that its content is written as these very bytes."""
    message = accepted(text)
    written = encode(message)
    if written != drawn(text):
        raise AssertionError(f"{message!r} is written as {written.hex(' ')}")
    return message


def refused(text: str, expected: str | None = None) -> DecodeError:
    """Checks that a drawing is no message, for the reason given if one is, and returns how it was refused."""
    with pytest.raises(DecodeError, match=expected) as caught:
        accepted(text)
    return caught.value


# -- the least that can stand around a data sub-message ----------------------------------------------------------

IN_PUSH = "1d 00 "
IN_REQUEST = "1c 00 00 "
IN_RESPONSE = "1b 00 00 "
IN_REPLY = IN_RESPONSE + "04 "


def push(body: Put | Del) -> Push:
    return Push(wire_expr=NO_KEY, body=body)


def request(body: Query) -> Request:
    return Request(request_id=0, wire_expr=NO_KEY, body=body)


def response(body: Reply | Err) -> Response:
    return Response(request_id=0, wire_expr=NO_KEY, body=body)
