"""Live interests of neighbours and of the local session: in current declarations, future ones, or both.

An interest of a downstream node is forwarded to every upstream node, because only those know the declarations beyond
them; its sender gets D_FINAL when all of them have replied, or are gone, or the timeout has passed.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from zenspark.key.tree import KeyTree
from zenspark.router.deadlines import Deadlines
from zenspark.router.face import DeclarationKind, Face, Region
from zenspark.wire.messages import Interest
from zenspark.wire.values import InterestMode

INTEREST_TIMEOUT_SECONDS = 10.0
"""Seconds to wait for upstream nodes: one that never replies must not delay D_FINAL forever."""


class LiveInterest(msgspec.Struct, eq=False):
    """One live interest of a face, and its ids at upstream nodes."""

    face: Face
    id: int
    mode: InterestMode
    kinds: frozenset[DeclarationKind]
    key: str | None
    aggregate: bool
    upstream_ids: dict[Face, int] = msgspec.field(default_factory=dict)
    """Id of this interest at each upstream node it was forwarded to."""
    waiting: set[Face] = msgspec.field(default_factory=set)
    """Upstream nodes that have not sent D_FINAL."""
    deadline: float = 0.0
    announced: set[tuple[DeclarationKind, str]] = msgspec.field(default_factory=set)
    """Declarations already sent for this interest: an upstream node also knows those of this node."""
    remaining: Iterator[tuple[DeclarationKind, str]] | None = None
    """Current declarations of this node still to be sent."""
    is_matched: bool = False
    """Whether a declaration was sent for this interest."""

    @property
    def target(self) -> Face:
        """Face that declarations are sent to: for a member its group, as all members receive what is sent to one."""
        return self.face.group or self.face

    @property
    def is_current(self) -> bool:
        """Whether the interest requests current declarations."""
        return self.mode in (InterestMode.CURRENT, InterestMode.CURRENT_FUTURE)

    @property
    def is_future(self) -> bool:
        """Whether the interest requests future declarations."""
        return self.mode in (InterestMode.FUTURE, InterestMode.CURRENT_FUTURE)

    def announced_key(self, kind: DeclarationKind, key: str) -> str:
        """Key under which a matching declaration is announced: its own, or the interest's if aggregated."""
        return self.key if self.aggregate and self.key is not None and kind is not DeclarationKind.TOKEN else key


def requested_kinds(interest: Interest) -> frozenset[DeclarationKind]:
    """Kinds of declarations an INTEREST requests."""
    requested = {
        DeclarationKind.SUBSCRIBER: interest.subscribers,
        DeclarationKind.QUERYABLE: interest.queryables,
        DeclarationKind.TOKEN: interest.tokens,
    }
    return frozenset(kind for kind, is_requested in requested.items() if is_requested)


class InterestTable:
    """All live interests: by face, by upstream node, and by key."""

    def __init__(self) -> None:
        self._by_face: dict[Face, dict[int, LiveInterest]] = {}
        self._by_upstream: dict[Face, dict[int, LiveInterest]] = {}
        self._by_key: KeyTree[dict[LiveInterest, None]] = KeyTree()
        self._in_all_keys: dict[LiveInterest, None] = {}
        self._deadlines: Deadlines[LiveInterest] = Deadlines(
            lambda interest, when: bool(interest.waiting) and interest.deadline == when
        )

    def add(self, interest: LiveInterest) -> None:
        """Add an interest."""
        self._by_face.setdefault(interest.face, {})[interest.id] = interest
        self._at_key(interest)[interest] = None

    def _at_key(self, interest: LiveInterest) -> dict[LiveInterest, None]:
        """All interests in the same key."""
        if interest.key is None:
            return self._in_all_keys
        matches = self._by_key.get(interest.key)
        if matches is None:
            matches = {}
            self._by_key.insert(interest.key, matches)
        return matches

    def remove(self, face: Face, interest_id: int) -> LiveInterest | None:
        """Remove an interest; None if there is none with this id."""
        interest = self._by_face.get(face, {}).pop(interest_id, None)
        if interest is None:
            return None
        if face.region is not Region.LOCAL:  # not counted for the local session
            face.usage.interests -= 1
            face.usage.remove_key(interest.key)
        if not self._by_face[face]:
            del self._by_face[face]
        interest.waiting.clear()  # otherwise its deadline would end a later interest of the same id
        for upstream, upstream_id in interest.upstream_ids.items():
            del self._by_upstream[upstream][upstream_id]
        interests = self._at_key(interest)
        del interests[interest]
        if interest.key is not None and not interests:
            self._by_key.remove(interest.key)
        return interest

    def record_propagation(self, interest: LiveInterest, face: Face, upstream_id: int, deadline: float) -> None:
        """Note that an interest was forwarded to an upstream node, which must reply by a deadline."""
        interest.upstream_ids[face] = upstream_id
        interest.deadline = deadline
        if interest.is_current:
            interest.waiting.add(face)
            self._deadlines.add(interest, deadline)
        self._by_upstream.setdefault(face, {})[upstream_id] = interest

    def remove_upstream(self, face: Face) -> list[LiveInterest]:
        """Remove an upstream node; returns the interests that had been forwarded to it."""
        matches = list(self._by_upstream.pop(face, {}).values())
        for interest in matches:
            del interest.upstream_ids[face]
        return matches

    def find_propagated(self, face: Face, upstream_id: int) -> LiveInterest | None:
        """The interest that has this id at an upstream node."""
        return self._by_upstream.get(face, {}).get(upstream_id)

    def by_face(self, face: Face) -> list[LiveInterest]:
        """The live interests of one face."""
        return list(self._by_face.get(face, {}).values())

    def all(self) -> list[LiveInterest]:
        """Every live interest."""
        return [interest for interests in self._by_face.values() for interest in interests.values()]

    def matching(self, kind: DeclarationKind, key: str) -> list[LiveInterest]:
        """Interests in declarations on keys that intersect a key."""
        matches = [interests for _, interests in self._by_key.intersecting(key)]
        return [interest for interests in matches for interest in interests if kind in interest.kinds]

    def matching_future(self, kind: DeclarationKind, key: str) -> list[LiveInterest]:
        """Interests in future declarations that match a declaration on a key."""
        matches = [self._in_all_keys, *(interests for _, interests in self._by_key.intersecting(key))]
        return [
            interest for interests in matches for interest in interests if interest.is_future and kind in interest.kinds
        ]

    def is_aggregated(self, face: Face, kind: DeclarationKind, key: str) -> bool:
        """Whether a face has an aggregated interest in exactly this key."""
        interests = self._by_key.get(key) or {}
        return any(interest.face is face and interest.aggregate and kind in interest.kinds for interest in interests)

    def is_resolved(self, face: Face, kind: DeclarationKind, key: str) -> bool:
        """Whether an upstream node has sent all its current declarations that match a key."""
        matches = [self._in_all_keys, *(interests for _, interests in self._by_key.including(key))]
        return any(
            face in interest.upstream_ids
            and face not in interest.waiting
            and interest.is_current
            and kind in interest.kinds
            for interests in matches
            for interest in interests
        )

    def next_deadline(self) -> float | None:
        """Time of the first deadline of an upstream reply."""
        return self._deadlines.next()

    def pop_expired(self, now: float) -> list[LiveInterest]:
        """Remove the deadlines that have passed, and return their interests: upstream replies are overdue."""
        return self._deadlines.pop_due(now)
