"""`sessions` and `declarations`: what the recorders' nodes saw, out of the small journals beside those of the samples.

They are few rows, so the driver brings them in itself: one transaction adds a file and says up to which offset of
which recorder the table has come, so that each row is there once.
"""

from __future__ import annotations

from uuid import uuid4

import pyarrow as pa

from zenspark.errors import NoJournal
from zenspark.journal import Journal
from zenspark.journal.layout import DECLARATIONS, SESSIONS, read_schema
from zenspark.spark.lake.offsets import mark_of, marks, remember
from zenspark.spark.lake.shapes import Shape
from zenspark.spark.lake.table import Change, Table

SHAPES = {name: Shape(name, read_schema(name), described=("time",)) for name in (SESSIONS, DECLARATIONS)}
MANY_FILES = 32


def bring(table: Table, samples: Journal, reader: str) -> int:
    """Brings in what a recorder observed since the last time; how many rows."""
    journal = Journal(samples.path / table.shape.name)
    try:
        start = max(table.mark(mark_of(journal.recorder)) or 0, journal.earliest())
    except NoJournal:
        return 0  # nobody observed anything here
    end = journal.latest()
    if start == end:
        return 0
    rows = pa.Table.from_batches(journal.read(start, end), schema=table.shape.columns)
    remember(table, [journal.recorder])
    added = table.write(rows, f"batch={uuid4().hex}")
    table.commit(Change(add=added, marks=marks({journal.recorder: end})))
    journal.commit(reader, end)
    if len(table.files) > MANY_FILES:
        table.delta().optimize.compact()
    return end - start
