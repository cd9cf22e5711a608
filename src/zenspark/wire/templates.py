# cython: language_level=3, freethreading_compatible=True
"""Repeats: questions and answers that differ from the last one of their kind in their number and payload only.

Who asks the same again and again is answered the same way, so the bytes between number and payload are those of the
message before, and what they mean is known. Anything else is read by the object codec, and remembered for the next.
Compiled, because it stands for the codec where somebody waits for an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython
import msgspec

from zenspark.wire.columns import BatchDecoder
from zenspark.wire.declare import Message
from zenspark.wire.messages import Put, Reply, Request, Response, ResponseFinal

Numbered = Request | Response | ResponseFinal
"""The messages that begin with a number."""

LONGEST = 1024
"""Bytes that are remembered at most: in a long message it is not the reading that takes time."""

replace: Callable[..., Any] = msgspec.structs.replace


@cython.cclass
class Repeats:
    """What was read last, by the first byte of a message."""

    _known: dict[int, tuple[bytes, Any, bool]]

    def __init__(self) -> None:
        self._known = {}

    def read(self, cursor: BatchDecoder) -> Message:
        """Read the message at a cursor, and go on behind it."""
        if not cursor.in_frame:
            return cursor.message()
        start: cython.Py_ssize_t = cursor.pos
        known = self._known.get(cursor.data[start])
        if known is not None:
            message, stop = _read_as(known, cursor.data, start, cursor.batch_end)
            if message is not None:
                cursor.skip(stop)
                return message
        return self._learn(cursor, start)

    @cython.cfunc
    def _learn(self, cursor: BatchDecoder, start: cython.Py_ssize_t) -> Message:
        message = cursor.message()
        stop: cython.Py_ssize_t = cursor.pos
        if isinstance(message, Request | Response | ResponseFinal) and stop - start <= LONGEST:
            data = bytes(cursor.data[start:stop])
            known = _known_from(data, message)
            if _read_as(known, data, 0, len(data))[0] == message:  # what is spelled in an unusual way is not
                self._known[data[0]] = known
        return message


@cython.cfunc
def _known_from(data: bytes, message: Numbered) -> tuple[bytes, Any, bool]:
    """The bytes behind the number and before the payload, the message without both, and whether there is a payload."""
    start: cython.Py_ssize_t = 1 + _width(message.request_id)
    if isinstance(message, Response) and isinstance(message.body, Reply) and isinstance(message.body.body, Put):
        size: cython.Py_ssize_t = len(message.body.body.payload)
        put = replace(message.body.body, payload=b"")
        empty = replace(message, body=replace(message.body, body=put))
        return data[start : len(data) - size - _width(size)], empty, True
    return data[start:], message, False


@cython.cfunc
def _width(number: cython.ulonglong) -> cython.Py_ssize_t:
    """How many bytes a number takes."""
    width: cython.Py_ssize_t = 1
    while number > 0x7F:
        number >>= 7
        width += 1
    return width


@cython.cfunc
def _read_as(
    known: tuple[bytes, Any, bool],
    data: bytes | bytearray | memoryview,
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> tuple[Numbered | None, int]:
    """A message like one that is known, and where it ends; None if it is not like that."""
    rest, like, has_payload = known
    number, pos = _number_at(data, pos + 1, end)
    stop: cython.Py_ssize_t = pos + len(rest)
    if number < 0 or stop > end or data[pos:stop] != rest:
        return None, 0
    if not has_payload:
        return replace(like, request_id=number), stop
    size, stop = _number_at(data, stop, end)
    if size < 0 or stop + size > end:
        return None, 0
    put = replace(like.body.body, payload=bytes(data[stop : stop + size]))
    return replace(like, request_id=number, body=replace(like.body, body=put)), stop + size


@cython.cfunc
def _number_at(data: bytes | bytearray | memoryview, pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> tuple[int, int]:
    """A number of up to four bytes, and where it ends; -1 if it is none."""
    value: cython.long = 0
    shift: cython.int = 0
    while pos < end and shift < 28:
        byte: cython.long = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte <= 0x7F:
            return value, pos
        shift += 7
    return -1, pos
