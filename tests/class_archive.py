"""Java options for every Spark that tests start: for little processor time at the start, because tests start dozens.

They name an archive of the classes that Spark loads (class data sharing), which halves it. `make classes` writes that.
A Java that cannot use it, of another version for instance, starts without it.
"""

from __future__ import annotations

import os
from pathlib import Path

ARCHIVE = Path(__file__).parents[1] / "build" / "spark-classes.jsa"
BRIEF = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For a Java that runs too briefly to benefit from optimizing compilation."""


def submit_arguments(option: str) -> str:
    """Return PYSPARK_SUBMIT_ARGS that give an option to the Java of drivers and executors."""
    names = ("spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions")
    return " ".join([*(f'--conf "{name}={option} {BRIEF} -Xlog:disable"' for name in names), "pyspark-shell"])


def share() -> None:
    """Let every Spark that this process and its children start use the archive, if there is one."""
    if ARCHIVE.exists():
        option = f"-XX:SharedArchiveFile={ARCHIVE}"
        os.environ.setdefault("PYSPARK_SUBMIT_ARGS", submit_arguments(option))
        os.environ.setdefault("SPARK_DAEMON_JAVA_OPTS", f"{option} {BRIEF} -Xlog:disable")  # masters and workers
