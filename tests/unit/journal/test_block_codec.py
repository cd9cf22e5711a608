"""Block codec: decoded rows are exactly equal to the encoded ones."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.journal.captured import nulls_in_dictionaries
from tests.unit.journal.rows import START, batch, row, row_chunk
from zenspark.arrow import SCHEMA
from zenspark.arrow.decode import concat_chunks
from zenspark.journal import Journal
from zenspark.journal.block_codec import (
    DICTIONARY_TYPE,
    RUN_END_TYPE,
    TEXT_TYPE,
    ZERO_COPY_WRITE_MIN_BYTES,
    decode_columns,
    encode_chunks,
    encode_columns,
    serialize_batch,
)
from zenspark.journal.format import SCHEMAS, read_schema

NTP64 = 1_700_000_000 << 32


def round_trip(rows: pa.RecordBatch, first: int = 7) -> pa.RecordBatch:
    """Through bytes, as in a block."""
    raw = b"".join(serialize_batch(rows, "none"))
    return decode_columns(pa.ipc.open_stream(raw).read_next_batch(), read_schema("samples"), "r", first)


def plain(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.drop_columns(["recorder", "offset"])


TEXTS = st.sampled_from(["a", "b/c", "é", ""])
ROWS = st.fixed_dictionaries(
    {
        "key": TEXTS,
        "kind": st.sampled_from(["PUT", "DELETE"]),
        "payload": st.none() | st.binary(max_size=5),
        "encoding": TEXTS,
        "timestamp": st.none() | st.integers(0, 2**52),
        "timestamp_ntp64": st.none() | st.integers(-(2**63), 2**63 - 1),
        "timestamp_id": st.none() | TEXTS,
        "attachment": st.none() | st.binary(max_size=3),
        "source_zid": st.none() | TEXTS,
        "source_eid": st.none() | st.integers(0, 3),
        "source_sn": st.none() | st.integers(0, 2**32),
        "priority": TEXTS,
        "congestion": TEXTS,
        "express": st.booleans(),
        "reliable": st.booleans(),
        "received_at": st.integers(START, START + 3),
        "via": st.none() | TEXTS,
    }
)


@pytest.mark.slow
@given(st.lists(ROWS, min_size=1, max_size=40))
def test_random_rows_round_trip(rows: list[dict[str, Any]]) -> None:
    given_rows = pa.RecordBatch.from_pylist(rows, SCHEMA)
    found = round_trip(encode_columns(given_rows))
    assert found.schema.equals(read_schema("samples"))
    assert plain(found).equals(given_rows)
    assert found.column("offset").to_pylist() == list(range(7, 7 + len(rows)))
    assert set(found.column("recorder").to_pylist()) == {"r"}


@pytest.mark.parametrize("start", [0, 3])
def test_sliced_batch_round_trips(start: int) -> None:
    rows = batch(*(row(number % 4, key="k", source_sn=number) for number in range(50)))[start : start + 40]
    assert plain(round_trip(encode_columns(rows))).equals(rows)


def test_constant_columns_are_run_end_encoded() -> None:
    rows = batch(*(row(number, key="k", received_at=START) for number in range(100)))
    found = encode_columns(rows)
    assert pa.types.is_run_end_encoded(found.schema.field("kind").type)
    assert "timestamp" not in found.schema.names
    assert "source_zid" not in found.schema.names
    assert plain(round_trip(found)).equals(rows)


@pytest.mark.slow
def test_few_distinct_keys_are_dictionary_encoded() -> None:
    few = encode_columns(batch(*(row(number, key=f"k/{number % 5}") for number in range(100))))
    assert few.schema.field("key").type == pa.dictionary(pa.int8(), pa.string())
    many = encode_columns(batch(*(row(number) for number in range(100))))
    assert many.schema.field("key").type == pa.string()
    later = encode_columns(batch(*(row(number, key=f"k/{max(number, 10_000)}") for number in range(30_000))))
    assert later.schema.field("key").type == pa.string()


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "width"), [(100, pa.int8()), (1000, pa.int16()), (40_000, pa.int32())])
def test_dictionary_index_has_the_narrowest_type(keys: int, width: pa.DataType) -> None:
    numbers = [number % keys for number in range(keys * 8)]
    rows = pa.RecordBatch.from_pydict({"key": [f"k/{number}" for number in sorted(numbers)]})
    assert encode_columns(rows).schema.field("key").type == pa.dictionary(width, pa.string())


def test_timestamp_computed_from_ntp64_is_omitted() -> None:
    rows = batch(row(0, timestamp_ntp64=NTP64, timestamp=START, timestamp_id="a"), row(1))
    found = encode_columns(rows)
    assert "timestamp" not in found.schema.names
    assert plain(round_trip(found)).equals(rows)


@pytest.mark.parametrize("time", [START + 1, None])
def test_timestamp_different_from_ntp64_is_kept(time: int | None) -> None:
    rows = batch(row(0, timestamp_ntp64=NTP64, timestamp=time, timestamp_id="a"), row(1))
    assert plain(round_trip(encode_columns(rows))).equals(rows)


def test_ntp64_after_2038_round_trips() -> None:
    ntp64 = 0xF000_0000 << 32
    rows = batch(row(0, timestamp_ntp64=ntp64 - 2**64, timestamp=0xF000_0000 * 10**6))
    assert "timestamp" not in encode_columns(rows).schema.names
    assert plain(round_trip(encode_columns(rows))).equals(rows)


def test_all_null_rows_round_trip() -> None:
    rows = batch({}, {})
    assert plain(round_trip(encode_columns(rows))).equals(rows)


def test_other_schemas_round_trip() -> None:
    schema = SCHEMAS["sessions"]
    rows = pa.RecordBatch.from_pylist([{"time": START, "event": "OPENED", "zid": "a"}], schema)
    found = decode_columns(encode_columns(rows), read_schema("sessions"), "r", 0)
    assert plain(found).equals(rows)


@pytest.mark.parametrize(
    "pieces",
    [
        [row_chunk(0)],
        [row_chunk(0), row_chunk(1)],
        [row_chunk(0, 40), row_chunk(1, 40)],
        [row_chunk(0, timestamp_id="clock", source_zid="a", source_eid=3)],
        [row_chunk(0, timestamp_id="clock"), row_chunk(1), row_chunk(0, source_zid="a", source_eid=1)],
        [row_chunk(0, 30, express=True), row_chunk(0, 30), row_chunk(1, 30, via=None, encoding="text/plain")],
    ],
)
def test_encoded_chunks_equal_encoded_rows(pieces: list[Any]) -> None:
    assert plain(round_trip(encode_chunks(pieces))).equals(concat_chunks(pieces))


# --- few rows ---------------------------------------------------------------------------------------------------------


def has_plain_columns(rows: pa.RecordBatch) -> bool:
    kinds = rows.schema.types
    return not any(pa.types.is_run_end_encoded(kind) or pa.types.is_dictionary(kind) for kind in kinds)


@pytest.mark.parametrize("rows", [1, 3])
def test_few_rows_are_encoded_as_plain_columns(rows: int) -> None:
    pieces = [row_chunk(0, rows, timestamp_id="clock", source_zid="a", source_eid=3)]
    samples = concat_chunks(pieces)
    for found in (encode_chunks(pieces), encode_columns(samples)):
        assert has_plain_columns(found)
        assert plain(round_trip(found)).equals(samples)


def test_few_rows_with_few_keys_are_encoded_as_plain_columns() -> None:
    pieces = [row_chunk(number % 2, 1) for number in range(8)]
    for found in (encode_chunks(pieces), encode_columns(concat_chunks(pieces))):
        assert has_plain_columns(found)
        assert plain(round_trip(found)).equals(concat_chunks(pieces))


def test_long_texts_of_few_rows_are_stored_once() -> None:
    pieces = [row_chunk(0, 3, key="k" * 500)]
    for found in (encode_chunks(pieces), encode_columns(concat_chunks(pieces))):
        assert pa.types.is_run_end_encoded(found.schema.field("key").type)
        assert plain(round_trip(found)).equals(concat_chunks(pieces))


def test_block_of_one_row_takes_half_of_the_bytes_of_encoded_columns() -> None:
    raw = serialize_batch(encode_chunks([row_chunk(0, 1, timestamp_id="clock", source_zid="a", source_eid=3)]), "none")
    assert sum(len(part) for part in raw) <= 4080 / 2  # 4080 if every column is run-end encoded


# --- nulls ------------------------------------------------------------------------------------------------------------


def test_dictionaries_with_null_values_are_read_and_unified(tmp_path: Path) -> None:
    journal = Journal(nulls_in_dictionaries(tmp_path))
    (rows,) = journal.slices(0, journal.latest(), 1)
    words = pa.Table.from_batches(rows.batches(DICTIONARY_TYPE))
    plain = pa.Table.from_batches(rows.batches(TEXT_TYPE))
    assert [plain[name].null_count for name in ("timestamp_id", "source_zid", "via")] == [98, 123, 24]
    for name in ("timestamp_id", "source_zid", "via"):
        assert {chunk.dictionary.null_count for chunk in words[name].chunks} == {0}
    assert words.unify_dictionaries().cast(plain.schema).equals(plain)


def test_dictionary_nulls_are_in_the_index() -> None:
    rows = encode_chunks([row_chunk(0, 9, timestamp_id=clock, via=via) for clock in (None, "a") for via in "xyz"])
    clocks, via = rows.column("timestamp_id"), rows.column("via")
    assert (clocks.dictionary.to_pylist(), clocks.indices.null_count) == (["a"], 27)
    assert via.dictionary.to_pylist() == ["x", "y", "z"]


def test_run_end_encoded_texts_decode_to_dictionaries() -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], RUN_END_TYPE), pa.array(["a", None, "b"], TEXT_TYPE))
    rows = pa.RecordBatch.from_arrays([runs], ["via"])
    found = [
        decode_columns(rows, read_schema("samples"), "r", 0, texts).column("via")
        for texts in (TEXT_TYPE, DICTIONARY_TYPE)
    ]
    assert [each.type for each in found] == [TEXT_TYPE, DICTIONARY_TYPE]
    assert found[0].to_pylist() == found[1].to_pylist() == ["a", "a", None, "b", "b"]
    assert found[1].dictionary.null_count == 0


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_large_buffers_are_not_copied(compression: str) -> None:
    rows = encode_columns(batch(*(row(number, payload=random.Random(number).randbytes(1000)) for number in range(100))))
    parts = serialize_batch(rows, compression)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as stream:
        stream.write_batch(rows)
    assert b"".join(parts) == sink.getvalue().to_pybytes()
    assert [len(part) >= ZERO_COPY_WRITE_MIN_BYTES for part in parts] == [False, True, False]
