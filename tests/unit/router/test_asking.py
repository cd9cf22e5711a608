"""Questions: what a node answers itself, what it asks above, and what it makes of the answers."""

from __future__ import annotations

from tests.unit.router.nodes import Network
from tests.unit.router.test_router import answered, face_towards
from zenspark.router.asking import INITIAL_INTEREST
from zenspark.wire.messages import Declare, DeclareFinal, DeclareSubscriber, DeclareToken, Interest
from zenspark.wire.values import InterestMode, QoS, WhatAmI, WireExpr, ZenohId

BOTH = InterestMode.CURRENT_FUTURE


def test_an_answer_to_nobody_is_a_declaration_like_any_other() -> None:
    net = Network()
    client, centre = net.client(), net.router()
    net.join(client, centre)
    above = face_towards(client, centre)
    stray = DeclareSubscriber(id=1, wire_expr=WireExpr(0, "a"))
    client.router.receive(above, Declare(interest_id=99, body=stray), 0.0)
    net.ask(client, "a", BOTH, subscribers=True)
    assert client.router.routes.push(client.local, "a") == (above,)


def test_an_answer_for_many_is_told_as_one() -> None:
    net = Network()
    client, centre, other = net.client(), net.router(), net.client()
    net.join(client, centre)
    net.join(other, centre)
    net.subscribe(other, "a/b", 1)
    net.subscribe(other, "a/c", 2)
    assert answered(net.ask(client, "a/*", BOTH, subscribers=True, aggregate=True)) == ["D_SUBSCRIBER a/*", "D_FINAL"]


def test_current_and_future_declarations_are_told_down_two_levels() -> None:
    net = Network()
    client, peer, centre, other = net.client(), net.peer(), net.router(), net.client()
    net.join(peer, centre)
    net.join(client, peer)
    net.join(other, centre)
    net.token(other, "live/a")
    assert answered(net.ask(client, "live/*", BOTH, tokens=True)) == ["D_TOKEN live/a", "D_FINAL"]
    client.heard.clear()
    net.token(other, "live/b", 2)
    assert answered(client.heard) == ["D_TOKEN live/b"]


def test_a_question_about_this_moment_is_answered_once_for_each_key() -> None:
    net = Network()
    client = net.client()
    above, _ = client.router.add_face(ZenohId(99), WhatAmI.ROUTER, 0.0)
    client.router.receive(client.local, Interest(id=3, mode=InterestMode.CURRENT, tokens=True), 0.0)
    answer = Declare(interest_id=1, body=DeclareToken(id=0, wire_expr=WireExpr(0, "a")))
    heard = [*client.router.receive(above, answer, 0.0), *client.router.receive(above, answer, 0.0)]
    assert [face for face, _ in heard] == [client.local]
    final = Declare(interest_id=1, qos=QoS.DECLARE, body=DeclareFinal())
    assert client.router.receive(above, final, 0.0) == [
        (client.local, Declare(interest_id=3, qos=QoS.DECLARE, body=DeclareFinal()))
    ]
    assert client.router.receive(above, Declare(body=DeclareFinal()), 0.0) == []


def test_the_first_final_of_a_peer_is_for_a_question_nobody_sent() -> None:
    net = Network()
    one, other = net.peer(), net.peer()
    face, _ = one.router.add_face(other.router.zid, other.router.whatami, 0.0)
    assert face.wants_all
    one.router.receive(face, Declare(interest_id=INITIAL_INTEREST, body=DeclareFinal()), 0.0)
    assert not face.wants_all


def test_nobody_is_told_of_its_own_subscribers() -> None:
    net = Network()
    centre, client = net.router(), net.client()
    net.join(client, centre)
    net.subscribe(client, "a")
    assert answered(net.ask(client, "a", BOTH, subscribers=True)) == ["D_FINAL"]
