"""Routing of queries: REQUEST goes to each target, responses go back, and one RESPONSE_FINAL ends the query.

A branch (the request forwarded to one target) ends with its RESPONSE_FINAL, when its face is removed, or when it times
out; a query ends with its last branch, or when its response budget is used up.
"""

from __future__ import annotations

from zenspark.router.face import Face, Outgoing, Region
from zenspark.router.limits import Admission, is_key_expression
from zenspark.router.linkstate.states import SELF
from zenspark.router.queries.pending import INFINITE, PendingQueries, PendingQuery
from zenspark.router.routing.routes import Routes
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import Err, Reply, Request, Response, ResponseFinal
from zenspark.wire.values import EntityId, QoS, WireExpr, ZenohId

MAX_QUERY_SECONDS = 3600.0
"""Default maximum of the timeout of a neighbour's request: until then it is kept in memory."""
TOO_MANY_QUERIES_TEXT = b"Too many queries in flight"
"""Error replied to a query over the limit."""


def query_timeout_seconds(request: Request, default: float, maximum: float) -> float:
    """Timeout of a neighbour's request: its own, or a default, and at most `maximum`."""
    return min(default if request.timeout_ms is None else request.timeout_ms / 1000, maximum)


class QueryRouter:
    """Handles queries of one router.

    `timeout` is for requests that carry none, `max_timeout` the longest that a neighbour may request. The local session
    may use any timeout: it uses its own memory.
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
        self._pending_queries = PendingQueries()
        self._last_valid_key: str | None = None
        """The last valid key of a reply: most often the next has the same."""

    def on_request(self, face: Face, request: Request, root_psid: int | None, now: float) -> None:
        """Handle REQUEST; `root_psid` is that of the router where it entered the network, None if unknown."""
        key = face.resolve(request.wire_expr)
        targets: tuple[Face, ...] = ()
        if key is not None and root_psid is not None:
            targets = self._routes.request_next_hops(face, key, request.target, root_psid)
        timeout = self._timeout_for(face, request)
        pending = PendingQuery(
            face, request.request_id, request.qos, request.qos, now + timeout, request.budget, key or ""
        )
        if targets and not self._admit(face):
            self._out.append(
                (face, make_error_response(request.request_id, request.qos, face.zid, TOO_MANY_QUERIES_TEXT, key or ""))
            )
            targets = ()
        branches = self._assign_request_ids(pending, targets)
        pending.branches.update(branches)
        if not branches:
            if not face.has_fellow_members:  # zenoh-pico takes the first RESPONSE_FINAL for the end of all replies
                self._send_final(pending)
            return
        self._pending_queries.add(pending)
        for target, request_id in branches:
            node_id = (root_psid or SELF) if target.region is Region.ROUTER else SELF
            expr = target.to_wire_expr(key or "")
            self._out.append((target, replace(request, request_id=request_id, wire_expr=expr, node_id=node_id)))

    def _timeout_for(self, face: Face, request: Request) -> float:
        """Timeout of a request: any for the local session, also infinite; bounded for a neighbour."""
        if face.region is Region.LOCAL:
            return query_timeout_seconds(request, INFINITE, INFINITE)
        return query_timeout_seconds(request, self._timeout, self._max_timeout)

    def _assign_request_ids(self, pending: PendingQuery, targets: tuple[Face, ...]) -> list[tuple[Face, int]]:
        """Allocate a request id on each target of a query, and return these branches; the querier gets an error for a
        target that has no id left."""
        branches = []
        for target in targets:
            request_id = target.next_request_id()
            if request_id is None:
                refused = make_error_response(
                    pending.origin_id, pending.qos, target.zid, TOO_MANY_QUERIES_TEXT, pending.key
                )
                self._out.append((pending.origin, refused))
            else:
                branches.append((target, request_id))
        return branches

    def _admit(self, face: Face) -> bool:
        """Admit one more pending query of a face; counted as refused if the limits do not allow it."""
        in_flight = self._pending_queries.count(face) + face.direct_queries
        return face.region is Region.LOCAL or self._admission.admit_query(face, in_flight)

    def on_response(self, face: Face, response: Response) -> None:
        """Forward a response to the querier; a REPLY on an invalid key is dropped, and does not use up the budget."""
        pending = self._pending_queries.find(face, response.request_id)
        key = face.resolve(response.wire_expr)
        if pending is None or key is None or (isinstance(response.body, Reply) and not self._is_valid(key)):
            return
        qos = pending.qos.of_response(response.qos)
        pending.final_qos = pending.final_qos.not_before(qos)
        extension = pending.qos.response_extension(qos)
        forwarded = replace(response, request_id=pending.origin_id, wire_expr=WireExpr(0, key), qos=extension)
        self._out.append((pending.origin, forwarded))
        if pending.budget:
            pending.budget -= 1
            if not pending.budget:
                self._pending_queries.remove(pending)
                self._send_final(pending)

    def _is_valid(self, key: str) -> bool:
        """Whether the key of a reply is a key expression."""
        if key == self._last_valid_key:
            return True
        is_valid = is_key_expression(key)
        if is_valid:
            self._last_valid_key = key
        return is_valid

    def on_response_final(self, face: Face, request_id: int) -> None:
        """Handle RESPONSE_FINAL: end a branch."""
        pending = self._pending_queries.end_branch(face, request_id)
        if pending is not None:
            self._send_final(pending)

    def _send_final(self, pending: PendingQuery) -> None:
        self._out.append((pending.origin, ResponseFinal(request_id=pending.origin_id, qos=pending.final_qos)))

    def remove_face(self, face: Face) -> None:
        """Remove a face: remove its queries, and end the branches it has not ended."""
        for pending in self._pending_queries.by_origin(face):
            self._pending_queries.remove(pending)
        for request_id in self._pending_queries.by_target(face):
            self.on_response_final(face, request_id)
        self._pending_queries.remove_face(face)

    def next_timeout(self) -> float | None:
        """Time at which the first query expires."""
        return self._pending_queries.next_deadline()

    def handle_timeout(self, now: float) -> None:
        """End expired queries: an error for each branch that has not ended, then RESPONSE_FINAL."""
        for pending in self._pending_queries.pop_expired(now):
            for target, _ in sorted(pending.branches, key=lambda branch: branch[0].number):
                timeout = make_timeout_response(pending.origin_id, pending.qos, target.zid, pending.key)
                self._out.append((pending.origin, timeout))
            self._pending_queries.remove(pending)
            self._send_final(pending)


def make_timeout_response(request_id: int, qos: QoS, target: ZenohId, key: str = "") -> Response:
    """Error response in place of a neighbour that did not reply in time."""
    return make_error_response(request_id, qos, target, b"Timeout", key)


def make_error_response(request_id: int, qos: QoS, responder: ZenohId, text: bytes, key: str = "") -> Response:
    """Error response to a query, on the key of the query; eclipse-zenoh 1.10.2 leaves the key empty."""
    return Response(
        request_id=request_id,
        wire_expr=WireExpr(0, key),
        qos=qos.response_extension(qos),
        responder=EntityId(responder, 0),
        body=Err(payload=text),
    )
