"""LocalQueryables: the queryables of a session, and the delivery of queries to them.

The queryables that match a key are looked up once and cached until a queryable is declared or undeclared.
"""

from __future__ import annotations

import msgspec

from zenspark.engine.match_observers import MatchObservers
from zenspark.engine.receive_backpressure import ReceiveBackpressure
from zenspark.engine.session_sender import SessionSender
from zenspark.engine.subscriptions import MAX_CACHED_MATCHES
from zenspark.engine.timestamping import Timestamper
from zenspark.handlers.handler import DeliverySink
from zenspark.key import KeyExpr
from zenspark.key.tree import KeyTree
from zenspark.net.node.node import Node
from zenspark.router.face import DeclarationKind, Face
from zenspark.types.enums import InterceptionPoint, Locality
from zenspark.types.query import Query, RequestHandle
from zenspark.wire import messages
from zenspark.wire import values as wire


class LocalQueryable(msgspec.Struct, eq=False, frozen=True):
    """One queryable of this session."""

    id: int
    key_expr: KeyExpr
    complete: bool
    origin: Locality
    sink: DeliverySink[Query]
    entity: wire.EntityId
    """Id of the queryable in the network: zid of the node and entity id."""


class LocalQueryables:
    """The queryables of one session. Guarded by the node's lock."""

    def __init__(
        self,
        node: Node,
        sender: SessionSender,
        backpressure: ReceiveBackpressure,
        observers: MatchObservers,
        timestamps: Timestamper,
    ) -> None:
        self._node = node
        self._sender = sender
        self._backpressure = backpressure
        self._observers = observers
        self._timestamps = timestamps
        self._tree: KeyTree[dict[int, LocalQueryable]] = KeyTree()
        self._matches: dict[tuple[str, wire.QueryTarget, bool], list[LocalQueryable]] = {}
        """Cached results of `matching`, until a queryable is declared or undeclared."""
        self.version = 0
        """Incremented whenever a queryable is declared or undeclared."""

    # -- declarations

    def declare(self, queryable: LocalQueryable) -> None:
        """Deliver to a queryable from now on, and declare it unless it is local to the session."""
        with self._node.lock:
            key = str(queryable.key_expr)
            entry = self._tree.get(key)
            if entry is None:
                entry = {}
                self._tree.insert(key, entry)
            entry[queryable.id] = queryable
            self._backpressure.add(queryable.sink, f"queryable on {key}")
            self._invalidate()
            if queryable.origin is not Locality.SESSION_LOCAL:
                expr, info = wire.WireExpr(0, key), wire.QueryableInfo(queryable.complete)
                self._sender.declare(messages.DeclareQueryable(id=queryable.id, wire_expr=expr, info=info))
            self._observers.notify(DeclarationKind.QUERYABLE)

    def undeclare(self, queryable: LocalQueryable) -> None:
        """Stop delivering to a queryable, undeclare it, and close its sink."""
        with self._node.lock:
            key = str(queryable.key_expr)
            entry = self._tree.get(key)
            if entry is None or entry.pop(queryable.id, None) is None:
                return
            self._invalidate()
            if not entry:
                self._tree.remove(key)
            if queryable.origin is not Locality.SESSION_LOCAL:
                self._sender.declare(messages.UndeclareQueryable(id=queryable.id))
            self._observers.notify(DeclarationKind.QUERYABLE)
            self._backpressure.remove(queryable.sink)
        queryable.sink.close()

    def _invalidate(self) -> None:
        self._matches.clear()
        self.version += 1

    # -- matching

    def matching(self, key: str, target: wire.QueryTarget, is_local: bool) -> list[LocalQueryable]:
        """Return the queryables a query is for; `is_local` if this session itself queries."""
        query = (key, target, is_local)
        queryables = self._matches.get(query)
        if queryables is None:
            if len(self._matches) >= MAX_CACHED_MATCHES:
                self._matches.clear()
            queryables = self._matches[query] = self._find(key, target, is_local)
        return queryables

    def _find(self, key: str, target: wire.QueryTarget, is_local: bool) -> list[LocalQueryable]:
        excluded = Locality.REMOTE if is_local else Locality.SESSION_LOCAL
        only_complete = target is wire.QueryTarget.ALL_COMPLETE
        return [
            queryable
            for _, entry in self._tree.intersecting(key)
            for queryable in entry.values()
            if queryable.origin is not excluded and (queryable.complete or not only_complete)
        ]

    # -- delivery

    def receive(self, request: messages.Request, face: Face) -> None:
        """Deliver a query that the router forwarded; replies go back through the router."""

        def send_reply(
            key: str,
            body: messages.Reply | messages.Err,
            responder: wire.EntityId,
            qos: wire.QoS | None,
            timestamp: wire.Timestamp | None,
        ) -> None:
            congestion = wire.Congestion.BLOCK if qos is None else qos.congestion
            links = self._sender.send(
                messages.Response(
                    request_id=request.request_id,
                    wire_expr=wire.WireExpr(0, key),
                    qos=request.qos.response_extension(qos or request.qos),
                    timestamp=timestamp,
                    responder=responder,
                    ts_stack=self._timestamps.record(request.ts_stack, InterceptionPoint.SEND),
                    body=body,
                )
            )
            self._node.wait_until_drained(links, congestion)

        def finish() -> None:
            self._sender.send(messages.ResponseFinal(request_id=request.request_id, qos=request.qos))

        key_expr = KeyExpr(request.wire_expr.suffix)
        handle = RequestHandle(request, key_expr, send_reply, finish, self._node.loop.call_soon)
        self.deliver_remote(handle, face)

    def deliver_remote(self, handle: RequestHandle, face: Face) -> None:
        """Deliver a query of a neighbour; pauses its link if a queryable is full."""
        queryables = self.matching(str(handle.key_expr), handle.request.target, False)
        for sink in self.deliver(handle, queryables):
            self._backpressure.on_full(sink, face)

    def deliver(self, handle: RequestHandle, queryables: list[LocalQueryable]) -> list[DeliverySink[Query]]:
        """Deliver a query to queryables; returns the sinks that are full."""
        handle.start(len(queryables))
        return [queryable.sink for queryable in queryables if not queryable.sink.push(Query(handle, queryable.entity))]
