"""What `traffic` needs; tests/spark/test_lake_upkeep.py tests the table."""

from zenspark.spark.lake.shapes import TRAFFIC
from zenspark.spark.lake.traffic import MICROSECONDS_PER_MINUTE, Traffic


def test_it_counts_every_sample() -> None:
    assert Traffic.needs == "key"
    assert Traffic.shape is TRAFFIC
    assert MICROSECONDS_PER_MINUTE == 60 * 10**6
