"""A standalone Spark master with two workers on loopback, and the journal in a directory all of them reach.

Executors run the Python of an archive that Spark ships to them, as docs/spark.md describes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sysconfig
import tarfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

import pyspark_zenoh
import zenspark
from tests.interop.reference import unused
from tests.spark.crash_load import assert_equal, fill, finish, job, wait_for
from zenspark.journal import Journal
from zenspark.spark.java_home import java_home

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

ROWS = 400_000
"""Enough for several tasks in a batch."""


class Daemon:
    """A Spark master or worker, and its output."""

    def __init__(self, stack: contextlib.ExitStack, log: Path, *command: str) -> None:
        self.log = log
        home = pyspark.__path__[0]
        environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "SPARK_HOME": home,
            "JAVA_HOME": str(java_home(os.environ)),
            "SPARK_DAEMON_MEMORY": "256m",
        }
        with log.open("w") as out:
            process = subprocess.Popen(
                [Path(home, "bin", "spark-class"), *command], env=environment, stdout=out, stderr=subprocess.STDOUT
            )
        stack.callback(process.wait)
        stack.callback(process.kill)

    def wait_for(self, words: str, times: int = 1) -> None:
        """Wait until a text has been printed so many times."""
        wait_for(lambda: self.log.read_text().count(words) >= times, f"{self.log.name} does not contain {words!r}")


@contextlib.contextmanager
def cluster(directory: Path) -> Iterator[str]:
    """A master and two workers of one core; the master's address."""
    port = unused().rsplit(":", 1)[1]
    place = ["--host", "127.0.0.1", "--webui-port", "0"]
    with contextlib.ExitStack() as stack:
        package = "org.apache.spark.deploy"
        master = Daemon(stack, directory / "master.log", f"{package}.master.Master", *place, "--port", port)
        master.wait_for("I have been elected leader")
        address = f"spark://127.0.0.1:{port}"
        for name in ("one", "two"):
            size = ["--cores", "1", "--memory", "1g", "--work-dir", str(directory / name)]
            Daemon(stack, directory / f"{name}.log", f"{package}.worker.Worker", *place, *size, address)
        master.wait_for("Registering worker", times=2)
        yield address


def tasks(directory: Path) -> int:
    """How many tasks the executors of a worker finished."""
    return sum(file.read_text().count("Finished task") for file in directory.glob("app-*/*/stderr"))


def packed(directory: Path) -> Path:
    """An archive of an environment with zenspark in it; what it depends on is found where it is installed here."""
    environment = directory / "environment"
    venv.create(environment, symlinks=True)
    names = {"base": str(environment), "platbase": str(environment)}
    packages = Path(sysconfig.get_path("purelib", "venv", names))
    for package in (zenspark, pyspark_zenoh):
        source = Path(package.__path__[0])
        shutil.copytree(source, packages / source.name, ignore=shutil.ignore_patterns("__pycache__", "*.c"))
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    archive = directory / "environment.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as file:
        file.add(environment, arcname=".")
    return archive


def test_two_workers_ingest_a_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, lake = tmp_path / "journal", tmp_path / "lake"
    fill(journal, ROWS)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(f"spark.archives {packed(tmp_path)}#environment\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    with cluster(tmp_path) as master, job(journal, lake, master) as process:
        assert finish(process) == 0
    assert assert_equal(journal, lake) == Journal(journal).latest() == ROWS
    for worker in ("one", "two"):
        assert tasks(tmp_path / worker)
        assert list((tmp_path / worker).glob("app-*/*/environment/bin/python"))
