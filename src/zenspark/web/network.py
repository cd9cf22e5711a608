"""NetworkWatch: nodes, links, sessions and declarations around this node, and the events of their changes.

Sessions of this node are followed all the time. While a page is open, declarations are polled, and the admin spaces of
other nodes are queried for their sessions, so that the graph goes beyond the neighbours.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from datetime import UTC, datetime
from typing import Any

import msgspec

from zenspark.api.adminspace.documents import DECLARED_KINDS, INTEREST_KINDS
from zenspark.api.session import Session, runtime_of
from zenspark.errors import ZError
from zenspark.handlers.handler import Callback
from zenspark.router import introspection
from zenspark.router.interceptors.rules import InterceptedAction
from zenspark.router.introspection import OwnersByRole
from zenspark.types.enums import QueryTarget, SampleKind
from zenspark.types.network_info import NeighbourEvent
from zenspark.types.sample import Sample
from zenspark.web.http_clients import HttpClient
from zenspark.web.network_graph import Graph
from zenspark.web.values import Document, iso

logger = logging.getLogger("zenspark.web")

NETWORK_POLL_INTERVAL_SECONDS = 1.0
"""Interval in seconds at which declarations are polled, unless polls take long."""
NETWORK_POLL_DURATION_FACTOR = 20
"""Minimum interval between two polls, as a multiple of the duration of a poll, because a poll blocks the node."""
MIN_POLL_INTERVAL_SECONDS = 0.1
"""Interval in seconds between polls while tokens or sessions come and go."""
ADMIN_QUERY_INTERVAL_SECONDS = 3.0
"""Interval in seconds at which the admin spaces of other nodes are queried."""
ADMIN_QUERY_TIMEOUT_SECONDS = 1.0
"""Timeout in seconds of the query of other admin spaces."""
ADMIN_KEYS = "@/*/*"
"""Keys under which nodes describe themselves in their admin spaces."""
MAX_EVENTS = 1000
"""Events that are kept and sent to a page."""
MAX_DECLARATIONS = 5000
"""Declarations that are sent to a page."""

ACTIONS: dict[str, InterceptedAction] = {
    "subscriber": "declare_subscriber",
    "queryable": "declare_queryable",
    "token": "liveliness_token",
    "publisher": "put",
    "querier": "query",
}
"""The message that must be allowed to go to a client, by kind of declaration, for it to be shown to the client."""
EVERYTHING = "**"

DeclarationKey = tuple[str, str, str]
"""Kind, key and node of a declaration."""


class NetworkEvent(msgspec.Struct, frozen=True):
    """A session or declaration that appeared or disappeared."""

    time: str
    event: str
    zid: str | None = None
    whatami: str | None = None
    key: str | None = None
    detail: str | None = None


class SessionEntry(msgspec.Struct, frozen=True):
    """An open session of this node."""

    zid: str
    whatami: str
    src: str
    dst: str
    since: str


class NetworkWatch:
    """The network around the node of a session, from construction until `close`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._node = runtime_of(session).node
        self._lock = threading.Lock()
        self._users = 0
        self.version = 0
        """Incremented with every change."""
        self._events: deque[NetworkEvent] = deque(maxlen=MAX_EVENTS)
        self._sessions: dict[tuple[str, str], SessionEntry] = {}
        self._declared: frozenset[DeclarationKey] = frozenset()
        self._has_declarations = False
        self._roles: dict[str, str] = {}
        self._remote: dict[str, dict[str, Any]] = {}
        """Last description of other nodes, by zid."""
        self._graph = Graph()
        self._wake = threading.Event()
        self._is_closing = False
        self._is_used = threading.Event()
        self._listener = session.info.declare_neighbour_events_listener(Callback(self._on_session), history=True)
        self._thread: threading.Thread | None = None

    # -- use

    def acquire(self) -> None:
        """Start to poll for a page, until `release`."""
        with self._lock:
            self._users += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="zenspark-network", daemon=True)
                self._thread.start()
        self._is_used.set()

    def release(self) -> None:
        """End a use."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._is_used.clear()

    def close(self) -> None:
        """End polling and listening."""
        self._is_closing = True
        self._is_used.set()
        self._wake.set()
        with contextlib.suppress(ZError):
            self._listener.undeclare()

    def refresh(self) -> None:
        """Poll once, for a request without a live page."""
        if not self._is_used.is_set() and not self._session.is_closed():
            self._query_admin_spaces()
            self._poll()

    # -- documents

    def document(self, client: HttpClient) -> Document:
        """Return the whole state, without declarations that access control keeps from the client."""
        with self._lock:
            declared, events = sorted(self._declared), list(self._events)
            sessions, graph = self._session_documents(), self._graph.document()
        declared = [(kind, key, zid) for kind, key, zid in declared if client.may_receive(ACTIONS[kind], key)]
        visible = [msgspec.to_builtins(event) for event in events if _may_see(client, event)]
        by_key: dict[tuple[str, str], list[str]] = {}
        for kind, key, zid in declared:
            by_key.setdefault((kind, key), []).append(zid)
        declarations = [
            {"kind": kind, "key": key, "nodes": zids} for (kind, key), zids in list(by_key.items())[:MAX_DECLARATIONS]
        ]
        return {
            **graph,
            "sessions": sessions,
            "declarations": declarations,
            "declarations_total": len(by_key),
            "events": visible,
        }

    def message(self, client: HttpClient) -> bytes:
        """Return the document as a message to a page."""
        return msgspec.json.encode({"network": self.document(client)})

    def _session_documents(self) -> list[Document]:
        documents: dict[str, Document] = {}
        for entry in self._sessions.values():
            document = documents.setdefault(
                entry.zid, {"zid": entry.zid, "whatami": entry.whatami, "links": [], "since": entry.since}
            )
            links = document["links"]
            assert isinstance(links, list)
            links.append({"src": entry.src, "dst": entry.dst})
        return list(documents.values())

    # -- sessions of this node

    def _on_session(self, event: NeighbourEvent) -> None:
        zid, whatami, link = str(event.transport.zid), str(event.transport.whatami), event.link
        is_open = event.kind is SampleKind.PUT
        now = _now()
        with self._lock:
            if is_open:
                self._sessions[zid, link.dst] = SessionEntry(zid, whatami, link.src, link.dst, now)
            else:
                self._sessions.pop((zid, link.dst), None)
            name = "opened" if is_open else "closed"
            self._events.append(NetworkEvent(now, name, zid, whatami, None, f"{link.src} {link.dst}"))
            self.version += 1
        self._wake.set()

    # -- polling

    def _run(self) -> None:
        tokens = None
        admin_at = 0.0
        while not self._is_closing and not self._session.is_closed():
            self._is_used.wait()
            if self._is_closing:
                break
            began = time.monotonic()
            with contextlib.suppress(ZError):
                if tokens is None:  # brings the tokens of others to a client or peer, and wakes this thread
                    tokens = self._session.liveliness().declare_subscriber(EVERYTHING, Callback(self._on_token))
                if began >= admin_at:
                    self._query_admin_spaces()
                    admin_at = time.monotonic() + ADMIN_QUERY_INTERVAL_SECONDS
                self._poll()
            took = time.monotonic() - began
            self._wake.clear()
            time.sleep(MIN_POLL_INTERVAL_SECONDS)
            self._wake.wait(
                max(NETWORK_POLL_INTERVAL_SECONDS, took * NETWORK_POLL_DURATION_FACTOR) - MIN_POLL_INTERVAL_SECONDS
            )
        if tokens is not None:
            with contextlib.suppress(ZError):
                tokens.undeclare()

    def _on_token(self, sample: Sample) -> None:
        self._wake.set()

    def _poll(self) -> None:
        declared, roles = self._read_declarations()
        graph = self._read_graph()
        now = _now()
        with self._lock:  # never together with the node's lock, which callbacks may be called with
            self._roles.update(roles)
            if self._has_declarations:
                self._record_changes(declared, now)
            self._has_declarations = True
            if declared != self._declared:
                self._declared = declared
                self.version += 1
            self._add_sessions(graph)
            if graph != self._graph:
                self._graph = graph
                self.version += 1

    def _record_changes(self, declared: frozenset[DeclarationKey], now: str) -> None:
        for kind, key, zid in sorted(declared - self._declared):
            name = "token" if kind == "token" else "declared"
            self._events.append(NetworkEvent(now, name, zid, self._roles.get(zid), key, kind))
        for kind, key, zid in sorted(self._declared - declared):
            name = "token_removed" if kind == "token" else "undeclared"
            self._events.append(NetworkEvent(now, name, zid, self._roles.get(zid), key, kind))

    def _read_declarations(self) -> tuple[frozenset[DeclarationKey], dict[str, str]]:
        """Read the declarations of the router's tables, and the roles of their nodes."""
        router = self._node.router
        keys_by_kind: list[tuple[str, dict[str, OwnersByRole]]] = []
        with self._node.lock:
            for name, kind in DECLARED_KINDS.items():
                keys_by_kind.append((name, introspection.declared_keys(router, kind, EVERYTHING)))
            for name, kind in INTEREST_KINDS.items():
                keys_by_kind.append((name, introspection.interested_keys(router, kind, EVERYTHING)))
        declared: set[DeclarationKey] = set()
        roles: dict[str, str] = {}
        own_zid = str(self._node.identity.zid)
        for name, keys in keys_by_kind:
            for key, owners in keys.items():
                listed = [("router", owners.routers), ("peer", owners.peers), ("client", owners.clients)]
                for role, zids in listed:
                    for zid in zids:
                        if zid != own_zid:
                            roles.setdefault(zid, role)
                others = {zid for _, zids in listed for zid in zids if zid != own_zid}
                is_own = any(own_zid in zids for _, zids in listed)
                # a router is listed with the declarations of its clients: it is the owner only if there is no other
                declared.update((name, key, zid) for zid in (others or ({own_zid} if is_own else set())))
        return frozenset(declared), roles

    def _query_admin_spaces(self) -> None:
        """Query the descriptions of all nodes that have an admin space."""
        replies = self._session.get(ADMIN_KEYS, target=QueryTarget.ALL, timeout=ADMIN_QUERY_TIMEOUT_SECONDS)
        descriptions: dict[str, dict[str, Any]] = {}
        for reply in replies:
            description = None if reply.ok is None else _description(reply.ok)
            if description is not None:
                descriptions[description["zid"]] = description
        with self._lock:
            self._remote = descriptions

    def _read_graph(self) -> Graph:
        """Return this node and the routers of its link states."""
        graph = Graph()
        with self._node.lock:
            identity, network = self._node.identity, self._node.router.network
            edges = [] if network is None else network.edges
        graph.add_node(str(identity.zid), identity.whatami.text, self._node.advertised_addresses, is_self=True)
        for first, second, _ in edges:
            for zid in (str(first), str(second)):
                graph.add_node(zid, "router", [])
            graph.add_link(str(first), str(second), "linkstate")
        return graph

    def _add_sessions(self, graph: Graph) -> None:
        """Add the sessions of this node, and those in the descriptions of other nodes; called with the lock."""
        own_zid = str(self._node.identity.zid)
        for entry in self._sessions.values():
            graph.add_node(entry.zid, entry.whatami, [])
            graph.add_link(own_zid, entry.zid, entry.dst.partition("/")[0])
        for zid, description in self._remote.items():
            graph.add_description(zid, description)


def _may_see(client: HttpClient, event: NetworkEvent) -> bool:
    """Return whether access control lets a client see an event; sessions have no key."""
    return event.key is None or client.may_receive(ACTIONS[event.detail or ""], event.key)


def _description(sample: Sample) -> dict[str, Any] | None:
    """Parse the description of a node; None if it is not one."""
    try:
        document = msgspec.json.decode(sample.payload.to_bytes())
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if not isinstance(document, dict) or not isinstance(document.get("zid"), str):
        return None
    return document | {"whatami": str(sample.key_expr).rpartition("/")[2]}


def _now() -> str:
    return iso(datetime.now(UTC)) or ""
