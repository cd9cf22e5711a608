"""Where every field of a message stands: a decoder for people who look at bytes.

The codec's own source, in the form that notes positions, is made and executed on first use. What was read before an
error is kept, so that a broken message can be shown up to where it breaks. `box` draws a message the way the pages
of the specification do, from its declaration and the bytes at hand.
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
from zenspark.wire.declare import Carried, Field, Flags, Int, Message, fields_of
from zenspark.wire.messages import NetworkOam

MAX_TRANSPORT_ID = 0x07


class Span(msgspec.Struct, frozen=True):
    """One field: the bytes it stands on, `end` being the first one after it."""

    field: Field
    start: int
    end: int
    value: Any


class Trace(msgspec.Struct):
    """One message: its fields in the order read, and the messages inside it. Broken, it ends where reading did."""

    cls: type[Message]
    start: int
    end: int = -1
    message: Message | None = None
    spans: list[Span] = []
    children: list[Trace] = []


class TracingReader(Reader):
    """A Reader the traced codec tells where it is."""

    def __init__(self, data: bytes | bytearray | memoryview, pos: int = 0, end: int = -1) -> None:
        super().__init__(data, pos, end)
        self.found: list[Trace] = []
        self._open: list[Trace] = []

    def begin(self, cls: type[Message]) -> None:
        """The header of a message was read."""
        trace = Trace(cls, self.pos - 1)
        (self._open[-1].children if self._open else self.found).append(trace)
        self._open.append(trace)

    def note(self, name: str, start: int, value: object) -> None:
        """A field was read; one that takes no bytes is not on the wire."""
        field = next(field for field in fields_of(self._open[-1].cls) if field.name == name)
        if field.bits or self.pos > start:
            self._open[-1].spans.append(Span(field, start, self.pos, value))

    def finish(self, message: Message) -> Message:
        """The message begun last is complete."""
        trace = self._open.pop()
        trace.end = self.pos
        trace.message = message
        if isinstance(message, NetworkOam) and message.id == message.LINK_STATE and message.zbuf:
            with suppress(DecodeError):  # the body is opaque to the codec and may hold anything
                trace.children = link_states(self.data, self.pos - len(message.zbuf), self.pos)
        return message

    def stop(self) -> None:
        """Nothing more can be read: what is open ends here."""
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
    """The messages that stand one after the other in these bytes, and the error that ended reading, if one did.

    `layer` is scouting, transport, network, or bare: the mixture of the latter two in a low-latency session.
    """
    reader = TracingReader(data, start, end)
    try:
        _read_one(layer, reader)
        while reader.left():
            _read_one(layer, reader)
    except DecodeError as error:
        reader.stop()
        return reader.found, error
    return reader.found, None


def _read_one(layer: str, reader: TracingReader) -> None:
    if layer == "bare":
        layer = "network" if reader.peek() & 0x1F > MAX_TRANSPORT_ID else "transport"
    _codec()[f"read_{layer}_message"](reader)


def link_states(data: bytes | bytearray | memoryview, start: int, end: int) -> list[Trace]:
    """The entries in the body of a link-state OAM."""
    reader = TracingReader(data, start, end)
    for _ in range(reader.z(64)):
        _codec()["read_link_state"](reader, reader.u8())
    if reader.left():
        raise DecodeError("the end of the link states", reader.pos, f"{reader.left()} bytes more")
    return reader.found


# -- the box -----------------------------------------------------------------------------------------------------

WIDTH = 15
"""Characters between the two sides of a box: eight bits and seven lines between them."""


class Row(msgspec.Struct, frozen=True):
    """One line of a box, and the field it shows: `flags` are the names set in a byte of flags."""

    box: str
    start: int = -1
    end: int = -1
    value: Any = None
    flags: tuple[str, ...] = ()

    @property
    def is_field(self) -> bool:
        return self.start >= 0


def box(trace: Trace, data: bytes | bytearray | memoryview) -> Iterator[Row]:
    """The drawing of one message, line by line; the messages inside it have their own."""
    assert trace.cls.HEADER is not None
    yield Row(" 7 6 5 4 3 2 1 0")
    yield Row("+-" * 8 + "+")
    yield from _flags_rows(trace, trace.cls.HEADER, trace.start, data)
    for span in trace.spans:
        if span.field.flags:
            yield from _flags_rows(trace, span.field.flags, span.start, data)
        elif not span.field.bits:
            yield Row(_sides(span), span.start, span.end, span.value)
            yield Row(f"+{'-' * WIDTH}+")


def _flags_rows(trace: Trace, flags: Flags, at: int, data: bytes | bytearray | memoryview) -> Iterator[Row]:
    cells = [(name, width) for name, width in flags_cells(flags)]
    byte = data[at]
    meaning = {span.field.bits.flag: span for span in trace.spans if span.field.bits and span.start == at}
    names = tuple(_set_flags(flags, byte, meaning))
    yield Row(f"|{'|'.join(name[:width].center(width) for name, width in cells)}|", at, at + 1, flags=names)
    yield Row(f"+{'+'.join('-' * width for _, width in cells)}+")


def flags_cells(flags: Flags) -> Iterator[tuple[str, int]]:
    """What stands in the cells of a byte of flags from bit 7 to bit 0, and how many characters each is wide."""
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


def _set_flags(flags: Flags, byte: int, meaning: dict[str, Span]) -> Iterator[str]:
    for name, shift in flags.shift.items():
        value = byte >> shift & (1 << flags.width[name]) - 1
        span = meaning.get(name)
        if span is not None and not isinstance(span.value, bool):
            yield f"{name} {getattr(span.value, 'text', span.value)}"
        elif value:
            word = f" {span.field.name}" if span else "" if flags.width[name] == 1 else f" {value}"
            yield name + word


def _sides(span: Span) -> str:
    """The name of a field between sides that tell its shape: | fixed, % of variable length, ~ anything."""
    field = span.field
    word = field.word.carrier if isinstance(field.word, Carried) else field.word
    side = {"u": "|", "z": "%"}[word.form] if isinstance(word, Int) else "~"
    name = field.name
    if field.name == "exts":
        name = f"ext 0x{span.value.id:x}"
    if field.ext or field.name == "exts":
        name, side = f"[{name}]", "|" if span.end - span.start == 1 else "~"
    return f"{side}{name[:WIDTH].center(WIDTH)}{side}"
