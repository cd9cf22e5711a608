"""LatestValueStore: the newest sample of every key, for a million keys and more, in columns and a key tree.

The tree maps a key to its slot in the columns; values are in pages. A batch of rows is first reduced to the newest row
of each key, then compared with the stored samples, by column operations; only a new key costs more. One thread at a
time applies rows; any number may look up values concurrently.

* A deleted key keeps its slot for a while, as a tombstone: a PUT made before the DEL may still arrive.
* A PUT or DEL on a key expression with wildcards changes the stored keys that match, and is kept for a while as well:
  samples made before it that arrive later get its value, or are deleted. It creates no keys.

Storages of eclipse-zenoh do the same. In addition, attachments are stored, and samples without timestamp stay without.
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
from zenspark.storage.sample_order import (
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
"""Seconds for which tombstones and wildcard updates are kept; as in zenohd."""
MAX_KEYS_UNDER_LOCK = 1024
"""Maximum new keys that are inserted while lookups wait."""
INITIAL_CAPACITY_KEYS = 1024
BATCHES_PER_COMPACTION = 64
"""Batches between two checks for fragmented pages."""


class WildcardUpdate(msgspec.Struct, frozen=True):
    """A PUT or DEL on a key expression with wildcards: a batch of one row, and its order."""

    row: pa.RecordBatch
    order: SampleOrder
    is_put: bool
    received_at: float


class LatestValueStore:
    """The newest sample of every key."""

    def __init__(self, lifespan: float = DEFAULT_LIFESPAN_SECONDS) -> None:
        self.lifespan = lifespan
        self._lock = threading.Lock()
        """Held while tree, columns and pages are inconsistent."""
        self._slots: KeyTree[int] = KeyTree()
        self._orders = SampleOrder.zeros(INITIAL_CAPACITY_KEYS)
        self._page: Numbers = np.full(INITIAL_CAPACITY_KEYS, NO_PAGE, np.uint32)
        self._row: Numbers = np.zeros(INITIAL_CAPACITY_KEYS, np.uint32)
        self._used = 0
        self._free: list[int] = []
        self._pages = ValuePages()
        self._clocks = ClockRanks()
        self._clock_ids: list[ZenohId] = []
        self._recorders = StringIds()
        self._deleted: dict[str, float] = {}
        """Tombstones: deleted keys, and the monotonic time of each, oldest first."""
        self._wildcard_updates: KeyTree[WildcardUpdate] = KeyTree()
        self._batches = 0

    # -- lookup

    def __len__(self) -> int:
        return len(self._slots) - len(self._deleted)

    @property
    def nbytes(self) -> int:
        """Bytes in memory of columns and pages, without keys and their tree."""
        columns = (self._page, self._row, *(getattr(self._orders, name) for name in self._orders.__struct_fields__))
        return int(sum(column.nbytes for column in columns)) + self._pages.nbytes

    def find(self, key: str) -> Put | None:
        """The newest value of a key; None if it has none."""
        with self._lock:
            slot = self._slots.get(key)
            if slot is None or self._page[slot] == NO_PAGE:
                return None
            page, row = self._pages[int(self._page[slot])], int(self._row[slot])
            ntp64, clock = int(self._orders.ntp64[slot]), int(self._orders.clock[slot])
        return page.put(row, None if clock == NO_CLOCK else Timestamp(ntp64, self._clock_id(clock)))

    def _clock_id(self, number: int) -> ZenohId:
        while len(self._clock_ids) < number:
            self._clock_ids.append(ZenohId.parse(self._clocks.texts[len(self._clock_ids) + 1] or ""))
        return self._clock_ids[number - 1]

    def matching_keys(self, key_expr: str) -> list[str]:
        """Stored keys that match a key expression, including tombstones."""
        with self._lock:
            return [key for key, _ in self._slots.intersecting(key_expr)]

    # -- updates

    def apply(self, keys: pa.DictionaryArray, rows: pa.RecordBatch) -> None:
        """Apply rows of a journal or a table, in recorded order; `keys` has the full key of each."""
        is_wild = _has_wildcards(keys)
        start = 0
        for row in np.flatnonzero(is_wild).tolist():
            self._apply_plain(keys[start:row], rows[start:row])
            self._apply_wildcard(keys[row].as_py(), rows[row : row + 1])
            start = row + 1
        self._apply_plain(keys[start:], rows[start:])
        self._batches += 1
        if self._batches % BATCHES_PER_COMPACTION == 0:
            self._compact_pages()

    def _apply_plain(self, keys: pa.DictionaryArray, rows: pa.RecordBatch) -> None:
        if not len(keys):
            return
        names, codes = _dense_codes(keys)
        slots = np.array([-1 if slot is None else slot for slot in map(self._slots.get, names)], np.intp)
        stored = self._stored_orders(slots)
        orders = SampleOrder.from_rows(rows, self._clocks, self._recorders)
        newest = select_newest_rows(codes, orders, stored, self._clocks)
        orders = orders.take(newest)
        wins = is_newer(orders, stored, self._clocks) | (slots < 0)
        late = self._find_superseded(names, orders, wins) if len(self._wildcard_updates) else {}
        single = self._rows_to_reapply(names, codes, late, wins) if late else []
        winners = np.flatnonzero(wins)
        newest = newest[winners]
        is_put = pc.equal(rows.column("kind"), "PUT").to_numpy(zero_copy_only=False)[newest]
        self._allocate_slots(names, slots, winners)
        slot_update = _SlotUpdate([names[i] for i in winners.tolist()], slots[winners], orders.take(winners), is_put)
        self._store(slot_update, rows.take(pa.array(newest[is_put])), np.arange(np.count_nonzero(is_put)))
        for name, update in late.items():
            self._apply_update([name], update, is_later)  # recorded earlier, but with a later timestamp
        for row in single:
            self._apply_plain(keys[row : row + 1], rows[row : row + 1])

    def _stored_orders(self, slots: Numbers) -> SampleOrder:
        """The stored orders of slots; zeros for new keys."""
        stored = self._orders.take(slots)
        is_new = slots < 0
        for column in (stored.ntp64, stored.clock, stored.recorder, stored.offset):
            column[is_new] = 0
        return stored

    def _allocate_slots(self, names: list[str], slots: Numbers, winners: Numbers) -> None:
        """Allocate slots for new keys."""
        new = winners[slots[winners] < 0]
        fresh = max(0, len(new) - len(self._free))
        allocated = [*(self._free.pop() for _ in range(len(new) - fresh)), *range(self._used, self._used + fresh)]
        self._used += fresh
        self._reserve()
        slots[new] = allocated
        pairs = list(zip(new.tolist(), allocated, strict=True))
        for start in range(0, len(pairs), MAX_KEYS_UNDER_LOCK):
            with self._lock:
                for at, slot in pairs[start : start + MAX_KEYS_UNDER_LOCK]:
                    self._slots.insert(names[at], slot)

    def _reserve(self) -> None:
        capacity = len(self._orders)
        if self._used <= capacity:
            return
        size = max(self._used, capacity * 3 // 2)
        page = np.append(self._page, np.full(size - capacity, NO_PAGE, np.uint32))
        row = np.append(self._row, np.zeros(size - capacity, np.uint32))
        orders = self._orders.resize(size)
        with self._lock:
            self._orders, self._page, self._row = orders, page, row

    def _store(self, slot_update: _SlotUpdate, rows: pa.RecordBatch, numbers: Numbers) -> None:
        """Store samples in allocated slots; `numbers` has the row of each PUT in `rows`."""
        slots, is_put = slot_update.slots, slot_update.is_put
        with self._lock:
            was_deleted = self._page[slots] == NO_PAGE
            self._pages.release(self._page[slots])
            self._orders.assign(slots, slot_update.orders)
            number = self._pages.add(rows, len(numbers)) if len(numbers) else NO_PAGE
            self._page[slots] = np.where(is_put, np.uint32(number), np.uint32(NO_PAGE))
            self._row[slots[is_put]] = numbers
            if self._deleted:
                for at in np.flatnonzero(was_deleted).tolist():
                    self._deleted.pop(slot_update.names[at], None)
            now = time.monotonic()
            for at in np.flatnonzero(~is_put).tolist():
                self._deleted[slot_update.names[at]] = now

    # -- wildcard updates

    def _apply_wildcard(self, name: str, row: pa.RecordBatch) -> None:
        order = SampleOrder.from_rows(row, self._clocks, self._recorders)
        keys = [key for key, _ in self._slots.intersecting(name)]
        if order.clock[0] == NO_CLOCK and keys:
            stored = self._orders.take(np.array([self._slots.get(key) for key in keys]))
            is_earlier = (stored.recorder == order.recorder[0]) & (stored.offset < order.offset[0])
            order.ntp64[0] = max(order.ntp64[0], stored.ntp64[is_earlier].max(initial=0))
        update = WildcardUpdate(row, order, row.column("kind")[0].as_py() == "PUT", time.monotonic())
        before = self._wildcard_updates.get(name)
        if before is None or is_later(order, before.order, self._clocks)[0]:
            self._wildcard_updates.insert(name, update)
        self._apply_update(keys, update, is_newer)

    def _apply_update(
        self,
        keys: list[str],
        update: WildcardUpdate,
        replaces: Callable[[SampleOrder, SampleOrder, ClockRanks], Numbers],
    ) -> None:
        """Apply a wildcard update to stored keys that have a value."""
        slots = np.array([self._slots.get(key) for key in keys], np.intp)
        orders = update.order.take(np.zeros(len(keys), np.intp))
        is_live = self._page[slots] != NO_PAGE
        wins = np.flatnonzero(is_live & replaces(orders, self._orders.take(slots), self._clocks))
        is_put = np.full(len(wins), update.is_put)
        slot_update = _SlotUpdate([keys[i] for i in wins.tolist()], slots[wins], orders.take(wins), is_put)
        self._store(slot_update, update.row, np.zeros(len(wins) if update.is_put else 0, np.intp))

    def _find_superseded(self, names: list[str], orders: SampleOrder, wins: Numbers) -> dict[str, WildcardUpdate]:
        """Find new values that are older than a wildcard PUT; clears `wins` for those that a wildcard DEL deletes."""
        superseded: dict[str, WildcardUpdate] = {}
        latest = max(update.order.ntp64[0] for _, update in self._wildcard_updates.items())
        for at in np.flatnonzero(wins & (orders.ntp64 <= latest) & (orders.clock != NO_CLOCK)).tolist():
            later = self._later_updates(names[at], orders.take(np.array([at])))
            if not all(update.is_put for update in later):
                wins[at] = False
            elif later:
                superseded[names[at]] = max(later, key=lambda update: int(update.order.ntp64[0]))
        return superseded

    def _rows_to_reapply(
        self, names: list[str], codes: Numbers, late: dict[str, WildcardUpdate], wins: Numbers
    ) -> list[int]:
        """Return the rows to apply one by one, and exclude their keys from `wins` and `late`.

        They are all rows of each key that has several rows and whose newest row is older than a stored wildcard PUT.
        Applied in order, the first PUT of the key gets the value of the wildcard PUT, and a later row with a DEL that
        is older than the wildcard PUT has no effect.
        """
        counts = np.bincount(codes)
        rows = [at for at, name in enumerate(names) if name in late and counts[at] > 1]
        for at in rows:
            wins[at] = False
            del late[names[at]]
        return np.flatnonzero(np.isin(codes, rows)).tolist()

    def _later_updates(self, name: str, order: SampleOrder) -> list[WildcardUpdate]:
        """Wildcard updates of a key that are later than a sample."""
        return [
            update
            for _, update in self._wildcard_updates.intersecting(name)
            if is_later(update.order, order, self._clocks)[0]
        ]

    # -- garbage collection

    def expire(self, now: float | None = None) -> None:
        """Remove tombstones and wildcard updates that are older than the lifespan."""
        limit = (time.monotonic() if now is None else now) - self.lifespan
        for key in [key for key, update in self._wildcard_updates.items() if update.received_at < limit]:
            self._wildcard_updates.remove(key)
        while self._deleted and next(iter(self._deleted.values())) < limit:
            with self._lock:
                key = next(iter(self._deleted))
                del self._deleted[key]
                slot = self._slots.remove(key)
            if slot is not None:
                self._free.append(slot)

    def _compact_pages(self) -> None:
        """Move the live rows of fragmented pages to a new page."""
        fragmented = self._pages.select_for_compaction()
        if not fragmented:
            return
        index_of = np.full(max(fragmented) + 1, -1, np.intp)
        index_of[fragmented] = np.arange(len(fragmented))
        pages = self._page[: self._used]
        moved = np.flatnonzero(pages < len(index_of))
        moved = moved[index_of[pages[moved]] >= 0]
        with self._lock:
            self._page[moved], self._row[moved] = self._pages.compact(
                fragmented, index_of[pages[moved]], self._row[moved]
            )


class _SlotUpdate(msgspec.Struct):
    """New samples of keys with allocated slots."""

    names: list[str]
    slots: Numbers
    orders: SampleOrder
    is_put: Numbers


def _has_wildcards(keys: pa.DictionaryArray) -> Numbers:
    """Mask of rows whose key has wildcards; empty if there are none."""
    texts = keys.dictionary
    starred = pc.match_substring(texts, "*")
    has_wildcards = np.zeros(len(texts), bool)
    for at in np.flatnonzero(starred.to_numpy(zero_copy_only=False)).tolist():
        has_wildcards[at] = KeyExpr(texts[at].as_py()).is_wild
    return has_wildcards[keys.indices.to_numpy()] if has_wildcards.any() else has_wildcards[:0]


def _dense_codes(keys: pa.DictionaryArray) -> tuple[list[str], Numbers]:
    """The keys that occur, and for each row the index of its key among them."""
    names, codes = keys.dictionary, keys.indices.to_numpy()
    counts = np.bincount(codes, minlength=len(names))
    if not counts.all():
        used = np.flatnonzero(counts)
        names = names.take(pa.array(used))
        codes = (np.cumsum(counts > 0) - 1)[codes]
    return names.to_pylist(), codes
