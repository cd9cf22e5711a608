"""The nodes that a session is connected to."""

from __future__ import annotations

import inspect

import pytest

from tests.ports import free_port
from tests.unit.api.sessions import address, config, connected
from tests.unit.net.ends import free_group
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.info import EventsListener, LinkEventsListener
from zenspark.api.open import open
from zenspark.api.session import Session
from zenspark.handlers.handler import FifoChannel
from zenspark.net.links.interfaces import find_interface
from zenspark.types.enums import Reliability, SampleKind, WhatAmI
from zenspark.types.network_info import TransportEvent


@pytest.fixture
def group() -> str:
    """A multicast group of the loopback interface that no other test uses."""
    return f"udp/{free_group()}#iface={find_interface('127.0.0.1').name}"


def test_info_lists_routers_transports_and_links_of_neighbours(router: Session, client: Session) -> None:
    assert client.info.routers_zid() == [router.zid()]
    assert client.info.peers_zid() == []
    (transport,) = client.info.transports()
    assert (transport.zid, transport.whatami, transport.is_qos) == (router.zid(), WhatAmI.ROUTER, True)
    (link,) = router.info.links()
    assert link.zid == client.zid()
    assert link.src.startswith("tcp/127.0.0.1:")
    assert (link.is_streamed, link.reliability) == (True, Reliability.RELIABLE)


@pytest.mark.slow
def test_info_connections_lists_configured_endpoints_with_their_problem(router: Session) -> None:
    nowhere = f"tcp/127.0.0.1:{free_port()}"
    with open(config("peer", (), [address(router), nowhere])) as session:
        until(lambda: session.info.connections()[1].problem)
        one, other = session.info.connections()
        assert (one.endpoints, one.is_connected, one.problem) == ([address(router)], True, None)
        assert (other.endpoints, other.is_connected) == ([nowhere], False)
        assert other.problem == "cannot connect: Connection refused"
    assert router.info.connections() == []


def test_transport_and_link_events_of_neighbours(router: Session, client: Session) -> None:
    before = dict(router._runtime.transport_listeners)
    transports = router.info.declare_transport_events_listener(history=True)
    links = router.info.declare_link_events_listener()
    assert transports.recv(TIMEOUT_SECONDS).transport.zid == client.zid()
    assert links.try_recv() is None
    with connected("peer", router) as other:
        zid = other.zid()
        event = transports.recv(TIMEOUT_SECONDS)
        assert (event.kind, event.transport.zid, event.transport.whatami) == (SampleKind.PUT, zid, WhatAmI.PEER)
        assert links.recv(TIMEOUT_SECONDS).link.zid == zid
    assert transports.recv(TIMEOUT_SECONDS).kind is SampleKind.DELETE
    assert links.recv(TIMEOUT_SECONDS).kind is SampleKind.DELETE
    transports.undeclare()
    links.undeclare()
    assert router._runtime.transport_listeners == before


def test_unreferenced_event_listener_with_callback_stays(router: Session) -> None:
    found: list[TransportEvent] = []
    router.info.declare_transport_events_listener(found.append)
    with connected("client", router):
        until(lambda: found)
    until(lambda: len(found) == 2)


def test_info_lists_transports_and_links_of_group_members(group: str) -> None:
    with open(config("peer", [group])) as session:
        events = session.info.declare_link_events_listener()
        with open(config("peer", [group])) as other:
            zid = other.zid()
            until(lambda: session.info.peers_zid() == [zid])
            (transport,) = session.info.transports()
            assert (transport.zid, transport.is_multicast, transport.is_qos) == (zid, True, False)
            (link,) = session.info.links()
            assert (link.group, link.mtu, link.is_streamed) == (group.partition("#")[0], 65487, False)
            assert events.recv(TIMEOUT_SECONDS).link == link
        assert events.recv(TIMEOUT_SECONDS).kind is SampleKind.DELETE


def test_listener_without_a_kind_of_event_is_abstract() -> None:
    assert inspect.isabstract(EventsListener)
    assert not inspect.isabstract(LinkEventsListener)


def test_locators_are_the_listening_addresses(router: Session, client: Session) -> None:
    assert router.info.locators() == [address(router)]
    assert client.info.locators() == []


def test_declarations_list_entities_of_other_nodes(router: Session, client: Session) -> None:
    assert router.info.declarations() == []
    with client.declare_subscriber("a/*"), client.declare_queryable("q"), client.liveliness().declare_token("t"):
        until(lambda: len(router.info.declarations()) == 3)
        found = {(one.kind, one.key, one.zid, one.whatami) for one in router.info.declarations()}
        zid = client.zid()
        assert found == {
            ("subscriber", "a/*", zid, WhatAmI.CLIENT),
            ("queryable", "q", zid, WhatAmI.CLIENT),
            ("token", "t", zid, WhatAmI.CLIENT),
        }
    until(lambda: not router.info.declarations())


@pytest.mark.slow
def test_declarations_list_entities_behind_routers(router: Session) -> None:
    with connected("router", router) as other, other.declare_subscriber("far/away"):
        until(lambda: router.info.declarations())
        (found,) = router.info.declarations()
        assert (found.key, found.zid, found.whatami) == ("far/away", other.zid(), WhatAmI.ROUTER)


def test_neighbour_events_have_transport_and_link(router: Session) -> None:
    listener = router.info.declare_neighbour_events_listener(history=True)
    with connected("client", router) as client:
        event = listener.recv(TIMEOUT_SECONDS)
        assert (event.kind, event.transport.zid, event.link.zid) == (SampleKind.PUT, client.zid(), client.zid())
    assert listener.recv(TIMEOUT_SECONDS).kind is SampleKind.DELETE
    listener.undeclare()


def test_link_counters_count_received_messages_and_remain_after_disconnection(router: Session, client: Session) -> None:
    (before,) = router.info.link_counters()
    assert (before.zid, before.lost, before.dropped) == (client.zid(), {}, {})
    subscriber = router.declare_subscriber("demo/**")
    publisher = client.declare_publisher("demo/a")
    until(lambda: publisher.matching_status.matching)
    with connected("client", router) as other:
        zid = other.zid()
        for _ in range(100):
            publisher.put(b"x")
        for _ in range(100):
            assert subscriber.recv(TIMEOUT_SECONDS) is not None
        first, second = router.info.link_counters()
        assert (first.zid, second.zid) == (client.zid(), zid)
        assert first.received >= before.received + 100
    until(lambda: len(router.info.transports()) == 1)
    after = {counters.zid: counters for counters in router.info.link_counters()}
    assert after.keys() == {client.zid(), zid}
    assert after[zid].received >= second.received
    assert (after[zid].lost, after[zid].dropped) == ({}, {})


@pytest.mark.slow
def test_link_counters_count_dropped_messages(router: Session, client: Session) -> None:
    with client.declare_subscriber("demo/**", FifoChannel(1)), router.declare_publisher("demo/a") as publisher:
        until(lambda: publisher.matching_status.matching)

        def has_dropped() -> bool:
            publisher.put(bytes(100_000))
            (counters,) = router.info.link_counters()
            return bool(counters.dropped)

        until(has_dropped)
        (counters,) = router.info.link_counters()
        assert counters.dropped.keys() == {"congestion"}
