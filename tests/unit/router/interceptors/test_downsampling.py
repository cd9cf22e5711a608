"""How often messages pass."""

from __future__ import annotations

from zenspark.key import KeyExpr
from zenspark.router.interceptors.downsampling import Downsampler, RateLimiter
from zenspark.router.interceptors.rules import DownsamplingItem, Rate


def downsampler(*rates: tuple[str, float]) -> Downsampler:
    rules = tuple(Rate(key_expr=KeyExpr(key), freq=frequency) for key, frequency in rates)
    return Downsampler(DownsamplingItem(messages=("put", "query"), rules=rules))


def test_rate_limiter_passes_the_first_message_of_each_period() -> None:
    slot = RateLimiter(2.0)
    passed = [now for now in (100.0, 100.2, 100.4, 100.5, 100.9, 101.3, 101.7, 101.8) if slot.try_acquire(now)]
    assert passed == [100.0, 100.5, 101.3, 101.8]


def test_rate_0_passes_nothing_and_a_negative_rate_everything() -> None:
    never, always = RateLimiter(0), RateLimiter(-1)
    assert not any(never.try_acquire(now) for now in (0.0, 1e9))
    assert all(always.try_acquire(0.0) for _ in range(3))


def test_limiter_applies_to_its_actions_and_key_expressions() -> None:
    found = downsampler(("a/**", 1))
    assert found.limiter_for("put", "a/b") is found.limiter_for("query", "a") is not None
    assert found.limiter_for("delete", "a") is None
    assert found.limiter_for("put", "b") is None
    assert found.limiter_for("put", None) is None


def test_the_first_rule_that_intersects_counts() -> None:
    found = downsampler(("a/*", 1), ("**", 1), ("a/b", 1))
    assert found.limiter_for("put", "a/b") is found.limiter_for("put", "a/**") is found.limiter_for("put", "a/c")
    assert found.limiter_for("put", "b") is not found.limiter_for("put", "a/b")
