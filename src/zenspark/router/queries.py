"""Requests in flight: each goes out in copies with ids of their own and ends in exactly one RESPONSE_FINAL."""

from __future__ import annotations

import msgspec

from zenspark.router.face import Face
from zenspark.wire.values import QoS


class Pending(msgspec.Struct, eq=False):
    """One request somebody waits for, and the copies of it that are still out."""

    origin: Face
    origin_id: int
    qos: QoS
    deadline: float
    budget: int
    """How many more responses the asker accepts; 0 for any number."""
    copies: set[tuple[Face, int]] = msgspec.field(default_factory=set)


class Queries:
    """Every request in flight, found by the copy that is answered."""

    def __init__(self) -> None:
        self._copies: dict[tuple[Face, int], Pending] = {}

    def add(self, pending: Pending) -> None:
        """Remember a request and its copies."""
        self._copies.update(dict.fromkeys(pending.copies, pending))

    def find(self, face: Face, number: int) -> Pending | None:
        """The request a copy belongs to."""
        return self._copies.get((face, number))

    def finish(self, face: Face, number: int) -> Pending | None:
        """A copy has been answered, or never will be; the request if that was the last one."""
        pending = self._copies.pop((face, number), None)
        if pending is None:
            return None
        pending.copies.discard((face, number))
        return None if pending.copies else pending

    def drop(self, pending: Pending) -> None:
        """Forget a request with all its copies."""
        for copy in pending.copies:
            self._copies.pop(copy, None)
        pending.copies.clear()

    def to(self, face: Face) -> list[int]:
        """The ids of the copies a face has not answered."""
        return [number for holder, number in self._copies if holder is face]

    def of(self, face: Face) -> list[Pending]:
        """The requests a face waits for."""
        return [pending for pending in dict.fromkeys(self._copies.values()) if pending.origin is face]

    def next_deadline(self) -> float | None:
        """When the first request runs out of time."""
        return min((pending.deadline for pending in self._copies.values()), default=None)

    def expired(self, now: float) -> list[Pending]:
        """The requests that have run out of time."""
        return [pending for pending in dict.fromkeys(self._copies.values()) if pending.deadline <= now]
