"""One lane: the messages of one priority and reliability in one direction, in order.

A lane counts its frames and fragments together (protocol.md, section 7.1). Numbers may be skipped, even on reliable
lanes: nothing is sent twice and nobody waits. A number that does not lie ahead belongs to something old and is
dropped. What can go wrong with fragments (7.6): one is missing, another message comes in between, the sender gives
up half way. Then that message is lost, and only that one; `ReassemblyAborted` tells of it.

Everything lost is counted once in `ReceiveCounters`. Numbers missing in front of a fragment that continues a message belong to
that message, which is counted as lost itself; all others are a gap, except for one behind a fragment: eclipse-zenoh
leaves a number unused behind each message that it cut into fragments.
"""

from __future__ import annotations

import msgspec

from zenspark.errors import LimitExceeded
from zenspark.transport.counters import LossReason, ReceiveCounters
from zenspark.transport.reassembly import ReassemblyPool, ReassemblyShare
from zenspark.wire.columns import Columns, Cursor, Whole
from zenspark.wire.messages import Fragment, Frame, NetworkMessage

MAX_MESSAGE_BYTES = 1 << 30
"""What a fragmented message may grow to unless told otherwise: it is held in memory until its last piece is here."""


OUT_OF_MEMORY = (LossReason.MEMORY, "unfinished messages take too much memory")
"""Why a message is given up that is not too large by itself."""


class ReassemblyAborted(msgspec.Struct, frozen=True):
    """A fragmented message that will not be delivered: how many pieces and bytes of it had come, and why it ends."""

    pieces: int
    size: int
    why: str


class Reassembled(msgspec.Struct, frozen=True):
    """The bytes of one network message that came in pieces."""

    data: bytes | bytearray
    pieces: int


class OutOfOrder(msgspec.Struct, frozen=True):
    """A frame or fragment whose number does not lie ahead of the one before it."""

    sn: int
    last: int


LaneEvent = NetworkMessage | Reassembled | ReassemblyAborted | OutOfOrder


def next_sn(sn: int, mask: int) -> int:
    """The number that follows."""
    return (sn + 1) & mask


def is_newer_sn(last: int, sn: int, mask: int) -> bool:
    """Whether a number is in the half of the circle after the last one."""
    return 0 < (sn - last) & mask <= mask >> 1


class Defragmenter:
    """Joins the pieces of one message after the other; counts the messages it gives up in `arrivals`."""

    def __init__(
        self,
        mask: int,
        patch: int,
        limit: int = MAX_MESSAGE_BYTES,
        arrivals: ReceiveCounters | None = None,
        share: ReassemblyShare | None = None,
    ) -> None:
        self.arrivals = ReceiveCounters() if arrivals is None else arrivals
        self._share = ReassemblyPool().share() if share is None else share
        self.mask = mask
        self.marked = patch >= 1
        """Whether the first piece of a message says that it is the first."""
        self.limit = limit
        self._pieces = 0
        self._data = bytearray()
        self._expected = 0
        self._told = False  # whether somebody knows already that the message at hand is lost

    @property
    def pending(self) -> int:
        """How many pieces of a message wait here for the others."""
        return self._pieces

    def receive(self, piece: Fragment) -> list[Reassembled | ReassemblyAborted]:
        """Take a piece whose number was accepted."""
        events: list[Reassembled | ReassemblyAborted] = []
        if self.marked and piece.first:
            events += self.abandon(LossReason.INTERRUPTED, "another message began")
            self._told = False
        problem = self._problem(piece)
        if problem is None and not self._share.take(len(piece.payload), self):
            problem = OUT_OF_MEMORY
        if problem is not None:
            return events + self._refuse(piece, *problem)
        self._told = False
        self._pieces += 1
        self._data += piece.payload
        self._expected = next_sn(piece.sn, self.mask)
        if not piece.more:
            events.append(Reassembled(self._data, self._pieces))
            self._clear()
        return events

    def join(self, cursor: Cursor, columns: Columns, sn: int) -> Whole | None:
        """Take what begins with this number and is whole in a buffer, without looking at each piece; None if none is.

        What is left there, the object codec reads for `receive`, which knows all that can go wrong.
        """
        if self._pieces:
            return None
        whole: Whole | None = cursor.join(columns, sn, self.mask, self.marked, self.limit)
        if whole is not None:
            self._told = False
        return whole

    def _problem(self, piece: Fragment) -> tuple[LossReason, str] | None:
        """Why a piece cannot be added to those before it; None if it can."""
        if self.marked and not piece.first and not self._pieces:
            return LossReason.FIRST_FRAGMENT_MISSING, "its beginning is missing"
        if self.marked and piece.drop:
            return LossReason.STOPPED_BY_SENDER, "the sender gave it up"
        if self._pieces and piece.sn != self._expected:
            text = f"a piece is missing: expected sequence number {self._expected}, found {piece.sn}"
            return LossReason.FRAGMENT_MISSING, text
        if len(self._data) + len(piece.payload) > self.limit:
            return LossReason.TOO_LARGE, f"it is larger than {self.limit} bytes"
        return None

    def _refuse(self, piece: Fragment, reason: LossReason, why: str) -> list[Reassembled | ReassemblyAborted]:
        lost = self.abandon(reason, why)
        if not lost and not self._told:
            self.arrivals.lose(reason)
            lost = [ReassemblyAborted(1, len(piece.payload), why)]
        self._told = piece.more
        return lost

    def abandon(self, reason: LossReason, why: str) -> list[Reassembled | ReassemblyAborted]:
        """Give up a message that was begun, and count it; the event that tells of it, if there was one."""
        if not self._pieces:
            return []
        self.arrivals.lose(reason)
        lost = ReassemblyAborted(self._pieces, len(self._data), why)
        self._clear()
        return [lost]

    def evict(self) -> None:
        """Give up the message at hand, and what still comes of it: others need the memory."""
        self.abandon(*OUT_OF_MEMORY)
        self._told = True

    def forget(self) -> None:
        """Forget the message at hand: its session is over."""
        self._clear()

    def begins(self, piece: Fragment) -> bool:
        """Whether a piece is the first of a message."""
        return piece.first if self.marked else not self._pieces

    def _clear(self) -> None:
        self._share.give_back(len(self._data), self)
        self._pieces = 0
        self._data = bytearray()


class ReceivingLane:
    """The receiving end of a lane: frames and fragments in, network messages (whole, or joined bytes) out.

    `last` is the number before the first one expected, None to begin with whatever comes.
    """

    def __init__(self, last: int | None, defragmenter: Defragmenter) -> None:
        self.last = last
        self.mask = defragmenter.mask
        self.defragmenter = defragmenter
        self._is_behind_fragment = False
        """Whether what was accepted last is a fragment."""

    @classmethod
    def beginning(cls, initial_sn: int, defragmenter: Defragmenter) -> ReceivingLane:
        """A lane whose first number was announced."""
        return cls((initial_sn - 1) & defragmenter.mask, defragmenter)

    def enter_frame(self, sn: int) -> bool:
        """Whether a frame with this number is new; if so, a message that was begun in fragments is given up."""
        last = self.last
        if last is not None and sn == (last + 1) & self.mask:  # as nearly always
            self.last = sn
        elif not self._accept(sn):
            return False
        if self._is_behind_fragment:
            self._end_fragments()
        return True

    def join(self, cursor: Cursor, columns: Columns) -> Whole | None:
        """Take the messages that are whole in a buffer, from a fragment of this lane on; None if there are none."""
        if self.last is None:
            return None
        whole = self.defragmenter.join(cursor, columns, next_sn(self.last, self.mask))
        if whole is not None:
            self.last = whole.sn
            self._is_behind_fragment = True
        return whole

    def receive_fragment(self, fragment: Fragment) -> list[Reassembled | ReassemblyAborted] | None:
        """Take the next fragment of this lane; None if its number does not lie ahead."""
        if not self._accept(fragment.sn, self.defragmenter.begins(fragment)):
            return None
        self._is_behind_fragment = True
        return self.defragmenter.receive(fragment)

    def receive(self, message: Frame | Fragment) -> list[LaneEvent]:
        """Take the next frame or fragment of this lane."""
        last = self.last
        if isinstance(message, Fragment):
            received = self.receive_fragment(message)
            if received is not None:
                return [*received]
        elif self._accept(message.sn):
            return [*self._end_fragments(), *message.msgs]
        assert last is not None
        return [OutOfOrder(message.sn, last)]

    def _accept(self, sn: int, begins: bool = True) -> bool:
        """Whether what carries this number is new; if so, the next must lie ahead of it.

        `begins` tells whether it is a frame or the first fragment of a message: numbers missing before that are a gap.
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
        """Count numbers that were skipped, but for the one that may be unused behind fragments."""
        missing = count - 1 if self._is_behind_fragment else count
        if missing:
            self.defragmenter.arrivals.lose(LossReason.SEQUENCE_GAP, missing)

    def _end_fragments(self) -> list[Reassembled | ReassemblyAborted]:
        self._is_behind_fragment = False
        return self.defragmenter.abandon(LossReason.INTERRUPTED, "a frame came in between")
