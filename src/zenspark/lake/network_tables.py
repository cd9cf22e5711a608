"""`sessions`, `declarations` and `counters`: what the recorders' nodes observed, out of the side journals of samples.

They are few rows, so the driver imports them itself: one transaction adds a file and says up to which offset of which
recorder the table has come, so that each row is there once.
"""

from __future__ import annotations

import pyarrow as pa

from zenspark.errors import NoJournal
from zenspark.journal import Journal
from zenspark.journal.format import COUNTERS, DECLARATIONS, SESSIONS, read_schema
from zenspark.lake.delta_table import Change, Table
from zenspark.lake.offset_marks import mark_of, marks
from zenspark.lake.parquet_files import batches_of, joined
from zenspark.lake.specs import Shape

SHAPES = {name: Shape(name, read_schema(name), described=("time",)) for name in (SESSIONS, DECLARATIONS, COUNTERS)}
MANY_FILES = 32
"""So many small files become one."""
SMALL_FILE_BYTES = 16 << 20


def bring(table: Table, samples: Journal, reader: str) -> int:
    """Import what a recorder observed since the last time; how many rows."""
    journal = Journal(samples.path / table.shape.name)
    try:
        start = max(table.mark(mark_of(journal.recorder)) or 0, journal.earliest())
    except NoJournal:
        return 0  # this recorder observes nothing
    end = journal.latest()
    if start == end:
        return 0
    rows = pa.Table.from_batches(journal.read(start, end), schema=table.shape.columns)
    added = table.write(rows, "events")
    table.commit(Change(add=added, marks=marks({journal.recorder: end})))
    journal.commit(reader, end)
    small = sorted((file for file in table.files if file.size < SMALL_FILE_BYTES), key=lambda file: file.version)
    if len(small) > MANY_FILES:
        together = joined([batch for file in small for batch in batches_of(table.folder, file, table.shape)])
        table.commit(Change(add=table.write(together, "compact"), remove=small, rearranges=True))
    return end - start
