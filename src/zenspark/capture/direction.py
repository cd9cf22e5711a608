"""One direction of a recorded conversation: bytes in, messages out, each with the place it was found at.

A direction is read the way its session says. Every session begins alike; at its OPEN a direction switches to what
was agreed, and where the handshake was not recorded the rules are guessed from the first batch. After its CLOSE, or
something that is no message, nothing more of it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import pairwise

import msgspec

from zenspark.capture.byte_stream import MANNERS, MAX_LENGTH, Batch, Manner, next_batch, unpacked
from zenspark.errors import DecodeError, LimitExceeded
from zenspark.transport.framing import Bytes, Deframer, LengthPrefix
from zenspark.transport.lane import Defragmenter, LaneEvent, OutOfOrder, Reassembled, ReassemblyAborted, ReceivingLane
from zenspark.wire.buffer import Reader
from zenspark.wire.codec import decode_network, decode_transport, read_network_message, read_transport_message
from zenspark.wire.declare import Message
from zenspark.wire.messages import Close, Fragment, Frame
from zenspark.wire.values import Priority, Resolution

MAX_TRANSPORT_ID = 0x07
SHORT_CLOSE = 4
"""Bytes of a CLOSE with its 2-byte length."""


class Side(StrEnum):
    """Who speaks: the side that connected, or the one that listened."""

    C2S = "c2s"
    S2C = "s2c"

    @property
    def other(self) -> Side:
        return Side.S2C if self is Side.C2S else Side.C2S


class Carrier(msgspec.Struct, frozen=True):
    """What brought a network message: its lane, and the number of its frame or last fragment."""

    reliable: bool
    priority: Priority
    sn: int
    pieces: int = 1


class Said(msgspec.Struct, frozen=True):
    """A message, from which byte of its direction to which, and what its key expression stands for.

    `key` is None where there is none; one with a number that was never bound is spelled `#number+suffix`.
    `request_key` is what a response answers.
    """

    side: Side
    start: int
    end: int
    message: Message
    carrier: Carrier | None = None
    key: str | None = None
    request_key: str | None = None

    @property
    def resolved(self) -> bool:
        """Whether the key is known; none may begin with a `#`."""
        return self.key is None or not self.key.startswith("#")


class Lost(msgspec.Struct, frozen=True):
    """Something the receiver does not take: fragments that do not make a message, a number that is not ahead."""

    side: Side
    start: int
    end: int
    why: str


class Broken(msgspec.Struct, frozen=True):
    """Bytes that are no message, and what was expected at which position instead."""

    side: Side
    start: int
    end: int
    why: str


Found = Said | Lost | Broken


class Rules(msgspec.Struct, frozen=True):
    """How a direction is to be read; by default as eclipse-zenoh opens its sessions."""

    manner: Manner = Manner()
    mask: int = Resolution.BITS_32.mask
    patch: int = 1
    initial_sn: int | None = None


class MarkingReader(Reader):
    """Remembers where each message of a frame begins: the codec looks at the next byte before it reads one."""

    def __init__(self, data: Bytes, pos: int = 0, end: int = -1) -> None:
        super().__init__(data, pos, end)
        self.marks: list[int] = []

    def peek(self) -> int:
        self.marks.append(self.pos)
        return int(super().peek())


class Direction:
    """Follows one direction of a link; `next()` gives what was said, one thing at a time."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.ended = False
        """Whether no more bytes will come."""
        self.stopped = False
        """Whether the bytes that are left do not matter, or cannot be read."""
        self.followed = 0
        """Up to where the direction is understood."""
        self.batch = 0
        """The number of the batch that holds what `next()` gave last."""
        self._rules = Rules()
        self._next_rules: Rules | None = None
        self._deframer = Deframer()
        self._found: Iterator[Found] = iter(())
        self._lanes: dict[tuple[Priority, bool], ReceivingLane] = {}
        self._begun: dict[tuple[Priority, bool], int] = {}

    @property
    def total(self) -> int:
        """How many bytes there are."""
        return self._deframer.position + self._deframer.available

    @property
    def waiting(self) -> int:
        """How many bytes have not been read."""
        return self._deframer.available

    @property
    def missing(self) -> int:
        """How many bytes the last batch lacks."""
        return self._deframer.missing

    def receive_data(self, data: Bytes) -> None:
        """Take the next bytes of this direction."""
        self._deframer.receive_data(data)

    def switch(self, rules: Rules | None) -> None:
        """Go on by other rules from the next batch on; None to guess them from it."""
        self._next_rules = rules

    def _apply(self, rules: Rules) -> None:
        self._rules = self._next_rules = rules
        self._lanes.clear()
        self._begun.clear()
        self._deframer.switch(rules.manner.framing, MAX_LENGTH)

    def next(self) -> Found | None:
        """What was said next; None while bytes are missing, and at the end."""
        try:
            while not self.stopped:
                for found in self._found:
                    self.followed = found.end
                    return found
                self.followed = self._deframer.position
                batch = self._next_batch()
                if batch is None:
                    break
                self.batch += 1
                self._found = self._read(batch, self._deframer.position - len(batch))
        except DecodeError as error:
            self.stopped = True
            return Broken(self.side, error.position, error.position, str(error))
        return None

    def _next_batch(self) -> Bytes | None:
        rules = self._next_rules or self._guess()
        if rules is None:
            return None
        if rules is not self._rules:
            self._apply(rules)
        if self._ends_with_short_close():
            self._deframer.switch(LengthPrefix.U16, MAX_LENGTH)
        return next_batch(self._deframer)

    def _ends_with_short_close(self) -> bool:
        """Whether all that is left is a CLOSE behind a 2-byte length: so eclipse-zenoh ends low-latency sessions."""
        left = bytes(self._deframer.peek(SHORT_CLOSE + 1)) if self.ended else b""
        if len(left) != SHORT_CLOSE or left[:2] != b"\x02\x00":
            return False
        try:
            return isinstance(decode_transport(left[2:]), Close)
        except DecodeError:
            return False

    def unfinished(self) -> Iterator[Lost]:
        """Messages whose last pieces never came."""
        for lane, start in self._begun.items():
            pieces = self._lanes[lane].defragmenter.pending
            yield Lost(self.side, start, self.followed, f"a message of which only {pieces} fragments came")

    # how to read

    def _guess(self) -> Rules | None:
        """The rules by which the next batch makes sense; None while more of it is needed to tell."""
        for manner in MANNERS:
            fits = self._fits(manner)
            if fits is None and not self.ended:
                return None
            if fits:
                return Rules(manner)
        return Rules()

    def _fits(self, manner: Manner) -> bool | None:
        width = manner.framing.width
        length = int.from_bytes(self._deframer.peek(width), "little")
        if length > MAX_LENGTH:
            return False
        if self._deframer.available < width + length:
            return None
        try:
            unpacked(self._deframer.peek(width + length)[width:], manner).messages(manner)
        except DecodeError:
            return False
        return True

    # what is in a batch

    def _read(self, sent: Bytes, start: int) -> Iterator[Found]:
        batch = unpacked(sent, self._rules.manner, start)
        reader = MarkingReader(batch.content)
        while reader.left():
            begin = reader.pos
            try:
                message = self._read_one(reader)
            except DecodeError as error:
                yield from self._salvage(batch, begin, reader.marks)
                raise batch.placed(error) from None
            yield from self._receive(message, batch, begin, reader)

    def _read_one(self, reader: MarkingReader) -> Message:
        bare = self._rules.manner.framing is LengthPrefix.U32 and reader.peek() & 0x1F > MAX_TRANSPORT_ID
        reader.marks.clear()
        return read_network_message(reader) if bare else read_transport_message(reader)

    def _salvage(self, batch: Batch, begin: int, marks: list[int]) -> Iterator[Found]:
        """The messages of a frame that stand before the one that cannot be read."""
        if marks and marks[0] < marks[-1]:
            reader = MarkingReader(batch.content, begin, marks[-1])
            yield from self._receive(read_transport_message(reader), batch, begin, reader)

    def _receive(self, message: Message, batch: Batch, begin: int, reader: MarkingReader) -> Iterator[Found]:
        start, end = batch.place(begin, reader.pos)
        if not isinstance(message, Frame | Fragment):
            yield Said(self.side, start, end, message)
            return
        try:
            received = self._lane(message).receive(message)
        except LimitExceeded as error:
            raise DecodeError(f"a sequence number up to {error.limit}", start, str(error.size)) from None
        if isinstance(message, Frame) and not received:
            yield Said(self.side, start, end, message)  # legal, and nothing in it
        places = (batch.place(*marks) for marks in pairwise([*reader.marks, reader.pos]))
        yield from self._told(message, received, (start, end), places)

    def _told(
        self,
        message: Frame | Fragment,
        received: list[LaneEvent],
        whole: tuple[int, int],
        places: Iterator[tuple[int, int]],
    ) -> Iterator[Found]:
        """What a lane made of a frame or fragment, with the places of the network messages in it."""
        key = (message.priority, message.reliable)
        start, end = whole
        begun = self._begun.pop(key, start)
        for event in received:
            match event:
                case Reassembled():
                    yield self._joined(event, message, begun, end)
                case ReassemblyAborted():
                    yield Lost(self.side, begun, end, _abandoned(event))
                    begun = start
                case OutOfOrder():
                    yield Lost(self.side, start, end, _skipped(event, message))
                case _:
                    yield Said(self.side, *next(places), event, Carrier(message.reliable, message.priority, message.sn))
        if self._lanes[key].defragmenter.pending:
            self._begun[key] = begun

    def _joined(self, joined: Reassembled, last: Frame | Fragment, start: int, end: int) -> Found:
        carrier = Carrier(last.reliable, last.priority, last.sn, joined.fragments)
        try:
            return Said(self.side, start, end, decode_network(joined.data), carrier)
        except DecodeError as error:
            return Broken(self.side, start, end, f"{error} of a message joined from {joined.fragments} fragments")

    def _lane(self, message: Frame | Fragment) -> ReceivingLane:
        key = (message.priority, message.reliable)
        if key not in self._lanes:
            defragmenter = Defragmenter(self._rules.mask, self._rules.patch)
            initial = self._rules.initial_sn
            self._lanes[key] = (
                ReceivingLane(None, defragmenter) if initial is None else ReceivingLane.beginning(initial, defragmenter)
            )
        return self._lanes[key]


def _abandoned(event: ReassemblyAborted) -> str:
    return f"{_counted(event.fragments, 'fragment')} of a message, {_counted(event.size, 'byte')}: {event.why}"


def _skipped(event: OutOfOrder, message: Frame | Fragment) -> str:
    what = (
        f"{message.NAME} with {_counted(len(message.msgs), 'message')}" if isinstance(message, Frame) else message.NAME
    )
    return f"{what} is not taken: sequence number {event.sn} is not ahead of {event.last}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
