"""Fragments that are all in one buffer are joined in place; anything else is left to the object codec."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.unit.wire.columns.samples import (
    batch,
    frame,
    pushes,
    put,
)
from zenspark.wire.codec import encode
from zenspark.wire.columns import (
    BatchDecoder,
    Framing,
    PushColumns,
    StopReason,
    fragment_lane,
    join_fragments,
)
from zenspark.wire.message_schema import Message, replace
from zenspark.wire.messages import Fragment, KeepAlive, ResponseFinal
from zenspark.wire.values import (
    Priority,
    WireExpr,
)


def fragments_of(
    message: bytes, sn: int = 0, cut: tuple[int, ...] = (5,), *, reliable: bool = True, **fields: object
) -> list[Fragment]:
    """A message cut at some places."""
    places = [0, *cut, len(message)]
    return [
        Fragment(
            more=stop < len(message),
            reliable=reliable,
            sn=(sn + number) & 0x7F,
            first=start == 0,
            payload=message[start:stop],
            **fields,  # type: ignore[arg-type]
        )
        for number, (start, stop) in enumerate(pairwise(places))
    ]


def at_fragment(
    *messages: Message, missing: int = 0, limit: int = 0xFFFF, is_partial_buffer: bool = True
) -> BatchDecoder:
    data = bytearray(b"".join(batch(one) for one in messages))
    decoder = BatchDecoder(data[: len(data) - missing], limit=limit, is_partial_buffer=is_partial_buffer)
    assert decoder.decode(PushColumns(1)) is StopReason.MESSAGE
    return decoder


@pytest.mark.parametrize("priority", [Priority.DATA, Priority.REAL_TIME])
@pytest.mark.parametrize("reliable", [True, False])
@pytest.mark.parametrize("marked", [True, False])
def test_fragments_are_joined_in_place(priority: Priority, reliable: bool, marked: bool) -> None:
    messages = [put(b"x" * 30), put(b"y" * 300, attachment=b"a"), put(b"", key=WireExpr(0, "other"))]
    cuts = [(5,), (1, 2, 3, 250), ()]
    cut = [
        piece
        for number, (one, places) in enumerate(zip(messages, cuts, strict=True))
        for piece in fragments_of(encode(one), (126, 0, 5)[number], places, priority=priority, reliable=reliable)
    ]
    decoder, columns = at_fragment(*cut, frame(put())), PushColumns(8)
    assert fragment_lane(decoder) == priority | 8 * reliable
    whole = join_fragments(decoder, columns, 126, 0x7F, marked, 1000)
    assert whole is not None
    assert (whole.sn, whole.message) == (5, None)
    assert pushes(columns) == messages
    assert {
        (columns.template_at(one).reliable, columns.template_at(one).priority) for one in columns.template_index
    } == {(reliable, priority)}
    columns.clear()
    assert decoder.decode(columns) is StopReason.END
    assert pushes(columns) == [put()]


def test_later_fragments_of_more_than_255_bytes_are_joined() -> None:
    message = put(bytes(range(250)) * 4)
    decoder, columns = at_fragment(*fragments_of(encode(message), cut=(300, 600))), PushColumns(1)
    assert join_fragments(decoder, columns, 0, 0x7F, True, 2000) is not None
    assert pushes(columns) == [message]


@pytest.mark.parametrize("last", [encode(ResponseFinal(request_id=3)), encode(put()) * 2, encode(put()) + b"\0", b""])
def test_a_joined_message_that_is_no_row_is_handed_over_behind_the_rows(last: bytes) -> None:
    cut = [*fragments_of(encode(put())), *fragments_of(last, 2, (1,) if last else ()), *fragments_of(encode(put()), 4)]
    decoder, columns = at_fragment(*cut), PushColumns(8)
    whole = join_fragments(decoder, columns, 0, 0x7F, True, 1000)
    assert whole is not None
    assert whole.message is not None
    assert whole.message.tobytes() == last
    assert whole.sn == (3 if last else 2)
    assert pushes(columns) == [put()]


def test_messages_are_joined_until_the_columns_are_full() -> None:
    decoder, columns = (
        at_fragment(*[piece for sn in (0, 2, 4) for piece in fragments_of(encode(put()), sn)]),
        PushColumns(2),
    )
    for sn, rows in ((0, 2), (4, 1)):
        assert join_fragments(decoder, columns, sn, 0x7F, True, 1000) is not None
        assert pushes(columns) == [put()] * rows
        columns.clear()
        decoder.decode(columns)


@pytest.mark.parametrize("missing", [1, 12, 14, 16, 17])
def test_incomplete_fragments_need_more_data(missing: int) -> None:
    begun = fragments_of(encode(put()), 2)
    decoder, columns = at_fragment(*fragments_of(encode(put())), *begun, missing=missing), PushColumns(8)
    assert join_fragments(decoder, columns, 0, 0x7F, True, 1000) is not None
    assert not decoder.needs_more_data
    place = decoder.pos
    columns.clear()
    if decoder.decode(columns) is StopReason.MESSAGE:
        assert join_fragments(decoder, columns, 2, 0x7F, True, 1000) is None
        assert decoder.needs_more_data
    assert decoder.pos == decoder.batch_end == place
    assert not len(columns)


@pytest.mark.parametrize(("size", "is_partial_buffer"), [(360_000, True), (120_000, False)])
def test_incomplete_fragments_of_a_large_message_or_whole_buffer_need_no_more_data(
    size: int, is_partial_buffer: bool
) -> None:
    cut = fragments_of(bytes(size), cut=tuple(range(60_000, size, 60_000)))
    decoder = at_fragment(*cut[:-1], is_partial_buffer=is_partial_buffer)
    assert join_fragments(decoder, PushColumns(1), 0, 0x7F, True, 1 << 20) is None
    assert not decoder.needs_more_data
    assert decoder.message() == cut[0]


RAW = encode(put())


@pytest.mark.parametrize(
    "cut",
    [
        fragments_of(RAW, 1),
        [fragments_of(RAW)[0], fragments_of(RAW, 1)[1]],
        [fragments_of(RAW)[0], frame(put()), fragments_of(RAW)[1]],
        [fragments_of(RAW)[0], fragments_of(RAW, reliable=False)[1]],
        [fragments_of(RAW)[0], fragments_of(RAW)[0]],
        [replace(fragments_of(RAW)[0], first=False), fragments_of(RAW)[1]],
        [fragments_of(RAW)[0], replace(fragments_of(RAW)[1], drop=True)],
        [fragments_of(RAW)[0], replace(fragments_of(RAW)[1], payload=bytes(2000))],
        [fragments_of(RAW)[0], replace(fragments_of(RAW)[1], payload=bytes(996))],
    ],
    ids=["number", "gap", "frame", "lane", "first", "unmarked", "dropped", "oversized", "limit"],
)
def test_fragments_that_do_not_belong_together_are_not_joined(cut: list[Message]) -> None:
    decoder = at_fragment(*cut, limit=1500)
    place = decoder.pos
    assert join_fragments(decoder, PushColumns(1), 0, 0x7F, True, 1000) is None
    assert not decoder.needs_more_data
    assert decoder.message() == cut[0]
    assert decoder.pos > place


def test_oversized_batch_ends_the_joining_of_fragments() -> None:
    decoder = at_fragment(*fragments_of(RAW), frame(put(bytes(2000))), limit=1500)
    assert join_fragments(decoder, PushColumns(1), 0, 0x7F, True, 1000) is not None
    assert decoder.decode(PushColumns(1)) is StopReason.OVERSIZED


@pytest.mark.parametrize(
    "content",
    [
        encode(KeepAlive()),
        b"\x26\xff\xff\xff\xff\xff\x01",  # a number of more than 32 bits
        b"\xa6\x00",  # an extension that is not there
        b"\xa6\x00\x31",  # a priority that is not there
        b"\xa6\x00\x03",  # given up
    ],
)
def test_other_messages_are_no_fragments_to_join(content: bytes) -> None:
    decoder = BatchDecoder(bytearray(len(content).to_bytes(2, "little") + content))
    assert fragment_lane(decoder) == -1
    assert decoder.decode(PushColumns(1)) is StopReason.MESSAGE
    assert fragment_lane(decoder) == -1
    assert join_fragments(decoder, PushColumns(1), 0, 0x7F, True, 1000) is None


def test_fragments_are_joined_only_on_a_stream_that_can_be_written_to() -> None:
    data = b"".join(batch(one) for one in fragments_of(RAW))
    decoder = BatchDecoder(data)
    decoder.decode(PushColumns(1))
    assert fragment_lane(decoder) >= 0
    assert join_fragments(decoder, PushColumns(1), 0, 0x7F, True, 1000) is None
    assert fragment_lane(BatchDecoder(bytearray(data[2:]), Framing.BATCH)) == -1
