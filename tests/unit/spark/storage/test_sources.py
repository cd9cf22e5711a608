from __future__ import annotations

from pathlib import Path

from tests.unit.spark.storage.made import recorded, row
from tests.unit.spark.storage.tables import Files, append
from zenspark.journal import Journal, JournalWriter
from zenspark.spark.storage.sources import Sources, before


def test_without_a_lake_nothing_has_landed(tmp_path: Path) -> None:
    sources = Sources(None, [])
    assert sources.landed() == {}
    assert list(sources.table("samples", ["key"])) == []
    assert list(sources.tail({})) == []


def test_rows_of_a_table(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.land("samples", recorded([row("a", b"1", 1), row("b", b"2", 1)]))
    sources = Sources(files, [])
    assert [batch.to_pydict() for batch in sources.table("samples", ["key"])] == [{"key": ["a"]}, {"key": ["b"]}]
    assert sources.landed() == {"r": 2}
    assert list(sources.table("latest", ["key"])) == []


def test_a_journal_that_is_not_there_yet_is_empty_until_it_is(tmp_path: Path) -> None:
    sources = Sources(None, [Journal(tmp_path / "j")])
    assert list(sources.tail({})) == []
    assert sources.ends() == {}
    with JournalWriter(tmp_path / "j", recorder="r") as writer:
        append(writer, [row("a", b"1", 1), row("a", b"2", 9), row("a", b"3", 10)])
        assert sources.ends() == {"r": 3}
        assert [batch.column("offset").to_pylist() for batch in sources.tail({"r": 1})] == [[1, 2]]
        assert list(sources.tail({"r": 3})) == []
        assert list(sources.tail({}, received_after=11_000_000)) == []


def test_rows_before_an_offset() -> None:
    rows = recorded([row("a", b"", 1)] * 3, first=5)
    assert before(rows, {"r": 7}).column("offset").to_pylist() == [5, 6]
    assert before(rows, {"r": 8}) is rows
    assert before(rows, {}).num_rows == 0
