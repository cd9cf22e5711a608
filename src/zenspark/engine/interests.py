"""LocalInterests: the interests a session declares, and the remote declarations received because of them.

A matching status, a liveliness subscriber and a liveliness query each declare one. Interests in subscribers may be
aggregated: then one INTEREST stands for all keys that a configured key expression includes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import RLock

import msgspec

from zenspark.engine.aggregation import DeclarationAggregation
from zenspark.engine.session_sender import SessionSender
from zenspark.key import KeyExpr
from zenspark.key.match import includes, intersects
from zenspark.router.face import KIND_BY_DECLARATION, KIND_BY_UNDECLARATION, DeclarationKind, Face
from zenspark.types.enums import SampleKind
from zenspark.wire import messages
from zenspark.wire import values as wire


class LocalInterest(msgspec.Struct, eq=False, frozen=True):
    """One interest of this session."""

    id: int
    kind: DeclarationKind
    key_expr: KeyExpr
    on_change: Callable[[SampleKind, str, Face], object]
    """Callback for each matching declaration or undeclaration, with PUT or DELETE, key and source face."""
    on_final: Callable[[], object]
    """Callback when all current declarations were received."""
    is_future: bool = True
    """Whether `on_change` is called for declarations after the current ones."""


class RemoteDeclaration(msgspec.Struct, frozen=True):
    """A declaration of another node."""

    key: str
    complete: bool = False


class LocalInterests:
    """The interests of one session. Guarded by the node's lock."""

    def __init__(self, lock: RLock, sender: SessionSender, aggregated: Iterable[str] = ()) -> None:
        self._lock = lock
        self._sender = sender
        self._aggregation = DeclarationAggregation(aggregated)
        self._interests: dict[int, LocalInterest] = {}
        self._declarations: dict[tuple[DeclarationKind, int], RemoteDeclaration] = {}
        """The declarations received from the router, by kind and id."""

    # -- to the router

    def declare(self, interest: LocalInterest, mode: wire.InterestMode) -> None:
        """Send an INTEREST, unless an aggregated one includes it already."""
        with self._lock:
            self._interests[interest.id] = interest
            declaration = self._join(interest)
            if declaration is None:
                return
            interest_id, key_expr = declaration
            self._sender.send(
                messages.Interest(
                    id=interest_id,
                    mode=mode,
                    keyexprs=True,
                    subscribers=interest.kind is DeclarationKind.SUBSCRIBER,
                    queryables=interest.kind is DeclarationKind.QUERYABLE,
                    tokens=interest.kind is DeclarationKind.TOKEN,
                    wire_expr=wire.WireExpr(0, str(key_expr)),
                    qos=wire.QoS.DECLARE,
                )
            )

    def undeclare(self, interest: LocalInterest) -> None:
        """Send the final INTEREST, unless others need the aggregated one or the session is closed."""
        with self._lock:
            if self._interests.pop(interest.id, None) is None:
                return
            interest_id = self._leave(interest)
            if not self._sender.is_closed and interest_id is not None:
                final = messages.Interest(id=interest_id, mode=wire.InterestMode.FINAL, qos=wire.QoS.DECLARE)
                self._sender.send(final)

    def _join(self, interest: LocalInterest) -> tuple[int, KeyExpr] | None:
        """Return the id and key expression of the INTEREST to send; None if an aggregated one is in place."""
        if interest.kind is not DeclarationKind.SUBSCRIBER:
            return interest.id, interest.key_expr
        return self._aggregation.join(interest.id, interest.key_expr)

    def _leave(self, interest: LocalInterest) -> int | None:
        """Return the id of the INTEREST to end; None if others need it."""
        if interest.kind is not DeclarationKind.SUBSCRIBER:
            return interest.id
        return self._aggregation.leave(interest.id, interest.key_expr)

    # -- from the router

    def receive(self, message: messages.Declare, source: Face) -> None:
        """Store a declaration or undeclaration of another node, and notify the interests it matches."""
        body = message.body
        match body:
            case messages.DeclareSubscriber() | messages.DeclareQueryable() | messages.DeclareToken():
                kind = KIND_BY_DECLARATION[type(body)]
                if body.id:
                    complete = isinstance(body, messages.DeclareQueryable) and body.info.complete
                    self._declarations[kind, body.id] = RemoteDeclaration(body.wire_expr.suffix, complete)
                self._notify(kind, SampleKind.PUT, body.wire_expr.suffix, message.interest_id, source)
            case messages.UndeclareSubscriber() | messages.UndeclareQueryable() | messages.UndeclareToken():
                kind = KIND_BY_UNDECLARATION[type(body)]
                declaration = self._declarations.pop((kind, body.id), None)
                if declaration is not None:
                    self._notify(kind, SampleKind.DELETE, declaration.key, None, source)
            case messages.DeclareFinal():
                interest = self._interests.get(message.interest_id or 0)
                if interest is not None:
                    interest.on_final()

    def _notify(
        self, kind: DeclarationKind, change: SampleKind, key: str, interest_id: int | None, source: Face
    ) -> None:
        """Notify the interest a declaration is a reply to; without one, or with an aggregated one, all that match."""
        is_shared = kind is DeclarationKind.SUBSCRIBER and self._aggregation.is_used
        requester = self._interests.get(interest_id) if interest_id is not None and not is_shared else None
        if requester is not None:
            interests = [requester]
        else:
            interests = [interest for interest in self._interests.values() if interest.is_future]
        for interest in interests:
            if interest.kind is kind and intersects(str(interest.key_expr), key):
                interest.on_change(change, key, source)

    def has_remote_match(self, kind: DeclarationKind, key_expr: KeyExpr, only_complete: bool) -> bool:
        """Return whether a declaration of another node matches; the complete ones must include the key expression."""
        key = str(key_expr)
        matches = includes if only_complete else intersects
        return any(
            declared_kind is kind and (declaration.complete or not only_complete) and matches(declaration.key, key)
            for (declared_kind, _), declaration in self._declarations.items()
        )
