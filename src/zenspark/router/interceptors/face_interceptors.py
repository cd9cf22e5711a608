"""FaceInterceptors: the interceptors between the router and the links, a chain for each direction of each face.

The reply to a query or interest that is dropped is its final message, so that its sender does not wait.
"""

from __future__ import annotations

from collections import deque
from functools import partial

from zenspark.router.face import Face, Outgoing
from zenspark.router.interceptors.actions import make_final
from zenspark.router.interceptors.chain import InterceptorConfig
from zenspark.router.interceptors.rules import Flow, InterceptedAction, NeighbourAttributes
from zenspark.router.limits import RefusalReason
from zenspark.router.router import Router
from zenspark.wire.messages import NetworkMessage

DENIAL_COUNTERS: dict[Flow, RefusalReason] = {
    "ingress": RefusalReason.ACCESS_INGRESS,
    "egress": RefusalReason.ACCESS_EGRESS,
}
"""Counter of messages that access control denied, by direction."""


class FaceInterceptors:
    """Applies one configuration to the faces of one router."""

    def __init__(self, router: Router, config: InterceptorConfig) -> None:
        self._router = router
        self._config = config

    @property
    def has_access_control(self) -> bool:
        """Whether access control is configured."""
        return self._config.access is not None

    def allows(self, client: NeighbourAttributes, flow: Flow, action: InterceptedAction, key: str) -> bool:
        """Whether access control allows an action on a key to a client without a face (REST)."""
        access = self._config.access
        permissions = None if access is None else access.permissions_for(client, flow)
        is_allowed = permissions is None or permissions.allows(action, key)
        if not is_allowed:
            self._router.refusals.count(DENIAL_COUNTERS[flow], client)
        return is_allowed

    def attach(self, face: Face, neighbour: NeighbourAttributes) -> None:
        """Attach interceptor chains to a new face."""
        count, name = self._router.refusals.count, str(face)
        face.ingress = self._config.make_chain(
            neighbour, "ingress", face.resolve, partial(count, DENIAL_COUNTERS["ingress"], name)
        )
        face.egress = self._config.make_chain(
            neighbour, "egress", face.resolve_outgoing, partial(count, DENIAL_COUNTERS["egress"], name)
        )

    def on_ingress(
        self, face: Face, message: NetworkMessage, reliable: bool, now: float
    ) -> tuple[NetworkMessage | None, Outgoing]:
        """Intercept a message from a face: the message for the router, None if dropped, and the reply to the face."""
        passed = message if face.ingress is None else face.ingress.intercept(message, reliable, now)
        final = make_final(message) if passed is None else None
        return passed, [] if final is None else [(face, final)]

    def on_egress(self, out: Outgoing, reliable: bool, now: float) -> Outgoing:
        """Intercept messages of the router; returns those to send, including the consequences of dropped ones."""
        queue, passing = deque(out), []
        while queue:
            face, message = queue.popleft()
            passed = message if face.egress is None else face.egress.intercept(message, reliable, now)
            if passed is not None:
                passing.append((face, passed))
            elif (final := make_final(message)) is not None:
                queue.extend(self._router.receive(face, final, now))
        return passing
