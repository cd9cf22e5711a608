"""Questions between this session and a neighbour, past the router.

The router passes a question on in copies, remembers who waits for which, and does the same with every answer. Where a
question of this session goes to neighbours, or a neighbour's to this session alone, there is nothing to decide on the
way. So the session gives the question a number on that link itself, and takes the answers by it. Whatever somebody may
want to change or to see on the way goes through the router: a namespace, interceptors, clock readings of each hop, a
limited number of answers, and everything that goes to more than one side.

All of this is guarded by the node's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from zenspark.engine.backpressure import ReceiveBackpressure
from zenspark.engine.namespace import Namespace
from zenspark.engine.reply_collector import ReplyCollector, make_reply
from zenspark.key import KeyExpr
from zenspark.net.io.counters import DropReason
from zenspark.net.io.driver import LinkDriver
from zenspark.net.node import event_log
from zenspark.net.node.node import Node
from zenspark.router.face import Face, Region
from zenspark.router.limits import is_key_expression
from zenspark.router.queries.handler import TOO_MANY_QUERIES_TEXT, make_timeout_response, query_timeout_seconds
from zenspark.transport.outbox import vle
from zenspark.types.arguments import INFINITY
from zenspark.types.enums import ConsolidationMode, Locality
from zenspark.types.ids import EntityGlobalId
from zenspark.types.sample import Reply, Sample, SampleHeader
from zenspark.wire import messages
from zenspark.wire import values as wire
from zenspark.wire.codec import encode
from zenspark.wire.declare import replace


class DirectTarget(msgspec.Struct, eq=False, frozen=True):
    """A neighbour that a question goes to, and the bytes of the question before and behind its number."""

    face: Face
    pump: LinkDriver
    vocabulary: int
    header: bytes
    rest: bytes


class DirectRoute(msgspec.Struct, eq=False, frozen=True):
    """Where a question goes, as long as the routes are the same."""

    version: tuple[int, int]
    ends: Sequence[DirectTarget]


class QueryRequest(msgspec.Struct, eq=False):
    """What a query asks for, and how."""

    key_expr: KeyExpr
    query: messages.Query
    target: wire.QueryTarget
    qos: wire.QoS
    timeout: float
    """Seconds; infinite if the querier waits for all RESPONSE_FINALs, however long that takes."""
    mode: ConsolidationMode
    """How replies are merged that prefer nothing, or whose preference does not count."""
    any_key: bool
    destination: Locality = Locality.ANY
    budget: int = 0
    """How many RESPONSEs the querier accepts; 0 for any number."""
    timestamp: wire.Timestamp | None = None
    stack: wire.TimestampStack | None = None
    way: DirectRoute | None = None
    """The way it went the last time."""

    def request(self, number: int, expr: wire.WireExpr) -> messages.Request:
        """The message that asks it."""
        return messages.Request(
            request_id=number,
            wire_expr=expr,
            qos=self.qos,
            timestamp=self.timestamp,
            target=self.target,
            budget=self.budget,
            timeout_ms=None if self.timeout == INFINITY else int(self.timeout * 1000),
            ts_stack=self.stack,
            body=self.query,
        )


class RequestTemplate(msgspec.Struct, eq=False, frozen=True):
    """A question of a neighbour that only this session is asked."""

    face: Face
    vocabulary: int
    version: int
    request: messages.Request
    pump: LinkDriver
    key_expr: KeyExpr

    def is_like(self, face: Face, request: messages.Request, version: int) -> bool:
        """Whether another question goes the same way: who repeats one repeats the very objects in it."""
        like = self.request
        return (
            face is self.face
            and request.wire_expr is like.wire_expr
            and request.target is like.target
            and request.node_id == like.node_id
            and version == self.version
            and face.vocabulary == self.vocabulary
        )


class ReplyTemplate(msgspec.Struct, eq=False, frozen=True):
    """What answers with values have in common, and what that means."""

    face: Face
    vocabulary: int
    expr: wire.WireExpr
    responder: wire.EntityId | None
    encoding: wire.Encoding
    qos: wire.QoS
    head: SampleHeader
    replier: EntityGlobalId | None

    def is_like(self, face: Face, response: messages.Response, put: messages.Put, qos: wire.QoS) -> bool:
        """Whether another answer has the same in common: who repeats one repeats the very objects in it."""
        return (
            response.wire_expr is self.expr
            and put.encoding is self.encoding
            and response.responder is self.responder
            and qos is self.qos
            and face is self.face
            and face.vocabulary == self.vocabulary
        )


class ResponseTemplate(msgspec.Struct, eq=False, frozen=True):
    """The bytes of an answer before and behind its number, up to its payload, and what they depend on."""

    key: str
    responder: wire.EntityId | None
    qos: wire.QoS
    encoding: wire.Encoding
    header: bytes
    rest: bytes


class DirectReplyHandle:
    """A question of a neighbour that queryables of this session answer."""

    __slots__ = ("_direct", "_face", "_final_qos", "_is_over", "_number", "_pump", "_qos", "_timer", "key_expr")

    def __init__(
        self, direct: DirectQueries, known: RequestTemplate, request: messages.Request, timeout: float
    ) -> None:
        self.key_expr = known.key_expr
        self._direct = direct
        self._face = known.face
        self._pump = pump = known.pump
        self._number = request.request_id
        self._qos = self._final_qos = request.qos.for_patch(pump.patch)
        self._is_over = False
        self._timer = pump.loop.call_at(pump.loop.now() + timeout, self._expire)

    def send_reply(
        self,
        key: str,
        body: messages.Reply | messages.Err,
        responder: wire.EntityId,
        qos: wire.QoS | None,
        timestamp: wire.Timestamp | None,
    ) -> None:
        """Send one response; one that may be dropped, and says so itself, is dropped if the link is full."""
        congestion = wire.Congestion.BLOCK if qos is None else qos.congestion
        if congestion is not wire.Congestion.BLOCK and not self._pump.wait_until_drained(congestion):
            self._pump.drop(DropReason.CONGESTION)
            return
        with self._direct.lock:
            if self._is_over:
                return
            self._tell(key, body, responder, qos or self._qos, timestamp)
        self._write()
        self._pump.wait_until_drained(congestion)

    def _tell(
        self,
        key: str,
        body: messages.Reply | messages.Err,
        responder: wire.EntityId,
        qos: wire.QoS,
        timestamp: wire.Timestamp | None,
    ) -> None:
        qos = qos.for_patch(self._pump.patch)
        self._final_qos = self._final_qos.not_before(qos)
        put = _put_without_metadata(body)
        if put is not None:  # a value has its timestamp, if any, in itself
            spoken = self._direct.spoken(key, responder, qos, put.encoding)
            head = spoken.header + vle(self._number) + spoken.rest
            self._pump.tell(head, put.payload, qos)
        else:
            response = messages.Response(
                request_id=self._number,
                wire_expr=wire.WireExpr(0, key),
                qos=qos,
                timestamp=timestamp,
                responder=responder,
                body=body,
            )
            self._pump.say(response, qos)

    def _write(self) -> None:
        if not self._pump.loop.is_loop_thread:  # the loop does so at the end of its turn
            self._pump.flush()

    def finish(self) -> None:
        """There is nothing more to say."""
        with self._direct.lock:
            if self._is_over:
                return
            self._is_over = True
            self._direct.end(self._face, self)
            header, rest = self._direct.final(self._final_qos)
            self._pump.tell(header + vle(self._number) + rest, None, self._final_qos)
        self._timer.cancel()
        self._write()

    def abandon(self) -> None:
        """The neighbour is gone: nothing is sent any more. With the lock."""
        self._is_over = True
        self._timer.cancel()

    def _expire(self) -> None:
        """Wait no longer for the queryables."""
        with self._direct.lock:
            if not self._is_over:
                late = make_timeout_response(self._number, self._qos, self._direct.zid, str(self.key_expr))
                self._pump.say(late, self._qos)
        self.finish()


class DirectQueries:
    """The questions of one session that go past the router. `is_offered` tells whether the session itself answers."""

    def __init__(
        self,
        node: Node,
        room: ReceiveBackpressure,
        namespace: Namespace,
        is_offered: Callable[[str, wire.QueryTarget], bool],
    ) -> None:
        self.lock = node.lock
        self.zid = node.identity.zid
        self._node = node
        self._backpressure = room
        self._namespace = namespace
        self._is_offered = is_offered
        self._routes = node.router.routes
        self._timeout = node.router.policy.query_timeout
        self._max_timeout = node.router.policy.max_query_timeout
        self._max_queries = node.router.policy.limits.queries
        self._asked: dict[Face, dict[int, tuple[ReplyCollector, wire.QoS]]] = {}
        self._serving: dict[Face, set[DirectReplyHandle]] = {}
        """The questions of each neighbour that are not answered yet."""
        self._spoken = ResponseTemplate("", None, wire.QoS.DEFAULT, wire.Encoding.BYTES, b"", b"")
        self._final = (wire.QoS.DEFAULT, *_split_at_request_id(messages.ResponseFinal(request_id=0)))
        self._known: RequestTemplate | None = None
        self._heard: ReplyTemplate | None = None
        self.offers = 0
        """Changes whenever a queryable of this session comes or goes."""

    # -- questions of this session

    def way(self, question: QueryRequest) -> DirectRoute | None:
        """How a question goes past the router; None if it may not."""
        way = question.way
        version = (self._routes.request_version, self.offers)
        if way is None or way.version != version or any(end.vocabulary != end.face.vocabulary for end in way.ends):
            ends = self._ends(question)
            way = question.way = (
                None if None in ends else DirectRoute(version, [end for end in ends if end is not None])
            )
        return way

    def _ends(self, question: QueryRequest) -> list[DirectTarget | None]:
        key, destination = str(question.key_expr), question.destination
        if self._namespace.is_used or question.stack is not None or destination is Locality.SESSION_LOCAL:
            return [None]
        if destination is not Locality.REMOTE and self._is_offered(key, question.target):
            return [None]
        faces = self._routes.request(self._node.local_face, key, question.target)
        return [self._end(face, key, question) for face in faces]

    def _end(self, face: Face, key: str, question: QueryRequest) -> DirectTarget | None:
        pump = self.pump(face)
        if pump is None:
            return None
        request = question.request(0, face.express(key))
        written = replace(request, qos=request.qos.for_patch(pump.patch))
        return DirectTarget(face, pump, face.vocabulary, *_split_at_request_id(written))

    def pump(self, face: Face) -> LinkDriver | None:
        """How to speak to a neighbour, if nobody looks at what is said there and heard from there."""
        is_plain = face.egress is None and face.ingress is None and face.region is not Region.GROUP
        return self._node.driver(face) if is_plain else None

    def ask(self, way: DirectRoute, question: QueryRequest, collector: ReplyCollector) -> list[LinkDriver]:
        """Ask; the links to write to."""
        for end in way.ends:
            number = end.face.next_request_id()
            if number is None:
                _reply_too_many_queries(end.face, question, collector)
                continue
            asked = self._asked_of(end.face)
            asked[number] = collector, question.qos
            collector.on_finish(partial(asked.pop, number, None))
            if event_log.is_enabled():
                event_log.log_sent(end.face, question.request(number, end.face.express(str(question.key_expr))))
            end.pump.tell(end.header + vle(number) + end.rest, None, question.qos)
        return [end.pump for end in way.ends]

    def _asked_of(self, face: Face) -> dict[int, tuple[ReplyCollector, wire.QoS]]:
        """The questions of this session that a neighbour has not answered, by request id."""
        asked = self._asked.get(face)
        if asked is None:
            asked = self._asked[face] = {}
            face.in_flight.append(asked)
        return asked

    def try_handle(self, face: Face, message: messages.Response | messages.ResponseFinal) -> bool:
        """Whether a message answers such a question."""
        number = message.request_id
        found = self._asked[face].get(number) if face in self._asked else None
        if found is None:
            return False
        collector, qos = found
        if isinstance(message, messages.ResponseFinal):
            del self._asked[face][number]
            collector.source_finished()
            return True
        reply = self._reply(face, message, message.qos.of_response(qos))
        if reply is not None and not collector.add(reply):
            self._backpressure.on_full(collector.sink, face, own_queries=1)
        return True

    def _reply(self, face: Face, response: messages.Response, qos: wire.QoS) -> Reply | None:
        """What an answer says; None if the key it is about is unknown, or none."""
        put = _templatable_put(response)
        if put is not None and self._heard is not None and self._heard.is_like(face, response, put, qos):
            return Reply(Sample(self._heard.head, put.payload, 0, put.attachment), self._heard.replier)
        key = face.resolve(response.wire_expr)
        if key is None or (isinstance(response.body, messages.Reply) and not is_key_expression(key)):
            return None
        if put is not None:
            head = SampleHeader(KeyExpr(key), encoding=put.encoding, qos=qos)
            replier = None if response.responder is None else EntityGlobalId.from_wire(response.responder)
            self._heard = ReplyTemplate(
                face, face.vocabulary, response.wire_expr, response.responder, put.encoding, qos, head, replier
            )
        return make_reply(key, response.body, response.responder, qos, response.ts_stack, response.timestamp)

    def closed(self, face: Face) -> None:
        """A neighbour is gone: it will answer nothing, and wants no more answers."""
        for collector, _ in list(self._asked.pop(face, {}).values()):
            collector.source_finished()
        for served in self._serving.pop(face, ()):
            served.abandon()

    def end(self, face: Face, served: DirectReplyHandle) -> None:
        """A question of a neighbour was answered to the end."""
        self._serving[face].discard(served)
        face.direct_queries -= 1

    # -- questions of neighbours

    def served(self, face: Face, request: messages.Request) -> DirectReplyHandle | None:
        """A question that only this session is asked, as it goes past the router; None if it may not."""
        known = self._known
        if known is None or not known.is_like(face, request, self._routes.request_version):
            known = self._known = self._find(face, request)
        if known is None or request.ts_stack is not None or request.budget or face.direct_queries >= self._max_queries:
            return None
        face.direct_queries += 1
        served = DirectReplyHandle(
            self, known, request, query_timeout_seconds(request, self._timeout, self._max_timeout)
        )
        self._serving.setdefault(face, set()).add(served)
        return served

    def _find(self, face: Face, request: messages.Request) -> RequestTemplate | None:
        pump = self.pump(face)
        key, tree = face.resolve(request.wire_expr), self._node.router.tree(face, request.node_id)
        if pump is None or key is None or tree is None or self._namespace.is_used:
            return None
        version = self._routes.request_version
        if self._routes.request(face, key, request.target, tree) != (self._node.local_face,):
            return None
        return RequestTemplate(face, face.vocabulary, version, request, pump, KeyExpr(key))

    def spoken(self, key: str, responder: wire.EntityId, qos: wire.QoS, encoding: wire.Encoding) -> ResponseTemplate:
        """An answer up to its payload: most often it is the same as the last time."""
        last = self._spoken
        if key != last.key or responder != last.responder or qos != last.qos or encoding != last.encoding:
            body = messages.Reply(body=messages.Put(encoding=encoding, payload=b""))
            expr = wire.WireExpr(0, key)
            response = messages.Response(request_id=0, wire_expr=expr, qos=qos, responder=responder, body=body)
            header, rest = _split_at_request_id(response)
            last = self._spoken = ResponseTemplate(
                key, responder, qos, encoding, header, rest[:-1]
            )  # the payload's length
        return last

    def final(self, qos: wire.QoS) -> tuple[bytes, bytes]:
        """The end of answers, before and behind its number."""
        if qos != self._final[0]:
            self._final = (qos, *_split_at_request_id(messages.ResponseFinal(request_id=0, qos=qos)))
        return self._final[1:]


def _reply_too_many_queries(face: Face, question: QueryRequest, collector: ReplyCollector) -> None:
    """Answer a question in the place of a neighbour with no request id left: all are in flight."""
    error = messages.Err(payload=TOO_MANY_QUERIES_TEXT)
    collector.add(make_reply(str(question.key_expr), error, wire.EntityId(face.zid, 0), question.qos))
    collector.source_finished()


def _split_at_request_id(message: messages.NetworkMessage) -> tuple[bytes, bytes]:
    """The bytes of a message before and behind its number, which is 0."""
    whole = encode(message)
    return whole[:1], whole[2:]


def _templatable_put(response: messages.Response) -> messages.Put | None:
    """The value in an answer, if all answers with such a value may have the same head."""
    put = _put_without_consolidation(response.body)
    if put is None or response.ts_stack is not None or response.timestamp is not None:
        return None
    return put if put.timestamp is None and put.source_info is None else None


def _put_without_metadata(body: messages.Reply | messages.Err) -> messages.Put | None:
    """The value in an answer, if it comes with nothing but its encoding."""
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
    """The value in an answer that prefers no consolidation."""
    if not isinstance(body, messages.Reply) or body.consolidation is not wire.Consolidation.AUTO:
        return None
    return body.body if isinstance(body.body, messages.Put) else None
