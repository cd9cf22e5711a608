"""Exactly-once commits of journal rows to `samples`.

One batch consists of slices of journals. Spark tasks read one slice each and write its rows with Arrow into new Parquet
files. The driver then commits one transaction, which adds these files and sets the end offset of every recorder. Its
atomic step is `StoragePath.put_if_absent` of the next file of the Delta log (lake/delta_log.py). No reader sees the
files before it, and a crash before it leaves only files that vacuum removes. After it, the next query starts at these
offsets, regardless of the state that Spark has of the batch.

Two application versions per recorder guard this. `offset:<recorder>`: a batch that starts before the committed offset
is refused. `epoch:<recorder>`: a process that starts to ingest a recorder increments it, and every transaction carries
it, so that a process that was considered dead cannot commit any more. Processes that ingest different recorders do not
conflict.

Bad rows do not stop the others. A task returns its error instead of failing the Spark job. A slice with a data error is
tried again, and then its failing blocks are moved to quarantine (lake/quarantine.py).
"""

from __future__ import annotations

import contextlib
import logging
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from zenspark.errors import LakeError
from zenspark.journal import Slice
from zenspark.journal.block_codec import DICTIONARY_TYPE
from zenspark.lake.delta_log import CommitConflict
from zenspark.lake.delta_table import LakeTable, Transaction, describe_difference
from zenspark.lake.duplicates import DuplicateOffsets, drop_duplicates, find_duplicates
from zenspark.lake.error_cause import error_cause
from zenspark.lake.ingested_offsets import offset_app_id, offset_app_versions
from zenspark.lake.parquet_files import DataFile
from zenspark.lake.quarantine import (
    QUARANTINED,
    QuarantinedBlock,
    SliceResult,
    discard,
    is_data_error,
    write_by_block,
    write_rows,
)
from zenspark.lake.specs import SAMPLES
from zenspark.lake.storage_path import StoragePath
from zenspark.spark.ingest.write_files import run_on_executors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger("zenspark.spark")

EPOCH_APP_ID_PREFIX = "epoch:"
"""Application id of a recorder's epoch, without the name of the recorder."""
MAX_WRITE_ATTEMPTS = 3
"""Attempts to write a slice with a data error before its failing blocks are quarantined."""
MIN_SYSTEMATIC_BLOCKS = 16
"""Intact blocks that fail while none succeeds, from which the fault is in the writer and nothing is quarantined."""

DEDUPLICATION_APP_ID = "deduplication"
"""Application id of a count of transactions that searched for duplicates: of two concurrent ones, one is retried."""
MAX_BATCH_ATTEMPTS = 20
"""Attempts to write a batch while other processes commit samples (deduplication only)."""


class DeduplicationConflict(LakeError):
    """Another process committed samples of other recorders while this batch searched for duplicates."""


class WriterFenced(LakeError):
    """Another process has started to ingest one of these recorders."""


@dataclass(frozen=True)
class OffsetSpan:
    """Offsets of one recorder in a batch: start (inclusive), end (exclusive)."""

    start: int
    end: int
    rows: int

    def __or__(self, other: OffsetSpan) -> OffsetSpan:
        return OffsetSpan(min(self.start, other.start), max(self.end, other.end), self.rows + other.rows)


@dataclass(frozen=True)
class BatchResult:
    """Result of one committed batch."""

    batch: int
    rows: int
    bytes: int
    newest: datetime | None
    """Reception time of the newest row."""
    committed_offsets: Mapping[str, int]
    """Committed end offset per recorder (exclusive)."""
    quarantined: int = 0
    """Rows moved to quarantine."""
    duplicates: int = 0
    """Rows skipped because another recorder's copy was ingested before."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """Rows before this batch, per recorder, that its journal trimmed before they were ingested."""


class TaskFailure(NamedTuple):
    """Error of a task that could not write its slice."""

    cause: str
    is_data: bool
    stack: str


@dataclass
class WrittenFiles:
    """Files written and blocks quarantined by the tasks of a batch."""

    files: list[DataFile] = field(default_factory=list)
    quarantined: list[QuarantinedBlock] = field(default_factory=list)


def write_slice(folder: StoragePath, label: str, dropped: DuplicateOffsets, journal_slice: Slice) -> SliceResult:
    """Write the rows of a journal slice into files by day and prefix; runs as a Spark task."""
    batches = (drop_duplicates(batch, dropped) for batch in journal_slice.batches(DICTIONARY_TYPE))
    return SliceResult(write_rows(folder, label, (batch for batch in batches if batch.num_rows)), [])


def run_task(write: Callable[[Slice], SliceResult], journal_slice: Slice) -> SliceResult | TaskFailure:
    """Run `write` in a task; returns the error as a result, because Spark would hide its cause."""
    try:
        return write(journal_slice)
    except Exception as error:
        return TaskFailure(error_cause(error), is_data_error(error), traceback.format_exc())


class SamplesWriter:
    """Commits batches of recorders to `samples`; from the first batch on, earlier writers of them are fenced off."""

    def __init__(self, lake: StoragePath, table: LakeTable, *, deduplicate: bool = False) -> None:
        """Take the table; with `deduplicate`, samples that were ingested from another recorder are skipped."""
        self.table = table
        self._lake = lake
        self._deduplicate = deduplicate
        self._epochs: dict[str, int] = {}

    def fence_earlier_writers(self, recorders: Iterable[str]) -> None:
        """Increment the writer epoch of recorders: a process that ingested them before cannot commit any more."""
        self.table.update()
        new = {
            recorder: (self.table.app_version(f"{EPOCH_APP_ID_PREFIX}{recorder}") or 0) + 1 for recorder in recorders
        }
        self.table.commit(
            Transaction(app_versions={f"{EPOCH_APP_ID_PREFIX}{recorder}": epoch for recorder, epoch in new.items()})
        )
        self._epochs |= new

    def commit_batch(self, slice_rows: DataFrame, batch: int) -> BatchResult:
        """Write and commit one batch, given as slices of journals."""
        _check_columns(slice_rows)
        slices = [_validate_slice(Slice(**row.asDict())) for row in slice_rows.collect()]
        spans = _offset_spans(slices)
        unfenced = [recorder for recorder in spans if recorder not in self._epochs]
        if unfenced:
            self.fence_earlier_writers(unfenced)
        for _ in range(MAX_BATCH_ATTEMPTS):
            self._check_spans(spans, batch)  # before anything is written
            written = self._write_slices(slice_rows.sparkSession, slices, batch)
            try:
                return self._commit_and_count(written, spans, batch)
            except DeduplicationConflict:
                address = self.table.location.address
                reason = "another process committed samples of other recorders"
                logger.info("%s: batch %d is retried: %s", address, batch, reason)
        raise LakeError(
            self.table.location.address,
            f"batch {batch} conflicted {MAX_BATCH_ATTEMPTS} times with commits of other processes",
        )

    def _commit_and_count(self, written: WrittenFiles, spans: Mapping[str, OffsetSpan], batch: int) -> BatchResult:
        """Commit a batch and return its counts."""
        lost = self._commit(written, spans, batch) if spans else {}
        newest: datetime = max((file.max_values["received_at"] for file in written.files), default=None)  # type: ignore[assignment]
        rows = sum(file.rows for file in written.files)
        quarantined = sum(item.num_rows for item in written.quarantined)
        return BatchResult(
            batch,
            rows,
            sum(file.size for file in written.files),
            newest,
            {recorder: span.end for recorder, span in spans.items()},
            quarantined=quarantined,
            duplicates=sum(span.rows for span in spans.values()) - rows - quarantined,
            lost=lost,
        )

    def _commit(self, written: WrittenFiles, spans: Mapping[str, OffsetSpan], batch: int) -> dict[str, int]:
        """Commit files, end offsets and epochs of a batch in one transaction: exactly once.

        Returns the rows before it that are lost, per recorder.
        """
        committed_offsets = offset_app_versions({recorder: span.end for recorder, span in spans.items()})
        epochs = {f"{EPOCH_APP_ID_PREFIX}{recorder}": self._epochs[recorder] for recorder in spans}
        quarantined = {item.app_id: QUARANTINED for item in written.quarantined}
        deduplication = {DEDUPLICATION_APP_ID: self._deduplication_count + 1} if self._deduplicate else {}
        try:
            if not self._deduplicate:  # with deduplication the commit must be based on the version that was searched
                self.table.update()
            self._check_owner(spans)
            lost = self._check_spans(spans, batch)
            self.table.commit(
                Transaction(add=written.files, app_versions=epochs | quarantined | deduplication | committed_offsets)
            )
        except CommitConflict as error:
            self._discard(written.files)
            self.table.update()
            self._check_owner(spans)
            if self._deduplicate:
                raise DeduplicationConflict(self.table.location.address, error.problem) from error
            raise WriterFenced(self.table.location.address, f"another process ingests here: {error.problem}") from error
        except WriterFenced:
            self._discard(written.files)
            raise
        return lost

    # --- files

    def _write_slices(self, spark: SparkSession, slices: Sequence[Slice], batch: int) -> WrittenFiles:
        """Write slices by Spark tasks, one task each; blocks that no task can write are quarantined."""
        label = f"{batch:09}"
        written = WrittenFiles()
        failed = list(slices)
        write = partial(write_slice, self.table.location, label, self._duplicates(slices))
        for _ in range(MAX_WRITE_ATTEMPTS):
            failed = self._run_tasks(spark, write, failed, written)
            if not failed:
                return written
        failed = self._run_tasks(
            spark, partial(write_by_block, self._lake, self.table.location, label), failed, written
        )
        if failed:
            problem = f"{failed[0].path}: reading the slice block by block failed too; see the ingest log"
            raise LakeError(self.table.location.address, problem)
        self._check_systematic(written)
        for item in written.quarantined:
            logger.error(
                "%s: rows %d to %d of recorder %s quarantined: %s; once they can be read, `zenspark lake retry`"
                " ingests them",
                self._lake.address,
                item.start,
                item.end - 1,
                item.recorder,
                item.reason,
            )
        return written

    def _check_systematic(self, written: WrittenFiles) -> None:
        """Raise LakeError if no block at all can be written, though the blocks are intact."""
        is_systematic = not written.files and len(written.quarantined) >= MIN_SYSTEMATIC_BLOCKS
        if is_systematic and not any(item.is_damaged for item in written.quarantined):
            discard(self._lake, written.quarantined)
            reason = written.quarantined[0].reason
            raise LakeError(
                self.table.location.address, f"none of {len(written.quarantined)} blocks can be ingested: {reason}"
            )

    def _duplicates(self, slices: Sequence[Slice]) -> DuplicateOffsets:
        """Find rows that were ingested from another recorder, if deduplication is on."""
        return find_duplicates(slices, self.table.update()) if self._deduplicate else {}

    @property
    def _deduplication_count(self) -> int:
        return self.table.app_version(DEDUPLICATION_APP_ID) or 0

    def _run_tasks(
        self,
        spark: SparkSession,
        write: Callable[[Slice], SliceResult],
        slices: Sequence[Slice],
        written: WrittenFiles,
    ) -> list[Slice]:
        """Run a task per slice. Returns the slices with data errors; raises LakeError for any other error."""
        outcomes = run_on_executors(spark, partial(run_task, write), slices)
        failures: list[tuple[Slice, TaskFailure]] = []
        for journal_slice, outcome in zip(slices, outcomes, strict=True):
            if isinstance(outcome, TaskFailure):
                failures.append((journal_slice, outcome))
            else:
                written.files += outcome.files
                written.quarantined += outcome.quarantined
        for journal_slice, failure in failures:
            logger.info(
                "%s: Spark task failed with rows %d to %d of recorder %s: %s",
                self.table.location.address,
                journal_slice.start,
                journal_slice.end - 1,
                journal_slice.recorder,
                failure.stack,
            )
        other = next((failure for _, failure in failures if not failure.is_data), None)
        if other is not None:
            self._discard(written.files)
            raise LakeError(self.table.location.address, other.cause)
        return [journal_slice for journal_slice, _ in failures]

    def _discard(self, files: Sequence[DataFile]) -> None:
        """Remove files that will not be committed, best effort; vacuum removes the rest."""
        with contextlib.suppress(OSError):
            for file in files:
                self.table.location.remove(file.path)

    # --- checks

    def _check_owner(self, recorders: Iterable[str]) -> None:
        for recorder in recorders:
            if self.table.app_version(f"{EPOCH_APP_ID_PREFIX}{recorder}") != self._epochs[recorder]:
                raise WriterFenced(
                    self.table.location.address, f"another process has started to ingest recorder {recorder!r}"
                )

    def _check_spans(self, spans: Mapping[str, OffsetSpan], batch: int) -> dict[str, int]:
        """Return the trimmed rows before the batch by recorder; raises LakeError if its rows are committed already."""
        lost: dict[str, int] = {}
        for recorder, span in spans.items():
            end = self.table.app_version(offset_app_id(recorder))
            if end is not None and span.start < end:
                raise LakeError(
                    self.table.location.address,
                    f"batch {batch} has rows of recorder {recorder!r} from offset {span.start}, but rows up to {end}"
                    " are committed: does another process ingest this journal without a lease?",
                )
            if end is not None and span.start > end:
                lost[recorder] = span.start - end
        return lost


def _offset_spans(slices: Iterable[Slice]) -> dict[str, OffsetSpan]:
    """Return the offset span of each recorder in these slices."""
    spans: dict[str, OffsetSpan] = {}
    for journal_slice in slices:
        span = OffsetSpan(journal_slice.start, journal_slice.end, journal_slice.num_rows)
        recorder = journal_slice.recorder
        spans[recorder] = spans[recorder] | span if recorder in spans else span
    return spans


def _check_columns(slice_rows: DataFrame) -> None:
    from zenspark.spark.ingest.read_files import spark_columns
    from zenspark.spark.source.stream import SLICES

    expected, actual = dict(spark_columns(SLICES)), dict(slice_rows.dtypes)
    unknown = [f"{name} is unknown" for name in actual if name not in expected]
    problem = "; ".join([describe_difference(expected, actual)] * (not unknown) + unknown)
    if problem:
        raise LakeError("samples", f"not journal slices: {problem}")


def _validate_slice(journal_slice: Slice) -> Slice:
    if journal_slice.rows != SAMPLES.name:
        problem = f"rows of type {journal_slice.rows} cannot be ingested here: {journal_slice.path}"
        raise LakeError("samples", problem)
    return journal_slice
