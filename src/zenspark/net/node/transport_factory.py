"""TransportFactory: makes the state machines of sessions and groups, with the identity and limits of a node."""

from __future__ import annotations

import secrets

import msgspec

from zenspark.net.links.base import Link
from zenspark.net.node.limits import NodeLimits
from zenspark.router.router import Router
from zenspark.transport.connection import MAX_ROWS_PER_EVENT, Connection
from zenspark.transport.handshake import Acceptor, Capabilities, Identity, Initiator
from zenspark.transport.multicast import GroupSession, GroupSettings
from zenspark.transport.reassembly import ReassemblyPool
from zenspark.wire.columns import PushColumns
from zenspark.wire.values import ZenohId


class TransportFactory:
    """Makes state machines that share one table of received rows and one pool of memory for fragments."""

    def __init__(
        self, identity: Identity, capabilities: Capabilities, limits: NodeLimits, groups: GroupSettings, router: Router
    ) -> None:
        self.identity = identity
        self.capabilities = capabilities
        self.limits = limits
        self.groups = groups
        self._router = router
        self._columns = PushColumns(MAX_ROWS_PER_EVENT)
        self._pool = ReassemblyPool(limits.session_reassembly, limits.total_reassembly)
        self._cookie_key = secrets.token_bytes(32)

    def make_initiator(self, link: Link, expected: ZenohId | None = None) -> Initiator:
        """Make the handshake of a session that this node opens; `expected` is the peer's id, if known."""
        return Initiator(self.identity, self._capabilities_on(link), expected)

    def make_acceptor(self, link: Link) -> Acceptor:
        """Make the handshake of a session that a peer opens."""
        return Acceptor(self.identity, self._capabilities_on(link), self._cookie_key, secrets.randbits(64))

    def _capabilities_on(self, link: Link) -> Capabilities:
        """Return the capabilities offered on a link: batches fit the link; the node relays if the network allows."""
        batch_size = min(self.capabilities.batch_size, link.mtu)
        relays = self.capabilities.relays and self._router.may_relay
        return msgspec.structs.replace(self.capabilities, batch_size=batch_size, relays=relays)

    def make_connection(self, handshake: Initiator | Acceptor, link: Link, now: float) -> Connection:
        """Make the session of a link, which starts with the handshake."""
        size, keep_alives = self.limits.message_size, self.limits.keep_alives
        return Connection(handshake, now, size, link.is_streamed, self._columns, keep_alives, self._pool)

    def make_group_session(self, now: float) -> GroupSession:
        """Make the session of a multicast group, with a random first sequence number."""
        return GroupSession(self.identity, self.groups, now, secrets.randbits(32), self._columns, self._pool)
