"""Lands a journal in small batches until it is killed: `python landing_process.py JOURNAL LAKE`."""

import sys

from zenspark.spark.engine import spark_session
from zenspark.spark.lake import Lake
from zenspark.spark.lake.landing import Landing
from zenspark.spark.lake.upkeep import Care

if __name__ == "__main__":
    journal, lake = sys.argv[1:]
    landing = Landing(
        spark_session("local[2]"),
        [journal],
        Lake(lake),
        trigger="0 seconds",
        options={"maxOffsetsPerTrigger": "20"},
        care=Care(fold_every=1.0, compact_every=5.0),
    )
    landing.start()
    landing.wait()
