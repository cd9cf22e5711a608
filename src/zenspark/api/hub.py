"""Hub: what stands between a session's entities and its node.

It keeps the subscribers, queryables, queries in flight and interests of one session, takes what the router delivers
and tells the router what the session declares and asks. All of it is guarded by the node's lock; what users run (their
callbacks, their queues) is only ever handed something here, never waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Protocol

import msgspec

from zenspark.api.enums import ConsolidationMode, InterceptionPoint, Locality, SampleKind
from zenspark.api.handlers import Inlet
from zenspark.api.ids import EntityGlobalId
from zenspark.api.query import Answering, Query
from zenspark.api.replies import TIMEOUT, Gathering
from zenspark.api.sample import Reply, sample_from_body, sample_of
from zenspark.api.subscriptions import Subscriptions
from zenspark.api.values import ReplyError
from zenspark.clock import HybridClock
from zenspark.key import KeyExpr
from zenspark.key.match import intersects
from zenspark.key.tree import KeyTree
from zenspark.net.driver import Driver
from zenspark.net.node import Node
from zenspark.router.face import Face, Kind
from zenspark.transport.connection import Pushes
from zenspark.wire import messages
from zenspark.wire import values as wire
from zenspark.wire.buffer import Writer


class Offered(msgspec.Struct, eq=False, frozen=True):
    """One queryable of this session."""

    id: int
    key_expr: KeyExpr
    complete: bool
    origin: Locality
    inlet: Inlet[Query]


class Watching(msgspec.Struct, eq=False, frozen=True):
    """One interest of this session: what it wants to know of, and whom to tell."""

    id: int
    kind: Kind
    key_expr: KeyExpr
    on_change: Callable[[SampleKind, str], object]
    on_final: Callable[[], object]
    is_future: bool = True


class Question(msgspec.Struct, frozen=True):
    """What a query asks for, and how."""

    key_expr: KeyExpr
    query: messages.Query
    target: wire.QueryTarget
    qos: wire.QoS
    timeout: float
    mode: ConsolidationMode
    any_key: bool
    destination: Locality = Locality.ANY
    stack: wire.TimestampStack | None = None


class Looks(Protocol):
    """Somebody who wants to look again after a change."""

    def look(self) -> None: ...


class Hub:
    """The state of one session."""

    def __init__(self, node: Node, stamps: bool) -> None:
        self.node = node
        self.lock = node.lock
        self.stamps = stamps
        """Whether what this session publishes is stamped here."""
        self._clock = HybridClock()
        self._ids = count(1)
        self._request_ids = count(1)
        self.subscriptions = Subscriptions(self._pause)
        self._queryables: KeyTree[dict[int, Offered]] = KeyTree()
        self._gatherings: dict[int, Gathering] = {}
        self._watching: dict[int, Watching] = {}
        self._known: dict[tuple[Kind, int], str] = {}
        """What the router has told of: the keys of declarations, by kind and id."""
        self.on_change: dict[Kind, set[Looks]] = {kind: set() for kind in Kind}
        """Whom to tell when entities of this session come and go."""
        self.on_transport: list[Callable[[SampleKind, Face, Driver], None]] = []

    def next_id(self) -> int:
        """A number for an entity of this session."""
        return next(self._ids)

    def entity(self, number: int) -> wire.EntityId:
        """An entity of this session in the whole network."""
        return wire.EntityId(self.node.identity.zid, number)

    def stamp(self) -> wire.Timestamp:
        """A clock reading of this node."""
        with self.lock:
            return wire.Timestamp(self._clock.stamp(time.time_ns()), self.node.identity.zid)

    def record(self, point: InterceptionPoint) -> wire.TimestampRecord:
        """A clock reading for a timestamp stack."""
        out = Writer()
        self.stamp().write(out)
        return wire.TimestampRecord(point.bit, bytes(out.data))

    def _pause(self, face: Face) -> None:
        driver = self.node.driver(face)
        if driver is not None:
            driver.pause()

    def resume(self) -> None:
        """Somebody who was full has room again."""
        for driver in self.node.drivers.values():
            driver.resume()

    # -- what the router delivers

    def receive(self, message: messages.NetworkMessage) -> None:
        match message:
            case messages.Push():
                self.subscriptions.deliver(sample_of(message, KeyExpr(message.wire_expr.suffix)), False)
            case messages.Request():
                self._on_request(message)
            case messages.Response():
                self._on_response(message)
            case messages.ResponseFinal():
                self._on_response_final(message.request_id)
            case messages.Declare():
                self._on_declare(message)

    def receive_pushes(self, face: Face, pushes: Pushes) -> None:
        self.subscriptions.deliver_pushes(face, pushes)

    def opened(self, face: Face, driver: Driver) -> None:
        for tell in self.on_transport:
            tell(SampleKind.PUT, face, driver)

    def closed(self, face: Face, driver: Driver) -> None:
        for tell in self.on_transport:
            tell(SampleKind.DELETE, face, driver)

    def end(self) -> None:
        """The session is over: whoever still waits for replies hears that there are no more."""
        for number in list(self._gatherings):
            self._end(number)

    # -- queryables

    def offer(self, offered: Offered) -> None:
        """A queryable is declared."""
        with self.lock:
            key = str(offered.key_expr)
            entry = self._queryables.get(key)
            if entry is None:
                entry = {}
                self._queryables.insert(key, entry)
            entry[offered.id] = offered
            if offered.origin is not Locality.SESSION_LOCAL:
                expr, info = wire.WireExpr(0, key), wire.QueryableInfo(offered.complete)
                self.declare(messages.DeclareQueryable(id=offered.id, wire_expr=expr, info=info))

    def withdraw(self, offered: Offered) -> None:
        """A queryable is gone."""
        with self.lock:
            key = str(offered.key_expr)
            entry = self._queryables.get(key)
            if entry is None or entry.pop(offered.id, None) is None:
                return
            if not entry:
                self._queryables.remove(key)
            if offered.origin is not Locality.SESSION_LOCAL:
                self.declare(messages.UndeclareQueryable(id=offered.id))
        offered.inlet.close()

    def declare(self, body: messages.AnyDeclaration) -> None:
        """Tell the router of something this session has, or has no more."""
        self.node.say(messages.Declare(qos=wire.QoS.DECLARE, body=body))

    def _offers(self, key: str, target: wire.QueryTarget, is_local: bool) -> list[Offered]:
        unwanted = Locality.REMOTE if is_local else Locality.SESSION_LOCAL
        found = [one for _, entry in self._queryables.intersecting(key) for one in entry.values()]
        only_complete = target is wire.QueryTarget.ALL_COMPLETE
        return [one for one in found if one.origin is not unwanted and (one.complete or not only_complete)]

    def _on_request(self, request: messages.Request) -> None:
        def answer(key: str, body: messages.Reply | messages.Err, responder: wire.EntityId) -> None:
            self.node.wait_for_room(wire.Congestion.BLOCK)
            self.node.say(
                messages.Response(
                    request_id=request.request_id,
                    wire_expr=wire.WireExpr(0, key),
                    qos=request.qos,
                    responder=responder,
                    body=body,
                )
            )

        def finish() -> None:
            self.node.say(messages.ResponseFinal(request_id=request.request_id, qos=request.qos))

        key = request.wire_expr.suffix
        self._hand_out(Answering(request, KeyExpr(key), answer, finish), self._offers(key, request.target, False))

    def _hand_out(self, answering: Answering, offers: list[Offered]) -> None:
        answering.begin(len(offers))
        for offered in offers:
            offered.inlet.push(Query(answering, self.entity(offered.id)))

    # -- queries of this session

    def ask(self, question: Question, inlet: Inlet[Reply]) -> Callable[[], None]:
        """Ask, and hand the replies over; what to call to stop it early."""
        key = str(question.key_expr)
        number = next(self._request_ids)
        request = messages.Request(
            request_id=number,
            wire_expr=wire.WireExpr(0, key),
            qos=question.qos,
            target=question.target,
            timeout_ms=int(question.timeout * 1000),
            ts_stack=question.stack,
            body=question.query,
        )
        with self.lock:
            is_remote = question.destination is not Locality.SESSION_LOCAL
            offers = [] if question.destination is Locality.REMOTE else self._offers(key, request.target, True)
            accepted = None if question.any_key else question.key_expr
            gathering = Gathering(accepted, question.mode, inlet, is_remote + len(offers))
            self._gatherings[number] = gathering
            timer = self.node.loop.call_at(self.node.loop.now() + question.timeout, lambda: self._end(number, TIMEOUT))
            self._ask_here(request, question, offers, gathering)
            if is_remote:
                self.node.say(request)
            if not is_remote and not offers:
                self._end(number)

        def stop() -> None:
            timer.cancel()
            self._end(number)

        return stop

    def _ask_here(
        self, request: messages.Request, question: Question, offers: list[Offered], gathering: Gathering
    ) -> None:
        """Queryables of this very session."""

        def answer(key: str, body: messages.Reply | messages.Err, responder: wire.EntityId) -> None:
            with self.lock:
                gathering.add(_reply(key, body, responder, request.qos))

        def finish() -> None:
            with self.lock:
                gathering.source_done()

        for offered in offers:
            self._hand_out(Answering(request, question.key_expr, answer, finish), [offered])

    def _on_response(self, response: messages.Response) -> None:
        gathering = self._gatherings.get(response.request_id)
        if gathering is not None:
            gathering.add(
                _reply(response.wire_expr.suffix, response.body, response.responder, response.qos, response.ts_stack)
            )

    def _on_response_final(self, number: int) -> None:
        gathering = self._gatherings.get(number)
        if gathering is not None:
            gathering.source_done()
            if gathering.is_over:
                del self._gatherings[number]

    def _end(self, number: int, error: ReplyError | None = None) -> None:
        with self.lock:
            gathering = self._gatherings.pop(number, None)
            if gathering is not None:
                gathering.finish(error)

    # -- interests

    def changed(self, kind: Kind) -> None:
        """An entity of this session came or went."""
        for looking in list(self.on_change[kind]):
            looking.look()

    def is_offered(self, key: str) -> bool:
        """Whether a queryable of this session matches."""
        with self.lock:
            return bool(self._offers(key, wire.QueryTarget.ALL, True))

    def watch(self, watching: Watching, mode: wire.InterestMode) -> None:
        """Ask to be told of declarations."""
        with self.lock:
            self._watching[watching.id] = watching
            self.node.say(
                messages.Interest(
                    id=watching.id,
                    mode=mode,
                    keyexprs=True,
                    subscribers=watching.kind is Kind.SUBSCRIBER,
                    queryables=watching.kind is Kind.QUERYABLE,
                    tokens=watching.kind is Kind.TOKEN,
                    wire_expr=wire.WireExpr(0, str(watching.key_expr)),
                    qos=wire.QoS.DECLARE,
                )
            )

    def unwatch(self, watching: Watching) -> None:
        """Stop being told."""
        with self.lock:
            if self._watching.pop(watching.id, None) is not None:
                self.node.say(messages.Interest(id=watching.id, mode=wire.InterestMode.FINAL, qos=wire.QoS.DECLARE))

    def _on_declare(self, message: messages.Declare) -> None:
        body = message.body
        match body:
            case messages.DeclareSubscriber() | messages.DeclareQueryable() | messages.DeclareToken():
                kind = _KINDS[type(body)]
                if body.id:
                    self._known[kind, body.id] = body.wire_expr.suffix
                self._tell(kind, SampleKind.PUT, body.wire_expr.suffix, message.interest_id)
            case messages.UndeclareSubscriber() | messages.UndeclareQueryable() | messages.UndeclareToken():
                kind = _KINDS[type(body)]
                key = self._known.pop((kind, body.id), None)
                if key is not None:
                    self._tell(kind, SampleKind.DELETE, key, None)
            case messages.DeclareFinal():
                watching = self._watching.get(message.interest_id or 0)
                if watching is not None:
                    watching.on_final()

    def _tell(self, kind: Kind, change: SampleKind, key: str, interest_id: int | None) -> None:
        asked = self._watching.get(interest_id) if interest_id is not None else None
        told = [asked] if asked is not None else [one for one in self._watching.values() if one.is_future]
        for watching in told:
            if watching.kind is kind and intersects(str(watching.key_expr), key):
                watching.on_change(change, key)

    def is_known(self, kind: Kind, key_expr: KeyExpr) -> bool:
        """Whether somebody elsewhere has declared something that matches."""
        with self.lock:
            return any(known is kind and intersects(key, str(key_expr)) for (known, _), key in self._known.items())


_KINDS: dict[type[messages.Declaration], Kind] = {
    messages.DeclareSubscriber: Kind.SUBSCRIBER,
    messages.UndeclareSubscriber: Kind.SUBSCRIBER,
    messages.DeclareQueryable: Kind.QUERYABLE,
    messages.UndeclareQueryable: Kind.QUERYABLE,
    messages.DeclareToken: Kind.TOKEN,
    messages.UndeclareToken: Kind.TOKEN,
}


def _reply(
    key: str,
    body: messages.Reply | messages.Err,
    responder: wire.EntityId | None,
    qos: wire.QoS,
    stack: wire.TimestampStack | None = None,
) -> Reply:
    replier = None if responder is None else EntityGlobalId.from_wire(responder)
    if isinstance(body, messages.Err):
        return Reply(ReplyError.from_wire(body, stack), replier)
    return Reply(sample_from_body(body.body, KeyExpr(key), qos, True, stack), replier)
