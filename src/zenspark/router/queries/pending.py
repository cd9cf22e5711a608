"""Pending queries: each is forwarded in branches with their own request ids, and ends in exactly one RESPONSE_FINAL."""

from __future__ import annotations

import msgspec

from zenspark.router.deadlines import Deadlines
from zenspark.router.face import Face
from zenspark.wire.values import QoS

INFINITE = float("inf")


class PendingQuery(msgspec.Struct, eq=False):
    """One query in flight, and its branches that have not ended."""

    origin: Face
    origin_id: int
    qos: QoS
    final_qos: QoS
    """QoS of its RESPONSE_FINAL, which no RESPONSE may overtake."""
    deadline: float
    budget: int
    """Responses the querier still accepts; 0 for any number."""
    key: str
    """Key expression of the query, for error responses of this node."""
    branches: set[tuple[Face, int]] = msgspec.field(default_factory=set)


class PendingQueries:
    """Every query in flight: by branch, by origin and by target."""

    def __init__(self) -> None:
        self._branches: dict[Face, dict[int, PendingQuery]] = {}
        self._by_origin: dict[Face, dict[PendingQuery, None]] = {}
        self._deadlines: Deadlines[PendingQuery] = Deadlines(lambda pending, _: bool(pending.branches))

    def add(self, pending: PendingQuery) -> None:
        """Add a query and its branches."""
        for face, request_id in pending.branches:
            self._branches_of(face)[request_id] = pending
        self._by_origin.setdefault(pending.origin, {})[pending] = None
        if pending.deadline < INFINITE:
            self._deadlines.add(pending, pending.deadline)

    def _branches_of(self, face: Face) -> dict[int, PendingQuery]:
        branches = self._branches.get(face)
        if branches is None:
            branches = self._branches[face] = {}
            face.in_flight.append(branches)
        return branches

    def find(self, face: Face, request_id: int) -> PendingQuery | None:
        """The query a branch belongs to."""
        return self._branches.get(face, {}).get(request_id)

    def end_branch(self, face: Face, request_id: int) -> PendingQuery | None:
        """End a branch; returns the query if that was its last one."""
        pending = self._branches.get(face, {}).pop(request_id, None)
        if pending is None:
            return None
        pending.branches.discard((face, request_id))
        if pending.branches:
            return None
        self._remove_origin(pending)
        return pending

    def remove(self, pending: PendingQuery) -> None:
        """Remove a query with all its branches."""
        for face, request_id in pending.branches:
            del self._branches[face][request_id]
        pending.branches.clear()
        self._remove_origin(pending)

    def _remove_origin(self, pending: PendingQuery) -> None:
        del self._by_origin[pending.origin][pending]

    def remove_face(self, face: Face) -> None:
        """Remove a face, after all its queries and branches."""
        self._branches.pop(face, None)
        self._by_origin.pop(face, None)

    def count(self, face: Face) -> int:
        """Pending queries of a face."""
        return len(self._by_origin.get(face, ()))

    def by_target(self, face: Face) -> list[int]:
        """Request ids of the branches a face has not ended."""
        return list(self._branches.get(face, ()))

    def by_origin(self, face: Face) -> list[PendingQuery]:
        """Pending queries of a face."""
        return list(self._by_origin.get(face, ()))

    def next_deadline(self) -> float | None:
        """Time at which the first query expires."""
        return self._deadlines.next()

    def pop_expired(self, now: float) -> list[PendingQuery]:
        """Remove the deadlines that have passed, and return their queries."""
        return self._deadlines.pop_due(now)
