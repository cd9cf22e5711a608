"""Columns and the object codec are one reader: whatever the bytes, together they give what the codec alone gives."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests import strategies
from tests.property.publications import fits_row
from tests.strategies import examples
from zenspark.errors import DecodeError
from zenspark.wire import codec
from zenspark.wire._bytes import encode_vle
from zenspark.wire.buffer import Reader, Writer
from zenspark.wire.columns import (
    ABSENT,
    BatchDecoder,
    BatchEncoder,
    BinaryColumn,
    Framing,
    OutgoingRows,
    PushColumns,
    RowKind,
    StopReason,
)
from zenspark.wire.message_schema import Message, replace
from zenspark.wire.messages import Del, Frame, KeepAlive, NetworkMessage, Push, Put
from zenspark.wire.values import Encoding, Priority, QoS, WireExpr

LIMIT = 4000

# -- the codec alone: every message in order, frames as headers before what is in them ----------------------------


def batches(data: bytes, framing: Framing) -> Iterator[tuple[int, int]]:
    """Where the batches of a stream start and end, up to the first that is oversized or not all there."""
    width = 4 if framing is Framing.BARE else 2
    start = width
    while start <= len(data):
        size = int.from_bytes(data[start - width : start], "little")
        if size > LIMIT or start + size > len(data):
            return
        yield start, start + size
        start += size + width


def header_end(data: bytes, start: int, end: int) -> int | None:
    """Where the header of a frame ends: at the first byte up to which it is a frame with nothing in it."""
    for stop in range(start + 1, end + 1):
        try:
            codec.decode_transport(data[start:stop])
        except DecodeError:
            continue
        return stop
    return None


def messages_of(data: bytes, start: int, end: int, framing: Framing) -> Iterator[Message]:
    """What the codec reads from one batch, one message at a time."""
    bare = framing is Framing.BARE
    while start < end:
        reader = Reader(data, start, end)
        is_frame = not bare and reader.peek() & 0x1F == 0x05
        stop = header_end(data, start, end) if is_frame else None
        if bare and reader.peek() & 0x1F > 0x07:
            yield codec.read_network_message(reader)
        elif stop is None:
            yield codec.read_transport_message(reader)
        else:
            yield codec.decode_transport(data[start:stop])
            reader = Reader(data, stop, end)
            while reader.left() and reader.peek() & 0x1F > 0x07:
                try:
                    yield codec.read_network_message(reader)
                except DecodeError as error:
                    raise error.within(Frame.NAME) from None
        start = reader.pos


def by_codec(data: bytes, framing: Framing) -> tuple[list[Message], DecodeError | None]:
    """All messages of a stream, and the error that ends it, if one does: the same as for its batch as a whole."""
    seen: list[Message] = []
    decode = codec.decode_bare_batch if framing is Framing.BARE else codec.decode_batch
    for start, end in batches(data, framing):
        error = refusal(lambda start, end: seen.extend(messages_of(data, start, end, framing)), start, end)
        whole = refusal(lambda start, end: decode(data[start:end]), start, end)
        assert fingerprint(error) == fingerprint(whole, start)
        if error is not None:
            return seen, error
    return seen, None


def refusal(read: Callable[[int, int], object], start: int, end: int) -> DecodeError | None:
    try:
        read(start, end)
    except DecodeError as error:
        return error
    return None


def fingerprint(error: DecodeError | None, offset: int = 0) -> object:
    return error and (type(error), error.expected, error.found, error.message, error.position + offset)


# -- columns, and the codec where they stop -----------------------------------------------------------------------


class StreamDecoder:
    """Reads a stream as a transport would: columns, then the codec for one message, and on."""

    def __init__(self, framing: Framing, rows: int = 64, *, clears: bool = True) -> None:
        self.framing = framing
        self.columns = PushColumns(rows)
        self.clears = clears
        self.seen: list[Message] = []
        self.read_by_codec: list[Message] = []
        self.error: DecodeError | None = None

    def read(self, data: bytes, pos: int = 0, end: int = -1) -> int:
        """Take in what is complete; the position of what is not."""
        self.columns.clear()
        self.drained = (0, 0)
        decoder = BatchDecoder(data, self.framing, LIMIT, pos, end)
        while True:
            outcome = decoder.decode(self.columns)
            self.drain(outcome is StopReason.FULL)
            ended = outcome in (StopReason.END, StopReason.OVERSIZED)
            if ended or (outcome is StopReason.MESSAGE and not self.decode_by_codec(decoder)):
                return int(decoder.pos)

    def decode_by_codec(self, decoder: BatchDecoder) -> bool:
        try:
            message = decoder.message()
        except DecodeError as error:
            self.error = error
            return False
        self.read_by_codec.append(message)
        if isinstance(message, Frame) and self.framing is not Framing.BARE:
            self.seen += [replace(message, msgs=()), *message.msgs]
        else:
            self.seen.append(message)
        return True

    def drain(self, must_clear: bool) -> None:
        """Put what is new in the columns behind what was seen."""
        columns = self.columns
        row, first_frame = self.drained
        for index in range(first_frame, columns.frame_count):
            stop = columns.frame_row[index]
            self.seen += [columns.push(number) for number in range(row, stop)]
            row = max(row, stop)
            lane = columns.frame_lane[index]
            if not lane & 16:
                priority, reliable = Priority(lane & 7), bool(lane & 8)
                self.seen.append(Frame(reliable=reliable, sn=columns.frame_sn[index], priority=priority))
        self.seen += [columns.push(number) for number in range(row, len(columns))]
        self.drained = (len(columns), columns.frame_count)
        if self.clears or must_clear:
            columns.clear()
            self.drained = (0, 0)


def assert_equal_to_codec(stream_decoder: StreamDecoder, data: bytes) -> None:
    """The same messages and the same error; before an error, all but those in a frame that the codec read whole."""
    seen, error = by_codec(data, stream_decoder.framing)
    assert fingerprint(stream_decoder.error) == fingerprint(error)
    assert stream_decoder.seen == (seen[: len(stream_decoder.seen)] if error else seen)


def assert_rows_are_columns(stream_decoder: StreamDecoder) -> None:
    """The codec read no publication that fits a row, and no frame without an extension that the columns do not know."""
    for message in stream_decoder.read_by_codec:
        assert not isinstance(message, Push) or not fits_row(message)
        assert not isinstance(message, Frame) or message.exts or stream_decoder.framing is Framing.BARE


# -- streams ------------------------------------------------------------------------------------------------------

plain = st.sampled_from(["key", "timestamp", "source_info", "attachment", "payload", "qos"])


@st.composite
def similar(draw: st.DrawFn, push: Push) -> Push:
    """The same message with one thing changed, as the next sample of a publisher is."""
    body: Any = push.body
    match draw(plain):
        case "key":
            return replace(push, wire_expr=draw(strategies.values(WireExpr)))
        case "timestamp" if body.timestamp:
            stamp = draw(strategies.timestamps)
            return replace(push, body=replace(body, timestamp=replace(body.timestamp, ntp64=stamp.ntp64)))
        case "source_info" if body.source_info:
            source = replace(body.source_info, sn=draw(strategies.integers(32)))
            return replace(push, body=replace(body, source_info=source))
        case "attachment" if body.attachment:
            size = len(body.attachment)
            return replace(push, body=replace(body, attachment=draw(st.binary(min_size=size, max_size=size))))
        case "payload" if isinstance(body, Put) and not body.shm:
            return replace(push, body=replace(body, payload=draw(strategies.blobs)))
    return push


@st.composite
def runs(draw: st.DrawFn) -> list[NetworkMessage]:
    """Publications, many of them alike, and other messages among them."""
    pool: list[Any] = draw(st.lists(strategies.messages(Push), min_size=1, max_size=3))
    found: list[Any] = []
    for _ in range(draw(st.integers(0, 8))):
        if draw(st.integers(0, 7)) == 0:
            found.append(draw(strategies.network()))
        else:
            push = draw(st.sampled_from(pool))
            pool.append(draw(similar(push)))
            found.append(pool[-1])
    return found


def prefixed(content: bytes, width: int) -> bytes:
    return (len(content).to_bytes(width, "little") if width else b"") + content


@st.composite
def contents(draw: st.DrawFn, framing: Framing) -> bytes:
    """One batch: frames with the messages of a run, now and then something between them."""
    out = Writer()
    run = draw(runs())
    if framing is Framing.BARE:
        for message in run:
            codec.write(out, message)
    while run and framing is not Framing.BARE:
        count = draw(st.integers(0, len(run)))
        frame: Any = draw(strategies.messages(Frame)) if draw(st.integers(0, 9)) == 0 else Frame(reliable=True, sn=1)
        frame = replace(frame, sn=draw(strategies.integers(32)), priority=draw(strategies.values(Priority)))
        codec.write(out, replace(frame, msgs=tuple(run[:count])))
        run = run[max(count, 1) :]
        if draw(st.integers(0, 9)) == 0:
            codec.write(out, KeepAlive())
    return bytes(out.data)


@st.composite
def streams(draw: st.DrawFn, framing: Framing) -> bytes:
    width = 4 if framing is Framing.BARE else 2
    return b"".join(prefixed(content, width) for content in draw(st.lists(contents(framing), max_size=3)))


framings = st.sampled_from([Framing.STREAM, Framing.BARE])
framed = framings.flatmap(lambda framing: st.tuples(st.just(framing), streams(framing)))


@given(framed, st.integers(1, 12), st.booleans(), st.binary(max_size=9))
@examples(80)
def test_columns_and_codec_together_read_what_the_codec_reads(
    stream: tuple[Framing, bytes], rows: int, clears: bool, slack: bytes
) -> None:
    framing, data = stream
    stream_decoder = StreamDecoder(framing, rows, clears=clears)
    pos = stream_decoder.read(slack + data + slack, len(slack), len(slack) + len(data))
    assert stream_decoder.error is None
    assert_equal_to_codec(stream_decoder, data)
    assert_rows_are_columns(stream_decoder)
    ends = [end for _, end in batches(data, framing)]
    assert pos == len(slack) + (ends[-1] if ends else 0)


@given(framed, st.data())
@examples(40)
def test_a_stream_may_be_cut_anywhere(stream: tuple[Framing, bytes], drawn: st.DataObject) -> None:
    framing, data = stream
    cuts = sorted(drawn.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    whole, pieces = StreamDecoder(framing), StreamDecoder(framing)
    left = len(data) - whole.read(data)
    rest = b""
    for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True):
        rest += data[start:stop]
        rest = rest[pieces.read(rest) :]
    assert pieces.seen == whole.seen
    assert len(rest) == left


@given(
    framed,
    st.integers(0, 30),
    st.sampled_from([0x80, 0x01, 0x20, 0xFF]) | st.integers(1, 255),
    st.integers(1, 5),
    st.booleans(),
)
@examples(40)
def test_a_changed_byte_is_read_or_rejected_as_the_codec_does(
    stream: tuple[Framing, bytes], first: int, change: int, rows: int, clears: bool
) -> None:
    framing, data = stream
    for at in range(first, len(data), 31):
        changed = data[:at] + bytes([data[at] ^ change]) + data[at + 1 :]
        stream_decoder = StreamDecoder(framing, rows, clears=clears)
        stream_decoder.read(changed)
        assert_equal_to_codec(stream_decoder, changed)


@given(framings, st.binary(max_size=80))
@examples(150)
def test_any_bytes_are_read_or_rejected_as_the_codec_does(framing: Framing, noise: bytes) -> None:
    start = b"\x25\x07" if framing is Framing.STREAM else b""
    data = prefixed(start + noise, 4 if framing is Framing.BARE else 2)
    stream_decoder = StreamDecoder(framing)
    stream_decoder.read(data)
    assert_equal_to_codec(stream_decoder, data)


# -- writing ------------------------------------------------------------------------------------------------------


def columnar(push: Any) -> Any:  # noqa: ANN401 - a Push with a body of either kind
    """The nearest message that has a place in columns."""
    body = replace(push.body, exts=(), **({"shm": False} if isinstance(push.body, Put) else {}))
    if body.timestamp and not body.timestamp.ntp64:
        body = replace(body, timestamp=None)
    key = WireExpr(0, push.wire_expr.suffix)
    return replace(push, wire_expr=key, timestamp=None, ts_stack=None, node_id=0, exts=(), body=body)


def without_metadata(push: Any) -> Any:  # noqa: ANN401 - a Push
    """The PUT with the same payload and nothing else."""
    body = push.body
    return replace(push, body=Put(payload=body.payload if isinstance(body, Put) else b""))


def spans(pieces: list[bytes | None]) -> BinaryColumn:
    data = bytearray(b"?")
    starts, stops = array("I"), array("I")
    for piece in pieces:
        starts.append(ABSENT if piece is None else len(data))
        data += piece or b""
        stops.append(len(data))
    return BinaryColumn(data, starts, stops)


def encoding_bytes(encoding: Encoding) -> bytes:
    out = Writer()
    encoding.write(out)
    return bytes(out.data)


def plain_rows_of(pushes: list[Any], key: WireExpr | None, qos: QoS | None) -> OutgoingRows:
    """Columns of PUTs without metadata, which the encoder writes in a loop of their own."""
    return OutgoingRows(
        len(pushes),
        key or spans([push.wire_expr.suffix.encode() for push in pushes]),
        spans([push.body.payload for push in pushes]),
        kind=RowKind.PUT,
        qos=qos or bytes(push.qos.to_wire() for push in pushes),
    )


def rows_of(pushes: list[Any], key: WireExpr | None, qos: QoS | None) -> OutgoingRows:
    """Columns of messages; one key and one QoS for all, where they are given."""
    bodies = [push.body for push in pushes]
    sources = [body.source_info for body in bodies]
    stamps = [body.timestamp for body in bodies]
    return OutgoingRows(
        len(pushes),
        key or spans([push.wire_expr.suffix.encode() for push in pushes]),
        spans([body.payload if isinstance(body, Put) else None for body in bodies]),
        kind=bytes(RowKind.DEL if isinstance(body, Del) else RowKind.PUT for body in bodies),
        qos=qos or bytes(push.qos.to_wire() for push in pushes),
        timestamp=array("Q", [stamp.ntp64 if stamp else 0 for stamp in stamps]),
        timestamp_id=spans([stamp.id.to_bytes() if stamp else None for stamp in stamps]),
        encoding=spans([encoding_bytes(body.encoding) if isinstance(body, Put) else None for body in bodies]),
        attachment=spans([body.attachment for body in bodies]),
        source_zid=spans([source.zid.to_bytes() if source else None for source in sources]),
        source_eid=array("I", [source.eid if source else 0 for source in sources]),
        source_sn=array("I", [source.sn if source else 0 for source in sources]),
    )


PLAIN = Push(wire_expr=WireExpr(0, "a"), qos=QoS.DEFAULT, body=Put(payload=bytes(20)))
FITTING_LIMIT = len(codec.encode(Frame(reliable=True, sn=1, msgs=(PLAIN, PLAIN))))
"""The smallest batch with both."""
lanes = st.tuples(st.booleans(), strategies.values(Priority), strategies.integers(28))


@given(
    st.lists(strategies.messages(Push).map(columnar), max_size=8),
    st.none() | strategies.values(WireExpr),
    st.none() | strategies.values(QoS),
    st.sampled_from([Framing.STREAM, Framing.BARE, Framing.BATCH]),
    st.integers(16, 200),
    lanes,
    st.booleans(),
)
@example([PLAIN, PLAIN], None, None, Framing.BATCH, FITTING_LIMIT, (True, Priority.DATA, 1), False)
@example([PLAIN, PLAIN], None, None, Framing.BATCH, FITTING_LIMIT, (True, Priority.DATA, 1), True)
@examples(120)
def test_columns_are_written_as_the_codec_writes_their_messages(
    pushes: list[Any],
    key: WireExpr | None,
    qos: QoS | None,
    framing: Framing,
    limit: int,
    lane: tuple[bool, Priority, int],
    is_plain: bool,
) -> None:
    pushes = [replace(push, wire_expr=key or push.wire_expr, qos=qos or push.qos) for push in pushes]
    pushes = [without_metadata(push) for push in pushes] if is_plain else pushes
    rows = plain_rows_of(pushes, key, qos) if is_plain else rows_of(pushes, key, qos)
    assert [rows.push(row) for row in range(len(pushes))] == pushes
    reliable, priority, sn = lane
    encoder = BatchEncoder(framing, limit, reliable=reliable, priority=priority, sn=sn)
    lengths = {Framing.STREAM: 2, Framing.BARE: 4, Framing.BATCH: 0}
    width, out = lengths[framing], bytearray(lengths[framing] + limit)
    while True:
        first, sn = rows.row, encoder.sn
        outcome = encoder.encode(rows, out)
        head = b"" if framing is Framing.BARE else codec.encode(Frame(reliable=reliable, sn=sn, priority=priority))
        room = limit - len(head)
        content = head + b"".join(map(codec.encode, pushes[first : rows.row])) if rows.row > first else b""
        assert out[: encoder.written] == (prefixed(content, width) if content else b"")
        assert encoder.sn == ((sn + 1) & 0x0FFFFFFF if content and head else sn)
        if rows.row < len(pushes):
            following = len(codec.encode(pushes[rows.row]))
            assert following > limit - len(content or head)
            is_oversized = following > room and not content  # it does not even fit an empty batch
            assert outcome is (StopReason.MESSAGE if is_oversized else StopReason.FULL)
        if outcome is StopReason.END:
            break
        if outcome is StopReason.MESSAGE:
            rows.advance()
    assert rows.row == len(pushes)


@given(st.lists(strategies.messages(Push).map(columnar), min_size=1, max_size=8), strategies.values(Priority))
@examples(30)
def test_columns_round_trip_through_encoder_and_decoder(pushes: list[Any], priority: Priority) -> None:
    encoder = BatchEncoder(limit=4000, priority=priority)
    out = bytearray(1 << 16)
    rows = rows_of(pushes, None, None)
    assert encoder.encode(rows, out) is StopReason.END
    for row, push in enumerate(pushes):
        head, payload = rows.head_and_payload(row)
        assert head + (b"" if payload is None else encode_vle(len(payload)) + bytes(payload)) == codec.encode(push)
    columns = PushColumns(len(pushes))
    assert BatchDecoder(out, Framing.STREAM, 4000, 0, encoder.written).decode(columns) is StopReason.END
    assert [columns.push(row) for row in range(len(columns))] == pushes
    payloads = [push.body.payload if isinstance(push.body, Put) else None for push in pushes]
    found = columns.payloads()
    assert [found.value(row) for row in range(len(columns))] == payloads
    gathered = found.pack()
    assert bytes(gathered.data) == b"".join(payload or b"" for payload in payloads)
    assert gathered.null_count == payloads.count(None)
