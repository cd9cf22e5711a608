"""How Spark is told to write."""

from zenspark.spark.lake.writing import COMMITTER, LOCAL, SETTINGS


def test_times_are_written_so_that_readers_can_leave_files_out() -> None:
    assert SETTINGS["spark.sql.parquet.outputTimestampType"] == "TIMESTAMP_MICROS"


def test_what_is_for_one_kind_of_place_does_not_stand_in_the_way_of_the_other() -> None:
    assert not COMMITTER.keys() & LOCAL.keys()
