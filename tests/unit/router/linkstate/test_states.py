"""Link states are read if they are some, and if they are not too long."""

from __future__ import annotations

from zenspark.router.linkstate.states import MAX_STATES_MESSAGE_BYTES, decode_states, is_oversized
from zenspark.wire.codec import encode_link_states
from zenspark.wire.messages import LinkState, NetworkOam

STATE = LinkState(psid=1, sn=2)


def test_states_are_read() -> None:
    assert decode_states(NetworkOam(id=NetworkOam.LINK_STATE, zbuf=encode_link_states([STATE]))) == (STATE,)


def test_other_messages_contain_no_states() -> None:
    assert decode_states(NetworkOam(id=7, zbuf=encode_link_states([STATE]))) == ()
    assert decode_states(NetworkOam(id=NetworkOam.LINK_STATE)) == ()
    assert decode_states(NetworkOam(id=NetworkOam.LINK_STATE, zbuf=b"\xff")) == ()


def test_oversized_states_message_is_not_decoded() -> None:
    message = NetworkOam(id=NetworkOam.LINK_STATE, zbuf=b"\x00" * (MAX_STATES_MESSAGE_BYTES + 1))
    assert is_oversized(message)
    assert decode_states(message) == ()
