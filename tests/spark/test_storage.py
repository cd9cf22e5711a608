"""A storage over a lake filled by Spark: the same replies before and after rows are ingested, and after a restart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import zenspark
from tests.interop.reference import ours
from tests.optional import some
from tests.unit.storage.made import row
from tests.unit.storage.tables import append
from zenspark.api.session import Session
from zenspark.journal import JournalWriter
from zenspark.spark.ingest.ingest_query import IngestQuery
from zenspark.spark.lake import Lake
from zenspark.storage import Storage

pytestmark = pytest.mark.spark

NOW = float(int(time.time()))


@pytest.fixture
def session() -> Iterator[Session]:
    with zenspark.open(ours(mode="peer")) as session:
        yield session


def ingest(spark: SparkSession, lake: Lake, journal: Path) -> None:
    ingestion = IngestQuery(spark, [journal], lake, trigger=None)
    ingestion.start()
    ingestion.wait()
    ingestion.stop()


def replies(session: Session) -> dict[str, list[Any]]:
    found = {}
    for selector in ("**", "a/1", "a/1?_time=[..]", "**?_time=[now(-1d)..];_limit=1", "b/**?_time=[..now(-1h)[", "c/*"):
        samples = [reply.ok for reply in session.get(selector, timeout=60)]
        found[selector] = sorted(
            (
                str(some(ok).key_expr),
                str(some(ok).kind),
                some(ok).payload.to_string(),
                str(some(ok).timestamp),
                str(some(ok).encoding),
            )
            for ok in samples
        )
    return found


def test_replies_are_the_same_before_and_after_ingestion(spark: SparkSession, session: Session, tmp_path: Path) -> None:
    journal, lake = tmp_path / "journal", Lake(tmp_path / "lake")
    first = [
        row("a/1", b"1", NOW - 7200, encoding="text/plain"),
        row("a/1", b"2", NOW - 60),
        row("b/1", b"3", NOW - 4000),
        row("c/1", b"4", NOW - 50),
        row("c/2", b"5", NOW - 50),
    ]
    then = [
        row("a/1", b"late", NOW - 100),
        row("c/1", None, NOW - 40),
        row("b/2", b"6", received=NOW - 30),
        row("c/*", None, NOW - 20),
    ]
    last = [row("c/3", b"older than the DEL", NOW - 25), row("a/2", b"7", NOW - 10), row("c/1", b"8", NOW - 5)]
    with JournalWriter(journal, recorder="r") as writer:
        append(writer, first)
        with Storage(session, "**", lake, [journal]) as running:
            append(writer, then)
            append(writer, last)
            assert running.caught_up()
            wanted = replies(session)
            assert [each[:3:2] for each in wanted["**"]] == [
                ("a/1", "2"),
                ("a/2", "7"),
                ("b/1", "3"),
                ("b/2", "6"),
                ("c/1", "8"),
            ]
            assert [each[2] for each in wanted["a/1?_time=[..]"]] == ["1", "2", "late"]
            assert [each[:3:2] for each in wanted["b/**?_time=[..now(-1h)["]] == [("b/1", "3")]
            ingest(spark, lake, journal)
            assert replies(session) == wanted
        with Storage(session, "**", lake, [journal]):
            assert replies(session) == wanted
        lake.refresh(spark)
        with Storage(session, "**", lake, [journal]) as again:
            assert replies(session) == wanted
            append(writer, [row("c/9", b"older than the DEL", NOW - 21)])
            assert again.caught_up()
            assert list(session.get("c/9", timeout=60)) == []
