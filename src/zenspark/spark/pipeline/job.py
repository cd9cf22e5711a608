"""Job: the pipeline from a Zenoh network to tables: one process that records and replies, one ingest process per lake.

The session, recorders and storages run in this process and start at once. Ingestion into each lake runs in a child
process, which drives Spark and may fail, hang or be killed: it is restarted, and recording continues meanwhile. To end,
recording stops first, then everything recorded is ingested. Rows that are not ingested stay in the journals and are
ingested at the next start.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from zenspark.api.open import SessionOpener
from zenspark.config.config import Config
from zenspark.errors import JournalError, ZError
from zenspark.journal import Journal, Policy
from zenspark.journal.recorder import RATE_SAMPLE_INTERVAL_SECONDS
from zenspark.journal.usage import JournalMeter
from zenspark.lake.reader_name import reader_name
from zenspark.lake.storage_path import StoragePath
from zenspark.spark.ingest.rotating_log import RotatingLog
from zenspark.spark.ingest.settings import IngestProcessConfig, IngestSettings
from zenspark.spark.ingest.supervisor import IngestSupervisor
from zenspark.spark.ingest.supervisor_state import IngestState
from zenspark.spark.pipeline.backlog import Backlog, measure_backlog
from zenspark.spark.pipeline.status import JobStatus, Losses, RateMeter
from zenspark.spark.pipeline.status_documents import StatusQueryable
from zenspark.storage.manager import StorageManager
from zenspark.storage.settings import StorageSettings

REATTACH_INTERVAL_SECONDS = 600.0
"""Seconds after which readers are re-attached to journals, so that they do not expire while ingestion fails."""
LOG_PATH = "_logs/ingest.log"
"""Log file below the first journal of a lake: a local path, whatever is wrong with the lake."""


class JobEnded(ZError):
    """Recording has ended with an error, so the job cannot continue."""

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(what, problem)
        self.what = what
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.what} has ended: {self.problem}"


class Job:
    """One node with its storages, and the ingest processes of their lakes.

    Args:
        config: Configuration of the node.
        storages: The storages, with their journals and lakes.
        policy: When journals are written, synced and trimmed; `Policy()` by default.

    Raises:
        UsageError: The configuration or a storage is not valid.
        LinkError: A listener could not be bound.

    Example:
        >>> job = Job(config, storages)
        >>> job.record()
        >>> job.ingest({"lake": IngestSettings()})
    """

    def __init__(self, config: Config, storages: Sequence[StorageSettings], policy: Policy | None = None) -> None:
        self._opener = SessionOpener(config, None)
        self.session = self._opener.prepare()
        self.storages = StorageManager(self.session, storages, policy)
        self.supervisors: dict[str, IngestSupervisor] = {}
        """Ingest supervisors by lake path."""
        self._space = StatusQueryable(self.session, self.status)
        self._meters: dict[Path, JournalMeter] = {}
        self._recorded = RateMeter()
        self._ingested = RateMeter()
        self._closing = threading.Event()
        self._counts_thread = threading.Thread(target=self._sample_counts, name="zenspark-counts", daemon=True)

    # --- lifecycle

    def record(self) -> None:
        """Start to record and to reply to queries; publishers that connect find the subscriptions from the start.

        Raises:
            LinkError: A required endpoint cannot be reached.
            JournalError: A journal cannot be written.

        Example:
            >>> job.record()
        """
        self.storages.start()
        self._attach()
        self._space.start()
        self._counts_thread.start()
        self.connect()

    def connect(self) -> None:
        """Accept and open connections, unless that has begun.

        Raises:
            LinkError: A required endpoint cannot be reached.

        Example:
            >>> job.connect()
        """
        self._opener.finish()

    def ingest(self, settings: Mapping[str, IngestSettings]) -> None:
        """Start the ingest processes that do not run yet, with settings for each lake; returns at once.

        Args:
            settings: Settings of the ingestion, by lake.

        Example:
            >>> job.ingest({"lake": IngestSettings(trigger=5.0)})
        """
        instance = uuid4().hex
        for lake, journals in self._journals().items():
            if lake not in self.supervisors:
                task = IngestProcessConfig(
                    lake=lake,
                    journals=tuple(str(path) for path in journals),
                    instance=instance,
                    settings=settings[lake],
                )
                self.supervisors[lake] = IngestSupervisor(task, RotatingLog(self._log_file(journals[0])))
            self.supervisors[lake].start()

    def _log_file(self, journal: Path) -> Path:
        """Return an unused log path; two lakes filled from the same journal have different ones."""
        taken = {supervisor.status().log for supervisor in self.supervisors.values()}
        names = [LOG_PATH, *(LOG_PATH.replace(".log", f"-{number}.log") for number in range(2, len(taken) + 2))]
        return next(journal / name for name in names if str(journal / name) not in taken)

    def check(self) -> None:
        """Check that recording goes on; failed ingestion is retried and raises nothing.

        Raises:
            JobEnded: Recording has ended.

        Example:
            >>> job.check()
        """
        for recorder in self.storages.recorders.values():
            if not recorder.is_running:
                raise JobEnded("recording", recorder.status().error or "the session was closed")

    def drain(self, timeout: float) -> bool:
        """Stop recording and ingest everything recorded.

        Args:
            timeout: Seconds for both.

        Returns:
            True if everything is ingested.

        Raises:
            JournalError: The last rows cannot be written to a journal; they are lost.

        Example:
            >>> is_complete = job.drain(timeout=60)
        """
        self.storages.stop_recording()
        deadline = time.monotonic() + timeout
        for lake, supervisor in self.supervisors.items():
            is_needed = self._backlog([lake]).rows or supervisor.status().state is IngestState.INGESTING
            if is_needed:
                supervisor.drain(max(0.0, deadline - time.monotonic()))
        return not self.status().waiting.rows

    def close(self) -> None:
        """End everything; rows that are not ingested stay in the journals.

        Example:
            >>> job.close()
        """
        self._closing.set()
        for supervisor in self.supervisors.values():
            supervisor.stop()
        self._space.close()
        self.storages.close()
        self.session.close()
        if self._counts_thread.is_alive():
            self._counts_thread.join()

    # --- journals

    def _journals(self) -> dict[str, list[Path]]:
        """Return the journals of each lake."""
        journals_by_lake: dict[str, list[Path]] = {}
        for storage in self.storages.settings:
            if (
                storage.lake is not None
                and storage.record
                and storage.journal not in journals_by_lake.setdefault(storage.lake, [])
            ):
                journals_by_lake[storage.lake].append(storage.journal)
        return {lake: journals for lake, journals in journals_by_lake.items() if journals}

    def _attach(self) -> None:
        """Attach a reader per lake to its journals, so that they keep rows that are not ingested yet."""
        for lake, journals in self._journals().items():
            reader = reader_name(StoragePath.at(lake).address)
            for path in journals:
                journal = Journal(path)
                committed = journal.committed(reader)
                journal.commit(reader, journal.earliest() if committed is None else committed)

    def _backlog(self, lakes: Iterable[str]) -> Backlog:
        """Measure the rows of the journals that are not ingested into these lakes yet."""
        journals_by_lake = self._journals()
        pairs = [(journal, lake) for lake in lakes for journal in map(Journal, journals_by_lake[lake])]
        return measure_backlog(((journal, self._end_offset(journal, lake)) for journal, lake in pairs), time.time())

    def _end_offset(self, journal: Journal, lake: str) -> int:
        """Return the end offset of ingested rows: reported by the ingest process, or committed in the journal."""
        supervisor = self.supervisors.get(lake)
        try:
            committed = journal.committed(reader_name(StoragePath.at(lake).address)) or 0
            return (
                committed
                if supervisor is None
                else max(committed, supervisor.status().committed_offsets.get(journal.recorder, 0))
            )
        except JournalError:
            return 0

    # --- status

    def status(self) -> JobStatus:
        """Return the current status.

        Returns:
            Counts and rates of recording and ingestion, rows that wait, losses and problems.

        Raises:
            UsageError: The path of a lake is not valid.

        Example:
            >>> print(job.status().recorded, job.status().ingested)
        """
        statuses = {path: recorder.status() for path, recorder in self.storages.recorders.items()}
        recorders = statuses.values()
        ingestions = tuple(supervisor.status() for supervisor in self.supervisors.values())
        return JobStatus(
            recorded=sum(recorder.rows for recorder in recorders),
            recorded_rate=self._recorded.rate(),
            ingested=sum(ingestion.rows for ingestion in ingestions),
            ingested_rate=self._ingested.rate(),
            waiting=self._backlog(self._journals()),
            bytes=sum(ingestion.bytes for ingestion in ingestions),
            keys=sum(len(storage.latest) for storage in self.storages.storages.values()),
            lost=Losses(
                self._lost_on_links(),
                sum(recorder.lost for recorder in recorders),
                sum(ingestion.lost for ingestion in ingestions),
            ),
            quarantined=sum(ingestion.quarantined for ingestion in ingestions),
            recording=next(filter(None, (recorder.error or recorder.warning for recorder in recorders)), None),
            journals=tuple(
                self._meters.setdefault(path, JournalMeter(path)).measure(recorder.backlog, recorder.lost)
                for path, recorder in statuses.items()
            ),
            ingestions=ingestions,
        )

    def _lost_on_links(self) -> dict[str, int]:
        lost_by_reason: dict[str, int] = {}
        for counters in self.session.info.link_counters() if not self.session.is_closed() else ():
            for reason, count in counters.lost.items():
                lost_by_reason[reason] = lost_by_reason.get(reason, 0) + count
        return lost_by_reason

    def _sample_counts(self) -> None:
        """Sample the counters for rates, and re-attach the readers of the journals periodically."""
        attached = time.monotonic()
        while not self._closing.wait(RATE_SAMPLE_INTERVAL_SECONDS):
            now = time.monotonic()
            self._recorded.add(now, sum(recorder.status().rows for recorder in self.storages.recorders.values()))
            self._ingested.add(now, sum(supervisor.status().rows for supervisor in self.supervisors.values()))
            if now - attached >= REATTACH_INTERVAL_SECONDS:
                attached = now
                with contextlib.suppress(JournalError):  # a full disk; retried at the next interval
                    self._attach()
