"""Record batches as publications: what is taken, what is refused and in which words, and the messages it becomes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from zenspark.arrow.encode import fill_timestamps, ntp64_from_microseconds, split_by_qos, to_wire_rows, validate_batch
from zenspark.errors import UsageError
from zenspark.wire.messages import Del, Push, Put
from zenspark.wire.values import (
    Congestion,
    Encoding,
    Priority,
    QoS,
    SourceInfo,
    Timestamp,
    WireExpr,
    ZenohId,
)

CLOCK = ZenohId(0xABC)
OTHER = ZenohId(0xDEF0)
URGENT = QoS(Priority.REAL_TIME, Congestion.BLOCK, True)
KEY = WireExpr(3)


def batch(**columns: Any) -> pa.RecordBatch:  # noqa: ANN401
    return pa.record_batch(columns)


def pushes(given: pa.RecordBatch, key: WireExpr | None = None, **others: Any) -> list[Push]:  # noqa: ANN401
    rows = to_wire_rows(validate_batch(given, CLOCK), key, **others)
    return [rows.push(row) for row in range(rows.count)]


# -- what it becomes -----------------------------------------------------------------------------------------------


def test_batch_with_payloads_only_uses_the_given_key() -> None:
    found = pushes(batch(payload=[b"1", b"", b"333"]), KEY)
    assert found == [Push(wire_expr=KEY, body=Put(payload=payload)) for payload in (b"1", b"", b"333")]


def test_every_column_becomes_its_message_field() -> None:
    given = batch(
        key=["a", "é/b", "c"],
        kind=["PUT", None, "DELETE"],
        payload=[b"1", b"2", None],
        encoding=["text/plain;utf-8", None, None],
        timestamp_ntp64=pa.array([7386664595088445305, None, -1], pa.int64()),
        timestamp_id=["abc", None, None],
        attachment=[b"", None, b"why"],
        source_zid=[None, "def0", "def0"],
        source_eid=[None, 4, 2**32 - 1],
        source_sn=[None, 5, 0],
    )
    first, second, third = pushes(given, qos=URGENT, encoding=Encoding(5))
    assert first == Push(
        wire_expr=WireExpr(0, "a"),
        qos=URGENT,
        body=Put(
            timestamp=Timestamp(7386664595088445305, CLOCK),
            encoding=Encoding(4, "utf-8"),
            attachment=b"",
            payload=b"1",
        ),
    )
    body = Put(encoding=Encoding(5), source_info=SourceInfo(OTHER, 4, 5), payload=b"2")
    assert second == Push(wire_expr=WireExpr(0, "é/b"), qos=URGENT, body=body)
    assert third.body == Del(
        timestamp=Timestamp(2**64 - 1, CLOCK), source_info=SourceInfo(OTHER, 2**32 - 1, 0), attachment=b"why"
    )


def test_the_encoding_given_is_that_of_rows_without_one() -> None:
    (plain,) = pushes(batch(payload=[b"1"]), KEY, encoding=Encoding(4))
    assert isinstance(plain.body, Put)
    assert plain.body.encoding == Encoding(4)
    (named,) = pushes(batch(payload=[b"1"], encoding=["zenoh/bytes"]), KEY, encoding=Encoding(4))
    assert isinstance(named.body, Put)
    assert named.body.encoding == Encoding.BYTES


@pytest.mark.parametrize(
    "kind", [pa.large_binary(), pa.binary_view(), pa.string(), pa.large_string(), pa.string_view(), pa.binary(2)]
)
def test_other_binary_and_string_types_are_accepted_as_payload(kind: pa.DataType) -> None:
    values = pa.array([b"ab", b"cd", None], pa.binary()).cast(pa.binary(2) if kind == pa.binary(2) else pa.string())
    given = batch(payload=values.cast(kind), kind=["PUT", "PUT", "DELETE"])
    bodies = [push.body for push in pushes(given, KEY)]
    assert bodies == [Put(payload=b"ab"), Put(payload=b"cd"), Del()]


@pytest.mark.parametrize("name", ["key", "encoding", "timestamp_id"])
def test_dictionary_encoded_columns_equal_plain_ones(name: str) -> None:
    texts = {"key": ["a", "b", "a"], "encoding": ["text/plain"] * 3, "timestamp_id": ["1", "2", "1"]}
    given = {**texts, "payload": [b"1", b"2", b"3"], "timestamp_ntp64": [1, 2, 3]}
    assert pushes(batch(**given | {name: pa.array(texts[name]).dictionary_encode()})) == pushes(batch(**given))


def test_slice_of_a_batch_becomes_only_its_rows() -> None:
    whole = batch(
        key=[f"k/{number}" for number in range(20)],
        kind=["DELETE" if number % 3 == 0 else "PUT" for number in range(20)],
        payload=[None if number % 3 == 0 else b"%d" % number for number in range(20)],
        attachment=[b"a%d" % number if number % 2 else None for number in range(20)],
        timestamp_ntp64=pa.array([number or None for number in range(20)], pa.int64()),
        source_zid=["f" if number % 5 else None for number in range(20)],
        source_sn=list(range(20)),
    )
    assert pushes(whole[7:15]) == pushes(whole)[7:15]


def test_receive_only_columns_are_not_sent() -> None:
    given = batch(payload=[b"1"], received_at=[datetime.now(UTC)], via=["somebody"])
    assert validate_batch(given, CLOCK).schema.names == ["payload"]


# -- time ----------------------------------------------------------------------------------------------------------


def test_timestamp_column_becomes_an_ntp64_of_the_given_clock() -> None:
    given = batch(payload=[b"1", b"2"], timestamp=[datetime(2024, 7, 1, 13, 51, 12, 500_000, tzinfo=UTC), None])
    first, second = pushes(given, KEY)
    assert first.body.timestamp == Timestamp(1719841872 << 32 | 1 << 31, CLOCK)
    assert second.body.timestamp is None


def test_timestamp_ntp64_takes_precedence_over_timestamp() -> None:
    given = batch(
        payload=[b"1"], timestamp=[datetime(2024, 7, 1, tzinfo=UTC)], timestamp_ntp64=[77], timestamp_id=["def0"]
    )
    assert pushes(given, KEY)[0].body.timestamp == Timestamp(77, OTHER)


def test_rows_may_have_either_timestamp_or_timestamp_ntp64() -> None:
    times = [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), None]
    first, second = pushes(batch(payload=[b"1", b"2"], timestamp=times, timestamp_ntp64=[None, 77]), KEY)
    assert first.body.timestamp == Timestamp(1 << 32, CLOCK)
    assert second.body.timestamp == Timestamp(77, CLOCK)


def test_timestamp_id_without_a_timestamp_is_ignored() -> None:
    assert pushes(batch(payload=[b"1"], timestamp_id=["abc"]), KEY)[0].body == Put(payload=b"1")


def test_microseconds_round_trip_through_ntp64() -> None:
    micros = [0, 1, 999_999, 1_000_000, 1_719_841_872_123_456]
    ntp64 = ntp64_from_microseconds(pa.array(micros, pa.timestamp("us", tz="UTC")))
    back = [Timestamp(reading, CLOCK).unix_ns / 1000 for reading in ntp64.to_pylist()]
    assert [round(one) for one in back] == micros


def test_fill_timestamps_keeps_existing_timestamps() -> None:
    exact = validate_batch(batch(payload=[b"1", b"2"], timestamp_ntp64=[None, 9], timestamp_id=[None, "def0"]), CLOCK)
    rows = to_wire_rows(fill_timestamps(exact, CLOCK, lambda count: range(100, 100 + count)), KEY)
    assert [rows.push(row).body.timestamp for row in range(2)] == [Timestamp(100, CLOCK), Timestamp(9, OTHER)]


def test_fill_timestamps_fills_every_row_of_a_batch_without_timestamps() -> None:
    exact = fill_timestamps(
        validate_batch(batch(payload=[b"1", b"2"]), CLOCK), CLOCK, lambda count: range(100, 100 + count)
    )
    rows = to_wire_rows(exact, KEY)
    assert [rows.push(row).body.timestamp for row in range(2)] == [Timestamp(100, CLOCK), Timestamp(101, CLOCK)]


# -- quality of service --------------------------------------------------------------------------------------------


def test_batch_without_qos_columns_is_one_run() -> None:
    given = batch(payload=[b"1", b"2"])
    (run,) = split_by_qos(given, URGENT, False)
    assert (run.batch, run.qos, run.reliable) == (given, URGENT, False)


def test_run_ends_where_the_qos_changes() -> None:
    given = batch(
        payload=[b"1", b"2", b"3", b"4", b"5"],
        priority=["DATA", "DATA", "DATA_LOW", "DATA", None],
        congestion=["DROP", "DROP", "DROP", "BLOCK", "BLOCK_FIRST"],
        express=[False, False, False, None, True],
        reliable=[True, True, None, True, False],
    )
    found = list(split_by_qos(given, URGENT, False))
    assert [run.batch.column("payload").to_pylist() for run in found] == [[b"1", b"2"], [b"3"], [b"4"], [b"5"]]
    assert [(run.qos, run.reliable) for run in found] == [
        (QoS(Priority.DATA, Congestion.DROP), True),
        (QoS(Priority.DATA_LOW, Congestion.DROP), False),
        (QoS(Priority.DATA, Congestion.BLOCK, True), True),
        (QoS(Priority.REAL_TIME, Congestion.BLOCK_FIRST, True), False),
    ]


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"paylaod": [b"1"]}, "no sample has a column 'paylaod': did you mean 'payload'"),
        ({"xyzzy": [b"1"]}, "'xyzzy'; it may have key, kind, payload"),
        ({"payload": [1.5]}, "column 'payload': expected binary, found double"),
        ({"payload": [[b"1"]]}, "column 'payload': expected binary, found list"),
        ({"key": ["a", None], "payload": [b"1", b"2"]}, "row 1 has no key"),
        ({"payload": [b"1", None]}, "row 1 is a PUT without a payload"),
        ({"key": ["a", "b"]}, "row 0 is a PUT without a payload"),
        ({"payload": [b"1", None], "kind": ["PUT", "PUT"]}, "row 1 is a PUT without a payload"),
        ({"payload": [b"1"], "kind": ["POST"]}, "row 0 is neither PUT nor DELETE"),
        ({"payload": [b"1"], "timestamp": [datetime(1969, 1, 1, tzinfo=UTC)]}, "row 0 has a timestamp before 1970"),
        ({"payload": [b"1", b"2"], "encoding": ["zenoh/bytes", "x" * 300 + ";" + "y" * 300]}, "row 1 has the encoding"),
        ({"payload": [b"1", b"2"], "source_zid": [None, "not hex"]}, "row 1 has the source_zid 'not hex'"),
        (
            {"payload": [b"1", b"2"], "timestamp_ntp64": [1, 2], "timestamp_id": ["a", "0"]},
            "row 1 has the timestamp_id '0'",
        ),
        ({"payload": [b"1", b"2"], "source_zid": ["a", "a"], "source_sn": [1, -1]}, "row 1 has the source_sn -1"),
        ({"payload": [b"1"], "source_zid": ["a"], "source_eid": [2**32]}, "row 0 has the source_eid 4294967296"),
    ],
)
def test_validation_errors_name_row_or_column(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        to_wire_rows(validate_batch(batch(**columns), CLOCK), KEY)
    assert words in str(caught.value)


@pytest.mark.parametrize(("name", "word"), [("priority", "URGENT"), ("congestion", "WAIT")])
def test_unknown_priority_or_congestion_is_a_usage_error_with_its_row(name: str, word: str) -> None:
    given = batch(payload=[b"1", b"2"], **{name: [None, word]})
    with pytest.raises(UsageError, match=rf"row 1 has the {name} '{word}'; there are .*(DROP|REAL_TIME)"):
        list(split_by_qos(validate_batch(given, CLOCK), QoS.DEFAULT, True))
