"""What neighbours asked to be told: current declarations, future ones, or both.

An interest of somebody below us is also asked of everybody above us, because only they know what is up there; the
asker hears D_FINAL when all of them have answered, or are gone, or time is up.
"""

from __future__ import annotations

import msgspec

from zenspark.key.match import includes, intersects
from zenspark.router.face import Face, Kind
from zenspark.wire.messages import Interest
from zenspark.wire.values import InterestMode

ANSWER_TIMEOUT = 10.0
"""Seconds an asker waits for the nodes above us: one that never answers must not hold back the others."""


class Asked(msgspec.Struct, eq=False):
    """One live interest of a face, and how it was passed on."""

    face: Face
    id: int
    mode: InterestMode
    kinds: frozenset[Kind]
    key: str | None
    aggregate: bool
    passed_on: dict[Face, int] = msgspec.field(default_factory=dict)
    """The id this interest has at each node above us."""
    waiting: set[Face] = msgspec.field(default_factory=set)
    """Those that have not said D_FINAL."""
    deadline: float = 0.0
    told: set[tuple[Kind, str]] = msgspec.field(default_factory=set)
    """What was answered already: a node above us knows our own declarations too."""

    @property
    def is_current(self) -> bool:
        return self.mode in (InterestMode.CURRENT, InterestMode.CURRENT_FUTURE)

    @property
    def is_future(self) -> bool:
        return self.mode in (InterestMode.FUTURE, InterestMode.CURRENT_FUTURE)

    def matches(self, kind: Kind, key: str) -> bool:
        """Whether a declaration is what was asked for."""
        return kind in self.kinds and (self.key is None or intersects(self.key, key))

    def covers(self, kind: Kind, key: str) -> bool:
        """Whether the answer tells all there is to know about a key."""
        return kind in self.kinds and (self.key is None or includes(self.key, key))

    def announces(self, kind: Kind, key: str) -> str:
        """The key under which a matching declaration is told: its own, or the interest's if aggregated."""
        return self.key if self.aggregate and self.key is not None and kind is not Kind.TOKEN else key


def kinds_of(interest: Interest) -> frozenset[Kind]:
    """Which kinds of declarations an INTEREST asks for."""
    asked = {
        Kind.SUBSCRIBER: interest.subscribers,
        Kind.QUERYABLE: interest.queryables,
        Kind.TOKEN: interest.tokens,
    }
    return frozenset(kind for kind, wanted in asked.items() if wanted)


class Interests:
    """All live interests, by who asked and by whom they were passed on to."""

    def __init__(self) -> None:
        self._by_asker: dict[tuple[Face, int], Asked] = {}
        self._by_answerer: dict[tuple[Face, int], Asked] = {}

    def add(self, asked: Asked) -> None:
        """Remember an interest."""
        self._by_asker[asked.face, asked.id] = asked

    def remove(self, face: Face, number: int) -> Asked | None:
        """Forget an interest; None if there is none of this id."""
        asked = self._by_asker.pop((face, number), None)
        if asked is not None:
            for answerer, passed in asked.passed_on.items():
                self._by_answerer.pop((answerer, passed), None)
        return asked

    def pass_on(self, asked: Asked, face: Face, number: int) -> None:
        """An interest was passed on to a node above us."""
        asked.passed_on[face] = number
        if asked.is_current:
            asked.waiting.add(face)
        self._by_answerer[face, number] = asked

    def answered_by(self, face: Face, number: int) -> Asked | None:
        """The interest a node above us is answering."""
        return self._by_answerer.get((face, number))

    def of(self, face: Face) -> list[Asked]:
        """The live interests of one face."""
        return [asked for asked in self._by_asker.values() if asked.face is face]

    def all(self) -> list[Asked]:
        """Every live interest."""
        return list(self._by_asker.values())

    def is_answered(self, face: Face, kind: Kind, key: str) -> bool:
        """Whether a node above us has told all there is to know about a key."""
        return any(
            face in asked.passed_on and face not in asked.waiting and asked.is_current and asked.covers(kind, key)
            for asked in self._by_asker.values()
        )
