"""Record batches as messages of the wire.

A batch is checked whole before anything of it is sent, so that a mistake in one row loses no other. Then its columns
are used as they lie in memory: there is no Python object per sample.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.arrow.schema import SCHEMA
from zenspark.errors import RowError, UsageError, ZError
from zenspark.wire.buffer import Writer
from zenspark.wire.columns import Kind, Rows, Spans
from zenspark.wire.values import Congestion, Encoding, Priority, QoS, WireExpr, ZenohId

QOS_COLUMNS = ("priority", "congestion", "express", "reliable")
RECEIVE_ONLY_COLUMNS = ("received_at", "via")
"""What a sample has because somebody received it."""
KIND_NAMES = pa.array(["PUT", "DELETE"])


# -- what may be in a batch ----------------------------------------------------------------------------------------


def validate_batch(batch: pa.RecordBatch, clock: ZenohId) -> pa.RecordBatch:
    """The columns of a batch that are sent, with the types of the schema; UsageError says what is wrong and where.

    Every column may be missing. A time without an exact clock reading becomes one, of the clock named.
    """
    columns = {name: _cast_to_schema(name, batch.column(name)) for name in batch.schema.names if _is_sent_column(name)}
    if "key" in columns:
        _raise_for_first(pc.is_null(columns["key"]), "has no key")
    if "kind" in columns:
        columns["kind"] = pc.fill_null(columns["kind"], "PUT")
        _raise_for_first(pc.invert(pc.is_in(columns["kind"], KIND_NAMES)), "is neither PUT nor DELETE")
    _check_payloads(columns, batch.num_rows)
    _complete_stamps(columns, batch.num_rows, clock)
    return pa.RecordBatch.from_pydict(columns)


def _is_sent_column(name: str) -> bool:
    if name not in SCHEMA.names:
        near = difflib.get_close_matches(name, SCHEMA.names, 1)
        hint = f": did you mean {near[0]!r}?" if near else f"; it may have {', '.join(SCHEMA.names)}"
        raise UsageError(f"no sample has a column {name!r}{hint}")
    return name not in RECEIVE_ONLY_COLUMNS


def _cast_to_schema(name: str, array: pa.Array) -> pa.Array:
    expected = SCHEMA.field(name).type
    if array.type == expected:
        return array
    try:
        return array.cast(expected)
    except pa.ArrowException as error:
        raise UsageError(f"column {name!r}: expected {expected}, found {array.type}: {error}") from error


def _raise_for_first(is_wrong: pa.Array, problem: str) -> None:
    row = pc.index(is_wrong, True).as_py()
    if row >= 0:
        raise RowError(row, problem)


def _check_payloads(columns: dict[str, pa.Array], rows: int) -> None:
    payload = columns.get("payload", pa.nulls(rows, pa.binary()))
    if payload.null_count:
        is_put = pc.equal(columns.get("kind", pa.repeat("PUT", rows)), "PUT")
        _raise_for_first(pc.and_(pc.is_null(payload), is_put), "is a PUT without a payload")


def _complete_stamps(columns: dict[str, pa.Array], rows: int, clock: ZenohId) -> None:
    """Make sure that who has a time has a clock reading, and who has a reading has a clock."""
    time = columns.pop("timestamp", None)
    readings = columns.get("timestamp_ntp64")
    if time is not None:
        readings = (
            ntp64_from_microseconds(time) if readings is None else pc.coalesce(readings, ntp64_from_microseconds(time))
        )
    if readings is None:
        columns.pop("timestamp_id", None)
        return
    columns["timestamp_ntp64"] = readings
    ids = columns.get("timestamp_id", pa.nulls(rows, pa.string()))
    columns["timestamp_id"] = pc.if_else(pc.is_valid(readings), pc.fill_null(ids, str(clock)), None)


def ntp64_from_microseconds(times: pa.Array) -> pa.Array:
    """Unix time in microseconds as clock readings."""
    micros = times.cast(pa.int64())
    _raise_for_first(pc.fill_null(pc.less(micros, 0), False), "has a timestamp before 1970")
    seconds = pc.divide(micros, 1_000_000)
    rest = pc.subtract(micros, pc.multiply(seconds, 1_000_000))
    return pc.bit_wise_or(pc.shift_left(seconds, 32), pc.divide(pc.shift_left(rest, 32), 1_000_000))


def fill_timestamps(batch: pa.RecordBatch, clock: ZenohId, stamps: Callable[[int], range]) -> pa.RecordBatch:
    """A batch that was checked, with a new clock reading for every row that has none."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    known = columns.get("timestamp_ntp64", pa.nulls(batch.num_rows, pa.int64()))
    ids = columns.get("timestamp_id", pa.nulls(batch.num_rows, pa.string()))
    columns["timestamp_ntp64"] = pc.coalesce(known, pa.array(stamps(batch.num_rows), pa.int64()))
    columns["timestamp_id"] = pc.fill_null(ids, str(clock))
    return pa.RecordBatch.from_pydict(columns)


# -- quality of service ------------------------------------------------------------------------------------------


class QosRun(msgspec.Struct, frozen=True):
    """Rows one after the other that travel alike."""

    batch: pa.RecordBatch
    qos: QoS
    reliable: bool


def split_by_qos(batch: pa.RecordBatch, qos: QoS, reliable: bool) -> Iterator[QosRun]:
    """A batch that was checked, cut wherever the quality of service changes; what it does not say is as given."""
    given: dict[str, Any] = {
        "priority": qos.priority.name,
        "congestion": qos.congestion.name,
        "express": qos.express,
        "reliable": reliable,
    }
    said = [name for name in QOS_COLUMNS if name in batch.schema.names]
    if not said:
        yield QosRun(batch, qos, reliable)
        return
    columns = [pc.dictionary_encode(pc.fill_null(batch.column(name), given[name])) for name in said]
    codes = pa.repeat(0, batch.num_rows)
    for column in columns:
        codes = pc.add(pc.multiply(codes, len(column.dictionary)), column.indices)
    start = 0
    for stop in pc.run_end_encode(codes).run_ends.to_pylist():
        values = given | {name: column[start].as_py() for name, column in zip(said, columns, strict=True)}
        yield QosRun(batch[start:stop], *_parse_qos(start, **values))
        start = stop


def _parse_qos(row: int, priority: str, congestion: str, express: bool, reliable: bool) -> tuple[QoS, bool]:
    for name, value, known in (("priority", priority, Priority), ("congestion", congestion, Congestion)):
        if value not in known.__members__:
            raise RowError(row, f"has the {name} {value!r}; there are {', '.join(known.__members__)}")
    return QoS(Priority[priority], Congestion[congestion], express), reliable


# -- to the wire ---------------------------------------------------------------------------------------------------


def to_wire_rows(
    batch: pa.RecordBatch,
    key: WireExpr | None = None,
    qos: QoS = QoS.DEFAULT,
    encoding: Encoding = Encoding.BYTES,
) -> Rows:
    """The messages of a batch that was checked: under one wire expression, or each under the key in its row.

    All travel with the same quality of service: what the batch says of it is not looked at here.
    """
    columns = {name: batch.column(name) for name in batch.schema.names}
    return Rows(
        batch.num_rows,
        _binary_column(columns["key"]) if key is None else key,
        _binary_column(columns["payload"]) if "payload" in columns else None,
        kind=_kind_column(columns.get("kind")),
        qos=qos,
        **_optional_columns(columns, encoding),
    )


def _optional_columns(columns: dict[str, pa.Array], encoding: Encoding) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "attachment" in columns:
        found["attachment"] = _binary_column(columns["attachment"])
    if "encoding" in columns:
        texts = pc.fill_null(columns["encoding"], str(encoding))
        found["encoding"] = _dictionary_lookup("encoding", texts, _parse_encoding)
    elif encoding != Encoding.BYTES:
        found["encoding"] = Spans.constant(_encode_encoding(encoding))
    if "timestamp_ntp64" in columns:
        found["timestamp"] = _number_view(columns["timestamp_ntp64"])
        found["timestamp_id"] = _dictionary_lookup("timestamp_id", columns["timestamp_id"], _encode_zid)
    if "source_zid" in columns:
        found["source_zid"] = _dictionary_lookup("source_zid", columns["source_zid"], _encode_zid)
        for name in ("source_eid", "source_sn"):
            if name in columns:
                found[name] = _number_view(_cast_to_u32(name, columns[name]))
    return found


def _binary_column(array: pa.Array) -> Spans:
    """A binary or text column, its memory used as it is."""
    validity, offsets, data = array.buffers()
    bounds = memoryview(offsets).cast("B").cast("I")[array.offset : array.offset + len(array) + 1]
    bits = None if validity is None else memoryview(validity)
    return Spans.from_offsets(b"" if data is None else memoryview(data), bounds, bits, array.offset if bits else 0)


def _dictionary_lookup(name: str, array: pa.Array, convert: Callable[[str], bytes | None]) -> Spans:
    """A text column in which few texts recur, each converted once."""
    known = pc.dictionary_encode(array)
    found = []
    for text in known.dictionary.to_pylist():
        try:
            found.append(None if text is None else convert(text))
        except ZError as error:
            raise RowError(pc.index(array, text).as_py(), f"has the {name} {text!r}: {error}") from error
    return _binary_column(pa.array(found, pa.binary()).take(known.indices))


def _parse_encoding(text: str) -> bytes | None:
    encoding = Encoding.parse(text)
    return None if encoding == Encoding.BYTES else _encode_encoding(encoding)


def _encode_encoding(encoding: Encoding) -> bytes:
    out = Writer()
    encoding.write(out)
    return bytes(out.data)


def _encode_zid(text: str) -> bytes:
    return ZenohId.parse(text).to_bytes()


def _cast_to_u32(name: str, array: pa.Array) -> pa.Array:
    try:
        return array.cast(pa.uint32())
    except pa.ArrowInvalid as error:
        is_wrong = pc.or_(pc.less(array, 0), pc.greater(array, 0xFFFF_FFFF))
        row = pc.index(pc.fill_null(is_wrong, False), True).as_py()
        raise RowError(row, f"has the {name} {array[row]}, which does not fit into 32 bits") from error


def _number_view(array: pa.Array) -> memoryview:
    """A column of numbers, 0 where there is none."""
    filled = pc.fill_null(array, 0)
    width = filled.type.bit_width // 8
    raw = memoryview(filled.buffers()[1])[filled.offset * width : (filled.offset + len(filled)) * width]
    return raw.cast("B").cast("Q" if width == 8 else "I")


def _kind_column(array: pa.Array | None) -> Kind | bytes:
    if array is None:
        return Kind.PUT
    is_del = pc.cast(pc.equal(array, "DELETE"), pa.uint8())
    return bytes(memoryview(is_del.buffers()[1])[is_del.offset : is_del.offset + len(is_del)])
