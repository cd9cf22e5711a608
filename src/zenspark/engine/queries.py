"""SessionQueries: the pending queries of a session, from the request to the last reply.

A query goes to neighbours directly where there is nothing to route (see `direct_queries.py`), else to the router, and
to the queryables of this session. Replies are merged by a `ReplyCollector` and delivered to the querier's sink.
"""

from __future__ import annotations

from functools import partial
from itertools import count

from zenspark.engine.direct_queries import DirectQueries, QueryRequest
from zenspark.engine.queryables import LocalQueryable, LocalQueryables
from zenspark.engine.receive_backpressure import ReceiveBackpressure
from zenspark.engine.reply_collector import TIMEOUT_ERROR, ReplyCollector, make_reply
from zenspark.engine.session_sender import SessionSender
from zenspark.engine.timestamping import Timestamper
from zenspark.handlers.handler import DeliverySink
from zenspark.net.io.link_driver import LinkDriver
from zenspark.net.node.node import Node
from zenspark.router.face import Face
from zenspark.types.arguments import INFINITY
from zenspark.types.enums import InterceptionPoint, Locality
from zenspark.types.network_info import ReplyError
from zenspark.types.query import Query, RequestHandle
from zenspark.types.sample import Reply
from zenspark.wire import messages
from zenspark.wire import values as wire


class SessionQueries:
    """The queries of one session. Guarded by the node's lock."""

    def __init__(
        self,
        node: Node,
        sender: SessionSender,
        direct: DirectQueries,
        queryables: LocalQueryables,
        timestamps: Timestamper,
        backpressure: ReceiveBackpressure,
    ) -> None:
        self._node = node
        self._sender = sender
        self._direct = direct
        self._queryables = queryables
        self._timestamps = timestamps
        self._backpressure = backpressure
        self._request_ids = count(1)
        self._collectors: dict[int, ReplyCollector] = {}
        """The pending queries, by the request id on the node's local face."""

    # -- requests

    def start(self, query: QueryRequest, sink: DeliverySink[Reply]) -> ReplyCollector:
        """Send a query and deliver its replies to a sink; waits for links and queryables that are full."""
        full: list[DeliverySink[Query]] = []
        with self._node.lock:
            route = self._direct.route(query)
            if route is not None:
                collector, _ = self._collect(query, sink, len(route.targets))
                links = self._direct.send(route, query, collector)
                if not links:
                    collector.finish()
            else:
                collector, links, full = self._send(query, sink)
        if not self._node.loop.is_loop_thread:
            for driver in links:
                driver.flush()
        self._backpressure.wait(full)
        if query.qos.congestion is wire.Congestion.BLOCK or any(driver.is_backlogged for driver in links):
            self._node.wait_until_drained(links, wire.Congestion.BLOCK)
        return collector

    def _send(
        self, query: QueryRequest, sink: DeliverySink[Reply]
    ) -> tuple[ReplyCollector, list[LinkDriver], list[DeliverySink[Query]]]:
        """Send a query to the router and to local queryables; returns the links it was sent on and the full sinks."""
        key = str(query.key_expr)
        is_remote = query.destination is not Locality.SESSION_LOCAL
        is_local = query.destination is not Locality.REMOTE
        queryables = self._queryables.matching(key, query.target, True) if is_local else []
        collector, request_id = self._collect(query, sink, is_remote + len(queryables))
        request = query.request(request_id, wire.WireExpr(0, key))
        full = self._deliver_local(request, query, queryables, collector)
        links = self._sender.send(request) if is_remote else []
        if not is_remote and not queryables:
            collector.finish()
        return collector, links, full

    def _deliver_local(
        self,
        request: messages.Request,
        query: QueryRequest,
        queryables: list[LocalQueryable],
        collector: ReplyCollector,
    ) -> list[DeliverySink[Query]]:
        """Deliver a query to queryables of this session; returns the sinks that are full."""
        request = self._timestamps.record_receive(request)

        def send_reply(
            key: str,
            body: messages.Reply | messages.Err,
            responder: wire.EntityId,
            qos: wire.QoS | None,
            timestamp: wire.Timestamp | None,
        ) -> None:
            stack = self._timestamps.record(request.ts_stack, InterceptionPoint.SEND, InterceptionPoint.RECEIVE)
            with self._node.lock:
                if self._backpressure.should_drop(collector.sink):
                    return
                has_capacity = collector.add(make_reply(key, body, responder, qos or request.qos, stack, timestamp))
            if not has_capacity:
                self._backpressure.wait([collector.sink])

        def finish() -> None:
            with self._node.lock:
                collector.source_finished()

        full = []
        for queryable in queryables:
            handle = RequestHandle(request, query.key_expr, send_reply, finish, self._node.loop.call_soon)
            full += self._queryables.deliver(handle, [queryable])
        return full

    # -- replies

    def _collect(self, query: QueryRequest, sink: DeliverySink[Reply], sources: int) -> tuple[ReplyCollector, int]:
        """Make the collector for the replies of `sources` sources; returns it with a new request id."""
        request_id = next(self._request_ids)
        key_expr = None if query.any_key else query.key_expr
        follows_replies = query.body.consolidation is wire.Consolidation.AUTO
        collector = ReplyCollector(key_expr, query.mode, sink, sources, query.budget, follows_replies)
        self._collectors[request_id] = collector
        if query.timeout != INFINITY:
            due = self._node.loop.now() + query.timeout
            collector.on_finish(self._node.loop.call_at(due, partial(self._finish, request_id, TIMEOUT_ERROR)).cancel)
        self._backpressure.begin_read_credit()
        collector.on_finish(partial(self._remove, request_id, sink))
        return collector, request_id

    def _remove(self, request_id: int, sink: DeliverySink[Reply]) -> None:
        self._collectors.pop(request_id, None)
        self._backpressure.end_read_credit()
        self._backpressure.remove(sink)

    def _finish(self, request_id: int, error: ReplyError | None = None) -> None:
        with self._node.lock:
            collector = self._collectors.get(request_id)
            if collector is not None:
                collector.finish(error)

    def receive_response(self, response: messages.Response, face: Face) -> None:
        """Collect a reply that the router forwarded; pauses the neighbour's link if the querier's sink is full."""
        collector = self._collectors.get(response.request_id)
        if collector is None:
            return
        key = response.wire_expr.suffix  # the router has already dropped replies on invalid keys
        qos = response.qos or wire.QoS.DEFAULT  # without one it is that of the query, which is the default
        reply = make_reply(key, response.body, response.responder, qos, response.ts_stack, response.timestamp)
        if not collector.add(reply):
            self._backpressure.on_full(collector.sink, face, sink_queries=1)

    def receive_final(self, request_id: int) -> None:
        """Note that the router forwards no more replies to a query."""
        collector = self._collectors.get(request_id)
        if collector is not None:
            collector.source_finished()

    def finish_all(self) -> None:
        """Finish every pending query: the session is closed."""
        for request_id in list(self._collectors):
            self._finish(request_id)

    @property
    def pending(self) -> int:
        """The number of queries that have not finished."""
        return len(self._collectors)
