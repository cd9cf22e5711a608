"""How the newest values are filled and kept up: from the lake, then from the journals as they grow."""

from __future__ import annotations

import logging
import threading
import time

import pyarrow as pa

from zenspark.journal import JournalError
from zenspark.spark.storage.history import COLUMNS
from zenspark.spark.storage.newest import Newest
from zenspark.spark.storage.scope import Scope
from zenspark.spark.storage.sources import Sources

logger = logging.getLogger("zenspark.spark")

PAUSE = 0.01
"""Seconds between two looks at the journals: how long a new value may go unnoticed."""
REST = 1.0
"""Seconds until a journal that cannot be read is tried again."""
FORGET_EVERY = 30.0
ROWS = 65_536
"""At most so many rows are taken in at once: they are in memory twice meanwhile."""


class Following:
    """One thread that takes in what is recorded."""

    def __init__(self, newest: Newest, scope: Scope, sources: Sources) -> None:
        self._newest = newest
        self._scope = scope
        self._sources = sources
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="zenspark-storage-follows", daemon=True)
        self.offsets: dict[str, int] = {}
        """Up to where the rows of each recorder are taken in."""

    def start(self) -> None:
        """Take in everything there is, and go on in a thread."""
        self._fill()
        self.step()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def wait(self, timeout: float) -> bool:
        """Wait until what is recorded now is taken in."""
        ends = self._sources.ends()
        deadline = time.monotonic() + timeout
        while any(self.offsets.get(recorder, 0) < end for recorder, end in ends.items()):
            if time.monotonic() > deadline:
                return False
            time.sleep(PAUSE)
        return True

    def _fill(self) -> None:
        landed = self._sources.newest()
        for batch in landed.batches:
            self._take_in(batch)
        self.offsets = dict(landed.offsets)

    def step(self) -> int:
        """Take in what is new; how many rows."""
        count = 0
        for batch in self._sources.tail(self.offsets):
            count += batch.num_rows
            self._take_in(batch)
            last = batch.num_rows - 1
            self.offsets[batch.column("recorder")[last].as_py()] = batch.column("offset")[last].as_py() + 1
        return count

    def _take_in(self, batch: pa.RecordBatch) -> None:
        for start in range(0, batch.num_rows, ROWS):
            keys, rows = self._scope.select(batch[start : start + ROWS].select(COLUMNS))
            self._newest.apply(keys, rows)

    def _run(self) -> None:
        forgotten = time.monotonic()
        pause = PAUSE
        while not self._stopped.wait(pause):
            try:
                self.step()
                pause = PAUSE
            except JournalError as error:
                logger.error("the storage does not keep up: %s", error)
                pause = REST
            except Exception:  # whatever it is, a thread that ended would leave old values behind without a word
                logger.exception("the storage does not keep up")
                pause = REST
            if time.monotonic() - forgotten > FORGET_EVERY:
                forgotten = time.monotonic()
                self._newest.forget()
