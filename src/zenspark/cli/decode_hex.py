"""`zenspark decode HEX`: shows messages as trees of boxes, or their fields as JSON.

The layer is detected from the first byte: the ids of transport and network messages do not overlap. Bytes that cannot
be decoded as that layer may still be a stream, with length prefixes.
"""

from __future__ import annotations

import sys

import msgspec
from rich.console import Group
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from zenspark.capture import byte_stream
from zenspark.cli.formatters import format_value, pluralize
from zenspark.cli.screen import Screen
from zenspark.errors import DecodeError, UsageError
from zenspark.transport.framing import LengthPrefix
from zenspark.wire import json_fields
from zenspark.wire.message_schema import Message
from zenspark.wire.messages import MAX_TRANSPORT_ID
from zenspark.wire.trace import BoxLine, Trace, draw_box, trace

MIN_NETWORK_ID = 0x19

NARROW_COLUMNS = 100
"""Terminal width below which only half as many bytes of a field are shown."""


def run(data: bytes, layer: str | None, as_json: bool) -> int:
    """Show the messages in some bytes, including those before an error. Returns the exit code."""
    if not data:
        raise UsageError("HEX is empty")
    remark = ""
    if layer is None:
        layer, remark = detect_layer(data)
    show = show_fields if as_json else show_boxes
    show(data, layer, remark)
    return 0


def detect_layer(data: bytes) -> tuple[str, str]:
    """Detect the layer of bytes. Returns it with a remark if it is not the one of the first byte."""
    message_id = data[0] & 0x1F
    layer = "network" if message_id >= MIN_NETWORK_ID else "transport"
    _, error = trace(layer, data)
    if error is None:
        return layer, ""
    try:
        byte_stream.read(data)
    except DecodeError:
        return layer, ""  # a broken message rather than a broken stream
    if message_id > MAX_TRANSPORT_ID and layer == "transport":
        return "stream", f"No message begins with 0x{data[0]:02x}: read as a stream."
    return "stream", f"Not a {layer} message ({error}): read as a stream."


def show_fields(data: bytes, layer: str, remark: str) -> None:
    """Print the fields of each message, or of the stream, as one line of JSON; the remark goes to standard error."""
    if remark:
        print(f"zenspark decode: {remark}", file=sys.stderr)
    if layer == "stream":
        documents = [byte_stream.stream_to_json_fields(data)]
    else:
        traces, error = trace(layer, data)
        if error is not None:
            raise error
        documents = [
            json_fields.to_json_fields(message_trace.message)
            for message_trace in traces
            if message_trace.message is not None
        ]
    for fields in documents:
        print(msgspec.json.encode(fields).decode())


def show_boxes(data: bytes, layer: str, remark: str) -> None:
    """Print each message as a tree of boxes."""
    screen = Screen()
    if remark:
        screen.print(remark, style="yellow")
    if layer == "stream":
        draw_stream(screen, data)
        return
    traces, error = trace(layer, data)
    draw(screen, traces, data)
    if error is not None:
        raise error


def draw_stream(screen: Screen, data: bytes) -> None:
    """Print the batches of a stream and their messages."""
    framing, batches = byte_stream.read(data)
    layer = "bare" if framing.framing is LengthPrefix.U32 else "transport"
    for batch, messages in batches:
        width = framing.framing.width
        size = f"{pluralize(len(batch.sent), 'byte')} behind a {framing.framing} length"
        screen.print(Text.assemble(("batch", "bold"), f" at byte {batch.start - width}: {size}"))
        if batch.is_compressed:
            unpacked = bytes(batch.content)
            screen.print(f"compressed; unpacked, and counted from 0, it has {pluralize(len(unpacked), 'byte')}")
            draw(screen, trace(layer, unpacked)[0], unpacked)
        elif messages:
            begin, end = batch.stream_range(0, len(batch.content))
            draw(screen, trace(layer, data, begin, end)[0], data)


def draw(screen: Screen, traces: list[Trace], data: bytes) -> None:
    """Print messages and the messages they contain."""
    max_bytes = 12 if screen.width >= NARROW_COLUMNS else 6
    for message_trace in traces:
        screen.print(_tree(message_trace, data, max_bytes))


def _tree(message_trace: Trace, data: bytes, max_bytes: int) -> Tree:
    tree = Tree(Group(_heading(message_trace), _grid(message_trace, data, max_bytes)), guide_style="dim")
    for child in message_trace.children:
        tree.children.append(_tree(child, data, max_bytes))
    return tree


def _heading(message_trace: Trace) -> Text:
    size = pluralize(message_trace.end - message_trace.start, "byte")
    text = Text.assemble((message_trace.cls.NAME, "bold cyan"), f" at byte {message_trace.start}, {size}")
    if message_trace.message is None:
        text.append(", broken", "bold red")
    return text


def _grid(message_trace: Trace, data: bytes, max_bytes: int) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(no_wrap=True, justify="right", style="green")
    grid.add_column(no_wrap=True, style="yellow")
    grid.add_column(overflow="fold")
    for row in draw_box(message_trace, data):
        if row.is_field:
            grid.add_row(
                Text(row.box), str(row.start), _hex(data[row.start : row.end], max_bytes), Text(_format_field(row))
            )
        else:
            grid.add_row(Text(row.box))
    return grid


def _hex(data: bytes, max_bytes: int) -> str:
    return data[:max_bytes].hex(" ") + (" …" if len(data) > max_bytes else "")


def _format_field(row: BoxLine) -> str:
    if row.flags:
        return ", ".join(row.flags)
    if isinstance(row.value, Message):
        return f"{row.value.NAME}, below"
    if isinstance(row.value, tuple) and row.value and isinstance(row.value[0], Message):
        return f"{pluralize(len(row.value), 'message')}, below"
    if row.value is None:
        return ""
    return "yes" if row.value is True else format_value(row.value)
