"""A SparkSession with what the pipeline needs, and nothing that a newcomer has to know first."""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from zenspark.spark.java_home import java_home

LOGGING = Path(__file__).with_name("log4j2.properties")

SETTINGS = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # larger Arrow batches cost a Python function less per row; with large rows the limit in bytes counts
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
    # on a busy machine a Python worker may take longer than Spark's 15 s to get through its handshake
    "spark.python.authenticate.socketTimeout": "120s",
}
"""What holds on every master."""

DRIVING_JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For a Java that only drives tasks in Python: it starts in 5.1 s instead of 7.1, and a small batch takes 0.30 s
instead of 0.42 on two cores, because what it does is too little to be worth compiling well."""

LOCAL_TASK_TRIES = 4
"""As often as a cluster tries a task."""
LOCAL_SETTINGS = {
    # one machine: what is shuffled does not leave it, and each task costs more than the rows it has
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""What holds besides where driver and executors are one process or on one machine."""


def spark_session(
    master: str = "local[*]",
    app_name: str = "zenspark",
    config: Mapping[str, str] | None = None,
    java_options: str = "",
) -> SparkSession:
    """Starts Spark, or hands over the session there is; `config` has the last word.

    Finds a Java first and names this Python as that of the workers, in the environment, where Spark looks for both.
    """
    # pyspark logs what it also raises, with all of Java's stack
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    os.environ["JAVA_HOME"] = str(java_home(os.environ))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in settings(master, config or {}, java_options).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def retrying_master(master: str) -> str:
    """A local master that tries a task again which failed, as a cluster does: by itself `local[2]` gives up at once."""
    local = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    return master if local is None else f"local[{local[1] or 1},{LOCAL_TASK_TRIES}]"


def settings(master: str, config: Mapping[str, str], java_options: str = "") -> dict[str, str]:
    """The configuration for a master, with what a user gave in place of ours."""
    chosen = dict(SETTINGS)
    if master.startswith("local"):
        chosen |= LOCAL_SETTINGS
    chosen["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={LOGGING.as_uri()} {java_options}".strip()
    chosen["spark.sql.warehouse.dir"] = Path(tempfile.gettempdir(), f"zenspark-warehouse-{os.getpid()}").as_uri()
    return chosen | dict(config)
