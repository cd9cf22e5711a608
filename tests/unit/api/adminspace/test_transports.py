"""What a session reports of its transports and links to its own program."""

from __future__ import annotations

import json

from tests.unit.api.sessions import address, config, connected, listening
from tests.unit.net.ends import free_group
from tests.wait import until
from zenspark.api.open import open
from zenspark.api.session import Session
from zenspark.net.links.interfaces import find_interface
from zenspark.types.enums import SampleKind


def documents(session: Session) -> dict[str, dict[str, object]]:
    replies = [reply.ok for reply in session.get(f"@/{session.zid()}/session/**", timeout=5)]
    return {str(one.key_expr): json.loads(one.payload.to_bytes()) for one in replies if one is not None}


def test_transport_and_link_documents_of_a_neighbour(router: Session, client: Session) -> None:
    found = documents(client)
    transport, link = sorted(found)
    assert transport == f"@/{client.zid()}/session/transport/unicast/{router.zid()}"
    assert found[transport] == {"zid": str(router.zid()), "whatami": "router", "is_qos": True, "is_shm": False}
    (own,) = client.info.links()
    assert link.startswith(f"{transport}/link/")
    assert found[link] == {
        "src": own.src,
        "dst": address(router),
        "group": None,
        "mtu": own.mtu,
        "is_streamed": True,
        "interfaces": own.interfaces,
        "auth_identifier": None,
        "priorities": {"start": "Control", "end": "Background"},
        "reliability": "Reliable",
    }
    assert documents(client).keys() == found.keys()


def test_transport_documents_are_local_to_the_session(router: Session, client: Session) -> None:
    assert list(client.get(f"@/{router.zid()}/session/**", timeout=5)) == []


def test_query_returns_matching_documents_only(router: Session, client: Session) -> None:
    assert len(list(client.get(f"@/{client.zid()}/session/transport/unicast/*", timeout=5))) == 1


def test_subscriber_receives_transport_documents_on_change() -> None:
    with listening("router") as router, router.declare_subscriber(f"@/{router.zid()}/session/**") as subscriber:
        with connected("client", router) as client:
            key = f"@/{router.zid()}/session/transport/unicast/{client.zid()}"
            came = [subscriber.recv(timeout=5) for _ in range(2)]
        gone = [subscriber.recv(timeout=5) for _ in range(2)]
    assert [str(sample.key_expr) == key for sample in came] == [True, False]
    assert [sample.kind for sample in came] == [SampleKind.PUT] * 2
    assert str(came[0].encoding) == "application/json"
    assert json.loads(came[0].payload.to_bytes())["whatami"] == "client"
    assert [sample.kind for sample in gone] == [SampleKind.DELETE] * 2
    assert [sample.key_expr for sample in gone] == [sample.key_expr for sample in reversed(came)]


def test_link_document_without_qos_has_no_priorities(router: Session) -> None:
    with connected("client", router, transport__unicast__qos__enabled=False) as client:
        (link,) = [value for key, value in documents(client).items() if "/link/" in key]
    assert list(link) == ["src", "dst", "group", "mtu", "is_streamed", "interfaces", "auth_identifier"]


def test_group_members_have_multicast_transport_documents() -> None:
    place = f"udp/{free_group()}"
    group = f"{place}#iface={find_interface('127.0.0.1').name}"
    with open(config("peer", [group])) as session, open(config("peer", [group])) as other:
        until(lambda: session.info.peers_zid() == [other.zid()])
        found = documents(session)
        transport, link = sorted(found)
        assert transport == f"@/{session.zid()}/session/transport/multicast/{other.zid()}"
        assert found[link]["group"] == place
        assert session.info.locators() == [place]


def test_disconnected_neighbours_leave_no_routes() -> None:
    with listening("router") as router:
        for _ in range(3):
            with connected("client", router):
                pass
        until(lambda: not router.info.transports())
        assert not router._runtime.subscriptions._local_matches
