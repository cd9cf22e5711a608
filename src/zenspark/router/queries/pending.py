"""Requests in flight: each goes out in copies with ids of their own and ends in exactly one RESPONSE_FINAL."""

from __future__ import annotations

import msgspec

from zenspark.router.deadlines import Deadlines
from zenspark.router.face import Face
from zenspark.wire.values import QoS

INFINITE = float("inf")


class PendingQuery(msgspec.Struct, eq=False):
    """One request somebody waits for, and the copies of it that are still out."""

    origin: Face
    origin_id: int
    qos: QoS
    final_qos: QoS
    """That of its RESPONSE_FINAL, which no RESPONSE may come after."""
    deadline: float
    budget: int
    """How many more responses the asker accepts; 0 for any number."""
    key: str
    """What is asked for, as it stands in the errors of this node."""
    branches: set[tuple[Face, int]] = msgspec.field(default_factory=set)


class PendingQueries:
    """Every request in flight, found by the copy that is answered, by who asked and by who owes an answer."""

    def __init__(self) -> None:
        self._copies: dict[Face, dict[int, PendingQuery]] = {}
        self._asked: dict[Face, dict[PendingQuery, None]] = {}
        self._deadlines: Deadlines[PendingQuery] = Deadlines(lambda pending, _: bool(pending.branches))

    def add(self, pending: PendingQuery) -> None:
        """Remember a request and its copies."""
        for face, number in pending.branches:
            self._copies_of(face)[number] = pending
        self._asked.setdefault(pending.origin, {})[pending] = None
        if pending.deadline < INFINITE:
            self._deadlines.add(pending, pending.deadline)

    def _copies_of(self, face: Face) -> dict[int, PendingQuery]:
        copies = self._copies.get(face)
        if copies is None:
            copies = self._copies[face] = {}
            face.in_flight.append(copies)
        return copies

    def find(self, face: Face, number: int) -> PendingQuery | None:
        """The request a copy belongs to."""
        return self._copies.get(face, {}).get(number)

    def finish(self, face: Face, number: int) -> PendingQuery | None:
        """A copy has been answered, or never will be; the request if that was the last one."""
        pending = self._copies.get(face, {}).pop(number, None)
        if pending is None:
            return None
        pending.branches.discard((face, number))
        if pending.branches:
            return None
        self._forget(pending)
        return pending

    def drop(self, pending: PendingQuery) -> None:
        """Forget a request with all its copies."""
        for face, number in pending.branches:
            del self._copies[face][number]
        pending.branches.clear()
        self._forget(pending)

    def _forget(self, pending: PendingQuery) -> None:
        del self._asked[pending.origin][pending]

    def leave(self, face: Face) -> None:
        """A face is gone, after all its requests and copies."""
        self._copies.pop(face, None)
        self._asked.pop(face, None)

    def count(self, face: Face) -> int:
        """How many requests a face waits for."""
        return len(self._asked.get(face, ()))

    def to(self, face: Face) -> list[int]:
        """The ids of the copies a face has not answered."""
        return list(self._copies.get(face, ()))

    def of(self, face: Face) -> list[PendingQuery]:
        """The requests a face waits for."""
        return list(self._asked.get(face, ()))

    def next_deadline(self) -> float | None:
        """When the first request runs out of time."""
        return self._deadlines.next()

    def expired(self, now: float) -> list[PendingQuery]:
        """The requests that have run out of time."""
        return self._deadlines.due(now)
