"""A gate: every interceptor of one flow of one face, in the order of eclipse-zenoh.

Downsampling comes first, so what is denied takes its place in time too; then access control, then the overwriting of
QoS, then the low-pass filter. What they have to say about an action and a key is found out once and remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from zenspark.router.interceptors.access_control import AccessRules
from zenspark.router.interceptors.actions import (
    DeclarationRef,
    action_of,
    get_declared_ref,
    get_undeclared_ref,
    payload_and_attachment_size,
)
from zenspark.router.interceptors.downsampling import Downsampler, RateLimiter
from zenspark.router.interceptors.low_pass import LowPassFilter
from zenspark.router.interceptors.qos_overwrite import QosOverwrite
from zenspark.router.interceptors.rules import (
    Action,
    DownsamplingItem,
    Flow,
    LowPassItem,
    OverwriteItem,
    PeerAttributes,
)
from zenspark.router.limits import is_key_expression
from zenspark.wire.messages import NetworkMessage
from zenspark.wire.values import WireExpr

M = TypeVar("M", bound=NetworkMessage)

MAX_CACHED_DECISIONS = 10_000
"""How many verdicts are remembered: more would let whoever names ever new keys fill the memory."""
MAX_CACHED_KEY_CHARS = 1024
"""Characters of a key up to which its verdicts are remembered, for the same reason."""


class InterceptorConfig(msgspec.Struct, frozen=True, eq=False):
    """Everything the configuration says of interceptors."""

    downsampling: tuple[DownsamplingItem, ...] = ()
    access: AccessRules | None = None
    overwriting: tuple[OverwriteItem, ...] = ()
    low_pass: tuple[LowPassItem, ...] = ()

    def make_chain(
        self,
        party: PeerAttributes,
        flow: Flow,
        resolve: Callable[[WireExpr], str | None],
        on_denied: Callable[[], object] = lambda: None,
    ) -> InterceptorChain | None:
        """The gate for what comes from, or goes to, a neighbour; None if everything passes as it is.

        `resolve` knows the key that a wire expression stands for on that way; `on_denied` is called for every message
        that access control denies.
        """
        gate = InterceptorChain(self, party, flow, resolve, on_denied)
        return None if gate.is_open else gate


class CachedDecision(msgspec.Struct, frozen=True, eq=False):
    """What becomes of messages that do the same to the same key."""

    slots: tuple[RateLimiter, ...]
    is_allowed: bool
    overwriting: tuple[QosOverwrite, ...]
    limit: int | None


class InterceptorChain:
    """Lets messages pass, changed or not, or keeps them. Only one thread at a time may use it."""

    def __init__(
        self,
        interception: InterceptorConfig,
        party: PeerAttributes,
        flow: Flow,
        resolve: Callable[[WireExpr], str | None],
        on_denied: Callable[[], object],
    ) -> None:
        access = interception.access
        self._flow = flow
        self._resolve = resolve
        self._on_denied = on_denied
        self._downsamplers = [Downsampler(item) for item in interception.downsampling if item.matches(party, flow)]
        self._permit = None if access is None else access.permissions_for(party, flow)
        self._overwriting = [QosOverwrite(item) for item in interception.overwriting if item.matches(party, flow)]
        self._low_pass = LowPassFilter(interception.low_pass, party, flow)
        self._verdicts: dict[tuple[Action, str | None], CachedDecision] = {}
        self._withheld: set[DeclarationRef] = set()
        """What we never declared there, and so need not take back."""

    @property
    def is_open(self) -> bool:
        """Whether everything passes as it is."""
        return not (self._downsamplers or self._permit or self._overwriting or self._low_pass)

    def intercept(self, message: M, reliable: bool, now: float) -> M | None:
        """The message as it goes on; None if it does not."""
        found = action_of(message)
        if found is None:
            return None if self._is_withheld(message) else message
        action, expr = found
        verdict = self._verdict(action, None if expr is None else self._resolve(expr))
        passed = self._judged(message, verdict, reliable, now)
        return self._kept(message) if passed is None else passed

    def _kept(self, message: M) -> M | None:
        """A message does not pass, unless it takes something back that was declared here: the router knows what was."""
        if self._flow == "ingress":
            return None if get_undeclared_ref(message) is None else message
        name = get_declared_ref(message)
        if name is not None:
            self._withheld.add(name)
        return None

    def _judged(self, message: M, verdict: CachedDecision, reliable: bool, now: float) -> M | None:
        for slot in verdict.slots:
            if not slot.take(now):
                return None
        if not verdict.is_allowed:
            self._on_denied()
            return None
        for overwriting in verdict.overwriting:
            message = overwriting.apply(message, reliable)
        return message if verdict.limit is None or payload_and_attachment_size(message) <= verdict.limit else None

    def _verdict(self, action: Action, key: str | None) -> CachedDecision:
        verdict = self._verdicts.get((action, key))
        if verdict is None:
            if len(self._verdicts) >= MAX_CACHED_DECISIONS:
                self._verdicts.clear()
            verdict = self._judge(action, key)
            if key is None or len(key) <= MAX_CACHED_KEY_CHARS:
                self._verdicts[action, key] = verdict
        return verdict

    def _judge(self, action: Action, key: str | None) -> CachedDecision:
        if key is not None and not is_key_expression(key):
            key = None
        slots = (downsampler.slot(action, key) for downsampler in self._downsamplers)
        return CachedDecision(
            tuple(slot for slot in slots if slot is not None),
            self._permit is None or self._permit.allows(action, key),
            tuple(one for one in self._overwriting if one.applies_to(action, key)),
            self._low_pass.limit(action, key),
        )

    def _is_withheld(self, message: NetworkMessage) -> bool:
        name = get_undeclared_ref(message)
        if name not in self._withheld:
            return False
        self._withheld.discard(name)
        return True
