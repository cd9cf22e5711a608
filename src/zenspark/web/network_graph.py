"""Graph: nodes and links of a network, merged from several sources."""

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
        """Add a node; of one that exists only missing locators are added."""
        node = self.nodes.get(zid)
        if node is None:
            if len(self.nodes) < MAX_NODES:
                self.nodes[zid] = GraphNode(zid, whatami, list(locators), is_self)
            return
        node.locators = node.locators or list(locators)

    def add_link(self, first_zid: str, second_zid: str, kind: str) -> None:
        """Add a link; its kind is that of the first source."""
        if first_zid in self.nodes and second_zid in self.nodes:
            self.links.setdefault((min(first_zid, second_zid), max(first_zid, second_zid)), kind)

    def add_description(self, zid: str, description: dict[str, Any]) -> None:
        """Add a node and its sessions from the description in its admin space."""
        self.add_node(zid, _role(description.get("whatami")), _texts(description.get("locators")))
        sessions = description.get("sessions")
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
        links = [
            {"src": first_zid, "dst": second_zid, "kind": kind}
            for (first_zid, second_zid), kind in sorted(self.links.items())
        ]
        return {"nodes": nodes, "links": links}


def _role(value: object) -> str:
    return value if isinstance(value, str) and value in ROLES else "peer"


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _link_kind(session: dict[str, Any]) -> str:
    """Return the protocol of the first link of a session."""
    links = session.get("links")
    if isinstance(links, list) and links and isinstance(links[0], dict):
        return str(links[0].get("dst", "")).partition("/")[0]
    return ""
