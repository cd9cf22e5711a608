"""A landing in a process of its own: `python -m tests.spark.job JOURNAL LAKE MASTER`; it ends when its input ends."""

from __future__ import annotations

import sys

from zenspark.spark.engine import spark_session
from zenspark.spark.lake import Lake
from zenspark.spark.lake.landing import Landing
from zenspark.spark.lake.upkeep import Care

LONG_LIVED = {
    "spark.deploy.maxExecutorRetries": "-1",  # executors are killed here more often than a master puts up with,
    "spark.task.maxFailures": "100",  # and tasks with them
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
}


def main(journal: str, lake: str, master: str) -> None:
    """Land what the journal has, and what comes, until the input ends."""
    spark = spark_session(master, config=LONG_LIVED)
    care = Care(fold_every=0.5, compact_every=2.0)  # often, so that these are under way, too, when something is killed
    landing = Landing(spark, [journal], Lake(lake), trigger="200 milliseconds", care=care)
    landing.start()
    print("landing", flush=True)
    sys.stdin.read()
    landing.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
