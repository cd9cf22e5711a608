"""Access control of HTTP clients, which use a session from outside Zenoh: it applies to them as to neighbours.

An HTTP client has no zid, user or certificate: subjects name it by the interface it connected to, or by the link
protocol `http`. What it sends is `ingress`, what it receives is `egress`; keys are those that neighbours see.
"""

from __future__ import annotations

from zenspark.api.session import Session
from zenspark.net.links.interfaces import interface_names_with
from zenspark.router.interceptors.rules import Action, Flow, PeerAttributes

PROTOCOL = "http"


class HttpClient:
    """One client, and what it may do."""

    def __init__(self, session: Session, local_address: str) -> None:
        self._node = session._runtime.node
        self._namespace = session._runtime.namespace
        self._party = PeerAttributes(
            None, interface_names_with(local_address) if self._node.has_access_control else (), PROTOCOL
        )

    def is_allowed(self, flow: Flow, action: Action, key: str) -> bool:
        """Return whether access control allows an action on a key, by the client or towards it."""
        return self._node.allows(self._party, flow, action, self._namespace.outward(key))
