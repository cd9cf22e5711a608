"""Decoding of link-state messages (OAM), for network, peer links and gossip."""

from __future__ import annotations

from zenspark.errors import DecodeError
from zenspark.wire.codec import decode_link_states
from zenspark.wire.messages import LinkState, NetworkOam

SELF = 0
"""Psid of a node in its own link states: NodeId 0, which is not written."""
RELAY_STATE_OAM_ID = 0x7A5
"""OAM id of the link states that relays exchange where one of them is a peer: with the id of eclipse-zenoh's link
states peers gossip, in psids of their own. They are sent to no other node; eclipse-zenoh ignores unknown ids."""
MAX_STATES_MESSAGE_BYTES = 4 << 20
"""Bytes of one message of link states: decoding takes about 1 us per 10 bytes. 1,000 routers fit several times."""


def is_oversized(message: NetworkOam) -> bool:
    """Whether a message is too long to be decoded."""
    return message.zbuf is not None and len(message.zbuf) > MAX_STATES_MESSAGE_BYTES


def decode_states(message: NetworkOam, oam_id: int = NetworkOam.LINK_STATE) -> tuple[LinkState, ...]:
    """Decode the link states of an OAM message; empty if it has another OAM id, is too long, or cannot be decoded."""
    if message.id != oam_id or message.zbuf is None or is_oversized(message):
        return ()
    try:
        return decode_link_states(message.zbuf)
    except DecodeError:
        return ()
