"""Links between the peers of a router, as advertised in their gossip (protocol section 16.7)."""

from __future__ import annotations

from zenspark.router.face import Face
from zenspark.router.linkstate.states import decode_states
from zenspark.wire.messages import NetworkOam
from zenspark.wire.values import ZenohId

MAX_PSIDS_PER_PEER = 10_000
"""Psids remembered of one peer: forged ones must not fill the memory."""


class PeerLinks:
    """Links advertised by the peers of one router."""

    def __init__(self) -> None:
        self._psids: dict[Face, dict[int, ZenohId]] = {}

    def receive(self, face: Face, message: NetworkOam) -> frozenset[ZenohId] | None:
        """Zids a peer advertises links to; None if the message has no link state of the peer."""
        entries = decode_states(message)
        psids = self._psids.setdefault(face, {})
        for entry in entries:
            if entry.zid is not None and (entry.psid in psids or len(psids) < MAX_PSIDS_PER_PEER):
                psids[entry.psid] = entry.zid
        peer_states = [entry for entry in entries if psids.get(entry.psid) == face.zid]
        if not peer_states:
            return None
        return frozenset(psids[psid] for psid in peer_states[-1].links if psid in psids)

    def remove_face(self, face: Face) -> None:
        """Remove a peer."""
        self._psids.pop(face, None)
