"""The documents of the admin space, of nodes joined over loopback."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from tests.unit.api.sessions import address, config, connected
from tests.unit.net.ends import free_group
from tests.wait import until
from zenspark.api.adminspace.documents import VERSION, AdminDocuments, Document, relative_key_exprs
from zenspark.api.open import open
from zenspark.api.session import Session
from zenspark.net.io.counters import DropReason
from zenspark.net.links.interfaces import find_interface
from zenspark.transport.counters import LossReason


def reports(session: Session, metadata: object = None) -> AdminDocuments:
    return AdminDocuments(session._runtime.node, metadata)


def documents_matching(session: Session, key: str, **parameters: str) -> dict[str, Document]:
    """The replies, by key below the root."""
    made = reports(session)
    found = made.matching_documents(f"{made.root}{key}", parameters)
    assert len({document.key for document in found}) == len(found)
    return {document.key.removeprefix(f"{made.root}/"): document for document in found}


def value(document: Document) -> Any:  # noqa: ANN401 - any JSON
    assert str(document.encoding) == "application/json"
    return json.loads(document.payload)


def test_root_document_describes_the_node(router: Session, client: Session) -> None:
    made = reports(router, {"name": "here"})
    (document,) = made.matching_documents(made.root, {})
    link = client.info.links()[0]
    assert document.key == f"@/{router.zid()}/router"
    assert value(document) == {
        "locators": [address(router)],
        "metadata": {"name": "here"},
        "plugins": None,
        "sessions": [
            {
                "links": [{"dst": link.src, "src": link.dst}],
                "peer": str(client.zid()),
                "region": "south:0:client",
                "shm": False,
                "weight": None,
                "whatami": "client",
            }
        ],
        "version": VERSION,
        "zid": str(router.zid()),
    }


def test_wildcard_query_returns_all_documents(router: Session, client: Session) -> None:
    subscriber = client.declare_subscriber("demo/*")
    queryable = client.declare_queryable("demo/q")
    token = client.liveliness().declare_token("demo/t")
    publisher = router.declare_publisher("demo/p")
    querier = router.declare_querier("demo/r")
    names = {"subscriber/demo/*", "queryable/demo/q", "token/demo/t", "publisher/demo/p", "querier/demo/r"}
    until(lambda: documents_matching(router, "/*/demo/**").keys() == names)
    here, there = str(router.zid()), str(client.zid())
    found = documents_matching(router, "/**")
    assert value(found["subscriber/demo/*"]) == {"routers": [here], "peers": [], "clients": [there]}
    assert value(found["publisher/demo/p"]) == {"routers": [], "peers": [], "clients": [here]}
    singles = {f"@/{here}/router", "metrics", "counters", "linkstate/north", "linkstate/south:0:peer"}
    assert found.keys() == names | singles
    for each in (subscriber, queryable, token, publisher, querier):
        each.undeclare()
    until(lambda: not documents_matching(router, "/*/demo/**"))


def test_query_returns_matching_documents_only(router: Session) -> None:
    assert list(documents_matching(router, "/metrics")) == ["metrics"]
    assert list(documents_matching(router, "/link*/*")) == []
    assert list(documents_matching(router, "/linkstate/*")) == ["linkstate/north", "linkstate/south:0:peer"]
    assert documents_matching(router, "/config/**") == {}


@pytest.mark.slow
def test_routers_have_a_linkstate_document(router: Session) -> None:
    there = str(router.zid())
    weights = [{"dst_zid": there, "weight": 7}]
    with connected("router", router, routing__router__linkstate__transport_weights=weights) as session:
        here = str(session.zid())
        until(lambda: len(documents_matching(session, "/route/**")) == 2)
        found = documents_matching(session, "/route/successor/src/*/dst/*")
        assert found.keys() == {f"route/successor/src/{root}/dst/{there}" for root in (here, there)}
        assert {value(each) for each in found.values()} == {there}
        (described,) = reports(session).matching_documents(f"@/{here}/router", {})
        (only,) = value(described)["sessions"]
        assert only["weight"] == {"actual_weight": 7, "dst_weight": None, "src_weight": 7}
        assert only["region"] == "north"
        graph = documents_matching(session, "/linkstate/north")["linkstate/north"]
        assert str(graph.encoding) == "text/plain"
        first, *lines, last, end = graph.payload.decode().split("\n")
        assert (first, last, end) == ("graph {", "}", "")
        assert lines[:2] == [f'    0 [ label = "{here}" ]', f'    1 [ label = "{there}" ]']
        assert lines[2].startswith('    1 -- 0 [ label = "7.0')


def test_graph_of_peers_has_nodes_without_edges(router: Session) -> None:
    with connected("peer", router, routing__peers="broker") as peer:
        expected = 'graph {{\n    0 [ label = "{}" ]\n    1 [ label = "{}" ]\n}}\n'
        (south,) = documents_matching(router, "/linkstate/south:0:peer").values()
        assert south.payload.decode() == expected.format(router.zid(), peer.zid())
        (north,) = documents_matching(peer, "/linkstate/**").values()
        assert north.payload.decode() == expected.format(peer.zid(), router.zid())
        assert documents_matching(peer, "/route/**") == {}


def test_relaying_peer_is_in_the_linkstate_and_peer_graphs(router: Session) -> None:
    with connected("peer", router) as peer:
        names = [f'    {number} [ label = "{each.zid()}" ]\n' for number, each in enumerate((router, peer))]
        (south,) = documents_matching(router, "/linkstate/south:0:peer").values()
        assert south.payload.decode() == f"graph {{\n{''.join(names)}}}\n"
        (north,) = documents_matching(peer, "/linkstate/**").values()
        assert "1 -- 0" in north.payload.decode()


def test_client_has_no_linkstate_document(client: Session) -> None:
    assert documents_matching(client, "/linkstate/**") == {}


def test_metrics_are_openmetrics_text_with_eof(router: Session, client: Session) -> None:
    packed = documents_matching(router, "/metrics")["metrics"]
    plain = documents_matching(router, "/metrics", compression="false")["metrics"]
    bare = documents_matching(router, "/metrics", compression="false", descriptors="false")["metrics"]
    kind = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert (str(packed.encoding), str(plain.encoding)) == (f"{kind};content-encoding=gzip", kind)
    assert gzip.decompress(packed.payload) == plain.payload
    lines = plain.payload.decode().splitlines()
    here = f'local_id="{router.zid()}",local_whatami="router"'
    assert f'zenspark_sessions{{{here},remote_whatami="client"}} 1' in lines
    assert lines[-1] == "# EOF"
    assert bare.payload.decode().splitlines() == [line for line in lines if not line.startswith(("# HELP", "# TYPE"))]


def test_counters_document_lists_every_neighbour(router: Session, client: Session) -> None:
    (driver,) = router._runtime.node.drivers.values()
    driver.connection.receive_counters.count_lost(LossReason.INTERRUPTED, 689)
    driver.count_dropped(DropReason.CONGESTION, 12)
    (document,) = documents_matching(router, "/counters").values()
    (counters,) = router.info.link_counters()
    assert value(document) == [
        {
            "dropped": {"congestion": 12},
            "lost": {"interrupted": 689},
            "received": counters.received,
            "zid": str(client.zid()),
        }
    ]
    lines = documents_matching(router, "/metrics", compression="false")["metrics"].payload.decode().splitlines()
    labels = f'local_id="{router.zid()}",local_whatami="router",remote_zid="{client.zid()}"'
    assert f"zenspark_received_messages_total{{{labels}}} {counters.received}" in lines
    assert f'zenspark_lost_messages_total{{{labels},reason="interrupted"}} 689' in lines
    assert f'zenspark_dropped_messages_total{{{labels},reason="congestion"}} 12' in lines
    assert "# TYPE zenspark_lost_messages counter" in lines


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("@/a/router/subscriber/x/y", {"x/y"}),
        ("@/*/router/*/x", {"x"}),
        ("@/**", {"**"}),
        ("@/a/**/subscriber/**", {"**", "**/subscriber/**"}),
        ("@/a/**/x", {"**/x"}),
        ("@/a/router/subscriber", set()),
        ("@/a", set()),
        ("@/b/router/subscriber/x", set()),
        ("**/x", set()),
    ],
)
def test_relative_key_exprs_below_a_prefix(key: str, expected: set[str]) -> None:
    assert relative_key_exprs(key, "@/a/router/subscriber") == expected


def test_group_members_are_sessions_without_region() -> None:
    place = f"udp/{free_group()}"
    group = f"{place}#iface={find_interface('127.0.0.1').name}"
    with open(config("peer", [group])) as session, open(config("peer", [group])) as other:
        until(lambda: session.info.peers_zid() == [other.zid()])
        (described,) = reports(session).matching_documents(f"@/{session.zid()}/peer", {})
        assert value(described)["locators"] == [place]
        (member,) = value(described)["sessions"]
        (link,) = session.info.links()
        links = [{"dst": link.dst, "src": link.src}]
        assert member == {"group": place, "links": links, "peer": str(other.zid()), "whatami": "peer"}
