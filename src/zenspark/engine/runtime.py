"""Hub: what stands between a session's entities and its node.

It keeps the subscribers, queryables, queries in flight and interests of one session, takes what the router delivers
and tells the router what the session declares and asks. All of it is guarded by the node's lock; what users run (their
callbacks, their queues) is only ever handed something here, never waited for, and never called with the lock.

Nothing here refers to the objects users hold. So an object nobody holds any more goes at once, and what becomes of
the entity behind it is for that object to decide: `finalizers` has for each entity the function that ends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Protocol, TypeVar

import msgspec

from zenspark.config.settings import Settings
from zenspark.engine.aggregation import DeclarationAggregation
from zenspark.engine.backpressure import ReceiveBackpressure
from zenspark.engine.direct_queries import DirectQueries, QueryRequest
from zenspark.engine.namespace import Namespace
from zenspark.engine.reply_collector import TIMEOUT_ERROR, ReplyCollector, make_reply
from zenspark.engine.subscriptions import MAX_CACHED_ROUTES, Subscription, Subscriptions
from zenspark.errors import KeyLimitExceeded, SessionClosed
from zenspark.handlers.handler import BoundHandler, DeliverySink, bind_handler
from zenspark.key import KeyExpr
from zenspark.key.match import includes, intersects
from zenspark.key.tree import KeyTree
from zenspark.net.io.driver import LinkDriver
from zenspark.net.node.node import Neighbour, Node
from zenspark.router.face import DeclarationKind, Face
from zenspark.transport.receiver import PushRun
from zenspark.types.arguments import INFINITY, require_type
from zenspark.types.enums import ConsolidationMode, InterceptionPoint, Locality, SampleKind, WhatAmI
from zenspark.types.ids import ZenohId
from zenspark.types.network_info import ReplyError
from zenspark.types.query import Query, RequestHandle
from zenspark.types.sample import Reply, sample_from_push, token_sample
from zenspark.types.timestamp_stack import TimestampContext, TimestampInstrumentation
from zenspark.wire import messages
from zenspark.wire import values as wire
from zenspark.wire.buffer import Writer
from zenspark.wire.declare import replace


class LocalQueryable(msgspec.Struct, eq=False, frozen=True):
    """One queryable of this session."""

    id: int
    key_expr: KeyExpr
    complete: bool
    origin: Locality
    sink: DeliverySink[Query]
    entity: wire.EntityId
    """Who it is in the whole network."""


class LocalInterest(msgspec.Struct, eq=False, frozen=True):
    """One interest of this session: what it wants to know of, and whom to tell."""

    id: int
    kind: DeclarationKind
    key_expr: KeyExpr
    on_change: Callable[[SampleKind, str], object]
    on_final: Callable[[], object]
    is_future: bool = True


class RemoteDeclaration(msgspec.Struct, frozen=True):
    """A declaration somebody made elsewhere."""

    key: str
    complete: bool = False


class MatchObserver(Protocol):
    """Somebody who wants to look again after a change."""

    def on_match_change(self) -> None: ...


M = TypeVar("M", messages.Push, messages.Request, messages.Response)

TimestampCallback = Callable[[TimestampContext], bytes]
"""An application's own clock readings for timestamp stacks."""

CUSTOM_RECORD_FLAG = 0x80
"""Marks a record of a timestamp stack whose bytes an application made."""


class SessionRuntime:
    """The state of one session."""

    def __init__(self, node: Node, settings: Settings, stamp_maker: TimestampCallback | None = None) -> None:
        self.node = node
        self._key_limits = node.router.policy.limits.key
        self.lock = node.lock
        self.namespace = Namespace(settings.namespace)
        self.stamps = settings.timestamping.enabled
        """Whether what this session publishes is stamped here."""
        self.timestamp_extension = settings.timestamping.extension
        """Whether PUSH has the timestamp of its PUT or DEL as well."""
        self.is_over = False
        """Whether the session was closed."""
        self.finalizers: dict[int, Callable[[], None]] = {}
        """How to end each entity there is, by its number."""
        self._stamp_maker = stamp_maker
        self._clock = node.clock
        self._ids = count(1)
        self._request_ids = count(1)
        self.backpressure = ReceiveBackpressure(node)
        node.at_route = lambda stack: self.stamped(stack, InterceptionPoint.ROUTE)
        self.subscriptions = Subscriptions(self.backpressure, self.namespace)
        self._subscriber_keys = DeclarationAggregation(settings.aggregation.subscribers)
        self._publisher_keys = DeclarationAggregation(settings.aggregation.publishers)
        self._queryables: KeyTree[dict[int, LocalQueryable]] = KeyTree()
        self._found: dict[tuple[str, wire.QueryTarget, bool], list[LocalQueryable]] = {}
        """What was found there since the last change."""
        self._direct = DirectQueries(
            node, self.backpressure, self.namespace, lambda key, target: bool(self._offers(key, target, True))
        )
        self._collectors: dict[int, ReplyCollector] = {}
        self._watching: dict[int, LocalInterest] = {}
        self._known: dict[tuple[DeclarationKind, int], RemoteDeclaration] = {}
        """What the router has told of: declarations, by kind and id."""
        self.on_change: dict[DeclarationKind, set[MatchObserver]] = {kind: set() for kind in DeclarationKind}
        """Whom to tell when entities of this session come and go."""
        self.on_transport: dict[int, Callable[[SampleKind, Face, Neighbour], None]] = {}
        """Whom to tell when neighbours come and go, by entity."""

    # -- life

    def check(self) -> None:
        """Refuse to go on after the end."""
        if self.is_over:
            raise SessionClosed("this session was closed")

    def await_links(self) -> None:
        """Wait while a link is behind, before something is declared; never with the lock."""
        behind = [pump for pump in self.node.pumps if pump.is_backlogged]
        self.node.wait_until_drained(behind, wire.Congestion.BLOCK)

    def key(self, key_expr: KeyExpr | str) -> KeyExpr:
        """A key expression that this session uses; one that is over a limit is refused here, not on its way."""
        key = KeyExpr.of(key_expr)
        excess = self._key_limits.excess(self.namespace.outward(str(key)))
        if excess is not None:
            raise KeyLimitExceeded(str(key), *excess)
        return key

    def call_soon(self, work: Callable[[], object]) -> None:
        """Have something done in the loop; takes no lock, so it can be called by the garbage collector."""
        self.node.loop.call_soon(work)

    def finish(self, number: int) -> None:
        """End an entity; a second time does nothing."""
        end = self.finalizers.pop(number, None)
        if end is not None:
            end()

    def end(self) -> None:
        """The session is over: everything ends, and whoever waits for replies hears that there are no more."""
        self.is_over = True
        self.subscriptions.version += 1  # whoever still publishes looks again, and finds that it is over
        for number in list(self.finalizers):
            self.finish(number)
        for number in list(self._collectors):
            self._end(number)

    def bind_handler(self, handler: object) -> BoundHandler:
        """Make a handler ready to receive."""
        return bind_handler(handler, self.node.loop, self.backpressure.on_drained)

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

    def stamps_for(self, count: int) -> range:
        """Clock readings of this node, one after the other, for many messages."""
        with self.lock:
            return self._clock.stamps(count, time.time_ns())

    def stack(self, instrumentation: TimestampInstrumentation | None) -> wire.TimestampStack | None:
        """The timestamp stack of a message that is sent from here."""
        if instrumentation is None:
            return None
        flags = require_type(TimestampInstrumentation, instrumentation).to_wire()
        return self.stamped(wire.TimestampStack(flags, ()), InterceptionPoint.SEND)

    def stamped(self, stack: wire.TimestampStack | None, *points: InterceptionPoint) -> wire.TimestampStack | None:
        """A stack with a reading more for each of these points where one is wanted."""
        if stack is None:
            return None
        records = [self._record(point) for point in points if stack.conf_flags & point.bit]
        return wire.TimestampStack(stack.conf_flags, (*stack.stack, *records))

    def _record(self, point: InterceptionPoint) -> wire.TimestampRecord:
        if self._stamp_maker is not None:
            identity = self.node.identity
            context = TimestampContext(ZenohId.from_wire(identity.zid), WhatAmI.from_wire(identity.whatami))
            return wire.TimestampRecord(point.bit | CUSTOM_RECORD_FLAG, bytes(self._stamp_maker(context)))
        out = Writer()
        self.stamp().write(out)
        return wire.TimestampRecord(point.bit, bytes(out.data))

    # -- what the router delivers

    def receive(self, message: messages.NetworkMessage) -> None:
        inside = self.namespace.arriving(message)
        match inside:
            case None if isinstance(message, messages.Request):
                self._say(messages.ResponseFinal(request_id=message.request_id, qos=message.qos))
            case messages.Push():
                self._on_push(inside)
            case messages.Request():
                self._on_request(self._received(inside))
            case messages.Response():
                self._on_response(self._received(inside))
            case messages.ResponseFinal():
                self._on_response_final(inside.request_id)
            case messages.Declare():
                self._on_declare(inside)

    def _received(self, message: M) -> M:
        """A message with a clock reading of its arrival, if it wants that."""
        if message.ts_stack is None:
            return message
        return replace(message, ts_stack=self.stamped(message.ts_stack, InterceptionPoint.RECEIVE))

    def _on_push(self, push: messages.Push) -> None:
        push = self._received(push)
        face, reliable = self.node.speaker
        for full in self.subscriptions.deliver(sample_from_push(push, KeyExpr(push.wire_expr.suffix), reliable), False):
            self.backpressure.on_full(full, face)

    def try_handle(self, face: Face, message: messages.NetworkMessage) -> bool:
        if isinstance(message, (messages.Response, messages.ResponseFinal)):
            return self._direct.try_handle(face, message)
        return isinstance(message, messages.Request) and self._takes_request(face, message)

    def _takes_request(self, face: Face, request: messages.Request) -> bool:
        served = self._direct.served(face, request)
        if served is None:
            return False
        handle = RequestHandle(request, served.key_expr, served.send_reply, served.finish, self.call_soon)
        for full in self._hand_out(handle, self._offers(str(served.key_expr), request.target, False)):
            self.backpressure.on_full(full, face)
        return True

    def receive_push_run(self, face: Face, pushes: PushRun, keys: list[str | None]) -> None:
        self.subscriptions.deliver_pushes(face, pushes, keys)

    def opened(self, face: Face, neighbour: Neighbour) -> None:
        for tell in list(self.on_transport.values()):
            tell(SampleKind.PUT, face, neighbour)

    def closed(self, face: Face, neighbour: Neighbour) -> None:
        self._direct.closed(face)
        for tell in list(self.on_transport.values()):
            tell(SampleKind.DELETE, face, neighbour)

    # -- subscribers

    def subscribe(self, subscription: Subscription) -> None:
        """A subscriber is declared."""
        with self.lock:
            self.subscriptions.add(subscription)
            if subscription.origin is not Locality.SESSION_LOCAL:
                self._declare_subscriber(subscription)
            self._changed(DeclarationKind.SUBSCRIBER)

    def _declare_subscriber(self, subscription: Subscription) -> None:
        needed = self._subscriber_keys.join(subscription.id, subscription.key_expr)
        if needed is not None:
            number, key_expr = needed
            self.declare(messages.DeclareSubscriber(id=number, wire_expr=wire.WireExpr(0, str(key_expr))))

    def unsubscribe(self, subscription: Subscription) -> None:
        """A subscriber is gone."""
        with self.lock:
            self.subscriptions.remove(subscription)
            if subscription.origin is not Locality.SESSION_LOCAL:
                number = self._subscriber_keys.leave(subscription.id, subscription.key_expr)
                if number is not None:
                    self.declare(messages.UndeclareSubscriber(id=number))
            self._changed(DeclarationKind.SUBSCRIBER)
            self.backpressure.remove(subscription.sink)
        subscription.sink.close()

    # -- queryables

    def add_queryable(self, offered: LocalQueryable) -> None:
        """A queryable is declared."""
        with self.lock:
            key = str(offered.key_expr)
            entry = self._queryables.get(key)
            if entry is None:
                entry = {}
                self._queryables.insert(key, entry)
            entry[offered.id] = offered
            self._change_offers()
            if offered.origin is not Locality.SESSION_LOCAL:
                expr, info = wire.WireExpr(0, key), wire.QueryableInfo(offered.complete)
                self.declare(messages.DeclareQueryable(id=offered.id, wire_expr=expr, info=info))
            self._changed(DeclarationKind.QUERYABLE)

    def _change_offers(self) -> None:
        self._found.clear()
        self._direct.offers += 1

    def remove_queryable(self, offered: LocalQueryable) -> None:
        """A queryable is gone."""
        with self.lock:
            key = str(offered.key_expr)
            entry = self._queryables.get(key)
            if entry is None or entry.pop(offered.id, None) is None:
                return
            self._change_offers()
            if not entry:
                self._queryables.remove(key)
            if offered.origin is not Locality.SESSION_LOCAL:
                self.declare(messages.UndeclareQueryable(id=offered.id))
            self._changed(DeclarationKind.QUERYABLE)
            self.backpressure.remove(offered.sink)
        offered.sink.close()

    def _say(self, message: messages.NetworkMessage) -> list[LinkDriver]:
        """Tell the router something; the links it goes to."""
        return self.node.say(self.namespace.leaving(message))

    def declare(self, body: messages.AnyDeclaration) -> None:
        """Tell the router of something this session has, or has no more."""
        if not self.is_over:  # then the whole node says goodbye
            self._say(messages.Declare(qos=wire.QoS.DECLARE, body=body))

    def _offers(self, key: str, target: wire.QueryTarget, is_local: bool) -> list[LocalQueryable]:
        """The queryables of this session that are asked, by itself or by somebody else."""
        name = (key, target, is_local)
        offers = self._found.get(name)
        if offers is None:
            if len(self._found) >= MAX_CACHED_ROUTES:
                self._found.clear()
            offers = self._found[name] = self._find_offers(key, target, is_local)
        return offers

    def _find_offers(self, key: str, target: wire.QueryTarget, is_local: bool) -> list[LocalQueryable]:
        unwanted = Locality.REMOTE if is_local else Locality.SESSION_LOCAL
        found = [one for _, entry in self._queryables.intersecting(key) for one in entry.values()]
        only_complete = target is wire.QueryTarget.ALL_COMPLETE
        return [one for one in found if one.origin is not unwanted and (one.complete or not only_complete)]

    def _on_request(self, request: messages.Request) -> None:
        def send_reply(
            key: str,
            body: messages.Reply | messages.Err,
            responder: wire.EntityId,
            qos: wire.QoS | None,
            timestamp: wire.Timestamp | None,
        ) -> None:
            links = self._say(
                messages.Response(
                    request_id=request.request_id,
                    wire_expr=wire.WireExpr(0, key),
                    qos=qos or request.qos,
                    timestamp=timestamp,
                    responder=responder,
                    ts_stack=self.stamped(request.ts_stack, InterceptionPoint.SEND),
                    body=body,
                )
            )
            self.node.wait_until_drained(links, wire.Congestion.BLOCK)

        def finish() -> None:
            self._say(messages.ResponseFinal(request_id=request.request_id, qos=request.qos))

        key = request.wire_expr.suffix
        handle = RequestHandle(request, KeyExpr(key), send_reply, finish, self.call_soon)
        face, _ = self.node.speaker
        for full in self._hand_out(handle, self._offers(key, request.target, False)):
            self.backpressure.on_full(full, face)

    def _hand_out(self, handle: RequestHandle, offers: list[LocalQueryable]) -> list[DeliverySink[Query]]:
        """Hand a query to queryables; those who have no room for more."""
        handle.start(len(offers))
        return [offered.sink for offered in offers if not offered.sink.push(Query(handle, offered.entity))]

    # -- queries of this session

    def ask(self, question: QueryRequest, sink: DeliverySink[Reply]) -> ReplyCollector:
        """Ask, and hand the replies over as they are gathered."""
        full: list[DeliverySink[Query]] = []
        with self.lock:
            way = self._direct.way(question)
            if way is not None:
                collector, _ = self._gather(question, sink, len(way.ends))
                links = self._direct.ask(way, question, collector)
                if not links:
                    collector.finish()
            else:
                collector, links, full = self._ask(question, sink)
        if not self.node.loop.is_loop_thread:
            for pump in links:
                pump.flush()
        self.backpressure.wait(full)
        if question.qos.congestion is wire.Congestion.BLOCK or any(pump.is_backlogged for pump in links):
            self.node.wait_until_drained(links, wire.Congestion.BLOCK)
        return collector

    def _ask(
        self, question: QueryRequest, sink: DeliverySink[Reply]
    ) -> tuple[ReplyCollector, list[LinkDriver], list[DeliverySink[Query]]]:
        """Ask the router and queryables of this session; the links it goes to, and who has no room for more."""
        key = str(question.key_expr)
        is_remote = question.destination is not Locality.SESSION_LOCAL
        offers = [] if question.destination is Locality.REMOTE else self._offers(key, question.target, True)
        collector, number = self._gather(question, sink, is_remote + len(offers))
        request = question.request(number, wire.WireExpr(0, key))
        full = self._ask_here(request, question, offers, collector)
        links = self._say(request) if is_remote else []
        if not is_remote and not offers:
            collector.finish()
        return collector, links, full

    def _gather(self, question: QueryRequest, sink: DeliverySink[Reply], sources: int) -> tuple[ReplyCollector, int]:
        """Have replies gathered, from so many; with a number."""
        number = next(self._request_ids)
        key_expr = None if question.any_key else question.key_expr
        follows_replies = question.query.consolidation is wire.Consolidation.AUTO
        collector = ReplyCollector(key_expr, question.mode, sink, sources, question.budget, follows_replies)
        self._collectors[number] = collector
        if question.timeout != INFINITY:
            due = self.node.loop.now() + question.timeout
            collector.on_finish(self.node.loop.call_at(due, partial(self._end, number, TIMEOUT_ERROR)).cancel)
        self.backpressure.query_started()
        collector.on_finish(partial(self._forget, number, sink))
        return collector, number

    def _await_replies(self, collector: ReplyCollector) -> None:
        """Have room made for replies until there are no more to come."""
        self.backpressure.query_started()
        collector.on_finish(self.backpressure.query_finished)
        collector.on_finish(partial(self.backpressure.remove, collector.sink))

    def ask_tokens(self, key_expr: KeyExpr, timeout: float, sink: DeliverySink[Reply]) -> ReplyCollector:
        """Ask for the tokens there are, and hand them over as replies."""

        def tell(change: SampleKind, key: str) -> None:
            collector.add(Reply(token_sample(change, key)))

        def give_up() -> None:
            with self.lock:
                collector.finish(TIMEOUT_ERROR)

        with self.lock:
            number = self.next_id()
            collector = ReplyCollector(key_expr, ConsolidationMode.NONE, sink, 1)
            watching = LocalInterest(
                number, DeclarationKind.TOKEN, key_expr, tell, collector.source_finished, is_future=False
            )
            timer = self.node.loop.call_at(self.node.loop.now() + timeout, give_up)
            collector.on_finish(timer.cancel)
            collector.on_finish(lambda: self.undeclare_interest(watching))
            self.finalizers[number] = collector.finish
            collector.on_finish(partial(self.finish, number))
            self._await_replies(collector)
            self.declare_interest(watching, wire.InterestMode.CURRENT)
        return collector

    def _ask_here(
        self, request: messages.Request, question: QueryRequest, offers: list[LocalQueryable], collector: ReplyCollector
    ) -> list[DeliverySink[Query]]:
        """Queryables of this very session; those who have no room for more."""

        request = self._received(request)

        def send_reply(
            key: str,
            body: messages.Reply | messages.Err,
            responder: wire.EntityId,
            qos: wire.QoS | None,
            timestamp: wire.Timestamp | None,
        ) -> None:
            stack = self.stamped(request.ts_stack, InterceptionPoint.SEND, InterceptionPoint.RECEIVE)
            with self.lock:
                if self.backpressure.should_drop(collector.sink):
                    return
                has_room = collector.add(make_reply(key, body, responder, qos or request.qos, stack, timestamp))
            if not has_room:
                self.backpressure.wait([collector.sink])

        def finish() -> None:
            with self.lock:
                collector.source_finished()

        full = []
        for offered in offers:
            full += self._hand_out(RequestHandle(request, question.key_expr, send_reply, finish, self.call_soon), [offered])
        return full

    def _on_response(self, response: messages.Response) -> None:
        collector = self._collectors.get(response.request_id)
        if collector is None:
            return
        key = response.wire_expr.suffix  # of a REPLY: the router has dropped those on invalid keys
        reply = make_reply(key, response.body, response.responder, response.qos, response.ts_stack, response.timestamp)
        if not collector.add(reply):
            face, _ = self.node.speaker
            self.backpressure.on_full(collector.sink, face, own_queries=1)

    def _on_response_final(self, number: int) -> None:
        collector = self._collectors.get(number)
        if collector is not None:
            collector.source_finished()

    def _forget(self, number: int, sink: DeliverySink[Reply]) -> None:
        self._collectors.pop(number, None)
        self.backpressure.query_finished()
        self.backpressure.remove(sink)

    def _end(self, number: int, error: ReplyError | None = None) -> None:
        with self.lock:
            collector = self._collectors.get(number)
            if collector is not None:
                collector.finish(error)

    # -- interests

    def _changed(self, kind: DeclarationKind) -> None:
        for looking in list(self.on_change[kind]):
            looking.on_match_change()

    def has_local_match(self, kind: DeclarationKind, key_expr: KeyExpr, only_complete: bool) -> bool:
        """Whether this session itself has something that matches."""
        key = str(key_expr)
        if kind is DeclarationKind.SUBSCRIBER:
            return bool(self.subscriptions.route(key, True))
        target = wire.QueryTarget.ALL_COMPLETE if only_complete else wire.QueryTarget.ALL
        return bool(self._offers(key, target, True))

    def declare_interest(self, watching: LocalInterest, mode: wire.InterestMode) -> None:
        """Ask to be told of declarations."""
        with self.lock:
            self._watching[watching.id] = watching
            needed = self._joined(watching)
            if needed is None:
                return
            number, key_expr = needed
            self._say(
                messages.Interest(
                    id=number,
                    mode=mode,
                    keyexprs=True,
                    subscribers=watching.kind is DeclarationKind.SUBSCRIBER,
                    queryables=watching.kind is DeclarationKind.QUERYABLE,
                    tokens=watching.kind is DeclarationKind.TOKEN,
                    wire_expr=wire.WireExpr(0, str(key_expr)),
                    qos=wire.QoS.DECLARE,
                )
            )

    def _joined(self, watching: LocalInterest) -> tuple[int, KeyExpr] | None:
        """The interest to declare; None if that of others will do."""
        if watching.kind is not DeclarationKind.SUBSCRIBER:
            return watching.id, watching.key_expr
        return self._publisher_keys.join(watching.id, watching.key_expr)

    def _left(self, watching: LocalInterest) -> int | None:
        """The interest to end; None if others need it."""
        if watching.kind is not DeclarationKind.SUBSCRIBER:
            return watching.id
        return self._publisher_keys.leave(watching.id, watching.key_expr)

    def undeclare_interest(self, watching: LocalInterest) -> None:
        """Stop being told."""
        with self.lock:
            if self._watching.pop(watching.id, None) is None:
                return
            number = self._left(watching)
            if not self.is_over and number is not None:
                self._say(messages.Interest(id=number, mode=wire.InterestMode.FINAL, qos=wire.QoS.DECLARE))

    def _on_declare(self, message: messages.Declare) -> None:
        body = message.body
        match body:
            case messages.DeclareSubscriber() | messages.DeclareQueryable() | messages.DeclareToken():
                kind = _DECLARATION_KINDS[type(body)]
                if body.id:
                    complete = isinstance(body, messages.DeclareQueryable) and body.info.complete
                    self._known[kind, body.id] = RemoteDeclaration(body.wire_expr.suffix, complete)
                self._tell(kind, SampleKind.PUT, body.wire_expr.suffix, message.interest_id)
            case messages.UndeclareSubscriber() | messages.UndeclareQueryable() | messages.UndeclareToken():
                kind = _DECLARATION_KINDS[type(body)]
                known = self._known.pop((kind, body.id), None)
                if known is not None:
                    self._tell(kind, SampleKind.DELETE, known.key, None)
            case messages.DeclareFinal():
                watching = self._watching.get(message.interest_id or 0)
                if watching is not None:
                    watching.on_final()

    def _tell(self, kind: DeclarationKind, change: SampleKind, key: str, interest_id: int | None) -> None:
        is_shared = kind is DeclarationKind.SUBSCRIBER and self._publisher_keys.is_used
        asked = self._watching.get(interest_id) if interest_id is not None and not is_shared else None
        told = [asked] if asked is not None else [one for one in self._watching.values() if one.is_future]
        for watching in told:
            if watching.kind is kind and intersects(str(watching.key_expr), key):
                watching.on_change(change, key)

    def has_remote_match(self, kind: DeclarationKind, key_expr: KeyExpr, only_complete: bool) -> bool:
        """Whether somebody elsewhere has declared something that matches."""
        key = str(key_expr)
        matches = includes if only_complete else intersects
        return any(
            declared is kind and (known.complete or not only_complete) and matches(known.key, key)
            for (declared, _), known in self._known.items()
        )


_DECLARATION_KINDS: dict[type[messages.Declaration], DeclarationKind] = {
    messages.DeclareSubscriber: DeclarationKind.SUBSCRIBER,
    messages.UndeclareSubscriber: DeclarationKind.SUBSCRIBER,
    messages.DeclareQueryable: DeclarationKind.QUERYABLE,
    messages.UndeclareQueryable: DeclarationKind.QUERYABLE,
    messages.DeclareToken: DeclarationKind.TOKEN,
    messages.UndeclareToken: DeclarationKind.TOKEN,
}
