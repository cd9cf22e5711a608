from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.unit.spark.storage.made import recorded, row
from tests.unit.spark.storage.tables import Files, append
from zenspark.api.timeranges import TimeRange
from zenspark.journal import Journal, JournalWriter
from zenspark.spark.storage import history
from zenspark.spark.storage.history import Asked, History
from zenspark.spark.storage.scope import Scope
from zenspark.spark.storage.sources import Sources
from zenspark.wire.messages import Del, Put

ALWAYS = TimeRange()
DAY = 86_400.0


class Past:
    """A history of rows, some landed, the rest in the journal."""

    def __init__(self, path: Path) -> None:
        self.files = Files(path / "lake")
        self.path = path / "journal"

    def samples(
        self, key: str, times: TimeRange = ALWAYS, limit: int | None = None, scope: Scope | None = None
    ) -> list[Any]:
        sources = Sources(self.files, [Journal(self.path)])
        found = History(scope or Scope(["**"]), sources).samples(Asked(key, times, limit))
        return [(key, body.payload if isinstance(body, Put) else None) for key, body in found]

    def record(self, rows: list[dict[str, Any]], landed: int = 0) -> None:
        with JournalWriter(self.path, recorder="r") as writer:
            first = writer.end
            append(writer, rows)
        if landed:
            self.files.land("samples", recorded(rows[:landed], first))


@pytest.fixture
def past(tmp_path: Path) -> Past:
    return Past(tmp_path)


def test_landed_and_not_landed_rows_are_each_told_once_in_order(past: Past) -> None:
    past.record([row("a", b"1", 1), row("a", b"3", 3), row("b", b"2", 2), row("a", b"2", 2)], landed=2)
    assert past.samples("a") == [("a", b"1"), ("a", b"2"), ("a", b"3")]
    assert past.samples("**") == [("a", b"1"), ("b", b"2"), ("a", b"2"), ("a", b"3")]
    past.files.land("samples", recorded([row("b", b"2", 2), row("a", b"2", 2)], first=2))
    assert past.samples("a") == [("a", b"1"), ("a", b"2"), ("a", b"3")]


@pytest.mark.parametrize("landed", [0, 5])
def test_ranges_of_time(past: Past, landed: int) -> None:
    rows = [row("a", b"%d" % second, second * DAY, received=second * DAY + 1) for second in range(1, 4)]
    past.record([*rows, row("a", b"u", received=2.5 * DAY), row("a", None, 4 * DAY)], landed)
    assert past.samples("a", TimeRange(2 * DAY, 3 * DAY)) == [("a", b"2"), ("a", b"u"), ("a", b"3")]
    assert past.samples("a", TimeRange(2 * DAY, 3 * DAY, False, False)) == [("a", b"u")]
    assert past.samples("a", TimeRange(2.7 * DAY)) == [("a", b"3"), ("a", None)]
    assert past.samples("a", TimeRange(end=1 * DAY)) == [("a", b"1")]
    assert past.samples("a", TimeRange(-math.inf, -1.0)) == []
    assert past.samples("a", TimeRange(1e300)) == []


@pytest.mark.parametrize("landed", [0, 4])
def test_wildcards_are_told_where_they_reach(past: Past, landed: int) -> None:
    past.record([row("a/1", b"1", 1), row("b/1", b"2", 2), row("*/1", None, 3), row("a/*", b"4", 4)], landed)
    assert past.samples("a/1") == [("a/1", b"1"), ("*/1", None), ("a/*", b"4")]
    assert past.samples("b/*") == [("b/1", b"2"), ("*/1", None)]


def test_the_newest_of_each_key(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row(key, b"%d" % second, second) for second in (3, 1, 2) for key in ("a", "b")]
    past.record(rows, landed=3)
    assert past.samples("**", limit=1) == [("a", b"3"), ("b", b"3")]
    assert past.samples("*", limit=2) == [("a", b"2"), ("b", b"2"), ("a", b"3"), ("b", b"3")]
    monkeypatch.setattr(history, "SORTED", 2)
    assert past.samples("*", limit=2) == [("a", b"2"), ("b", b"2"), ("a", b"3"), ("b", b"3")]


def test_very_many_are_told_as_they_come(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    past.record([row("a", b"%d" % second, second) for second in (3, 1)], landed=2)
    past.record([row("a", b"%d" % second, second) for second in (2, 4, 0)])
    monkeypatch.setattr(history, "SORTED", 1)
    assert past.samples("a") == [("a", b"3"), ("a", b"1"), ("a", b"2"), ("a", b"4"), ("a", b"0")]


def test_a_sample_is_as_it_was(past: Past) -> None:
    stamped = row("a", b"{}", 2_209_000_000.0, encoding="application/json", attachment=b"x")
    past.record([stamped, row("a", None, received=2_209_000_001.0, attachment=b"y")])
    found = list(History(Scope(["**"]), Sources(None, [Journal(past.path)])).samples(Asked("a", ALWAYS)))
    (_, put), (_, deleted) = found
    assert isinstance(put, Put)
    assert put.timestamp is not None
    assert (put.timestamp.ntp64, str(put.timestamp.id)) == (2_209_000_000 << 32, "a1")
    assert (str(put.encoding), put.attachment, put.payload) == ("application/json", b"x", b"{}")
    assert deleted == Del(attachment=b"y")


@pytest.mark.parametrize("landed", [0, 2])
def test_with_a_prefix(past: Past, landed: int) -> None:
    past.record([row("a/1", b"1", 1), row("b", b"2", 2)], landed)
    scope = Scope(["old/a/**"], "old")
    assert past.samples("old/**", scope=scope) == [("old/a/1", b"1")]
    assert past.samples("old/a/1", scope=scope) == [("old/a/1", b"1")]
    assert past.samples("a/1", scope=scope) == []
