"""Import of the tables `sessions`, `declarations` and `counters` from the side journals of recorders.

They have few rows, so the Spark driver imports them itself: one transaction adds a file and sets the offset of the
recorder up to which the table has its rows, so that each row is imported exactly once.
"""

from __future__ import annotations

import pyarrow as pa

from zenspark.errors import NoJournal
from zenspark.journal import Journal
from zenspark.journal.format import COUNTERS, DECLARATIONS, SESSIONS, read_schema
from zenspark.lake.delta_table import LakeTable, Transaction
from zenspark.lake.ingested_offsets import offset_app_id, offset_app_versions
from zenspark.lake.parquet_files import concat_batches, read_batches
from zenspark.lake.specs import TableSpec

NETWORK_TABLE_SPECS = {
    name: TableSpec(name, read_schema(name), stats_columns=("time",)) for name in (SESSIONS, DECLARATIONS, COUNTERS)
}
MAX_SMALL_FILES = 32
"""More small files than this are compacted into one."""
SMALL_FILE_BYTES = 16 << 20


def import_events(table: LakeTable, samples: Journal, reader: str) -> int:
    """Import the rows that a recorder has written since the last import. Returns their number."""
    journal = Journal(samples.path / table.spec.name)
    try:
        start = max(table.app_version(offset_app_id(journal.recorder)) or 0, journal.earliest())
    except NoJournal:
        return 0  # this recorder writes no side journals
    end = journal.latest()
    if start == end:
        return 0
    rows = pa.Table.from_batches(journal.read(start, end), schema=table.spec.columns)
    added = table.write(rows, "events")
    table.commit(Transaction(add=added, app_versions=offset_app_versions({journal.recorder: end})))
    journal.commit(reader, end)
    small = sorted((file for file in table.files if file.size < SMALL_FILE_BYTES), key=lambda file: file.version)
    if len(small) > MAX_SMALL_FILES:
        merged = concat_batches([batch for file in small for batch in read_batches(table.location, file, table.spec)])
        table.commit(Transaction(add=table.write(merged, "compact"), remove=small, is_optimize=True))
    return end - start
