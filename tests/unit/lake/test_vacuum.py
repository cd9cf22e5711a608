"""Files that vacuum deletes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tests.unit.lake.tables import samples_at, written
from zenspark.lake.delta_table import Transaction
from zenspark.lake.vacuum import vacuum


def test_vacuum_keeps_files_as_long_as_the_history_of_the_table(tmp_path: Path) -> None:
    """A history of seconds was rounded up to an hour: for so long disk use grew."""
    table = samples_at(tmp_path / "t")
    table.commit(Transaction(add=written(table, "gone", [{"key": "a"}])))
    table.commit(Transaction(add=written(table, "there", [{"key": "a"}]), remove=table.files))
    assert vacuum(table) == 0
    table.set_history(timedelta(0))
    assert vacuum(table) == 1


def test_vacuum_deletes_removed_files_and_with_full_uncommitted_ones(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    assert vacuum(table, timedelta()) == 0
    table.commit(Transaction(add=written(table, "gone", [{"key": "a"}])))
    table.commit(Transaction(add=written(table, "there", [{"key": "a"}]), remove=table.files))
    orphan = written(table, "orphan", [{"key": "a"}])[0].path
    assert vacuum(table, timedelta(hours=1)) == 0
    assert vacuum(table, timedelta()) == 1
    assert table.location.exists(orphan)
    assert vacuum(table, timedelta(), full=True)
    assert not table.location.exists(orphan)
    table.update().commit(Transaction(app_versions={"m": 1}))
    assert [each.path for each in table.files if table.location.exists(each.path)] == [
        each.path for each in table.files
    ]
