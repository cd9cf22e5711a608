"""Graphs from the reports of several sources, some of them strange."""

from __future__ import annotations

import pytest

from zenspark.web import network_graph
from zenspark.web.network_graph import Graph

DESCRIBED = {
    "whatami": "router",
    "locators": ["tcp/1", 2],
    "sessions": [
        {"peer": "b", "whatami": "client", "links": [{"src": "tcp/1", "dst": "tcp/2"}]},
        {"peer": "c", "whatami": "alien", "links": []},
        {"peer": 7},
        "nonsense",
    ],
}


def test_graph_has_nodes_and_links_of_a_description() -> None:
    graph = Graph()
    graph.add_node("a", "router", [], is_self=True)
    graph.add_description("a", DESCRIBED)
    assert graph.document() == {
        "nodes": [
            {"zid": "a", "whatami": "router", "locators": ["tcp/1"], "self": True},
            {"zid": "b", "whatami": "client", "locators": [], "self": False},
            {"zid": "c", "whatami": "peer", "locators": [], "self": False},
        ],
        "links": [{"src": "a", "dst": "b", "kind": "tcp"}, {"src": "a", "dst": "c", "kind": ""}],
    }


@pytest.mark.parametrize("described", [{}, {"sessions": 1, "locators": "x"}, {"sessions": [{"peer": "x", "links": 1}]}])
def test_malformed_description_adds_a_peer(described: dict[str, object]) -> None:
    graph = Graph()
    graph.add_description("a", described)
    assert graph.nodes["a"].whatami == "peer"


def test_a_link_is_there_once_and_only_between_nodes() -> None:
    graph = Graph()
    for zid in "ab":
        graph.add_node(zid, "peer", [])
    graph.add_link("b", "a", "tcp")
    graph.add_link("a", "b", "linkstate")
    graph.add_link("a", "x", "tcp")
    assert graph.links == {("a", "b"): "tcp"}


def test_nodes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_graph, "MAX_NODES", 1)
    graph = Graph()
    graph.add_description("a", DESCRIBED)
    assert set(graph.nodes) == {"a"}
