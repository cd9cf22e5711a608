import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from zenspark.clock import COUNTER_MASK, MAX_DRIFT_NS, NANOS_PER_SECOND, HybridClock, ns_from_ntp64, ntp64_from_ns

NOW = 1_719_841_872_129_693_000  # 2024-07-01T13:51:12.129693Z, the example of protocol section 1.4
NOW_NTP64 = 7_386_664_595_088_445_305
READING = NOW_NTP64 & ~COUNTER_MASK
TICK_NS = 16  # enough for another physical reading: the sixteen steps of the counter last 3.7 ns

times = st.integers(0, (1 << 32) * NANOS_PER_SECOND - 1)


def test_the_example_of_the_protocol() -> None:
    assert ntp64_from_ns(NOW) == NOW_NTP64
    assert ns_from_ntp64(NOW_NTP64) == NOW


@pytest.mark.parametrize(
    ("nanoseconds", "ntp64"),
    [
        (0, 0),
        (1, 4),
        (NANOS_PER_SECOND // 2, 1 << 31),
        (NANOS_PER_SECOND - 1, (1 << 32) - 5),
        (NANOS_PER_SECOND, 1 << 32),
        ((1 << 31) * NANOS_PER_SECOND, 1 << 63),
    ],
)
def test_ntp64_has_seconds_and_their_fraction(nanoseconds: int, ntp64: int) -> None:
    assert ntp64_from_ns(nanoseconds) == ntp64
    assert ns_from_ntp64(ntp64) == nanoseconds


@pytest.mark.slow
@examples(200)
@given(nanoseconds=times)
def test_nanoseconds_survive(nanoseconds: int) -> None:
    assert ns_from_ntp64(ntp64_from_ns(nanoseconds)) == nanoseconds


def test_a_timestamp_is_the_time_with_the_counter_cleared() -> None:
    assert HybridClock().new_timestamp(NOW) == READING


def test_stamps_of_one_moment_are_counted() -> None:
    clock = HybridClock()
    assert [clock.new_timestamp(NOW) for _ in range(18)] == [READING + i for i in range(18)]


def test_time_that_stands_still_or_runs_back_does_not_stop_the_clock() -> None:
    clock = HybridClock()
    stamps = [clock.new_timestamp(now) for now in (NOW, NOW, NOW - NANOS_PER_SECOND, 0, NOW + TICK_NS)]
    assert stamps[:4] == [READING, READING + 1, READING + 2, READING + 3]
    assert stamps[4] == ntp64_from_ns(NOW + TICK_NS) & ~COUNTER_MASK


def test_observed_past_timestamp_sets_the_clock_to_the_physical_time() -> None:
    clock = HybridClock()
    assert clock.observe(READING - 99, NOW)
    assert clock.new_timestamp(NOW) == READING + 1


def test_a_stamp_of_the_near_future_is_overtaken() -> None:
    clock = HybridClock()
    ahead = READING + ntp64_from_ns(MAX_DRIFT_NS)
    assert clock.observe(ahead, NOW)
    assert clock.new_timestamp(NOW) == ahead + 2


def test_a_stamp_too_far_ahead_is_refused_and_forgotten() -> None:
    clock = HybridClock()
    assert not clock.observe(READING + ntp64_from_ns(MAX_DRIFT_NS) + 1, NOW)
    assert clock.new_timestamp(NOW) == READING


def test_maximum_drift_is_configurable() -> None:
    assert not HybridClock(max_drift_ns=0).observe(READING + 1, NOW)
    assert HybridClock(max_drift_ns=NANOS_PER_SECOND).observe(READING + (1 << 32), NOW)


@pytest.mark.slow
@examples(50)
@given(st.lists(st.tuples(st.booleans(), st.integers(-100, 100), st.integers(-(1 << 31), 1 << 31))))
def test_stamps_only_grow_and_exceed_all_that_was_seen(events: list[tuple[bool, int, int]]) -> None:
    clock = HybridClock()
    newest = 0
    for observes, shift_ns, offset in events:
        if observes:
            seen = READING + offset
            newest = max(newest, seen) if clock.observe(seen, NOW + shift_ns) else newest
        else:
            stamp = clock.new_timestamp(NOW + shift_ns)
            assert stamp > newest
            newest = stamp


def test_many_stamps_at_once_are_as_many_different_ones() -> None:
    clock = HybridClock()
    now = 1_700_000_000_000_000_000
    before = clock.new_timestamp(now)
    first, second = clock.new_timestamps(1000, now), clock.new_timestamps(3, now)
    assert [*first, *second] == list(range(before + 1, before + 1004))
    assert clock.new_timestamp(now) == second[-1] + 1


def test_stamps_follow_the_time() -> None:
    clock = HybridClock()
    assert clock.new_timestamps(2, 1_000_000_000)[0] == 1 << 32
    assert clock.new_timestamps(2, 2_000_000_000)[0] == 2 << 32
