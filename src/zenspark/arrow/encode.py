"""Encodes Arrow record batches as PUSH rows.

A batch is validated whole before anything of it is sent, so that an error in one row loses no other. Then its columns
are used in place: there is no Python object per sample.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.arrow.schema import KIND_NAMES, SCHEMA
from zenspark.errors import RowError, UsageError, ZError
from zenspark.wire.buffer import Writer
from zenspark.wire.columns import BinaryColumn, OutgoingRows, RowKind
from zenspark.wire.values import Congestion, Encoding, Priority, QoS, WireExpr, ZenohId

QOS_COLUMNS = ("priority", "congestion", "express", "reliable")
RECEIVE_ONLY_COLUMNS = ("received_at", "via")
"""Columns set by the receiver of a sample, which are ignored when it is published."""
VALID_KINDS = pa.array(KIND_NAMES)


# -- validation ----------------------------------------------------------------------------------------------------


def validate_batch(batch: pa.RecordBatch, clock: ZenohId) -> pa.RecordBatch:
    """Return the columns of a batch that are sent, cast to the schema; raises UsageError with the wrong row or column.

    Every column may be missing. A `timestamp` without `timestamp_ntp64` is converted, with the id of `clock`.
    """
    columns = {name: _cast_to_schema(name, batch.column(name)) for name in batch.schema.names if _is_sent_column(name)}
    if "key" in columns:
        _raise_for_first(pc.is_null(columns["key"]), "has no key")
    if "kind" in columns:
        columns["kind"] = pc.fill_null(columns["kind"], "PUT")
        _raise_for_first(pc.invert(pc.is_in(columns["kind"], VALID_KINDS)), "is neither PUT nor DELETE")
    _check_payloads(columns, batch.num_rows)
    _complete_timestamps(columns, batch.num_rows, clock)
    return pa.RecordBatch.from_pydict(columns)


def _is_sent_column(name: str) -> bool:
    if name not in SCHEMA.names:
        matches = difflib.get_close_matches(name, SCHEMA.names, 1)
        hint = f": did you mean {matches[0]!r}?" if matches else f"; it may have {', '.join(SCHEMA.names)}"
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


def _complete_timestamps(columns: dict[str, pa.Array], rows: int, clock: ZenohId) -> None:
    """Convert times to NTP64, and set the clock id of every row with a time."""
    time = columns.pop("timestamp", None)
    ntp64 = columns.get("timestamp_ntp64")
    if time is not None:
        ntp64 = ntp64_from_microseconds(time) if ntp64 is None else pc.coalesce(ntp64, ntp64_from_microseconds(time))
    if ntp64 is None:
        columns.pop("timestamp_id", None)
        return
    columns["timestamp_ntp64"] = ntp64
    ids = columns.get("timestamp_id", pa.nulls(rows, pa.string()))
    columns["timestamp_id"] = pc.if_else(pc.is_valid(ntp64), pc.fill_null(ids, str(clock)), None)


def ntp64_from_microseconds(times: pa.Array) -> pa.Array:
    """Convert Unix time in microseconds to NTP64."""
    micros = times.cast(pa.int64())
    _raise_for_first(pc.fill_null(pc.less(micros, 0), False), "has a timestamp before 1970")
    seconds = pc.divide(micros, 1_000_000)
    rest = pc.subtract(micros, pc.multiply(seconds, 1_000_000))
    return pc.bit_wise_or(pc.shift_left(seconds, 32), pc.divide(pc.shift_left(rest, 32), 1_000_000))


def fill_timestamps(batch: pa.RecordBatch, clock: ZenohId, new_timestamps: Callable[[int], range]) -> pa.RecordBatch:
    """Return a validated batch with a new timestamp in every row that has none; `new_timestamps` makes NTP64 times."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    ntp64 = columns.get("timestamp_ntp64", pa.nulls(batch.num_rows, pa.int64()))
    ids = columns.get("timestamp_id", pa.nulls(batch.num_rows, pa.string()))
    columns["timestamp_ntp64"] = pc.coalesce(ntp64, pa.array(new_timestamps(batch.num_rows), pa.int64()))
    columns["timestamp_id"] = pc.fill_null(ids, str(clock))
    return pa.RecordBatch.from_pydict(columns)


# -- quality of service ------------------------------------------------------------------------------------------


class QosRun(msgspec.Struct, frozen=True):
    """Consecutive rows with the same QoS."""

    batch: pa.RecordBatch
    qos: QoS
    reliable: bool


def split_by_qos(batch: pa.RecordBatch, qos: QoS, reliable: bool) -> Iterator[QosRun]:
    """Split a validated batch wherever the QoS changes; values that the batch does not set are those given."""
    defaults: dict[str, Any] = {
        "priority": qos.priority.name,
        "congestion": qos.congestion.name,
        "express": qos.express,
        "reliable": reliable,
    }
    names = [name for name in QOS_COLUMNS if name in batch.schema.names]
    if not names:
        yield QosRun(batch, qos, reliable)
        return
    columns = [pc.dictionary_encode(pc.fill_null(batch.column(name), defaults[name])) for name in names]
    codes = pa.repeat(0, batch.num_rows)
    for column in columns:
        codes = pc.add(pc.multiply(codes, len(column.dictionary)), column.indices)
    start = 0
    for stop in pc.run_end_encode(codes).run_ends.to_pylist():
        values = defaults | {name: column[start].as_py() for name, column in zip(names, columns, strict=True)}
        yield QosRun(batch[start:stop], *_parse_qos(start, **values))
        start = stop


def _parse_qos(row: int, priority: str, congestion: str, express: bool, reliable: bool) -> tuple[QoS, bool]:
    for name, value, enum in (("priority", priority, Priority), ("congestion", congestion, Congestion)):
        if value not in enum.__members__:
            raise RowError(row, f"has the {name} {value!r}; there are {', '.join(enum.__members__)}")
    return QoS(Priority[priority], Congestion[congestion], express), reliable


# -- to the wire ---------------------------------------------------------------------------------------------------


def to_wire_rows(
    batch: pa.RecordBatch,
    key: WireExpr | None = None,
    qos: QoS = QoS.DEFAULT,
    encoding: Encoding = Encoding.BYTES,
) -> OutgoingRows:
    """Make the PUSH rows of a validated batch, on one wire expression or each on the key in its row.

    All rows get the QoS given: the QoS columns of the batch are ignored here.
    """
    columns = {name: batch.column(name) for name in batch.schema.names}
    return OutgoingRows(
        batch.num_rows,
        _binary_column(columns["key"]) if key is None else key,
        _binary_column(columns["payload"]) if "payload" in columns else None,
        kind=_kind_column(columns.get("kind")),
        qos=qos,
        **_optional_columns(columns, encoding),
    )


def _optional_columns(columns: dict[str, pa.Array], encoding: Encoding) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if "attachment" in columns:
        options["attachment"] = _binary_column(columns["attachment"])
    if "encoding" in columns:
        texts = pc.fill_null(columns["encoding"], str(encoding))
        options["encoding"] = _dictionary_lookup("encoding", texts, _parse_encoding)
    elif encoding != Encoding.BYTES:
        options["encoding"] = BinaryColumn.constant(_encode_encoding(encoding))
    if "timestamp_ntp64" in columns:
        options["timestamp"] = _number_view(columns["timestamp_ntp64"])
        options["timestamp_id"] = _dictionary_lookup("timestamp_id", columns["timestamp_id"], _encode_zid)
    if "source_zid" in columns:
        options["source_zid"] = _dictionary_lookup("source_zid", columns["source_zid"], _encode_zid)
        for name in ("source_eid", "source_sn"):
            if name in columns:
                options[name] = _number_view(_cast_to_u32(name, columns[name]))
    return options


def _binary_column(array: pa.Array) -> BinaryColumn:
    """Return a binary or text column in place, without a copy."""
    validity, offsets, data = array.buffers()
    bounds = memoryview(offsets).cast("B").cast("I")[array.offset : array.offset + len(array) + 1]
    bits = None if validity is None else memoryview(validity)
    return BinaryColumn.from_offsets(
        b"" if data is None else memoryview(data), bounds, bits, array.offset if bits else 0
    )


def _dictionary_lookup(name: str, array: pa.Array, convert: Callable[[str], bytes | None]) -> BinaryColumn:
    """Convert a text column, each distinct text once."""
    encoded = pc.dictionary_encode(array)
    converted = []
    for text in encoded.dictionary.to_pylist():
        try:
            converted.append(None if text is None else convert(text))
        except ZError as error:
            raise RowError(pc.index(array, text).as_py(), f"has the {name} {text!r}: {error}") from error
    return _binary_column(pa.array(converted, pa.binary()).take(encoded.indices))


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
    """Return a column of numbers in place, with 0 for null."""
    filled = pc.fill_null(array, 0)
    width = filled.type.bit_width // 8
    raw = memoryview(filled.buffers()[1])[filled.offset * width : (filled.offset + len(filled)) * width]
    return raw.cast("B").cast("Q" if width == 8 else "I")


def _kind_column(array: pa.Array | None) -> RowKind | bytes:
    if array is None:
        return RowKind.PUT
    is_del = pc.cast(pc.equal(array, "DELETE"), pa.uint8())
    return bytes(memoryview(is_del.buffers()[1])[is_del.offset : is_del.offset + len(is_del)])
