"""Link states from a neighbour: read once, in one way, by all who want to know (network, peers, gossip)."""

from __future__ import annotations

from zenspark.errors import DecodeError
from zenspark.wire.codec import decode_link_states
from zenspark.wire.messages import LinkState, NetworkOam

RELAY_STATE_OAM_ID = 0x7A5
"""The OAM id of the states that relays exchange where one of them is a peer: with the id of eclipse-zenoh's link states
peers gossip, in numbers of their own. Nobody else is sent these; eclipse-zenoh passes over ids it does not know."""
MAX_STATES_MESSAGE_BYTES = 4 << 20
"""Bytes of one message of link states: reading takes about 1 us for 10 of them. 1,000 routers fit several times."""


def is_oversized(message: NetworkOam) -> bool:
    """Whether a message is too long to be read."""
    return message.zbuf is not None and len(message.zbuf) > MAX_STATES_MESSAGE_BYTES


def decode_states(message: NetworkOam, number: int = NetworkOam.LINK_STATE) -> tuple[LinkState, ...]:
    """The states in a message with an OAM id; none if it has no states, or none that can be read."""
    if message.id != number or message.zbuf is None or is_oversized(message):
        return ()
    try:
        return decode_link_states(message.zbuf)
    except DecodeError:
        return ()
