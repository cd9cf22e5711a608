"""A recorder inside a stream: it subscribes where the options say and writes the journal that the stream reads.

It lives in the one process of a query that is asked for offsets. Spark may end that process without a word, so nothing
here relies on being stopped: the lock on the journal goes with the process, and a query that is started again at that
moment waits for it.
"""

from __future__ import annotations

import atexit
import time

from zenspark.api.session import Session
from zenspark.errors import JournalError, JournalLocked
from zenspark.journal import Journal, JournalWriter, Recorder
from zenspark.spark.connect import opened
from zenspark.spark.options import StreamOptions
from zenspark.spark.source.backfill import backfill, since_of

PATIENCE = 10.0
"""Seconds to wait for the process of an earlier run to let go of the journal."""


class Recording:
    """Records from when it is made until it is stopped, or the process ends."""

    def __init__(self, options: StreamOptions) -> None:
        (path,) = options.journal
        self._writer = writer_of(path)
        self._session: Session | None = None
        try:
            since = None if options.backfill == "false" else since_of(Journal(path), options.backfill)
            self._session = opened(options)
            self._recorder = Recorder(self._session, options.subscribe, self._writer)
            self._recorder.start()
            if since is not None:
                backfill(self._session, options.subscribe, since)
        except BaseException:
            self._close()
            raise
        atexit.register(self.stop)

    def check(self) -> None:
        """Raises if the recorder has ended because of an error."""
        status = self._recorder.status()
        if status.state == "stopped":
            raise JournalError(str(self._writer.path), f"recording has ended: {status.error or 'it was stopped'}")

    def stop(self) -> None:
        """Writes what was received, and ends."""
        atexit.unregister(self.stop)
        self._recorder.stop()
        self._close()

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._writer.close()


def writer_of(path: str) -> JournalWriter:
    """The writer of the journal, as soon as nobody else writes it."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return JournalWriter(path)
        except JournalLocked:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
