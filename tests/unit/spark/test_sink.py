from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from tests.interop.reference import eventually, ours, unused
from zenspark.api.open import open as open_session
from zenspark.api.session import Session
from zenspark.errors import LinkError, RowError, UsageError
from zenspark.spark.options import SinkOptions
from zenspark.spark.sink import BatchWriter, PublishingSession, StreamWriter, WriteResult, make_task_writer
from zenspark.types.sample import Sample

ENDPOINT = "tcp/127.0.0.1:1"


@contextmanager
def listening() -> Iterator[tuple[str, list[Sample], Session]]:
    endpoint, received = unused(), list[Sample]()
    with open_session(ours(mode="router", listen__endpoints=[endpoint])) as session:
        session.declare_subscriber("**", received.append)
        yield endpoint, received, session


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.record_batch(
        {"name": [f"n{number}" for number in numbers], "payload": [f"v{number}" for number in numbers]}
    )


def test_a_task_publishes_its_rows_and_counts_them() -> None:
    with listening() as (endpoint, received, _):
        options = SinkOptions.of(
            {"connect": endpoint, "keyColumn": "name", "keyPrefix": "a/b", "encoding": "text/plain"}
        )
        writer = pickle.loads(pickle.dumps(BatchWriter.of(options, ["name", "payload"], overwrite=False)))
        assert writer.write(iter([rows(0, 3), rows(3, 2)])) == WriteResult(rows=5, dropped=0)
        assert eventually(lambda: len(received) == 5)
    assert [(str(each.key_expr), each.payload.to_string(), str(each.encoding)) for each in received] == [
        (f"a/b/n{number}", f"v{number}", "text/plain") for number in range(5)
    ]


def test_a_row_that_cannot_be_published_is_named_by_its_number_in_the_task() -> None:
    bad = pa.record_batch({"name": ["a", "b//c"], "payload": ["x", "y"]})
    with listening() as (endpoint, received, _):
        writer = BatchWriter.of(SinkOptions.of({"connect": endpoint, "keyColumn": "name"}), ["name", "payload"], False)
        expected = "row 6 of the task has the key 'b//c'.*; the task had published the 5 rows of earlier batches"
        with pytest.raises(RowError, match=expected) as caught:
            writer.write(iter([rows(0, 3), rows(3, 2), bad]))
        assert eventually(lambda: len(received) == 5)
        assert caught.value.row == 6
        with pytest.raises(RowError, match=r"^row 1 of the task has the key 'b//c': [^;]*$"):
            writer.write(iter([bad]))


def test_results_of_tasks_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    options = SinkOptions.of({"connect": ENDPOINT})
    batch, stream = BatchWriter.of(options, ["key"], False), StreamWriter.of(options, ["key"])
    with caplog.at_level(logging.INFO, "zenspark.spark"):
        batch.commit([WriteResult(5, 0), WriteResult(2, 0)])
        stream.commit([WriteResult(5, 1)], 7)
        batch.abort([WriteResult(3, 0), None])
        stream.abort([None], 8)
    done = "rows published by"
    end = " deliveries dropped because of congestion"
    assert [(each.levelno, each.getMessage().removesuffix(end)) for each in caplog.records] == [
        (logging.INFO, f"write: 7 {done} 2 tasks, 0"),
        (logging.WARNING, f"batch 7: 5 {done} 1 tasks, 1"),
        (logging.WARNING, f"write failed: 3 {done} 1 tasks, 0"),
        (logging.WARNING, f"batch 8 failed: 0 {done} 0 tasks, 0"),
    ]


def identities(options: dict[str, str], batch: pa.RecordBatch) -> list[Sample]:
    """Publish rows twice by the same writer. Returns the received samples."""
    with listening() as (endpoint, received, _):
        writer = StreamWriter.of(SinkOptions.of({"connect": endpoint, **options}), batch.schema.names)
        for _ in range(2):
            writer.write(iter([batch]))
        assert eventually(lambda: len(received) == 2 * batch.num_rows)
    return received


def test_repeated_write_has_the_same_identities() -> None:
    batch = rows(0, 3).rename_columns(["key", "payload"])
    received = identities({"identity": "attachment"}, batch)
    texts = [each.attachment.to_string() for each in received if each.attachment]
    assert texts[:3] == texts[3:]
    assert [text.split("/")[1:] for text in texts[:3]] == [["0", "0", "0"], ["0", "0", "1"], ["0", "0", "2"]]
    received = identities({"identity": "sourceInfo"}, batch)
    sources = [each.source_info for each in received]
    assert sources[:3] == sources[3:]
    assert [each.source_sn for each in sources[:3] if each] == [0, 1, 2]


def test_identity_column_is_published_as_attachment() -> None:
    batch = rows(0, 2).rename_columns(["key", "payload"]).append_column("id", pa.array(["x", "y"]))
    received = identities({"identity": "attachment", "identityColumn": "id"}, batch)
    assert [each.attachment.to_string() for each in received if each.attachment] == ["x", "y", "x", "y"]


@pytest.mark.parametrize(
    ("given", "columns", "complaint"),
    [
        ({}, ["payload"], "option keyColumn: the rows have no column 'key'"),
        ({"keyColumn": "name"}, ["name", "key"], "the rows have a column 'key', too"),
        ({}, ["key", "paylaod"], "no sample has a column 'paylaod': did you mean 'payload'?"),
        ({}, ["key", "zzz"], "no sample has a column 'zzz': there are key, kind"),
        ({"identity": "sourceInfo"}, ["key", "source_sn"], "identity=sourceInfo sets the column 'source_sn'"),
        (
            {"identity": "attachment", "identityColumn": "id"},
            ["key"],
            "option identityColumn: the rows have no column 'id'",
        ),
    ],
)
def test_unsupported_columns_are_rejected_before_publishing(
    given: dict[str, str], columns: list[str], complaint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        make_task_writer(SinkOptions.of({"connect": ENDPOINT, **given}), columns)
    assert complaint in str(caught.value)


def test_journal_columns_are_not_published_and_overwrite_is_rejected() -> None:
    options = SinkOptions.of({"connect": ENDPOINT})
    make_task_writer(options, ["key", "payload", "recorder", "offset"])
    with pytest.raises(UsageError, match="cannot be overwritten"):
        BatchWriter.of(options, ["key"], overwrite=True)


def test_a_connection_that_is_lost_fails_the_task() -> None:
    with (
        listening() as (endpoint, _, node),
        PublishingSession(SinkOptions(connect=(endpoint,), timeout=5.0)) as session,
    ):
        session.publish(rows(0, 1).rename_columns(["key", "payload"]))
        session.finish()
        lost = threading.Event()
        session._session.info.declare_transport_events_listener(lambda _: lost.set())
        node.close()
        assert lost.wait(10)
        with pytest.raises(LinkError, match="what was published may not have arrived"):
            session.finish()
