"""Reassembly memory for fragmented messages: bounded per neighbour, and for all neighbours together.

A fragment is held until the last one of its message arrives, and nothing makes a neighbour send that one. When all
neighbours together hold too much, the one that holds most loses its unfinished messages: neighbours that begin messages
and do not finish them must not keep others from sending large ones.
"""

from __future__ import annotations

from typing import Protocol

MAX_MESSAGE_BYTES = 1 << 30
"""Default limit of the size of a message: a fragmented one is held in memory until its last fragment has arrived."""
MAX_REASSEMBLY_BYTES_PER_NEIGHBOUR = MAX_MESSAGE_BYTES
"""Bytes in unfinished messages of one neighbour, over all its priorities: one message of the largest size."""
MAX_LARGEST_MESSAGES_IN_REASSEMBLY = 2
"""Messages of the largest size, of different neighbours, that may be unfinished at a time, unless a total is
configured."""
MAX_REASSEMBLY_BYTES = MAX_LARGEST_MESSAGES_IN_REASSEMBLY * MAX_REASSEMBLY_BYTES_PER_NEIGHBOUR
"""Bytes in unfinished messages of all neighbours."""


class FragmentHolder(Protocol):
    """A lane that holds fragments."""

    def evict(self) -> None:
        """Discard the unfinished message, and count it as lost: its memory is needed by other neighbours."""

    def forget(self) -> None:
        """Discard the unfinished message: its session has closed."""


class ReassemblyPool:
    """Reassembly memory of all neighbours of a node. Not thread-safe."""

    def __init__(
        self, session_limit: int = MAX_REASSEMBLY_BYTES_PER_NEIGHBOUR, limit: int = MAX_REASSEMBLY_BYTES
    ) -> None:
        self.session_limit = session_limit
        self.limit = limit
        self.used = 0
        self._shares: set[ReassemblyShare] = set()

    def new_share(self) -> ReassemblyShare:
        """Make the share of one more neighbour."""
        return ReassemblyShare(self)

    def ensure_capacity(self, size: int, share: ReassemblyShare) -> bool:
        """Whether a neighbour may hold `size` more bytes; evicts neighbours that hold more if necessary."""
        while self.used + size > self.limit:
            largest = max(self._shares, key=lambda other: other.used, default=share)
            if largest is share or largest.used <= share.used:
                return False
            largest.evict()
        return True

    def change(self, share: ReassemblyShare, size: int) -> None:
        """Account for a change of the bytes a neighbour holds."""
        self.used += size
        if share.used:
            self._shares.add(share)
        else:
            self._shares.discard(share)


class ReassemblyShare:
    """Reassembly memory of one neighbour."""

    def __init__(self, pool: ReassemblyPool) -> None:
        self._pool = pool
        self._holders: dict[FragmentHolder, None] = {}
        self.used = 0

    def reserve(self, size: int, holder: FragmentHolder) -> bool:
        """Reserve bytes for a lane; False if the limits do not allow it."""
        if self.used + size > self._pool.session_limit or not self._pool.ensure_capacity(size, self):
            return False
        self._holders[holder] = None
        self._change(size)
        return True

    def release(self, size: int, holder: FragmentHolder) -> None:
        """Release all bytes of a lane."""
        self._holders.pop(holder, None)
        self._change(-size)

    def _change(self, size: int) -> None:
        self.used += size
        self._pool.change(self, size)

    def evict(self) -> None:
        """Discard the unfinished messages of all lanes of the neighbour."""
        for holder in list(self._holders):
            holder.evict()

    def end(self) -> None:
        """Discard the unfinished messages of a neighbour whose session has closed."""
        for holder in list(self._holders):
            holder.forget()
