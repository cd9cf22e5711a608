"""A small lake with every table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.lake_samples import numbered
from tests.lake_tables import put_in
from zenspark.lake.delta_table import Transaction
from zenspark.lake.lake import Lake
from zenspark.sql import Engine

EVENTS = {"sessions": 2, "declarations": 3}
"""Rows of the tables of the network."""


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(tmp_path_factory.mktemp("sql") / "lake's")
    lake.create()
    put_in(lake, numbered([{"key": f"fleet/r{number % 3}/pose"} for number in range(30)], 0, "robot"))
    for name, count in EVENTS.items():
        table = lake.table(name)
        rows = pa.table([pa.nulls(count, column.type) for column in table.spec.schema], schema=table.spec.schema)
        table.commit(Transaction(add=table.write(rows, "events")))
    return lake


@pytest.fixture(scope="session")
def engine(lake: Lake) -> Engine:
    return Engine(lake)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that is not in the lake."""
    path = tmp_path / "secret.csv"
    path.write_text("name,word\nadmin,xyzzy\n")
    return path
