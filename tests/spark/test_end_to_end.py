"""A million publications of eclipse-zenoh into tables by one command, and replies to its client's queries from them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.interop.reference import unused
from tests.spark import fleet
from tests.spark.crash_load import TIMEOUT_SECONDS, wait_for
from zenspark.spark.lake import Lake

zenoh = pytest.importorskip("zenoh")

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.nightly]

ROWS = 1_000_000


@contextlib.contextmanager
def up(lake: Path, locator: str) -> Iterator[None]:
    """The whole pipeline in a process of its own; at the end it is interrupted, and ingests what it received."""
    command = [
        sys.executable,
        "-m",
        "zenspark",
        "up",
        "--lake",
        str(lake),
        "--listen",
        locator,
        "--no-multicast-scouting",
        "--stop-timeout",
        f"{TIMEOUT_SECONDS}s",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        assert process.stdout is not None
        while "listens on" not in (line := process.stdout.readline()):
            assert line, "it ended"
        yield
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=TIMEOUT_SECONDS)[0]
        assert process.returncode == 0, output
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def client(locator: str) -> Iterator[Any]:
    """A session of eclipse-zenoh."""
    config = zenoh.Config()
    config.insert_json5("mode", '"client"')
    config.insert_json5("connect/endpoints", f'["{locator}"]')
    config.insert_json5("scouting/multicast/enabled", "false")
    with zenoh.open(config) as session:
        yield session


def replies(session: Any, selector: str) -> list[tuple[object, ...]]:  # noqa: ANN401 - eclipse-zenoh's
    """What a query gets: key, kind, payload, encoding, attachment and time of every sample."""
    found = []
    for reply in session.get(selector, timeout=60):
        sample = reply.ok
        assert sample is not None, reply.err.payload.to_string()
        note = sample.attachment and sample.attachment.to_bytes()
        ticks = round(sample.timestamp.get_time_as_ntp64().as_secs_f64() * fleet.TICKS)
        what = str(sample.kind).rsplit(".", 1)[-1], sample.payload.to_bytes(), str(sample.encoding)
        found.append((str(sample.key_expr), *what, note or b"", ticks))
    return sorted(found)


def expected(number: int) -> tuple[object, ...]:
    """The fields of a reply with this sample."""
    ticks = fleet.BEGAN // (1 << 32) * fleet.TICKS + number
    what = ("PUT", fleet.payload(number), fleet.encoding(number))
    if fleet.is_delete(number):
        what = ("DELETE", b"", "zenoh/bytes")
    return fleet.key(number), *what, fleet.attachment(number) or b"", ticks


def test_million_publications_are_ingested_and_queryable(tmp_path: Path, spark: SparkSession) -> None:
    place, lake = unused(), tmp_path / "lake"
    newest = fleet.newest(ROWS)
    with up(lake, place):
        subprocess.run(
            [sys.executable, "-m", "tests.spark.fleet", place, "0", str(ROWS)], check=True, timeout=TIMEOUT_SECONDS
        )
        wait_for(lambda: sum(Lake(lake).ingested().values()) >= ROWS, "not all rows are ingested")
        with client(place) as session:
            wait_for(lambda: len(replies(session, "fleet/**")) == len(newest), "the storage is behind")
            assert replies(session, "fleet/**") == sorted(expected(number) for number in newest.values())
            name = fleet.key(123)
            assert replies(session, name) == [expected(newest[name])]
            numbers = [number for number in range(ROWS) if fleet.key(number) == name]
            assert replies(session, f"{name}?_time=[..]") == sorted(expected(number) for number in numbers)
            few = "_time=[2023-11-14T22:13:20Z..2023-11-14T22:13:30Z["
            first = sorted(expected(number) for number in range(10 * fleet.TICKS))
            assert replies(session, f"fleet/**?{few}") == first
    assert_samples(lake)
    assert_latest(lake, spark, newest)


def assert_samples(lake: Path) -> None:
    """Row by row what was sent, nothing missing, nothing twice."""
    rows = Lake(lake).dataset("samples").to_table(columns=[*fleet.COLUMNS, "source_zid"]).sort_by("source_sn")
    assert rows.num_rows == ROWS
    sent = fleet.table(0, ROWS)
    for name in fleet.COLUMNS:
        assert (
            rows.column(name).cast(sent.schema.field(name).type).combine_chunks() == sent.column(name).combine_chunks()
        ), name
    assert pa.compute.unique(rows.column("source_zid")).to_pylist() == [fleet.SOURCE]


def assert_latest(lake: Path, spark: SparkSession, newest: dict[str, int]) -> None:
    """The newest of every key, and no key that was deleted."""
    rows = Lake(lake).read(spark, "latest").select("key", "payload", "source_sn").collect()
    assert len(rows) == len(newest)
    assert {row.key: (bytes(row.payload), row.source_sn) for row in rows} == {
        name: (fleet.payload(number), number) for name, number in newest.items()
    }
