"""FrameReceiver: receive path of an open session. Batches in, network messages and publications out.

A peer that may send (its handshake is done, or it has joined a group) has announced the initial sequence number of each
lane and the parameters of its frames. From then on its batches are decoded here: repetitions are dropped, fragments
joined, publications left in columns, and received and lost messages counted in `receive_counters`.

Protocol violations raise `ProtocolError`, which the owner turns into the end of the session. Only a network message
that was decoded completely and must not be processed is rejected alone.
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
from zenspark.wire.columns import (
    LANE_CONTINUED,
    LANE_PRIORITY,
    LANE_RELIABLE,
    BatchDecoder,
    Framing,
    PushColumns,
    PushRun,
    ReassembledMessage,
    StopReason,
    fragment_lane,
)
from zenspark.wire.message_schema import Message
from zenspark.wire.messages import Close, Fragment, Frame, Join, NetworkMessage, Reply
from zenspark.wire.templates import TemplateDecoder
from zenspark.wire.values import NextSns, Priority


class MessageReceived(msgspec.Struct, frozen=True):
    """A network message other than a plain publication."""

    message: NetworkMessage
    reliable: bool


class MessageRejected(msgspec.Struct, frozen=True):
    """A network message that must not be processed; its sender may expect a reply all the same."""

    message: NetworkMessage
    reason: LossReason


class Closed(msgspec.Struct, frozen=True):
    """The session ended."""

    reason: CloseReason
    text: str
    by_peer: bool
    """Whether the peer closed it, or cannot be reached any more: then it gets no CLOSE."""
    close_batch: bytes = b""
    """The CLOSE that is still to be written; empty if there is none."""


ReceiverEvent = MessageReceived | MessageRejected | PushRun | Closed | Join
"""Events of a receiver; a JOIN is for the owner of a multicast group, and is ignored between two nodes."""


class LaneParameters(msgspec.Struct, frozen=True):
    """Announced parameters of a peer's lanes."""

    qos: bool
    sn_mask: int
    patch: int
    initial_sns: NextSns
    message_limit: int
    """Maximum bytes of a fragmented message."""


class FrameReceiver:
    """Receiver of one peer's lanes. `columns` may be shared: they hold data only while `events` runs."""

    def __init__(
        self,
        lanes: LaneParameters,
        columns: PushColumns,
        counters: ReceiveCounters | None = None,
        share: ReassemblyShare | None = None,
    ) -> None:
        self.receive_counters = ReceiveCounters() if counters is None else counters
        self._share = ReassemblyPool(lanes.message_limit).new_share() if share is None else share
        self._parameters = lanes
        self._columns = columns
        self._lanes: dict[tuple[Priority, bool], ReceivingLane] = {}
        self._lanes_by_bits: dict[int, ReceivingLane] = {}
        """The lanes by their lane bits in the columns."""
        self._template_decoder = TemplateDecoder()
        self._frame_accepted = True  # whether the current frame is new, not a repetition

    def end(self) -> None:
        """Discard unfinished fragmented messages: the session has closed."""
        self._share.end()

    def events(self, decoder: BatchDecoder) -> Iterator[ReceiverEvent]:
        """Events of the batches of a decoder, in order. Each event must be handled before the next.

        The caller may use the columns otherwise after a `MessageReceived`, and continue later.
        """
        columns = self._columns
        columns.clear()  # an earlier caller may have stopped iterating
        while True:
            outcome = decoder.decode(columns)
            if columns.frame_count == 1:  # the common case in request/reply traffic: lowest latency
                self._accept_frame(columns.frame_lane[0], columns.frame_sn[0])
                if self._frame_accepted and columns.row_count:
                    self.receive_counters.received += columns.row_count
                    yield PushRun(columns, 0, columns.row_count)
                columns.clear()
            elif columns.frame_count or columns.row_count:
                yield from self._receive_rows(columns)
            else:
                columns.clear()
            if outcome is StopReason.END:
                return
            if outcome is StopReason.OVERSIZED:
                raise LimitExceeded(_length_at(decoder), decoder.limit, "length of a batch")
            if outcome is StopReason.MESSAGE:
                yield from self._receive_message(decoder)
                if decoder.needs_more_data:
                    return
                columns.clear()  # the caller may have interrupted the iteration, and another receiver used them

    def _receive_message(self, decoder: BatchDecoder) -> Iterator[ReceiverEvent]:
        """Events of a message that is no row, or of fragments."""
        lane_bits = fragment_lane(decoder)
        if lane_bits >= 0:
            reassembled = self._lane_by_bits(lane_bits).join(decoder, self._columns)
            if reassembled is not None:
                yield from self._reassembled_events(reassembled, bool(lane_bits & LANE_RELIABLE))
                return
            self._columns.clear()
            if decoder.needs_more_data:
                return
        reliable, is_accepted = decoder.reliable, self._frame_accepted or not decoder.in_frame
        try:
            message = self._template_decoder.read(decoder)
        except UnknownExtension as error:
            yield from self._reject_unknown_extension(decoder, is_accepted, error)
            return
        if not isinstance(message, NetworkMessage):
            yield from self._on_message(message)
        elif is_accepted:
            yield self._accept(message, reliable)

    def _reject_unknown_extension(
        self, decoder: BatchDecoder, is_accepted: bool, error: UnknownExtension
    ) -> Iterator[ReceiverEvent]:
        """Reject a network message with an unknown mandatory extension; in a transport message it ends the session."""
        message = decoder.read_message_leniently()
        if isinstance(message, NetworkMessage):
            if is_accepted:
                yield self._reject(message, LossReason.UNKNOWN_EXTENSION)
        elif isinstance(message, Frame) and not _has_unknown_extension(message):
            yield from self._on_message(message)
        else:
            raise error

    def _receive_rows(self, columns: PushColumns) -> Iterator[PushRun]:
        """Rows of all frames except repetitions."""
        firsts = columns.frame_row
        start = 0
        for index in range(columns.frame_count):
            self._accept_frame(columns.frame_lane[index], columns.frame_sn[index])
            if not self._frame_accepted:
                if firsts[index] > start:
                    yield self._make_push_run(start, firsts[index])
                start = firsts[index + 1] if index + 1 < columns.frame_count else len(columns)
        if len(columns) > start:
            yield self._make_push_run(start, len(columns))
        columns.clear()

    def _make_push_run(self, start: int, stop: int) -> PushRun:
        """Count rows and wrap them in an event."""
        self.receive_counters.received += stop - start
        return PushRun(self._columns, start, stop)

    def _accept_frame(self, lane: int, sn: int) -> None:
        """Begin a frame; a frame continued in the next buffer keeps its state."""
        if not lane & LANE_CONTINUED:
            self._frame_accepted = self._lane_by_bits(lane).accept_frame(sn)

    def _lane_by_bits(self, lane_bits: int) -> ReceivingLane:
        """Lane by its bits in the columns."""
        lane = self._lanes_by_bits.get(lane_bits)
        if lane is None:
            lane = self._lanes_by_bits[lane_bits] = self._lane(
                Priority(lane_bits & LANE_PRIORITY), bool(lane_bits & LANE_RELIABLE)
            )
        return lane

    def _lane(self, priority: Priority, reliable: bool) -> ReceivingLane:
        lane = self._lanes.get((priority, reliable))
        if lane is None:
            parameters = self._parameters
            if priority is not Priority.DATA and not parameters.qos:
                raise ProtocolError(f"priority {priority.text} on a session without QoS")
            defragmenter = Defragmenter(
                parameters.sn_mask, parameters.patch, parameters.message_limit, self.receive_counters, self._share
            )
            first = parameters.initial_sns.pairs[priority][0 if reliable else 1]
            lane = self._lanes[priority, reliable] = ReceivingLane.beginning(first, defragmenter)
        return lane

    def _on_message(self, message: Message) -> Iterator[ReceiverEvent]:
        match message:
            case Fragment():
                yield from self._on_fragment(message)
            case Frame():  # its header was readable only by the object codec
                if self._lane(message.priority, message.reliable).accept_frame(message.sn):
                    for inner in message.msgs:
                        if _has_unknown_extension(inner):
                            yield self._reject(inner, LossReason.UNKNOWN_EXTENSION)
                        else:
                            yield self._accept(inner, message.reliable)
            case Close():
                yield Closed(message.close_reason, message.close_reason.closed_by_peer, by_peer=True)
            case Join():
                yield message

    def _reassembled_events(
        self, reassembled: ReassembledMessage, reliable: bool
    ) -> Iterator[MessageReceived | MessageRejected | PushRun]:
        """Events of messages whose fragments were joined in the buffer."""
        columns = self._columns
        if columns.row_count:
            yield self._make_push_run(0, columns.row_count)
        columns.clear()
        if reassembled.message is not None:
            yield self._decode_message(reassembled.message, reliable)

    def _on_fragment(self, fragment: Fragment) -> Iterator[MessageReceived | MessageRejected | PushRun]:
        for event in self._lane(fragment.priority, fragment.reliable).receive_fragment(fragment) or ():
            if isinstance(event, Reassembled):
                yield self._decode_reassembled(event.data, fragment)
                self._columns.clear()

    def _decode_reassembled(
        self, data: bytes | bytearray, last: Fragment
    ) -> MessageReceived | MessageRejected | PushRun:
        """Event of one reassembled message: a row if it is a plain publication."""
        columns = self._columns
        decoder = BatchDecoder(data, Framing.MESSAGE, reliable=last.reliable, priority=last.priority)
        if decoder.decode(columns) is StopReason.END and len(columns) == 1:
            self.receive_counters.received += 1
            return PushRun(columns, 0, 1, owns_buffer=True)
        return self._decode_message(data, last.reliable)

    def _decode_message(
        self, data: bytes | bytearray | memoryview, reliable: bool
    ) -> MessageReceived | MessageRejected:
        """Decode a reassembled message."""
        try:
            return self._accept(decode_network(data), reliable)
        except UnknownExtension:
            return self._reject(read_network_message(LenientReader(data)), LossReason.UNKNOWN_EXTENSION)

    def _accept(self, message: NetworkMessage, reliable: bool) -> MessageReceived | MessageRejected:
        """Count and wrap a message; reject it if its payload is in shared memory, which is never negotiated."""
        body = getattr(message, "body", None)
        inner = body.body if isinstance(body, Reply) else body
        if getattr(inner, "shm", False):
            return self._reject(message, LossReason.SHARED_MEMORY)
        counters = self.receive_counters
        counters.received += 1
        counters.decoded[type(message)] += 1
        return MessageReceived(message, reliable)

    def _reject(self, message: NetworkMessage, reason: LossReason) -> MessageRejected:
        """Count a message as lost and wrap it as rejected."""
        self.receive_counters.count_lost(reason)
        return MessageRejected(message, reason)


def _has_unknown_extension(message: Message) -> bool:
    """Whether a message, or one inside it, has an unknown mandatory extension."""
    if any(extension.mandatory for extension in getattr(message, "exts", ())):
        return True
    body = getattr(message, "body", None)
    return isinstance(body, Message) and _has_unknown_extension(body)


def _length_at(decoder: BatchDecoder) -> int:
    """Length in bytes that the batch announces at which a decoder stopped."""
    width = 4 if decoder.framing is Framing.BARE else 2
    return int.from_bytes(decoder.data[decoder.pos : decoder.pos + width], "little")
