"""Interests: how a question is answered, passed on to those above us, and ended.

Whoever asks for current declarations gets them and then D_FINAL, at the latest when those above us should have
answered. Future ones follow as they come (`declarations.py`). Many are answered in portions, one interest of a face
after the other: the owner asks for the next portion when the face has taken the last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

from zenspark.router.declarations.announcements import emit_declare, emit_key_binding
from zenspark.router.declarations.store import Declarations
from zenspark.router.face import DeclarationKind, Face, Outgoing, Region
from zenspark.router.interests.table import InterestTable, LiveInterest, requested_kinds
from zenspark.router.limits import Admission
from zenspark.router.routing.routes import ReachabilityPolicy
from zenspark.wire.messages import DeclareFinal, Interest
from zenspark.wire.values import InterestMode, QoS, QueryableInfo

MAX_DECLARATIONS_PER_PORTION = 256
"""Current declarations that one portion of answers has at most: a short message may ask for all there are."""
INITIAL_INTEREST = 0
"""The interest two peers act as if they had sent each other."""


class InterestHandler:
    """The moves that have to do with interests. `timeout` is for the answers of those above us."""

    def __init__(
        self,
        out: Outgoing,
        interests: InterestTable,
        declarations: Declarations,
        reach: ReachabilityPolicy,
        admission: Admission,
        timeout: float,
    ) -> None:
        self._out = out
        self._interests = interests
        self._declarations = declarations
        self._reach = reach
        self._admission = admission
        self._timeout = timeout
        self._above: dict[Face, None] = {}
        self._unfinished: dict[Face, deque[LiveInterest]] = {}
        """The interests of each face that are not answered to the end, in order."""

    # -- faces

    def add(self, face: Face, now: float) -> None:
        """A new neighbour; if it stands above us, it is asked what the others have asked."""
        if face.region is Region.UPSTREAM:
            self._above[face] = None
            self.ask(face, now)

    def ask(self, above: Face, now: float) -> None:
        """Ask a node above us what the others have asked, as far as it was not asked already."""
        for asked in self._interests.all():
            if above not in asked.upstream_ids:
                self._pass_on(asked, above, now)

    def remove(self, face: Face) -> None:
        """A neighbour is gone: it asks no more, and owes no answers."""
        self._above.pop(face, None)
        self._unfinished.pop(face, None)
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
        if not self._is_admitted(face, interest, key):
            emit_declare(self._out, face, DeclareFinal(), interest.id)
            return
        aggregate = interest.aggregate and face.region is not Region.SOUTH_PEER
        asked = LiveInterest(face, interest.id, interest.mode, requested_kinds(interest), key, aggregate)
        self._interests.add(asked)
        for above in self._above:
            self._pass_on(asked, above, now)
        if asked.is_current:
            asked.rest = self._current(asked)
            self._unfinished.setdefault(face, deque()).append(asked)
            if len(self._unfinished[face]) == 1:
                self.go_on(face)

    def _is_admitted(self, face: Face, interest: Interest, key: str | None) -> bool:
        """Whether an interest is in a key there is, or in all of them, and the limits allow one more."""
        if interest.wire_expr is not None and (key is None or not self._admission.key(face, key)):
            return False
        return face.region is Region.LOCAL or self._admission.interest(face, face.usage, key)

    def _current(self, asked: LiveInterest) -> Iterator[tuple[DeclarationKind, str]]:
        """The current declarations that an interest may be answered with."""
        for kind in sorted(asked.kinds, key=lambda each: each.value):
            entries = self._declarations.tables[kind].matching(asked.key)
            for key in dict.fromkeys(asked.announced_key(kind, entry.key) for entry in entries):
                yield kind, key

    @property
    def unfinished(self) -> list[Face]:
        """The faces whose interests are not answered to the end."""
        return list(self._unfinished)

    def is_awaiting_declarations(self, face: Face) -> bool:
        """Whether there is more to answer to a face."""
        return face in self._unfinished

    def go_on(self, face: Face) -> None:
        """The next portion of answers to a face."""
        left, queue = MAX_DECLARATIONS_PER_PORTION, self._unfinished[face]
        while queue and left:
            left = self._answer(queue[0], left)
            if queue[0].rest is None:
                queue.popleft()
        if not queue:
            del self._unfinished[face]

    def _answer(self, asked: LiveInterest, most: int) -> int:
        """Answer with so many declarations at most; how many more may follow."""
        if asked.rest is None:  # the interest has ended meanwhile
            return most
        for kind, key in islice(asked.rest, most):
            most -= 1
            info = self._declarations.visible_info(asked.face, kind, key)
            if info is not None:
                self._tell_current(asked, kind, key, info)
        if most:
            asked.rest = None
            self._conclude(asked)
        return most

    def _tell_current(self, asked: LiveInterest, kind: DeclarationKind, key: str, info: QueryableInfo) -> None:
        if (kind, key) in asked.announced:
            return
        if asked.upstream_ids:
            asked.announced.add((kind, key))
        telling = self._declarations.announcements
        if asked.is_future:
            telling.announce(asked.face, kind, key, info, asked.id)
        else:
            telling.announce_once(asked.face, kind, key, info, asked.id)

    def _pass_on(self, asked: LiveInterest, above: Face, now: float) -> None:
        if not self._reach(asked.face, above):
            return
        number = above.next_id()
        self._interests.record_propagation(asked, above, number, now + self._timeout)
        if asked.key is not None:
            emit_key_binding(self._out, above, asked.key)
        interest = Interest(
            id=number,
            mode=asked.mode,
            keyexprs=True,
            subscribers=DeclarationKind.SUBSCRIBER in asked.kinds,
            queryables=DeclarationKind.QUERYABLE in asked.kinds,
            tokens=DeclarationKind.TOKEN in asked.kinds,
            wire_expr=None if asked.key is None else above.to_wire_expr(asked.key),
            qos=QoS.DECLARE,
        )
        self._out.append((above, interest))

    # -- answers from above

    def on_interest_reply(self, face: Face, number: int, kind: DeclarationKind, key: str, info: QueryableInfo) -> bool:
        """A node above us answers an interest; whether what it says is to be remembered."""
        asked = self._interests.find_propagated(face, number)
        if asked is None:
            return True
        if not asked.is_future:  # nobody keeps this: it answers one question, once
            self._tell_current(asked, kind, asked.announced_key(kind, key), info)
            return False
        if not asked.aggregate:  # news to who asked, but not to others who knew before
            self._tell_current(asked, kind, key, info)
        return True

    def on_final(self, face: Face, number: int) -> None:
        """A node above us has answered, or a peer has told all it has."""
        if number == INITIAL_INTEREST and face.initial_declarations_pending:
            face.initial_declarations_pending = False
            self._declarations.routes.clear()
        asked = self._interests.find_propagated(face, number)
        if asked is not None:
            self._answered(asked, face)

    def _answered(self, asked: LiveInterest, face: Face) -> None:
        """A node above us has nothing more to tell of this."""
        if face in asked.waiting:
            asked.waiting.remove(face)
            self._declarations.routes.clear()
            self._conclude(asked)

    def _conclude(self, asked: LiveInterest) -> None:
        if asked.is_current and not asked.waiting and asked.rest is None:
            emit_declare(self._out, asked.face, DeclareFinal(), asked.id)
            asked.announced.clear()
            if not asked.is_future:
                self._interests.remove(asked.face, asked.id)

    # -- the end

    def _end(self, face: Face, number: int) -> None:
        asked = self._interests.remove(face, number)
        if asked is None:
            return
        asked.rest = None
        if asked.upstream_ids:
            self._declarations.routes.clear()
        for above, passed in asked.upstream_ids.items():
            self._out.append((above, Interest(id=passed, mode=InterestMode.FINAL, qos=QoS.DECLARE)))
        if asked.is_future:
            for kind in asked.kinds:
                if asked.aggregate and asked.key in face.announced[kind]:  # what stood for many stands for nothing now
                    self._declarations.tell(face, kind, asked.key)
            for above in asked.upstream_ids:
                self._forget_heard(asked, above)

    def _forget_heard(self, asked: LiveInterest, above: Face) -> None:
        """What a node above us told for this interest alone, it will not tell the end of."""
        for kind in asked.kinds:
            for entry in self._declarations.tables[kind].matching(asked.key):
                left = self._interests.matching_future(kind, entry.key)
                if above in entry.holders and not any(above in other.upstream_ids for other in left):
                    for number in list(entry.holders[above]):
                        self._declarations.undeclare(above, kind, number)

    # -- time

    def next_timeout(self) -> float | None:
        """When the first answer is overdue."""
        return self._interests.next_deadline()

    def handle_timeout(self, now: float) -> None:
        """Wait no longer for answers that are overdue."""
        for asked in self._interests.expired(now):
            for face in list(asked.waiting):
                self._answered(asked, face)
