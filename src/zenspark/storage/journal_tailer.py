"""How the newest values are filled and kept up: from the lake, then from the journals as they grow."""

from __future__ import annotations

import logging
import threading
import time

import pyarrow as pa

from zenspark.errors import ZError
from zenspark.journal import JournalError
from zenspark.storage.history import HISTORY_COLUMNS
from zenspark.storage.inputs import StorageInputs
from zenspark.storage.key_scope import KeyScope
from zenspark.storage.latest_store import LatestValueStore

logger = logging.getLogger("zenspark.spark")

TAIL_POLL_SECONDS = 0.01
"""Seconds between two looks at the journals: how long a new value may go unnoticed."""
RETRY_SECONDS = 1.0
"""Seconds until a journal that cannot be read is tried again."""
LAKE_RETRY_SECONDS = 5.0
"""Until a lake that cannot be read is tried again."""
EXPIRE_INTERVAL_SECONDS = 30.0
MAX_BATCH_ROWS = 65_536
"""At most so many rows are taken in at once: they are in memory twice meanwhile."""


class JournalTailer:
    """One thread that takes in what is recorded."""

    def __init__(self, newest: LatestValueStore, scope: KeyScope, sources: StorageInputs) -> None:
        self._newest = newest
        self._scope = scope
        self._inputs = sources
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="zenspark-storage-follows", daemon=True)
        self.offsets: dict[str, int] = {}
        """Up to where the rows of each recorder are taken in."""
        self._fills_at: float | None = None
        """When to try the lake again, if it could not be read, by the monotonic clock."""

    def start(self) -> None:
        """Take in everything there is, and go on in a thread."""
        self._try_to_fill()
        self.poll()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def wait(self, timeout: float) -> bool:
        """Wait until what is recorded now is taken in."""
        ends = self._inputs.end_offsets()
        deadline = time.monotonic() + timeout
        while any(self.offsets.get(recorder, 0) < end for recorder, end in ends.items()):
            if time.monotonic() > deadline:
                return False
            time.sleep(TAIL_POLL_SECONDS)
        return True

    def _try_to_fill(self) -> None:
        """Take in what the lake has; while it cannot be read, answers come from the journals alone."""
        try:
            self._fill()
        except (ZError, OSError) as error:
            if self._fills_at is None:
                logger.error("the storage answers from the journal alone until the lake can be read: %s", error)
            self._fills_at = time.monotonic() + LAKE_RETRY_SECONDS
        else:
            if self._fills_at is not None:
                logger.warning("the storage has read the lake")
            self._fills_at = None

    def _fill(self) -> None:
        landed = self._inputs.latest_rows()
        for batch in landed.batches:
            self._take_in(batch)
        known = landed.offsets.keys() | self.offsets.keys()
        self.offsets = {name: max(landed.offsets.get(name, 0), self.offsets.get(name, 0)) for name in known}

    def poll(self) -> int:
        """Take in what is new; how many rows."""
        starts = self._inputs.start_offsets(self.offsets)
        if any(start > self.offsets.get(recorder, 0) for recorder, start in starts.items()):
            self._try_to_fill()  # what was trimmed away before it was taken in has landed
            starts = self._inputs.start_offsets(self.offsets)
        self.offsets |= starts
        count = 0
        for batch in self._inputs.read_tail(starts):
            count += batch.num_rows
            self._take_in(batch)
            last = batch.num_rows - 1
            self.offsets[batch.column("recorder")[last].as_py()] = batch.column("offset")[last].as_py() + 1
        return count

    def _take_in(self, batch: pa.RecordBatch) -> None:
        for start in range(0, batch.num_rows, MAX_BATCH_ROWS):
            keys, rows = self._scope.select_rows(batch[start : start + MAX_BATCH_ROWS].select(HISTORY_COLUMNS))
            self._newest.apply(keys, rows)

    def _run(self) -> None:
        forgotten = time.monotonic()
        pause = TAIL_POLL_SECONDS
        while not self._stopped.wait(pause):
            try:
                if self._fills_at is not None and time.monotonic() >= self._fills_at:
                    self._try_to_fill()
                self.poll()
                pause = TAIL_POLL_SECONDS
            except JournalError as error:
                logger.error("the storage does not keep up: %s", error)
                pause = RETRY_SECONDS
            except Exception:  # whatever it is, a thread that ended would leave old values behind without a word
                logger.exception("the storage does not keep up")
                pause = RETRY_SECONDS
            if time.monotonic() - forgotten > EXPIRE_INTERVAL_SECONDS:
                forgotten = time.monotonic()
                self._newest.expire()
