from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.storage.made import EPOCH, recorded, row
from tests.unit.storage.tables import FakeLake, append
from zenspark.errors import LakeError
from zenspark.journal import Journal, JournalWriter, Policy
from zenspark.journal.retention import trim
from zenspark.key.match import intersects
from zenspark.lake.delta_table import Transaction
from zenspark.lake.parquet_files import ARRIVAL_ORDER_SIZES, KEY_ORDER_SIZES, DataFile, DataFileWriter
from zenspark.lake.scan import Scanner, ScanRequest
from zenspark.lake.storage_path import StoragePath
from zenspark.storage import history
from zenspark.storage.history import History, HistoryQuery
from zenspark.storage.inputs import StorageInputs
from zenspark.storage.key_scope import KeyScope
from zenspark.types.time_range import TimeRange
from zenspark.wire.messages import Del, Put

ALWAYS = TimeRange()
DAY = 86_400.0


class RecordedHistory:
    """A history of rows, some ingested, the rest in the journal."""

    def __init__(self, path: Path) -> None:
        self.files = FakeLake(path / "lake")
        self.path = path / "journal"

    def history(self, scope: KeyScope | None = None) -> History:
        return History(scope or KeyScope(["**"]), StorageInputs(self.files, [Journal(self.path)]))

    def samples(
        self, key: str, times: TimeRange = ALWAYS, limit: int | None = None, scope: KeyScope | None = None
    ) -> list[Any]:
        found = self.history(scope).samples(HistoryQuery(key, times, limit))
        return [(key, body.payload if isinstance(body, Put) else None) for key, body in found]

    def record(self, rows: list[dict[str, Any]], ingested: int = 0) -> None:
        with JournalWriter(self.path, recorder="r") as writer:
            first = writer.end
            append(writer, rows)
        if ingested:
            self.files.ingest(recorded(rows[:ingested], first))


@pytest.fixture
def past(tmp_path: Path) -> RecordedHistory:
    return RecordedHistory(tmp_path)


@pytest.mark.slow
def test_ingested_and_journal_rows_are_returned_once_in_order(past: RecordedHistory) -> None:
    past.record([row("a", b"1", 1), row("a", b"3", 3), row("b", b"2", 2), row("a", b"2", 2)], ingested=2)
    assert past.samples("a") == [("a", b"1"), ("a", b"2"), ("a", b"3")]
    assert past.samples("**") == [("a", b"1"), ("b", b"2"), ("a", b"2"), ("a", b"3")]
    past.files.ingest(recorded([row("b", b"2", 2), row("a", b"2", 2)], first=2))
    assert past.samples("a") == [("a", b"1"), ("a", b"2"), ("a", b"3")]


@pytest.mark.slow
@pytest.mark.parametrize("ingested", [0, 5])
def test_time_range_bounds_the_returned_samples(past: RecordedHistory, ingested: int) -> None:
    rows = [row("a", b"%d" % second, second * DAY, received=second * DAY + 1) for second in range(1, 4)]
    past.record([*rows, row("a", b"u", received=2.5 * DAY), row("a", None, 4 * DAY)], ingested)
    assert past.samples("a", TimeRange(2 * DAY, 3 * DAY)) == [("a", b"2"), ("a", b"u"), ("a", b"3")]
    assert past.samples("a", TimeRange(2 * DAY, 3 * DAY, False, False)) == [("a", b"u")]
    assert past.samples("a", TimeRange(2.7 * DAY)) == [("a", b"3"), ("a", None)]
    assert past.samples("a", TimeRange(end=1 * DAY)) == [("a", b"1")]
    assert past.samples("a", TimeRange(-math.inf, -1.0)) == []
    assert past.samples("a", TimeRange(1e300)) == []


@pytest.mark.parametrize("ingested", [0, 4])
def test_wildcard_samples_are_returned_for_matching_keys(past: RecordedHistory, ingested: int) -> None:
    past.record([row("a/1", b"1", 1), row("b/1", b"2", 2), row("*/1", None, 3), row("a/*", b"4", 4)], ingested)
    assert past.samples("a/1") == [("a/1", b"1"), ("*/1", None), ("a/*", b"4")]
    assert past.samples("b/*") == [("b/1", b"2"), ("*/1", None)]


@pytest.mark.slow
def test_limit_returns_the_newest_of_each_key(past: RecordedHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row(key, b"%d" % second, second) for second in (3, 1, 2) for key in ("a", "b")]
    past.record(rows, ingested=3)
    assert past.samples("**", limit=1) == [("a", b"3"), ("b", b"3")]
    assert past.samples("*", limit=2) == [("a", b"2"), ("b", b"2"), ("a", b"3"), ("b", b"3")]
    monkeypatch.setattr(history, "MAX_SORTED_ROWS", 2)
    assert past.samples("*", limit=2) == [("a", b"2"), ("b", b"2"), ("a", b"3"), ("b", b"3")]


@pytest.mark.slow
def test_limit_for_single_key_includes_wildcard_samples(past: RecordedHistory) -> None:
    rows = [row("a/1", b"1", 1), row("a/*", b"2", 2), row("a/2", b"3", 3), row("a/1", b"4", 4), row("**", b"5", 5)]
    past.record(rows, ingested=4)
    assert past.samples("a/1", limit=2) == [("a/1", b"4"), ("**", b"5")]
    assert past.samples("a/1", limit=3) == [("a/*", b"2"), ("a/1", b"4"), ("**", b"5")]
    assert past.samples("a/1", limit=9) == [("a/1", b"1"), ("a/*", b"2"), ("a/1", b"4"), ("**", b"5")]
    assert past.samples("a/1", TimeRange(end=3), limit=1) == [("a/*", b"2")]
    assert past.samples("a/3", limit=1) == [("**", b"5")]
    assert past.samples("b", TimeRange(end=3), limit=1) == []


@pytest.mark.slow
def test_a_limit_opens_the_newest_files_only(past: RecordedHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    for hour in range(5):
        past.record([row("a", b"%d" % (10 * hour + at), 3600 * hour + at) for at in range(10)], ingested=10)
    opened: list[str] = []
    open_file = StoragePath.open

    def counted(location: StoragePath, path: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        opened.append(path)
        return open_file(location, path)

    monkeypatch.setattr(StoragePath, "open", counted)
    assert past.samples("a", limit=3) == [("a", b"47"), ("a", b"48"), ("a", b"49")]
    assert len(opened) == 1
    opened.clear()
    past.record([row("a", b"new", 20_000)])
    assert past.samples("a", limit=1) == [("a", b"new")]
    assert opened == []


@pytest.mark.slow
def test_too_many_samples_are_returned_unsorted(past: RecordedHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    past.record([row("a", b"%d" % second, second) for second in (3, 1)], ingested=2)
    past.record([row("a", b"%d" % second, second) for second in (2, 4, 0)])
    for limit in ("MAX_SORTED_ROWS", "MAX_SORTED_BYTES"):
        with monkeypatch.context() as changed:
            changed.setattr(history, limit, 1)
            assert past.samples("a") == [("a", b"3"), ("a", b"1"), ("a", b"2"), ("a", b"4"), ("a", b"0")]


def test_sample_is_returned_unchanged(past: RecordedHistory) -> None:
    timestamped = row("a", b"{}", 2_209_000_000.0, encoding="application/json", attachment=b"x")
    past.record([timestamped, row("a", None, received=2_209_000_001.0, attachment=b"y")])
    found = list(
        History(KeyScope(["**"]), StorageInputs(None, [Journal(past.path)])).samples(HistoryQuery("a", ALWAYS))
    )
    (_, put), (_, deleted) = found
    assert isinstance(put, Put)
    assert put.timestamp is not None
    assert (put.timestamp.ntp64, str(put.timestamp.id)) == (2_209_000_000 << 32, "a1")
    assert (str(put.encoding), put.attachment, put.payload) == ("application/json", b"x", b"{}")
    assert deleted == Del(attachment=b"y")


@pytest.mark.slow
@pytest.mark.parametrize("ingested", [0, 2])
def test_strip_prefix_is_added_to_history_keys(past: RecordedHistory, ingested: int) -> None:
    past.record([row("a/1", b"1", 1), row("b", b"2", 2)], ingested)
    scope = KeyScope(["old/a/**"], "old")
    assert past.samples("old/**", scope=scope) == [("old/a/1", b"1")]
    assert past.samples("old/a/1", scope=scope) == [("old/a/1", b"1")]
    assert past.samples("a/1", scope=scope) == []


# --- files that are removed -------------------------------------------------------------------------------------------


def compact(past: RecordedHistory, rows: list[dict[str, Any]]) -> None:
    """Put all files together, as compaction does, and remove them from disk, as a vacuum without mercy does."""
    table = past.files.table("samples")
    old = table.files
    writer = DataFileWriter(table.location, table.spec, "compact")
    writer.write(pa.Table.from_batches([recorded(rows)]), {"day": "1970-01-01", "prefix": "a"})
    table.commit(Transaction(add=writer.close(), remove=old, is_optimize=True))
    for file in old:
        table.location.remove(file.path)


@pytest.mark.slow
def test_removed_files_are_retried_with_a_new_snapshot(past: RecordedHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row("a", b"%d" % at, at) for at in range(4)]
    past.record(rows[:2], ingested=2)
    past.record(rows[2:], ingested=2)
    service = past.history()
    scan_rows = Scanner.rows

    def after_concurrent_change(
        scanner: Scanner, files: list[DataFile], wanted: ScanRequest
    ) -> Iterator[pa.RecordBatch]:
        monkeypatch.setattr(Scanner, "rows", scan_rows)
        compact(past, rows)
        return scan_rows(scanner, files, wanted)

    monkeypatch.setattr(Scanner, "rows", after_concurrent_change)
    assert [body for _, body in service.samples(HistoryQuery("a", ALWAYS))] == [
        body for _, body in past.history().samples(HistoryQuery("a", ALWAYS))
    ]
    assert past.samples("a") == [("a", b"%d" % at) for at in range(4)]


def test_missing_files_raise_with_their_path(past: RecordedHistory) -> None:
    past.record([row("a", b"1", 1)], ingested=1)
    table = past.files.table("samples")
    (file,) = table.files
    table.location.remove(file.path)
    for limit in (None, 1):
        with pytest.raises(LakeError, match="removed while it was read") as refused:
            past.samples("a", limit=limit)
        assert file.path in str(refused.value)


def test_no_retry_after_the_first_sample(past: RecordedHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_SORTED_ROWS", 1)
    for at in (1, 2):
        past.record([row("a", b"%d" % (at + n), at + n) for n in range(2)], ingested=2)
    files = past.files.table("samples").files
    past.files.table("samples").location.remove(files[1].path)
    replies = past.history().samples(HistoryQuery("a", ALWAYS))
    assert next(replies)[0] == "a"
    with pytest.raises(LakeError, match="removed while it was read"):
        list(replies)


def test_trimmed_rows_are_retried_in_the_lake(past: RecordedHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row("a", b"%d" % at, at) for at in range(3)]
    with JournalWriter(past.path, Policy(segment_bytes=1), recorder="r") as writer:
        for each in rows:
            append(writer, [each])
    tail = StorageInputs.read_tail

    def after_concurrent_change(sources: StorageInputs, *given: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - as `read_tail` has them
        monkeypatch.setattr(StorageInputs, "read_tail", tail)
        past.files.ingest(recorded(rows[:2]))
        trim(past.path, Policy(retain_bytes=1), 0)
        return tail(sources, *given)

    monkeypatch.setattr(StorageInputs, "read_tail", after_concurrent_change)
    assert past.samples("a") == [("a", b"0"), ("a", b"1"), ("a", b"2")]
    monkeypatch.setattr(StorageInputs, "read_tail", lambda *_: Journal(past.path).read(0, 1))
    with pytest.raises(LakeError, match="trimmed while"):
        past.samples("a")


# --- what other tools leave -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_rows_of_another_tool_without_valid_key_or_time_are_skipped(past: RecordedHistory) -> None:
    past.record([row("a", b"1", 1)], ingested=1)
    table = past.files.table("samples")
    foreign = [
        {"key": "a", "kind": "PUT", "payload": b"2", "timestamp": EPOCH + timedelta(seconds=2)},
        {"key": "a", "kind": "PUT", "payload": b"3", "received_at": EPOCH + timedelta(seconds=3)},
        {"key": "a", "kind": "PUT", "payload": b"never"},
        {"key": None, "kind": "PUT", "payload": b"4", "received_at": EPOCH},
        {"key": "a//b", "kind": "PUT", "payload": b"5", "received_at": EPOCH},
    ]
    writer = DataFileWriter(table.location, table.spec, "foreign")
    writer.write(pa.Table.from_pylist(foreign, schema=table.spec.columns), {"day": "1970-01-01", "prefix": "a"})
    table.commit(Transaction(add=writer.close()))
    assert past.samples("**") == [("a", b"1"), ("a", b"2"), ("a", b"3")]
    assert past.samples("a/**", limit=2) == [("a", b"2"), ("a", b"3")]
    assert past.samples("a", limit=2) == [("a", b"2"), ("a", b"3")]


# --- all of it --------------------------------------------------------------------------------------------------------

NAMES = ["a", "a/1", "a/2", "b/1", "é/1", "*/1", "a/*", "**", "x" * 70 + "/1", "x" * 70 + "/2"]
ROWS = st.builds(
    lambda key, second, received, at: row(key, b"%d" % at, second, received=received),
    st.sampled_from(NAMES),
    st.none() | st.integers(0, 9).map(float),
    st.integers(0, 3).map(lambda day: day * DAY / 2),
    st.integers(0, 10**6),
)
QUESTIONS = [*NAMES, "*", "b/*", "a/**", "x" * 70 + "/*", "q"]


def expected(rows: list[dict[str, Any]], query: HistoryQuery) -> list[tuple[str, bytes]]:
    """The replies of a storage without a lake that reads every sample."""

    def second(each: dict[str, Any]) -> float:
        return float(((each.get("timestamp") or each["received_at"]) - EPOCH).total_seconds())

    wanted = [
        (second(each), each.get("timestamp_ntp64") or 0, at, each)
        for at, each in enumerate(rows)
        if intersects(query.key_expr, each["key"]) and second(each) in query.times
    ]
    wanted.sort(key=lambda each: each[:3])
    found: list[tuple[str, bytes]] = []
    counts: dict[str, int] = {}
    for *_, each in reversed(wanted):
        group = each["key"] if "*" in query.key_expr else ""
        counts[group] = counts.get(group, 0) + 1
        if query.limit is None or counts[group] <= query.limit:
            found.append((each["key"], each["payload"]))
    return found[::-1]


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.lists(ROWS, min_size=1, max_size=8), st.booleans()), max_size=5),
    st.sampled_from(QUESTIONS),
    st.none() | st.integers(-1, 100_000),
    st.none() | st.integers(-1, 100_000),
    st.none() | st.integers(1, 4),
)
def test_result_equals_filter_of_all_rows(
    batches: list[tuple[list[dict[str, Any]], bool]],
    question: str,
    start: int | None,
    end: int | None,
    limit: int | None,
) -> None:
    times = TimeRange(-math.inf if start is None else start, math.inf if end is None else end, start != 5, end != 5)
    rows = [each for batch, _ in batches for each in batch]
    query = HistoryQuery(question, times, limit)
    with TemporaryDirectory() as root:
        past = RecordedHistory(Path(root))
        ingested = 0
        with JournalWriter(past.path, recorder="r") as writer:
            for batch, is_ingested in batches:
                first = writer.end
                append(writer, batch)
                if is_ingested and first == ingested:  # ingestion skips no rows
                    past.files.ingest(recorded(batch, first), KEY_ORDER_SIZES if first % 2 else ARRIVAL_ORDER_SIZES)
                    ingested = writer.end
        assert past.samples(question, times, limit) == expected(rows, query)


@pytest.mark.slow
def test_concurrent_queries_during_ingestion_return_all_rows_in_order(past: RecordedHistory) -> None:
    rows = [row("a", b"%d" % at, at) for at in range(60)]
    past.record(rows[:10], ingested=10)
    service = past.history()
    stopped = threading.Event()
    wrong: list[Any] = []

    def run_query() -> None:
        while not stopped.is_set():
            found = [body.payload for _, body in service.samples(HistoryQuery("a", ALWAYS)) if isinstance(body, Put)]
            if found != [b"%d" % at for at in range(len(found))] or len(found) < 10:
                wrong.append(found)
            newest = [
                body.payload for _, body in service.samples(HistoryQuery("a", ALWAYS, 1)) if isinstance(body, Put)
            ]
            if len(newest) != 1 or int(newest[0]) < 9:
                wrong.append(newest)

    threads = [threading.Thread(target=run_query) for _ in range(4)]
    for thread in threads:
        thread.start()
    for start in range(10, 60, 5):
        past.record(rows[start : start + 5])
        past.files.ingest(recorded(rows[start : start + 5], start))
    stopped.set()
    for thread in threads:
        thread.join()
    assert wrong == []
