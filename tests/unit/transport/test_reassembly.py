"""Memory for fragments: bounded for one neighbour and for all, taken from those that hold most, and given back."""

from __future__ import annotations

from zenspark.transport.counters import LossReason, ReceiveCounters
from zenspark.transport.lane import Defragmenter, Reassembled, ReassemblyAborted
from zenspark.transport.reassembly import ReassemblyPool, ReassemblyShare
from zenspark.wire.messages import Fragment

MASK = 0xFFFF_FFFF


class Lane:
    """A lane that gets fragments one after the other."""

    def __init__(self, share: ReassemblyShare) -> None:
        self.receive_counters = ReceiveCounters()
        self.pieces = Defragmenter(MASK, 1, 1 << 30, self.receive_counters, share)
        self._sn = 0

    def receive(self, size: int, first: bool = False, more: bool = True) -> list[Reassembled | ReassemblyAborted]:
        self._sn += 1
        piece = Fragment(reliable=True, sn=self._sn, first=first, more=more, payload=bytes(size))
        return self.pieces.receive(piece)

    @property
    def lost(self) -> int:
        return self.receive_counters.lost.get(LossReason.MEMORY, 0)


def test_one_neighbour_has_a_limit_over_all_its_lanes() -> None:
    pool = ReassemblyPool(session_limit=1000, limit=5000)
    share = pool.new_share()
    one, other = Lane(share), Lane(share)
    one.receive(600, first=True)
    (lost,) = other.receive(600, first=True)
    assert isinstance(lost, ReassemblyAborted)
    assert other.receive(600) == []  # the rest of the same message
    assert (one.lost, other.lost, pool.used) == (0, 1, 600)
    (joined,) = one.receive(400, more=False)
    assert isinstance(joined, Reassembled)
    assert (len(joined.data), pool.used, share.used) == (1000, 0, 0)
    other.receive(0, more=False)
    other.receive(600, first=True)
    (joined,) = other.receive(1, more=False)
    assert isinstance(joined, Reassembled)


def test_largest_holder_is_evicted_for_others() -> None:
    pool = ReassemblyPool(session_limit=1000, limit=2000)
    greedy, modest, honest = Lane(pool.new_share()), Lane(pool.new_share()), Lane(pool.new_share())
    greedy.receive(1000, first=True)
    modest.receive(900, first=True)
    honest.receive(300, first=True)
    assert (greedy.lost, modest.lost, honest.lost) == (1, 0, 0)
    assert greedy.receive(1, more=False) == []  # its end means nothing any more, and is not counted again
    assert greedy.lost == 1
    assert pool.used == 1200
    greedy.receive(800, first=True)
    (joined,) = honest.receive(700, more=False)
    assert isinstance(joined, Reassembled)
    assert modest.lost == 1  # it held most by then


def test_largest_holder_gets_no_more_memory() -> None:
    pool = ReassemblyPool(session_limit=1000, limit=1000)
    one, other = Lane(pool.new_share()), Lane(pool.new_share())
    one.receive(600, first=True)
    other.receive(300, first=True)
    one.receive(200)
    assert (one.lost, other.lost, pool.used) == (1, 0, 300)


def test_closed_session_releases_memory_without_counting_losses() -> None:
    pool = ReassemblyPool(session_limit=1000, limit=1000)
    share = pool.new_share()
    one, other = Lane(share), Lane(share)
    one.receive(600, first=True)
    other.receive(300, first=True)
    share.end()
    assert (one.lost, other.lost, pool.used, share.used) == (0, 0, 0, 0)
    assert one.pieces.pending == 0


def test_aborted_message_releases_memory() -> None:
    pool = ReassemblyPool(session_limit=1000, limit=1000)
    one = Lane(pool.new_share())
    one.receive(600, first=True)
    one.receive(10, first=True)
    assert pool.used == 10
