"""The tool itself: a neighbour by hand is served like any other."""

from __future__ import annotations

from tests.hostile.raw import RawPeer
from tests.unit.api.sessions import address, listening
from tests.wait import until
from zenspark.wire.messages import Declare, DeclareSubscriber, Push, Put
from zenspark.wire.values import WireExpr


def test_a_raw_peer_publishes_and_receives() -> None:
    with listening("router") as session, session.declare_subscriber("up/*") as subscriber:
        with RawPeer(address(session)) as peer:
            assert peer.send(Declare(body=DeclareSubscriber(id=1, wire_expr=WireExpr(0, "down"))))
            assert peer.send(*[Push(wire_expr=WireExpr(0, "up/a"), body=Put(payload=bytes(40_000)))] * 3)
            assert [len(subscriber.recv(timeout=30).payload) for _ in range(3)] == [40_000] * 3
            session.put("down", b"hello")
            until(lambda: peer.read(0.05) and any(isinstance(message, Push) for message in peer.received))
            peer.reset()
        until(lambda: not session.info.transports())


def test_raw_peer_receives_close() -> None:
    with listening("router") as session:
        peer = RawPeer(address(session))
        session.close()
        with peer:
            assert peer.read_until_closed().by_peer
