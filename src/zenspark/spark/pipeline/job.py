"""Job: everything between a Zenoh network and tables: a process that records and answers, and one per lake that lands.

A session, recorders and storages run here and start at once. The landing of each lake runs in a process of its own,
which drives Spark and may fail, hang or be killed: it is started again, and recording goes on meanwhile. To end, first
nothing more is recorded, then everything recorded lands. What is cut off in between is in the journals, and lands the
next time.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from zenspark.api.open import open as open_session
from zenspark.config.config import Config
from zenspark.errors import JournalError, ZError
from zenspark.journal import Journal, Policy
from zenspark.lake.reader_name import reader_name
from zenspark.lake.storage_path import Folder
from zenspark.spark.ingest.settings import IngestSettings, IngestTask
from zenspark.spark.ingest.supervision import IngestState
from zenspark.spark.ingest.supervisor import IngestSupervisor
from zenspark.spark.pipeline.backlog import Backlog, measure_backlog
from zenspark.spark.pipeline.rotating_log import RotatingLog
from zenspark.spark.pipeline.status import JobStatus, Losses, RateMeter
from zenspark.spark.pipeline.status_documents import StatusQueryable
from zenspark.storage.manager import Storages
from zenspark.storage.settings import StorageSettings

RATE_SAMPLE_SECONDS = 1.0
"""Between two looks at counts, for rates."""
SETTLE_POLL_SECONDS = 0.1
"""Between two looks at whether rows have landed."""
REATTACH_SECONDS = 600.0
"""Between two notes in the journals that a lake still needs their rows, though landing may be failing for days."""
LOG_PATH = "_logs/landing.log"
"""Below the first journal of a lake: a place on this machine, whatever is wrong with the lake."""


class JobEnded(ZError):
    """The job cannot go on: recording has ended, and why."""

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(what, problem)
        self.what = what
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.what} has ended: {self.problem}"


class Job:
    """One node with its storages, and the landings of their lakes."""

    def __init__(self, config: Config, storages: Sequence[StorageSettings], policy: Policy | None = None) -> None:
        self.session = open_session(config)
        self.storages = Storages(self.session, storages, policy)
        self.landings: dict[str, IngestSupervisor] = {}
        """By the place of their lake."""
        self._space = StatusQueryable(self.session, self.status)
        self._recorded = RateMeter()
        self._landed = RateMeter()
        self._closing = threading.Event()
        self._watch = threading.Thread(target=self._watch_counts, name="zenspark-watch", daemon=True)

    # --- life

    def record(self) -> None:
        """Record and answer from now on."""
        self.storages.start()
        self._attach()
        self._space.start()
        self._watch.start()

    def land(self, settings: Mapping[str, IngestSettings]) -> None:
        """Start the processes that land what is recorded and that do not run yet, with settings for each lake.

        Returns at once.
        """
        instance = uuid4().hex
        for lake, journals in self._journals().items():
            if lake in self.landings:
                continue
            task = IngestTask(
                lake=lake, journals=tuple(str(path) for path in journals), instance=instance, settings=settings[lake]
            )
            self.landings[lake] = IngestSupervisor(task, RotatingLog(self._log_file(journals[0])))
            self.landings[lake].start()

    def _log_file(self, journal: Path) -> Path:
        """Of one lake; a second one that is filled from the same journal has another."""
        taken = {landing.status().log for landing in self.landings.values()}
        names = [LOG_PATH, *(LOG_PATH.replace(".log", f"-{number}.log") for number in range(2, len(taken) + 2))]
        return next(journal / name for name in names if str(journal / name) not in taken)

    def check(self) -> None:
        """JobEnded if recording has ended; landing that fails goes on by itself."""
        for recorder in self.storages.recorders.values():
            if not recorder.is_running:
                raise JobEnded("recording", recorder.status().error or "the session was closed")

    def settle(self, timeout: float) -> bool:
        """Wait until everything recorded by now has landed; whether that was in so many seconds."""
        target = {path: recorder.status().offset for path, recorder in self.storages.recorders.items()}
        deadline = time.monotonic() + timeout
        while not self._has_landed(target):
            if time.monotonic() >= deadline:
                return False
            time.sleep(SETTLE_POLL_SECONDS)
        return True

    def _has_landed(self, target: Mapping[Path, int]) -> bool:
        return all(
            self._landed_in(Journal(path), lake) >= target.get(path, 0)
            for lake, journals in self._journals().items()
            for path in journals
        )

    def drain(self, timeout: float) -> bool:
        """Record no more, and land everything that was recorded; whether that was done in so many seconds."""
        self.storages.stop_recording()
        deadline = time.monotonic() + timeout
        for lake, landing in self.landings.items():
            is_needed = self._backlog([lake]).rows or landing.status().state is IngestState.LANDING
            if is_needed:
                landing.drain(max(0.0, deadline - time.monotonic()))
        return not self.status().waiting.rows

    def close(self) -> None:
        """End all of it; what has not landed does so the next time."""
        self._closing.set()
        for landing in self.landings.values():
            landing.stop()
        self._space.close()
        self.storages.close()
        self.session.close()
        if self._watch.is_alive():
            self._watch.join()

    # --- journals

    def _journals(self) -> dict[str, list[Path]]:
        """Of each lake the journals that land there."""
        found: dict[str, list[Path]] = {}
        for each in self.storages.settings:
            if each.lake is not None and each.record and each.journal not in found.setdefault(each.lake, []):
                found[each.lake].append(each.journal)
        return {lake: journals for lake, journals in found.items() if journals}

    def _attach(self) -> None:
        """Have journals keep what has not landed, also while no landing is there to say so."""
        for lake, journals in self._journals().items():
            reader = reader_name(Folder.at(lake).address)
            for path in journals:
                journal = Journal(path)
                known = journal.committed(reader)
                journal.commit(reader, journal.earliest() if known is None else known)

    def _backlog(self, lakes: Iterable[str]) -> Backlog:
        """What has not landed in these lakes, by the journals and by how far the landings have come."""
        known = self._journals()
        found = [(journal, lake) for lake in lakes for journal in map(Journal, known[lake])]
        return measure_backlog(((journal, self._landed_in(journal, lake)) for journal, lake in found), time.time())

    def _landed_in(self, journal: Journal, lake: str) -> int:
        """Up to where a journal has landed: as the landing reported, or another process noted in the journal."""
        landing = self.landings.get(lake)
        try:
            noted = journal.committed(reader_name(Folder.at(lake).address)) or 0
            return noted if landing is None else max(noted, landing.status().reached.get(journal.recorder, 0))
        except JournalError:
            return 0

    # --- how it is doing

    def status(self) -> JobStatus:
        """How it is doing now."""
        recorded = [recorder.status() for recorder in self.storages.recorders.values()]
        landings = tuple(landing.status() for landing in self.landings.values())
        return JobStatus(
            recorded=sum(each.rows for each in recorded),
            recorded_rate=self._recorded.rate(),
            landed=sum(each.rows for each in landings),
            landed_rate=self._landed.rate(),
            waiting=self._backlog(self._journals()),
            bytes=sum(each.bytes for each in landings),
            keys=sum(len(storage.newest) for storage in self.storages.storages.values()),
            lost=Losses(
                self._lost_on_links(), sum(each.lost for each in recorded), sum(each.lost for each in landings)
            ),
            quarantined=sum(each.quarantined for each in landings),
            recording=next((each.error or each.warning for each in recorded if each.error or each.warning), None),
            landings=landings,
        )

    def _lost_on_links(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for counters in self.session.info.link_counters() if not self.session.is_closed() else ():
            for reason, count in counters.lost.items():
                found[reason] = found.get(reason, 0) + count
        return found

    def _watch_counts(self) -> None:
        """Note counts for rates, and now and then that journals are still needed."""
        attached = time.monotonic()
        while not self._closing.wait(RATE_SAMPLE_SECONDS):
            now = time.monotonic()
            self._recorded.add(now, sum(each.status().rows for each in self.storages.recorders.values()))
            self._landed.add(now, sum(landing.status().rows for landing in self.landings.values()))
            if now - attached >= REATTACH_SECONDS:
                attached = now
                with contextlib.suppress(JournalError):  # a full disk; there is time until the next
                    self._attach()
