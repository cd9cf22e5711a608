# cython: language_level=3, freethreading_compatible=True
"""Templates: encoded messages that differ from an earlier one in request id and payload only.

The encoder side makes the bytes around these two once and fills in the rest for each message: `push_head`,
`put_head` and `MessageTemplate`. The decoder side, `TemplateDecoder`, compares the bytes of a REQUEST or RESPONSE
with those of the last message of its kind, and calls the object codec only if they differ. Outside of `wire` no module
cuts bytes out of encoded messages. Compiled, because a querier waits for the result.

What the cuts rely on: the request id is the first field, behind the header byte; the payload of a PUT is the last
field, behind its length; the body of a PUSH is its last field, and a DEL without fields is one byte. The unit tests
compare every template with `encode` for all fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython
import msgspec

from zenspark.wire.codec import encode
from zenspark.wire.message_schema import Message
from zenspark.wire.messages import Del, Push, Put, Reply, Request, Response, ResponseFinal
from zenspark.wire.values import Encoding, QoS, WireExpr

if not cython.compiled:
    from zenspark.wire._bytes import append_vle, read_vle32, size_of_vle32, starts_with, value_of_vle32, vle_size
    from zenspark.wire.columns.decoder import BatchDecoder

WithId = Request | Response | ResponseFinal
"""The messages whose first field is a request id."""

MAX_TEMPLATE_BYTES = 1024
"""The largest message that `TemplateDecoder` keeps: in a longer one decoding the header is not what takes time."""

replace: Callable[..., Any] = msgspec.structs.replace


def push_head(wire_expr: WireExpr, qos: QoS, node_id: int = 0) -> bytes:
    """Encode a PUSH up to its body."""
    whole: bytes = encode(Push(wire_expr=wire_expr, qos=qos, node_id=node_id, body=Del()))
    return whole[: len(whole) - 1]


def put_head(wire_expr: WireExpr, qos: QoS, encoding: Encoding) -> bytes:
    """Encode a PUSH with a PUT up to the length of its payload."""
    whole: bytes = encode(Push(wire_expr=wire_expr, qos=qos, body=Put(encoding=encoding, payload=b"")))
    return whole[: len(whole) - 1]


@cython.cclass
class MessageTemplate:
    """An encoded message without its request id; if it `ends_at_payload`, also without its empty payload and length."""

    _header: bytes
    _rest: bytes

    def __init__(self, message: WithId, ends_at_payload: bool = False) -> None:
        whole: bytes = encode(replace(message, request_id=0))
        self._header = whole[:1]
        self._rest = whole[2 : len(whole) - (1 if ends_at_payload else 0)]

    def with_id(self, request_id: cython.ulonglong) -> bytes:
        """Return the bytes of the message with a request id."""
        out = bytearray(self._header)
        append_vle(out, request_id)
        out += self._rest
        return bytes(out)


@cython.cclass
class TemplateDecoder:
    """Decodes messages of one peer, and keeps the last REQUEST, RESPONSE and RESPONSE_FINAL by their header byte."""

    _templates: dict[int, tuple[bytes, Any, bool]]

    def __init__(self) -> None:
        self._templates = {}

    def read(self, decoder: BatchDecoder) -> Message:
        """Read the message at the position of a decoder, and move the decoder behind it."""
        if not decoder.in_frame:
            return decoder.message()
        start: cython.Py_ssize_t = decoder.pos
        template = self._templates.get(decoder._data[start])
        if template is not None:
            message, stop = _match_template(template, decoder._data, start, decoder.batch_end)
            if message is not None:
                decoder.skip(stop)
                return message
        return self._read_new(decoder, start)

    @cython.cfunc
    def _read_new(self, decoder: BatchDecoder, start: cython.Py_ssize_t) -> Message:
        """Read a message with the object codec, and make it the template of its kind."""
        message = decoder.message()
        stop: cython.Py_ssize_t = decoder.pos
        if isinstance(message, Request | Response | ResponseFinal) and stop - start <= MAX_TEMPLATE_BYTES:
            data = bytes(decoder.data[start:stop])
            template = _make_template(data, message)
            if _match_template(template, data, 0, len(data))[0] == message:  # not if an integer has an unusual spelling
                self._templates[data[0]] = template
        return message


@cython.cfunc
def _make_template(data: bytes, message: WithId) -> tuple[bytes, Any, bool]:
    """Return the bytes between request id and payload, the message without both, and whether it has a payload.

    A payload in shared memory is encoded as a list of slices, and stays part of the template.
    """
    start: cython.Py_ssize_t = 1 + vle_size(message.request_id)
    reply = message.body if isinstance(message, Response) and isinstance(message.body, Reply) else None
    if reply is not None and isinstance(reply.body, Put) and not reply.body.shm:
        size: cython.Py_ssize_t = len(reply.body.payload)
        empty = replace(message, body=replace(reply, body=replace(reply.body, payload=b"")))
        return data[start : len(data) - size - vle_size(size)], empty, True
    return data[start:], message, False


@cython.cfunc
def _match_template(
    template: tuple[bytes, Any, bool], data: cython.p_const_uchar, pos: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> tuple[WithId | None, int]:
    """Decode the message at `pos` if it equals a template: the message and where it ends; (None, 0) if it differs."""
    rest: bytes
    rest, message, has_payload = template
    stop: cython.Py_ssize_t
    number: cython.ulonglong = read_vle32(data, pos + 1, end)
    pos += 1 + size_of_vle32(number)
    if number == 0 or not starts_with(data, pos, end, rest, len(rest)):
        return None, 0
    stop = pos + len(rest)
    if not has_payload:
        return replace(message, request_id=value_of_vle32(number)), stop
    size: cython.ulonglong = read_vle32(data, stop, end)
    stop += size_of_vle32(size)
    if size == 0 or value_of_vle32(size) > cython.cast(cython.ulonglong, end - stop):
        return None, 0
    pos = stop
    stop += value_of_vle32(size)
    put = replace(message.body.body, payload=bytes(data[pos:stop]))
    return replace(message, request_id=value_of_vle32(number), body=replace(message.body, body=put)), stop
