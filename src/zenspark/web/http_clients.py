"""Access control of HTTP clients, which use a session from outside Zenoh: it applies to them as to neighbours.

An HTTP client has no zid or certificate: subjects name it by the interface it connected to, by the link protocol `http`
or, where the HTTP server has a login, by its user name. Messages from it are `ingress`, messages to it `egress`; keys
are those that neighbours see.
"""

from __future__ import annotations

from zenspark.api.session import Session, runtime_of
from zenspark.net.links.interfaces import interface_names_with
from zenspark.router.interceptors.rules import Flow, InterceptedAction, NeighbourAttributes

PROTOCOL = "http"
MAX_CACHED_KEYS = 100_000
"""Keys whose permission a client caches: more would let a publisher of ever new keys fill the memory."""


class HttpClient:
    """An HTTP client, and the permissions it has."""

    def __init__(
        self, session: Session, local_address: str, user: str | None = None, remote_address: str | None = None
    ) -> None:
        runtime = runtime_of(session)
        self._node = runtime.node
        self._namespace = runtime.namespace
        self._permissions: dict[tuple[InterceptedAction, str], bool] = {}
        self._attributes = NeighbourAttributes(
            None,
            interface_names_with(local_address) if self._node.has_access_control else (),
            PROTOCOL,
            user,
            address=remote_address,
        )

    @property
    def is_unrestricted(self) -> bool:
        """Whether the node has no access control rules."""
        return not self._node.has_access_control

    def is_allowed(self, flow: Flow, action: InterceptedAction, key: str) -> bool:
        """Return whether access control allows an action on a key, by the client or towards it."""
        return self._node.allows(self._attributes, flow, action, self._namespace.add_prefix(key))

    def may_read(self, key: str) -> bool:
        """Return whether access control lets the client have publications on a key; cached."""
        return self.may_receive("put", key)

    def may_receive(self, action: InterceptedAction, key: str) -> bool:
        """Return whether access control lets messages of an action on a key go to the client; cached."""
        if self.is_unrestricted:
            return True
        is_allowed = self._permissions.get((action, key))
        if is_allowed is None:
            if len(self._permissions) >= MAX_CACHED_KEYS:
                self._permissions.clear()
            is_allowed = self._permissions[action, key] = self.is_allowed("egress", action, key)
        return is_allowed
