"""Graph: nodes and links of a network, put together from what several sources say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from zenspark.web.values import Document

ROLES = ("router", "peer", "client")
MAX_NODES = 2000
"""Nodes that are drawn: a description by another node must not fill the memory."""


class GraphNode(msgspec.Struct):
    """One node."""

    zid: str
    whatami: str
    locators: list[str]
    is_self: bool = False


class Graph(msgspec.Struct):
    """Nodes by zid, and links, each once."""

    nodes: dict[str, GraphNode] = msgspec.field(default_factory=dict)
    links: dict[tuple[str, str], str] = msgspec.field(default_factory=dict)
    """Kind of each link, by both zids in order."""

    def add_node(self, zid: str, whatami: str, locators: Iterable[str], *, is_self: bool = False) -> None:
        """Add a node, or what is new about it."""
        node = self.nodes.get(zid)
        if node is None:
            if len(self.nodes) < MAX_NODES:
                self.nodes[zid] = GraphNode(zid, whatami, list(locators), is_self)
            return
        node.locators = node.locators or list(locators)

    def add_link(self, one: str, other: str, kind: str) -> None:
        """Add a link; the first source that says its kind counts."""
        if one in self.nodes and other in self.nodes:
            self.links.setdefault((min(one, other), max(one, other)), kind)

    def add_description(self, zid: str, described: dict[str, Any]) -> None:
        """Add a node and its sessions from the description in its admin space."""
        self.add_node(zid, _role(described.get("whatami")), _texts(described.get("locators")))
        sessions = described.get("sessions")
        for session in sessions if isinstance(sessions, list) else ():
            if isinstance(session, dict) and isinstance(session.get("peer"), str):
                self.add_node(session["peer"], _role(session.get("whatami")), [])
                self.add_link(zid, session["peer"], _link_kind(session))

    def document(self) -> Document:
        """Return nodes and links as plain values."""
        nodes = [
            {"zid": node.zid, "whatami": node.whatami, "locators": node.locators, "self": node.is_self}
            for node in self.nodes.values()
        ]
        links = [{"src": one, "dst": other, "kind": kind} for (one, other), kind in sorted(self.links.items())]
        return {"nodes": nodes, "links": links}


def _role(given: object) -> str:
    return given if isinstance(given, str) and given in ROLES else "peer"


def _texts(given: object) -> list[str]:
    return [text for text in given if isinstance(text, str)] if isinstance(given, list) else []


def _link_kind(session: dict[str, Any]) -> str:
    """Return the protocol of the first link of a session."""
    links = session.get("links")
    if isinstance(links, list) and links and isinstance(links[0], dict):
        return str(links[0].get("dst", "")).partition("/")[0]
    return ""
