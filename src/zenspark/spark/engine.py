"""SparkSession factory with the configuration that the pipeline needs."""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from zenspark.spark.java_home import java_home
from zenspark.spark.spark_home import spark_home

LOG4J_CONFIG = Path(__file__).with_name("log4j2.properties")

BASE_CONFIG = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # larger Arrow batches reduce the cost per row of Python functions; with large rows the byte limit applies
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
    # on a busy machine a Python worker may take longer than Spark's 15 s to get through its handshake
    "spark.python.authenticate.socketTimeout": "120s",
}
"""Configuration for every master."""

DRIVER_JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""JVM options for a driver that only runs Python tasks: it starts in 5.1 s instead of 7.1, and a small batch takes
0.30 s instead of 0.42 on two cores, because its code runs too briefly to benefit from optimizing compilation."""

MAX_LOCAL_TASK_ATTEMPTS = 4
"""Attempts per task, as on a cluster."""
LOCAL_CONFIG = {
    # one machine: a shuffle stays local, and starting a task costs more than processing its rows
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""Additional configuration where driver and executors run on one machine."""


def spark_session(
    master: str = "local[*]",
    app_name: str = "zenspark",
    config: Mapping[str, str] | None = None,
    java_options: str = "",
) -> SparkSession:
    """Start Spark, or return the existing session.

    Finds a Java first, and sets JAVA_HOME and the Python of the workers in the environment; also SPARK_HOME where the
    workers run on this machine.

    Args:
        master: Master URL of the cluster.
        app_name: Name of the application, which Spark's page shows.
        config: Spark configuration, which overrides the defaults; none by default.
        java_options: Options of the Java of the driver; none by default.

    Returns:
        The session.

    Raises:
        UsageError: There is no Java of version 17 or newer.

    Example:
        >>> spark = spark_session("local[2]")
    """
    # PySpark logs errors that it also raises, with the whole Java stack trace
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    os.environ["JAVA_HOME"] = str(java_home(os.environ))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master.startswith("local") and os.environ["PYSPARK_PYTHON"] == sys.executable:
        home = spark_home(os.environ, Path(pyspark.__path__[0]))
        if home is not None:
            os.environ["SPARK_HOME"] = str(home)
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in spark_config(master, config or {}, java_options).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def with_task_retries(master: str) -> str:
    """Return a local master that retries failed tasks as a cluster does: plain `local[2]` fails at once."""
    local = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    return master if local is None else f"local[{local[1] or 1},{MAX_LOCAL_TASK_ATTEMPTS}]"


def spark_config(master: str, config: Mapping[str, str], java_options: str = "") -> dict[str, str]:
    """Return the configuration for a master, overridden by the user's `config`."""
    chosen = dict(BASE_CONFIG)
    if master.startswith("local"):
        chosen |= LOCAL_CONFIG
    chosen["spark.driver.extraJavaOptions"] = (
        f"-Dlog4j2.configurationFile={LOG4J_CONFIG.as_uri()} {java_options}".strip()
    )
    chosen["spark.sql.warehouse.dir"] = Path(tempfile.gettempdir(), f"zenspark-warehouse-{os.getpid()}").as_uri()
    return chosen | dict(config)
