"""`sessions`, `declarations` and `counters`: what the recorders' nodes observed, out of the side journals of samples.

They are few rows, so the driver imports them itself: one transaction adds a file and says up to which offset of which
recorder the table has come, so that each row is there once.
"""

from __future__ import annotations

import pyarrow as pa

from zenspark.errors import NoJournal
from zenspark.journal import Journal
from zenspark.journal.format import COUNTERS, DECLARATIONS, SESSIONS, read_schema
from zenspark.lake.delta_table import LakeTable, Transaction
from zenspark.lake.offset_marks import offset_app_id, offset_app_versions
from zenspark.lake.parquet_files import concat_batches, read_batches
from zenspark.lake.specs import TableSpec

NETWORK_TABLE_SPECS = {
    name: TableSpec(name, read_schema(name), stats_columns=("time",)) for name in (SESSIONS, DECLARATIONS, COUNTERS)
}
MAX_SMALL_FILES = 32
"""So many small files become one."""
SMALL_FILE_BYTES = 16 << 20


def import_events(table: LakeTable, samples: Journal, reader: str) -> int:
    """Import what a recorder observed since the last time; how many rows."""
    journal = Journal(samples.path / table.spec.name)
    try:
        start = max(table.app_version(offset_app_id(journal.recorder)) or 0, journal.earliest())
    except NoJournal:
        return 0  # this recorder observes nothing
    end = journal.latest()
    if start == end:
        return 0
    rows = pa.Table.from_batches(journal.read(start, end), schema=table.spec.columns)
    added = table.write(rows, "events")
    table.commit(Transaction(add=added, app_versions=offset_app_versions({journal.recorder: end})))
    journal.commit(reader, end)
    small = sorted((file for file in table.files if file.size < SMALL_FILE_BYTES), key=lambda file: file.version)
    if len(small) > MAX_SMALL_FILES:
        together = concat_batches([batch for file in small for batch in read_batches(table.location, file, table.spec)])
        table.commit(Transaction(add=table.write(together, "compact"), remove=small, is_optimize=True))
    return end - start
