"""Decodes PUSH rows into Arrow record batches, in two steps.

`chunk_from_rows` copies the values that differ between rows out of the receive buffer, once, and keeps the values rows
share: that is all that the reading thread waits for. `concat_chunks` makes one record batch of many chunks: payloads
stay where they are, contiguous in a payload arena, and constant columns, as most are, are slices of cached ones. There
is no Python object per sample.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise, starmap
from typing import NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.arrow.arena import ArenaPool, PayloadArena
from zenspark.arrow.schema import KIND_NAMES, SCHEMA, UTC
from zenspark.wire.columns import BinaryColumn, PushColumns, PushRun, PushTemplate, RowKind
from zenspark.wire.values import Encoding, EntityId, QoS, ZenohId

MAX_CACHED_ROWS = 65536
"""Rows of a constant column up to which it is cached for reuse."""
MAX_CACHED_TEMPLATE_KEYS = 100_000
"""Keys cached over all templates: more would let a publisher of ever new keys fill the memory."""
MAX_CACHED_TEXT_CHARACTERS = 64
"""Characters of a text up to which a constant column of it is cached."""
COLUMN_INDEX = {name: position for position, name in enumerate(SCHEMA.names)}
SCHEMA_FIELDS = {field.name: field for field in SCHEMA}
INDEX, NTP64, SN, RUN_END = pa.uint32(), pa.uint64(), pa.uint32(), pa.int32()

Value: TypeAlias = str | int | bool | None


class SharedValues(NamedTuple):
    """The values that all rows of one template and key share, in the columns of the schema."""

    key: str | None
    kind: str
    encoding: str
    timestamp_id: str | None
    source_zid: str | None
    source_eid: int | None
    priority: str
    congestion: str
    express: bool
    reliable: bool
    via: str | None

    @staticmethod
    def of(
        key: str | None,
        kind: RowKind,
        encoding: Encoding,
        qos: QoS,
        reliable: bool,
        timestamp_id: ZenohId | None,
        source: EntityId | None,
        via: str | None,
    ) -> SharedValues:
        """Convert wire values to those of the schema."""
        return SharedValues(
            key,
            KIND_NAMES[kind],
            str(encoding),
            None if timestamp_id is None else str(timestamp_id),
            None if source is None else str(source.zid),
            None if source is None else source.eid,
            qos.priority.name,
            qos.congestion.name,
            qos.express,
            reliable,
            via,
        )


class RowChunk(msgspec.Struct, frozen=True):
    """Rows of one run. A column without any value is None, as is the index if all rows share their values."""

    shared: tuple[SharedValues, ...]
    index: pa.Array | None
    """The index into `shared` for each row."""
    payload: pa.Array
    attachment: pa.Array | None
    ntp64: pa.Array | None
    """NTP64 times; valid in rows with a `timestamp_id`."""
    sn: pa.Array | None
    """Source sequence numbers; valid in rows with a `source_zid`."""
    received_at: int
    size: int
    """The approximate payload bytes."""
    arena: PayloadArena | None = None
    """The arena that holds its payload together with those of other chunks."""

    def is_contiguous_with(self, other: RowChunk) -> bool:
        """Return whether the payload of another chunk follows in the arena, so that both concatenate without a copy."""
        payload = self.payload
        return other.arena is self.arena is not None and other.payload.offset == payload.offset + len(payload)

    @property
    def num_rows(self) -> int:
        return len(self.payload)

    def split(self, rows: int) -> tuple[RowChunk, RowChunk]:
        """Return the first `rows` rows, and the others."""
        head = self._map_columns(lambda array: array[:rows], self.arena)
        return head, self._map_columns(lambda array: array[rows:], self.arena)

    def drop_unmatched(self) -> RowChunk:
        """Return only the rows that have a key."""
        if None not in (values.key for values in self.shared):
            return self
        has_key = pa.array([values.key is not None for values in self.shared])
        mask = pa.repeat(has_key[0], self.num_rows) if self.index is None else has_key.take(self.index)
        return self._map_columns(lambda array: array.filter(mask))

    def _map_columns(self, change: Callable[[pa.Array], pa.Array], arena: PayloadArena | None = None) -> RowChunk:
        columns = (self.index, self.payload, self.attachment, self.ntp64, self.sn)
        index, payload, attachment, ntp64, sn = (None if column is None else change(column) for column in columns)
        return RowChunk(self.shared, index, payload, attachment, ntp64, sn, self.received_at, self.size, arena)


# -- from the wire -------------------------------------------------------------------------------------------------


class ChunkTemplate:
    """The values shared by row templates that differ only in their keys."""

    __slots__ = ("_shared_values", "has_attachment", "has_source", "has_timestamp", "is_put", "shared")

    def __init__(self, template: PushTemplate, via: str) -> None:
        self._shared_values = SharedValues.of(
            None,
            template.kind,
            template.encoding,
            template.qos,
            template.reliable,
            template.timestamp_id,
            template.source,
            via,
        )[1:]
        self.shared: dict[str | None, SharedValues] = {}
        """The shared values by key."""
        self.is_put = template.kind is RowKind.PUT
        self.has_attachment = template.has_attachment
        self.has_timestamp = template.timestamp_id is not None
        self.has_source = template.source is not None

    def add_key(self, key: str | None) -> SharedValues:
        """Add a key; returns the values its rows share."""
        values = self.shared[key] = SharedValues(key, *self._shared_values)
        return values


class TemplateCache:
    """Cached chunk templates, by neighbour and by all fields of a row template but its key."""

    __slots__ = ("_templates", "size")

    def __init__(self) -> None:
        self._templates: dict[tuple[str, ZenohId | None], dict[object, ChunkTemplate]] = {}
        self.size = 0
        """The number of cached keys over all templates."""

    def templates(self, pushes: PushRun, via: str) -> list[ChunkTemplate]:
        """Return the chunk template of each row template of a run."""
        if self.size >= MAX_CACHED_TEMPLATE_KEYS:
            self._templates.clear()
            self.size = 0
        cached = self._templates.setdefault((via, pushes.timestamped_by), {})
        templates = []
        for index in range(pushes.columns.template_count):
            meta, _, _, *others = pushes.columns.template_key(index)  # without both parts of the key
            keyless = (meta, *others) if others else meta
            template = cached.get(keyless)
            if template is None:
                # Publications on ever new keys mostly differ in nothing but the key; decoding a template is slow.
                template = cached[keyless] = ChunkTemplate(pushes.template_at(index), via)
            templates.append(template)
        return templates

    def values(self, template: ChunkTemplate, key: str | None) -> SharedValues:
        """Return the values that rows of a template on a key share."""
        values = template.shared.get(key)
        if values is None:
            values = template.add_key(key)
            self.size += 1
        return values


def chunk_from_rows(
    pushes: PushRun, keys: list[str | None], via: str, now_us: int, cache: TemplateCache, pool: ArenaPool | None = None
) -> RowChunk:
    """Make a chunk of the rows whose template has a key; payloads are copied unless the run owns its buffer."""
    columns = pushes.columns
    rows = slice(pushes.start, pushes.stop)
    templates = cache.templates(pushes, via)
    distinct = set(templates)
    payload, size, arena = _payload_column(pushes, pool, all_put=all(template.is_put for template in distinct))
    chunk = RowChunk(
        tuple(map(cache.values, templates, keys)),
        None if len(keys) == 1 else _copy_column(columns.template_index[rows], INDEX),
        payload,
        _pack_binary(columns.attachments(), rows) if any(template.has_attachment for template in distinct) else None,
        _copy_column(columns.timestamp[rows], NTP64) if any(template.has_timestamp for template in distinct) else None,
        _copy_column(columns.source_sns()[rows], SN) if any(template.has_source for template in distinct) else None,
        now_us,
        size,
        arena,
    )
    return chunk.drop_unmatched()


def _payload_column(
    pushes: PushRun, pool: ArenaPool | None, *, all_put: bool
) -> tuple[pa.Array, int, PayloadArena | None]:
    """Return the payload column, its bytes, and the arena it is in, if any."""
    columns = pushes.columns
    if pushes.owns_buffer and all_put:
        return _zero_copy_payload(columns), len(columns.data), None
    payloads = columns.payloads()
    if pool is None or not all_put:
        payload = _pack_binary(payloads, slice(pushes.start, pushes.stop))
        return payload, payload.buffers()[2].size, None
    size = pool.add(payloads)
    arena = pool.arena
    return arena.payload(arena.rows - payloads.count + pushes.start, pushes.stop - pushes.start), size, arena


def _copy_column(view: memoryview, kind: pa.DataType) -> pa.Array:
    """Copy a column of the decoder, whose memory is reused for the next rows."""
    return pa.Array.from_buffers(kind, len(view), [None, pa.py_buffer(view.tobytes())])


def _zero_copy_payload(columns: PushColumns) -> pa.Array:
    """Return the payload of the only row in place, without a copy."""
    bounds = pa.py_buffer(columns.payload_start.tobytes() + columns.payload_stop.tobytes())
    return pa.Array.from_buffers(pa.binary(), 1, [None, bounds, pa.py_buffer(columns.data)])


def _pack_binary(column: BinaryColumn, rows: slice) -> pa.Array:
    packed = column.pack()
    validity = None if packed.validity is None else pa.py_buffer(packed.validity)
    buffers = [validity, pa.py_buffer(packed.offsets), pa.py_buffer(packed.data)]
    return pa.Array.from_buffers(pa.binary(), column.count, buffers, packed.null_count)[rows]


# -- to a record batch ---------------------------------------------------------------------------------------------


class ConcatenatedColumns(msgspec.Struct, frozen=True):
    """The columns of several chunks: one value per row where rows differ, and the shared values once.

    A column without any value is None.
    """

    rows: int
    shared: tuple[SharedValues, ...]
    """The distinct shared values."""
    index: pa.Array | None
    """The index into `shared` for each row; None if all rows share their values."""
    payload: pa.Array
    attachment: pa.Array | None
    ntp64: pa.Array | None
    sn: pa.Array | None
    received_at: pa.RunEndEncodedArray

    @property
    def values(self) -> dict[str, tuple[Value, ...]]:
        """The distinct shared values by column."""
        return dict(zip(SharedValues._fields, zip(*self.shared, strict=True), strict=True))

    def null_where_unset(self, name: str, column: pa.Array | None) -> pa.Array | None:
        """Return a column with null in the rows whose shared value `name` is not set."""
        is_set = [getattr(values, name) is not None for values in self.shared]
        if column is None or all(is_set):
            return column
        if self.index is None:
            return None
        return pc.if_else(pa.array(is_set).take(self.index), column, None)


def concat_columns(chunks: Sequence[RowChunk]) -> ConcatenatedColumns:
    """Concatenate the columns of chunks, none of them empty."""
    positions: dict[SharedValues, int] = {}
    by_id = {id(values): values for chunk in chunks for values in chunk.shared}  # comparing each would take longer
    numbers = {number: positions.setdefault(values, len(positions)) for number, values in by_id.items()}
    return ConcatenatedColumns(
        sum(chunk.num_rows for chunk in chunks),
        tuple(positions),
        None if len(positions) == 1 else pa.concat_arrays([_index(chunk, numbers) for chunk in chunks]),
        _concat_payloads(chunks),
        _concat_optional(chunks, [chunk.attachment for chunk in chunks]),
        _concat_optional(chunks, [chunk.ntp64 for chunk in chunks]),
        _concat_optional(chunks, [chunk.sn for chunk in chunks]),
        _received_at_column(chunks),
    )


def concat_chunks(chunks: Sequence[RowChunk]) -> pa.RecordBatch:
    """Concatenate chunks, none of them empty, into one record batch of the sample schema."""
    all_rows = concat_columns(chunks)
    batch = _shared_batch(all_rows)
    for name, column in _row_columns(all_rows):
        if column is not None:
            batch = batch.set_column(COLUMN_INDEX[name], SCHEMA_FIELDS[name], column)
    return batch


def _row_columns(all_rows: ConcatenatedColumns) -> Iterator[tuple[str, pa.Array | None]]:
    """Yield the columns with a value per row, None if no row has one."""
    yield "payload", all_rows.payload
    yield "attachment", all_rows.attachment
    ntp64 = all_rows.null_where_unset("timestamp_id", all_rows.ntp64)
    if ntp64 is not None:
        yield "timestamp_ntp64", ntp64.view(pa.int64())
        yield "timestamp", ntp64_to_microseconds(ntp64)
    sn = all_rows.null_where_unset("source_zid", all_rows.sn)
    yield "source_sn", None if sn is None else sn.cast(pa.int64())
    yield "received_at", pc.run_end_decode(all_rows.received_at)


def _shared_batch(all_rows: ConcatenatedColumns) -> pa.RecordBatch:
    """Return a batch with the shared values, and null in the other columns."""
    first, rows = all_rows.shared[0], all_rows.rows
    if all_rows.index is None and rows <= MAX_CACHED_ROWS and not any(map(_is_too_long_to_cache, first)):
        return _cached_constant_batch(first, _round_up_to_power_of_two(rows)).slice(0, rows)
    return _batch_from_shared(all_rows.values, all_rows.index, rows)


@lru_cache(maxsize=16)
def _cached_constant_batch(values: SharedValues, rows: int) -> pa.RecordBatch:
    return _batch_from_shared({name: (value,) for name, value in values._asdict().items()}, None, rows)


def _batch_from_shared(values: dict[str, tuple[Value, ...]], index: pa.Array | None, rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [_take_shared(field.type, values.get(field.name, (None,)), index, rows) for field in SCHEMA], schema=SCHEMA
    )


def _index(chunk: RowChunk, numbers: dict[int, int]) -> pa.Array:
    """Return the index of a chunk, translated to that of all chunks; `numbers` maps ids of shared values to it."""
    translated = pa.array([numbers[id(values)] for values in chunk.shared], INDEX)
    return pa.repeat(translated[0], chunk.num_rows) if chunk.index is None else translated.take(chunk.index)


def _concat_optional(chunks: Sequence[RowChunk], arrays: list[pa.Array | None]) -> pa.Array | None:
    """Concatenate one column of the chunks, with null where a chunk has none; None if none of them has one."""
    present = [array for array in arrays if array is not None]
    if len(arrays) == 1 or not present:
        return arrays[0]
    return pa.concat_arrays(
        pa.nulls(chunk.num_rows, present[0].type) if array is None else array
        for chunk, array in zip(chunks, arrays, strict=True)
    )


def _concat_payloads(chunks: Sequence[RowChunk]) -> pa.Array:
    """Concatenate the payloads of chunks: in place if they are contiguous in one arena, else by a copy."""
    first, last = chunks[0], chunks[-1]
    if first.arena is not None and all(
        starmap(RowChunk.is_contiguous_with, pairwise(chunks))
    ):  # so all are in one arena
        start = first.payload.offset
        return first.arena.column(start, last.payload.offset + last.num_rows - start)
    return _concat_optional(chunks, [chunk.payload for chunk in chunks])


def _received_at_column(chunks: Sequence[RowChunk]) -> pa.RunEndEncodedArray:
    """Return the reception time of each row."""
    ends = _number_column(RUN_END, "i", accumulate(chunk.num_rows for chunk in chunks))
    return pa.RunEndEncodedArray.from_arrays(ends, _number_column(UTC, "q", (chunk.received_at for chunk in chunks)))


def _number_column(kind: pa.DataType, form: str, values: Iterable[int]) -> pa.Array:
    """Make a column of numbers without null: faster than `pa.array`, which looks for them."""
    numbers = array(form, values)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)], 0)


def _take_shared(kind: pa.DataType, values: tuple[Value, ...], index: pa.Array | None, rows: int) -> pa.Array:
    """Make a column of shared values."""
    if index is None or len(set(values)) == 1:
        return constant_column(kind, values[0], rows)
    return pa.array(values, kind).take(index)


def constant_column(kind: pa.DataType, value: Value, rows: int) -> pa.Array:
    """Make a column of one value, as a slice of a cached one if it is small enough."""
    if rows > MAX_CACHED_ROWS or _is_too_long_to_cache(value):
        return pa.repeat(pa.scalar(value, kind), rows)
    return _cached_constant_column(kind, value, _round_up_to_power_of_two(rows))[:rows]


def _is_too_long_to_cache(value: Value) -> bool:
    """Return whether a constant column of a value is too large to cache."""
    return isinstance(value, str) and len(value) > MAX_CACHED_TEXT_CHARACTERS


def _round_up_to_power_of_two(rows: int) -> int:
    """Return the smallest power of two that is not less, 0 for 0."""
    return 1 << (rows - 1).bit_length() if rows else 0


@lru_cache(maxsize=256)
def _cached_constant_column(kind: pa.DataType, value: Value, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), rows)


def ntp64_to_microseconds(ntp64: pa.Array) -> pa.Array:
    """Convert NTP64 times to Unix time in microseconds, rounded."""
    seconds = pc.cast(pc.shift_right(ntp64, pa.scalar(32, pa.uint64())), pa.int64())
    fraction = pc.bit_wise_and(ntp64, pa.scalar(0xFFFF_FFFF, pa.uint64()))
    scaled = pc.add(pc.multiply(fraction, pa.scalar(1_000_000, pa.uint64())), pa.scalar(1 << 31, pa.uint64()))
    micros = pc.shift_right(scaled, pa.scalar(32, pa.uint64()))
    return pc.cast(pc.add(pc.multiply(seconds, 1_000_000), pc.cast(micros, pa.int64())), UTC)
