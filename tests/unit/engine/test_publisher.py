"""How publications leave a session."""

from __future__ import annotations

import threading

import pytest

from tests.optional import some
from tests.unit.api.sessions import connected, listening, pair
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.publisher import Publisher
from zenspark.api.session import Session
from zenspark.engine.publisher import PreencodedPublisher, PublishSettings, publish_targets
from zenspark.errors import SessionClosed
from zenspark.handlers.handler import FifoChannel
from zenspark.key import KeyExpr
from zenspark.net.io.link_driver import LinkDriver
from zenspark.types.enums import CongestionControl, Locality, Priority
from zenspark.wire import values as wire


def targets(publisher: Publisher) -> list[tuple[LinkDriver, wire.WireExpr]]:
    found = publish_targets(publisher._runtime, str(publisher.key_expr), is_declared=True)
    return [(driver, expr) for driver, expr, _ in found]


def test_nothing_is_sent_without_a_subscriber(router: Session, client: Session) -> None:
    publisher = client.declare_publisher("demo/a")
    wanted = client.declare_publisher("demo/b")
    subscriber = router.declare_subscriber("demo/b")
    until(lambda: wanted.matching_status)
    assert targets(publisher) == []
    ((driver, _),) = targets(wanted)
    assert driver.link.dst.startswith("tcp/")
    subscriber.undeclare()
    until(lambda: not wanted.matching_status)
    assert targets(wanted) == []


@pytest.mark.parametrize(("listener", "caller"), [("router", "client"), ("peer", "peer")])
def test_declared_keys_are_sent_as_key_ids(listener: str, caller: str) -> None:
    with pair(listener, caller) as (one, other):
        for here, there in ((one, other), (other, one)):
            with here.declare_subscriber("demo/**") as subscriber, there.declare_publisher("demo/a/b") as publisher:
                until(lambda: publisher.matching_status)
                ((_, expr),) = targets(publisher)
                assert (bool(expr.scope), expr.suffix) == (True, "")
                publisher.put(b"1")
                publisher.put(b"2", attachment=b"the long way")
                assert [subscriber.recv(TIMEOUT_SECONDS).payload.to_bytes() for _ in range(2)] == [b"1", b"2"]


@pytest.mark.slow
def test_key_mapping_is_declared_before_it_is_used() -> None:
    with pair("peer", "peer") as (one, other), one.declare_subscriber("**", FifoChannel(100_000)) as subscriber:
        with other.declare_publisher("probe") as probe:
            until(lambda: probe.matching_status)
        for number in range(300):
            with other.declare_publisher(f"n/{number}", congestion_control=CongestionControl.BLOCK) as publisher:
                for _ in range(20):
                    publisher.put(b"x" * 300)
        found = [str(subscriber.recv(TIMEOUT_SECONDS).key_expr) for _ in range(6000)]
        assert found == [f"n/{number}" for number in range(300) for _ in range(20)]


def test_puts_with_and_without_attachment_arrive_in_order(router: Session, client: Session) -> None:
    subscriber = router.declare_subscriber("a", FifoChannel(10_000))
    for number in range(0, 1000, 2):
        client.put("a", str(number), congestion_control=CongestionControl.BLOCK)
        client.put("a", str(number + 1), attachment=b"x", congestion_control=CongestionControl.BLOCK)
    assert [int(subscriber.recv(TIMEOUT_SECONDS).payload.to_string()) for _ in range(1000)] == list(range(1000))


def test_cached_publisher_follows_route_changes(router: Session, client: Session) -> None:
    publication = PreencodedPublisher(client._runtime, KeyExpr("a"), PublishSettings())
    subscriber = router.declare_subscriber("a")
    publication.put(b"1")
    assert subscriber.recv(TIMEOUT_SECONDS).payload == b"1"
    router.close()
    until(lambda: not client.info.transports())
    publication.put(b"2")
    with client.declare_subscriber("a") as own:
        publication.put(b"3")
        assert own.recv(TIMEOUT_SECONDS).payload == b"3"
    client.close()
    with pytest.raises(SessionClosed):
        publication.put(b"4")


def test_publisher_that_has_put_before_reaches_a_remote_subscriber_declared_later() -> None:
    with pair("peer", "peer") as (one, other), other.declare_publisher("a") as publisher:
        until(lambda: not targets(publisher))
        publisher.put(b"nobody gets it")
        subscriber = one.declare_subscriber("a")
        until(lambda: publisher.matching_status)
        publisher.put(b"1")
        other.put("a", b"2")
        assert subscriber.recv(TIMEOUT_SECONDS).payload == b"1"


def test_publisher_that_has_put_before_reaches_a_local_subscriber_declared_later(peer: Session) -> None:
    publisher = peer.declare_publisher("a")
    publisher.put(b"nobody gets it")
    subscriber = peer.declare_subscriber("a", allowed_origin=Locality.SESSION_LOCAL)  # the routes do not change
    publisher.put(b"1")
    assert some(subscriber.try_recv()).payload == b"1"


def test_neighbour_without_a_link_is_no_target(
    router: Session, client: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a forked child, whose links are gone."""
    subscriber = router.declare_subscriber("a")
    publisher = client.declare_publisher("a")
    until(lambda: publisher.matching_status)
    assert len(targets(publisher)) == 1
    monkeypatch.setattr(client._runtime.node, "driver", lambda face: None)
    assert targets(publisher) == []
    subscriber.undeclare()


def test_concurrent_publishers_keep_the_order_of_each_key(router: Session, client: Session) -> None:
    subscriber = router.declare_subscriber("a/*", FifoChannel(100_000))
    publishers = [
        client.declare_publisher(f"a/{name}", congestion_control=CongestionControl.BLOCK) for name in ("x", "y", "z")
    ]
    until(lambda: all(publisher.matching_status for publisher in publishers))

    def run(publisher: Publisher) -> None:
        for number in range(10_000):
            publisher.put(b"%d" % number)

    threads = [threading.Thread(target=run, args=(publisher,)) for publisher in publishers]
    for thread in threads:
        thread.start()
    found: dict[str, list[int]] = {"a/x": [], "a/y": [], "a/z": []}
    for _ in range(30_000):
        sample = subscriber.recv(TIMEOUT_SECONDS)
        found[str(sample.key_expr)].append(int(sample.payload.to_string()))
    assert all(numbers == list(range(10_000)) for numbers in found.values())
    for thread in threads:
        thread.join(TIMEOUT_SECONDS)


def test_session_local_publications_do_not_reach_a_neighbour(router: Session, client: Session) -> None:
    subscriber = router.declare_subscriber("a")
    local = PreencodedPublisher(client._runtime, KeyExpr("a"), PublishSettings(destination=Locality.SESSION_LOCAL))
    local.put(b"1")
    local.delete()
    client.put("a", b"2")
    assert subscriber.recv(TIMEOUT_SECONDS).payload == b"2"


def test_any_buffer_is_a_payload(router: Session, client: Session) -> None:
    subscriber = router.declare_subscriber("a")
    for payload in (b"1", "1", bytearray(b"1"), memoryview(b"1")):
        client.put("a", payload)
        assert subscriber.recv(TIMEOUT_SECONDS).payload == b"1"
    with pytest.raises(TypeError):
        client.put("a", 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        client.put("a", None)  # type: ignore[arg-type]


def test_every_subscriber_gets_a_publication_once(router: Session, client: Session) -> None:
    with connected("client", router) as other:
        found = [session.declare_subscriber("**") for session in (router, other, client)]
        second = other.declare_subscriber("a")
        publication = PreencodedPublisher(
            client._runtime, KeyExpr("a"), PublishSettings(qos=wire.QoS(congestion=wire.Congestion.BLOCK))
        )
        until(lambda: len(router._runtime.node.router.routes.push_next_hops(router._runtime.node.local_face, "a")) == 2)
        publication.put(b"x")
        for subscriber in (*found, second):
            assert subscriber.recv(TIMEOUT_SECONDS).payload == b"x"
            assert subscriber.try_recv() is None


def test_egress_interceptor_applies_to_every_way_of_publishing() -> None:
    """On both ways, the short one and the long one, and in the order of the others."""
    limit = [{"messages": ["put"], "key_exprs": ["a"], "size_limit": 3, "flows": ["egress"]}]
    with (
        listening("router") as router,
        connected("client", router, low_pass_filter=limit) as client,
        router.declare_subscriber("**") as subscriber,
        client.declare_publisher("a") as publisher,
    ):
        until(lambda: publisher.matching_status)
        for number, size in enumerate((3, 4, 2, 5)):
            publisher.put(b"%d" % number * size)
            publisher.put(b"%d" % number * size, attachment=b"")
            client.put("a", b"%d" % number * size)
        client.put("b", b"as long as it is")
        found = [subscriber.recv(TIMEOUT_SECONDS).payload.to_bytes() for _ in range(7)]
        assert found == [b"000"] * 3 + [b"22"] * 3 + [b"as long as it is"]


def test_qos_override_applies_to_sent_publications() -> None:
    item = {"messages": ["put"], "overwrite": {"priority": "background"}, "flows": ["egress"]}
    with (
        listening("router") as router,
        connected("client", router, qos__network=[item]) as client,
        router.declare_subscriber("**") as subscriber,
        client.declare_publisher("a") as publisher,
    ):
        until(lambda: publisher.matching_status)
        publisher.put(b"1")
        assert subscriber.recv(TIMEOUT_SECONDS).priority is Priority.BACKGROUND
        publisher.delete()
        assert subscriber.recv(TIMEOUT_SECONDS).priority is Priority.DATA
