"""Rows of any mixture come out of blocks as they went in, as plain texts and as dictionaries that can be unified."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from zenspark.arrow import SCHEMA
from zenspark.arrow.decode import INDEX, NTP64, SN, RowChunk, SharedValues, concat_chunks
from zenspark.journal.block_codec import (
    DICTIONARY_TYPE,
    TEXT_TYPE,
    decode_columns,
    encode_chunks,
    encode_columns,
    serialize_batch,
    with_text_type,
)
from zenspark.journal.format import read_schema

SAMPLES = read_schema("samples")
START = 1_700_000_000_000_000
TEXTS = st.none() | st.sampled_from(["a", "b/c", "é", ""])
HEADS = st.builds(
    SharedValues,
    key=st.sampled_from(["a", "b", "c/d"]),
    kind=st.sampled_from(["PUT", "DELETE"]),
    encoding=st.sampled_from(["zenoh/bytes", "text/plain"]),
    timestamp_id=TEXTS,
    source_zid=TEXTS,
    source_eid=st.none() | st.integers(0, 3),
    priority=st.sampled_from(["DATA", "REAL_TIME"]),
    congestion=st.sampled_from(["DROP", "BLOCK"]),
    express=st.booleans(),
    reliable=st.booleans(),
    via=TEXTS,
)
NAMES = [field.name for field in SCHEMA if field.type == TEXT_TYPE]
ROWS = st.fixed_dictionaries({"received_at": st.integers(START, START + 3), **dict.fromkeys(NAMES, TEXTS)})


@st.composite
def row_chunks(draw: st.DrawFn) -> list[RowChunk]:
    """What a few reads bring: some heads, each of which many rows have or only one."""
    return [draw(row_chunk()) for _ in range(draw(st.integers(1, 4)))]


@st.composite
def row_chunk(draw: st.DrawFn) -> RowChunk:
    commons = tuple(draw(st.lists(HEADS, min_size=1, max_size=4, unique=True)))
    once = list(range(len(commons)))
    index = once + draw(st.lists(st.sampled_from(once), max_size=30))
    rows = len(index)
    return RowChunk(
        commons,
        None if len(commons) == 1 else pa.array(index, INDEX),
        pa.array([b"%d" % place for place in range(rows)], pa.binary()),
        None,
        pa.array([(1_700_000_000 + place) << 32 for place in range(rows)], NTP64),
        pa.array(range(rows), SN),
        START + draw(st.integers(0, 5)),
        rows,
    )


def read_back(blocks: list[pa.RecordBatch], texts: pa.DataType) -> list[pa.RecordBatch]:
    """Blocks through bytes, as a reader gets them."""
    found = [pa.ipc.open_stream(b"".join(serialize_batch(block, "none"))).read_next_batch() for block in blocks]
    return [decode_columns(block, SAMPLES, "r", 0, texts) for block in found]


def check(blocks: list[pa.RecordBatch], expected: list[pa.RecordBatch]) -> None:
    for block in blocks:
        columns = [column for column in block.columns if isinstance(column, pa.DictionaryArray)]
        assert [column.dictionary.null_count for column in columns] == [0] * len(columns)
    plain = read_back(blocks, TEXT_TYPE)
    assert [batch.drop_columns(["recorder", "offset"]) for batch in plain] == expected
    words = pa.Table.from_batches(read_back(blocks, DICTIONARY_TYPE)).unify_dictionaries()
    assert words.schema.equals(with_text_type(SAMPLES, DICTIONARY_TYPE))
    assert words.cast(SAMPLES).equals(pa.Table.from_batches(plain))


@given(st.lists(row_chunks(), min_size=1, max_size=3))
def test_received_chunks_round_trip_through_blocks(blocks: list[list[RowChunk]]) -> None:
    check([encode_chunks(block) for block in blocks], [concat_chunks(block) for block in blocks])


@given(st.lists(st.lists(ROWS, min_size=1, max_size=40), min_size=1, max_size=3))
def test_plain_rows_round_trip_through_blocks(blocks: list[list[dict[str, Any]]]) -> None:
    given_rows = [pa.RecordBatch.from_pylist(rows, SCHEMA) for rows in blocks]
    check([encode_columns(rows) for rows in given_rows], given_rows)
