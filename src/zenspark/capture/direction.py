"""One direction of a captured connection: bytes in, messages out, each with its byte position.

A direction is decoded with the parameters of its session. Every session begins alike; at its OPEN a direction switches
to the negotiated parameters, and where the handshake was not captured they are guessed from the first batch. After
CLOSE, or a malformed message, nothing more is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import pairwise

import msgspec

from zenspark.capture.byte_stream import (
    MAX_CAPTURED_BATCH_BYTES,
    STREAM_FORMATS,
    Batch,
    StreamFormat,
    decompress_batch,
    next_batch,
)
from zenspark.errors import DecodeError, LimitExceeded
from zenspark.transport.framing import Bytes, Deframer, LengthPrefix
from zenspark.transport.lane import Defragmenter, LaneEvent, OutOfOrder, Reassembled, ReassemblyAborted, ReceivingLane
from zenspark.wire.buffer import Reader
from zenspark.wire.codec import decode_network, decode_transport, read_network_message, read_transport_message
from zenspark.wire.message_schema import Message
from zenspark.wire.messages import MAX_TRANSPORT_ID, Close, Fragment, Frame
from zenspark.wire.values import Priority, Resolution

SHORT_CLOSE_BYTES = 4
"""Bytes of a CLOSE with its 2-byte length."""


class Side(StrEnum):
    """Sender of a direction: the side that connected (c2s), or the one that listened (s2c)."""

    C2S = "c2s"
    S2C = "s2c"

    @property
    def other(self) -> Side:
        """The opposite side."""
        return Side.S2C if self is Side.C2S else Side.C2S


class Carrier(msgspec.Struct, frozen=True):
    """Transport of a network message: its lane, and the sequence number of its frame or last fragment."""

    reliable: bool
    priority: Priority
    sn: int
    fragments: int = 1


class CapturedMessage(msgspec.Struct, frozen=True):
    """A message, its byte range in its direction, and its resolved key expression.

    `key` is None where there is none; one with an unknown key id is formatted as `#id+suffix`. `request_key` is the key
    of the request that a response replies to.
    """

    side: Side
    start: int
    end: int
    message: Message
    carrier: Carrier | None = None
    key: str | None = None
    request_key: str | None = None

    @property
    def is_resolved(self) -> bool:
        """Whether the key is known; no key may begin with a `#`."""
        return self.key is None or not self.key.startswith("#")


class LostMessage(msgspec.Struct, frozen=True):
    """A message that the receiver drops: its fragments are incomplete, or its sequence number is not newer."""

    side: Side
    start: int
    end: int
    text: str


class InvalidBytes(msgspec.Struct, frozen=True):
    """Malformed bytes, and what was expected at which position."""

    side: Side
    start: int
    end: int
    text: str


DirectionEvent = CapturedMessage | LostMessage | InvalidBytes


class DirectionParameters(msgspec.Struct, frozen=True):
    """Parameters for decoding a direction; by default those of eclipse-zenoh's sessions."""

    stream_format: StreamFormat = StreamFormat()
    mask: int = Resolution.BITS_32.mask
    patch: int = 1
    initial_sn: int | None = None


class MarkingReader(Reader):
    """Records where each message of a frame begins: the codec peeks at the next byte before it reads one."""

    def __init__(self, data: Bytes, pos: int = 0, end: int = -1) -> None:
        super().__init__(data, pos, end)
        self.marks: list[int] = []

    def peek(self) -> int:
        self.marks.append(self.pos)
        return int(super().peek())


class Direction:
    """Decodes one direction of a link; `next()` returns one event at a time."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.ended = False
        """Whether no more bytes will come."""
        self.stopped = False
        """Whether the remaining bytes are irrelevant, or cannot be decoded."""
        self.followed = 0
        """Position up to which the direction is decoded."""
        self.batch = 0
        """Number of the batch that has the last event of `next()`."""
        self._parameters = DirectionParameters()
        self._next_parameters: DirectionParameters | None = None
        self._deframer = Deframer()
        self._events: Iterator[DirectionEvent] = iter(())
        self._lanes: dict[tuple[Priority, bool], ReceivingLane] = {}
        self._fragment_starts: dict[tuple[Priority, bool], int] = {}
        """Position of the first fragment of each lane's unfinished message."""

    @property
    def total(self) -> int:
        """Bytes received."""
        return self._deframer.position + self._deframer.available

    @property
    def waiting(self) -> int:
        """Bytes not decoded yet."""
        return self._deframer.available

    @property
    def missing(self) -> int:
        """Bytes the last batch lacks."""
        return self._deframer.missing

    def receive_data(self, data: Bytes) -> None:
        """Append the next bytes of this direction."""
        self._deframer.receive_data(data)

    def switch(self, parameters: DirectionParameters | None) -> None:
        """Use other parameters from the next batch on; None to guess them from it."""
        self._next_parameters = parameters

    def _apply(self, parameters: DirectionParameters) -> None:
        self._parameters = self._next_parameters = parameters
        self._lanes.clear()
        self._fragment_starts.clear()
        self._deframer.switch(parameters.stream_format.framing, MAX_CAPTURED_BATCH_BYTES)

    def next(self) -> DirectionEvent | None:
        """The next event; None while bytes are missing, and at the end."""
        try:
            while not self.stopped:
                for event in self._events:
                    self.followed = event.end
                    return event
                self.followed = self._deframer.position
                batch = self._next_batch()
                if batch is None:
                    break
                self.batch += 1
                self._events = self._read(batch, self._deframer.position - len(batch))
        except DecodeError as error:
            self.stopped = True
            return InvalidBytes(self.side, error.position, error.position, str(error))
        return None

    def _next_batch(self) -> Bytes | None:
        parameters = self._next_parameters or self._detect_parameters()
        if parameters is None:
            return None
        if parameters is not self._parameters:
            self._apply(parameters)
        if self._ends_with_short_close():
            self._deframer.switch(LengthPrefix.U16, MAX_CAPTURED_BATCH_BYTES)
        return next_batch(self._deframer)

    def _ends_with_short_close(self) -> bool:
        """Whether the rest is a CLOSE with a 2-byte length: so eclipse-zenoh ends low-latency sessions."""
        left = bytes(self._deframer.peek(SHORT_CLOSE_BYTES + 1)) if self.ended else b""
        if len(left) != SHORT_CLOSE_BYTES or left[:2] != b"\x02\x00":
            return False
        try:
            return isinstance(decode_transport(left[2:]), Close)
        except DecodeError:
            return False

    def unfinished_messages(self) -> Iterator[LostMessage]:
        """Messages whose last fragments were never received."""
        for lane, start in self._fragment_starts.items():
            fragments = self._lanes[lane].defragmenter.pending
            yield LostMessage(
                self.side, start, self.followed, f"unfinished message: only {fragments} fragments received"
            )

    # format

    def _detect_parameters(self) -> DirectionParameters | None:
        """Parameters with which the next batch decodes; None while more bytes are needed."""
        for stream_format in STREAM_FORMATS:
            is_plausible = self._is_plausible(stream_format)
            if is_plausible is None and not self.ended:
                return None
            if is_plausible:
                return DirectionParameters(stream_format)
        return DirectionParameters()

    def _is_plausible(self, stream_format: StreamFormat) -> bool | None:
        width = stream_format.framing.width
        length = int.from_bytes(self._deframer.peek(width), "little")
        if length > MAX_CAPTURED_BATCH_BYTES:
            return False
        if self._deframer.available < width + length:
            return None
        try:
            decompress_batch(self._deframer.peek(width + length)[width:], stream_format).messages(stream_format)
        except DecodeError:
            return False
        return True

    # batches

    def _read(self, sent: Bytes, start: int) -> Iterator[DirectionEvent]:
        batch = decompress_batch(sent, self._parameters.stream_format, start)
        reader = MarkingReader(batch.content)
        while reader.left():
            begin = reader.pos
            try:
                message = self._read_message(reader)
            except DecodeError as error:
                yield from self._messages_before_error(batch, begin, reader.marks)
                raise batch.locate_error(error) from None
            yield from self._receive(message, batch, begin, reader)

    def _read_message(self, reader: MarkingReader) -> Message:
        bare = self._parameters.stream_format.framing is LengthPrefix.U32 and reader.peek() & 0x1F > MAX_TRANSPORT_ID
        reader.marks.clear()
        return read_network_message(reader) if bare else read_transport_message(reader)

    def _messages_before_error(self, batch: Batch, begin: int, marks: list[int]) -> Iterator[DirectionEvent]:
        """Messages of a frame before the one that cannot be decoded."""
        if marks and marks[0] < marks[-1]:
            reader = MarkingReader(batch.content, begin, marks[-1])
            yield from self._receive(read_transport_message(reader), batch, begin, reader)

    def _receive(self, message: Message, batch: Batch, begin: int, reader: MarkingReader) -> Iterator[DirectionEvent]:
        start, end = batch.stream_range(begin, reader.pos)
        if not isinstance(message, Frame | Fragment):
            yield CapturedMessage(self.side, start, end, message)
            return
        try:
            received = self._lane(message).receive(message)
        except LimitExceeded as error:
            raise DecodeError(f"a sequence number up to {error.limit}", start, str(error.size)) from None
        if isinstance(message, Frame) and not received:
            yield CapturedMessage(self.side, start, end, message)  # valid, and empty
        ranges = (batch.stream_range(*marks) for marks in pairwise([*reader.marks, reader.pos]))
        yield from self._lane_events(message, received, (start, end), ranges)

    def _lane_events(
        self,
        message: Frame | Fragment,
        received: list[LaneEvent],
        stream_range: tuple[int, int],
        ranges: Iterator[tuple[int, int]],
    ) -> Iterator[DirectionEvent]:
        """Events of a lane for a frame or fragment, with the byte ranges of its network messages."""
        key = (message.priority, message.reliable)
        start, end = stream_range
        first = self._fragment_starts.pop(key, start)
        for event in received:
            match event:
                case Reassembled():
                    yield self._decode_reassembled(event, message, first, end)
                case ReassemblyAborted():
                    yield LostMessage(self.side, first, end, _format_aborted(event))
                    first = start
                case OutOfOrder():
                    yield LostMessage(self.side, start, end, _format_out_of_order(event, message))
                case _:
                    yield CapturedMessage(
                        self.side, *next(ranges), event, Carrier(message.reliable, message.priority, message.sn)
                    )
        if self._lanes[key].defragmenter.pending:
            self._fragment_starts[key] = first

    def _decode_reassembled(
        self, reassembled: Reassembled, last: Frame | Fragment, start: int, end: int
    ) -> DirectionEvent:
        carrier = Carrier(last.reliable, last.priority, last.sn, reassembled.fragments)
        try:
            return CapturedMessage(self.side, start, end, decode_network(reassembled.data), carrier)
        except DecodeError as error:
            text = f"{error} of a message joined from {reassembled.fragments} fragments"
            return InvalidBytes(self.side, start, end, text)

    def _lane(self, message: Frame | Fragment) -> ReceivingLane:
        key = (message.priority, message.reliable)
        if key not in self._lanes:
            defragmenter = Defragmenter(self._parameters.mask, self._parameters.patch)
            initial = self._parameters.initial_sn
            self._lanes[key] = (
                ReceivingLane(None, defragmenter) if initial is None else ReceivingLane.beginning(initial, defragmenter)
            )
        return self._lanes[key]


def _format_aborted(event: ReassemblyAborted) -> str:
    return f"{_pluralize(event.fragments, 'fragment')} of a message, {_pluralize(event.size, 'byte')}: {event.text}"


def _format_out_of_order(event: OutOfOrder, message: Frame | Fragment) -> str:
    dropped = (
        f"{message.NAME} with {_pluralize(len(message.msgs), 'message')}"
        if isinstance(message, Frame)
        else message.NAME
    )
    return f"{dropped} dropped: sequence number {event.sn} is not newer than {event.last}"


def _pluralize(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
