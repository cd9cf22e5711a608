"""Memory for messages that come in fragments: bounded for each neighbour, and for all of them together.

A fragment is kept until the last one of its message is here, and nothing makes a neighbour send that one. When all
neighbours together hold too much, the one that holds most loses its unfinished messages: neighbours that begin messages
and do not finish them must not keep others from sending large ones.
"""

from __future__ import annotations

from typing import Protocol

MAX_SESSION_BYTES = 1 << 30
"""Bytes in unfinished messages of one neighbour, over all its priorities: one message of the largest size."""
MAX_LARGEST_MESSAGES = 2
"""How many such messages of different neighbours may be unfinished at a time, unless a total is configured."""
MAX_TOTAL_BYTES = MAX_LARGEST_MESSAGES * MAX_SESSION_BYTES
"""Bytes in unfinished messages of all neighbours."""


class FragmentHolder(Protocol):
    """A lane that holds fragments."""

    def evict(self) -> None:
        """Give up the message at hand, and count it as lost: its memory is needed for others."""

    def forget(self) -> None:
        """Forget the message at hand: its session is over."""


class ReassemblyPool:
    """What all neighbours of a node hold together. Only one thread at a time may use it."""

    def __init__(self, session_limit: int = MAX_SESSION_BYTES, limit: int = MAX_TOTAL_BYTES) -> None:
        self.session_limit = session_limit
        self.limit = limit
        self.used = 0
        self._shares: set[ReassemblyShare] = set()

    def share(self) -> ReassemblyShare:
        """The part of one more neighbour."""
        return ReassemblyShare(self)

    def make_room(self, size: int, share: ReassemblyShare) -> bool:
        """Whether there is room for more bytes of a neighbour, if necessary at the cost of those who hold more."""
        while self.used + size > self.limit:
            largest = max(self._shares, key=lambda each: each.used, default=share)
            if largest is share or largest.used <= share.used:
                return False
            largest.evict()
        return True

    def change(self, share: ReassemblyShare, size: int) -> None:
        """A neighbour holds more bytes, or fewer."""
        self.used += size
        if share.used:
            self._shares.add(share)
        else:
            self._shares.discard(share)


class ReassemblyShare:
    """What one neighbour holds."""

    def __init__(self, pool: ReassemblyPool) -> None:
        self._pool = pool
        self._holders: dict[FragmentHolder, None] = {}
        self.used = 0

    def take(self, size: int, holder: FragmentHolder) -> bool:
        """Whether a lane may hold more bytes; if so, it does."""
        if self.used + size > self._pool.session_limit or not self._pool.make_room(size, self):
            return False
        self._holders[holder] = None
        self._change(size)
        return True

    def give_back(self, size: int, holder: FragmentHolder) -> None:
        """A lane holds nothing any more."""
        self._holders.pop(holder, None)
        self._change(-size)

    def _change(self, size: int) -> None:
        self.used += size
        self._pool.change(self, size)

    def evict(self) -> None:
        """All lanes of the neighbour lose what they hold."""
        for holder in list(self._holders):
            holder.evict()

    def end(self) -> None:
        """The neighbour is gone, and with it what its lanes hold."""
        for holder in list(self._holders):
            holder.forget()
