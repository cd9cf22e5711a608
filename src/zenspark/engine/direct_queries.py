"""Direct queries: the fast path of REQUEST and RESPONSE between this session and a neighbour, without the router.

The router forwards a query in one copy per target, keeps the pending request ids, and maps the ids of all replies back.
Where a query of this session goes to neighbours only, or a neighbour's query to this session only, there is nothing to
route. So the session allocates the request id on that link itself, and receives the replies by it. The router is used
whenever something may inspect or change the messages: a namespace, interceptors, timestamp stacks, a reply budget, and
every query with both local and remote targets.

All of this is guarded by the node's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from zenspark.engine.namespace import Namespace
from zenspark.engine.queryables import LocalQueryables
from zenspark.engine.receive_backpressure import ReceiveBackpressure
from zenspark.engine.reply_collector import ReplyCollector, make_reply
from zenspark.key import KeyExpr
from zenspark.net.io.counters import DropReason
from zenspark.net.io.link_driver import LinkDriver
from zenspark.net.node import message_log
from zenspark.net.node.node import Node
from zenspark.router.face import Face, Region
from zenspark.router.limits import is_key_expression
from zenspark.router.queries.query_router import TOO_MANY_QUERIES_TEXT, make_timeout_response, query_timeout_seconds
from zenspark.types.arguments import INFINITY
from zenspark.types.enums import ConsolidationMode, Locality
from zenspark.types.ids import EntityGlobalId
from zenspark.types.sample import Reply, Sample, SampleHeader
from zenspark.wire import messages
from zenspark.wire import values as wire
from zenspark.wire.message_schema import replace
from zenspark.wire.templates import MessageTemplate


class DirectTarget(msgspec.Struct, eq=False, frozen=True):
    """A neighbour that a query is sent to, and the REQUEST as it is encoded for it."""

    face: Face
    driver: LinkDriver
    key_mapping_version: int
    request: MessageTemplate


class DirectRoute(msgspec.Struct, eq=False, frozen=True):
    """The targets of a query, valid as long as `version` is current."""

    version: tuple[int, int]
    """Versions of the router's routes and of the queryables of this session that the targets were found with."""
    targets: Sequence[DirectTarget]


class QueryRequest(msgspec.Struct, eq=False):
    """One query of this session, as its querier or `get` specified it."""

    key_expr: KeyExpr
    body: messages.Query
    target: wire.QueryTarget
    qos: wire.QoS
    timeout: float
    """Seconds; infinite if the querier waits for every RESPONSE_FINAL without a limit."""
    mode: ConsolidationMode
    """The consolidation of replies that prefer none, or whose preference is ignored."""
    any_key: bool
    destination: Locality = Locality.ANY
    budget: int = 0
    """RESPONSEs the querier accepts at most; 0 for no limit."""
    timestamp: wire.Timestamp | None = None
    stack: wire.TimestampStack | None = None
    route: DirectRoute | None = None
    """The cached route of a query that a querier repeats."""

    def request(self, request_id: int, expr: wire.WireExpr) -> messages.Request:
        """Return the REQUEST message of this query."""
        return messages.Request(
            request_id=request_id,
            wire_expr=expr,
            qos=self.qos,
            timestamp=self.timestamp,
            target=self.target,
            budget=self.budget,
            timeout_ms=None if self.timeout == INFINITY else int(self.timeout * 1000),
            ts_stack=self.stack,
            body=self.body,
        )


class RequestTemplate(msgspec.Struct, eq=False, frozen=True):
    """A neighbour's REQUEST whose only target is this session; repetitions of it are recognised by identity."""

    face: Face
    key_mapping_version: int
    version: int
    request: messages.Request
    driver: LinkDriver
    key_expr: KeyExpr

    def matches(self, face: Face, request: messages.Request, version: int) -> bool:
        """Return whether a request has the same route: the decoder reuses the objects of a repeated message."""
        previous = self.request
        return (
            face is self.face
            and request.wire_expr is previous.wire_expr
            and request.target is previous.target
            and request.node_id == previous.node_id
            and version == self.version
            and face.key_mapping_version == self.key_mapping_version
        )


class ReplyTemplate(msgspec.Struct, eq=False, frozen=True):
    """The fields that consecutive RESPONSEs with a value share, and the sample header made from them."""

    face: Face
    key_mapping_version: int
    expr: wire.WireExpr
    responder: wire.EntityId | None
    encoding: wire.Encoding
    qos: wire.QoS
    header: SampleHeader
    replier: EntityGlobalId | None

    def matches(self, face: Face, response: messages.Response, put: messages.Put, qos: wire.QoS) -> bool:
        """Return whether a response has the same fields: the decoder reuses the objects of a repeated message."""
        return (
            response.wire_expr is self.expr
            and put.encoding is self.encoding
            and response.responder is self.responder
            and qos is self.qos
            and face is self.face
            and face.key_mapping_version == self.key_mapping_version
        )


class ResponseTemplate(msgspec.Struct, eq=False, frozen=True):
    """A RESPONSE encoded up to its payload, and the fields it was made from."""

    key: str
    responder: wire.EntityId | None
    qos: wire.QoS | None
    encoding: wire.Encoding
    response: MessageTemplate


class DirectReplyHandle:
    """Sends the replies to one query of a neighbour straight to its link."""

    __slots__ = (
        "_direct",
        "_driver",
        "_face",
        "_final_qos",
        "_is_finished",
        "_qos",
        "_request_id",
        "_timer",
        "key_expr",
    )

    def __init__(
        self, direct: DirectQueries, template: RequestTemplate, request: messages.Request, timeout: float
    ) -> None:
        self.key_expr = template.key_expr
        self._direct = direct
        self._face = template.face
        self._driver = driver = template.driver
        self._request_id = request.request_id
        self._qos = self._final_qos = request.qos.for_patch(driver.patch)
        self._is_finished = False
        self._timer = driver.loop.call_at(driver.loop.now() + timeout, self._expire)

    def send_reply(
        self,
        key: str,
        body: messages.Reply | messages.Err,
        responder: wire.EntityId,
        qos: wire.QoS | None,
        timestamp: wire.Timestamp | None,
    ) -> None:
        """Send one RESPONSE, and wait while the link has unsent bytes; with a droppable QoS it is dropped instead."""
        congestion = wire.Congestion.BLOCK if qos is None else qos.congestion
        if congestion is not wire.Congestion.BLOCK and not self._driver.wait_until_drained(congestion):
            self._driver.count_dropped(DropReason.CONGESTION)
            return
        with self._direct.lock:
            if self._is_finished:
                return
            self._send_response(key, body, responder, qos or self._qos, timestamp)
        self._flush()
        self._driver.wait_until_drained(congestion)

    def _send_response(
        self,
        key: str,
        body: messages.Reply | messages.Err,
        responder: wire.EntityId,
        qos: wire.QoS,
        timestamp: wire.Timestamp | None,
    ) -> None:
        qos = qos.for_patch(self._driver.patch)
        self._final_qos = self._final_qos.not_before(qos)
        extension = self._qos.response_extension(qos)
        put = _put_without_metadata(body)
        if put is not None:  # the timestamp of a value, if any, is in its body
            template = self._direct.response_template(key, responder, extension, put.encoding)
            self._driver.send_encoded(template.response.with_id(self._request_id), put.payload, qos)
        else:
            response = messages.Response(
                request_id=self._request_id,
                wire_expr=wire.WireExpr(0, key),
                qos=extension,
                timestamp=timestamp,
                responder=responder,
                body=body,
            )
            self._driver.send_message(response, qos)

    def _flush(self) -> None:
        if not self._driver.loop.is_loop_thread:  # the loop flushes at the end of its turn
            self._driver.flush()

    def finish(self) -> None:
        """Send the RESPONSE_FINAL; does nothing if it was sent."""
        with self._direct.lock:
            if self._is_finished:
                return
            self._is_finished = True
            self._direct.remove(self._face, self)
            final = self._direct.final_template(self._final_qos)
            self._driver.send_encoded(final.with_id(self._request_id), None, self._final_qos)
        self._timer.cancel()
        self._flush()

    def abandon(self) -> None:
        """Send nothing more: the neighbour's session closed. Called with the lock held."""
        self._is_finished = True
        self._timer.cancel()

    def _expire(self) -> None:
        """Reply with a timeout error, and finish without waiting for the queryables."""
        with self._direct.lock:
            if not self._is_finished:
                error = make_timeout_response(self._request_id, self._qos, self._direct.zid, str(self.key_expr))
                self._driver.send_message(error, self._qos)
        self.finish()


class DirectQueries:
    """The direct queries of one session, in both directions."""

    def __init__(
        self,
        node: Node,
        backpressure: ReceiveBackpressure,
        namespace: Namespace,
        queryables: LocalQueryables,
    ) -> None:
        self.lock = node.lock
        self.zid = node.identity.zid
        self._node = node
        self._backpressure = backpressure
        self._namespace = namespace
        self._queryables = queryables
        self._routes = node.router.routes
        self._timeout = node.router.policy.query_timeout
        self._max_timeout = node.router.policy.max_query_timeout
        self._max_queries = node.router.policy.limits.queries
        self._pending: dict[Face, dict[int, tuple[ReplyCollector, wire.QoS]]] = {}
        """The queries of this session that a neighbour has not finished, by request id."""
        self._accepted: dict[Face, set[DirectReplyHandle]] = {}
        """The queries of each neighbour that this session has not finished."""
        self._response_template: ResponseTemplate | None = None
        self._final = wire.QoS.DEFAULT, MessageTemplate(messages.ResponseFinal(request_id=0))
        self._request_template: RequestTemplate | None = None
        self._reply_template: ReplyTemplate | None = None

    # -- queries of this session

    def route(self, query: QueryRequest) -> DirectRoute | None:
        """Return the direct route of a query; None if it must go through the router."""
        route = query.route
        version = (self._routes.request_version, self._queryables.version)
        if (
            route is None
            or route.version != version
            or any(target.key_mapping_version != target.face.key_mapping_version for target in route.targets)
        ):
            targets = self._find_targets(query)
            direct = [target for target in targets if target is not None]
            route = query.route = DirectRoute(version, direct) if len(direct) == len(targets) else None
        return route

    def _find_targets(self, query: QueryRequest) -> list[DirectTarget | None]:
        """Return the targets of a query, with None for each that is not direct."""
        key, destination = str(query.key_expr), query.destination
        if self._namespace.is_used or query.stack is not None or destination is Locality.SESSION_LOCAL:
            return [None]
        if destination is not Locality.REMOTE and self._queryables.matching(key, query.target, True):
            return [None]
        faces = self._routes.request_next_hops(self._node.local_face, key, query.target)
        return [self._make_target(face, key, query) for face in faces]

    def _make_target(self, face: Face, key: str, query: QueryRequest) -> DirectTarget | None:
        driver = self._direct_driver(face)
        if driver is None:
            return None
        request = query.request(0, face.to_wire_expr(key))
        request = replace(request, qos=request.qos.for_patch(driver.patch))
        return DirectTarget(face, driver, face.key_mapping_version, MessageTemplate(request))

    def _direct_driver(self, face: Face) -> LinkDriver | None:
        """Return the driver of a neighbour's link; None if interceptors or a multicast group need the router."""
        is_direct = face.egress is None and face.ingress is None and face.region is not Region.GROUP
        return self._node.driver(face) if is_direct else None

    def send(self, route: DirectRoute, query: QueryRequest, collector: ReplyCollector) -> list[LinkDriver]:
        """Send a query to every target; returns the links to flush."""
        for target in route.targets:
            request_id = target.face.next_request_id()
            if request_id is None:
                _reply_too_many_queries(target.face, query, collector)
                continue
            pending = self._pending_on(target.face)
            pending[request_id] = collector, query.qos
            collector.on_finish(partial(pending.pop, request_id, None))
            if message_log.is_enabled():
                expr = target.face.to_wire_expr(str(query.key_expr))
                message_log.log_sent(target.face, query.request(request_id, expr))
            target.driver.send_encoded(target.request.with_id(request_id), None, query.qos)
        return [target.driver for target in route.targets]

    def _pending_on(self, face: Face) -> dict[int, tuple[ReplyCollector, wire.QoS]]:
        """Return the pending queries on a face, by request id; the face counts them as ids in use."""
        pending = self._pending.get(face)
        if pending is None:
            pending = self._pending[face] = {}
            face.in_flight.append(pending)
        return pending

    def try_handle_reply(self, face: Face, message: messages.Response | messages.ResponseFinal) -> bool:
        """Collect a reply to a direct query; returns False if the message belongs to no such query."""
        request_id = message.request_id
        pending = self._pending[face].get(request_id) if face in self._pending else None
        if pending is None:
            return False
        collector, qos = pending
        if isinstance(message, messages.ResponseFinal):
            del self._pending[face][request_id]
            collector.source_finished()
            return True
        reply = self._make_reply(face, message, qos.of_response(message.qos))
        if reply is not None and not collector.add(reply):
            self._backpressure.on_full(collector.sink, face, sink_queries=1)
        return True

    def _make_reply(self, face: Face, response: messages.Response, qos: wire.QoS) -> Reply | None:
        """Return the reply in a RESPONSE; None if its key is unknown or invalid."""
        put = _put_within_template(response)
        template = self._reply_template
        if put is not None and template is not None and template.matches(face, response, put, qos):
            return Reply(Sample(template.header, put.payload, 0, put.attachment), template.replier)
        key = face.resolve(response.wire_expr)
        if key is None or (isinstance(response.body, messages.Reply) and not is_key_expression(key)):
            return None
        if put is not None:
            header = SampleHeader(KeyExpr(key), encoding=put.encoding, qos=qos)
            replier = None if response.responder is None else EntityGlobalId.from_wire(response.responder)
            self._reply_template = ReplyTemplate(
                face,
                face.key_mapping_version,
                response.wire_expr,
                response.responder,
                put.encoding,
                qos,
                header,
                replier,
            )
        return make_reply(key, response.body, response.responder, qos, response.ts_stack, response.timestamp)

    def remove_face(self, face: Face) -> None:
        """Finish the queries sent to a neighbour whose session closed, and drop the replies to its own."""
        for collector, _ in list(self._pending.pop(face, {}).values()):
            collector.source_finished()
        for handle in self._accepted.pop(face, ()):
            handle.abandon()

    def remove(self, face: Face, handle: DirectReplyHandle) -> None:
        """Remove a query of a neighbour that was replied to completely."""
        self._accepted[face].discard(handle)
        face.direct_queries -= 1

    # -- queries of neighbours

    def try_accept(self, face: Face, request: messages.Request) -> DirectReplyHandle | None:
        """Accept a query whose only target is this session; None if it must go through the router."""
        template = self._request_template
        if template is None or not template.matches(face, request, self._routes.request_version):
            template = self._request_template = self._make_request_template(face, request)
        if template is None or request.ts_stack is not None or request.budget:
            return None
        if face.direct_queries >= self._max_queries:
            return None
        face.direct_queries += 1
        timeout = query_timeout_seconds(request, self._timeout, self._max_timeout)
        handle = DirectReplyHandle(self, template, request, timeout)
        self._accepted.setdefault(face, set()).add(handle)
        return handle

    def _make_request_template(self, face: Face, request: messages.Request) -> RequestTemplate | None:
        driver = self._direct_driver(face)
        key, root_psid = face.resolve(request.wire_expr), self._node.router.root_psid(face, request.node_id)
        if driver is None or key is None or root_psid is None or self._namespace.is_used:
            return None
        version = self._routes.request_version
        if self._routes.request_next_hops(face, key, request.target, root_psid) != (self._node.local_face,):
            return None
        return RequestTemplate(face, face.key_mapping_version, version, request, driver, KeyExpr(key))

    def response_template(
        self, key: str, responder: wire.EntityId, qos: wire.QoS | None, encoding: wire.Encoding
    ) -> ResponseTemplate:
        """Return the encoded RESPONSE up to its payload; cached for consecutive equal ones."""
        last = self._response_template
        if (
            last is None
            or key != last.key
            or responder != last.responder
            or qos != last.qos
            or encoding != last.encoding
        ):
            body = messages.Reply(body=messages.Put(encoding=encoding, payload=b""))
            expr = wire.WireExpr(0, key)
            response = messages.Response(request_id=0, wire_expr=expr, qos=qos, responder=responder, body=body)
            template = MessageTemplate(response, ends_at_payload=True)
            last = self._response_template = ResponseTemplate(key, responder, qos, encoding, template)
        return last

    def final_template(self, qos: wire.QoS) -> MessageTemplate:
        """Return the RESPONSE_FINAL as it is encoded but for its request id."""
        if qos != self._final[0]:
            self._final = qos, MessageTemplate(messages.ResponseFinal(request_id=0, qos=qos))
        return self._final[1]


def _reply_too_many_queries(face: Face, query: QueryRequest, collector: ReplyCollector) -> None:
    """Reply with an error in place of a neighbour: every request id on its face is in use."""
    error = messages.Err(payload=TOO_MANY_QUERIES_TEXT)
    collector.add(make_reply(str(query.key_expr), error, wire.EntityId(face.zid, 0), query.qos))
    collector.source_finished()


def _put_within_template(response: messages.Response) -> messages.Put | None:
    """Return the PUT of a response; None if the response has fields that a `ReplyTemplate` does not cover."""
    put = _put_without_consolidation(response.body)
    if put is None or response.ts_stack is not None or response.timestamp is not None:
        return None
    return put if put.timestamp is None and put.source_info is None else None


def _put_without_metadata(body: messages.Reply | messages.Err) -> messages.Put | None:
    """Return the PUT of a reply; None if it has more than an encoding and a payload."""
    put = _put_without_consolidation(body)
    if (
        put is None
        or put.timestamp is not None
        or put.source_info is not None
        or put.attachment is not None
        or put.exts
    ):
        return None
    return put


def _put_without_consolidation(body: messages.Reply | messages.Err) -> messages.Put | None:
    """Return the PUT of a reply; None if the reply prefers a consolidation or is no PUT."""
    if not isinstance(body, messages.Reply) or body.consolidation is not wire.Consolidation.AUTO:
        return None
    return body.body if isinstance(body.body, messages.Put) else None
