"""Rows of Spark published to subscribers of real eclipse-zenoh and of ours."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_zenoh import activate
from tests.interop.reference import eventually, ours, reference, unused
from tests.rows import sample
from tests.spark.conftest import Recorded
from zenspark.api.open import open as open_session
from zenspark.types.sample import Sample

pytestmark = pytest.mark.spark


@contextmanager
def listening(key_expr: str) -> Iterator[tuple[str, list[Sample]]]:
    """A router with a subscriber. Yields its endpoint and the received samples."""
    endpoint, received, lock = unused(), list[Sample](), threading.Lock()

    def on_sample(sample: Sample) -> None:
        with lock:
            received.append(sample)

    with open_session(ours(mode="router", listen__endpoints=[endpoint])) as session:
        session.declare_subscriber(key_expr, on_sample)
        yield endpoint, received


def test_rows_reach_a_subscriber_of_eclipse_zenoh(spark: SparkSession) -> None:
    endpoint = unused()
    with reference(mode="router", listen__endpoints=[endpoint]) as router:
        router.execute("sub robots/**")
        rows = spark.createDataFrame(
            [(f"r{number}/name", f"robot {number}") for number in range(50)], "key string, payload string"
        )
        rows.write.format("zenoh").mode("append").options(connect=endpoint, keyPrefix="robots").save()
        received = sorted(router.line() for _ in range(50))
    assert received == sorted(f"received robots/r{number}/name robot {number}" for number in range(50))


def test_all_sample_columns_are_published(spark: SparkSession, recorded: Recorded) -> None:
    table = spark.read.format("zenoh").load(str(recorded(100)))
    with listening("fleet/**") as (endpoint, received):
        table.write.format("zenoh").mode("append").option("connect", endpoint).save()
        assert eventually(lambda: len(received) == 100)
    found = {each.source_info.source_sn: each for each in received if each.source_info is not None}
    for number, each in found.items():
        expected = sample(number)
        assert str(each.key_expr) == expected["key"]
        assert each.kind.name == expected["kind"]
        assert (each.payload.to_bytes() or None) == expected["payload"]
        assert (each.attachment.to_bytes() if each.attachment else None) == expected["attachment"]
        assert each.timestamp is not None
        assert each.timestamp.to_wire().ntp64 == expected["timestamp_ntp64"]
    assert sorted(found) == list(range(100))


def test_a_stream_publishes_with_an_identity_that_a_restart_repeats(
    spark: SparkSession, recorded: Recorded, tmp_path: Path
) -> None:
    path = recorded(60)
    with listening("copy/**") as (endpoint, received):
        rows = spark.readStream.format("zenoh").option("maxOffsetsPerTrigger", 20).load(str(path)).drop("attachment")
        sink = rows.writeStream.format("zenoh").options(connect=endpoint, keyPrefix="copy", identity="attachment")
        query = sink.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        assert eventually(lambda: len(received) == 60)
        (tmp_path / "c" / "commits" / "2").unlink()  # as if the driver had died before it noted the last batch
        (tmp_path / "c" / "commits" / ".2.crc").unlink(missing_ok=True)
        query = sink.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        assert eventually(lambda: len(received) == 80)
    identities = [(each.attachment.to_string(), each.payload.to_bytes()) for each in received if each.attachment]
    assert len(identities) == 80
    assert len(set(identities)) == 60  # repeated rows have the same identity
    assert {tuple(text.split("/")[1:2]) for text, _ in identities} == {("0",), ("1",), ("2",)}


def test_source_info_identities_are_unique_per_row(spark: SparkSession) -> None:
    rows = spark.range(100, numPartitions=2).selectExpr("concat('k/', id) key", "'x' payload")
    with listening("k/*") as (endpoint, received):
        rows.write.format("zenoh").mode("append").options(connect=endpoint, identity="sourceInfo").save()
        assert eventually(lambda: len(received) == 100)
    sources = {
        (str(each.source_info.source_id.zid), each.source_info.source_id.eid, each.source_info.source_sn)
        for each in received
        if each.source_info is not None
    }
    assert len(sources) == 100
    assert {eid for _, eid, _ in sources} == {0, 1}
    assert len({zid for zid, _, _ in sources}) == 1


@pytest.mark.parametrize(
    ("columns", "options", "complaint"),
    [
        ("'a' ky, 'x' payload", {}, "option keyColumn: the rows have no column 'key'; they have ky, payload"),
        ("'a' key, 'x' paylod", {}, "no sample has a column 'paylod': did you mean 'payload'?"),
        ("'a' key, 'x' payload", {"keyColum": "key"}, "did you mean keyColumn?"),
        ("'a//b' key, 'x' payload", {}, "row 0 of the task has the key 'a//b'"),
        ("'a' key, 'x' payload", {"priority": "urgent"}, "option priority: expected one of REAL_TIME"),
        ("'a' key, 'x' attachment", {"identity": "attachment"}, "sets the column 'attachment'"),
    ],
)
def test_invalid_rows_or_options_are_named_and_not_published(
    spark: SparkSession, columns: str, options: dict[str, str], complaint: str
) -> None:
    with listening("**") as (endpoint, received):
        rows = spark.range(3, numPartitions=1).selectExpr(*columns.split(", "))
        with pytest.raises(PySparkException) as caught:
            rows.write.format("zenoh").mode("append").options(connect=endpoint, **options).save()
        assert complaint in str(caught.value)
        assert not received


def test_a_thread_writes_once_its_session_is_active(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a", "x")], "key string, payload string")
    problems: list[BaseException] = []

    def write(endpoint: str) -> None:
        try:
            activate(spark)
            rows.write.format("zenoh").mode("append").option("connect", endpoint).save()
        except PySparkException as error:
            problems.append(error)

    with listening("a") as (endpoint, received):
        thread = threading.Thread(target=write, args=[endpoint])
        thread.start()
        thread.join()
        assert problems == []
        assert eventually(lambda: len(received) == 1)


def test_unreachable_endpoint_is_named(spark: SparkSession) -> None:
    endpoint = unused()
    rows = spark.range(1).selectExpr("'a' key", "'x' payload")
    with pytest.raises(PySparkException, match=f"{endpoint}: no session as client"):
        rows.write.format("zenoh").mode("append").option("connect", endpoint).save()


def test_overwriting_is_refused(spark: SparkSession) -> None:
    rows = spark.range(1).selectExpr("'a' key", "'x' payload")
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        rows.write.format("zenoh").mode("overwrite").option("connect", json.dumps([unused()])).save()
