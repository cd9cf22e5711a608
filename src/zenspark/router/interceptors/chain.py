"""Interceptor chain of one direction of one face, in the order of eclipse-zenoh.

Downsampling comes first, so a denied message uses up its slot, too; then access control, then the QoS overwrite, then
the low-pass filter. Their decision on an action and a key is computed once and cached.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from zenspark.key.limits import MAX_CACHED_KEY_CHARACTERS
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
    DownsamplingItem,
    Flow,
    InterceptedAction,
    LowPassItem,
    NeighbourAttributes,
    OverwriteItem,
)
from zenspark.router.limits import is_key_expression
from zenspark.wire.messages import NetworkMessage
from zenspark.wire.values import WireExpr

M = TypeVar("M", bound=NetworkMessage)

MAX_CACHED_DECISIONS = 10_000
"""Decisions cached per chain: more would let a neighbour that uses ever new keys fill the memory."""


class InterceptorConfig(msgspec.Struct, frozen=True, eq=False):
    """Configuration of all interceptors."""

    downsampling: tuple[DownsamplingItem, ...] = ()
    access: AccessRules | None = None
    overwriting: tuple[OverwriteItem, ...] = ()
    low_pass: tuple[LowPassItem, ...] = ()

    def make_chain(
        self,
        neighbour: NeighbourAttributes,
        flow: Flow,
        resolve: Callable[[WireExpr], str | None],
        on_denied: Callable[[], object] = lambda: None,
    ) -> InterceptorChain | None:
        """Chain for messages from or to a neighbour; None if all messages pass unchanged.

        `resolve` returns the key of a wire expression in that direction; `on_denied` is called for every message that
        access control denies.
        """
        chain = InterceptorChain(self, neighbour, flow, resolve, on_denied)
        return None if chain.is_open else chain


class CachedDecision(msgspec.Struct, frozen=True, eq=False):
    """Decision on messages with the same action and key."""

    rate_limiters: tuple[RateLimiter, ...]
    is_allowed: bool
    qos_overwrites: tuple[QosOverwrite, ...]
    limit: int | None


class InterceptorChain:
    """Passes messages, changed or not, or drops them. Not thread-safe."""

    def __init__(
        self,
        config: InterceptorConfig,
        neighbour: NeighbourAttributes,
        flow: Flow,
        resolve: Callable[[WireExpr], str | None],
        on_denied: Callable[[], object],
    ) -> None:
        access = config.access
        self._flow = flow
        self._resolve = resolve
        self._on_denied = on_denied
        self._downsamplers = [Downsampler(item) for item in config.downsampling if item.matches(neighbour, flow)]
        self._permissions = None if access is None else access.permissions_for(neighbour, flow)
        self._qos_overwrites = [QosOverwrite(item) for item in config.overwriting if item.matches(neighbour, flow)]
        self._low_pass = LowPassFilter(config.low_pass, neighbour, flow)
        self._decisions: dict[tuple[InterceptedAction, str | None], CachedDecision] = {}
        self._suppressed_declarations: set[DeclarationRef] = set()
        """Declarations that were never sent, so that their end must not be sent either."""

    @property
    def is_open(self) -> bool:
        """Whether all messages pass unchanged."""
        return not (self._downsamplers or self._permissions or self._qos_overwrites or self._low_pass)

    def intercept(self, message: M, reliable: bool, now: float) -> M | None:
        """The message to forward, possibly modified; None to drop it."""
        action_and_expr = action_of(message)
        if action_and_expr is None:
            return None if self._is_suppressed(message) else message
        action, expr = action_and_expr
        decision = self._decision_for(action, None if expr is None else self._resolve(expr))
        passed = self._apply(message, decision, reliable, now)
        return self._drop(message) if passed is None else passed

    def _drop(self, message: M) -> M | None:
        """Drop a message, except for the end of a declaration from a neighbour: the router knows what was declared."""
        if self._flow == "ingress":
            return None if get_undeclared_ref(message) is None else message
        ref = get_declared_ref(message)
        if ref is not None:
            self._suppressed_declarations.add(ref)
        return None

    def _apply(self, message: M, decision: CachedDecision, reliable: bool, now: float) -> M | None:
        for limiter in decision.rate_limiters:
            if not limiter.try_acquire(now):
                return None
        if not decision.is_allowed:
            self._on_denied()
            return None
        for qos_overwrite in decision.qos_overwrites:
            message = qos_overwrite.apply(message, reliable)
        return message if decision.limit is None or payload_and_attachment_size(message) <= decision.limit else None

    def _decision_for(self, action: InterceptedAction, key: str | None) -> CachedDecision:
        decision = self._decisions.get((action, key))
        if decision is None:
            if len(self._decisions) >= MAX_CACHED_DECISIONS:
                self._decisions.clear()
            decision = self._evaluate(action, key)
            if key is None or len(key) <= MAX_CACHED_KEY_CHARACTERS:
                self._decisions[action, key] = decision
        return decision

    def _evaluate(self, action: InterceptedAction, key: str | None) -> CachedDecision:
        if key is not None and not is_key_expression(key):
            key = None
        rate_limiters = (downsampler.limiter_for(action, key) for downsampler in self._downsamplers)
        return CachedDecision(
            tuple(limiter for limiter in rate_limiters if limiter is not None),
            self._permissions is None or self._permissions.allows(action, key),
            tuple(overwrite for overwrite in self._qos_overwrites if overwrite.applies_to(action, key)),
            self._low_pass.limit(action, key),
        )

    def _is_suppressed(self, message: NetworkMessage) -> bool:
        ref = get_undeclared_ref(message)
        if ref not in self._suppressed_declarations:
            return False
        self._suppressed_declarations.discard(ref)
        return True
