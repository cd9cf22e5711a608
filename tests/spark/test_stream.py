"""Streams of journals with real Spark: every row once, through restarts, limits and losses."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader

from tests.interop.reference import eventually
from tests.rows import EPOCH, numbers
from tests.spark.conftest import Recorded
from zenspark.journal import Journal, Policy
from zenspark.journal.retention import trim
from zenspark.spark.progress import offsets_behind_latest

pytestmark = pytest.mark.spark


def stream(spark: SparkSession, *paths: Path, **options: object) -> DataStreamReader:
    source = spark.readStream.format("zenoh").option("journal", json.dumps([str(path) for path in paths]))
    return source.options(**options)  # type: ignore[arg-type]  # Spark's hint is narrow


class StreamSink:
    """A table of what a stream brings, and the checkpoint of the query."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.spark = spark
        self.table, self.checkpoint = str(path / "table"), str(path / "checkpoint")

    def start(self, source: DataStreamReader, **trigger: Any) -> StreamingQuery:  # noqa: ANN401 - one of several types
        writer = source.load().writeStream.format("parquet").option("checkpointLocation", self.checkpoint)
        return writer.trigger(**trigger).start(self.table)

    def run(self, source: DataStreamReader) -> StreamingQuery:
        """Ingests what there is."""
        query = self.start(source, availableNow=True)
        assert query.awaitTermination(120)
        return query

    def numbers(self) -> list[int]:
        return numbers(self.spark.read.parquet(self.table).collect())


@pytest.fixture
def sink(spark: SparkSession, tmp_path: Path) -> StreamSink:
    return StreamSink(spark, tmp_path)


def batch_sizes(query: StreamingQuery) -> list[int]:
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def test_restarted_query_continues_at_its_checkpoint(spark: SparkSession, recorded: Recorded, sink: StreamSink) -> None:
    path = recorded(500)
    sink.run(stream(spark, path))
    assert sink.numbers() == list(range(500))
    recorded(250, first=500)
    sink.run(stream(spark, path))
    assert sink.numbers() == list(range(750))


def test_a_running_query_follows_a_journal(spark: SparkSession, recorded: Recorded, sink: StreamSink) -> None:
    path = recorded(100)
    query = sink.start(stream(spark, path), processingTime="100 milliseconds")
    try:
        assert eventually(lambda: sum(batch_sizes(query)) == 100)
        recorded(100, first=100)
        assert eventually(lambda: sum(batch_sizes(query)) == 200)
        assert json.loads(query.recentProgress[-1].sources[0].latestOffset) == {"robot": 200}
        assert offsets_behind_latest(query.lastProgress)["maxOffsetsBehindLatest"] == 0
    finally:
        query.stop()
    assert sink.numbers() == list(range(200))


def test_a_batch_has_at_most_as_many_rows_as_allowed(spark: SparkSession, recorded: Recorded, sink: StreamSink) -> None:
    paths = [recorded(300), recorded(100, name="other", first=1000)]
    query = sink.run(stream(spark, *paths, maxOffsetsPerTrigger=150))
    assert batch_sizes(query) == [150, 150, 100]
    behind = [offsets_behind_latest(progress) for progress in query.recentProgress if progress.numInputRows]
    assert [each["avgOffsetsBehindLatest"] for each in behind] == [125, 50, 0]
    assert sink.numbers() == [*range(300), *range(1000, 1100)]


def test_a_batch_has_at_most_as_many_bytes_as_allowed(
    spark: SparkSession, recorded: Recorded, sink: StreamSink
) -> None:
    path = recorded(500)
    most = Journal(path).size(0, 200)
    query = sink.run(stream(spark, path, maxBytesPerTrigger=most))
    sizes = batch_sizes(query)
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    assert sizes[0] == 200
    assert all(Journal(path).size(*each) <= most for each in pairwise([0, *ends]))
    assert sink.numbers() == list(range(500))


def test_starting_offsets_and_timestamp_apply_to_a_new_query(
    spark: SparkSession, recorded: Recorded, tmp_path: Path
) -> None:
    path = recorded(300)
    starts: list[dict[str, object]] = [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"robot": 120}'},
        {"startingTimestamp": EPOCH // 1000 + 200},
    ]
    sinks = [StreamSink(spark, tmp_path / f"sink{place}") for place in range(len(starts))]
    for each, options in zip(sinks, starts, strict=True):
        each.run(stream(spark, path, **options))
    recorded(10, first=300)
    for each, options in zip(sinks, starts, strict=True):
        each.run(stream(spark, path, **options))
    assert [each.numbers() for each in sinks] == [
        list(range(300, 310)),
        list(range(120, 310)),
        list(range(200, 310)),
    ]


def test_a_recorder_that_joins_is_read_from_its_beginning(
    spark: SparkSession, recorded: Recorded, sink: StreamSink
) -> None:
    path = recorded(100)
    sink.run(stream(spark, path))
    other = recorded(50, name="other", first=1000)
    recorded(10, first=100)
    sink.run(stream(spark, path, other))
    assert sink.numbers() == [*range(110), *range(1000, 1050)]


def test_last_batch_is_committed_to_the_journal(spark: SparkSession, recorded: Recorded, sink: StreamSink) -> None:
    path = recorded(300)
    sink.run(stream(spark, path, reader="ingester", maxOffsetsPerTrigger=100))
    assert Journal(path).readers() == {"ingester": 300}


def test_a_query_with_other_options_is_still_the_same_reader(
    spark: SparkSession, recorded: Recorded, sink: StreamSink
) -> None:
    path = recorded(300)
    sink.run(stream(spark, path, maxOffsetsPerTrigger=100))
    (reader,) = Journal(path).readers()
    recorded(100, first=300)
    sink.run(stream(spark, path, maxOffsetsPerTrigger=1000, minPartitions=2))
    assert Journal(path).readers() == {reader: 400}


def test_rows_that_were_trimmed_unread_end_the_query_or_are_left_out(
    spark: SparkSession, recorded: Recorded, sink: StreamSink
) -> None:
    path = recorded(100)
    sink.run(stream(spark, path))
    recorded(300, first=100, policy=Policy(segment_bytes=1))
    trim(path, Policy(retain_bytes=1, trim_unread=True), 0.0)
    assert Journal(path).earliest() == 300
    with pytest.raises(PySparkException, match=r"offset 100 was trimmed away.* with failOnDataLoss=false"):
        sink.run(stream(spark, path))
    sink.run(stream(spark, path, failOnDataLoss=False))
    assert sink.numbers() == [*range(100), *range(300, 400)]


def test_a_journal_keeps_what_a_query_has_not_read(spark: SparkSession, recorded: Recorded, sink: StreamSink) -> None:
    path = recorded(100, policy=Policy(segment_bytes=1))
    sink.run(stream(spark, path, startingOffsets='{"robot": 50}', reader="ingester"))
    recorded(300, first=100, policy=Policy(segment_bytes=1, retain_bytes=1))
    trim(path, Policy(retain_bytes=1), 0.0)
    assert Journal(path).earliest() <= 100
    sink.run(stream(spark, path, startingOffsets='{"robot": 50}', reader="ingester"))
    assert sink.numbers() == list(range(50, 400))


def test_a_journal_that_is_gone_is_named(spark: SparkSession, recorded: Recorded, sink: StreamSink) -> None:
    paths = [recorded(10), recorded(10, name="other", first=1000)]
    sink.run(stream(spark, *paths))
    with pytest.raises(PySparkException, match="the query has read from recorder 'other'"):
        sink.run(stream(spark, paths[0]))
    sink.run(stream(spark, paths[0], failOnDataLoss=False))
    assert sink.numbers() == [*range(10), *range(1000, 1010)]


def test_an_option_that_does_not_exist_is_named(spark: SparkSession, recorded: Recorded, sink: StreamSink) -> None:
    with pytest.raises(PySparkException, match="did you mean maxOffsetsPerTrigger"):
        sink.run(stream(spark, recorded(1), maxOffsetPerTrigger=5))
