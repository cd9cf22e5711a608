"""Which peers under a router have links to each other, by what they say of themselves in gossip (section 16.7)."""

from __future__ import annotations

from zenspark.router.face import Face
from zenspark.router.linkstate.states import decode_states
from zenspark.wire.messages import NetworkOam
from zenspark.wire.values import ZenohId

MAX_PSIDS_PER_PEER = 10_000
"""Numbers remembered of one peer: invented ones must not fill the memory."""


class PeerLinks:
    """What the peers of one router say of their links."""

    def __init__(self) -> None:
        self._numbers: dict[Face, dict[int, ZenohId]] = {}

    def receive(self, face: Face, message: NetworkOam) -> frozenset[ZenohId] | None:
        """To whom a peer says it has links; None if it does not say."""
        entries = decode_states(message)
        numbers = self._numbers.setdefault(face, {})
        for entry in entries:
            if entry.zid is not None and (entry.psid in numbers or len(numbers) < MAX_PSIDS_PER_PEER):
                numbers[entry.psid] = entry.zid
        own = [entry for entry in entries if numbers.get(entry.psid) == face.zid]
        if not own:
            return None
        return frozenset(numbers[number] for number in own[-1].links if number in numbers)

    def remove(self, face: Face) -> None:
        """A peer is gone."""
        self._numbers.pop(face, None)
