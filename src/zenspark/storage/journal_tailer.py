"""JournalTailer: fills the latest-value store from the lake, and keeps it up to date by tailing the journals."""

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

logger = logging.getLogger("zenspark.storage")

TAIL_POLL_INTERVAL_SECONDS = 0.01
"""Poll interval of the journals in seconds: the maximum delay of a new value."""
READ_RETRY_INTERVAL_SECONDS = 1.0
"""Seconds to wait after a journal could not be read."""
LAKE_RETRY_INTERVAL_SECONDS = 5.0
"""Seconds to wait after the lake could not be read."""
EXPIRE_INTERVAL_SECONDS = 30.0
"""Seconds between two removals of expired tombstones and wildcard updates."""
MAX_TAILED_BATCH_ROWS = 65_536
"""Maximum rows that are applied at once: they are in memory twice meanwhile."""


class JournalTailer:
    """A thread that applies recorded rows to a latest-value store."""

    def __init__(self, store: LatestValueStore, scope: KeyScope, inputs: StorageInputs) -> None:
        self._store = store
        self._scope = scope
        self._inputs = inputs
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="zenspark-storage-tailer", daemon=True)
        self.offsets: dict[str, int] = {}
        """End offset (exclusive) by recorder of the rows that were applied."""
        self._reload_at: float | None = None
        """Monotonic time of the next attempt to read the lake, after a failure."""
        self._failure: str | None = None
        """Error of the last poll, as logged; None if it succeeded."""

    def start(self) -> None:
        """Apply all existing rows, then tail the journals in a thread."""
        self._try_load_lake()
        self.poll()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def wait(self, timeout: float) -> bool:
        """Wait until all rows recorded so far are applied; False on timeout."""
        ends = self._inputs.end_offsets()
        deadline = time.monotonic() + timeout
        while any(self.offsets.get(recorder, 0) < end for recorder, end in ends.items()):
            if time.monotonic() > deadline:
                return False
            time.sleep(TAIL_POLL_INTERVAL_SECONDS)
        return True

    def _try_load_lake(self) -> None:
        """Apply the rows of the lake; while it cannot be read, replies come from the journals alone."""
        try:
            self._load_lake()
        except (ZError, OSError) as error:
            if self._reload_at is None:
                logger.error(
                    "storage of %s replies from the journal alone until the lake can be read: %s", self._scope, error
                )
            self._reload_at = time.monotonic() + LAKE_RETRY_INTERVAL_SECONDS
        else:
            if self._reload_at is not None:
                logger.warning("storage of %s can read the lake again", self._scope)
            self._reload_at = None

    def _load_lake(self) -> None:
        latest = self._inputs.latest_rows()
        for batch in latest.batches:
            self._apply(batch)
        recorders = latest.offsets.keys() | self.offsets.keys()
        self.offsets = {name: max(latest.offsets.get(name, 0), self.offsets.get(name, 0)) for name in recorders}

    def poll(self) -> int:
        """Apply new rows of the journals. Returns their number."""
        starts = self._inputs.start_offsets(self.offsets)
        if any(start > self.offsets.get(recorder, 0) for recorder, start in starts.items()):
            self._try_load_lake()  # rows trimmed before they were applied have been ingested
            starts = self._inputs.start_offsets(self.offsets)
        self.offsets |= starts
        count = 0
        for batch in self._inputs.read_tail(starts):
            count += batch.num_rows
            self._apply(batch)
            last = batch.num_rows - 1
            self.offsets[batch.column("recorder")[last].as_py()] = batch.column("offset")[last].as_py() + 1
        return count

    def _apply(self, batch: pa.RecordBatch) -> None:
        for start in range(0, batch.num_rows, MAX_TAILED_BATCH_ROWS):
            keys, rows = self._scope.select_rows(batch[start : start + MAX_TAILED_BATCH_ROWS].select(HISTORY_COLUMNS))
            self._store.apply(keys, rows)

    def _run(self) -> None:
        expired_at = time.monotonic()
        pause = TAIL_POLL_INTERVAL_SECONDS
        while not self._stopped.wait(pause):
            try:
                if self._reload_at is not None and time.monotonic() >= self._reload_at:
                    self._try_load_lake()
                self.poll()
            except Exception as error:  # if the thread ended, the storage would silently reply with old values
                self._log_failure(error)
                pause = READ_RETRY_INTERVAL_SECONDS
            else:
                self._log_recovery()
                pause = TAIL_POLL_INTERVAL_SECONDS
            if time.monotonic() - expired_at > EXPIRE_INTERVAL_SECONDS:
                expired_at = time.monotonic()
                self._store.expire()

    def _log_failure(self, error: Exception) -> None:
        """Log the first of a series of equal errors; with its stack, if it is not one of a journal."""
        text = f"{type(error).__name__}: {error}"
        if text != self._failure:
            self._failure = text
            logger.error(
                "storage of %s cannot read the journal, replies may be out of date: %s",
                self._scope,
                error,
                exc_info=None if isinstance(error, JournalError) else error,
            )

    def _log_recovery(self) -> None:
        if self._failure is not None:
            self._failure = None
            logger.warning("storage of %s can read the journal again", self._scope)
