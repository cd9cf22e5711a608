import pytest

from zenspark.errors import UsageError
from zenspark.net.backoff import Backoff, RetryPolicy
from zenspark.net.links.endpoint import Endpoint


def waits(policy: RetryPolicy, count: int) -> list[float | None]:
    """How long each of several attempts, failing at once, is followed by a wait."""
    now, found = 100.0, list[float | None]()
    backoff = Backoff(policy, now)
    for _ in range(count):
        again = backoff.next_attempt(now)
        found.append(None if again is None else again - now)
        now = now if again is None else again
    return found


def test_waits_grow_up_to_a_limit() -> None:
    assert waits(RetryPolicy(), 5) == [1.0, 2.0, 4.0, 4.0, 4.0]
    assert waits(RetryPolicy(period_init_ms=500, period_max_ms=1000, period_increase_factor=1.5), 3) == [0.5, 0.75, 1]


def test_the_first_wait_is_not_longer_than_the_longest() -> None:
    assert waits(RetryPolicy(period_init_ms=20_000, period_max_ms=10_000), 1) == [10.0]


def test_no_retry_when_the_timeout_is_0() -> None:
    assert waits(RetryPolicy(timeout_ms=0), 1) == [None]


def test_no_retry_when_the_next_attempt_would_exceed_the_timeout() -> None:
    assert waits(RetryPolicy(timeout_ms=5000), 4) == [1.0, 2.0, None, None]


def test_duration_of_an_attempt_counts_towards_the_timeout() -> None:
    backoff = Backoff(RetryPolicy(timeout_ms=5000), 0.0)
    assert backoff.next_attempt(4.5) is None


def test_success_resets_the_backoff() -> None:
    backoff = Backoff(RetryPolicy(timeout_ms=5000), 0.0)
    assert backoff.next_attempt(0.0) == 1.0
    assert backoff.next_attempt(1.0) == 3.0
    assert backoff.attempts == 2
    backoff.reset(50.0)
    assert backoff.attempts == 0
    assert backoff.next_attempt(51.0) == 52.0


def test_wait_after_a_million_attempts_is_period_max() -> None:
    backoff = Backoff(RetryPolicy(), 0.0)
    backoff.attempts = 1_000_000
    assert backoff.next_attempt(7.0) == 11.0


def test_retry_options_of_an_endpoint_override_the_policy() -> None:
    policy = RetryPolicy(timeout_ms=9).of(
        Endpoint.parse("tcp/a:1#retry_period_init_ms=20;retry_period_max_ms=90;retry_period_increase_factor=3")
    )
    assert policy == RetryPolicy(20, 90, 3.0, timeout_ms=9)
    assert RetryPolicy().of(Endpoint.parse("tcp/a:1#exit_on_failure=true")).exit_on_failure
    assert RetryPolicy(5, 6, 7.0, 8, True).of(Endpoint.parse("tcp/a:1")) == RetryPolicy(5, 6, 7.0, 8, True)
    with pytest.raises(UsageError, match="retry_period_increase_factor=x"):
        RetryPolicy().of(Endpoint.parse("tcp/a:1#retry_period_increase_factor=x"))
