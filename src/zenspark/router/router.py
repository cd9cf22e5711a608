"""Router: a message from a face in, messages to faces out.

The law it keeps: a PUSH reaches every face with a matching subscriber, once, and never goes back where it came from;
a REQUEST reaches the queryables its target names and ends in exactly one RESPONSE_FINAL; whoever sends INTEREST gets
the current declarations and then D_FINAL. Roles differ only in the table of `routes.py`.

Everything a face declared goes when the face goes. What the peer may not do is ignored, never raised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, assert_never

from zenspark.router.face import DECLARE, REGIONS, UNDECLARE, Declared, Face, Kind, Region, Told
from zenspark.router.interests import ANSWER_TIMEOUT, Asked, Interests, kinds_of
from zenspark.router.queries import Pending, Queries
from zenspark.router.routes import UNSOLICITED, Routes, is_key_expression, reaches
from zenspark.router.tables import Entry, Table, is_complete_for, merge
from zenspark.wire.fields import replace
from zenspark.wire.messages import (
    AnyDeclaration,
    Declare,
    DeclareFinal,
    DeclareKeyexpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    Err,
    Interest,
    NetworkMessage,
    NetworkOam,
    Push,
    Request,
    Response,
    ResponseFinal,
    UndeclareKeyexpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from zenspark.wire.values import EntityId, InterestMode, Mapping, QoS, QueryableInfo, WhatAmI, WireExpr, ZenohId

DEFAULT_QUERY_TIMEOUT = 10.0
NULL_EXPR = WireExpr(0, "", Mapping.RECEIVER)
INITIAL_INTEREST = 0
"""The interest two peers act as if they had sent each other."""

Out = list[tuple[Face, NetworkMessage]]


def declaration(kind: Kind, number: int, expr: WireExpr, info: QueryableInfo) -> AnyDeclaration:
    """The declaration of one kind."""
    match kind:
        case Kind.SUBSCRIBER:
            return DeclareSubscriber(id=number, wire_expr=expr)
        case Kind.QUERYABLE:
            return DeclareQueryable(id=number, wire_expr=expr, info=info)
        case Kind.TOKEN:
            return DeclareToken(id=number, wire_expr=expr)
        case _:
            assert_never(kind)


def undeclaration(kind: Kind, number: int) -> AnyDeclaration:
    """Its end. Queryables and tokens carry the null expression, as eclipse-zenoh writes them."""
    match kind:
        case Kind.SUBSCRIBER:
            return UndeclareSubscriber(id=number)
        case Kind.QUERYABLE:
            return UndeclareQueryable(id=number, ext_wire_expr=NULL_EXPR)
        case Kind.TOKEN:
            return UndeclareToken(id=number, ext_wire_expr=NULL_EXPR)
        case _:
            assert_never(kind)


def _is_for_all(member: Face, message: NetworkMessage) -> bool:
    """Whether what a member says in a group is for everybody there: publications, and the numbers of their keys.

    Nobody can be answered alone, so questions have no answer; eclipse-zenoh's declarations there change nothing.
    """
    match message:
        case Push():
            return not member.is_doubled
        case Declare(body=DeclareKeyexpr() | UndeclareKeyexpr()):
            return True
    return False


class Router:
    """The tables of one node and the moves that change them."""

    def __init__(self, zid: ZenohId, whatami: WhatAmI, query_timeout: float = DEFAULT_QUERY_TIMEOUT) -> None:
        self.zid = zid
        self.whatami = whatami
        self.query_timeout = query_timeout
        self.answer_timeout = ANSWER_TIMEOUT
        self._tables = {kind: Table() for kind in Kind}
        self._interests = Interests()
        self._queries = Queries()
        self._faces: dict[int, Face] = {}
        self._numbers = 0
        self._out: Out = []
        self.routes = Routes(self._tables, self._is_unknown)

    # -- faces

    def add_local(self) -> Face:
        """The face of this node's own session."""
        return self._add(self.zid, self.whatami, Region.LOCAL)

    def add_face(self, zid: ZenohId, whatami: WhatAmI, now: float) -> tuple[Face, Out]:
        """A new neighbour, and what it must be told at once."""
        face = self._add(zid, whatami, REGIONS[self.whatami, whatami])
        if face.region is Region.UPSTREAM:
            for asked in self._interests.all():
                self._pass_on(asked, face, now)
        if face.region in UNSOLICITED:
            for kind, table in self._tables.items():
                for entry in table.matching(None):
                    self._tell(face, kind, entry.key)
        if face.region is Region.PEER:
            self._declare(face, DeclareFinal(), INITIAL_INTEREST)
        return face, self._flush()

    def add_group(self) -> Face:
        """The face of a multicast group, which gets every publication: its members declare nothing that counts."""
        return self._add(self.zid, self.whatami, Region.GROUP)

    def add_member(self, group: Face, zid: ZenohId, whatami: WhatAmI) -> Face:
        """A node that is heard in a group."""
        face = self._add(zid, whatami, Region.MEMBER)
        face.group = group
        group.members.add(zid)
        return face

    def _add(self, zid: ZenohId, whatami: WhatAmI, region: Region) -> Face:
        self._numbers += 1
        face = Face(self._numbers, zid, whatami, region)
        self._faces[face.number] = face
        self._change_faces()
        return face

    def _change_faces(self) -> None:
        """Faces came or went. A node that is heard in several ways is listened to in one, best in its own session."""
        members = [face for face in self._faces.values() if face.region is Region.MEMBER]
        heard = {face.zid for face in self._faces.values() if face.region is not Region.MEMBER}
        for face in members:
            face.is_doubled = face.zid in heard
            heard.add(face.zid)
        self.routes.change(list(self._faces.values()))

    def remove_face(self, face: Face, now: float) -> Out:
        """A neighbour is gone, with everything it declared, asked and owed."""
        del self._faces[face.number]
        for kind in Kind:
            for number in list(face.declared[kind]):
                self._undeclare(face, kind, number)
        for asked in self._interests.of(face):
            self._end_interest(face, asked.id)
        for asked in self._interests.all():
            asked.passed_on.pop(face, None)
            self._answered(asked, face)
        for pending in self._queries.of(face):
            self._queries.drop(pending)
        for number in self._queries.to(face):
            self._finish_copy(face, number)
        if face.group is not None:
            face.group.members.discard(face.zid)
        self._change_faces()
        return self._flush()

    def _flush(self) -> Out:
        out, self._out = self._out, []
        return out

    # -- one message in

    def receive(self, face: Face, message: NetworkMessage, now: float) -> Out:
        """What a face says, and what follows from it."""
        if face.region is not Region.MEMBER or _is_for_all(face, message):
            self._MOVES[type(message)](self, face, message, now)
        return self._flush()

    def _ignore(self, face: Face, message: NetworkMessage, now: float) -> None:
        """Messages that mean nothing here."""

    def _on_declare(self, face: Face, message: Declare, now: float) -> None:
        body = message.body
        match body:
            case DeclareKeyexpr():
                face.learn_key(body)
            case UndeclareKeyexpr():
                face.forget_key(body.expr_id)
            case DeclareFinal():
                self._on_final(face, message.interest_id)
            case DeclareSubscriber() | DeclareQueryable() | DeclareToken():
                self._on_declaration(face, DECLARE[type(body)], body, message.interest_id)
            case UndeclareSubscriber() | UndeclareQueryable() | UndeclareToken():
                self._undeclare(face, UNDECLARE[type(body)], body.id)
            case _:
                assert_never(body)

    def _on_declaration(
        self,
        face: Face,
        kind: Kind,
        body: DeclareSubscriber | DeclareQueryable | DeclareToken,
        interest_id: int | None,
    ) -> None:
        key = self._valid_key(face, body.wire_expr)
        if key is None:
            return
        info = body.info if isinstance(body, DeclareQueryable) else QueryableInfo.NONE
        asked = None if interest_id is None else self._interests.answered_by(face, interest_id)
        if asked is not None and not asked.is_future:  # nobody keeps this: it answers one question, once
            self._tell_current(asked, kind, asked.announces(kind, key), info)
            return
        if asked is not None and not asked.aggregate:  # news to who asked, but not to others who knew before
            self._tell_current(asked, kind, key, info)
        self._declare_entity(face, kind, body.id, Declared(key, info))

    def _valid_key(self, face: Face, expr: WireExpr) -> str | None:
        key = face.resolve(expr)
        return key if key is not None and is_key_expression(key) else None

    # -- declarations

    def _declare_entity(self, face: Face, kind: Kind, number: int, declared: Declared) -> None:
        known = face.declared[kind].get(number)
        if known == declared:
            return
        if known is not None and known.key != declared.key:
            self._undeclare(face, kind, number)
        face.declared[kind][number] = declared
        self._tables[kind].add(declared.key, face, number, declared.info)
        self._spread(kind, declared.key)

    def _undeclare(self, face: Face, kind: Kind, number: int) -> None:
        declared = face.declared[kind].pop(number, None)
        if declared is None:
            return
        self._tables[kind].discard(declared.key, face, number)
        self._spread(kind, declared.key)

    def _spread(self, kind: Kind, key: str) -> None:
        """Tell everybody who should know that a key is now, or is no longer, declared."""
        self.routes.change(list(self._faces.values()))
        for face in self._faces.values():
            if face.region in UNSOLICITED:
                self._tell(face, kind, key)
            for announced in self._announced(face, kind, key):
                self._tell(face, kind, announced)
            if key in face.told[kind]:  # perhaps for an interest that has ended: eclipse-zenoh remembers it
                self._tell(face, kind, key)

    def _announced(self, face: Face, kind: Kind, key: str) -> set[str]:
        """The keys under which a face wants to hear of a declaration, by its interests."""
        wanted = [asked for asked in self._interests.of(face) if asked.is_future and asked.matches(kind, key)]
        return {asked.announces(kind, key) for asked in wanted}

    def _tell(self, face: Face, kind: Kind, key: str) -> None:
        """Bring what a face was told about a key up to date."""
        info = self._visible(face, kind, key)
        told = face.told[kind].get(key)
        if info is None:
            if told is not None:
                del face.told[kind][key]
                self._declare(face, undeclaration(kind, told.id))
        elif told is None:
            face.told[kind][key] = Told(face.next_id(), info)
            self._declare_key(face, kind, key)
        elif told.info != info:
            told.info = info
            self._declare_key(face, kind, key)

    def _declare_key(self, face: Face, kind: Kind, key: str, interest_id: int | None = None) -> None:
        told = face.told[kind][key]
        self._bind_prefix(face, key)
        self._declare(face, declaration(kind, told.id, face.express(key), told.info), interest_id)

    def _bind_prefix(self, face: Face, key: str) -> None:
        binding = face.bind_prefix(key) if face.region is not Region.LOCAL else None
        if binding is not None:
            self._declare(face, binding)

    def _visible(self, face: Face, kind: Kind, key: str) -> QueryableInfo | None:
        """What a face may know of a key: the declarations of others it can reach, as one; None if there is none."""
        entry = self._tables[kind].get(key)
        infos = [] if entry is None else self._offers(face, kind, entry)
        for asked in self._interests.of(face):
            if asked.aggregate and asked.key == key and kind in asked.kinds:
                infos += self._aggregated(face, kind, key)
        return merge(infos) if infos else None

    def _offers(self, face: Face, kind: Kind, entry: Entry) -> list[QueryableInfo]:
        own_too = kind is Kind.TOKEN and face.region is not Region.PEER and face.region not in UNSOLICITED
        return [entry.info(holder) for holder in entry.holders if reaches(face, holder) or (own_too and holder is face)]

    def _aggregated(self, face: Face, kind: Kind, key: str) -> list[QueryableInfo]:
        """What stands for all declarations that match a key: complete if one of them covers it all."""
        found = []
        for entry in self._tables[kind].matching(key):
            for info in self._offers(face, kind, entry):
                found.append(QueryableInfo(is_complete_for(entry, info, key), info.distance))
        return found

    def _declare(self, face: Face, body: AnyDeclaration, interest_id: int | None = None) -> None:
        self._out.append((face, Declare(interest_id=interest_id, qos=QoS.DECLARE, body=body)))

    # -- interests

    def _on_interest(self, face: Face, interest: Interest, now: float) -> None:
        if face.region in (Region.UPSTREAM, Region.ROUTER):
            return  # those above us and routers beside us are told without asking
        if interest.mode is InterestMode.FINAL:
            self._end_interest(face, interest.id)
            return
        key = None if interest.wire_expr is None else self._valid_key(face, interest.wire_expr)
        if key is None and interest.wire_expr is not None:
            self._declare(face, DeclareFinal(), interest.id)
            return
        self._end_interest(face, interest.id)
        aggregate = interest.aggregate and face.region is not Region.SOUTH_PEER
        asked = Asked(face, interest.id, interest.mode, kinds_of(interest), key, aggregate)
        self._interests.add(asked)
        self._answer(asked)
        for upstream in [each for each in self._faces.values() if each.region is Region.UPSTREAM]:
            self._pass_on(asked, upstream, now)
        self._conclude(asked)

    def _answer(self, asked: Asked) -> None:
        """The current declarations somebody asked for, or, for future ones, a note of what is already known."""
        for kind in sorted(asked.kinds, key=lambda each: each.value):
            keys = {asked.announces(kind, entry.key): None for entry in self._tables[kind].matching(asked.key)}
            for key in keys:
                info = self._visible(asked.face, kind, key)
                if info is not None and asked.is_current:
                    self._tell_current(asked, kind, key, info)

    def _tell_current(self, asked: Asked, kind: Kind, key: str, info: QueryableInfo) -> None:
        face = asked.face
        if (kind, key) in asked.told:
            return
        asked.told.add((kind, key))
        if not asked.is_future:
            self._bind_prefix(face, key)
            self._declare(face, declaration(kind, 0, face.express(key), info), asked.id)
            return
        told = face.told[kind].setdefault(key, Told(0, info))
        told.id = told.id or face.next_id()
        told.info = info
        self._declare_key(face, kind, key, asked.id)

    def _pass_on(self, asked: Asked, upstream: Face, now: float) -> None:
        if not reaches(asked.face, upstream):
            return
        number = upstream.next_id()
        asked.deadline = now + self.answer_timeout
        self._interests.pass_on(asked, upstream, number)
        self._bind_prefix(upstream, asked.key) if asked.key is not None else None
        self._out.append(
            (
                upstream,
                Interest(
                    id=number,
                    mode=asked.mode,
                    keyexprs=True,
                    subscribers=Kind.SUBSCRIBER in asked.kinds,
                    queryables=Kind.QUERYABLE in asked.kinds,
                    tokens=Kind.TOKEN in asked.kinds,
                    wire_expr=None if asked.key is None else upstream.express(asked.key),
                    qos=QoS.DECLARE,
                ),
            )
        )

    def _on_final(self, face: Face, interest_id: int | None) -> None:
        if interest_id == INITIAL_INTEREST and face.region is Region.PEER:
            face.wants_all = False
            self.routes.change(list(self._faces.values()))
        asked = None if interest_id is None else self._interests.answered_by(face, interest_id)
        if asked is not None:
            self._answered(asked, face)

    def _answered(self, asked: Asked, face: Face) -> None:
        """A node above us has nothing more to tell of this."""
        if face in asked.waiting:
            asked.waiting.remove(face)
            self.routes.change(list(self._faces.values()))
            self._conclude(asked)

    def _conclude(self, asked: Asked) -> None:
        if asked.is_current and not asked.waiting:
            self._declare(asked.face, DeclareFinal(), asked.id)
            if not asked.is_future:
                self._interests.remove(asked.face, asked.id)

    def _end_interest(self, face: Face, number: int) -> None:
        asked = self._interests.remove(face, number)
        if asked is None:
            return
        self.routes.change(list(self._faces.values()))
        for upstream, passed in asked.passed_on.items():
            self._out.append((upstream, Interest(id=passed, mode=InterestMode.FINAL, qos=QoS.DECLARE)))
        if asked.is_future:
            for kind in asked.kinds:
                if asked.aggregate and asked.key in face.told[kind]:  # what stood for many stands for nothing now
                    self._tell(face, kind, asked.key)
            for upstream in asked.passed_on:
                self._forget_heard(asked, upstream)

    def _forget_heard(self, asked: Asked, upstream: Face) -> None:
        """What a node above us told for this interest alone, it will not tell the end of."""
        left = [other for other in self._interests.all() if other.is_future and upstream in other.passed_on]
        for kind in asked.kinds:
            for number, declared in list(upstream.declared[kind].items()):
                if not any(other.matches(kind, declared.key) for other in left):
                    self._undeclare(upstream, kind, number)

    def _is_unknown(self, face: Face, kind: Kind, key: str) -> bool:
        """Whether a face may want a message about which it has told us nothing."""
        if face.region is Region.UPSTREAM:
            return not self._interests.is_answered(face, kind, key)
        return face.wants_all or (face.region is Region.GROUP and kind is Kind.SUBSCRIBER)

    # -- publications

    def _on_push(self, face: Face, message: Push, now: float) -> None:
        key = face.resolve(message.wire_expr)
        if key is None:
            return
        for target in self.routes.push(face, key):
            self._out.append((target, replace(message, wire_expr=target.express(key), node_id=0)))

    # -- queries

    def _on_request(self, face: Face, request: Request, now: float) -> None:
        key = self._valid_key(face, request.wire_expr)
        targets = () if key is None else self.routes.request(face, key, request.target)
        timeout = self.query_timeout if request.timeout_ms is None else request.timeout_ms / 1000
        pending = Pending(face, request.request_id, request.qos, now + timeout, request.budget)
        pending.copies = {(target, target.next_request_id()) for target in targets}
        self._queries.add(pending)
        for target, number in sorted(pending.copies, key=lambda copy: copy[0].number):
            expr = target.express(key or "")
            self._out.append((target, replace(request, request_id=number, wire_expr=expr, node_id=0)))
        if not targets:
            self._finish(pending)

    def _on_response(self, face: Face, response: Response, now: float) -> None:
        pending = self._queries.find(face, response.request_id)
        key = face.resolve(response.wire_expr)
        if pending is None or key is None:
            return
        self._out.append(
            (
                pending.origin,
                replace(response, request_id=pending.origin_id, wire_expr=WireExpr(0, key), qos=pending.qos),
            )
        )
        if pending.budget:
            pending.budget -= 1
            if not pending.budget:
                self._queries.drop(pending)
                self._finish(pending)

    def _on_response_final(self, face: Face, final: ResponseFinal, now: float) -> None:
        self._finish_copy(face, final.request_id)

    def _finish_copy(self, face: Face, number: int) -> None:
        pending = self._queries.finish(face, number)
        if pending is not None:
            self._finish(pending)

    def _finish(self, pending: Pending) -> None:
        self._out.append((pending.origin, ResponseFinal(request_id=pending.origin_id, qos=pending.qos)))

    # -- time

    def next_timeout(self) -> float | None:
        """When `handle_timeout` has something to do."""
        waiting = [asked.deadline for asked in self._interests.all() if asked.waiting]
        query = self._queries.next_deadline()
        return min([*waiting, *([] if query is None else [query])], default=None)

    def handle_timeout(self, now: float) -> Out:
        """Give up on answers that are too late."""
        for pending in self._queries.expired(now):
            for silent, _ in sorted(pending.copies, key=lambda copy: copy[0].number):
                self._out.append((pending.origin, self._timeout_error(pending, silent)))
            self._queries.drop(pending)
            self._finish(pending)
        for asked in self._interests.all():
            if asked.waiting and asked.deadline <= now:
                for face in list(asked.waiting):
                    self._answered(asked, face)
        return self._flush()

    def _timeout_error(self, pending: Pending, silent: Face) -> Response:
        return Response(
            request_id=pending.origin_id,
            wire_expr=WireExpr(),
            qos=pending.qos,
            responder=EntityId(silent.zid, 0),
            body=Err(payload=b"Timeout"),
        )

    _MOVES: ClassVar[dict[type[NetworkMessage], Callable[..., None]]] = {
        Declare: _on_declare,
        Interest: _on_interest,
        Push: _on_push,
        Request: _on_request,
        Response: _on_response,
        ResponseFinal: _on_response_final,
        NetworkOam: _ignore,
    }
