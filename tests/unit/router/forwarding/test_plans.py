"""Where publications in columns go: what is known of a template, until when, and what has to be received one by one."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from zenspark.clock import HybridClock, ntp64_from_ns
from zenspark.router.face import Face, Region
from zenspark.router.forwarding.plans import ForwardingPlan, ForwardingPlanner, plans_by_neighbour
from zenspark.router.linkstate.network import TREE_RECOMPUTATION_DELAY_SECONDS
from zenspark.router.router import Router, RouterPolicy
from zenspark.router.timestamping import TimestampPolicy
from zenspark.wire.codec import decode_network, encode, encode_link_states
from zenspark.wire.columns import LANE_EXPRESS, NO_LANE, BatchDecoder, PushColumns, RowForwarder, StopReason
from zenspark.wire.messages import (
    Declare,
    DeclareKeyexpr,
    DeclareSubscriber,
    Frame,
    LinkState,
    NetworkOam,
    Push,
    Put,
)
from zenspark.wire.values import BoundExpr, Congestion, Mapping, Priority, QoS, Timestamp, WhatAmI, WireExpr, ZenohId

OWN = ZenohId(0x99)
NOW = 1_700_000_000_000_000_000
HOUR = 3_600_000_000_000


def push(key: str | WireExpr = "a/b", qos: QoS = QoS.DEFAULT, node_id: int = 0, stamp: Timestamp | None = None) -> Push:
    expr = WireExpr(0, key) if isinstance(key, str) else key
    return Push(wire_expr=expr, qos=qos, node_id=node_id, body=Put(payload=b"x", timestamp=stamp))


def columns_of(*pushes: Push, reliable: bool = True) -> PushColumns:
    columns = PushColumns(64)
    content = encode(Frame(reliable=reliable, sn=1, msgs=pushes))
    assert BatchDecoder(len(content).to_bytes(2, "little") + content).decode(columns) is StopReason.END
    assert len(columns) == len(pushes)
    return columns


class RouterWithClients:
    """A router with two clients, of which one subscribes."""

    def __init__(self, stamps: bool = False) -> None:
        timestamping = TimestampPolicy(OWN, HybridClock(), lambda: NOW) if stamps else None
        self.router = Router(OWN, WhatAmI.ROUTER, RouterPolicy(timestamping=timestamping))
        self.local = self.router.add_local()
        self.source = self.client(1)
        self.target = self.client(2)
        self.subscribe(self.target, "a/**")
        self.forwarding = ForwardingPlanner(self.router, self.local)

    def client(self, number: int) -> Face:
        return self.router.add_face(ZenohId(number), WhatAmI.CLIENT, 0.0)[0]

    def subscribe(self, face: Face, key: str) -> None:
        self.router.receive(face, Declare(body=DeclareSubscriber(id=1, wire_expr=WireExpr(0, key))), 0.0)

    def name(self, face: Face, number: int, key: str) -> None:
        declaration = DeclareKeyexpr(expr_id=number, wire_expr=BoundExpr(0, key))
        self.router.receive(face, Declare(body=declaration), 0.0)

    def plans(self, *pushes: Push, face: Face | None = None) -> list[ForwardingPlan] | None:
        return self.forwarding.plans(face or self.source, columns_of(*pushes), 0, len(pushes))

    def plan(self, message: Push, face: Face | None = None) -> ForwardingPlan:
        found = self.plans(message, face=face)
        assert found is not None
        (plan,) = found
        return plan


def forwarded(plan: ForwardingPlan) -> dict[int, Push]:
    """By neighbour, the message that is sent to it, with a deletion in place of its body."""
    found: dict[int, Any] = {way.target.zid.value: decode_network(way.head + b"\x02") for way in plan.next_hops}
    return found


def test_next_hop_header_uses_the_key_ids_of_the_subscriber() -> None:
    place = RouterWithClients()
    assert forwarded(place.plan(push()))[2].wire_expr == WireExpr(0, "a/b")
    place.name(place.target, 7, "a")
    assert forwarded(place.plan(push()))[2].wire_expr == WireExpr(7, "/b", Mapping.RECEIVER)


def test_plan_is_cached_per_template() -> None:
    place = RouterWithClients()
    assert place.plan(push()) is place.plan(push())


def test_new_key_reuses_the_decoded_prefix_template() -> None:
    """What differs in anything but the key is still distinguished."""
    place = RouterWithClients()
    place.subscribe(place.local, "a/2")
    place.name(place.source, 3, "a/")
    blocking = QoS(congestion=Congestion.BLOCK)
    for qos in (QoS.DEFAULT, blocking):
        for number in range(3):
            for expr in (WireExpr(0, f"a/{number}"), WireExpr(3, f"{number}", Mapping.SENDER)):
                plan = place.plan(push(expr, qos=qos))
                assert forwarded(plan)[2].wire_expr == WireExpr(0, f"a/{number}")
                assert plan.local_key == ("a/2" if number == 2 else None)
                assert plan.congestion is qos.congestion
    cached = place.forwarding._cache.for_face(place.source, place.source.key_mapping_version)
    assert (len(cached), len(cached.templates)) == (3 * 2 * 2, 2 * 2)


def test_plan_is_recomputed_after_new_subscriber_or_key_mapping() -> None:
    place = RouterWithClients()
    number = push(WireExpr(3, "", Mapping.SENDER))
    assert place.plan(number).next_hops == ()
    place.name(place.source, 3, "a/b")
    assert forwarded(place.plan(number)).keys() == {2}
    place.subscribe(place.client(4), "a/b")
    assert forwarded(place.plan(number)).keys() == {2, 4}


def test_the_lane_is_that_of_the_message_and_its_frame() -> None:
    place = RouterWithClients()
    urgent = QoS(Priority.REAL_TIME, Congestion.DROP, express=True)
    found = place.forwarding.plans(place.source, columns_of(push(qos=urgent), reliable=False), 0, 1)
    assert found is not None
    plan = found[0]
    assert plan.lane == Priority.REAL_TIME | LANE_EXPRESS
    assert plan.congestion is Congestion.DROP
    plan = place.plan(push(qos=QoS(Priority.DATA, Congestion.BLOCK)))
    assert plan.lane == Priority.DATA | 0x08
    assert plan.congestion is Congestion.BLOCK
    assert forwarded(plan)[2].qos == QoS(Priority.DATA, Congestion.BLOCK)


def test_no_plan_if_an_interceptor_inspects_every_message() -> None:
    class Guard:
        def intercept(self, message: Any, reliable: bool, now: float) -> Any:  # noqa: ANN401
            return message

    place = RouterWithClients()
    place.target.egress = Guard()
    assert place.plans(push()) is None
    assert place.plans(push("b")) == [place.plan(push("b"))]
    assert place.plans(push("b"), push()) is None
    place.source.ingress = Guard()
    assert place.plans(push("b")) is None


def test_no_plan_for_a_duplicate_group_member() -> None:
    place = RouterWithClients()
    member = place.router.add_member(place.router.add_group(), ZenohId(5), WhatAmI.PEER)
    assert forwarded(place.plan(push(), face=member)).keys() == {2}
    place.client(5)
    assert place.plans(push(), face=member) is None


def test_plan_is_local_if_the_local_session_subscribes() -> None:
    place = RouterWithClients()
    assert not place.plan(push()).is_local
    place.subscribe(place.local, "a/*")
    plan = place.plan(push())
    assert plan.is_local
    assert forwarded(plan).keys() == {2}


def test_rows_for_the_local_session_only_get_timestamps() -> None:
    place = RouterWithClients(stamps=True)
    place.subscribe(place.local, "only/here")
    columns = columns_of(push("only/here"))
    assert place.forwarding.plans(place.source, columns, 0, 1) is not None
    assert columns.timestamp[0] >> 32 == NOW // 10**9


@pytest.mark.parametrize("ahead", [0, HOUR])
def test_rows_get_timestamps_unless_one_is_too_far_in_the_future(ahead: int) -> None:
    place = RouterWithClients(stamps=True)
    columns = columns_of(push(), push("b"), push(stamp=Timestamp(ntp64_from_ns(NOW + ahead), ZenohId(5))))
    plans = place.forwarding.plans(place.source, columns, 0, 3)
    if ahead:
        assert plans is None
    else:
        stamped, unwanted, _ = columns.timestamp
        assert stamped >> 32 == NOW // 10**9
        assert unwanted == 0


class RouterBetweenRouters(RouterWithClients):
    """Between two other routers, of which one has announced a third behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.left = self.router.add_face(ZenohId(0x20), WhatAmI.ROUTER, 0.0)[0]
        self.right = self.router.add_face(ZenohId(0x30), WhatAmI.ROUTER, 0.0)[0]
        self.links(self.left, 0x20, 2, 0x21)
        self.links(self.right, 0x30, 2)
        self.router.handle_timeout(TREE_RECOMPUTATION_DELAY_SECONDS)
        self.subscribe(self.right, "a/**")

    def links(self, face: Face, number: int, sn: int, *behind: int) -> None:
        """A router announces its links: to us, its psid 1, and to others from 2 on."""
        known = range(2, 2 + len(behind))
        states = [
            LinkState(psid=0, sn=sn, zid=ZenohId(number), whatami=1, links=(1, *known)),
            LinkState(psid=1, sn=0, zid=OWN, whatami=1),
            *(
                LinkState(psid=psid, sn=sn, zid=ZenohId(zid), whatami=1, links=(0,))
                for psid, zid in zip(known, behind, strict=True)
            ),
        ]
        self.router.receive(face, NetworkOam(id=NetworkOam.LINK_STATE, zbuf=encode_link_states(states)), 0.0)


def test_rows_between_routers_follow_the_tree_of_their_entry_router() -> None:
    place = RouterBetweenRouters()
    network = place.router.network
    assert network is not None
    ways = forwarded(place.plan(push(node_id=2), face=place.left))
    assert ways.keys() == {2, 0x30}
    assert ways[0x30].node_id == network.psid(ZenohId(0x21))
    assert ways[2].node_id == 0
    assert place.left.region is Region.ROUTER
    assert forwarded(place.plan(push(), face=place.left))[0x30].node_id == network.psid(ZenohId(0x20))
    assert place.plans(push(node_id=9), face=place.left) is None


def test_reassigned_psid_of_a_router_invalidates_the_plan() -> None:
    place = RouterBetweenRouters()
    network = place.router.network
    assert network is not None
    before = forwarded(place.plan(push(node_id=2), face=place.left))[0x30].node_id
    version = place.router.routes.version
    place.links(place.left, 0x20, 3, 0x20, 0x21)  # what was 2 is now 3
    assert place.router.routes.version == version
    assert forwarded(place.plan(push(node_id=3), face=place.left))[0x30].node_id == before
    assert forwarded(place.plan(push(node_id=2), face=place.left))[0x30].node_id == network.psid(ZenohId(0x20))


def test_plans_are_split_by_peer_and_template() -> None:
    place = RouterWithClients()
    place.subscribe(place.client(4), "b")
    messages = (push(), push("b"), push("c"), push(qos=QoS(Priority.DATA, Congestion.BLOCK)))
    plans = place.plans(*messages)
    assert plans is not None
    found = dict(plans_by_neighbour(plans))
    assert {face.zid.value for face in found} == {2, 4}
    for face, neighbour_plan in found.items():
        first, second = (13, NO_LANE) if face.zid.value == 2 else (NO_LANE, 13)
        assert list(neighbour_plan.lanes) == [first, second, NO_LANE, first]
        assert list(neighbour_plan.undroppable_lanes) == [NO_LANE, NO_LANE, NO_LANE, first]
        columns = columns_of(*messages)
        forwarder = RowForwarder(columns, 0, 4, bytes(neighbour_plan.lanes), neighbour_plan.heads, OWN.to_bytes())
        assert decode_network(forwarder.message()) == messages[0 if first == 13 else 1]


def test_neighbour_plan_lists_the_templates_with_block_first() -> None:
    congestions = (Congestion.DROP, Congestion.BLOCK_FIRST, Congestion.BLOCK)
    plans = RouterWithClients().plans(*(push(qos=QoS(Priority.DATA, congestion)) for congestion in congestions))
    assert plans is not None
    ((_, neighbour_plan),) = plans_by_neighbour(plans)
    assert neighbour_plan.block_first == {1}


def test_plans_of_faces_that_left_keep_no_face_alive() -> None:
    place = RouterWithClients()
    place.subscribe(place.source, "a/**")
    for face in (place.source, place.target):  # each has a plan with the other as next hop
        place.forwarding.plans(face, columns_of(push()), 0, 1)
    left = [weakref.ref(place.source), weakref.ref(place.target)]
    for face in (place.source, place.target):
        place.router.remove_face(face, 0.0)
    other = place.client(3)
    del face, place.source, place.target
    place.forwarding.plans(other, columns_of(push()), 0, 1)
    gc.collect()
    assert [reference() for reference in left] == [None, None]
