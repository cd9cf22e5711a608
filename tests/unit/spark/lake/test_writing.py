"""How files are written."""

from zenspark.spark.lake.writing import SETTINGS


def test_times_are_written_so_that_readers_can_leave_files_out() -> None:
    assert SETTINGS["spark.sql.parquet.outputTimestampType"] == "TIMESTAMP_MICROS"
