"""Import of side journals without Spark."""

from pathlib import Path

import pyarrow as pa
import pytest

from zenspark.journal import Journal, JournalWriter
from zenspark.journal.format import DECLARATIONS, SCHEMAS, SESSIONS
from zenspark.lake import network_tables
from zenspark.spark.lake import Lake


def observe(journal: Path, zid: str) -> None:
    row = {"time": 1, "event": "OPENED", "zid": zid}
    with JournalWriter(journal / SESSIONS, recorder="robot", row_type=SESSIONS) as writer:
        writer.append(pa.RecordBatch.from_pylist([row], schema=SCHEMAS[SESSIONS]))


@pytest.mark.slow
def test_each_row_is_imported_once(tmp_path: Path) -> None:
    lake, journal = Lake(tmp_path / "lake"), Journal(tmp_path / "journal")
    lake.create()
    for number in range(3):
        observe(journal.path, f"a{number}")
        lake.observe([journal], "me")
        lake.observe([journal], "me")
    rows = lake.dataset(SESSIONS).to_table().sort_by("offset").to_pylist()
    assert [(row["zid"], row["recorder"], row["offset"]) for row in rows] == [
        (f"a{number}", "robot", number) for number in range(3)
    ]
    assert Journal(journal.path / SESSIONS).committed("me") == 3
    assert lake.table(DECLARATIONS).version == 0


@pytest.mark.slow
def test_many_small_files_are_compacted(tmp_path: Path) -> None:
    lake, journal = Lake(tmp_path / "lake"), Journal(tmp_path / "journal")
    lake.create()
    for number in range(network_tables.MAX_SMALL_FILES + 2):
        observe(journal.path, f"a{number}")
        lake.observe([journal], "me")
    assert len(lake.table(SESSIONS).files) <= 2
    assert lake.dataset(SESSIONS).count_rows() == network_tables.MAX_SMALL_FILES + 2
