"""A stream that records by itself, fed by real eclipse-zenoh."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from tests.interop.reference import eventually, ours, reference, unused
from tests.spark.test_stream import StreamSink, sink
from zenspark.api.open import open as open_session
from zenspark.journal import Journal
from zenspark.types.query import Query

pytestmark = pytest.mark.spark
__all__ = ["sink"]


def recording(spark: SparkSession, path: Path, **options: str) -> DataStreamReader:
    return spark.readStream.format("zenoh").options(journal=str(path), subscribe='["a/**", "b/*"]', **options)


def payloads(sink: StreamSink) -> list[bytes]:
    return sorted(bytes(row["payload"]) for row in sink.spark.read.parquet(sink.table).collect())


def test_publications_of_eclipse_zenoh_are_recorded_and_ingested(
    spark: SparkSession, sink: StreamSink, tmp_path: Path
) -> None:
    endpoint, journal = unused(), tmp_path / "journal"
    with reference(mode="router", listen__endpoints=[endpoint]) as router:
        query = sink.start(recording(spark, journal, connect=endpoint), processingTime="100 milliseconds")
        try:
            assert eventually(lambda: (journal / "journal.json").exists())

            def has_arrived() -> bool:  # publications before the subscriber is declared are lost
                router.execute("put a/first hello")
                return Journal(journal).latest() > 0

            assert eventually(has_arrived)
            for number in range(20):
                router.execute(f"put a/{number} value{number}")
                router.execute(f"put b/{number} other{number}")
                router.execute(f"put c/{number} nobody")
            assert eventually(lambda: sum(each.numInputRows for each in query.recentProgress) >= 41)
        finally:
            query.stop()
    found = [each for each in payloads(sink) if each != b"hello"]
    assert found == sorted(f"{what}{number}".encode() for what in ("value", "other") for number in range(20))


def test_restarted_query_records_into_the_same_journal_and_backfills(
    spark: SparkSession, sink: StreamSink, tmp_path: Path
) -> None:
    endpoint, journal = unused(), tmp_path / "journal"
    parameters: list[str] = []
    with open_session(ours(mode="router", listen__endpoints=[endpoint])) as session:

        def on_query(query: Query) -> None:
            parameters.append(str(query.parameters))
            query.reply(
                "a/missed", f"missed {len(parameters)}", timestamp=session.new_timestamp(), encoding="text/plain"
            )

        session.declare_queryable("a/**", on_query)
        source = recording(spark, journal, connect=endpoint, backfill="now(-1h)", reader="r")
        for run in range(2):
            query = sink.start(source, processingTime="100 milliseconds")
            try:
                assert eventually(lambda run=run: sum(each.numInputRows for each in query.recentProgress) > 0)  # type: ignore[misc]  # noqa: B023
                assert len(parameters) == run + 1
            finally:
                query.stop()
    assert payloads(sink) == [b"missed 1", b"missed 2"]
    assert parameters[0] == "_time=[now(-1h)..]"
    assert parameters[1].startswith("_time=[20")


def test_unreachable_endpoint_is_named(spark: SparkSession, sink: StreamSink, tmp_path: Path) -> None:
    endpoint = unused()
    query = sink.start(recording(spark, tmp_path / "journal", connect=endpoint), availableNow=True)
    with pytest.raises(PySparkException, match=f"{endpoint}: no session as client"):
        query.awaitTermination(60)
