"""Handling of INTEREST: reply, forward upstream, and end interests.

The reply to an interest in current declarations is those declarations (`current_declarations.py`), and then D_FINAL,
which waits for the replies of upstream nodes until the interest times out. Later declarations follow as they are made
(`declarations/declarations.py`).

The reply to an interest of a group member is sent to the group, where all members receive it. Queryables are left out:
a query of eclipse-zenoh waits for its timeout where a member has declared one. Every declaration is undeclared in the
group when it ends, since members may have stored it.
"""

from __future__ import annotations

from zenspark.router.declarations.announcements import emit_declare, emit_key_binding
from zenspark.router.declarations.declarations import Declarations
from zenspark.router.face import DeclarationKind, Face, Outgoing, Region
from zenspark.router.interests.current_declarations import CurrentDeclarations
from zenspark.router.interests.table import InterestTable, LiveInterest, requested_kinds
from zenspark.router.limits import Admission
from zenspark.router.routing.routes import ReachabilityPolicy
from zenspark.wire.messages import DeclareFinal, Interest
from zenspark.wire.values import InterestMode, QoS, QueryableInfo

INITIAL_INTEREST = 0
"""Id of the implicit interest of two peers in each other's declarations."""


class InterestHandler:
    """Handles interests of one router. `timeout` is the time in seconds for upstream nodes to reply."""

    def __init__(
        self,
        out: Outgoing,
        interests: InterestTable,
        declarations: Declarations,
        reachability: ReachabilityPolicy,
        admission: Admission,
        timeout: float,
    ) -> None:
        self._out = out
        self._interests = interests
        self._declarations = declarations
        self._reachability = reachability
        self._admission = admission
        self._timeout = timeout
        self._upstream_faces: dict[Face, None] = {}
        self.current_declarations = CurrentDeclarations(out, interests, declarations)

    # -- faces

    def add_face(self, face: Face, now: float) -> None:
        """Add a neighbour; an upstream node gets the interests of all other faces."""
        if face.region is Region.UPSTREAM:
            self._upstream_faces[face] = None
            self.propagate_all(face, now)

    def propagate_all(self, upstream: Face, now: float) -> None:
        """Forward all interests to an upstream node that does not have them yet."""
        for interest in self._interests.all():
            if upstream not in interest.upstream_ids:
                self._propagate(interest, upstream, now)

    def remove_face(self, face: Face) -> None:
        """Remove a neighbour: its interests end, and its replies are not awaited any longer."""
        self._upstream_faces.pop(face, None)
        self.current_declarations.remove_face(face)
        for interest in self._interests.by_face(face):
            self._end_interest(face, interest.id)
        for interest in self._interests.remove_upstream(face):
            self._on_upstream_done(interest, face)

    # -- interests

    def on_interest(self, face: Face, interest: Interest, now: float) -> None:
        """Handle INTEREST of a face: a new interest, or the end of one."""
        if face.region in (Region.UPSTREAM, Region.ROUTER):
            return  # upstream nodes and routers get declarations without an interest
        self._end_interest(face, interest.id)
        if interest.mode is InterestMode.FINAL:
            return
        key = None if interest.wire_expr is None else face.resolve(interest.wire_expr)
        if not self._admit(face, interest, key):
            emit_declare(self._out, face, DeclareFinal(), interest.id)
            return
        aggregate = interest.aggregate and face.region not in (Region.DOWNSTREAM_PEER, Region.MEMBER)
        live = LiveInterest(face, interest.id, interest.mode, _announced_kinds(face, interest), key, aggregate)
        self._interests.add(live)
        for upstream in self._upstream_faces:
            self._propagate(live, upstream, now)
        if live.is_current:
            self.current_declarations.start(live)

    def _admit(self, face: Face, interest: Interest, key: str | None) -> bool:
        """Admit an interest that has a valid key, or none, if the limits allow one more."""
        if interest.wire_expr is not None and (key is None or not self._admission.admit_key(face, key)):
            return False
        return face.region is Region.LOCAL or self._admission.admit_interest(face, face.usage, key)

    def _propagate(self, interest: LiveInterest, upstream: Face, now: float) -> None:
        if not self._reachability(interest.face, upstream):
            return
        upstream_id = upstream.next_id()
        self._interests.record_propagation(interest, upstream, upstream_id, now + self._timeout)
        if interest.key is not None:
            emit_key_binding(self._out, upstream, interest.key)
        message = Interest(
            id=upstream_id,
            mode=interest.mode,
            keyexprs=True,
            subscribers=DeclarationKind.SUBSCRIBER in interest.kinds,
            queryables=DeclarationKind.QUERYABLE in interest.kinds,
            tokens=DeclarationKind.TOKEN in interest.kinds,
            wire_expr=None if interest.key is None else upstream.to_wire_expr(interest.key),
            qos=QoS.DECLARE,
        )
        self._out.append((upstream, message))

    # -- declarations from upstream

    def on_interest_reply(
        self, face: Face, interest_id: int, kind: DeclarationKind, key: str, info: QueryableInfo
    ) -> bool:
        """Handle a declaration of an upstream node for an interest; whether it must be stored."""
        interest = self._interests.find_propagated(face, interest_id)
        if interest is None:
            return True
        if not interest.is_future:  # not stored: it replies to one interest, once
            self.current_declarations.send(interest, kind, interest.announced_key(kind, key), info)
            return False
        if not interest.aggregate:  # new to this face, but maybe known to others
            self.current_declarations.send(interest, kind, key, info)
        return True

    def on_final(self, face: Face, interest_id: int) -> None:
        """Handle D_FINAL of an upstream node, or of a peer after its initial declarations."""
        if interest_id == INITIAL_INTEREST and face.initial_declarations_pending:
            face.initial_declarations_pending = False
            self._declarations.routes.clear()
        interest = self._interests.find_propagated(face, interest_id)
        if interest is not None:
            self._on_upstream_done(interest, face)

    def _on_upstream_done(self, interest: LiveInterest, face: Face) -> None:
        """Await no more declarations of an upstream node for an interest."""
        if face in interest.waiting:
            interest.waiting.remove(face)
            self._declarations.routes.clear()
            self.current_declarations.send_final(interest)

    # -- the end

    def _end_interest(self, face: Face, interest_id: int) -> None:
        interest = self._interests.remove(face, interest_id)
        if interest is None:
            return
        interest.remaining = None
        if interest.upstream_ids:
            self._declarations.routes.clear()
        for upstream, upstream_id in interest.upstream_ids.items():
            self._out.append((upstream, Interest(id=upstream_id, mode=InterestMode.FINAL, qos=QoS.DECLARE)))
        if interest.is_future:
            for kind in interest.kinds:
                if interest.aggregate and interest.key in face.announced[kind]:  # the aggregate declaration is void now
                    self._declarations.update_announcement(face, kind, interest.key)
            for upstream in interest.upstream_ids:
                self._undeclare_upstream(interest, upstream)

    def _undeclare_upstream(self, interest: LiveInterest, upstream: Face) -> None:
        """Remove declarations an upstream node made for this interest alone: it will not undeclare them."""
        for kind in interest.kinds:
            for entry in self._declarations.tables[kind].matching(interest.key):
                left = self._interests.matching_future(kind, entry.key)
                if upstream in entry.owners and not any(upstream in other.upstream_ids for other in left):
                    for declaration_id in list(entry.owners[upstream]):
                        self._declarations.undeclare(upstream, kind, declaration_id)

    # -- timers

    def next_timeout(self) -> float | None:
        """Time of the first deadline of an upstream reply."""
        return self._interests.next_deadline()

    def handle_timeout(self, now: float) -> None:
        """Stop waiting for overdue replies."""
        for interest in self._interests.pop_expired(now):
            for face in list(interest.waiting):
                self._on_upstream_done(interest, face)


def _announced_kinds(face: Face, interest: Interest) -> frozenset[DeclarationKind]:
    """Kinds of declarations announced in reply to an INTEREST: in a group no queryables."""
    kinds = requested_kinds(interest)
    return kinds - {DeclarationKind.QUERYABLE} if face.region is Region.MEMBER else kinds
