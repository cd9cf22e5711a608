"""StreamRecorder: the recorder of a stream that subscribes itself and writes the journal it reads.

It runs in the one process of a query that determines offsets. Spark may kill that process without notice, so nothing
here relies on being stopped: the lock on the journal is released with the process, and a query that is restarted at
that moment waits for it.
"""

from __future__ import annotations

import atexit
import time

from zenspark.api.session import Session
from zenspark.errors import JournalError, JournalLocked
from zenspark.journal import Journal, JournalWriter, Recorder
from zenspark.spark.options import StreamOptions
from zenspark.spark.source.backfill import backfill, missing_time_range
from zenspark.spark.zenoh_session import connect_session

LOCK_TIMEOUT_SECONDS = 10.0
"""Timeout for the process of an earlier run to release the lock of the journal."""


class StreamRecorder:
    """Records from construction until `stop`, or until the process ends."""

    def __init__(self, options: StreamOptions) -> None:
        (path,) = options.journal
        self._writer = open_writer(path)
        self._session: Session | None = None
        try:
            since = None if options.backfill == "false" else missing_time_range(Journal(path), options.backfill)
            self._session = connect_session(options)
            self._recorder = Recorder(self._session, options.subscribe, self._writer)
            self._recorder.start()
            if since is not None:
                backfill(self._session, options.subscribe, since)
        except BaseException:
            self._close()
            raise
        atexit.register(self.stop)

    def check(self) -> None:
        """Raise JournalError if the recorder has ended."""
        status = self._recorder.status()
        if status.state == "stopped":
            raise JournalError(str(self._writer.path), f"recording has ended: {status.error or 'it was stopped'}")

    def stop(self) -> None:
        """Write the received samples and end."""
        atexit.unregister(self.stop)
        self._recorder.stop()
        self._close()

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._writer.close()


def open_writer(path: str) -> JournalWriter:
    """Open the writer of the journal; waits for the lock of another process."""
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    while True:
        try:
            return JournalWriter(path)
        except JournalLocked:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
