"""Downsampling: drop messages that exceed the rate of a rule."""

from __future__ import annotations

from math import inf

from zenspark.key.tree import KeyTree
from zenspark.router.interceptors.rules import DownsamplingItem, InterceptedAction


class RateLimiter:
    """Time from which the next message may pass; all keys of a rule share it."""

    def __init__(self, frequency: float) -> None:
        self._period = 1 / frequency if frequency > 0 else 0.0
        self._next = inf if frequency == 0 else -inf

    def try_acquire(self, now: float) -> bool:
        """Whether a message may pass now."""
        if now < self._next:
            return False
        self._next = now + self._period
        return True


class Downsampler:
    """One item of the configuration, for one direction of one face.

    Of several rules whose keys intersect the key of a message the first one applies.
    """

    def __init__(self, item: DownsamplingItem) -> None:
        self._messages = item.messages
        self._limiters = [RateLimiter(rule.freq) for rule in item.rules]
        self._rules: KeyTree[int] = KeyTree()
        for number, rule in enumerate(item.rules):
            self._rules.insert(rule.key_expr, number)

    def limiter_for(self, action: InterceptedAction, key: str | None) -> RateLimiter | None:
        """Rate limiter of a message; None if it may always pass."""
        if action not in self._messages or key is None:
            return None
        rules = [number for _, number in self._rules.intersecting(key)]
        return self._limiters[min(rules)] if rules else None
