"""Advanced publishers and subscribers of two sessions."""

from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.api.sessions import connected, listening, pair
from tests.waiting import PATIENCE, until
from zenspark.api.entities import Publisher
from zenspark.api.ext.advanced import (
    AdvancedPublisher,
    AdvancedSubscriber,
    BlockingSink,
    CacheConfig,
    HistoryConfig,
    MissDetectionConfig,
    PublisherKey,
    RecoveryConfig,
    RepliesConfig,
    SampleRecovery,
    declare_advanced_publisher,
    declare_advanced_subscriber,
)
from zenspark.api.session import Session
from zenspark.errors import SessionClosed, UsageError, ZError
from zenspark.handlers.handler import FifoChannel
from zenspark.net.loop.executor import ThreadPerCallback
from zenspark.types.enums import CongestionControl, Priority, ReplyKeyExpr, SampleKind
from zenspark.types.ids import EntityGlobalId
from zenspark.types.sample import Sample
from zenspark.types.timestamps import TimestampId

HEARTBEAT = MissDetectionConfig(heartbeat=0.05)
ALL = HistoryConfig(detect_late_publishers=True)


@pytest.fixture
def sessions() -> Iterator[tuple[Session, Session]]:
    with pair("peer", "peer") as both:
        yield both


@pytest.fixture
def lossy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advanced subscribers do not see samples that say `lost`, unless they ask for them."""
    on_sample = SampleRecovery.on_sample

    def hear(self: SampleRecovery, sample: Sample) -> None:
        if sample.payload.to_bytes() != b"lost":
            on_sample(self, sample)

    monkeypatch.setattr(SampleRecovery, "on_sample", hear)


def publisher_on(session: Session, **options: Any) -> AdvancedPublisher:  # noqa: ANN401 - any option
    settings = {"cache": CacheConfig(10), "sample_miss_detection": MissDetectionConfig(), **options}
    return declare_advanced_publisher(session, "a/b", **settings)


def subscriber_on(session: Session, handler: object = None, **options: Any) -> AdvancedSubscriber[Any]:  # noqa: ANN401
    return declare_advanced_subscriber(session, "a/*", handler, **options)


def is_heard(publisher: AdvancedPublisher) -> Callable[[], object]:
    return lambda: publisher._publisher.matching_status


def is_found(session: Session) -> bool:
    """Whether somebody's cache is known there."""
    return bool(list(session.get("a/b/@adv/**", accept_replies=ReplyKeyExpr.ANY)))


def payloads(subscriber: AdvancedSubscriber[Any], count: int) -> list[str]:
    return [subscriber.recv(PATIENCE).payload.to_string() for _ in range(count)]


def test_past_samples_come_first(sessions: tuple[Session, Session]) -> None:
    publisher = publisher_on(sessions[0], publisher_detection=True)
    for number in range(3):
        publisher.put(str(number), encoding="text/plain", attachment=b"with")
    publisher.delete()
    until(lambda: is_found(sessions[1]))
    subscriber = subscriber_on(sessions[1], history=ALL)
    until(is_heard(publisher))
    publisher.put("after")
    assert payloads(subscriber, 5) == ["0", "1", "2", "", "after"]
    assert subscriber.try_recv() is None


def test_of_a_late_publisher_too() -> None:
    with listening("peer") as one, connected("peer", one) as other:
        subscriber = subscriber_on(other, history=ALL)
        publisher = publisher_on(one, publisher_detection=True)
        publisher.put("early")
        assert payloads(subscriber, 1) == ["early"]


def test_only_as_many_as_wanted(sessions: tuple[Session, Session]) -> None:
    publisher = publisher_on(sessions[0])
    for number in range(5):
        publisher.put(str(number))
    until(lambda: is_found(sessions[1]))
    subscriber = subscriber_on(sessions[1], history=HistoryConfig(max_samples=2, max_age=60))
    assert payloads(subscriber, 2) == ["3", "4"]


def test_stamps_will_do_instead_of_numbers() -> None:
    with listening("peer", timestamping__enabled=True) as one, connected("peer", one) as other:
        publisher = publisher_on(one, sample_miss_detection=None, publisher_detection=True)
        publisher.put("0")
        publisher.put("1", timestamp=one.new_timestamp())
        until(lambda: is_found(other))
        subscriber = subscriber_on(other, history=ALL)
        until(is_heard(publisher))
        publisher.delete()
        assert payloads(subscriber, 3) == ["0", "1", ""]


def test_a_cache_needs_numbers_or_stamps(sessions: tuple[Session, Session]) -> None:
    with pytest.raises(UsageError, match="timestamping/enabled"):
        publisher_on(sessions[0], sample_miss_detection=None)


@pytest.mark.usefixtures("lossy")
def test_what_was_lost_is_recovered_when_the_next_one_comes(sessions: tuple[Session, Session]) -> None:
    publisher = publisher_on(sessions[0])
    subscriber = subscriber_on(sessions[1], recovery=RecoveryConfig(heartbeat=True))
    until(is_heard(publisher))
    for payload in ("first", "lost", "next", "last"):
        publisher.put(payload)
    assert payloads(subscriber, 4) == ["first", "lost", "next", "last"]


@pytest.mark.usefixtures("lossy")
@pytest.mark.parametrize("sporadic", [True, False])
def test_the_last_one_is_recovered_by_a_heartbeat(sessions: tuple[Session, Session], sporadic: bool) -> None:
    detection = MissDetectionConfig(sporadic_heartbeat=0.05) if sporadic else HEARTBEAT
    publisher = publisher_on(sessions[0], sample_miss_detection=detection)
    subscriber = subscriber_on(sessions[1], recovery=RecoveryConfig(heartbeat=True))
    until(is_heard(publisher))
    publisher.put("first")
    publisher.put("lost")
    assert payloads(subscriber, 2) == ["first", "lost"]


@pytest.mark.usefixtures("lossy")
def test_or_by_asking_again_and_again(sessions: tuple[Session, Session]) -> None:
    publisher = publisher_on(sessions[0])
    subscriber = subscriber_on(sessions[1], recovery=RecoveryConfig(periodic_queries=timedelta(milliseconds=50)))
    until(is_heard(publisher))
    publisher.put("first")
    publisher.put("lost")
    assert payloads(subscriber, 2) == ["first", "lost"]


@pytest.mark.usefixtures("lossy")
@pytest.mark.parametrize("recovery", [None, RecoveryConfig(heartbeat=True)])
def test_what_cannot_be_recovered_is_reported(
    sessions: tuple[Session, Session], recovery: RecoveryConfig | None
) -> None:
    publisher = publisher_on(sessions[0], cache=None)
    subscriber = subscriber_on(sessions[1], recovery=recovery)
    listener = subscriber.sample_miss_listener()
    until(is_heard(publisher))
    for payload in ("first", "lost", "lost", "next"):
        publisher.put(payload)
    assert payloads(subscriber, 2) == ["first", "next"]
    miss = listener.recv(PATIENCE)
    assert (miss.source, miss.nb) == (publisher.id, 2)
    listener.undeclare()
    with pytest.raises(ZError):
        listener.try_recv()


def test_publishers_and_subscribers_are_detected(sessions: tuple[Session, Session]) -> None:
    one, other = sessions
    subscriber = subscriber_on(one, subscriber_detection=True)
    found = subscriber.detect_publishers(history=True)
    with publisher_on(other, publisher_detection=True) as publisher:
        sample = found.recv(PATIENCE)
        assert str(sample.key_expr) == f"a/b/@adv/pub/{publisher.id.zid}/{publisher.id.eid}/_"
    assert found.recv(PATIENCE).kind is SampleKind.DELETE
    (alive,) = until(lambda: list(other.liveliness().get("a/*/@adv/sub/**")))
    assert str(alive.ok.key_expr) == f"a/*/@adv/sub/{subscriber.id.zid}/{subscriber.id.eid}/_"


def test_a_full_channel_slows_down_and_loses_nothing(sessions: tuple[Session, Session]) -> None:
    publisher = publisher_on(sessions[0], congestion_control=CongestionControl.BLOCK, cache=None)
    subscriber = subscriber_on(sessions[1], FifoChannel(2))
    until(is_heard(publisher))
    for number in range(100):
        publisher.put(str(number))
    assert payloads(subscriber, 100) == [str(number) for number in range(100)]
    publisher.put("one")
    publisher.put("two")
    publisher.put("three")
    subscriber.undeclare()


def test_a_callback_lives_on_and_a_channel_does_not(sessions: tuple[Session, Session]) -> None:
    one, other = sessions
    heard = threading.Event()
    publisher = publisher_on(one)
    subscriber_on(other, lambda _: heard.set())
    held = subscriber_on(other)
    handler = held.handler
    until(is_heard(publisher))
    del held
    gc.collect()
    publisher.put("x")
    assert heard.wait(PATIENCE)
    assert until(lambda: is_over(handler))


def is_over(handler: Any) -> bool:  # noqa: ANN401 - some channel
    try:
        handler.try_recv()
    except ZError:
        return True
    return False


def test_everything_ends_with_the_session(sessions: tuple[Session, Session]) -> None:
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


def test_what_was_undeclared_cannot_be_used(sessions: tuple[Session, Session]) -> None:
    publisher = publisher_on(sessions[0], publisher_detection=True)
    subscriber = subscriber_on(sessions[1], history=ALL)
    publisher.undeclare()
    subscriber.undeclare()
    call: Callable[[], object]
    for call in (lambda: publisher.put(""), publisher.undeclare, subscriber.recv, subscriber.undeclare):
        with pytest.raises(UsageError, match="was undeclared"):
            call()


def test_it_has_the_settings_of_a_publisher(sessions: tuple[Session, Session]) -> None:
    publisher = publisher_on(sessions[0], encoding="text/plain", priority=Priority.DATA_HIGH)
    assert str(publisher.key_expr) == "a/b"
    assert str(publisher.encoding) == "text/plain"
    assert (publisher.priority, publisher.congestion_control) == (Priority.DATA_HIGH, CongestionControl.DROP)
    subscriber = subscriber_on(sessions[0])
    assert subscriber.key_expr == "a/*"
    assert subscriber.id.zid == publisher.id.zid == sessions[0].zid()
    with pytest.raises(TypeError):
        publisher.put(3)
    assert publisher._counter is not None
    assert publisher._counter.next == 0


def test_a_heartbeat_says_nothing_before_the_first_sample_and_nothing_twice_if_sporadic() -> None:
    from zenspark.api.ext.advanced import Heartbeat, SequenceCounter

    class Spoken:
        def __init__(self) -> None:
            self.said: list[bytes] = []

        def put(self, payload: bytes) -> None:
            self.said.append(payload)

    for only_changes, expected in ((True, 2), (False, 3)):
        spoken, counter = Spoken(), SequenceCounter()
        heart = Heartbeat(spoken, counter, only_changes)  # type: ignore[arg-type]
        heart.beat()
        counter.take()
        heart.beat()
        heart.beat()
        counter.take()
        heart.beat()
        assert len(spoken.said) == expected
        assert spoken.said[-1] == b"\1\0\0\0"


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("a/@adv/pub/a1/6/_", EntityGlobalId),
        ("a/@adv/pub/a1/uhlc/_", TimestampId),
        ("a/@adv/pub/a1/other/_", type(None)),
        (f"a/@adv/pub/a1/{1 << 32}/_", type(None)),
        (f"a/@adv/pub/a1/{'9' * 5000}/_", type(None)),
        ("a/@adv/pub/xx/6/_", None),
        ("a1", None),
    ],
)
def test_keys_of_publishers(key: str, kind: type | None) -> None:
    found = PublisherKey.parse(key)
    assert found is None if kind is None else found is not None and isinstance(found.source, kind)


def test_other_heartbeats_are_ignored(sessions: tuple[Session, Session]) -> None:
    one, other = sessions
    subscriber = subscriber_on(other, recovery=RecoveryConfig(heartbeat=True))
    plain: Publisher = one.declare_publisher("a/b/@adv/pub/a1/6/_")
    until(lambda: plain.matching_status)
    plain.put(b"short")
    plain.put(b"\1\0\0\0")
    plain.delete()
    one.put("a/b", b"end")
    assert payloads(subscriber, 1) == ["end"]


def test_configurations() -> None:
    assert CacheConfig().max_samples == 1
    assert CacheConfig(3, replies_config=RepliesConfig(express=True)).replies_config.express
    assert HistoryConfig(max_samples=2, max_age=1.5).parameters() == {"_max": "2", "_time": "[now(-1.5s)..]"}
    for wrong in (lambda: CacheConfig(-1), lambda: HistoryConfig(max_samples=-1)):
        with pytest.raises(OverflowError):
            wrong()
    with pytest.raises(TypeError):
        HistoryConfig(max_age="1")  # type: ignore[arg-type]
    options: dict[str, Any]
    for options in ({}, {"heartbeat": False}, {"heartbeat": True, "periodic_queries": 1}):
        with pytest.raises(ValueError, match="either"):
            RecoveryConfig(**options)


@pytest.mark.parametrize(
    "make",
    [
        lambda number: CacheConfig(number, replies_config=RepliesConfig(priority=Priority.DATA)),
        lambda number: HistoryConfig(max_samples=number),
        lambda number: MissDetectionConfig(heartbeat=number),
        lambda number: RecoveryConfig(periodic_queries=number),
    ],
)
def test_configurations_are_values(make: Callable[[int], Any]) -> None:
    assert pickle.loads(pickle.dumps(make(1))) == make(1) != make(2)
    assert {make(1): 1}[make(1)] == 1
    assert make(1) != 1
    assert "1" in repr(make(1))


def test_nothing_at_all_is_refused(sessions: tuple[Session, Session]) -> None:
    with pytest.raises(UsageError, match="at least one"):
        publisher_on(sessions[0], cache=CacheConfig(0))
    for past in (HistoryConfig(max_samples=0), HistoryConfig(max_age=0)):
        with pytest.raises(UsageError, match="at least one"):
            subscriber_on(sessions[0], history=past)


def test_a_closed_outlet_takes_nothing_and_waits_for_nothing() -> None:
    outlet = BlockingSink(FifoChannel(1), ThreadPerCallback())

    def push() -> None:
        for number in range(3):
            outlet.push(number)

    pusher = threading.Thread(target=push)
    pusher.start()
    outlet.close()
    pusher.join(PATIENCE)
    assert not pusher.is_alive()


def test_samples_of_a_publisher_are_numbered(sessions: tuple[Session, Session]) -> None:
    """PU-57: with miss detection, each publisher counts what it publishes, values and removals, by one."""
    one, other = sessions
    found = other.declare_subscriber("a/b")
    publishers = [publisher_on(one), publisher_on(one)]
    for publisher in publishers:
        until(is_heard(publisher))
    for _ in range(3):
        for publisher in publishers:
            publisher.put(b"value")
            publisher.delete()
    samples = [found.recv(PATIENCE) for _ in range(12)]
    for publisher in publishers:
        mine = [sample.source_info for sample in samples if sample.source_info.source_id == publisher.id]
        first = mine[0].source_sn
        assert [info.source_sn for info in mine] == list(range(first, first + 6))
