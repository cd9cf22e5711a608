"""Publications as record batches."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from itertools import pairwise

import pyarrow as pa
import pytest

from tests.unit.arrow.test_arena import fill_arena
from zenspark.arrow import SCHEMA
from zenspark.arrow.arena import ArenaPool
from zenspark.arrow.decode import (
    MAX_CACHED_ROWS,
    MAX_CACHED_TEXT_CHARACTERS,
    NTP64,
    SN,
    RowChunk,
    TemplateCache,
    _cached_constant_batch,
    chunk_from_rows,
    concat_chunks,
)
from zenspark.wire.codec import encode
from zenspark.wire.columns import BatchDecoder, Framing, PushColumns, PushRun, PushTemplate, StopReason
from zenspark.wire.messages import Del, Frame, Push, Put
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

LARGE = 1 << 15
CLOCK = ZenohId(0xABC)
PLAIN = Push(wire_expr=WireExpr(0, "a/b"), body=Put(payload=b"1"))
FULL = Push(
    wire_expr=WireExpr(0, "a/é"),
    qos=QoS(Priority.REAL_TIME, Congestion.BLOCK, True),
    body=Put(
        timestamp=Timestamp(7386664595088445305, CLOCK),
        encoding=Encoding(4, "utf-8"),
        source_info=SourceInfo(CLOCK, 3, 9),
        attachment=b"",
        payload=b"22",
    ),
)
REMOVAL = Push(wire_expr=WireExpr(0, "d"), body=Del(attachment=b"why"))


def decoded(*messages: Push, reliable: bool = True) -> PushColumns:
    raw = encode(Frame(reliable=reliable, sn=5, msgs=messages))
    columns = PushColumns(len(messages) or 1)
    assert BatchDecoder(len(raw).to_bytes(2, "little") + raw).decode(columns) is StopReason.END
    return columns


def keys_of(columns: PushColumns) -> list[str | None]:
    return [columns.template_at(index).wire_expr.suffix for index in range(columns.template_count)]


def batch(*messages: Push, reliable: bool = True) -> pa.RecordBatch:
    return concat_chunks([chunk(*messages, reliable=reliable)])


def chunk(*messages: Push, reliable: bool = True, via: str = "feed", now_us: int = 1_700_000_000_000_000) -> RowChunk:
    columns = decoded(*messages, reliable=reliable)
    return chunk_from_rows(PushRun(columns, 0, len(columns)), keys_of(columns), via, now_us, TemplateCache())


def test_every_column_is_there_exactly_as_declared() -> None:
    assert batch(PLAIN).schema.equals(SCHEMA)
    assert batch(PLAIN, FULL, REMOVAL).schema.equals(SCHEMA)


def test_plain_publication_fills_only_its_columns() -> None:
    (row,) = batch(PLAIN, reliable=False).to_pylist()
    assert {name: value for name, value in row.items() if value is not None} == {
        "key": "a/b",
        "kind": "PUT",
        "payload": b"1",
        "encoding": "zenoh/bytes",
        "priority": "DATA",
        "congestion": "DROP",
        "express": False,
        "reliable": False,
        "received_at": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        "via": "feed",
    }


def test_publication_with_all_fields_has_their_values() -> None:
    row = batch(PLAIN, FULL).to_pylist()[1]
    assert row["key"] == "a/é"
    assert row["encoding"] == "text/plain;utf-8"
    assert row["timestamp"] == datetime(2024, 7, 1, 13, 51, 12, 129693, tzinfo=UTC)
    assert (row["timestamp_ntp64"], row["timestamp_id"]) == (7386664595088445305, "abc")
    assert (row["source_zid"], row["source_eid"], row["source_sn"]) == ("abc", 3, 9)
    assert (row["priority"], row["congestion"], row["express"]) == ("REAL_TIME", "BLOCK", True)
    assert row["attachment"] == b""


def test_an_encoding_is_always_text() -> None:
    odd = Push(wire_expr=WireExpr(0, "k"), body=Put(encoding=Encoding(4, "\udcff"), payload=b""))
    assert batch(odd).to_pylist()[0]["encoding"] == "text/plain;\ufffd"


def test_a_removal_has_no_payload() -> None:
    row = batch(PLAIN, REMOVAL).to_pylist()[1]
    assert (row["kind"], row["payload"], row["attachment"]) == ("DELETE", None, b"why")


def test_ntp64_of_64_bits_is_stored_as_negative_int64() -> None:
    late = Push(wire_expr=WireExpr(0, "k"), body=Put(timestamp=Timestamp(2**64 - 1, CLOCK), payload=b""))
    (row,) = batch(late).to_pylist()
    assert row["timestamp_ntp64"] == -1
    assert row["timestamp"].year == 2106


def test_only_rows_with_a_key_are_taken() -> None:
    columns = decoded(PLAIN, FULL, REMOVAL)
    keys: list[str | None] = ["a/b", None, "d"]
    found = concat_chunks([chunk_from_rows(PushRun(columns, 0, 3), keys, "feed", 0, TemplateCache())])
    assert found.column("key").to_pylist() == ["a/b", "d"]
    assert found.column("payload").to_pylist() == [b"1", None]
    assert found.column("attachment").to_pylist() == [None, b"why"]


def test_chunk_without_matching_rows_is_empty() -> None:
    columns = decoded(PLAIN, PLAIN)
    assert chunk_from_rows(PushRun(columns, 0, 2), [None], "feed", 0, TemplateCache()).num_rows == 0


def test_chunk_has_only_the_rows_of_its_run() -> None:
    columns = decoded(PLAIN, FULL, REMOVAL)
    found = concat_chunks([chunk_from_rows(PushRun(columns, 1, 2), keys_of(columns), "feed", 0, TemplateCache())])
    assert found.column("payload").to_pylist() == [b"22"]
    assert found.column("source_sn").to_pylist() == [9]


@pytest.mark.slow
def test_chunk_may_have_more_rows_than_max_cached_rows() -> None:
    messages = [PLAIN] * (MAX_CACHED_ROWS + 1)
    raw = b"".join(encode(message) for message in messages)
    head = encode(Frame(reliable=True, sn=5))
    columns = PushColumns(len(messages))
    data = b""
    step = len(raw) // len(messages) * 4000
    for start in range(0, len(raw), step):
        chunk = head + raw[start : start + step]
        data += len(chunk).to_bytes(2, "little") + chunk
    assert BatchDecoder(data).decode(columns) is StopReason.END
    found = concat_chunks(
        [chunk_from_rows(PushRun(columns, 0, len(columns)), keys_of(columns), "feed", 0, TemplateCache())]
    )
    assert found.num_rows == MAX_CACHED_ROWS + 1
    assert set(found.column("key").unique().to_pylist()) == {"a/b"}


def test_chunks_with_different_columns_are_concatenated() -> None:
    chunks = [chunk(PLAIN, PLAIN, now_us=1), chunk(FULL, via="other", now_us=2), chunk(REMOVAL, PLAIN, now_us=3)]
    found = concat_chunks(chunks)
    assert found.schema.equals(SCHEMA)
    found.validate(full=True)
    alone = [row for one in chunks for row in concat_chunks([one]).to_pylist()]
    assert found.to_pylist() == alone
    assert found.column("key").to_pylist() == ["a/b", "a/b", "a/é", "d", "a/b"]
    assert found.column("via").to_pylist() == ["feed", "feed", "other", "feed", "feed"]
    assert found.column("received_at").cast(pa.int64()).to_pylist() == [1, 1, 2, 3, 3]
    assert found.column("source_sn").to_pylist() == [None, None, 9, None, None]
    assert found.column("timestamp_ntp64").null_count == found.column("timestamp").null_count == 4


def test_chunk_can_be_split_at_any_row() -> None:
    whole = chunk(PLAIN, FULL, REMOVAL)
    for rows in (1, 2):
        first, rest = whole.split(rows)
        assert (first.num_rows, rest.num_rows) == (rows, 3 - rows)
        assert concat_chunks([first, rest]).to_pylist() == concat_chunks([whole]).to_pylist()


def test_later_reads_do_not_change_copied_rows() -> None:
    raw = encode(Frame(reliable=True, sn=5, msgs=(PLAIN,)))
    buffer = bytearray(len(raw).to_bytes(2, "little") + raw)
    columns = PushColumns(1)
    BatchDecoder(buffer).decode(columns)
    kept = chunk_from_rows(PushRun(columns, 0, 1), ["a/b"], "feed", 0, TemplateCache())
    columns.clear()
    buffer[-1:] = b"X"
    assert concat_chunks([kept]).column("payload").to_pylist() == [b"1"]


def owned_run(message: Push) -> PushRun:
    columns = PushColumns(1)
    assert BatchDecoder(bytearray(encode(message)), Framing.MESSAGE).decode(columns) is StopReason.END
    return PushRun(columns, 0, 1, owns_buffer=True)


def large(number: int) -> Push:
    return Push(wire_expr=WireExpr(0, "a/b"), body=Put(payload=bytes([number]) * LARGE))


def chunk_in_arena(pool: ArenaPool, *messages: Push) -> RowChunk:
    columns = decoded(*messages)
    return chunk_from_rows(PushRun(columns, 0, len(columns)), keys_of(columns), "feed", 0, TemplateCache(), pool)


def address(array: pa.Array) -> int:
    """Where the bytes of a column begin."""
    return int(array.buffers()[2].address)


@pytest.mark.parametrize("payload", [b"1", b"1" * LARGE])
def test_contiguous_payloads_in_an_arena_become_one_column_without_a_copy(payload: bytes) -> None:
    pool, message = ArenaPool(), Push(wire_expr=WireExpr(0, "a/b"), body=Put(payload=payload))
    for _ in range(3):
        fill_arena(pool)  # the next arena is larger
    chunks = [chunk_in_arena(pool, message) for _ in range(3)]
    assert chunks[0].is_contiguous_with(chunks[1])
    assert not chunks[0].is_contiguous_with(chunks[2])
    whole, part = (concat_chunks(some).column("payload") for some in (chunks, chunks[1:]))
    assert address(part) == address(whole) + chunks[0].size
    del chunks, pool
    assert whole.to_pylist() == [*part.to_pylist(), payload]
    assert set(part.to_pylist()) == {payload}


def test_pickled_column_has_no_payloads_of_other_rows() -> None:
    pool = ArenaPool()
    _, chunk, _ = [chunk_in_arena(pool, large(number)) for number in range(3)]
    found = concat_chunks([chunk])
    sent = pickle.dumps(found)
    assert pickle.loads(sent).equals(found)
    assert LARGE < len(sent) < LARGE * 1.5


def test_parts_of_a_split_chunk_stay_contiguous_in_the_arena() -> None:
    pool = ArenaPool()
    before = chunk_in_arena(pool, PLAIN)
    first, rest = chunk_in_arena(pool, PLAIN, large(1), PLAIN).split(1)
    assert before.is_contiguous_with(first)
    assert first.is_contiguous_with(rest)
    assert not before.is_contiguous_with(rest)
    assert concat_chunks([rest]).column("payload").to_pylist() == [b"\1" * LARGE, b"1"]


def test_chunks_that_are_not_contiguous_are_copied() -> None:
    pool = ArenaPool()
    whole = chunk_in_arena(pool, large(1))
    small = [chunk_in_arena(pool, PLAIN), chunk_in_arena(pool, PLAIN, REMOVAL)]
    assert [one.arena for one in (chunk(PLAIN), small[1])] == [None, None]
    found = concat_chunks([whole, chunk_in_arena(ArenaPool(), large(2)), *small])
    assert found.column("payload").to_pylist() == [b"\1" * LARGE, b"\2" * LARGE, b"1", b"1", None]


def test_rows_without_a_key_are_left_out_of_the_batch() -> None:
    pool = ArenaPool()
    columns = decoded(PLAIN, FULL, PLAIN)
    taken = [
        chunk_from_rows(PushRun(columns, 0, 2), ["a/b", None], "feed", 0, TemplateCache(), pool),
        chunk_from_rows(PushRun(columns, 1, 3), keys_of(columns), "feed", 0, TemplateCache(), pool),
        chunk_from_rows(PushRun(columns, 0, 1), keys_of(columns), "feed", 0, TemplateCache(), pool),
    ]
    assert [one.is_contiguous_with(other) for one, other in pairwise(taken)] == [False, True]
    assert concat_chunks(taken).column("payload").to_pylist() == [b"1", b"22", b"1", b"1"]


def test_payload_in_an_owned_buffer_is_not_copied() -> None:
    pushes = owned_run(FULL)
    kept = chunk_from_rows(pushes, ["a/é"], "feed", 0, TemplateCache())
    assert kept.payload.buffers()[2].address == pa.py_buffer(pushes.columns.data).address
    pushes.columns.clear()
    assert concat_chunks([kept]).to_pylist()[0]["payload"] == b"22"


def test_deletion_in_an_owned_buffer_has_no_payload() -> None:
    (row,) = concat_chunks([chunk_from_rows(owned_run(REMOVAL), ["d"], "feed", 0, TemplateCache())]).to_pylist()
    assert (row["kind"], row["payload"], row["attachment"]) == ("DELETE", None, b"why")


def test_long_keys_and_encodings_are_not_cached() -> None:
    text = "k" * (MAX_CACHED_TEXT_CHARACTERS + 1)
    key = Push(wire_expr=WireExpr(0, text), body=Put(payload=b""))
    encoding = Push(wire_expr=WireExpr(0, "k"), body=Put(payload=b"", encoding=Encoding(0, text)))
    _cached_constant_batch.cache_clear()
    assert batch(key, key).column("key").to_pylist() == [text] * 2
    assert batch(encoding, encoding).column("encoding").to_pylist() == [f"zenoh/bytes;{text}"] * 2
    assert _cached_constant_batch.cache_info().currsize == 0
    assert batch(PLAIN, PLAIN).column("key").to_pylist() == ["a/b"] * 2
    assert _cached_constant_batch.cache_info().currsize == 1


def test_ntp64_and_sn_are_null_without_clock_or_source() -> None:
    bare = chunk(PLAIN)
    odd = RowChunk(bare.shared, None, bare.payload, None, pa.array([7], NTP64), pa.array([8], SN), 0, 1)
    (row,) = concat_chunks([odd]).to_pylist()
    assert (row["timestamp"], row["timestamp_ntp64"], row["source_sn"]) == (None, None, None)


def test_number_of_cached_templates_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zenspark.arrow.decode.MAX_CACHED_TEMPLATE_KEYS", 2)
    memory = TemplateCache()
    found = [chunk_from_rows(owned_run(FULL), [key], "feed", 0, memory) for key in ("a", "a", "b", "c", "a")]
    assert [chunk.shared[0].key for chunk in found] == ["a", "a", "b", "c", "a"]
    assert found[0].shared[0] is found[1].shared[0]
    assert memory.size == 2


def test_new_key_reuses_the_decoded_template(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that differ in anything but the key have headers of their own."""
    decoded_shapes = []
    real = PushRun.template_at

    def template_at(self: PushRun, index: int) -> PushTemplate:
        decoded_shapes.append(index)
        return real(self, index)

    monkeypatch.setattr(PushRun, "template_at", template_at)
    memory = TemplateCache()
    for key in ("a", "b/c", "é"):
        expr = WireExpr(0, key)
        for message in (PLAIN, FULL, REMOVAL):
            columns = decoded(Push(wire_expr=expr, qos=message.qos, body=message.body))
            for stamped_by in (None, CLOCK):
                pushes = PushRun(columns, 0, 1, timestamped_by=stamped_by)
                found = concat_chunks([chunk_from_rows(pushes, [key], "feed", 0, memory)])
                assert found.equals(concat_chunks([chunk_from_rows(pushes, [key], "feed", 0, TemplateCache())]))
    assert len(decoded_shapes) == 3 * 3 * 2 + 3 * 2  # for each comparison, and once for each shape but for its key
