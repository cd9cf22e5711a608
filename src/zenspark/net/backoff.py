"""Exponential backoff: waits that grow from `period_init_ms` by `period_increase_factor` up to `period_max_ms`.

`timeout_ms` of the configuration limits all attempts together: 0 is one attempt, -1 is no limit. The clock is the
caller's: every method takes `now`.
"""

from __future__ import annotations

import msgspec

from zenspark.net.links.endpoint import Endpoint

RETRY_FOREVER = -1
RETRY_OPTIONS = frozenset(
    {"retry_period_init_ms", "retry_period_max_ms", "retry_period_increase_factor", "exit_on_failure"}
)


class RetryPolicy(msgspec.Struct, frozen=True):
    """The configured waits between attempts and the limit of their duration."""

    period_init_ms: int = 1000
    period_max_ms: int = 4000
    period_increase_factor: float = 2.0
    timeout_ms: int = RETRY_FOREVER
    exit_on_failure: bool = False

    def of(self, endpoint: Endpoint) -> RetryPolicy:
        """Return the policy of an endpoint: its options (`#retry_period_max_ms=...`) override the configured ones."""
        first = endpoint.number("retry_period_init_ms")
        longest = endpoint.number("retry_period_max_ms")
        fails = endpoint.flag("exit_on_failure")
        return RetryPolicy(
            self.period_init_ms if first is None else first,
            self.period_max_ms if longest is None else longest,
            self._factor(endpoint),
            self.timeout_ms,
            self.exit_on_failure if fails is None else fails,
        )

    def _factor(self, endpoint: Endpoint) -> float:
        text = endpoint.option("retry_period_increase_factor")
        try:
            return self.period_increase_factor if text is None else float(text)
        except ValueError:
            raise endpoint.error(f"has retry_period_increase_factor={text}, which is not a number") from None


class Backoff:
    """The failed attempts at one endpoint, and the time of the next one."""

    def __init__(self, policy: RetryPolicy, now: float) -> None:
        self.policy = policy
        self.attempts = 0
        """Attempts that have failed since the last success."""
        self._since = now

    def next_attempt(self, now: float) -> float | None:
        """Return the time of the next attempt after a failure; None if it would be after the time limit."""
        wait = self._wait()
        self.attempts += 1
        if self.policy.timeout_ms == RETRY_FOREVER or now + wait < self._since + self.policy.timeout_ms / 1000:
            return now + wait
        return None

    def reset(self, now: float) -> None:
        """Reset waits and time limit after a success."""
        self.attempts = 0
        self._since = now

    def _wait(self) -> float:
        longest = self.policy.period_max_ms / 1000
        try:
            grown = self.policy.period_init_ms / 1000 * self.policy.period_increase_factor**self.attempts
        except OverflowError:  # after weeks of failures
            return longest
        return min(grown, longest)
