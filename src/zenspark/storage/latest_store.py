"""The newest sample of every key, for a million keys and more: in columns, beside a tree of keys.

The tree leads from a key to its place in the columns; what the sample carries is in pages. A batch of rows is first
reduced to the newest row of each key, then compared with what is known, all on columns; only a key that comes for the
first time costs more. One thread at a time takes rows in; any number may look things up meanwhile.

* A deleted key keeps its place for a while, without value: a PUT made before the DEL may still be on its way.
* A PUT or DEL on a key expression with wildcards changes the keys that are there and match, and is kept for a while as
  well: what was made before it and comes later gets its value, or is deleted. It makes no keys.

This is what storages of eclipse-zenoh do. Kept here and not there: attachments, and that a sample has no stamp.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.key import KeyExpr
from zenspark.key.tree import KeyTree
from zenspark.storage.ordering import (
    NO_CLOCK,
    ClockRanks,
    Numbers,
    SampleOrder,
    StringIds,
    is_later,
    is_newer,
    select_newest_rows,
)
from zenspark.storage.value_pages import NO_PAGE, ValuePages
from zenspark.wire.messages import Put
from zenspark.wire.values import Timestamp, ZenohId

DEFAULT_LIFESPAN_SECONDS = 86_400.0
"""For how many seconds it is remembered what was deleted; as in zenohd."""
MAX_KEYS_UNDER_LOCK = 1024
"""New keys for which a lookup has to wait at most."""
INITIAL_CAPACITY = 1024
BATCHES_PER_COMPACTION = 64
"""Batches that are taken in between two looks at which pages are worn."""


class WildcardUpdate(msgspec.Struct, frozen=True):
    """A PUT or DEL on many keys: a batch of this one row, and the stamp it counts with."""

    row: pa.RecordBatch
    stamp: SampleOrder
    is_put: bool
    taken_at: float


class LatestValueStore:
    """The newest sample of every key."""

    def __init__(self, lifespan: float = DEFAULT_LIFESPAN_SECONDS) -> None:
        self.lifespan = lifespan
        self._lock = threading.Lock()
        """Held while the tree, the columns and the pages do not fit together."""
        self._places: KeyTree[int] = KeyTree()
        self._stamps = SampleOrder.zeros(INITIAL_CAPACITY)
        self._page: Numbers = np.full(INITIAL_CAPACITY, NO_PAGE, np.uint32)
        self._row: Numbers = np.zeros(INITIAL_CAPACITY, np.uint32)
        self._used = 0
        self._free: list[int] = []
        self._pages = ValuePages()
        self._clocks = ClockRanks()
        self._clock_ids: list[ZenohId] = []
        self._recorders = StringIds()
        self._deleted: dict[str, float] = {}
        """Keys that have no value any more, and since when, oldest first."""
        self._wild: KeyTree[WildcardUpdate] = KeyTree()
        self._batches = 0

    # -- to look up

    def __len__(self) -> int:
        return len(self._places) - len(self._deleted)

    @property
    def nbytes(self) -> int:
        """How much memory columns and pages take; keys and their tree come on top."""
        columns = (self._page, self._row, *(getattr(self._stamps, name) for name in self._stamps.__struct_fields__))
        return int(sum(column.nbytes for column in columns)) + self._pages.nbytes

    def find(self, key: str) -> Put | None:
        """The newest value of one key."""
        with self._lock:
            place = self._places.get(key)
            if place is None or self._page[place] == NO_PAGE:
                return None
            page, row = self._pages[int(self._page[place])], int(self._row[place])
            ntp64, clock = int(self._stamps.ntp64[place]), int(self._stamps.clock[place])
        return page.put(row, None if clock == NO_CLOCK else Timestamp(ntp64, self._clock_id(clock)))

    def _clock_id(self, number: int) -> ZenohId:
        while len(self._clock_ids) < number:
            self._clock_ids.append(ZenohId.parse(self._clocks.texts[len(self._clock_ids) + 1] or ""))
        return self._clock_ids[number - 1]

    def matching_keys(self, key_expr: str) -> list[str]:
        """The keys that match, also those that were deleted a while ago."""
        with self._lock:
            return [key for key, _ in self._places.intersecting(key_expr)]

    # -- to take in

    def apply(self, keys: pa.DictionaryArray, rows: pa.RecordBatch) -> None:
        """Take in rows of a journal or a table, in the order they were recorded in; `keys` says whose they are."""
        is_wild = _has_wildcards(keys)
        start = 0
        for row in np.flatnonzero(is_wild).tolist():
            self._apply_plain(keys[start:row], rows[start:row])
            self._apply_wild(keys[row].as_py(), rows[row : row + 1])
            start = row + 1
        self._apply_plain(keys[start:], rows[start:])
        self._batches += 1
        if self._batches % BATCHES_PER_COMPACTION == 0:
            self._tidy()

    def _apply_plain(self, keys: pa.DictionaryArray, rows: pa.RecordBatch) -> None:
        if not len(keys):
            return
        names, codes = _dense_codes(keys)
        places = np.array([-1 if place is None else place for place in map(self._places.get, names)], np.intp)
        known = self._known(places)
        stamps = SampleOrder.from_rows(rows, self._clocks, self._recorders)
        newest = select_newest_rows(codes, stamps, known, self._clocks)
        stamps = stamps.take(newest)
        wins = is_newer(stamps, known, self._clocks) | (places < 0)
        late = self._overruled(names, stamps, wins) if len(self._wild) else {}
        single = self._left_out(names, codes, late, wins) if late else []
        winners = np.flatnonzero(wins)
        newest = newest[winners]
        is_put = pc.equal(rows.column("kind"), "PUT").to_numpy(zero_copy_only=False)[newest]
        self._settle(names, places, winners)
        change = _SlotUpdate([names[i] for i in winners.tolist()], places[winners], stamps.take(winners), is_put)
        self._store(change, rows.take(pa.array(newest[is_put])), np.arange(np.count_nonzero(is_put)))
        for name, wild in late.items():
            self._override([name], wild, is_later)  # recorded before, made later
        for row in single:
            self._apply_plain(keys[row : row + 1], rows[row : row + 1])

    def _known(self, places: Numbers) -> SampleOrder:
        """What is known for keys; where there is no place, nothing."""
        known = self._stamps.take(places)
        is_new = places < 0
        for column in (known.ntp64, known.clock, known.recorder, known.offset):
            column[is_new] = 0
        return known

    def _settle(self, names: list[str], places: Numbers, winners: Numbers) -> None:
        """Give keys that have none a place."""
        new = winners[places[winners] < 0]
        fresh = max(0, len(new) - len(self._free))
        found = [*(self._free.pop() for _ in range(len(new) - fresh)), *range(self._used, self._used + fresh)]
        self._used += fresh
        self._grow()
        places[new] = found
        pairs = list(zip(new.tolist(), found, strict=True))
        for start in range(0, len(pairs), MAX_KEYS_UNDER_LOCK):
            with self._lock:
                for at, place in pairs[start : start + MAX_KEYS_UNDER_LOCK]:
                    self._places.insert(names[at], place)

    def _grow(self) -> None:
        room = len(self._stamps)
        if self._used <= room:
            return
        size = max(self._used, room * 3 // 2)
        page = np.append(self._page, np.full(size - room, NO_PAGE, np.uint32))
        row = np.append(self._row, np.zeros(size - room, np.uint32))
        stamps = self._stamps.resize(size)
        with self._lock:
            self._stamps, self._page, self._row = stamps, page, row

    def _store(self, change: _SlotUpdate, rows: pa.RecordBatch, numbers: Numbers) -> None:
        """Change keys that have a place; `numbers` says for each that has a value which of the rows it is."""
        places, is_put = change.places, change.is_put
        with self._lock:
            was_gone = self._page[places] == NO_PAGE
            self._pages.release(self._page[places])
            self._stamps.put(places, change.stamps)
            number = self._pages.add(rows, len(numbers)) if len(numbers) else NO_PAGE
            self._page[places] = np.where(is_put, np.uint32(number), np.uint32(NO_PAGE))
            self._row[places[is_put]] = numbers
            if self._deleted:
                for at in np.flatnonzero(was_gone).tolist():
                    self._deleted.pop(change.names[at], None)
            now = time.monotonic()
            for at in np.flatnonzero(~is_put).tolist():
                self._deleted[change.names[at]] = now

    # -- many keys at once

    def _apply_wild(self, name: str, row: pa.RecordBatch) -> None:
        stamp = SampleOrder.from_rows(row, self._clocks, self._recorders)
        keys = [key for key, _ in self._places.intersecting(name)]
        if stamp.clock[0] == NO_CLOCK and keys:
            known = self._stamps.take(np.array([self._places.get(key) for key in keys]))
            is_earlier = (known.recorder == stamp.recorder[0]) & (known.offset < stamp.offset[0])
            stamp.ntp64[0] = max(stamp.ntp64[0], known.ntp64[is_earlier].max(initial=0))
        wild = WildcardUpdate(row, stamp, row.column("kind")[0].as_py() == "PUT", time.monotonic())
        before = self._wild.get(name)
        if before is None or is_later(stamp, before.stamp, self._clocks)[0]:
            self._wild.insert(name, wild)
        self._override(keys, wild, is_newer)

    def _override(
        self, keys: list[str], wild: WildcardUpdate, replaces: Callable[[SampleOrder, SampleOrder, ClockRanks], Numbers]
    ) -> None:
        """Give keys that have a value the one of a PUT on many, or none."""
        places = np.array([self._places.get(key) for key in keys], np.intp)
        stamps = wild.stamp.take(np.zeros(len(keys), np.intp))
        is_live = self._page[places] != NO_PAGE
        wins = np.flatnonzero(is_live & replaces(stamps, self._stamps.take(places), self._clocks))
        is_put = np.full(len(wins), wild.is_put)
        change = _SlotUpdate([keys[i] for i in wins.tolist()], places[wins], stamps.take(wins), is_put)
        self._store(change, wild.row, np.zeros(len(wins) if wild.is_put else 0, np.intp))

    def _overruled(self, names: list[str], stamps: SampleOrder, wins: Numbers) -> dict[str, WildcardUpdate]:
        """The keys whose new value was made before a PUT on many; one that a DEL on many deletes wins no more."""
        found: dict[str, WildcardUpdate] = {}
        latest = max(wild.stamp.ntp64[0] for _, wild in self._wild.items())
        for at in np.flatnonzero(wins & (stamps.ntp64 <= latest) & (stamps.clock != NO_CLOCK)).tolist():
            over = self._over(names[at], stamps.take(np.array([at])))
            if not all(wild.is_put for wild in over):
                wins[at] = False
            elif over:
                found[names[at]] = max(over, key=lambda wild: int(wild.stamp.ntp64[0]))
        return found

    def _left_out(self, names: list[str], codes: Numbers, late: dict[str, WildcardUpdate], wins: Numbers) -> list[int]:
        """Rows to be taken in one by one: of keys that a PUT on many decides, and that have several of them.

        The first PUT among them gets its value, and what was deleted before that one was made stays so: a DEL behind it
        comes too late.
        """
        counts = np.bincount(codes)
        found = [at for at, name in enumerate(names) if name in late and counts[at] > 1]
        for at in found:
            wins[at] = False
            del late[names[at]]
        return np.flatnonzero(np.isin(codes, found)).tolist()

    def _over(self, name: str, stamp: SampleOrder) -> list[WildcardUpdate]:
        """What was made later on many keys, among them this one."""
        return [wild for _, wild in self._wild.intersecting(name) if is_later(wild.stamp, stamp, self._clocks)[0]]

    # -- to keep small

    def expire(self, now: float | None = None) -> None:
        """Forget what was deleted, or changed by wildcards, longer ago than the lifespan."""
        limit = (time.monotonic() if now is None else now) - self.lifespan
        for key in [key for key, wild in self._wild.items() if wild.taken_at < limit]:
            self._wild.remove(key)
        while self._deleted and next(iter(self._deleted.values())) < limit:
            with self._lock:
                key = next(iter(self._deleted))
                del self._deleted[key]
                place = self._places.remove(key)
            if place is not None:
                self._free.append(place)

    def _tidy(self) -> None:
        """Move what is left of worn pages."""
        worn = self._pages.select_for_compaction()
        if not worn:
            return
        place_of = np.full(max(worn) + 1, -1, np.intp)
        place_of[worn] = np.arange(len(worn))
        pages = self._page[: self._used]
        moved = np.flatnonzero(pages < len(place_of))
        moved = moved[place_of[pages[moved]] >= 0]
        with self._lock:
            self._page[moved], self._row[moved] = self._pages.compact(worn, place_of[pages[moved]], self._row[moved])


class _SlotUpdate(msgspec.Struct):
    """What becomes of some keys."""

    names: list[str]
    places: Numbers
    stamps: SampleOrder
    is_put: Numbers


def _has_wildcards(keys: pa.DictionaryArray) -> Numbers:
    """Of each row whether its key stands for many."""
    texts = keys.dictionary
    starred = pc.match_substring(texts, "*")
    found = np.zeros(len(texts), bool)
    for at in np.flatnonzero(starred.to_numpy(zero_copy_only=False)).tolist():
        found[at] = KeyExpr(texts[at].as_py()).is_wild
    return found[keys.indices.to_numpy()] if found.any() else found[:0]


def _dense_codes(keys: pa.DictionaryArray) -> tuple[list[str], Numbers]:
    """The keys that occur, and of each row which of them it has."""
    names, codes = keys.dictionary, keys.indices.to_numpy()
    counts = np.bincount(codes, minlength=len(names))
    if not counts.all():
        used = np.flatnonzero(counts)
        names = names.take(pa.array(used))
        codes = (np.cumsum(counts > 0) - 1)[codes]
    return names.to_pylist(), codes
