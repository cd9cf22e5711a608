"""Parts of journals into files, and the rows of one recorder in a batch."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.rows import sample
from tests.unit.spark.journaled import journal
from zenspark.journal import Journal
from zenspark.spark.lake.folder import Folder
from zenspark.spark.lake.samples import Span, write_part
from zenspark.spark.lake.shapes import JOURNAL


def test_spans_of_several_parts_are_one() -> None:
    assert Span(5, 10, 5) | Span(0, 5, 5) | Span(12, 13, 1) == Span(0, 13, 11)


def test_a_part_is_written_as_it_is_in_the_journal(tmp_path: Path) -> None:
    (part,) = Journal(journal(tmp_path / "j", 1000)).slices(5, 995, 1)
    (file,) = write_part(Folder.at(tmp_path), "batch=1", part)
    assert (file.rows, file.partition) == (990, {"day": "2023-11-14", "prefix": "fleet"})
    rows = [sample(number) | {"recorder": "robot", "offset": number} for number in range(5, 995)]
    assert pq.ParquetFile(tmp_path / file.path).read().equals(pa.Table.from_pylist(rows, schema=JOURNAL))
