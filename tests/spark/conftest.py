"""One Spark for all tests of this folder, and journals to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.rows import samples
from zenspark.journal import JournalWriter, Policy
from zenspark.spark.engine import DRIVER_JAVA_OPTIONS, spark_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, and what users get from `spark_session`, with the Java options of the ingest process."""
    config = {
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        # hundreds of small queries: compiling each would cost more than a third of the processor time of all
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    session = spark_session("local[2]", config=config, java_options=DRIVER_JAVA_OPTIONS)
    yield session
    session.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several processes share the tests, those that need the Spark of their process are for two of them.

    Tests of the lake are one half, all others are the other: each half starts Spark once.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            is_lake = item.path.name.startswith("test_lake") or item.path.parent.name == "world"
            item.add_marker(pytest.mark.xdist_group("lake" if is_lake else "spark"))


Recorded = Callable[..., Path]


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    """Makes a journal of so many rows, as blocks of so many; or adds to it."""

    def record(
        rows: int, *, name: str = "robot", block: int = 100, first: int = 0, policy: Policy | None = None
    ) -> Path:
        path = tmp_path / f"journal-{name}"
        with JournalWriter(path, policy, recorder=name) as writer:
            for start in range(first, first + rows, block):
                writer.append(samples(start, min(start + block, first + rows)))
                writer.flush()
        return path

    return record
