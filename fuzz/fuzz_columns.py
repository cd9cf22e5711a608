"""Any buffer of batches says the same through the columns as through the object codec, and fails at the same byte.

The first byte chooses the framing, the second how many rows, shapes and frames there is room for. How to run: see
harness.py.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from fuzz.harness import run
from zenspark.errors import DecodeError
from zenspark.wire.codec import decode_bare_batch, decode_batch
from zenspark.wire.columns import BatchDecoder, Framing, PushColumns, StopReason
from zenspark.wire.declare import Message
from zenspark.wire.messages import Frame, Put
from zenspark.wire.values import Priority

Told = tuple[int | None, bool, Priority, Message]
"""A message, and the sequence number, reliability and priority of its frame."""

LIMIT = 4096
RELIABLE = 0x08
"""The bit of a lane."""


def spread(message: Message) -> Iterator[Told]:
    """A frame as the messages in it, any other message as itself."""
    if isinstance(message, Frame):
        yield from ((message.sn, message.reliable, message.priority, inner) for inner in message.msgs)
    else:
        yield None, True, Priority.DATA, message


def by_codec(data: bytes, framing: Framing) -> tuple[list[Told], str]:
    """What the object codec finds, batch by batch, and why it stopped."""
    told: list[Told] = []
    width = {Framing.STREAM: 2, Framing.BARE: 4, Framing.BATCH: 0}[framing]
    pos = 0
    while len(data) - pos >= width and (width or not pos):
        size = int.from_bytes(data[pos : pos + width], "little") if width else len(data)
        start = pos + width
        if size > LIMIT and width:
            return told, "oversized"
        if len(data) - start < size:
            break
        try:
            found = (decode_bare_batch if framing is Framing.BARE else decode_batch)(data[start : start + size])
        except DecodeError as error:
            error.position += start
            return told, str(error)
        told += [one for message in found for one in spread(message)]
        pos = start + size
        if not width:
            break
    return told, "end"


def by_columns(data: memoryview, framing: Framing, room: int, hoard: bool) -> tuple[list[Told], str]:
    """What the columns find, with the help of the object codec where they ask for it.

    Rows are forgotten after every call, or, to hoard them, only when there is no room for more.
    """
    told: list[Told] = []
    cursor = BatchDecoder(data, framing, LIMIT)
    columns = PushColumns(room, room, room)
    known = 0
    while True:
        was_empty, before = not columns.row_count and not columns.frame_count, cursor.pos
        outcome = cursor.decode(columns)
        assert outcome is not StopReason.FULL or not was_empty or cursor.pos > before, "no way to make room"
        told += [row_of(columns, row) for row in range(known, columns.row_count)]
        known = columns.row_count
        if outcome is StopReason.MESSAGE:
            try:
                told += message_at(cursor, framing)
            except DecodeError as error:
                return told, str(error)
        elif outcome is not StopReason.FULL:
            return told, outcome.name.lower()
        if outcome is StopReason.FULL or not hoard:
            check_spans(columns)
            columns.clear()
            known = 0


def message_at(cursor: BatchDecoder, framing: Framing) -> Iterator[Told]:
    message = cursor.message()
    if cursor.in_frame and framing is not Framing.BARE:
        return iter([(cursor.sn, cursor.reliable, cursor.priority, message)])
    return spread(message)


def row_of(columns: PushColumns, row: int) -> Told:
    shape = columns.template_at(columns.template_index[row])
    frames = [frame for frame in range(columns.frame_count) if columns.frame_row[frame] <= row]
    if not frames:
        return None, shape.reliable, shape.priority, columns.push(row)
    lane = columns.frame_lane[frames[-1]]
    assert (shape.reliable, shape.priority) == (bool(lane & RELIABLE), lane & 7)
    return columns.frame_sn[frames[-1]], shape.reliable, shape.priority, columns.push(row)


def check_spans(columns: PushColumns) -> None:
    """The columns as a whole say what each row says."""
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
    room = data[1] % 8 + 1 if len(data) > 1 else 1
    hoard = len(data) > 1 and data[1] >= 0x80
    buffer = data[2:]
    expected, why = by_codec(buffer, framing)
    exact = memoryview(array("B", list(buffer)))  # of just that size, so that AddressSanitizer sees a byte too much
    found, stopped = by_columns(exact, framing, room, hoard)
    assert stopped == why, (stopped, why)
    if why in ("end", "oversized"):
        assert found == expected
    else:
        assert found[: len(expected)] == expected


def main() -> None:
    run(check)


if __name__ == "__main__":
    main()
