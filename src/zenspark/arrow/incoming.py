"""Columns of the wire as record batches.

What many samples share (key, encoding, quality of service) is known once per shape and spread over the rows by Arrow;
payloads are copied once, from the receive buffer into the batch. There is no Python object per sample.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zenspark.arrow import SCHEMA, UTC
from zenspark.wire.columns import Columns, Kind, Shape, Spans

SPREAD = 65536
"""How many rows of one value are made at once and used again and again."""
KINDS = {Kind.PUT: "PUT", Kind.DEL: "DELETE"}


def batch_of(columns: Columns, start: int, stop: int, keys: list[str | None], via: str, now_us: int) -> pa.RecordBatch:
    """The rows whose shape has a key, as a record batch; the others are for somebody else."""
    where = slice(start, stop)
    rows = stop - start
    shapes = [columns.shape_at(index) for index in range(len(keys))]
    index = None if len(keys) == 1 else _copied(columns.shape[where], pa.uint32())
    shared = [shared_values(shape, key, via) for shape, key in zip(shapes, keys, strict=True)]
    found = {name: _spread(name, [values[name] for values in shared], index, rows) for name in shared[0]}
    found["payload"] = _gathered(columns.payloads(), where)
    found["attachment"] = _gathered(columns.attachments(), where) if any(s.has_attachment for s in shapes) else None
    ntp64 = _copied(columns.timestamp[where], pa.uint64())
    is_stamped = pc.is_valid(found["timestamp_id"])
    found["timestamp_ntp64"] = _only(is_stamped, ntp64.view(pa.int64()))
    found["timestamp"] = _only(is_stamped, microseconds(ntp64))
    if any(shape.source is not None for shape in shapes):
        numbers = _copied(columns.source_sns()[where], pa.uint32()).cast(pa.int64())
        found["source_sn"] = _only(pc.is_valid(found["source_zid"]), numbers)
    if any(shape.kind is Kind.DEL for shape in shapes):
        found["payload"] = _only(pc.equal(found["kind"], "PUT"), found["payload"])
    found["received_at"] = pa.repeat(pa.scalar(now_us, UTC), rows)
    batch = record_batch(found, rows)
    return batch if None not in keys else batch.filter(pc.is_valid(batch.column("key")))


def record_batch(found: dict[str, pa.Array | None], rows: int) -> pa.RecordBatch:
    """A record batch of the schema from the columns there are; the others are null."""
    arrays = [found.get(field.name) for field in SCHEMA]
    filled = [
        pa.nulls(rows, field.type) if array is None else array for field, array in zip(SCHEMA, arrays, strict=True)
    ]
    return pa.RecordBatch.from_arrays(filled, schema=SCHEMA)


def shared_values(shape: Shape, key: str | None, via: str) -> dict[str, Any]:
    """What all rows of one shape have in the columns that do not differ by row."""
    source = shape.source
    return {
        "key": key,
        "kind": KINDS[shape.kind],
        "encoding": str(shape.encoding),
        "timestamp_id": None if shape.timestamp_id is None else str(shape.timestamp_id),
        "source_zid": None if source is None else str(source.zid),
        "source_eid": None if source is None else source.eid,
        "priority": shape.qos.priority.name,
        "congestion": shape.qos.congestion.name,
        "express": shape.qos.express,
        "reliable": shape.reliable,
        "via": via,
    }


@lru_cache(maxsize=1024)
def _constant(name: str, value: str | int | bool | None) -> pa.Array:
    return pa.repeat(pa.scalar(value, SCHEMA.field(name).type), SPREAD)


def _spread(name: str, values: list[Any], index: pa.Array | None, rows: int) -> pa.Array:
    """A column from the values of its shapes: all rows alike without an index, else by it."""
    if index is not None:
        return pa.array(values, SCHEMA.field(name).type).take(index)
    if rows <= SPREAD:
        return _constant(name, values[0])[:rows]
    return pa.repeat(pa.scalar(values[0], SCHEMA.field(name).type), rows)


def microseconds(ntp64: pa.Array) -> pa.Array:
    """Clock readings as Unix time in microseconds, rounded."""
    seconds = pc.cast(pc.shift_right(ntp64, pa.scalar(32, pa.uint64())), pa.int64())
    fraction = pc.bit_wise_and(ntp64, pa.scalar(0xFFFF_FFFF, pa.uint64()))
    scaled = pc.add(pc.multiply(fraction, pa.scalar(1_000_000, pa.uint64())), pa.scalar(1 << 31, pa.uint64()))
    micros = pc.shift_right(scaled, pa.scalar(32, pa.uint64()))
    return pc.cast(pc.add(pc.multiply(seconds, 1_000_000), pc.cast(micros, pa.int64())), UTC)


def _copied(view: memoryview, kind: pa.DataType) -> pa.Array:
    """A copy of a column of the wire: its memory is used again for the next rows."""
    return pa.Array.from_buffers(kind, len(view), [None, pa.py_buffer(view.tobytes())])


def _gathered(spans: Spans, where: slice) -> pa.Array:
    found = spans.gather()
    validity = None if found.validity is None else pa.py_buffer(found.validity)
    buffers = [validity, pa.py_buffer(found.offsets), pa.py_buffer(found.data)]
    return pa.Array.from_buffers(pa.binary(), spans.count, buffers, found.null_count)[where]


def _only(is_valid: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(is_valid, values, pa.scalar(None, values.type))
