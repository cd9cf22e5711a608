"""Keys with their rates and newest values, aggregated from Arrow rows."""

from __future__ import annotations

import json
import time

import pytest

from tests.unit.api.sessions import pair
from tests.unit.web.served import opened
from tests.wait import until
from zenspark.handlers.arrow import chunk_from_samples
from zenspark.key import KeyExpr
from zenspark.types.sample import Sample, sample_from_body
from zenspark.web import key_monitor
from zenspark.web.key_monitor import RATE_DECAY_SECONDS, KeyMonitor, KeyMonitors, KeyTable
from zenspark.wire import values as wire
from zenspark.wire.messages import Del, Put


def sample(key: str, payload: bytes | None) -> Sample:
    body = Del() if payload is None else Put(payload=payload)
    return sample_from_body(body, KeyExpr(key), wire.QoS.DEFAULT)


def add(table: KeyTable, now: float, *samples: Sample) -> None:
    table.add([chunk_from_samples(samples, 1_000_000)] if samples else [], now)


def rows(table: KeyTable, since: int = 0) -> dict[str, dict[str, object]]:
    return {key: json.loads(row) for key, row in table.changed_rows(since, 1000)[0]}


def test_key_table_has_counts_sizes_and_newest_values() -> None:
    table = KeyTable()
    add(table, 0.0, sample("a", b"1"), sample("b", b"22"), sample("a", b"333"), sample("b", None))
    found = rows(table)
    assert {key: (row["count"], row["size"], row["value"], row["kind"]) for key, row in found.items()} == {
        "a": (2, 3, "333", "PUT"),
        "b": (2, 0, "", "DELETE"),
    }
    state = table.get("a")
    assert state is not None
    assert state.byte_count == 4
    assert state.document()["received_at"] == "1970-01-01T00:00:01Z"


def test_only_what_changed_is_sent() -> None:
    table = KeyTable()
    add(table, 0.0, sample("a", b"1"), sample("b", b"1"), sample("c", b"1"))
    changed, last = table.changed_rows(0, 2)
    assert [key for key, _ in changed] == ["a", "b"]
    changed, last = table.changed_rows(last, 2)
    assert [key for key, _ in changed] == ["c"]
    add(table, 0.1, sample("b", b"2"))
    changed, last = table.changed_rows(last, 2)
    assert [key for key, _ in changed] == ["b"]
    assert table.changed_rows(last, 2) == ([], last)
    assert [key for key, _ in table.newest_rows(2)] == ["b", "c"]
    assert sorted(table.keys()) == ["a", "b", "c"]


def test_rates_rise_and_fall() -> None:
    table = KeyTable()
    start = time.monotonic()
    for second in range(1, 31):
        add(table, start + second, *(sample("a", b"12345") for _ in range(10)))
    state = table.get("a")
    assert state is not None
    assert state.rate == pytest.approx(10, rel=0.05)
    assert state.bytes_rate == pytest.approx(50, rel=0.05)
    change = state.change
    for second in range(31, 31 + int(RATE_DECAY_SECONDS * 20)):
        add(table, start + second)
    assert (state.rate, state.bytes_rate) == (0.0, 0.0)
    assert set(rows(table, since=change)) == {"a"}  # pages are notified


def test_too_many_keys_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_monitor, "MAX_MONITORED_KEYS", 2)
    table = KeyTable()
    add(table, 0.0, *(sample(f"k{number}", b"x") for number in range(3)))
    assert (len(table), table.is_truncated) == (2, True)


def test_large_values_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_monitor, "MAX_KEPT_PAYLOAD_BYTES", 4096)
    monkeypatch.setattr(key_monitor, "MAX_TOTAL_KEPT_BYTES", 2000)
    table = KeyTable()
    add(table, 0.0, sample("a", bytes(5000)), sample("b", bytes(2000)), sample("c", bytes(2000)), sample("d", b"x"))
    kept = {key: table.get(key) for key in "abcd"}
    assert {key: state is not None and state.payload is not None for key, state in kept.items()} == {
        "a": False,
        "b": True,
        "c": False,
        "d": True,
    }


@pytest.mark.slow
def test_a_monitor_sees_what_others_publish() -> None:
    with pair("router", "client") as (one, other):
        monitor = KeyMonitor(one, "demo/**")
        for number in range(100):
            other.put(f"demo/{number % 10}", f"{number}")
        assert until(lambda: sum(row["count"] == 10 for row in rows(monitor.table).values()) == 10)
        found = rows(monitor.table)["demo/9"]
        assert (found["value"], found["source"]) == ("99", str(other.zid()))
        monitor.close()


@pytest.mark.slow
def test_monitors_are_shared_and_closed_when_unused() -> None:
    with opened() as session:
        monitors = KeyMonitors(session)
        first, second = monitors.acquire("demo/**"), monitors.acquire("demo/**")
        assert first is second
        session.put("demo/a", b"1")
        assert until(lambda: monitors.key_count == 1)
        assert monitors.newest("demo/a") is not None
        assert monitors.newest("demo/b") is None
        publisher = session.declare_publisher("demo/a")
        monitors.release("demo/**")
        monitors.close_unused(time.monotonic(), linger=0.0)
        assert publisher.matching_status.matching
        monitors.release("demo/**")
        monitors.close_unused(time.monotonic() - 10.0)
        assert publisher.matching_status.matching
        monitors.close_unused(time.monotonic(), linger=0.0)
        assert until(lambda: not publisher.matching_status.matching)
        assert monitors.skipped == 0
        monitors.close()
