"""One lane: the messages of one priority and reliability in one direction, in order.

A lane counts its frames and fragments together (protocol.md, section 7.1). Numbers may be skipped, even on reliable
lanes: nothing is sent twice and nobody waits. A number that does not lie ahead belongs to something old and is
dropped. What can go wrong with fragments (7.6): one is missing, another message comes in between, the sender gives
up half way. Then that message is lost, and only that one; `Abandoned` tells of it.
"""

from __future__ import annotations

import msgspec

from zenspark.errors import LimitExceeded
from zenspark.wire.columns import Columns, Cursor, Whole
from zenspark.wire.messages import Fragment, Frame, NetworkMessage

MAX_MESSAGE_SIZE = 1 << 30
"""What a fragmented message may grow to unless told otherwise: it is held in memory until its last piece is here."""


class Abandoned(msgspec.Struct, frozen=True):
    """A fragmented message that will not be delivered: how many pieces and bytes of it had come, and why it ends."""

    pieces: int
    size: int
    why: str


class Joined(msgspec.Struct, frozen=True):
    """The bytes of one network message that came in pieces."""

    data: bytes | bytearray
    pieces: int


class Skipped(msgspec.Struct, frozen=True):
    """A frame or fragment whose number does not lie ahead of the one before it."""

    sn: int
    last: int


Received = NetworkMessage | Joined | Abandoned | Skipped


def next_sn(sn: int, mask: int) -> int:
    """The number that follows."""
    return (sn + 1) & mask


def lies_ahead(last: int, sn: int, mask: int) -> bool:
    """Whether a number is in the half of the circle after the last one."""
    return 0 < (sn - last) & mask <= mask >> 1


class Defragmenter:
    """Joins the pieces of one message after the other."""

    def __init__(self, mask: int, patch: int, limit: int = MAX_MESSAGE_SIZE) -> None:
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

    def receive(self, piece: Fragment) -> list[Joined | Abandoned]:
        """Take a piece whose number was accepted."""
        events: list[Joined | Abandoned] = []
        if self.marked and piece.first:
            events += self.abandon("another message began")
            self._told = False
        problem = self._problem(piece)
        if problem:
            return events + self._refuse(piece, problem)
        self._told = False
        self._pieces += 1
        self._data += piece.payload
        self._expected = next_sn(piece.sn, self.mask)
        if not piece.more:
            events.append(Joined(self._data, self._pieces))
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

    def _problem(self, piece: Fragment) -> str:
        if self.marked and not piece.first and not self._pieces:
            return "its beginning is missing"
        if self.marked and piece.drop:
            return "the sender gave it up"
        if self._pieces and piece.sn != self._expected:
            return f"a piece is missing: expected sequence number {self._expected}, found {piece.sn}"
        if len(self._data) + len(piece.payload) > self.limit:
            return f"it is larger than {self.limit} bytes"
        return ""

    def _refuse(self, piece: Fragment, problem: str) -> list[Joined | Abandoned]:
        lost = self.abandon(problem)
        if not lost and not self._told:
            lost = [Abandoned(1, len(piece.payload), problem)]
        self._told = piece.more
        return lost

    def abandon(self, why: str) -> list[Joined | Abandoned]:
        """Forget a message that was begun, and tell of it."""
        if not self._pieces:
            return []
        lost = Abandoned(self._pieces, len(self._data), why)
        self._clear()
        return [lost]

    def _clear(self) -> None:
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

    @classmethod
    def beginning(cls, initial_sn: int, defragmenter: Defragmenter) -> ReceivingLane:
        """A lane whose first number was announced."""
        return cls((initial_sn - 1) & defragmenter.mask, defragmenter)

    def accept(self, sn: int) -> bool:
        """Whether what carries this number is new; if so, the next must lie ahead of it."""
        if sn > self.mask:
            raise LimitExceeded(sn, self.mask, "sequence number")
        if self.last is not None and not lies_ahead(self.last, sn, self.mask):
            return False
        self.last = sn
        return True

    def join(self, cursor: Cursor, columns: Columns) -> Whole | None:
        """Take the messages that are whole in a buffer, from a fragment of this lane on; None if there are none."""
        if self.last is None:
            return None
        whole = self.defragmenter.join(cursor, columns, next_sn(self.last, self.mask))
        if whole is not None:
            self.last = whole.sn
        return whole

    def receive(self, message: Frame | Fragment) -> list[Received]:
        """Take the next frame or fragment of this lane."""
        last = self.last
        if not self.accept(message.sn):
            assert last is not None
            return [Skipped(message.sn, last)]
        if isinstance(message, Fragment):
            return [*self.defragmenter.receive(message)]
        return [*self.defragmenter.abandon("a frame came in between"), *message.msgs]
