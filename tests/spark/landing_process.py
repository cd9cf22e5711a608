"""Lands a journal in small batches until it is killed: `python landing_process.py JOURNAL LAKE`."""

import sys
import time

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
        options={"maxOffsetsPerTrigger": "40"},
        care=Care(fold_every=0.1, compact_every=0.5),
    )
    landing.start()
    while True:
        time.sleep(60)
