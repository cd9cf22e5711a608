"""Between router and links: messages that are dropped either way, and that no querier waits for a dropped one."""

from __future__ import annotations

import pytest

from tests.unit.router.interceptors.sample_messages import declare, delete, interest, put, query
from zenspark.key import KeyExpr
from zenspark.router.face import Face
from zenspark.router.interceptors.access_control import AccessRules
from zenspark.router.interceptors.chain import InterceptorConfig
from zenspark.router.interceptors.face_interceptors import FaceInterceptors
from zenspark.router.interceptors.rules import AccessPolicy, AccessRule, AccessSubject, Flow, NeighbourAttributes
from zenspark.router.limits import RefusalReason
from zenspark.router.router import Router
from zenspark.wire.messages import (
    Declare,
    DeclareFinal,
    DeclareQueryable,
    DeclareSubscriber,
    NetworkMessage,
    ResponseFinal,
)
from zenspark.wire.values import InterestMode, QoS, WhatAmI, WireExpr, ZenohId

NOW = 5.0


def denying(flow: Flow) -> InterceptorConfig:
    rule = AccessRule(
        id="r",
        permission="deny",
        key_exprs=(KeyExpr("shut/**"),),
        messages=("put", "query", "liveliness_query"),
        flows=(flow,),
    )
    subject = AccessSubject(id="s", zids=("a1",))
    policy = AccessPolicy(rules=("r",), subjects=("s",))
    return InterceptorConfig(access=AccessRules("allow", [rule], [subject], [policy]))


class RouterWithInterceptors:
    """A router with a client that the rules are about, a1, and one that they are not about."""

    def __init__(self, flow: Flow, whatami: WhatAmI = WhatAmI.ROUTER, of: WhatAmI = WhatAmI.CLIENT) -> None:
        self.router = Router(ZenohId(1), whatami)
        self.local = self.router.add_local()
        self.interceptors = FaceInterceptors(self.router, denying(flow))
        self.watched, self.free = (self._join(ZenohId(number), of) for number in (0xA1, 0xB2))

    def _join(self, zid: ZenohId, whatami: WhatAmI) -> Face:
        face, _ = self.router.add_face(zid, whatami, NOW)
        self.interceptors.attach(face, NeighbourAttributes(zid))
        return face

    def route(self, face: Face, message: NetworkMessage) -> list[tuple[Face, NetworkMessage]]:
        """Receive a message from a face. Returns the messages that are sent then."""
        passed, delivered = self.interceptors.on_ingress(face, message, True, NOW)
        if passed is None:
            return self.interceptors.on_egress(delivered, True, NOW)
        return self.interceptors.on_egress(self.router.receive(face, passed, NOW), True, NOW)


def test_faces_get_chains_where_rules_match() -> None:
    place = RouterWithInterceptors("ingress")
    assert place.watched.ingress is not None
    assert place.watched.egress is None
    assert place.free.ingress is not None  # the flow has rules, though none for this one
    assert place.local.ingress is place.local.egress is None


def test_ingress_drop_ends_queries_with_final() -> None:
    place = RouterWithInterceptors("ingress")
    place.route(place.free, declare(DeclareSubscriber(id=1, wire_expr=WireExpr(0, "**"))))
    assert place.route(place.watched, put("shut/a")) == []
    assert [face for face, _ in place.route(place.watched, put("open"))] == [place.free]
    assert [face for face, _ in place.route(place.watched, delete("shut/a"))] == [place.free]
    assert place.route(place.watched, query("shut/a", number=4)) == [(place.watched, ResponseFinal(request_id=4))]
    final = Declare(interest_id=6, qos=QoS.DECLARE, body=DeclareFinal())
    assert place.route(place.watched, interest(InterestMode.CURRENT, "shut/a", 6)) == [(place.watched, final)]


def test_local_messages_are_intercepted_on_egress() -> None:
    place = RouterWithInterceptors("egress")
    for face in (place.watched, place.free):
        place.route(face, declare(DeclareSubscriber(id=1, wire_expr=WireExpr(0, "**"))))
    assert [face for face, _ in place.route(place.local, put("shut/a"))] == [place.free]
    assert {face for face, _ in place.route(place.local, put("open"))} == {place.watched, place.free}


def test_query_dropped_on_egress_counts_as_finished() -> None:
    place = RouterWithInterceptors("egress")
    place.route(place.watched, declare(DeclareQueryable(id=1, wire_expr=WireExpr(0, "shut/**"))))
    replies = place.route(place.free, query("shut/a", number=9))
    assert replies == [(place.free, ResponseFinal(request_id=9))]
    assert place.router.next_timeout() is None


@pytest.mark.parametrize("key", ["shut/a", "open/a"])
def test_interest_dropped_on_egress_counts_as_finished(key: str) -> None:
    place = RouterWithInterceptors("egress", WhatAmI.CLIENT, WhatAmI.ROUTER)
    place.interceptors.on_egress(place.router.remove_face(place.free, NOW), True, NOW)
    sent = place.route(place.local, interest(InterestMode.CURRENT, key, 3))
    final = (place.local, Declare(interest_id=3, qos=QoS.DECLARE, body=DeclareFinal()))
    assert (final in sent) is (key == "shut/a")
    assert (place.router.next_timeout() is None) is (key == "shut/a")


def test_access_control_applies_to_clients_without_a_face() -> None:
    place = RouterWithInterceptors("ingress")
    meant, other = NeighbourAttributes(ZenohId(0xA1)), NeighbourAttributes(None, (), "http")
    assert place.interceptors.has_access_control
    assert not place.interceptors.allows(meant, "ingress", "put", "shut/a")
    assert place.interceptors.allows(meant, "egress", "put", "shut/a")
    assert place.interceptors.allows(meant, "ingress", "put", "open/a")
    assert place.interceptors.allows(other, "ingress", "put", "shut/a")
    open_to_all = FaceInterceptors(place.router, InterceptorConfig())
    assert not open_to_all.has_access_control
    assert open_to_all.allows(meant, "ingress", "put", "shut/a")


def test_denied_ingress_is_counted() -> None:
    place = RouterWithInterceptors("ingress")
    for face, key in ((place.watched, "shut/a"), (place.watched, "shut/b"), (place.watched, "a"), (place.free, "shut")):
        place.route(face, put(key))
    place.route(place.watched, query("shut/c"))
    assert place.router.refusals.counts == {RefusalReason.ACCESS_INGRESS: 3}
    assert place.router.refusals.latest == {RefusalReason.ACCESS_INGRESS: str(place.watched)}


def test_denied_egress_is_counted() -> None:
    place = RouterWithInterceptors("egress")
    place.route(place.watched, declare(DeclareSubscriber(id=1, wire_expr=WireExpr(0, "**"))))
    place.route(place.free, put("shut/a"))
    place.route(place.free, put("a"))
    assert place.router.refusals.counts == {RefusalReason.ACCESS_EGRESS: 1}


def test_denial_of_a_client_without_a_face_is_counted() -> None:
    place = RouterWithInterceptors("ingress")
    assert place.interceptors.allows(NeighbourAttributes(ZenohId(0xA1)), "ingress", "put", "a")
    assert not place.interceptors.allows(NeighbourAttributes(ZenohId(0xA1)), "ingress", "put", "shut/a")
    assert place.router.refusals.counts == {RefusalReason.ACCESS_INGRESS: 1}
