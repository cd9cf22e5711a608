"""The keys below `limits`: the resources a neighbour may use on this node (see `settings.py`, docs/security.md).

eclipse-zenoh has none of them. A limit is a number, never "unlimited": a larger machine gets a larger number.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from zenspark.config.schema import UNSET, Section
from zenspark.key.limits import KeyLimits
from zenspark.net.node.link_quotas import LinkLimits
from zenspark.router.limits import RouterLimits
from zenspark.transport.reassembly import MAX_LARGEST_MESSAGES_IN_REASSEMBLY

Count = Annotated[int, Meta(ge=1, description="a number from 1 on")]
Bytes = Annotated[int, Meta(ge=1024, description="a number of bytes, at least 1024")]

_KEY = KeyLimits()
_LINKS = LinkLimits()
_ROUTER = RouterLimits()


class KeySettings(Section, frozen=True):
    """Largest key expressions, of a neighbour or of this session."""

    bytes: Annotated[int, Meta(ge=64, le=0xFFFF, description="a number of bytes from 64 to 65535")] = _KEY.bytes
    chunks: Count = _KEY.chunks
    wildcards: Count = _KEY.wildcards


class SessionSettings(Section, frozen=True):
    """Maximum number of declarations, interests, key ids and pending queries of one neighbour."""

    declarations: Count = _ROUTER.declarations
    network_declarations: Count = _ROUTER.network_declarations
    declared_bytes: Bytes = _ROUTER.declared_bytes
    declared_chunks: Count = _ROUTER.declared_chunks
    wild_chunks: Count = _ROUTER.wildcard_chunks
    interests: Count = _ROUTER.interests
    key_numbers: Annotated[int, Meta(ge=1, le=0xFFFF, description="a number from 1 to 65535")] = _ROUTER.key_mappings
    key_number_bytes: Bytes = _ROUTER.key_mapping_bytes
    queries: Count = _ROUTER.queries


class AddressSettings(Section, frozen=True):
    """Connections of one IPv4 address, or one IPv6 network of 64 bits; loopback has no such limit."""

    pending: Count = _LINKS.pending_per_address
    sessions: Count = _LINKS.sessions_per_address


class ReassemblySettings(Section, frozen=True):
    """Bytes of messages whose fragments have not all been received."""

    session_bytes: Annotated[Bytes | None, UNSET] = None
    """Bytes for one neighbour; transport/link/rx/max_message_size if it is not set: one message of the largest size."""
    total_bytes: Annotated[Bytes | None, UNSET] = None
    """Bytes for all neighbours; twice transport/link/rx/max_message_size if it is not set."""

    def session(self, max_message_size: int) -> int:
        """Return the bytes for one neighbour."""
        return max_message_size if self.session_bytes is None else self.session_bytes

    def total(self, max_message_size: int) -> int:
        """Return the bytes for all neighbours."""
        return MAX_LARGEST_MESSAGES_IN_REASSEMBLY * max_message_size if self.total_bytes is None else self.total_bytes


class NetworkSettings(Section, frozen=True):
    """The size of the network that link-state messages may describe. It should be the same in all its routers."""

    nodes: Count = _ROUTER.network_nodes
    node_links: Count = _ROUTER.node_links
    links: Count = _ROUTER.network_links


class LimitSettings(Section, frozen=True):
    """All limits that eclipse-zenoh does not have."""

    key: KeySettings = KeySettings()
    session: SessionSettings = SessionSettings()
    address: AddressSettings = AddressSettings()
    reassembly: ReassemblySettings = ReassemblySettings()
    network: NetworkSettings = NetworkSettings()

    def for_links(self, pending: int, sessions: int) -> LinkLimits:
        """Return the limits of inbound connections; their totals are keys of zenohd."""
        return LinkLimits(pending, self.address.pending, sessions, self.address.sessions)

    def for_router(self) -> RouterLimits:
        """Return the limits of the router."""
        session = self.session
        return RouterLimits(
            key=KeyLimits(bytes=self.key.bytes, chunks=self.key.chunks, wildcards=self.key.wildcards),
            declarations=session.declarations,
            network_declarations=session.network_declarations,
            declared_bytes=session.declared_bytes,
            declared_chunks=session.declared_chunks,
            wildcard_chunks=session.wild_chunks,
            interests=session.interests,
            key_mappings=session.key_numbers,
            key_mapping_bytes=session.key_number_bytes,
            queries=session.queries,
            network_nodes=self.network.nodes,
            node_links=self.network.node_links,
            network_links=self.network.links,
        )
