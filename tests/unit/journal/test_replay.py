"""Replay of recorded rows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.api.sessions import connected, listening
from tests.unit.journal.rows import START, batch, counted, row
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.arrow import SCHEMA
from zenspark.errors import NoJournal, UsageError
from zenspark.handlers.arrow import ArrowBatches
from zenspark.journal import Journal, JournalWriter, Policy
from zenspark.journal.key_remap import KeyRemap
from zenspark.journal.replay import (
    Replay,
    ReplayBound,
    ReplayClock,
    SubscriberMatcher,
    read_recorded,
    wait_for_subscribers,
)
from zenspark.key import KeyExpr


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Twenty rows, one a second."""
    with JournalWriter(tmp_path / "j", Policy(flush_rows=5)) as writer:
        for start in range(0, 20, 5):
            writer.append(counted(start, start + 5))
    return tmp_path / "j"


@pytest.fixture
def table(journal: Path, tmp_path: Path) -> Path:
    """The same, in files that are in no order."""
    (tmp_path / "t").mkdir()
    for name, start in (("a", 10), ("b", 0)):
        rows = pa.Table.from_batches(Journal(journal).read(start, start + 10))
        pq.write_table(rows, tmp_path / "t" / f"{name}.parquet")
    return tmp_path / "t"


@pytest.fixture
def node() -> Iterator[Session]:
    with listening("peer") as session:
        yield session


def numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [int(payload) for one in batches for payload in one.column("payload").to_pylist()]


def at(second: float) -> ReplayBound:
    return ReplayBound(time_us=START + int(second * 1e6))


@pytest.mark.parametrize(
    ("start", "end", "first", "stop"),
    [
        (None, None, 0, 20),
        (ReplayBound(offset=3), ReplayBound(offset=12), 3, 12),
        (at(3), at(12), 3, 12),
        (at(2.5), None, 3, 20),
        (ReplayBound(offset=15), at(3), 15, 15),
    ],
)
def test_rows_between_bounds_are_read(
    journal: Path, table: Path, start: ReplayBound | None, end: ReplayBound | None, first: int, stop: int
) -> None:
    for source in (journal, table):
        assert numbers(read_recorded(str(source), start, end)) == list(range(first, stop))


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("17", ReplayBound(offset=17)),
        ("2023-11-14T22:13:20Z", ReplayBound(time_us=START)),
        ("2023-11-14T22:13:20", ReplayBound(time_us=START)),
        ("2023-11-15T00:13:20.5+02:00", ReplayBound(time_us=START + 500_000)),
    ],
)
def test_bounds_are_offsets_or_times(text: str, bound: ReplayBound) -> None:
    assert ReplayBound.parse(text) == bound


def test_invalid_bounds_and_sources_are_rejected(journal: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected an offset or a time"):
        ReplayBound.parse("yesterday")
    with pytest.raises(NoJournal, match="no such journal"):
        read_recorded(str(tmp_path / "nothing"))
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(NoJournal, match="neither a journal nor Parquet"):
        read_recorded(str(tmp_path / "letter"))
    pq.write_table(pa.table({"key": ["a"]}), tmp_path / "other.parquet")
    with pytest.raises(NoJournal, match="no column 'payload'"):
        read_recorded(str(tmp_path / "other.parquet"))
    pq.write_table(pa.Table.from_batches([counted(0, 1)]), tmp_path / "bare.parquet")
    with pytest.raises(UsageError, match="its rows have no offsets"):
        read_recorded(str(tmp_path / "bare.parquet"), ReplayBound(offset=1))
    assert numbers(read_recorded(str(tmp_path / "bare.parquet"))) == [0]
    JournalWriter(tmp_path / "s", row_type="sessions").close()
    with pytest.raises(NoJournal, match="expected a journal of samples, found one of sessions"):
        read_recorded(str(tmp_path / "s"))


def test_only_live_files_of_a_delta_table_are_read(table: Path, tmp_path: Path) -> None:
    deltalake: Any = pytest.importorskip("deltalake")
    deltalake.write_deltalake(str(tmp_path / "d"), pq.read_table(table))
    pq.write_table(pq.read_table(table), tmp_path / "d" / "not-committed.parquet")
    assert numbers(read_recorded(str(tmp_path / "d"))) == list(range(20))


@pytest.mark.slow
def test_subscriber_receives_recorded_rows(node: Session, tmp_path: Path) -> None:
    stamp = {"timestamp_ntp64": 1_700_000_000 << 32, "timestamp": START, "timestamp_id": "ab"}
    source = {"source_zid": "cd", "source_eid": 1, "source_sn": 2}
    rows = batch(
        row(0, priority="REAL_TIME", express=True, **stamp),
        row(1, attachment=b"x", encoding="text/plain", **source),
        row(2, kind="DELETE", payload=None),
    )
    with (
        connected("client", node) as client,
        client.declare_subscriber("**", ArrowBatches(max_delay=0.5)) as subscriber,
    ):
        wait_for_subscribers(node, [KeyExpr("k/0")], threading.Event())
        *_, report = Replay(speed=None, may_drop=True).run(node, iter([rows]))
        assert (report.rows, report.dropped) == (3, 0)
        found: list[dict[str, Any]] = []
        while len(found) < 3:
            found += subscriber.recv(TIMEOUT_SECONDS).to_pylist()
    expected = rows.to_pylist()
    for one in (*found, *expected):
        del one["received_at"], one["via"]
    assert found == expected


def received(node: Session, replay: Replay, rows: pa.RecordBatch) -> list[dict[str, Any]]:
    with node.declare_subscriber("**", ArrowBatches()) as subscriber:
        list(replay.run(node, iter([rows])))
        found: list[dict[str, Any]] = []
        while len(found) < rows.num_rows:
            found += subscriber.recv(TIMEOUT_SECONDS).to_pylist()
    return found


@pytest.mark.slow
def test_restamp_drops_timestamps_and_congestion_control_is_block(node: Session) -> None:
    stamp = {"timestamp_ntp64": 1_700_000_000 << 32, "timestamp": START, "timestamp_id": "ab"}
    rows = batch(row(0, **stamp, congestion="DROP"))
    assert received(node, Replay(speed=None), rows)[0]["timestamp_id"] == "ab"
    (found,) = received(node, Replay(speed=None, restamp=True, remapping=KeyRemap(prefix="p")), rows)
    assert (found["timestamp"], found["key"], found["congestion"]) == (None, "p/k/0", "BLOCK")


def test_rows_without_matching_subscriber_are_counted(node: Session) -> None:
    rows = batch(*(row(number, key=key) for number, key in enumerate(["a", "b/c", "b/d", "a", "e"])))
    with connected("client", node) as client, client.declare_subscriber("b/*"):
        wait_for_subscribers(node, [KeyExpr("b/c")], threading.Event())
        *_, report = Replay(speed=None).run(node, iter([rows]))
        assert (report.rows, report.unmatched) == (5, 3)
        with node.declare_subscriber("a"):
            *_, report = Replay(speed=None).run(node, iter([rows]))
            assert report.unmatched == 1
    with SubscriberMatcher(node) as subscribers:
        until(lambda: subscribers.count_unmatched(rows) == 5)  # polls again after a while
        node.close()


class Clock:
    """A clock that advances only by waiting."""

    def __init__(self) -> None:
        self.now = 100.0
        self.ends_at = float("inf")

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return self.now >= self.ends_at


@pytest.mark.parametrize("speed", [1.0, 10.0])
def test_rows_are_published_at_the_recorded_rate(speed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("zenspark.journal.replay.time.monotonic", lambda: clock.now)
    pace = ReplayClock(speed, clock.now)
    seen: list[tuple[int, float]] = []
    seconds = [0, 0, 0.5, 0.5001, 0.4, 2, 3]
    rows = batch(*(row(number, received_at=START + int(at * 1e6)) for number, at in enumerate(seconds)))
    for half in (rows[:4], rows[:0], rows[4:]):
        for part in pace.split_when_due(half, clock):  # type: ignore[arg-type]
            seen.append((part.num_rows, round((clock.now - 100.0) * speed, 3)))
    assert sum(count for count, _ in seen) == len(seconds)
    assert seen == [(2, 0.0), (2, 0.5), (1, 0.5), (1, 2.0), (1, 3.0)]


def test_replay_ends_when_stop_is_set(monkeypatch: pytest.MonkeyPatch, node: Session) -> None:
    clock = Clock()
    clock.ends_at = 102.5
    monkeypatch.setattr("zenspark.journal.replay.time.monotonic", lambda: clock.now)
    parts = [part for part in ReplayClock(1.0, clock.now).split_when_due(counted(0, 10), clock)]  # type: ignore[arg-type]  # noqa: C416
    assert [part.num_rows for part in parts] == [1, 1, 1]
    monkeypatch.undo()
    ending = threading.Event()
    ending.set()
    assert list(Replay(speed=1.0).run(node, iter([counted(0, 10)]), ending)) == []


def test_speed_of_0_is_rejected() -> None:
    with pytest.raises(UsageError, match="speed: expected more than 0, found 0"):
        ReplayClock(0.0, 0.0)


def test_waiting_for_subscribers_ends_when_stop_is_set(node: Session) -> None:
    ending = threading.Event()
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(wait_for_subscribers(node, [KeyExpr("a")], ending)))
    thread.start()
    ending.set()
    thread.join(TIMEOUT_SECONDS)
    assert results == [False]
    with node.declare_subscriber("a"):
        until(lambda: wait_for_subscribers(node, [KeyExpr("a")], threading.Event()))


def test_only_sample_columns_are_published(journal: Path) -> None:
    (ready,) = {tuple(Replay()._select_columns(one).schema.names) for one in read_recorded(str(journal))}
    assert set(SCHEMA.names) - set(ready) == {"received_at", "via", "congestion"}
