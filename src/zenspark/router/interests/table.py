"""What neighbours asked to be told: current declarations, future ones, or both.

An interest of somebody below us is also asked of everybody above us, because only they know what is up there; the
asker hears D_FINAL when all of them have answered, or are gone, or time is up.
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
"""Seconds an asker waits for the nodes above us: one that never answers must not hold back the others."""


class LiveInterest(msgspec.Struct, eq=False):
    """One live interest of a face, and how it was passed on."""

    face: Face
    id: int
    mode: InterestMode
    kinds: frozenset[DeclarationKind]
    key: str | None
    aggregate: bool
    upstream_ids: dict[Face, int] = msgspec.field(default_factory=dict)
    """The id this interest has at each node above us."""
    waiting: set[Face] = msgspec.field(default_factory=set)
    """Those that have not said D_FINAL."""
    deadline: float = 0.0
    announced: set[tuple[DeclarationKind, str]] = msgspec.field(default_factory=set)
    """What was answered already: a node above us knows our own declarations too."""
    rest: Iterator[tuple[DeclarationKind, str]] | None = None
    """What of the current declarations of this node is still to be answered."""

    @property
    def is_current(self) -> bool:
        return self.mode in (InterestMode.CURRENT, InterestMode.CURRENT_FUTURE)

    @property
    def is_future(self) -> bool:
        return self.mode in (InterestMode.FUTURE, InterestMode.CURRENT_FUTURE)

    def announced_key(self, kind: DeclarationKind, key: str) -> str:
        """The key under which a matching declaration is told: its own, or the interest's if aggregated."""
        return self.key if self.aggregate and self.key is not None and kind is not DeclarationKind.TOKEN else key


def requested_kinds(interest: Interest) -> frozenset[DeclarationKind]:
    """Which kinds of declarations an INTEREST asks for."""
    asked = {
        DeclarationKind.SUBSCRIBER: interest.subscribers,
        DeclarationKind.QUERYABLE: interest.queryables,
        DeclarationKind.TOKEN: interest.tokens,
    }
    return frozenset(kind for kind, wanted in asked.items() if wanted)


class InterestTable:
    """All live interests: by who asked, by whom they were passed on to, and by what they ask for."""

    def __init__(self) -> None:
        self._by_asker: dict[Face, dict[int, LiveInterest]] = {}
        self._by_answerer: dict[Face, dict[int, LiveInterest]] = {}
        self._by_key: KeyTree[dict[LiveInterest, None]] = KeyTree()
        self._in_everything: dict[LiveInterest, None] = {}
        self._deadlines: Deadlines[LiveInterest] = Deadlines(
            lambda asked, when: bool(asked.waiting) and asked.deadline == when
        )

    def add(self, asked: LiveInterest) -> None:
        """Remember an interest."""
        self._by_asker.setdefault(asked.face, {})[asked.id] = asked
        self._at(asked)[asked] = None

    def _at(self, asked: LiveInterest) -> dict[LiveInterest, None]:
        """All interests in the same key."""
        if asked.key is None:
            return self._in_everything
        found = self._by_key.get(asked.key)
        if found is None:
            found = {}
            self._by_key.insert(asked.key, found)
        return found

    def remove(self, face: Face, number: int) -> LiveInterest | None:
        """Forget an interest; None if there is none of this id."""
        asked = self._by_asker.get(face, {}).pop(number, None)
        if asked is None:
            return None
        if face.region is not Region.LOCAL:  # as when it was admitted
            face.usage.interests -= 1
            face.usage.remove_key(asked.key)
        if not self._by_asker[face]:
            del self._by_asker[face]
        asked.waiting.clear()  # or its deadline would end a later interest of the same id
        for answerer, passed in asked.upstream_ids.items():
            del self._by_answerer[answerer][passed]
        beside = self._at(asked)
        del beside[asked]
        if asked.key is not None and not beside:
            self._by_key.remove(asked.key)
        return asked

    def record_propagation(self, asked: LiveInterest, face: Face, number: int, deadline: float) -> None:
        """An interest was passed on to a node above us, which should have answered by a time."""
        asked.upstream_ids[face] = number
        asked.deadline = deadline
        if asked.is_current:
            asked.waiting.add(face)
            self._deadlines.add(asked, deadline)
        self._by_answerer.setdefault(face, {})[number] = asked

    def leave(self, face: Face) -> list[LiveInterest]:
        """A node above us is gone; the interests that had been passed on to it."""
        found = list(self._by_answerer.pop(face, {}).values())
        for asked in found:
            del asked.upstream_ids[face]
        return found

    def find_propagated(self, face: Face, number: int) -> LiveInterest | None:
        """The interest a node above us is answering."""
        return self._by_answerer.get(face, {}).get(number)

    def of(self, face: Face) -> list[LiveInterest]:
        """The live interests of one face."""
        return list(self._by_asker.get(face, {}).values())

    def all(self) -> list[LiveInterest]:
        """Every live interest."""
        return [asked for mine in self._by_asker.values() for asked in mine.values()]

    def matching(self, kind: DeclarationKind, key: str) -> list[LiveInterest]:
        """The interests in declarations on keys that intersect one."""
        found = [beside for _, beside in self._by_key.intersecting(key)]
        return [asked for beside in found for asked in beside if kind in asked.kinds]

    def matching_future(self, kind: DeclarationKind, key: str) -> list[LiveInterest]:
        """The interests in future declarations that one on a key is news to."""
        found = [self._in_everything, *(beside for _, beside in self._by_key.intersecting(key))]
        return [asked for beside in found for asked in beside if asked.is_future and kind in asked.kinds]

    def is_aggregated(self, face: Face, kind: DeclarationKind, key: str) -> bool:
        """Whether a face wants one declaration on exactly this key to stand for all that match it."""
        beside = self._by_key.get(key) or {}
        return any(asked.face is face and asked.aggregate and kind in asked.kinds for asked in beside)

    def is_resolved(self, face: Face, kind: DeclarationKind, key: str) -> bool:
        """Whether a node above us has told all there is to know about a key."""
        found = [self._in_everything, *(beside for _, beside in self._by_key.including(key))]
        return any(
            face in asked.upstream_ids and face not in asked.waiting and asked.is_current and kind in asked.kinds
            for beside in found
            for asked in beside
        )

    def next_deadline(self) -> float | None:
        """When the first answer is overdue."""
        return self._deadlines.next()

    def expired(self, now: float) -> list[LiveInterest]:
        """The interests that somebody should have answered by now."""
        return self._deadlines.due(now)
