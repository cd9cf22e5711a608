"""Order of the samples of a key: by HLC timestamp, then by the clock's id, then by recording order.

A sample without a timestamp (routers do not stamp DEL) is newer than everything its recorder had recorded before; its
time is its reception time, or that of the sample it replaces if that is later. A clock reading is an unsigned number in
a signed column; ids are compared byte by byte from the lowest on, as eclipse-zenoh does.

All functions work on whole columns, because there are millions of rows per second.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.arrow.encode import ntp64_from_microseconds
from zenspark.wire.values import ZenohId

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

NO_CLOCK = 0
"""Id of a missing clock: the sample has no timestamp."""


class StringIds:
    """Integer ids of strings with few distinct values; 0 is null."""

    def __init__(self) -> None:
        self.texts: list[str | None] = [None]
        self._numbers: dict[str | None, int] = {None: 0}

    def ids(self, column: pa.Array) -> Numbers:
        """The id of each row of a string column."""
        coded = pc.dictionary_encode(column)
        distinct = np.array([self._id_of(text) for text in coded.dictionary.to_pylist()] or [0], np.uint32)
        indices = pc.fill_null(coded.indices, len(distinct)).to_numpy(zero_copy_only=False)
        ids: Numbers = np.append(distinct, np.uint32(0))[indices]
        return ids

    def _id_of(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number


class ClockRanks(StringIds):
    """Ids of HLC clocks, and their order."""

    def __init__(self) -> None:
        super().__init__()
        self._ranks: Numbers = np.zeros(0, np.uint32)

    def ranks(self, numbers: Numbers) -> Numbers:
        """Rank of each clock among all; a missing clock is last."""
        if len(self._ranks) < len(self.texts):
            ids = [ZenohId.parse(text).value.to_bytes(ZenohId.MAX_BYTES, "little") for text in self.texts if text]
            self._ranks = np.empty(len(self.texts), np.uint32)
            self._ranks[NO_CLOCK] = len(ids)
            self._ranks[1 + np.array(sorted(range(len(ids)), key=ids.__getitem__), np.intp)] = np.arange(len(ids))
        ranks: Numbers = self._ranks[numbers]
        return ranks


class SampleOrder(msgspec.Struct):
    """The columns that define the order of samples: timestamp, clock, recorder and offset."""

    ntp64: Numbers
    clock: Numbers
    recorder: Numbers
    offset: Numbers

    @classmethod
    def from_rows(cls, rows: pa.RecordBatch, clocks: ClockRanks, recorders: StringIds) -> SampleOrder:
        """Read the order of rows of a journal or a table; in the latter, other tools may have omitted values."""
        readings = pc.coalesce(rows.column("timestamp_ntp64"), ntp64_from_microseconds(rows.column("received_at")), 0)
        clock = clocks.ids(rows.column("timestamp_id"))
        if rows.column("timestamp_ntp64").null_count:
            clock[pc.is_null(rows.column("timestamp_ntp64")).to_numpy(zero_copy_only=False)] = NO_CLOCK
        return cls(
            readings.to_numpy(zero_copy_only=False)
            .view(np.uint64)
            .copy(),  # a copy: rows without timestamp are changed
            clock,
            recorders.ids(rows.column("recorder")),
            pc.fill_null(rows.column("offset"), 0).to_numpy(zero_copy_only=False),
        )

    @classmethod
    def zeros(cls, size: int) -> SampleOrder:
        """Allocate `size` entries that are older than any sample."""
        return cls(
            np.zeros(size, np.uint64), np.zeros(size, np.uint32), np.zeros(size, np.uint32), np.zeros(size, np.int64)
        )

    def __len__(self) -> int:
        return len(self.ntp64)

    def take(self, indexes: Numbers) -> SampleOrder:
        """Select entries."""
        return SampleOrder(self.ntp64[indexes], self.clock[indexes], self.recorder[indexes], self.offset[indexes])

    def assign(self, indexes: Numbers, orders: SampleOrder) -> None:
        """Assign entries."""
        self.ntp64[indexes] = orders.ntp64
        self.clock[indexes] = orders.clock
        self.recorder[indexes] = orders.recorder
        self.offset[indexes] = orders.offset

    def resize(self, size: int) -> SampleOrder:
        """Copy to a larger capacity."""
        resized = SampleOrder.zeros(size)
        resized.assign(np.arange(len(self)), self)
        return resized


def select_newest_rows(codes: Numbers, orders: SampleOrder, stored: SampleOrder, clocks: ClockRanks) -> Numbers:
    """Find the newest row of each key; `codes` has the key of each row.

    `stored` has the newest stored sample of each key. Rows without a timestamp are assigned their effective one.
    """
    rows = _raise_without_timestamp(codes, orders, stored)
    greatest = np.zeros(len(stored), np.uint64)
    np.maximum.at(greatest, codes[rows], orders.ntp64[rows])
    rows = rows[orders.ntp64[rows] == greatest[codes[rows]]]
    if len(rows) > len(stored):
        rows = rows[np.lexsort((rows, clocks.ranks(orders.clock[rows])))]
    newest = np.empty(len(stored), np.intp)
    newest[codes[rows]] = rows  # of several rows of a key the last assignment wins
    return newest


def _raise_without_timestamp(codes: Numbers, orders: SampleOrder, stored: SampleOrder) -> Numbers:
    """Raise rows without timestamp above all earlier ones of their recorder; returns rows that can be the newest."""
    rows = np.arange(len(codes))
    without_timestamp = np.flatnonzero(orders.clock == NO_CLOCK)
    if not len(without_timestamp):
        return rows
    last = np.full(len(stored), -1, np.intp)
    last[codes[without_timestamp]] = without_timestamp
    is_earlier = rows < last[codes]
    raised = last[last >= 0]
    keys = codes[raised]
    is_later = (stored.recorder[keys] == orders.recorder[raised]) & (stored.offset[keys] < orders.offset[raised])
    floor = np.zeros(len(stored), np.uint64)
    floor[keys[is_later]] = stored.ntp64[keys[is_later]]
    np.maximum.at(floor, codes[is_earlier], orders.ntp64[is_earlier])
    orders.ntp64[raised] = np.maximum(orders.ntp64[raised], floor[keys])
    return np.flatnonzero(~is_earlier)


def is_later(orders: SampleOrder, stored: SampleOrder, clocks: ClockRanks) -> Numbers:
    """Mask of samples that are later than the stored one, or have the same timestamp."""
    ranks, stored_ranks = clocks.ranks(orders.clock), clocks.ranks(stored.clock)
    later: Numbers = (orders.ntp64 > stored.ntp64) | ((orders.ntp64 == stored.ntp64) & (ranks >= stored_ranks))
    return later


def is_newer(orders: SampleOrder, stored: SampleOrder, clocks: ClockRanks) -> Numbers:
    """Mask of samples that replace the stored one, independent of the order of rows; the same row never does.

    A sample recorded before one without timestamp is older, whatever its own timestamp.
    """
    is_same_recorder = orders.recorder == stored.recorder
    is_same_time = (orders.ntp64 == stored.ntp64) & (orders.clock == stored.clock)
    was_before = is_same_recorder & (orders.offset <= stored.offset)
    newer: Numbers = is_later(orders, stored, clocks) & ~(was_before & (is_same_time | (stored.clock == NO_CLOCK)))
    return newer
