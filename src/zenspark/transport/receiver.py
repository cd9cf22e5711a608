"""Hearing: what one node says in its lanes. Batches in, network messages and publications out.

A node that may speak (its handshake is done, or it has joined a group) has announced the first number of each lane and
what it means by its frames. From then on its batches are walked through here: repetitions are dropped, fragments
joined, publications left in columns, and what came and what was lost is counted in `arrivals`. Whoever owns a `FrameReceiver`
decides what its end means.

What can go wrong: anything the other node sends. It raises `ProtocolError`, which the owner turns into an end. Only a
network message that was read to its end and must not be processed is rejected alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from zenspark.errors import CloseReason, LimitExceeded, ProtocolError, UnknownExtension
from zenspark.transport.counters import LossReason, ReceiveCounters
from zenspark.transport.lane import Defragmenter, Reassembled, ReceivingLane
from zenspark.transport.reassembly import ReassemblyPool, ReassemblyShare
from zenspark.wire.buffer import LenientReader
from zenspark.wire.codec import decode_network, read_network_message
from zenspark.wire.columns import Columns, Cursor, Framing, Kind, Outcome, Shape, Whole
from zenspark.wire.declare import Message
from zenspark.wire.messages import Close, Fragment, Frame, Join, NetworkMessage, Reply
from zenspark.wire.templates import Repeats
from zenspark.wire.values import NextSns, Priority, ZenohId

RELIABLE, CONTINUED = 0x08, 0x10
"""Bits of a frame's lane in the columns."""


class MessageReceived(msgspec.Struct, frozen=True):
    """A network message that is not a plain publication."""

    message: NetworkMessage
    reliable: bool


class MessageRejected(msgspec.Struct, frozen=True):
    """A network message that arrived and must not be processed; its sender may wait for an answer all the same."""

    message: NetworkMessage
    reason: LossReason


class PushRun(msgspec.Struct, frozen=True):
    """Publications: rows `start` to `stop` of columns that are good until the next event is asked for."""

    columns: Columns
    start: int
    stop: int
    is_lasting: bool = False
    """Whether there is one row, joined from fragments, whose bytes are good for ever."""
    stamped_by: ZenohId | None = None
    """Whose clock gave the PUTs among them that came without a timestamp one, if any."""

    def shape_at(self, index: int) -> Shape:
        """What the rows of a shape have in common, the clock that stamped them here included."""
        shape = self.columns.shape_at(index)
        if self.stamped_by is None or shape.timestamp_id is not None or shape.kind is not Kind.PUT:
            return shape
        return msgspec.structs.replace(shape, timestamp_id=self.stamped_by)


class Closed(msgspec.Struct, frozen=True):
    """Nothing more will happen here: who ended it and why, and what is still to be written, if anything."""

    reason: CloseReason
    text: str
    by_peer: bool
    farewell: bytes = b""


ReceiverEvent = MessageReceived | MessageRejected | PushRun | Closed | Join
"""What a node can mean; a JOIN is for the group it belongs to, and means nothing between two."""


class LaneParameters(msgspec.Struct, frozen=True):
    """What a node announced of its lanes."""

    qos: bool
    sn_mask: int
    patch: int
    first: NextSns
    message_limit: int
    """What a message that comes in pieces may grow to."""


class FrameReceiver:
    """The lanes of one node. `columns` may be shared: they hold something only while `walk` runs."""

    def __init__(
        self,
        lanes: LaneParameters,
        columns: Columns,
        arrivals: ReceiveCounters | None = None,
        share: ReassemblyShare | None = None,
    ) -> None:
        self.arrivals = ReceiveCounters() if arrivals is None else arrivals
        self._share = ReassemblyPool(lanes.message_limit).share() if share is None else share
        self._terms = lanes
        self._columns = columns
        self._lanes: dict[tuple[Priority, bool], ReceivingLane] = {}
        self._by_number: dict[int, ReceivingLane] = {}
        """The same lanes, by what the columns call them."""
        self._repeats = Repeats()
        self._is_new = True  # whether the frame at hand is, and not a repetition

    def end(self) -> None:
        """Nothing more will come: forget what was not finished."""
        self._share.end()

    def walk(self, cursor: Cursor) -> Iterator[ReceiverEvent]:
        """Everything a cursor meets, in order. Each event must be handled before the next."""
        columns = self._columns
        columns.clear()  # of what somebody left there who broke off
        while True:
            outcome = cursor.decode(columns)
            if columns.frame_count == 1:  # most often there is not more in a read, and somebody waits for it
                self._enter_frame(columns.frame_lane[0], columns.frame_sn[0])
                if self._is_new and columns.row_count:
                    self.arrivals.received += columns.row_count
                    yield PushRun(columns, 0, columns.row_count)
                columns.clear()
            elif columns.frame_count or columns.row_count:
                yield from self._rows(columns)
            else:
                columns.clear()
            if outcome is Outcome.END:
                return
            if outcome is Outcome.OVERSIZED:
                raise LimitExceeded(_length_at(cursor), cursor.limit, "length of a batch")
            if outcome is Outcome.MESSAGE:
                yield from self._message(cursor)
                if cursor.awaits_rest:
                    return

    def _message(self, cursor: Cursor) -> Iterator[ReceiverEvent]:
        """What is no row: another message, or fragments of some."""
        number = cursor.fragment_lane()
        if number >= 0:
            whole = self._numbered(number).join(cursor, self._columns)
            if whole is not None:
                yield from self._joined(whole, bool(number & RELIABLE))
                return
            self._columns.clear()
            if cursor.awaits_rest:
                return
        reliable, is_new = cursor.reliable, self._is_new or not cursor.in_frame
        try:
            message = self._repeats.read(cursor)
        except UnknownExtension as error:
            yield from self._not_understood(cursor, is_new, error)
            return
        if not isinstance(message, NetworkMessage):
            yield from self._on_message(message)
        elif is_new:
            yield self._received(message, reliable)

    def _not_understood(self, cursor: Cursor, is_new: bool, error: UnknownExtension) -> Iterator[ReceiverEvent]:
        """Reject a network message with a mandatory extension unknown here; a transport message ends everything."""
        message = cursor.lenient_message()
        if isinstance(message, NetworkMessage):
            if is_new:
                yield self._rejected(message, LossReason.UNKNOWN_EXTENSION)
        elif isinstance(message, Frame) and not _is_extended(message):
            yield from self._on_message(message)
        else:
            raise error

    def _rows(self, columns: Columns) -> Iterator[PushRun]:
        """The rows of every frame that is not a repetition."""
        firsts = columns.frame_row
        start = 0
        for index in range(columns.frame_count):
            self._enter_frame(columns.frame_lane[index], columns.frame_sn[index])
            if not self._is_new:
                if firsts[index] > start:
                    yield self._pushes(start, firsts[index])
                start = firsts[index + 1] if index + 1 < columns.frame_count else len(columns)
        if len(columns) > start:
            yield self._pushes(start, len(columns))
        columns.clear()

    def _pushes(self, start: int, stop: int) -> PushRun:
        """Rows that are handed over, and counted."""
        self.arrivals.received += stop - start
        return PushRun(self._columns, start, stop)

    def _enter_frame(self, lane: int, sn: int) -> None:
        """A frame begins; where decoding only went on in one, it is as new as it was."""
        if not lane & CONTINUED:
            self._is_new = self._numbered(lane).enter_frame(sn)

    def _numbered(self, number: int) -> ReceivingLane:
        """A lane by what the columns call it."""
        lane = self._by_number.get(number)
        if lane is None:
            lane = self._by_number[number] = self._lane(Priority(number & 0x07), bool(number & RELIABLE))
        return lane

    def _lane(self, priority: Priority, reliable: bool) -> ReceivingLane:
        lane = self._lanes.get((priority, reliable))
        if lane is None:
            terms = self._terms
            if priority is not Priority.DATA and not terms.qos:
                raise ProtocolError(f"priority {priority.text} on a session without priorities")
            pieces = Defragmenter(terms.sn_mask, terms.patch, terms.message_limit, self.arrivals, self._share)
            first = terms.first.pairs[priority][0 if reliable else 1]
            lane = self._lanes[priority, reliable] = ReceivingLane.beginning(first, pieces)
        return lane

    def _on_message(self, message: Message) -> Iterator[ReceiverEvent]:
        match message:
            case Fragment():
                yield from self._on_fragment(message)
            case Frame():  # only the object codec could read its head
                if self._lane(message.priority, message.reliable).enter_frame(message.sn):
                    for inner in message.msgs:
                        if _is_extended(inner):
                            yield self._rejected(inner, LossReason.UNKNOWN_EXTENSION)
                        else:
                            yield self._received(inner, message.reliable)
            case Close():
                yield Closed(message.why, f"the other side closed: {message.why.name.lower()}", by_peer=True)
            case Join():
                yield message

    def _joined(self, whole: Whole, reliable: bool) -> Iterator[MessageReceived | MessageRejected | PushRun]:
        """Messages whose fragments came together."""
        columns = self._columns
        if columns.row_count:
            yield self._pushes(0, columns.row_count)
        columns.clear()
        if whole.message is not None:
            yield self._decoded(whole.message, reliable)

    def _on_fragment(self, fragment: Fragment) -> Iterator[MessageReceived | MessageRejected | PushRun]:
        for event in self._lane(fragment.priority, fragment.reliable).receive_fragment(fragment) or ():
            if isinstance(event, Reassembled):
                yield self._whole(event.data, fragment)
                self._columns.clear()

    def _whole(self, data: bytes | bytearray, last: Fragment) -> MessageReceived | MessageRejected | PushRun:
        """One message: a row like those that came in one piece, if it can be one."""
        columns = self._columns
        cursor = Cursor(data, Framing.MESSAGE, reliable=last.reliable, priority=last.priority)
        if cursor.decode(columns) is Outcome.END and len(columns) == 1:
            self.arrivals.received += 1
            return PushRun(columns, 0, 1, is_lasting=True)
        return self._decoded(data, last.reliable)

    def _decoded(self, data: bytes | bytearray | memoryview, reliable: bool) -> MessageReceived | MessageRejected:
        """What a message means whose fragments are joined."""
        try:
            return self._received(decode_network(data), reliable)
        except UnknownExtension:
            return self._rejected(read_network_message(LenientReader(data)), LossReason.UNKNOWN_EXTENSION)

    def _received(self, message: NetworkMessage, reliable: bool) -> MessageReceived | MessageRejected:
        """Hand a message over, and count it; reject it if it is in shared memory, which no session agrees on."""
        body = getattr(message, "body", None)
        inner = body.body if isinstance(body, Reply) else body
        if getattr(inner, "shm", False):
            return self._rejected(message, LossReason.SHARED_MEMORY)
        self.arrivals.received += 1
        return MessageReceived(message, reliable)

    def _rejected(self, message: NetworkMessage, reason: LossReason) -> MessageRejected:
        """A message that is not handed over, and counted as lost."""
        self.arrivals.lose(reason)
        return MessageRejected(message, reason)


def _is_extended(message: Message) -> bool:
    """Whether a message, or one inside it, has a mandatory extension that is unknown here."""
    if any(extension.mandatory for extension in getattr(message, "exts", ())):
        return True
    body = getattr(message, "body", None)
    return isinstance(body, Message) and _is_extended(body)


def _length_at(cursor: Cursor) -> int:
    """What stands in front of the batch where a cursor stopped."""
    width = 4 if cursor.framing is Framing.BARE else 2
    return int.from_bytes(cursor.data[cursor.pos : cursor.pos + width], "little")
