"""How files are written."""

from zenspark.spark.lake.shapes import JOURNAL
from zenspark.spark.lake.writing import COMMITTER, DISTINCT, LOCAL, SETTINGS


def test_times_are_written_so_that_readers_can_leave_files_out() -> None:
    assert SETTINGS["spark.sql.parquet.outputTimestampType"] == "TIMESTAMP_MICROS"


def test_what_is_for_one_kind_of_place_does_not_stand_in_the_way_of_the_other() -> None:
    assert not COMMITTER.keys() & LOCAL.keys()


def test_what_is_said_of_columns_is_said_of_columns_there_are() -> None:
    assert {name.partition("#")[2] for name in DISTINCT} < set(JOURNAL.names)
