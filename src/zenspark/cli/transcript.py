"""A captured session as a table: the output of `zenspark decode --c2s A --s2c B`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple, assert_never

import msgspec
from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from zenspark.capture.conversation import Conversation, Event, Ignored, SideState, Truncated
from zenspark.capture.direction import CapturedMessage, InvalidBytes, LostMessage, Side
from zenspark.cli import FAILED
from zenspark.cli.formatters import details, format_title, pluralize, printable
from zenspark.cli.screen import Screen, wrap_text
from zenspark.transport.handshake import SessionParameters
from zenspark.wire import json_fields

ARROWS = {Side.C2S: "→", Side.S2C: "←"}
SIDE_COLOURS = {Side.C2S: "cyan", Side.S2C: "magenta"}
COLUMNS = ("#", "", "offset", "message", "key", "details")
NUMBERS = ("#", "offset")
FIELD_GAP = "  "
MIN_WIDTH = 10
"""Minimum width of the key and details columns."""


class Cell(NamedTuple):
    """Text of a table cell and its style."""

    text: str
    style: str = ""


Row = tuple[Cell, ...]


def run(c2s: str | None, s2c: str | None, as_json: bool) -> int:
    """Show a session captured in two files. Returns the exit code."""
    conversation = Conversation()
    for side, path in ((Side.C2S, c2s), (Side.S2C, s2c)):
        if path is not None:
            with open(path, "rb") as file:
                conversation.receive_data(side, file.read())
    events = list(conversation.finish())
    if as_json:
        show_fields(events)
    else:
        show(Screen(), conversation, events)
    sys.stdout.flush()
    problems = [line for event in events for line in _problem(conversation, event)]
    for line in problems:
        print(f"zenspark decode: {line}", file=sys.stderr)
    return FAILED if problems else 0


def _problem(conversation: Conversation, event: Event) -> Iterator[str]:
    match event:
        case InvalidBytes():
            yield f"{event.side}: {event.text}"
        case Truncated():
            end = conversation.sides[event.side].direction.total
            missing = pluralize(event.missing, "more byte")
            begin = f"(the batch begins at byte {event.position})"
            yield f"{event.side} ends in the middle of a batch at byte {end}: expected {missing} {begin}"


# -- as fields ---------------------------------------------------------------------------------------------------


def show_fields(events: Sequence[Event]) -> None:
    """Print one line of JSON for each event."""
    encoder = msgspec.json.Encoder()
    sys.stdout.flush()
    for event in events:
        sys.stdout.buffer.write(encoder.encode(fields_of_event(event)) + b"\n")


def fields_of_event(event: Event) -> json_fields.Fields:
    """Convert an event to JSON fields: side, offset and content."""
    fields: json_fields.Fields = {"from": event.side}
    match event:
        case CapturedMessage():
            fields |= {"offset": event.start, "end": event.end, "key": event.key}
            if event.request_key is not None:
                fields["request_key"] = event.request_key
            if event.carrier is not None:
                carrier = msgspec.to_builtins(event.carrier)
                fields["carrier"] = carrier | {"pieces": carrier.pop("fragments")}
            fields["fields"] = json_fields.to_json_fields(event.message)
        case LostMessage():
            fields |= {"offset": event.start, "end": event.end, "lost": event.text}
        case Ignored():
            fields |= {"offset": event.start, "ignored": event.size}
        case Truncated():
            message = f"{pluralize(event.missing, 'more byte')} expected in the batch at {event.position}"
            fields["error"] = {"message": message, "offset": event.position}
        case InvalidBytes():
            fields["error"] = {"message": event.text, "offset": event.start}
        case _:
            assert_never(event)
    return fields


# -- as a table --------------------------------------------------------------------------------------------------


def show(screen: Screen, conversation: Conversation, events: Sequence[Event]) -> None:
    """Print both nodes, all messages, and the number of decoded bytes."""
    messages = [event for event in events if isinstance(event, CapturedMessage | LostMessage)]
    screen.print(*_heading(screen, conversation, messages), "")
    rows = [make_row(number, event) for number, event in enumerate(messages, 1)]
    if rows:
        screen.write(_table(screen, rows))
    screen.print("", _summary(conversation, events))


# -- above the table ---------------------------------------------------------------------------------------------


def _heading(
    screen: Screen, conversation: Conversation, messages: Sequence[CapturedMessage | LostMessage]
) -> Iterator[RenderableType]:
    for side, state in conversation.sides.items():
        node = "unknown" if state.identity is None else f"{state.identity.whatami.text} {state.identity.zid}"
        yield Text.assemble((f"{ARROWS[side]} {side}", SIDE_COLOURS[side]), f"  {node}")
    if conversation.parameters is not None:
        yield f"agreed: {', '.join(_format_parameters(conversation.parameters))}"
    yield from _remarks(conversation, messages)


def _format_parameters(parameters: SessionParameters) -> Iterator[str]:
    yield f"batches of up to {parameters.batch_size} bytes"
    yield f"sequence numbers of {parameters.sn_mask.bit_length()} bits"
    yield from (
        ["qos"] * parameters.qos + ["low latency"] * parameters.low_latency + ["compression"] * parameters.compression
    )
    yield f"patch {parameters.patch}"


def _remarks(conversation: Conversation, messages: Sequence[CapturedMessage | LostMessage]) -> Iterator[str]:
    late = [str(state.side) for state in conversation.sides.values() if state.begins_late]
    if late:
        yield f"the recording of {' and '.join(late)} begins after the handshake: its parameters are guessed"
    if any(isinstance(event, CapturedMessage) and not event.is_resolved for event in messages):
        yield "keys shown as #number+suffix use a number whose binding was not recorded"
    first = next((event for event in messages if isinstance(event, CapturedMessage)), None)
    if first is not None and first.side is Side.S2C and first.message.NAME == "INIT_SYN":
        yield "s2c begins with INIT_SYN, which the connecting side sends: the two files seem to be exchanged"


# -- the table ---------------------------------------------------------------------------------------------------


def make_row(number: int, event: CapturedMessage | LostMessage) -> Row:
    """Return the table cells of one event."""
    head = Cell(str(number)), Cell(ARROWS[event.side], SIDE_COLOURS[event.side]), Cell(str(event.start))
    if isinstance(event, LostMessage):
        return (*head, Cell("lost", "red"), Cell(""), Cell(event.text, "red"))
    key = Cell(printable(event.key or ""), "" if event.is_resolved else "red")
    return (*head, Cell(format_title(event.message), "bold"), key, Cell(", ".join(_details(event))))


def _details(captured: CapturedMessage) -> Iterator[str]:
    yield from details(captured.message)
    if captured.request_key and captured.request_key != captured.key:
        yield f"request {printable(captured.request_key)}"
    if captured.carrier is not None and not captured.carrier.reliable:
        yield "best effort"
    if captured.carrier is not None and captured.carrier.fragments > 1:
        yield f"in {captured.carrier.fragments} fragments"


def _table(screen: Screen, rows: Sequence[Row]) -> Iterator[str]:
    widths = _widths(rows, screen.width)
    heads = tuple(Cell(name, "bold") for name in COLUMNS)
    yield from _lines(screen, heads, widths)
    yield screen.style("─" * (sum(widths) + len(FIELD_GAP) * (len(widths) - 1)), "dim")
    for cells in rows:
        yield from _lines(screen, cells, widths)


def _widths(rows: Sequence[Row], width: int) -> list[int]:
    """Return column widths: as wide as the content; key and details share the rest and wrap."""
    widths = [
        max(len(name), *(cell_len(cell.text) for cell in cells))
        for name, cells in zip(COLUMNS, zip(*rows, strict=True), strict=True)
    ]
    remaining = width - sum(widths[:4]) - len(FIELD_GAP) * (len(widths) - 1)
    widths[4] = min(widths[4], max(MIN_WIDTH, remaining * 2 // 5, remaining - widths[5]))
    widths[5] = min(widths[5], max(MIN_WIDTH, remaining - widths[4]))
    return widths


def _lines(screen: Screen, cells: Row, widths: Sequence[int]) -> Iterator[str]:
    """Yield the lines of a row, as many as its longest cell needs."""
    columns = [wrap_text(cell.text, width) for cell, width in zip(cells, widths, strict=True)]
    for parts in zip_longest(*columns, fillvalue=""):
        line = []
        for name, part, width, cell in zip(COLUMNS, parts, widths, cells, strict=True):
            blanks = " " * (width - cell_len(part))
            text = screen.style(part, cell.style)
            line.append(blanks + text if name in NUMBERS else text + blanks)
        yield FIELD_GAP.join(line).rstrip()


# -- below the table ---------------------------------------------------------------------------------------------


def _summary(conversation: Conversation, events: Sequence[Event]) -> str:
    count = pluralize(sum(isinstance(event, CapturedMessage) for event in events), "message")
    ignored = {event.side: event.size for event in events if isinstance(event, Ignored)}
    sides = (_format_coverage(state, ignored.get(side, 0)) for side, state in conversation.sides.items())
    return f"{count}; {'; '.join(sides)}"


def _format_coverage(state: SideState, ignored: int) -> str:
    direction = state.direction
    if not direction.total:
        return f"{state.side}: no bytes"
    if direction.followed + ignored < direction.total:
        return f"{state.side}: {direction.followed} of {pluralize(direction.total, 'byte')} followed"
    after = f" ({ignored} after CLOSE ignored)" if ignored else ""
    return f"{state.side}: all {pluralize(direction.total, 'byte')} followed{after}"
