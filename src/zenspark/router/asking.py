"""Interests: how a question is answered, passed on to those above us, and ended.

Whoever asks for current declarations gets them and then D_FINAL, at the latest when those above us should have
answered. Future ones follow as they come (`declarations.py`).
"""

from __future__ import annotations

from zenspark.router.declarations import Declarations
from zenspark.router.face import Face, Kind, Out, Region
from zenspark.router.interests import Asked, Interests, kinds_of
from zenspark.router.routes import Reach, is_key_expression
from zenspark.router.telling import bind_prefix, declare
from zenspark.wire.messages import DeclareFinal, Interest
from zenspark.wire.values import InterestMode, QoS, QueryableInfo

INITIAL_INTEREST = 0
"""The interest two peers act as if they had sent each other."""


class Asking:
    """The moves that have to do with interests. `timeout` is for the answers of those above us."""

    def __init__(
        self, out: Out, interests: Interests, declarations: Declarations, reach: Reach, timeout: float
    ) -> None:
        self._out = out
        self._interests = interests
        self._declarations = declarations
        self._reach = reach
        self._timeout = timeout
        self._above: dict[Face, None] = {}

    # -- faces

    def add(self, face: Face, now: float) -> None:
        """A new neighbour; if it stands above us, it is asked what the others have asked."""
        if face.region is Region.UPSTREAM:
            self._above[face] = None
            for asked in self._interests.all():
                self._pass_on(asked, face, now)

    def remove(self, face: Face) -> None:
        """A neighbour is gone: it asks no more, and owes no answers."""
        self._above.pop(face, None)
        for asked in self._interests.of(face):
            self._end(face, asked.id)
        for asked in self._interests.leave(face):
            self._answered(asked, face)

    # -- questions

    def on_interest(self, face: Face, interest: Interest, now: float) -> None:
        """A face asks, or takes a question back."""
        if face.region in (Region.UPSTREAM, Region.ROUTER):
            return  # those above us and routers beside us are told without asking
        self._end(face, interest.id)
        if interest.mode is InterestMode.FINAL:
            return
        key = None if interest.wire_expr is None else face.resolve(interest.wire_expr)
        if interest.wire_expr is not None and (key is None or not is_key_expression(key)):
            declare(self._out, face, DeclareFinal(), interest.id)
            return
        aggregate = interest.aggregate and face.region is not Region.SOUTH_PEER
        asked = Asked(face, interest.id, interest.mode, kinds_of(interest), key, aggregate)
        self._interests.add(asked)
        self._answer(asked)
        for above in self._above:
            self._pass_on(asked, above, now)
        self._conclude(asked)

    def _answer(self, asked: Asked) -> None:
        """The current declarations somebody asked for."""
        if not asked.is_current:
            return
        for kind in sorted(asked.kinds, key=lambda each: each.value):
            entries = self._declarations.tables[kind].matching(asked.key)
            for key in dict.fromkeys(asked.announces(kind, entry.key) for entry in entries):
                info = self._declarations.visible(asked.face, kind, key)
                if info is not None:
                    self._tell_current(asked, kind, key, info)

    def _tell_current(self, asked: Asked, kind: Kind, key: str, info: QueryableInfo) -> None:
        if (kind, key) in asked.told:
            return
        asked.told.add((kind, key))
        telling = self._declarations.telling
        if asked.is_future:
            telling.repeat(asked.face, kind, key, info, asked.id)
        else:
            telling.mention(asked.face, kind, key, info, asked.id)

    def _pass_on(self, asked: Asked, above: Face, now: float) -> None:
        if not self._reach(asked.face, above):
            return
        number = above.next_id()
        self._interests.pass_on(asked, above, number, now + self._timeout)
        if asked.key is not None:
            bind_prefix(self._out, above, asked.key)
        interest = Interest(
            id=number,
            mode=asked.mode,
            keyexprs=True,
            subscribers=Kind.SUBSCRIBER in asked.kinds,
            queryables=Kind.QUERYABLE in asked.kinds,
            tokens=Kind.TOKEN in asked.kinds,
            wire_expr=None if asked.key is None else above.express(asked.key),
            qos=QoS.DECLARE,
        )
        self._out.append((above, interest))

    # -- answers from above

    def on_answer(self, face: Face, number: int, kind: Kind, key: str, info: QueryableInfo) -> bool:
        """A node above us answers an interest; whether what it says is to be remembered."""
        asked = self._interests.answered_by(face, number)
        if asked is None:
            return True
        if not asked.is_future:  # nobody keeps this: it answers one question, once
            self._tell_current(asked, kind, asked.announces(kind, key), info)
            return False
        if not asked.aggregate:  # news to who asked, but not to others who knew before
            self._tell_current(asked, kind, key, info)
        return True

    def on_final(self, face: Face, number: int) -> None:
        """A node above us has answered, or a peer has told all it has."""
        if number == INITIAL_INTEREST and face.region is Region.PEER:
            face.wants_all = False
            self._declarations.routes.clear()
        asked = self._interests.answered_by(face, number)
        if asked is not None:
            self._answered(asked, face)

    def _answered(self, asked: Asked, face: Face) -> None:
        """A node above us has nothing more to tell of this."""
        if face in asked.waiting:
            asked.waiting.remove(face)
            self._declarations.routes.clear()
            self._conclude(asked)

    def _conclude(self, asked: Asked) -> None:
        if asked.is_current and not asked.waiting:
            declare(self._out, asked.face, DeclareFinal(), asked.id)
            if not asked.is_future:
                self._interests.remove(asked.face, asked.id)

    # -- the end

    def _end(self, face: Face, number: int) -> None:
        asked = self._interests.remove(face, number)
        if asked is None:
            return
        if asked.passed_on:
            self._declarations.routes.clear()
        for above, passed in asked.passed_on.items():
            self._out.append((above, Interest(id=passed, mode=InterestMode.FINAL, qos=QoS.DECLARE)))
        if asked.is_future:
            for kind in asked.kinds:
                if asked.aggregate and asked.key in face.told[kind]:  # what stood for many stands for nothing now
                    self._declarations.tell(face, kind, asked.key)
            for above in asked.passed_on:
                self._forget_heard(asked, above)

    def _forget_heard(self, asked: Asked, above: Face) -> None:
        """What a node above us told for this interest alone, it will not tell the end of."""
        for kind in asked.kinds:
            for entry in self._declarations.tables[kind].matching(asked.key):
                left = self._interests.wanting(kind, entry.key)
                if above in entry.holders and not any(above in other.passed_on for other in left):
                    for number in list(entry.holders[above]):
                        self._declarations.undeclare(above, kind, number)

    # -- time

    def next_timeout(self) -> float | None:
        """When the first answer is overdue."""
        return self._interests.next_deadline()

    def handle_timeout(self, now: float) -> None:
        """Wait no longer for answers that are overdue."""
        for asked in self._interests.overdue(now):
            for face in list(asked.waiting):
                self._answered(asked, face)
