"""An ingest query in a separate process: `python -m tests.spark.job JOURNAL LAKE MASTER`; ends at end of file."""

from __future__ import annotations

import sys

from zenspark.lake.maintenance_config import MaintenanceConfig
from zenspark.spark.engine import DRIVER_JAVA_OPTIONS, spark_session
from zenspark.spark.ingest.ingest_query import IngestQuery
from zenspark.spark.lake import Lake

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
    """Ingest the rows of the journal, also new ones, until the input ends."""
    spark = spark_session(master, config=LONG_LIVED, java_options=DRIVER_JAVA_OPTIONS)
    # often, so that these are under way, too, when something is killed
    often = MaintenanceConfig(refresh_interval=0.5, compact_interval=2.0)
    ingestion = IngestQuery(spark, [journal], Lake(lake), trigger=0.2, maintenance=often)
    ingestion.start()
    print("ingesting", flush=True)
    sys.stdin.read()
    ingestion.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
