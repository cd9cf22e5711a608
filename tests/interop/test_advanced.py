"""Advanced publishers and subscribers beside those of eclipse-zenoh, both ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.reference import Reference, eventually, ours, reference, unused
from tests.wait import TIMEOUT_SECONDS
from zenspark.api.ext import (
    AdvancedPublisher,
    CacheConfig,
    HistoryConfig,
    MissDetectionConfig,
    RecoveryConfig,
    declare_advanced_publisher,
    declare_advanced_subscriber,
)
from zenspark.api.ext.advanced.subscriber import SampleRecovery
from zenspark.api.open import open
from zenspark.api.publisher import Publisher
from zenspark.api.session import Session
from zenspark.types.sample import Sample

KEY = "adv/key"


@pytest.fixture
def beside() -> Iterator[tuple[Session, Reference]]:
    """A session of ours, and one of theirs that connects to it."""
    place = unused()
    with open(ours(listen__endpoints=[place])) as session, reference(connect__endpoints=[place]) as other:
        assert eventually(lambda: session.info.peers_zid())
        yield session, other


def lines(other: Reference, count: int) -> list[str]:
    return [other.line() for _ in range(count)]


def publisher_of(session: Session, **options: Any) -> AdvancedPublisher:  # noqa: ANN401 - any option
    settings = {"cache": CacheConfig(10), "publisher_detection": True, **options}
    detection = settings.pop("sample_miss_detection", MissDetectionConfig(heartbeat=0.1))
    return declare_advanced_publisher(session, KEY, sample_miss_detection=detection, **settings)


def has_matching_subscriber(publisher: AdvancedPublisher) -> bool:
    return publisher._publisher.matching_status.matching


def put_without_sending(publisher: AdvancedPublisher, payload: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish what the network loses."""
    with monkeypatch.context() as patched:
        patched.setattr(Publisher, "put", lambda *_, **__: None)
        publisher.put(payload)


# --- their subscriber -----------------------------------------------------------------------------


def test_eclipse_zenoh_subscriber_gets_history_and_new_samples_of_zenspark(beside: tuple[Session, Reference]) -> None:
    session, other = beside
    publisher = publisher_of(session)
    for number in range(3):
        publisher.put(str(number))
    received = other.execute(f"advanced_sub {KEY}")
    received += lines(other, 3 - len(received))
    assert received == [f"received {KEY} {number}" for number in range(3)]
    assert eventually(lambda: has_matching_subscriber(publisher))
    publisher.put("after")
    assert other.line() == f"received {KEY} after"


def test_eclipse_zenoh_subscriber_recovers_lost_samples_of_zenspark(
    beside: tuple[Session, Reference], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, other = beside
    other.execute(f"advanced_sub {KEY}")
    publisher = publisher_of(session)
    assert eventually(lambda: has_matching_subscriber(publisher))
    publisher.put("first")
    put_without_sending(publisher, "lost", monkeypatch)
    publisher.put("next")
    put_without_sending(publisher, "last", monkeypatch)
    assert lines(other, 4) == [f"received {KEY} {payload}" for payload in ("first", "lost", "next", "last")]


def test_eclipse_zenoh_subscriber_reports_unrecoverable_samples(
    beside: tuple[Session, Reference], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, other = beside
    other.execute(f"advanced_sub {KEY}")
    publisher = publisher_of(session, cache=None, sample_miss_detection=MissDetectionConfig())
    assert eventually(lambda: has_matching_subscriber(publisher))
    publisher.put("first")
    put_without_sending(publisher, "lost", monkeypatch)
    put_without_sending(publisher, "lost", monkeypatch)
    publisher.put("next")
    assert sorted(lines(other, 3)) == ["missed 2", f"received {KEY} first", f"received {KEY} next"]


def test_eclipse_zenoh_detects_zenspark_advanced_publisher_and_subscriber(beside: tuple[Session, Reference]) -> None:
    session, other = beside
    publisher = publisher_of(session)
    subscriber = declare_advanced_subscriber(session, KEY, subscriber_detection=True)
    expected = [
        f"alive {KEY}/@adv/pub/{session.zid()}/{publisher.id.eid}/_",
        f"alive {KEY}/@adv/sub/{session.zid()}/{subscriber.id.eid}/_",
    ]
    assert eventually(lambda: sorted(other.execute(f"live {KEY}/@adv/**")) == expected)


# --- our subscriber -------------------------------------------------------------------------------


def payloads(subscriber: Any, count: int) -> list[str]:  # noqa: ANN401 - of any handler
    return [subscriber.recv(2 * TIMEOUT_SECONDS).payload.to_string() for _ in range(count)]


@pytest.mark.parametrize("number", [2, 10])
def test_zenspark_subscriber_gets_history_and_new_samples_of_eclipse_zenoh(
    beside: tuple[Session, Reference], number: int
) -> None:
    session, other = beside
    other.execute(f"advanced_pub {KEY}")
    for payload in range(5):
        other.execute(f"advanced_put {payload}")
    history = HistoryConfig(max_samples=number, max_age=60, detect_late_publishers=True)
    subscriber = declare_advanced_subscriber(session, "adv/**", history=history)
    assert payloads(subscriber, min(number, 5)) == [str(payload) for payload in range(5)][-number:]
    other.execute("advanced_put after")
    assert payloads(subscriber, 1) == ["after"]


@pytest.mark.parametrize("recovery", [RecoveryConfig(heartbeat=True), RecoveryConfig(periodic_queries=0.1)])
def test_zenspark_subscriber_recovers_lost_samples_of_eclipse_zenoh(
    beside: tuple[Session, Reference], recovery: RecoveryConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, other = beside
    on_sample = SampleRecovery.on_sample

    def on_sample_with_loss(self: SampleRecovery, sample: Sample) -> None:
        if sample.payload.to_string() not in ("lost", "last"):
            on_sample(self, sample)

    monkeypatch.setattr(SampleRecovery, "on_sample", on_sample_with_loss)
    subscriber = declare_advanced_subscriber(session, KEY, recovery=recovery)
    found = subscriber.detect_publishers(history=True)
    other.execute(f"advanced_pub {KEY}")
    assert str(found.recv(2 * TIMEOUT_SECONDS).key_expr).startswith(f"{KEY}/@adv/pub/{other.zid}/")

    def is_received() -> bool:
        other.execute("advanced_put start")
        return subscriber.try_recv() is not None

    assert eventually(is_received)
    for payload in ("first", "lost", "next", "last"):
        other.execute(f"advanced_put {payload}")
    received: list[str] = []
    while len(received) < 4:
        received += [payload for payload in payloads(subscriber, 1) if payload != "start"]
    assert received == ["first", "lost", "next", "last"]


def test_zenspark_subscriber_detects_late_eclipse_zenoh_publisher(beside: tuple[Session, Reference]) -> None:
    session, other = beside
    subscriber = declare_advanced_subscriber(session, KEY, history=HistoryConfig(detect_late_publishers=True))
    other.execute(f"advanced_pub {KEY}")
    other.execute("advanced_put early")
    assert payloads(subscriber, 1) == ["early"]
