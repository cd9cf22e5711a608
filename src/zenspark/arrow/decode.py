"""Columns of the wire as record batches, in two steps.

`chunk_from_rows` copies what differs from row to row out of the receive buffer, once, and notes what the rows have in values:
this is all that whoever reads the network waits for. `concat_chunks` makes one record batch of many chunks: payloads stay
where they are, one behind the other on a arena, and columns in which all rows are alike, as most are, are slices of
those of a batch made before. There is no Python object per sample.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise, starmap
from typing import NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.arrow.schema import SCHEMA, UTC
from zenspark.transport.receiver import PushRun
from zenspark.wire.columns import Columns, Kind, Shape, Spans, room
from zenspark.wire.values import Encoding, EntityId, QoS, ZenohId

MAX_CACHED_ROWS = 65536
"""How many rows of one value are made at most to be used again and again."""
MAX_CACHED_TEMPLATES = 100_000
"""How many shapes are remembered, each with its key: more would let whoever publishes ever new keys fill the memory."""
MAX_CACHED_TEXT_CHARACTERS = 64
"""The longest text of which so many are kept."""
COLUMN_INDEX = {name: place for place, name in enumerate(SCHEMA.names)}
FIELDS = {field.name: field for field in SCHEMA}
KIND_NAMES = {Kind.PUT: "PUT", Kind.DEL: "DELETE"}
INDEX, NTP64, SN, OFFSET, RUN_END = pa.uint32(), pa.uint64(), pa.uint32(), pa.int32(), pa.int32()
MIN_ARENA_BYTES, MAX_ARENA_BYTES = 1 << 16, 1 << 22
"""Bytes of memory that several chunks share;"""
GROW_BELOW_SECONDS, SHRINK_ABOVE_SECONDS = 0.1, 1.0
"""in seconds, when the next is to be larger, and when smaller."""

Value: TypeAlias = str | int | bool | None


class SharedValues(NamedTuple):
    """What rows have in values: the columns of the schema that do not differ from one to the next."""

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
        kind: Kind,
        encoding: Encoding,
        qos: QoS,
        reliable: bool,
        timestamp_id: ZenohId | None,
        source: EntityId | None,
        via: str | None,
    ) -> SharedValues:
        """The values as the schema has them."""
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
    """Rows that came together. A column that no row has anything in is None, as is the index where all are alike."""

    shared: tuple[SharedValues, ...]
    index: pa.Array | None
    """For each row the place of what it has in values with others."""
    payload: pa.Array
    attachment: pa.Array | None
    ntp64: pa.Array | None
    """Clock readings; they mean something in rows that name a clock."""
    sn: pa.Array | None
    """Sequence numbers of publishers; they mean something in rows that name one."""
    received_at: int
    size: int
    """How many bytes of payload it brings, more or less."""
    arena: PayloadArena | None = None
    """Where its payload lies, if with those of others."""

    def is_contiguous_with(self, other: RowChunk) -> bool:
        """Whether the payload of another lies right behind, so that both are one without a copy."""
        payload = self.payload
        return other.arena is self.arena is not None and other.payload.offset == payload.offset + len(payload)

    @property
    def num_rows(self) -> int:
        return len(self.payload)

    def split(self, rows: int) -> tuple[RowChunk, RowChunk]:
        """The first so many rows, and the others."""
        return self._with(lambda array: array[:rows], self.arena), self._with(lambda array: array[rows:], self.arena)

    def drop_unmatched(self) -> RowChunk:
        """Only the rows that have a key."""
        if None not in (values.key for values in self.shared):
            return self
        has_key = pa.array([values.key is not None for values in self.shared])
        mask = pa.repeat(has_key[0], self.num_rows) if self.index is None else has_key.take(self.index)
        return self._with(lambda array: array.filter(mask))

    def _with(self, change: Callable[[pa.Array], pa.Array], arena: PayloadArena | None = None) -> RowChunk:
        columns = (self.index, self.payload, self.attachment, self.ntp64, self.sn)
        index, payload, attachment, ntp64, sn = (None if one is None else change(one) for one in columns)
        return RowChunk(self.shared, index, payload, attachment, ntp64, sn, self.received_at, self.size, arena)


# -- from the wire -------------------------------------------------------------------------------------------------


class ChunkTemplate:
    """Shapes that differ only in their keys, as far as chunks are concerned."""

    __slots__ = ("_common", "has_attachment", "has_source", "has_stamp", "is_put", "shared")

    def __init__(self, shape: Shape, via: str) -> None:
        one = shape
        self._common = SharedValues.of(
            None, one.kind, one.encoding, one.qos, one.reliable, one.timestamp_id, one.source, via
        )[1:]
        self.shared: dict[str | None, SharedValues] = {}
        """By key what rows have in values."""
        self.is_put = one.kind is Kind.PUT
        self.has_attachment = one.has_attachment
        self.has_stamp = one.timestamp_id is not None
        self.has_source = one.source is not None

    def on(self, key: str | None) -> SharedValues:
        """What rows on a key have in values; from then on it is known."""
        values = self.shared[key] = SharedValues(key, *self._common)
        return values


class TemplateCache:
    """What was found out about the shapes that came from some neighbours, by all but their keys."""

    __slots__ = ("_templates", "size")

    def __init__(self) -> None:
        self._templates: dict[tuple[str, ZenohId | None], dict[object, ChunkTemplate]] = {}
        self.size = 0
        """How many keys are known, again for each template."""

    def templates(self, pushes: PushRun, via: str) -> list[ChunkTemplate]:
        """Those of the shapes of some publications."""
        if self.size >= MAX_CACHED_TEMPLATES:
            self._templates.clear()
            self.size = 0
        known = self._templates.setdefault((via, pushes.timestamped_by), {})
        found = []
        for index in range(pushes.columns.shape_count):
            meta, _, _, *others = pushes.columns.signature(index)  # without both parts of the key
            keyless = (meta, *others) if others else meta
            template = known.get(keyless)
            if template is None:
                # Publications on ever new keys are mostly of a few shapes but for the key; to decode one takes long.
                template = known[keyless] = ChunkTemplate(pushes.shape_at(index), via)
            found.append(template)
        return found

    def values(self, template: ChunkTemplate, key: str | None) -> SharedValues:
        """What rows of a shape have in values."""
        values = template.shared.get(key)
        if values is None:
            values = template.on(key)
            self.size += 1
        return values


class PayloadArena:
    """Memory for the payloads of several chunks, one behind the other: so they are one column without a copy."""

    __slots__ = ("_data", "_offsets", "_views", "rows")

    def __init__(self, rows: int, size: int) -> None:
        offsets, data = room((rows + 1) * OFFSET.byte_width), room(size)
        self._views = memoryview(offsets).cast("i"), memoryview(data)
        self._views[0][0] = 0
        self._offsets, self._data = pa.py_buffer(offsets), pa.py_buffer(data)
        self.rows = 0

    def add(self, spans: Spans) -> int:
        """Copies payloads behind those that are here; how many bytes they have, less than 0 if there is no room."""
        offsets, data = self._views
        size: int = spans.gather_behind(offsets[self.rows :], data)
        if size >= 0:
            self.rows += spans.count
        return size

    def payload(self, first: int, count: int) -> pa.Array:
        """Some rows, as a part of all."""
        return pa.Array.from_buffers(pa.binary(), count, [None, self._offsets, self._data], 0, first)

    def column(self, first: int, count: int) -> pa.Array:
        """Some rows, by themselves where they lie: whoever pickles them has no others."""
        start, stop = self._views[0][first], self._views[0][first + count]
        own = pa.Array.from_buffers(OFFSET, count + 1, [None, self._offsets.slice(first * OFFSET.byte_width)], 0)
        offsets = pc.subtract(own, pa.scalar(start, OFFSET)).buffers()[1]
        return pa.Array.from_buffers(pa.binary(), count, [None, offsets, self._data.slice(start, stop - start)], 0)


class ArenaPool:
    """Has arenas, one after the other, each as large as what comes within a fraction of a second.

    That is what somebody keeps who keeps one chunk.
    """

    def __init__(self) -> None:
        self.arena = PayloadArena(0, 0)
        self._size = MIN_ARENA_BYTES
        self._begun = 0.0

    def add(self, spans: Spans) -> int:
        """Copies payloads, all of them there, behind those that are on the arena, or on a new one; their bytes."""
        size = self.arena.add(spans)
        if size < 0:
            self._begin(spans.count, spans.measure())
            size = self.arena.add(spans)
        return size

    def _begin(self, rows: int, size: int) -> None:
        """A new arena, for at least so many rows and bytes, and more of the same kind."""
        now = time.monotonic()
        lasted, self._begun = now - self._begun, now
        if lasted < GROW_BELOW_SECONDS:
            self._size = min(self._size * 2, MAX_ARENA_BYTES)
        elif lasted > SHRINK_ABOVE_SECONDS:
            self._size = max(self._size // 2, MIN_ARENA_BYTES)
        times = max(self._size // max(size, rows), 1)
        self.arena = PayloadArena(rows * times, max(size, self._size))


def chunk_from_rows(
    pushes: PushRun, keys: list[str | None], via: str, now_us: int, memory: TemplateCache, pool: ArenaPool | None = None
) -> RowChunk:
    """The rows whose shape has a key, copied unless they last, onto a pool; the others are for somebody else."""
    columns = pushes.columns
    where = slice(pushes.start, pushes.stop)
    templates = memory.templates(pushes, via)
    shapes = set(templates)
    payload, size, arena = _payload_column(pushes, pool, all_put=all(one.is_put for one in shapes))
    chunk = RowChunk(
        tuple(map(memory.values, templates, keys)),
        None if len(keys) == 1 else _copy_column(columns.shape[where], INDEX),
        payload,
        _pack_binary(columns.attachments(), where) if any(one.has_attachment for one in shapes) else None,
        _copy_column(columns.timestamp[where], NTP64) if any(one.has_stamp for one in shapes) else None,
        _copy_column(columns.source_sns()[where], SN) if any(one.has_source for one in shapes) else None,
        now_us,
        size,
        arena,
    )
    return chunk.drop_unmatched()


def _payload_column(
    pushes: PushRun, pool: ArenaPool | None, *, all_put: bool
) -> tuple[pa.Array, int, PayloadArena | None]:
    """The payloads, their bytes, and where they lie with others, if they do."""
    columns = pushes.columns
    if pushes.owns_buffer and all_put:
        return _zero_copy_payload(columns), len(columns.data), None
    spans = columns.payloads()
    if pool is None or not all_put:
        payload = _pack_binary(spans, slice(pushes.start, pushes.stop))
        return payload, payload.buffers()[2].size, None
    size = pool.add(spans)
    arena = pool.arena
    return arena.payload(arena.rows - spans.count + pushes.start, pushes.stop - pushes.start), size, arena


def _copy_column(view: memoryview, kind: pa.DataType) -> pa.Array:
    """A copy of a column of the wire: its memory is used again for the next rows."""
    return pa.Array.from_buffers(kind, len(view), [None, pa.py_buffer(view.tobytes())])


def _zero_copy_payload(columns: Columns) -> pa.Array:
    """The payload of the one row there is, where it lies."""
    bounds = pa.py_buffer(columns.payload_start.tobytes() + columns.payload_stop.tobytes())
    return pa.Array.from_buffers(pa.binary(), 1, [None, bounds, pa.py_buffer(columns.data)])


def _pack_binary(spans: Spans, where: slice) -> pa.Array:
    found = spans.gather()
    validity = None if found.validity is None else pa.py_buffer(found.validity)
    buffers = [validity, pa.py_buffer(found.offsets), pa.py_buffer(found.data)]
    return pa.Array.from_buffers(pa.binary(), spans.count, buffers, found.null_count)[where]


# -- to a record batch ---------------------------------------------------------------------------------------------


class ConcatenatedColumns(msgspec.Struct, frozen=True):
    """Many chunks as one: a value for each row where rows differ, and what they have in values only once.

    A column that no row has anything in is None.
    """

    rows: int
    shared: tuple[SharedValues, ...]
    """What rows have in values,"""
    index: pa.Array | None
    """and for each row the place of its values there; None where all are alike."""
    payload: pa.Array
    attachment: pa.Array | None
    ntp64: pa.Array | None
    sn: pa.Array | None
    received_at: pa.RunEndEncodedArray

    @property
    def values(self) -> dict[str, tuple[Value, ...]]:
        """By column what rows have in values."""
        return dict(zip(SharedValues._fields, zip(*self.shared, strict=True), strict=True))

    def named(self, names: str, column: pa.Array | None) -> pa.Array | None:
        """A column only where rows have a value of that name."""
        has_name = [getattr(values, names) is not None for values in self.shared]
        if column is None or all(has_name):
            return column
        if self.index is None:
            return None
        return pc.if_else(pa.array(has_name).take(self.index), column, None)


def concat_columns(chunks: Sequence[RowChunk]) -> ConcatenatedColumns:
    """The rows of chunks, none of them empty, behind one another."""
    places: dict[SharedValues, int] = {}
    known = {id(values): values for chunk in chunks for values in chunk.shared}  # to compare them takes longer
    numbers = {number: places.setdefault(values, len(places)) for number, values in known.items()}
    return ConcatenatedColumns(
        sum(chunk.num_rows for chunk in chunks),
        tuple(places),
        None if len(places) == 1 else pa.concat_arrays([_index(chunk, numbers) for chunk in chunks]),
        _concat_payloads(chunks),
        _concat_optional(chunks, [chunk.attachment for chunk in chunks]),
        _concat_optional(chunks, [chunk.ntp64 for chunk in chunks]),
        _concat_optional(chunks, [chunk.sn for chunk in chunks]),
        _received_at_column(chunks),
    )


def concat_chunks(chunks: Sequence[RowChunk]) -> pa.RecordBatch:
    """One record batch of the schema from chunks, none of them empty."""
    all_rows = concat_columns(chunks)
    batch = _shared_batch(all_rows)
    for name, column in _row_columns(all_rows):
        if column is not None:
            batch = batch.set_column(COLUMN_INDEX[name], FIELDS[name], column)
    return batch


def _row_columns(all_rows: ConcatenatedColumns) -> Iterator[tuple[str, pa.Array | None]]:
    """The columns in which rows differ, None where no row has anything."""
    yield "payload", all_rows.payload
    yield "attachment", all_rows.attachment
    ntp64 = all_rows.named("timestamp_id", all_rows.ntp64)
    if ntp64 is not None:
        yield "timestamp_ntp64", ntp64.view(pa.int64())
        yield "timestamp", ntp64_to_microseconds(ntp64)
    sn = all_rows.named("source_zid", all_rows.sn)
    yield "source_sn", None if sn is None else sn.cast(pa.int64())
    yield "received_at", pc.run_end_decode(all_rows.received_at)


def _shared_batch(all_rows: ConcatenatedColumns) -> pa.RecordBatch:
    """What rows have in values, with nothing in the other columns."""
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
    """For each row of a chunk the place of what it has in values, among those of all chunks, given by their ids."""
    own = pa.array([numbers[id(values)] for values in chunk.shared], INDEX)
    return pa.repeat(own[0], chunk.num_rows) if chunk.index is None else own.take(chunk.index)


def _concat_optional(chunks: Sequence[RowChunk], arrays: list[pa.Array | None]) -> pa.Array | None:
    """The arrays of the chunks behind one another, null where one has none; None if none of them has one."""
    there = [array for array in arrays if array is not None]
    if len(arrays) == 1 or not there:
        return arrays[0]
    return pa.concat_arrays(
        pa.nulls(chunk.num_rows, there[0].type) if array is None else array
        for chunk, array in zip(chunks, arrays, strict=True)
    )


def _concat_payloads(chunks: Sequence[RowChunk]) -> pa.Array:
    """The payloads of the chunks behind one another: where they lie, if they do so, else copied."""
    first, last = chunks[0], chunks[-1]
    if first.arena is not None and all(starmap(RowChunk.is_contiguous_with, pairwise(chunks))):  # and so of one arena
        start = first.payload.offset
        return first.arena.column(start, last.payload.offset + last.num_rows - start)
    return _concat_optional(chunks, [chunk.payload for chunk in chunks])


def _received_at_column(chunks: Sequence[RowChunk]) -> pa.RunEndEncodedArray:
    """For each row when its chunk came."""
    ends = _number_column(RUN_END, "i", accumulate(chunk.num_rows for chunk in chunks))
    return pa.RunEndEncodedArray.from_arrays(ends, _number_column(UTC, "q", (chunk.received_at for chunk in chunks)))


def _number_column(kind: pa.DataType, form: str, values: Iterable[int]) -> pa.Array:
    """A few numbers that are there: quicker than what looks for others."""
    numbers = array(form, values)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)], 0)


def _take_shared(kind: pa.DataType, values: tuple[Value, ...], index: pa.Array | None, rows: int) -> pa.Array:
    """A column from the values rows have in values."""
    if index is None or len(set(values)) == 1:
        return constant_column(kind, values[0], rows)
    return pa.array(values, kind).take(index)


def constant_column(kind: pa.DataType, value: Value, rows: int) -> pa.Array:
    """A column of one value, part of one made before if that is not too much to keep."""
    if rows > MAX_CACHED_ROWS or _is_too_long_to_cache(value):
        return pa.repeat(pa.scalar(value, kind), rows)
    return _cached_constant_column(kind, value, _round_up_to_power_of_two(rows))[:rows]


def _is_too_long_to_cache(value: Value) -> bool:
    """Whether so many of a value are too much to keep."""
    return isinstance(value, str) and len(value) > MAX_CACHED_TEXT_CHARACTERS


def _round_up_to_power_of_two(rows: int) -> int:
    """A power of two from so many on."""
    return 1 << (rows - 1).bit_length() if rows else 0


@lru_cache(maxsize=256)
def _cached_constant_column(kind: pa.DataType, value: Value, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), rows)


def ntp64_to_microseconds(ntp64: pa.Array) -> pa.Array:
    """Clock readings as Unix time in microseconds, rounded."""
    seconds = pc.cast(pc.shift_right(ntp64, pa.scalar(32, pa.uint64())), pa.int64())
    fraction = pc.bit_wise_and(ntp64, pa.scalar(0xFFFF_FFFF, pa.uint64()))
    scaled = pc.add(pc.multiply(fraction, pa.scalar(1_000_000, pa.uint64())), pa.scalar(1 << 31, pa.uint64()))
    micros = pc.shift_right(scaled, pa.scalar(32, pa.uint64()))
    return pc.cast(pc.add(pc.multiply(seconds, 1_000_000), pc.cast(micros, pa.int64())), UTC)
