"""Advanced subscribers: history, recovery, detection."""

from __future__ import annotations

import gc
import threading
from datetime import timedelta

import pytest

from tests.optional import some
from tests.unit.api.ext.advanced.entities import (
    ALL,
    HEARTBEAT,
    has_subscriber,
    is_cache_reachable,
    is_closed,
    payloads,
    publisher_on,
    subscriber_on,
)
from tests.unit.api.sessions import connected, listening
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.ext.advanced.config import (
    HistoryConfig,
    MissDetectionConfig,
    RecoveryConfig,
)
from zenspark.api.ext.advanced.subscriber import (
    BlockingSink,
)
from zenspark.api.publisher import Publisher
from zenspark.api.session import Session
from zenspark.errors import ZError
from zenspark.handlers.handler import FifoChannel
from zenspark.net.loop.executor import ThreadPerCallback
from zenspark.types.enums import CongestionControl, SampleKind


def test_history_is_delivered_before_live_samples(sessions: tuple[Session, Session]) -> None:
    publisher = publisher_on(sessions[0], publisher_detection=True)
    for number in range(3):
        publisher.put(str(number), encoding="text/plain", attachment=b"with")
    publisher.delete()
    until(lambda: is_cache_reachable(sessions[1]))
    subscriber = subscriber_on(sessions[1], history=ALL)
    until(has_subscriber(publisher))
    publisher.put("after")
    assert payloads(subscriber, 5) == ["0", "1", "2", "", "after"]
    assert subscriber.try_recv() is None


def test_history_of_a_publisher_declared_later_is_delivered() -> None:
    with listening("peer") as one, connected("peer", one) as other:
        subscriber = subscriber_on(other, history=ALL)
        publisher = publisher_on(one, publisher_detection=True)
        publisher.put("early")
        assert payloads(subscriber, 1) == ["early"]


def test_history_has_at_most_max_samples(sessions: tuple[Session, Session]) -> None:
    publisher = publisher_on(sessions[0])
    for number in range(5):
        publisher.put(str(number))
    until(lambda: is_cache_reachable(sessions[1]))
    subscriber = subscriber_on(sessions[1], history=HistoryConfig(max_samples=2, max_age=60))
    assert payloads(subscriber, 2) == ["3", "4"]


def test_history_works_with_timestamps_instead_of_sequence_numbers() -> None:
    with listening("peer", timestamping__enabled=True) as one, connected("peer", one) as other:
        publisher = publisher_on(one, sample_miss_detection=None, publisher_detection=True)
        publisher.put("0")
        publisher.put("1", timestamp=one.new_timestamp())
        until(lambda: is_cache_reachable(other))
        subscriber = subscriber_on(other, history=ALL)
        until(has_subscriber(publisher))
        publisher.delete()
        assert payloads(subscriber, 3) == ["0", "1", ""]


@pytest.mark.usefixtures("lossy")
def test_lost_sample_is_recovered_when_the_next_arrives(sessions: tuple[Session, Session]) -> None:
    publisher = publisher_on(sessions[0])
    subscriber = subscriber_on(sessions[1], recovery=RecoveryConfig(heartbeat=True))
    until(has_subscriber(publisher))
    for payload in ("first", "lost", "next", "last"):
        publisher.put(payload)
    assert payloads(subscriber, 4) == ["first", "lost", "next", "last"]


@pytest.mark.usefixtures("lossy")
@pytest.mark.parametrize("sporadic", [True, False])
def test_lost_last_sample_is_recovered_after_a_heartbeat(sessions: tuple[Session, Session], sporadic: bool) -> None:
    detection = MissDetectionConfig(sporadic_heartbeat=0.05) if sporadic else HEARTBEAT
    publisher = publisher_on(sessions[0], sample_miss_detection=detection)
    subscriber = subscriber_on(sessions[1], recovery=RecoveryConfig(heartbeat=True))
    until(has_subscriber(publisher))
    publisher.put("first")
    publisher.put("lost")
    assert payloads(subscriber, 2) == ["first", "lost"]


@pytest.mark.usefixtures("lossy")
def test_lost_last_sample_is_recovered_by_periodic_queries(sessions: tuple[Session, Session]) -> None:
    publisher = publisher_on(sessions[0])
    subscriber = subscriber_on(sessions[1], recovery=RecoveryConfig(periodic_queries=timedelta(milliseconds=50)))
    until(has_subscriber(publisher))
    publisher.put("first")
    publisher.put("lost")
    assert payloads(subscriber, 2) == ["first", "lost"]


@pytest.mark.usefixtures("lossy")
@pytest.mark.parametrize("recovery", [None, RecoveryConfig(heartbeat=True)])
def test_unrecoverable_samples_are_reported_as_missed(
    sessions: tuple[Session, Session], recovery: RecoveryConfig | None
) -> None:
    publisher = publisher_on(sessions[0], cache=None)
    subscriber = subscriber_on(sessions[1], recovery=recovery)
    listener = subscriber.sample_miss_listener()
    until(has_subscriber(publisher))
    for payload in ("first", "lost", "lost", "next"):
        publisher.put(payload)
    assert payloads(subscriber, 2) == ["first", "next"]
    miss = listener.recv(TIMEOUT_SECONDS)
    assert (miss.source, miss.nb) == (publisher.id, 2)
    listener.undeclare()
    with pytest.raises(ZError):
        listener.try_recv()


def test_publishers_and_subscribers_are_detected(sessions: tuple[Session, Session]) -> None:
    one, other = sessions
    subscriber = subscriber_on(one, subscriber_detection=True)
    found = subscriber.detect_publishers(history=True)
    with publisher_on(other, publisher_detection=True) as publisher:
        sample = found.recv(TIMEOUT_SECONDS)
        assert str(sample.key_expr) == f"a/b/@adv/pub/{publisher.id.zid}/{publisher.id.eid}/_"
    assert found.recv(TIMEOUT_SECONDS).kind is SampleKind.DELETE
    (alive,) = until(lambda: list(other.liveliness().get("a/*/@adv/sub/**")))
    assert str(some(alive.ok).key_expr) == f"a/*/@adv/sub/{subscriber.id.zid}/{subscriber.id.eid}/_"


def test_full_channel_blocks_the_publisher_and_loses_nothing(sessions: tuple[Session, Session]) -> None:
    publisher = publisher_on(sessions[0], congestion_control=CongestionControl.BLOCK, cache=None)
    subscriber = subscriber_on(sessions[1], FifoChannel(2))
    until(has_subscriber(publisher))
    for number in range(100):
        publisher.put(str(number))
    assert payloads(subscriber, 100) == [str(number) for number in range(100)]
    publisher.put("one")
    publisher.put("two")
    publisher.put("three")
    subscriber.undeclare()


def test_unreferenced_subscriber_ends_with_a_channel_and_stays_with_a_callback(
    sessions: tuple[Session, Session],
) -> None:
    one, other = sessions
    received = threading.Event()
    publisher = publisher_on(one)
    subscriber_on(other, lambda _: received.set())
    held = subscriber_on(other)
    handler = held.handler
    until(has_subscriber(publisher))
    del held
    gc.collect()
    publisher.put("x")
    assert received.wait(TIMEOUT_SECONDS)
    assert until(lambda: is_closed(handler))


def test_malformed_heartbeats_are_ignored(sessions: tuple[Session, Session]) -> None:
    one, other = sessions
    subscriber = subscriber_on(other, recovery=RecoveryConfig(heartbeat=True))
    plain: Publisher = one.declare_publisher("a/b/@adv/pub/a1/6/_")
    until(lambda: plain.matching_status)
    plain.put(b"short")
    plain.put(b"\1\0\0\0")
    plain.delete()
    one.put("a/b", b"end")
    assert payloads(subscriber, 1) == ["end"]


def test_closed_blocking_sink_releases_a_blocked_push() -> None:
    sink = BlockingSink(FifoChannel(1), ThreadPerCallback())

    def push() -> None:
        for number in range(3):
            sink.push(number)

    pusher = threading.Thread(target=push)
    pusher.start()
    sink.close()
    pusher.join(TIMEOUT_SECONDS)
    assert not pusher.is_alive()
