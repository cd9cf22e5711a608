from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds

from tests.unit.spark.storage.made import recorded, row
from tests.unit.spark.storage.tables import Files, append
from zenspark.journal import Journal, JournalWriter
from zenspark.spark.storage.sources import Sources

EVERYTHING = pc.is_valid(ds.field("key"))


def test_without_a_lake_nothing_has_landed() -> None:
    sources = Sources(None, [])
    for landed in (sources.newest(), sources.samples(["key"], EVERYTHING)):
        assert (list(landed.batches), landed.offsets) == ([], {})
    assert list(sources.tail({})) == []


def test_rows_of_tables(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.land("samples", recorded([row("a", b"1", 1), row("b", b"2", 1)]))
    sources = Sources(files, [])
    landed = sources.samples(["key"], ds.field("key") == "b")
    assert [batch.to_pylist() for batch in landed.batches if batch.num_rows] == [[{"key": "b"}]]
    assert landed.offsets == {"r": 2}
    newest = sources.newest()
    assert [row["payload"] for batch in newest.batches for row in batch.to_pylist()] == [b"1", b"2"]
    assert newest.offsets == {"r": 2}


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
