"""Which sample of a key is the newest: by the hybrid clock, then by the clock's id, then by who was recorded last.

A sample without a timestamp (routers stamp no DEL) counts as made when it was recorded: it is newer than everything its
recorder had received before, and has the time it was received at, or that of what it replaces if that is later. A
clock reading is an unsigned number in a signed column; ids are compared byte by byte from the lowest on, as
eclipse-zenoh does.

Everything here works on whole columns: rows are counted in millions a second, keys much less so.
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
"""The number of no clock."""


class StringIds:
    """Numbers for texts of which there are few; 0 is none."""

    def __init__(self) -> None:
        self.texts: list[str | None] = [None]
        self._numbers: dict[str | None, int] = {None: 0}

    def ids(self, column: pa.Array) -> Numbers:
        """For each row of a text column the number of its text."""
        coded = pc.dictionary_encode(column)
        known = np.array([self._id_of(text) for text in coded.dictionary.to_pylist()] or [0], np.uint32)
        indices = pc.fill_null(coded.indices, len(known)).to_numpy(zero_copy_only=False)
        found: Numbers = np.append(known, np.uint32(0))[indices]
        return found

    def _id_of(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number


class ClockRanks(StringIds):
    """The clocks that stamp samples, and their order."""

    def __init__(self) -> None:
        super().__init__()
        self._ranks: Numbers = np.zeros(0, np.uint32)

    def ranks(self, numbers: Numbers) -> Numbers:
        """Where clocks stand among all; who has none stands last."""
        if len(self._ranks) < len(self.texts):
            ids = [ZenohId.parse(text).value.to_bytes(ZenohId.MAX_BYTES, "little") for text in self.texts if text]
            self._ranks = np.empty(len(self.texts), np.uint32)
            self._ranks[NO_CLOCK] = len(ids)
            self._ranks[1 + np.array(sorted(range(len(ids)), key=ids.__getitem__), np.intp)] = np.arange(len(ids))
        found: Numbers = self._ranks[numbers]
        return found


class SampleOrder(msgspec.Struct):
    """When samples were made, and where they are recorded: the columns that decide which is the newest."""

    ntp64: Numbers
    clock: Numbers
    recorder: Numbers
    offset: Numbers

    @classmethod
    def from_rows(cls, rows: pa.RecordBatch, clocks: ClockRanks, recorders: StringIds) -> SampleOrder:
        """Those of rows from a journal or a table, where another tool may have left out what a recorder writes."""
        readings = pc.coalesce(rows.column("timestamp_ntp64"), ntp64_from_microseconds(rows.column("received_at")), 0)
        clock = clocks.ids(rows.column("timestamp_id"))
        if rows.column("timestamp_ntp64").null_count:
            clock[pc.is_null(rows.column("timestamp_ntp64")).to_numpy(zero_copy_only=False)] = NO_CLOCK
        return cls(
            readings.to_numpy(zero_copy_only=False).view(np.uint64).copy(),  # a copy: unstamped ones are changed
            clock,
            recorders.ids(rows.column("recorder")),
            pc.fill_null(rows.column("offset"), 0).to_numpy(zero_copy_only=False),
        )

    @classmethod
    def zeros(cls, size: int) -> SampleOrder:
        """For so many, older than all."""
        return cls(
            np.zeros(size, np.uint64), np.zeros(size, np.uint32), np.zeros(size, np.uint32), np.zeros(size, np.int64)
        )

    def __len__(self) -> int:
        return len(self.ntp64)

    def take(self, places: Numbers) -> SampleOrder:
        """Those at some places."""
        return SampleOrder(self.ntp64[places], self.clock[places], self.recorder[places], self.offset[places])

    def put(self, places: Numbers, stamps: SampleOrder) -> None:
        """Replace those at some places."""
        self.ntp64[places] = stamps.ntp64
        self.clock[places] = stamps.clock
        self.recorder[places] = stamps.recorder
        self.offset[places] = stamps.offset

    def resize(self, size: int) -> SampleOrder:
        """The same with room for more."""
        more = SampleOrder.zeros(size)
        more.put(np.arange(len(self)), self)
        return more


def select_newest_rows(codes: Numbers, stamps: SampleOrder, known: SampleOrder, clocks: ClockRanks) -> Numbers:
    """For each key the row that is its newest; `codes` says of each row which key it has.

    `known` has for each key what is newest so far. Rows without a stamp get here the one that they count with.
    """
    rows = _raise_unstamped(codes, stamps, known)
    greatest = np.zeros(len(known), np.uint64)
    np.maximum.at(greatest, codes[rows], stamps.ntp64[rows])
    rows = rows[stamps.ntp64[rows] == greatest[codes[rows]]]
    if len(rows) > len(known):
        rows = rows[np.lexsort((rows, clocks.ranks(stamps.clock[rows])))]
    newest = np.empty(len(known), np.intp)
    newest[codes[rows]] = rows  # where a key comes twice, the last one counts
    return newest


def _raise_unstamped(codes: Numbers, stamps: SampleOrder, known: SampleOrder) -> Numbers:
    """Raise rows without a stamp above all that their recorder had before; the rows that can still be the newest."""
    rows = np.arange(len(codes))
    unstamped = np.flatnonzero(stamps.clock == NO_CLOCK)
    if not len(unstamped):
        return rows
    last = np.full(len(known), -1, np.intp)
    last[codes[unstamped]] = unstamped
    is_earlier = rows < last[codes]
    lifted = last[last >= 0]
    keys = codes[lifted]
    is_later = (known.recorder[keys] == stamps.recorder[lifted]) & (known.offset[keys] < stamps.offset[lifted])
    floor = np.zeros(len(known), np.uint64)
    floor[keys[is_later]] = known.ntp64[keys[is_later]]
    np.maximum.at(floor, codes[is_earlier], stamps.ntp64[is_earlier])
    stamps.ntp64[lifted] = np.maximum(stamps.ntp64[lifted], floor[keys])
    return np.flatnonzero(~is_earlier)


def is_later(stamps: SampleOrder, known: SampleOrder, clocks: ClockRanks) -> Numbers:
    """Of each whether it was made later than the one known, or is the same."""
    ranks, known_ranks = clocks.ranks(stamps.clock), clocks.ranks(known.clock)
    found: Numbers = (stamps.ntp64 > known.ntp64) | ((stamps.ntp64 == known.ntp64) & (ranks >= known_ranks))
    return found


def is_newer(stamps: SampleOrder, known: SampleOrder, clocks: ClockRanks) -> Numbers:
    """Of each whether it replaces the one known, in whatever order rows come; the same row never does.

    What was recorded before a sample without stamp is older than that, whatever its own stamp says.
    """
    is_same_recorder = stamps.recorder == known.recorder
    is_same_time = (stamps.ntp64 == known.ntp64) & (stamps.clock == known.clock)
    was_before = is_same_recorder & (stamps.offset <= known.offset)
    found: Numbers = is_later(stamps, known, clocks) & ~(was_before & (is_same_time | (known.clock == NO_CLOCK)))
    return found
