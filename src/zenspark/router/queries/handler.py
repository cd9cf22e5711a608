"""Requests: passed on in copies, answers passed back, and one RESPONSE_FINAL at the end, whatever happens.

A copy ends when its RESPONSE_FINAL comes, when its face goes, or when time is up; a request ends with its last copy,
or when as many responses have come as its asker wanted.
"""

from __future__ import annotations

from zenspark.router.face import Face, Outgoing, Region
from zenspark.router.limits import Admission, is_key_expression
from zenspark.router.linkstate.network import SELF
from zenspark.router.queries.pending import INFINITE, PendingQueries, PendingQuery
from zenspark.router.routing.routes import Routes
from zenspark.wire.declare import replace
from zenspark.wire.messages import Err, Reply, Request, Response, ResponseFinal
from zenspark.wire.values import EntityId, QoS, WireExpr, ZenohId

MAX_QUERY_SECONDS = 3600.0
"""How long a request of a neighbour may take, unless configured otherwise: until then it is kept in memory."""
TOO_MANY_QUERIES_TEXT = b"Too many queries in flight"
"""What is replied to a query over the limit."""


def query_timeout_seconds(request: Request, default: float, most: float) -> float:
    """How long a request of a neighbour is waited for: as long as it says, or a default, and at most so long."""
    return min(default if request.timeout_ms is None else request.timeout_ms / 1000, most)


class QueryRouter:
    """The moves that have to do with queries.

    `timeout` is for requests that do not say how long they may take, `max_timeout` the most that a neighbour may ask
    for. The session of this node may ask for any time: it is the one whose memory is used.
    """

    def __init__(
        self,
        out: Outgoing,
        routes: Routes,
        admission: Admission,
        timeout: float,
        max_timeout: float = MAX_QUERY_SECONDS,
    ) -> None:
        self._out = out
        self._routes = routes
        self._admission = admission
        self._timeout = timeout
        self._max_timeout = max_timeout
        self._queries = PendingQueries()
        self._valid_key: str | None = None
        """The last key of a reply that was checked."""

    def on_request(self, face: Face, request: Request, tree: int | None, now: float) -> None:
        """A face asks; `tree` is where in the network of routers it entered, None if nobody knows."""
        key = face.resolve(request.wire_expr)
        targets: tuple[Face, ...] = ()
        if key is not None and tree is not None:
            targets = self._routes.request(face, key, request.target, tree)
        timeout = self._seconds_for(face, request)
        pending = PendingQuery(
            face, request.request_id, request.qos, request.qos, now + timeout, request.budget, key or ""
        )
        if targets and not self._is_admitted(face):
            self._out.append(
                (face, make_error_response(request.request_id, request.qos, face.zid, TOO_MANY_QUERIES_TEXT, key or ""))
            )
            targets = ()
        copies = self._numbered(pending, targets)
        pending.branches.update(copies)
        if not copies:
            if _may_send_final(face):
                self._finish(pending)
            return
        self._queries.add(pending)
        for target, number in copies:
            node_id = (tree or SELF) if target.region is Region.ROUTER else SELF
            expr = target.to_wire_expr(key or "")
            self._out.append((target, replace(request, request_id=number, wire_expr=expr, node_id=node_id)))

    def _seconds_for(self, face: Face, request: Request) -> float:
        """The session of this node may wait for any time, also without end; a neighbour that says nothing may not."""
        if face.region is Region.LOCAL:
            return query_timeout_seconds(request, INFINITE, INFINITE)
        return query_timeout_seconds(request, self._timeout, self._max_timeout)

    def _numbered(self, pending: PendingQuery, targets: tuple[Face, ...]) -> list[tuple[Face, int]]:
        """A copy for each target, with its id; the querier gets an error in the place of one that has no id left."""
        copies = []
        for target in targets:
            number = target.next_request_id()
            if number is None:
                refused = make_error_response(
                    pending.origin_id, pending.qos, target.zid, TOO_MANY_QUERIES_TEXT, pending.key
                )
                self._out.append((pending.origin, refused))
            else:
                copies.append((target, number))
        return copies

    def _is_admitted(self, face: Face) -> bool:
        """Whether the limits allow a face one more request in flight; counted as refused if they do not."""
        in_flight = self._queries.count(face) + face.direct_queries
        return face.region is Region.LOCAL or self._admission.query(face, in_flight)

    def on_response(self, face: Face, response: Response) -> None:
        """Return a response to the querier; a REPLY on an invalid key is dropped and counts for nothing."""
        pending = self._queries.find(face, response.request_id)
        key = face.resolve(response.wire_expr)
        if pending is None or key is None or (isinstance(response.body, Reply) and not self._is_valid(key)):
            return
        qos = response.qos.of_response(pending.qos)
        pending.final_qos = pending.final_qos.not_before(qos)
        back = replace(response, request_id=pending.origin_id, wire_expr=WireExpr(0, key), qos=qos)
        self._out.append((pending.origin, back))
        if pending.budget:
            pending.budget -= 1
            if not pending.budget:
                self._queries.drop(pending)
                self._finish(pending)

    def _is_valid(self, key: str) -> bool:
        """Whether a reply has a key expression; most often it has that of the last one."""
        if key == self._valid_key:
            return True
        is_valid = is_key_expression(key)
        if is_valid:
            self._valid_key = key
        return is_valid

    def on_response_final(self, face: Face, number: int) -> None:
        """A copy has been answered."""
        pending = self._queries.finish(face, number)
        if pending is not None:
            self._finish(pending)

    def _finish(self, pending: PendingQuery) -> None:
        self._out.append((pending.origin, ResponseFinal(request_id=pending.origin_id, qos=pending.final_qos)))

    def remove(self, face: Face) -> None:
        """A face is gone: it waits for nothing, and will answer nothing."""
        for pending in self._queries.of(face):
            self._queries.drop(pending)
        for number in self._queries.to(face):
            self.on_response_final(face, number)
        self._queries.leave(face)

    def next_timeout(self) -> float | None:
        """When the first request runs out of time."""
        return self._queries.next_deadline()

    def handle_timeout(self, now: float) -> None:
        """Give up answers that are too late."""
        for pending in self._queries.expired(now):
            for silent, _ in sorted(pending.branches, key=lambda copy: copy[0].number):
                late = make_timeout_response(pending.origin_id, pending.qos, silent.zid, pending.key)
                self._out.append((pending.origin, late))
            self._queries.drop(pending)
            self._finish(pending)


def _may_send_final(face: Face) -> bool:
    """Whether a request of a face that nobody here answers is over: not in a group where others may answer it.

    All members receive it, and zenoh-pico takes the first RESPONSE_FINAL for the end of all answers.
    """
    return face.group is None or len(face.group.members) == 1


def make_timeout_response(number: int, qos: QoS, silent: ZenohId, key: str = "") -> Response:
    """What is answered in the place of a neighbour that says nothing."""
    return make_error_response(number, qos, silent, b"Timeout", key)


def make_error_response(number: int, qos: QoS, responder: ZenohId, text: bytes, key: str = "") -> Response:
    """A reply that says what went wrong with a query, on the key of the query; 1.10.2 leaves that empty."""
    return Response(
        request_id=number,
        wire_expr=WireExpr(0, key),
        qos=qos,
        responder=EntityId(responder, 0),
        body=Err(payload=text),
    )
