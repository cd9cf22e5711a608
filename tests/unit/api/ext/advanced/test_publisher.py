"""Advanced publishers of two sessions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.optional import some
from tests.unit.api.ext.advanced.entities import (
    ALL,
    HEARTBEAT,
    has_subscriber,
    publisher_on,
    subscriber_on,
)
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.ext.advanced.config import (
    CacheConfig,
    HistoryConfig,
    RecoveryConfig,
)
from zenspark.api.session import Session
from zenspark.errors import SessionClosed, UsageError
from zenspark.types.enums import CongestionControl, Priority


def test_cache_without_sequence_numbers_or_timestamps_is_rejected(sessions: tuple[Session, Session]) -> None:
    with pytest.raises(UsageError, match="timestamping/enabled"):
        publisher_on(sessions[0], sample_miss_detection=None)


def test_properties_are_those_of_the_publisher_and_subscriber(sessions: tuple[Session, Session]) -> None:
    publisher = publisher_on(sessions[0], encoding="text/plain", priority=Priority.DATA_HIGH)
    assert str(publisher.key_expr) == "a/b"
    assert str(publisher.encoding) == "text/plain"
    assert (publisher.priority, publisher.congestion_control) == (Priority.DATA_HIGH, CongestionControl.DROP)
    subscriber = subscriber_on(sessions[0])
    assert subscriber.key_expr == "a/*"
    assert subscriber.id.zid == publisher.id.zid == sessions[0].zid()
    with pytest.raises(TypeError):
        publisher.put(3)  # type: ignore[arg-type]
    assert publisher._counter is not None
    assert publisher._counter.next == 0


def test_empty_cache_or_history_is_rejected(sessions: tuple[Session, Session]) -> None:
    with pytest.raises(UsageError, match="at least one"):
        publisher_on(sessions[0], cache=CacheConfig(0))
    for past in (HistoryConfig(max_samples=0), HistoryConfig(max_age=0)):
        with pytest.raises(UsageError, match="at least one"):
            subscriber_on(sessions[0], history=past)


def test_publisher_and_subscriber_end_with_their_session(sessions: tuple[Session, Session]) -> None:
    one, other = sessions
    publisher = publisher_on(one, sample_miss_detection=HEARTBEAT, publisher_detection=True)
    subscriber = subscriber_on(other, history=ALL, recovery=RecoveryConfig(periodic_queries=0.02))
    listener = subscriber.sample_miss_listener()
    one.close()
    other.close()
    assert list(subscriber) == list(listener) == []
    call: Callable[[], object]
    for call in (lambda: publisher.put(""), publisher.delete, subscriber.sample_miss_listener):
        with pytest.raises(SessionClosed):
            call()
    publisher.undeclare()
    subscriber.undeclare()


def test_use_after_undeclare_raises_usage_error(sessions: tuple[Session, Session]) -> None:
    publisher = publisher_on(sessions[0], publisher_detection=True)
    subscriber = subscriber_on(sessions[1], history=ALL)
    publisher.undeclare()
    subscriber.undeclare()
    call: Callable[[], object]
    for call in (lambda: publisher.put(""), publisher.undeclare, subscriber.recv, subscriber.undeclare):
        with pytest.raises(UsageError, match="was undeclared"):
            call()


def test_samples_of_a_publisher_have_consecutive_sequence_numbers(sessions: tuple[Session, Session]) -> None:
    """PU-57: with miss detection, each publisher counts what it publishes, values and removals, by one."""
    one, other = sessions
    found = other.declare_subscriber("a/b")
    publishers = [publisher_on(one), publisher_on(one)]
    for publisher in publishers:
        until(has_subscriber(publisher))
    for _ in range(3):
        for publisher in publishers:
            publisher.put(b"value")
            publisher.delete()
    samples = [found.recv(TIMEOUT_SECONDS) for _ in range(12)]
    for publisher in publishers:
        mine = [sample.source_info for sample in samples if some(sample.source_info).source_id == publisher.id]
        first = some(mine[0]).source_sn
        assert [some(info).source_sn for info in mine] == list(range(first, first + 6))
