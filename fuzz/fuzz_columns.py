"""Any batches decode to the same messages through the columns as through the object codec, and fail at the same byte.

The first byte chooses the framing, the second the capacity for rows, templates and frames. How to run: see harness.py.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from fuzz.harness import run
from zenspark.errors import DecodeError
from zenspark.wire.codec import decode_bare_batch, decode_batch
from zenspark.wire.columns import BatchDecoder, Framing, PushColumns, StopReason
from zenspark.wire.message_schema import Message
from zenspark.wire.messages import Frame, Put
from zenspark.wire.values import Priority

FramedMessage = tuple[int | None, bool, Priority, Message]
"""A message, and the sequence number, reliability and priority of its frame."""

LIMIT = 4096
RELIABLE = 0x08
"""Bit of a lane number."""


def messages_in(message: Message) -> Iterator[FramedMessage]:
    """Yield the messages of a frame, or any other message itself."""
    if isinstance(message, Frame):
        yield from ((message.sn, message.reliable, message.priority, inner) for inner in message.msgs)
    else:
        yield None, True, Priority.DATA, message


def decode_by_codec(data: bytes, framing: Framing) -> tuple[list[FramedMessage], str]:
    """Decode with the object codec, batch by batch. Returns the messages, and why decoding stopped."""
    messages: list[FramedMessage] = []
    width = {Framing.STREAM: 2, Framing.BARE: 4, Framing.BATCH: 0}[framing]
    pos = 0
    while len(data) - pos >= width and (width or not pos):
        size = int.from_bytes(data[pos : pos + width], "little") if width else len(data)
        start = pos + width
        if size > LIMIT and width:
            return messages, "oversized"
        if len(data) - start < size:
            break
        try:
            batch = (decode_bare_batch if framing is Framing.BARE else decode_batch)(data[start : start + size])
        except DecodeError as error:
            error.position += start
            return messages, str(error)
        messages += [inner for message in batch for inner in messages_in(message)]
        pos = start + size
        if not width:
            break
    return messages, "end"


def decode_by_columns(
    data: memoryview, framing: Framing, capacity: int, fills_up: bool
) -> tuple[list[FramedMessage], str]:
    """Decode with the columns, and messages they have no column for with the object codec.

    The columns are cleared after every call, or, if they fill up, only when they are full.
    """
    messages: list[FramedMessage] = []
    decoder = BatchDecoder(data, framing, LIMIT)
    columns = PushColumns(capacity, capacity, capacity)
    rows_read = 0
    while True:
        was_empty, before = not columns.row_count and not columns.frame_count, decoder.pos
        outcome = decoder.decode(columns)
        assert outcome is not StopReason.FULL or not was_empty or decoder.pos > before, "full without progress"
        messages += [row_of(columns, row) for row in range(rows_read, columns.row_count)]
        rows_read = columns.row_count
        if outcome is StopReason.MESSAGE:
            try:
                messages += message_at(decoder, framing)
            except DecodeError as error:
                return messages, str(error)
        elif outcome is not StopReason.FULL:
            return messages, outcome.name.lower()
        if outcome is StopReason.FULL or not fills_up:
            check_columns(columns)
            columns.clear()
            rows_read = 0


def message_at(decoder: BatchDecoder, framing: Framing) -> Iterator[FramedMessage]:
    message = decoder.message()
    if decoder.in_frame and framing is not Framing.BARE:
        return iter([(decoder.sn, decoder.reliable, decoder.priority, message)])
    return messages_in(message)


def row_of(columns: PushColumns, row: int) -> FramedMessage:
    template = columns.template_at(columns.template_index[row])
    frames = [frame for frame in range(columns.frame_count) if columns.frame_row[frame] <= row]
    if not frames:
        return None, template.reliable, template.priority, columns.push(row)
    lane = columns.frame_lane[frames[-1]]
    assert (template.reliable, template.priority) == (bool(lane & RELIABLE), lane & 7)
    return columns.frame_sn[frames[-1]], template.reliable, template.priority, columns.push(row)


def check_columns(columns: PushColumns) -> None:
    """Compare each whole column with the values of its rows."""
    payloads, attachments, suffixes = columns.payloads(), columns.attachments(), columns.suffixes()
    numbers = columns.source_sns()
    for row in range(columns.row_count):
        push = columns.push(row)
        body = push.body
        assert payloads.value(row) == (body.payload if isinstance(body, Put) else None)
        assert attachments.value(row) == body.attachment
        assert (suffixes.value(row) or b"").decode() == push.wire_expr.suffix
        assert numbers[row] == (body.source_info.sn if body.source_info else 0)
        assert columns.timestamp[row] == (body.timestamp.ntp64 if body.timestamp else 0)


def check(data: bytes) -> None:
    framing = Framing(data[0] % 3 if data else 0)
    capacity = data[1] % 8 + 1 if len(data) > 1 else 1
    fills_up = len(data) > 1 and data[1] >= 0x80
    buffer = data[2:]
    expected, expected_stop = decode_by_codec(buffer, framing)
    exact = memoryview(array("B", list(buffer)))  # exact size: AddressSanitizer detects a read behind it
    found, stop = decode_by_columns(exact, framing, capacity, fills_up)
    assert stop == expected_stop, (stop, expected_stop)
    if expected_stop in ("end", "oversized"):
        assert found == expected
    else:
        assert found[: len(expected)] == expected


def main() -> None:
    run(check)


if __name__ == "__main__":
    main()
