"""Resource limits and timeouts of a node."""

from __future__ import annotations

import msgspec

from zenspark.net.io.congestion_control import WriterSettings
from zenspark.net.node.link_quotas import LinkLimits
from zenspark.transport.lease import KEEP_ALIVES_PER_LEASE
from zenspark.transport.reassembly import MAX_MESSAGE_BYTES, MAX_REASSEMBLY_BYTES, MAX_REASSEMBLY_BYTES_PER_NEIGHBOUR


class NodeLimits(msgspec.Struct, frozen=True):
    """Resource limits and timeouts of a node; times are in seconds."""

    open_timeout: float = 10.0
    """Timeout of the handshake of a session that this node opens: from the first byte to OPEN(ACK)."""
    accept_timeout: float = 10.0
    """Timeout of the handshake of a session that a peer opens."""
    close_timeout: float = 10.0
    """Timeout for the last messages to be written when the node closes: peers may take them slowly."""
    inbound: LinkLimits = LinkLimits()
    message_size: int = MAX_MESSAGE_BYTES
    """Bytes of the largest message received."""
    session_reassembly: int = MAX_REASSEMBLY_BYTES_PER_NEIGHBOUR
    """Bytes of incomplete fragmented messages of one neighbour."""
    total_reassembly: int = MAX_REASSEMBLY_BYTES
    """Bytes of incomplete fragmented messages of all neighbours."""
    keep_alives: int = KEEP_ALIVES_PER_LEASE
    """KEEP_ALIVE messages sent within a lease."""
    writer: WriterSettings = WriterSettings()
