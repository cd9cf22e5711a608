"""Byte positions of every field of a message, for `zenspark decode`.

The traced variant of the codec is generated and executed on first use. Fields read before an error are kept, so that a
malformed message can be shown up to the error. `draw_box` draws a message like the pages of the specification, from its
declaration and its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec

from zenspark.errors import DecodeError
from zenspark.wire.buffer import Reader
from zenspark.wire.codec_generator import generate
from zenspark.wire.message_schema import EnumCodec, Flags, IntCodec, Message, WireField, fields_of
from zenspark.wire.messages import MAX_TRANSPORT_ID, NetworkOam


class FieldSpan(msgspec.Struct, frozen=True):
    """One field and its byte range; `end` is exclusive."""

    field: WireField
    start: int
    end: int
    value: Any


class Trace(msgspec.Struct):
    """One message: its fields in the order read, and the messages inside it. If malformed, it ends where reading
    stopped."""

    cls: type[Message]
    start: int
    end: int = -1
    message: Message | None = None
    spans: list[FieldSpan] = []
    children: list[Trace] = []


class TracingReader(Reader):
    """Reader that records positions reported by the traced codec."""

    def __init__(self, data: bytes | bytearray | memoryview, pos: int = 0, end: int = -1) -> None:
        super().__init__(data, pos, end)
        self.traces: list[Trace] = []
        self._open: list[Trace] = []

    def begin(self, cls: type[Message]) -> None:
        """Record that the header of a message was read."""
        trace = Trace(cls, self.pos - 1)
        (self._open[-1].children if self._open else self.traces).append(trace)
        self._open.append(trace)

    def record_field(self, name: str, start: int, value: object) -> None:
        """Record that a field was read; one of zero bytes is not on the wire."""
        field = next(field for field in fields_of(self._open[-1].cls) if field.name == name)
        if field.bits or self.pos > start:
            self._open[-1].spans.append(FieldSpan(field, start, self.pos, value))

    def finish(self, message: Message) -> Message:
        """Record that the innermost message is complete."""
        trace = self._open.pop()
        trace.end = self.pos
        trace.message = message
        if isinstance(message, NetworkOam) and message.id == message.LINK_STATE and message.zbuf:
            with suppress(DecodeError):  # the body is opaque to the codec and may hold anything
                trace.children = trace_link_states(self.data, self.pos - len(message.zbuf), self.pos)
        return message

    def stop(self) -> None:
        """End all open messages at the current position, after an error."""
        while self._open:
            self._open.pop().end = self.pos


@cache
def _codec() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(generate(traced=True), "<traced codec>", "exec"), names)
    return names


def trace(
    layer: str, data: bytes | bytearray | memoryview, start: int = 0, end: int = -1
) -> tuple[list[Trace], DecodeError | None]:
    """Decode consecutive messages; returns their traces, and the error that ended reading, if any.

    `layer` is scouting, transport, network, or bare: the mixture of the latter two in a low-latency session.
    """
    reader = TracingReader(data, start, end)
    try:
        _read_message(layer, reader)
        while reader.left():
            _read_message(layer, reader)
    except DecodeError as error:
        reader.stop()
        return reader.traces, error
    return reader.traces, None


def _read_message(layer: str, reader: TracingReader) -> None:
    if layer == "bare":
        layer = "network" if reader.peek() & 0x1F > MAX_TRANSPORT_ID else "transport"
    _codec()[f"read_{layer}_message"](reader)


def trace_link_states(data: bytes | bytearray | memoryview, start: int, end: int) -> list[Trace]:
    """Traces of the entries of a link-state OAM body."""
    reader = TracingReader(data, start, end)
    for _ in range(reader.z(64)):
        _codec()["read_link_state"](reader, reader.u8())
    if reader.left():
        raise DecodeError("the end of the link states", reader.pos, f"{reader.left()} bytes more")
    return reader.traces


# -- the box -----------------------------------------------------------------------------------------------------

BOX_WIDTH = 15
"""Characters between the two sides of a box: eight bits and seven separators."""


class BoxLine(msgspec.Struct, frozen=True):
    """One line of a box, and the field it shows: `flags` are the names set in a flag byte."""

    box: str
    start: int = -1
    end: int = -1
    value: Any = None
    flags: tuple[str, ...] = ()

    @property
    def is_field(self) -> bool:
        """Whether the line shows a field."""
        return self.start >= 0


def draw_box(trace: Trace, data: bytes | bytearray | memoryview) -> Iterator[BoxLine]:
    """Lines of the drawing of one message; the messages inside it have their own."""
    assert trace.cls.HEADER is not None
    yield BoxLine(" 7 6 5 4 3 2 1 0")
    yield BoxLine("+-" * 8 + "+")
    yield from _flags_lines(trace, trace.cls.HEADER, trace.start, data)
    for span in trace.spans:
        if span.field.flags:
            yield from _flags_lines(trace, span.field.flags, span.start, data)
        elif not span.field.bits:
            yield BoxLine(_sides(span), span.start, span.end, span.value)
            yield BoxLine(f"+{'-' * BOX_WIDTH}+")


def _flags_lines(trace: Trace, flags: Flags, at: int, data: bytes | bytearray | memoryview) -> Iterator[BoxLine]:
    cells = [(name, width) for name, width in flags_cells(flags)]
    byte = data[at]
    meaning = {span.field.bits.flag: span for span in trace.spans if span.field.bits and span.start == at}
    names = tuple(_set_flags(flags, byte, meaning))
    yield BoxLine(f"|{'|'.join(name[:width].center(width) for name, width in cells)}|", at, at + 1, flags=names)
    yield BoxLine(f"+{'+'.join('-' * width for _, width in cells)}+")


def flags_cells(flags: Flags) -> Iterator[tuple[str, int]]:
    """Labels of a flag byte's cells from bit 7 to bit 0, with their width in characters."""
    left = 8
    for part in flags.text.split("|"):
        name, _, bits = part.partition(":")
        if name == "_":
            yield from [("X", 1)] * int(bits or 1)
            left -= int(bits or 1)
            continue
        width = left if name.startswith("0x") else int(bits or 1)
        yield name.lower() if name.startswith("0x") else name.partition("=")[0], 2 * width - 1
        left -= width


def _set_flags(flags: Flags, byte: int, meaning: dict[str, FieldSpan]) -> Iterator[str]:
    for name, shift in flags.shift.items():
        value = byte >> shift & (1 << flags.width[name]) - 1
        span = meaning.get(name)
        if span is not None and not isinstance(span.value, bool):
            yield f"{name} {getattr(span.value, 'text', span.value)}"
        elif value:
            word = f" {span.field.name}" if span else "" if flags.width[name] == 1 else f" {value}"
            yield name + word


def _sides(span: FieldSpan) -> str:
    """Name of a field between sides that show its encoding: | fixed, % variable length, ~ other."""
    field = span.field
    codec = field.codec.carrier if isinstance(field.codec, EnumCodec) else field.codec
    side = {"u": "|", "z": "%"}[codec.form] if isinstance(codec, IntCodec) else "~"
    name = field.name
    if field.name == "exts":
        name = f"ext 0x{span.value.id:x}"
    if field.ext or field.name == "exts":
        name, side = f"[{name}]", "|" if span.end - span.start == 1 else "~"
    return f"{side}{name[:BOX_WIDTH].center(BOX_WIDTH)}{side}"
