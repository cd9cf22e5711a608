from __future__ import annotations

import time
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.storage.made import recorded, row
from zenspark.key.match import intersects
from zenspark.storage import value_pages
from zenspark.storage.latest_store import BATCHES_PER_COMPACTION, LatestValueStore

Rows = list[dict[str, Any]]


def apply_rows(newest: LatestValueStore, rows: Rows, first: int = 0, recorder: str = "r") -> None:
    batch = recorded(rows, first, recorder)
    newest.apply(batch.column("key").dictionary_encode(), batch)


def values(newest: LatestValueStore) -> dict[str, bytes]:
    found = {key: newest.find(key) for key in newest.matching_keys("**")}
    return {key: put.payload for key, put in found.items() if put is not None}


def test_later_timestamp_wins_over_later_arrival() -> None:
    newest = LatestValueStore()
    apply_rows(newest, [row("a", b"1", 1), row("a", b"3", 3), row("b", b"1", 1), row("a", b"2", 2)])
    apply_rows(newest, [row("a", b"0", 0.5), row("b", b"2", 2)], first=4)
    assert values(newest) == {"a": b"3", "b": b"2"}
    assert len(newest) == 2


def test_value_is_returned_as_recorded() -> None:
    newest = LatestValueStore()
    apply_rows(
        newest, [row("a", b"{}", 1.5, encoding="application/json;x", attachment=b"\x00"), row("b", b"", received=7)]
    )
    found = newest.find("a")
    assert found is not None
    assert (str(found.encoding), found.attachment, found.payload) == ("application/json;x", b"\x00", b"{}")
    assert found.timestamp is not None
    assert (found.timestamp.ntp64, str(found.timestamp.id)) == (3 << 31, "a1")
    without_timestamp = newest.find("b")
    assert without_timestamp is not None
    assert (without_timestamp.timestamp, without_timestamp.attachment, without_timestamp.payload) == (None, None, b"")
    assert newest.find("c") is None


def test_clock_readings_are_unsigned() -> None:
    newest = LatestValueStore()
    apply_rows(newest, [row("a", b"2040", 2_209_000_000.0), row("a", b"2030", 1_900_000_000.0)])
    assert values(newest) == {"a": b"2040"}
    found = newest.find("a")
    assert found is not None
    assert found.timestamp is not None
    assert found.timestamp.ntp64 == 2_209_000_000 << 32


def test_equal_timestamps_are_ordered_by_clock_id_then_by_recording() -> None:
    newest = LatestValueStore()
    apply_rows(newest, [row("a", b"low", 1, timestamp_id="1ff"), row("a", b"high", 1, timestamp_id="201")])
    apply_rows(newest, [row("a", b"higher", 1, timestamp_id="ff02")], first=2)
    assert values(newest) == {"a": b"low"}
    apply_rows(newest, [row("a", b"again", 1, timestamp_id="1ff")], first=3)
    assert values(newest) == {"a": b"again"}


def test_deleted_key_stays_deleted_until_a_newer_put() -> None:
    newest = LatestValueStore()
    apply_rows(newest, [row("a", b"1", 1), row("a", None, 3)])
    assert len(newest) == 0
    apply_rows(newest, [row("a", b"2", 2)], first=2)
    assert values(newest) == {}
    apply_rows(newest, [row("a", b"4", 4)], first=3)
    assert values(newest) == {"a": b"4"}
    assert len(newest) == 1


def test_del_without_timestamp_deletes_earlier_recorded_values() -> None:
    newest = LatestValueStore()
    apply_rows(
        newest, [row("a", b"ahead", 9, received=5), row("a", None, received=5), row("b", b"ahead", 9, received=5)]
    )
    apply_rows(newest, [row("b", None, received=6)], first=3)
    assert values(newest) == {}
    apply_rows(newest, [row("a", b"older", 8, received=7), row("b", b"newer", 10, received=10)], first=4)
    assert values(newest) == {"b": b"newer"}


def test_rows_applied_twice_change_nothing() -> None:
    newest = LatestValueStore()
    rows = [row("a", None, received=5), row("a", b"6", 6), row("b", b"7", received=7), row("b", None, received=8)]
    apply_rows(newest, rows)
    before = values(newest)
    apply_rows(newest, rows)
    apply_rows(newest, rows[:1])
    assert values(newest) == before == {"a": b"6"}


def test_samples_without_timestamp_are_ordered_by_reception_time() -> None:
    newest = LatestValueStore()
    apply_rows(newest, [row("a", b"second", received=2)], recorder="one")
    apply_rows(newest, [row("a", b"first", received=1)], recorder="two", first=7)
    assert values(newest) == {"a": b"second"}


def test_wildcard_update_changes_existing_keys() -> None:
    newest = LatestValueStore()
    apply_rows(
        newest,
        [row("a/1", b"1", 1), row("a/2", b"9", 9), row("b", b"1", 1), row("a/*", b"all", 5, encoding="text/plain")],
    )
    assert values(newest) == {"a/1": b"all", "a/2": b"9", "b": b"1"}
    found = newest.find("a/1")
    assert found is not None
    assert str(found.encoding) == "text/plain"
    apply_rows(newest, [row("a/**", None, received=6)], first=4)
    assert values(newest) == {"b": b"1"}
    apply_rows(newest, [row("a/3", b"early", 4), row("a/4", b"late", 10)], first=5)
    assert values(newest) == {"b": b"1", "a/4": b"late"}


def test_rows_are_applied_in_any_order() -> None:
    rows = [
        row("a/1", b"1", 8),
        row("a/*", None, 6),
        row("a/2", b"2", 5),
        row("a/1", b"3", 7),
        row("b", b"4", 2),
        row("b", None, 3),
    ]
    for order in ([0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [3, 2, 0, 5, 1, 4]):
        newest = LatestValueStore()
        for at in order:
            apply_rows(newest, [rows[at]], first=at)
        assert values(newest) == {"a/1": b"1"}


def test_older_sample_gets_the_value_of_a_later_wildcard_put() -> None:
    newest = LatestValueStore()
    apply_rows(newest, [row("a/*", b"all", 5), row("a/1", b"early", 4), row("a/2", b"late", 6)])
    apply_rows(newest, [row("a/3", b"early", 4)], first=3)
    assert values(newest) == {"a/1": b"all", "a/2": b"late", "a/3": b"all"}


def test_a_star_in_a_verbatim_chunk_is_no_wildcard() -> None:
    newest = LatestValueStore()
    apply_rows(newest, [row("@x$*/1", b"1", 1), row("@xy/1", b"2", 1)])
    assert newest.find("@x$*/1") is not None
    found = newest.find("@xy/1")
    assert found is not None
    assert found.payload == b"2"


def test_tombstone_expires_after_its_lifespan() -> None:
    newest = LatestValueStore(lifespan=60)
    apply_rows(newest, [row("a", b"1", 1), row("a", None, 3), row("b/**", None, 3)])
    newest.expire()
    assert newest.matching_keys("**") == ["a"]
    newest.expire(time.monotonic() + 61)
    assert newest.matching_keys("**") == []
    apply_rows(newest, [row("a", b"2", 2), row("b/1", b"2", 2)], first=3)
    assert values(newest) == {"a": b"2", "b/1": b"2"}


def test_put_removes_the_tombstone_of_a_key() -> None:
    newest = LatestValueStore(lifespan=60)
    apply_rows(newest, [row("a", b"1", 1), row("a", None, 2)])
    apply_rows(newest, [row("a", b"3", 3)], first=2)
    newest.expire(time.monotonic() + 61)
    assert values(newest) == {"a": b"3"}


@pytest.mark.slow
def test_store_grows_beyond_initial_capacity() -> None:
    newest = LatestValueStore()
    for first in range(0, 10_000, 2_500):
        apply_rows(newest, [row(f"k/{at}", b"%d" % at, 1) for at in range(first, first + 2_500)], first)
    assert values(newest) == {f"k/{at}": b"%d" % at for at in range(10_000)}


@pytest.mark.slow
def test_dead_bytes_are_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_pages, "MAX_DEAD_BYTES", 0)
    newest = LatestValueStore()
    keep = [row(f"keep/{at}", b"x" * 1000, 1) for at in range(10)]
    go = [row(f"go/{at}", b"x" * 100_000, 1) for at in range(20)]
    apply_rows(newest, [*keep, *go])
    assert newest.nbytes > 2_000_000
    for turn in range(BATCHES_PER_COMPACTION):
        apply_rows(newest, [row(f"go/{at}", b"y", 2 + turn) for at in range(20)], 30 + 20 * turn)
    assert newest.nbytes < 200_000
    assert values(newest) == {f"keep/{at}": b"x" * 1000 for at in range(10)} | {f"go/{at}": b"y" for at in range(20)}


@pytest.mark.slow
def test_small_pages_are_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_pages, "MAX_SMALL_PAGES", 8)
    newest = LatestValueStore()
    for at in range(BATCHES_PER_COMPACTION):
        apply_rows(newest, [row(f"k/{at}", b"%d" % at, 1), row("all/*", b"x", at)], 2 * at)
    assert len(newest._pages) <= 8
    assert values(newest) == {f"k/{at}": b"%d" % at for at in range(BATCHES_PER_COMPACTION)}


# --- against a model that takes one row at a time -------------------------------------------------------------------

KEYS = ["a/1", "a/2", "b/1"]
SECONDS = st.integers(1, 6)


class Model:
    """What one would write without thinking of speed."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[float, bool, bytes | None]] = {}
        self.wild: dict[str, tuple[float, bool, bytes | None]] = {}

    def apply_rows(self, sample: dict[str, Any]) -> None:
        has_timestamp = "timestamp" in sample
        time = (sample["timestamp"] if has_timestamp else sample["received_at"]).timestamp()
        key, payload = sample["key"], sample["payload"]
        if "*" in key:
            hit = {name: known for name, known in self.known.items() if intersects(name, key)}
            if not has_timestamp:
                time = max([time, *(known[0] for known in hit.values())])
            if key not in self.wild or (time, not has_timestamp) >= self.wild[key][:2]:
                self.wild[key] = (time, not has_timestamp, payload)
            for name, known in hit.items():
                if known[2] is not None and (time, not has_timestamp) >= known[:2]:
                    self.known[name] = (time, not has_timestamp, payload)
            return
        known = self.known.get(key, (0.0, False, None))
        if not has_timestamp:
            time = max(time, known[0])
        if (time, not has_timestamp) < known[:2]:
            return
        over = [wild for name, wild in self.wild.items() if has_timestamp and intersects(name, key) and wild[0] >= time]
        if any(wild[2] is None for wild in over):
            return
        self.known[key] = (time, not has_timestamp, payload)
        if over and payload is not None:
            self.known[key] = max(over)


Made = tuple[str, bytes | None, float, bool]


def samples(keys: list[str], has_timestamp: st.SearchStrategy[bool]) -> st.SearchStrategy[list[list[Made]]]:
    payloads = st.none() | st.integers(0, 9).map(lambda number: b"%d" % number)
    sample = st.tuples(st.sampled_from(keys), payloads, SECONDS, has_timestamp)
    return st.lists(st.lists(sample, max_size=6), max_size=6)


def assert_equals_model(batches: list[list[Made]]) -> None:
    newest, model = LatestValueStore(), Model()
    first = 0
    for made in batches:
        rows = [
            row(key, payload, second) if is_timestamped else row(key, payload, received=second)
            for key, payload, second, is_timestamped in made
        ]
        apply_rows(newest, rows, first)
        first += len(rows)
        for sample in rows:
            model.apply_rows(sample)
    assert values(newest) == {key: known[2] for key, known in model.known.items() if known[2] is not None}


@pytest.mark.slow
@given(samples(KEYS, st.booleans()))
def test_batches_equal_single_rows(batches: list[list[Made]]) -> None:
    assert_equals_model(batches)


@pytest.mark.slow
@given(samples([*KEYS, "a/*", "**"], st.just(True)))
@example([[("a/*", b"0", 2, True), ("a/2", b"0", 1, True), ("a/2", None, 1, True)]])
@example([[("a/*", b"0", 2, True), ("a/2", None, 1.01, True), ("a/2", b"0", 1, True)]])
def test_batches_with_wildcards_equal_single_rows(batches: list[list[Made]]) -> None:
    order = count()
    assert_equals_model(
        [
            [(key, payload, second + next(order) / 1000, has_timestamp) for key, payload, second, has_timestamp in made]
            for made in batches
        ]
    )


def test_empty_batch_changes_nothing() -> None:
    newest = LatestValueStore()
    apply_rows(newest, [])
    assert newest.matching_keys("**") == []
    assert isinstance(recorded([]), pa.RecordBatch)
