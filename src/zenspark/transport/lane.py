"""Receiving lane: the messages of one priority and reliability in one direction, in order.

Frames and fragments of a lane share one sequence (protocol section 7.1). Sequence numbers may be skipped, even on
reliable lanes: there is no retransmission. A number that is not newer than the last is a repetition and is discarded.
Failures of fragmented messages (7.6): a fragment is missing, another message interrupts, the sender stops half way.
Then that message is lost, and only that one; `ReassemblyAborted` reports it.

Every loss is counted once in `ReceiveCounters`. Numbers missing before a continuing fragment belong to the message that
the fragment continues, which is counted as lost itself; all others are a gap, except for one number after a fragment:
eclipse-zenoh leaves one number unused after each fragmented message.
"""

from __future__ import annotations

import msgspec

from zenspark.errors import LimitExceeded
from zenspark.transport.counters import LossReason, ReceiveCounters
from zenspark.transport.reassembly import MAX_MESSAGE_BYTES, ReassemblyPool, ReassemblyShare
from zenspark.wire.columns import BatchDecoder, PushColumns, ReassembledMessage, join_fragments
from zenspark.wire.messages import Fragment, Frame, NetworkMessage

OUT_OF_MEMORY = (LossReason.MEMORY, "reassembly memory limit reached")
"""Reason to discard a message that is not too large by itself."""


class ReassemblyAborted(msgspec.Struct, frozen=True):
    """A fragmented message that will not be delivered: fragments and bytes received so far, and the reason."""

    fragments: int
    size: int
    text: str


class Reassembled(msgspec.Struct, frozen=True):
    """Bytes of one network message joined from its fragments."""

    data: bytes | bytearray
    fragments: int


class OutOfOrder(msgspec.Struct, frozen=True):
    """A frame or fragment whose sequence number is not newer than the last one."""

    sn: int
    last: int


LaneEvent = NetworkMessage | Reassembled | ReassemblyAborted | OutOfOrder


def next_sn(sn: int, mask: int) -> int:
    """Sequence number that follows `sn`."""
    return (sn + 1) & mask


def is_newer_sn(last: int, sn: int, mask: int) -> bool:
    """Whether a sequence number is in the half of the circle after the last one."""
    return 0 < (sn - last) & mask <= mask >> 1


class Defragmenter:
    """Reassembles one fragmented message after the other; counts the messages it discards in `receive_counters`."""

    def __init__(
        self,
        mask: int,
        patch: int,
        limit: int = MAX_MESSAGE_BYTES,
        counters: ReceiveCounters | None = None,
        share: ReassemblyShare | None = None,
    ) -> None:
        self.receive_counters = ReceiveCounters() if counters is None else counters
        self._share = ReassemblyPool().new_share() if share is None else share
        self.mask = mask
        self.has_first_markers = patch >= 1
        """Whether the first fragment of a message is marked as such (patch 1)."""
        self.limit = limit
        self._fragments = 0
        self._data = bytearray()
        self._expected = 0
        self._is_loss_reported = False  # whether the loss of the current message was reported

    @property
    def pending(self) -> int:
        """Fragments of the unfinished message."""
        return self._fragments

    def receive(self, fragment: Fragment) -> list[Reassembled | ReassemblyAborted]:
        """Add a fragment whose sequence number was accepted."""
        events: list[Reassembled | ReassemblyAborted] = []
        if self.has_first_markers and fragment.first:
            events += self.abandon(LossReason.INTERRUPTED, "interrupted by another message")
            self._is_loss_reported = False
        problem = self._problem(fragment)
        if problem is None and not self._share.reserve(len(fragment.payload), self):
            problem = OUT_OF_MEMORY
        if problem is not None:
            return events + self._discard(fragment, *problem)
        self._is_loss_reported = False
        self._fragments += 1
        self._data += fragment.payload
        self._expected = next_sn(fragment.sn, self.mask)
        if not fragment.more:
            events.append(Reassembled(self._data, self._fragments))
            self._clear()
        return events

    def join(self, decoder: BatchDecoder, columns: PushColumns, sn: int) -> ReassembledMessage | None:
        """Join the messages that begin with this sequence number and are complete in a buffer, without decoding each
        fragment; None if there is none.

        The object codec reads the remaining fragments for `receive`, which handles all failures.
        """
        if self._fragments:
            return None
        reassembled: ReassembledMessage | None = join_fragments(
            decoder, columns, sn, self.mask, self.has_first_markers, self.limit
        )
        if reassembled is not None:
            self._is_loss_reported = False
        return reassembled

    def _problem(self, fragment: Fragment) -> tuple[LossReason, str] | None:
        """Reason a fragment cannot be appended to those before it; None if it can."""
        if self.has_first_markers and not fragment.first and not self._fragments:
            return LossReason.FIRST_FRAGMENT_MISSING, "first fragment missing"
        if self.has_first_markers and fragment.drop:
            return LossReason.STOPPED_BY_SENDER, "stopped by the sender"
        if self._fragments and fragment.sn != self._expected:
            text = f"fragment missing: expected sequence number {self._expected}, found {fragment.sn}"
            return LossReason.FRAGMENT_MISSING, text
        if len(self._data) + len(fragment.payload) > self.limit:
            return LossReason.TOO_LARGE, f"larger than {self.limit} bytes"
        return None

    def _discard(self, fragment: Fragment, reason: LossReason, text: str) -> list[Reassembled | ReassemblyAborted]:
        lost = self.abandon(reason, text)
        if not lost and not self._is_loss_reported:
            self.receive_counters.count_lost(reason)
            lost = [ReassemblyAborted(1, len(fragment.payload), text)]
        self._is_loss_reported = fragment.more
        return lost

    def abandon(self, reason: LossReason, text: str) -> list[Reassembled | ReassemblyAborted]:
        """Discard the unfinished message and count it; the event that reports it, if there was one."""
        if not self._fragments:
            return []
        self.receive_counters.count_lost(reason)
        lost = ReassemblyAborted(self._fragments, len(self._data), text)
        self._clear()
        return [lost]

    def evict(self) -> None:
        """Discard the unfinished message and its fragments still to come: the memory is needed by other peers."""
        self.abandon(*OUT_OF_MEMORY)
        self._is_loss_reported = True

    def forget(self) -> None:
        """Discard the unfinished message without counting: its session has closed."""
        self._clear()

    def is_first_fragment(self, fragment: Fragment) -> bool:
        """Whether a fragment is the first of a message."""
        return fragment.first if self.has_first_markers else not self._fragments

    def _clear(self) -> None:
        self._share.release(len(self._data), self)
        self._fragments = 0
        self._data = bytearray()


class ReceivingLane:
    """Receiving end of a lane: frames and fragments in, network messages or reassembled bytes out.

    `last` is the number before the first one expected, None to accept any first number.
    """

    def __init__(self, last: int | None, defragmenter: Defragmenter) -> None:
        self.last = last
        self.mask = defragmenter.mask
        self.defragmenter = defragmenter
        self._is_after_fragment = False
        """Whether a fragment was accepted last."""

    @classmethod
    def beginning(cls, initial_sn: int, defragmenter: Defragmenter) -> ReceivingLane:
        """Lane whose initial sequence number was announced."""
        return cls((initial_sn - 1) & defragmenter.mask, defragmenter)

    def accept_frame(self, sn: int) -> bool:
        """Accept a frame: advance the sequence number and discard an unfinished fragmented message. False if the number
        of the frame is not newer."""
        last = self.last
        if last is not None and sn == (last + 1) & self.mask:  # the common case
            self.last = sn
        elif not self._accept(sn):
            return False
        if self._is_after_fragment:
            self._abort_reassembly()
        return True

    def join(self, decoder: BatchDecoder, columns: PushColumns) -> ReassembledMessage | None:
        """Join the messages that are complete in a buffer, from a fragment of this lane on; None if there is none."""
        if self.last is None:
            return None
        reassembled = self.defragmenter.join(decoder, columns, next_sn(self.last, self.mask))
        if reassembled is not None:
            self.last = reassembled.sn
            self._is_after_fragment = True
        return reassembled

    def receive_fragment(self, fragment: Fragment) -> list[Reassembled | ReassemblyAborted] | None:
        """Handle the next fragment of this lane; None if its number is not newer."""
        if not self._accept(fragment.sn, self.defragmenter.is_first_fragment(fragment)):
            return None
        self._is_after_fragment = True
        return self.defragmenter.receive(fragment)

    def receive(self, message: Frame | Fragment) -> list[LaneEvent]:
        """Handle the next frame or fragment of this lane, which is decoded already; only `capture` calls this."""
        last = self.last
        if isinstance(message, Fragment):
            received = self.receive_fragment(message)
            if received is not None:
                return [*received]
        elif self._accept(message.sn):
            return [*self._abort_reassembly(), *message.msgs]
        assert last is not None
        return [OutOfOrder(message.sn, last)]

    def _accept(self, sn: int, begins: bool = True) -> bool:
        """Accept a frame or fragment: advance the sequence number. False if the number of the message is not newer.

        `begins` is True for a frame and the first fragment of a message: numbers missing before it are a gap.
        """
        if sn > self.mask:
            raise LimitExceeded(sn, self.mask, "sequence number")
        if self.last is not None:
            skipped = (sn - self.last - 1) & self.mask
            if skipped:
                if not is_newer_sn(self.last, sn, self.mask):
                    return False
                if begins:
                    self._skip(skipped)
        self.last = sn
        return True

    def _skip(self, count: int) -> None:
        """Count skipped numbers, except the one that may be unused after fragments."""
        missing = count - 1 if self._is_after_fragment else count
        if missing:
            self.defragmenter.receive_counters.count_lost(LossReason.SEQUENCE_GAP, missing)

    def _abort_reassembly(self) -> list[Reassembled | ReassemblyAborted]:
        self._is_after_fragment = False
        return self.defragmenter.abandon(LossReason.INTERRUPTED, "interrupted by a frame")
