"""The checkpoint: between the router and the links, where gates decide what enters and what leaves.

A question that is kept is answered as if there were nothing to find: nobody waits for what will not come.
"""

from __future__ import annotations

from collections import deque
from functools import partial

from zenspark.router.face import Face, Outgoing
from zenspark.router.interceptors.actions import make_final
from zenspark.router.interceptors.chain import InterceptorConfig
from zenspark.router.interceptors.rules import Action, Flow, PeerAttributes
from zenspark.router.limits import Limit
from zenspark.router.router import Router
from zenspark.wire.messages import NetworkMessage

DENIAL_COUNTERS: dict[Flow, Limit] = {"ingress": Limit.ACCESS_INGRESS, "egress": Limit.ACCESS_EGRESS}


class InterceptorPipeline:
    """Applies one configuration to the faces of one router."""

    def __init__(self, router: Router, interception: InterceptorConfig) -> None:
        self._router = router
        self._interception = interception

    @property
    def has_access_control(self) -> bool:
        """Whether there are rules for who may do what."""
        return self._interception.access is not None

    def allows(self, party: PeerAttributes, flow: Flow, action: Action, key: str) -> bool:
        """Whether access control lets somebody who is no face do something to a key."""
        access = self._interception.access
        permit = None if access is None else access.permissions_for(party, flow)
        is_allowed = permit is None or permit.allows(action, key)
        if not is_allowed:
            self._router.refusals.count(DENIAL_COUNTERS[flow], party.zid)
        return is_allowed

    def watch(self, face: Face, party: PeerAttributes) -> None:
        """Give a new face its gates."""
        count, who = self._router.refusals.count, str(face)
        face.ingress = self._interception.make_chain(
            party, "ingress", face.resolve, partial(count, DENIAL_COUNTERS["ingress"], who)
        )
        face.egress = self._interception.make_chain(
            party, "egress", face.resolve_outgoing, partial(count, DENIAL_COUNTERS["egress"], who)
        )

    def enter(
        self, face: Face, message: NetworkMessage, reliable: bool, now: float
    ) -> tuple[NetworkMessage | None, Outgoing]:
        """What a face says as the router is to hear it, if at all, and what the face is told instead."""
        passed = message if face.ingress is None else face.ingress.intercept(message, reliable, now)
        refusal = make_final(message) if passed is None else None
        return passed, [] if refusal is None else [(face, refusal)]

    def leave(self, out: Outgoing, reliable: bool, now: float) -> Outgoing:
        """What is to be said of what the router says, also because some of it is not said."""
        waiting, said = deque(out), []
        while waiting:
            face, message = waiting.popleft()
            passed = message if face.egress is None else face.egress.intercept(message, reliable, now)
            if passed is not None:
                said.append((face, passed))
            elif (refusal := make_final(message)) is not None:
                waiting.extend(self._router.receive(face, refusal, now))
        return said
