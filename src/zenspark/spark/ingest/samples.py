"""How rows of a journal become rows of `samples`, exactly once.

One batch is some parts of journals. Tasks of Spark read them, each one part, and write its rows with Arrow as Parquet
files of new names; the driver commits one transaction that adds these files and says up to which offset of every
recorder the table now reaches. Until the transaction no reader sees the files, and a crash before it leaves nothing but
files that vacuum removes. After it the next query starts behind these offsets, whatever it knows of the batch.

Two marks per recorder guard that. `offset:<recorder>`: a batch that does not start where the table ends is refused.
`epoch:<recorder>`: a process that begins to land a recorder moves it, and each of its transactions carries it, so that
one that was thought dead and wakes up cannot commit any more. Processes that land different recorders do not meet.

What is wrong with rows does not stop the others. A task that fails reports why, instead of failing the job; a part
whose data is at fault is tried again, and then its blocks that fail are put aside (quarantine.py).
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
from zenspark.journal.block_codec import WORDS
from zenspark.lake.delta_log import Conflict
from zenspark.lake.delta_table import Change, Table, difference
from zenspark.lake.duplicates import Dropped, find_duplicates, without
from zenspark.lake.error_cause import error_cause
from zenspark.lake.offset_marks import mark_of, marks
from zenspark.lake.parquet_files import File
from zenspark.lake.quarantine import ASIDE, Quarantined, Salvaged, discard, is_data_error, salvage, write_rows
from zenspark.lake.specs import SAMPLES
from zenspark.lake.storage_path import Folder
from zenspark.spark.ingest.write_files import on_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("zenspark.spark")

EPOCH = "epoch:"
MAX_TRIES = 3
"""How often a part is tried whose data is at fault, before its blocks are put aside."""
SYSTEMATIC_BLOCKS = 16
"""So many whole blocks of which none can be landed are not poisoned: the fault is in what lands them, and they wait."""

DEDUPLICATION = "deduplication"
"""The mark that each transaction moves which looked for duplicates: of two that did so at once, one looks again."""
MAX_OVERTAKEN = 20
"""How often a batch is written again because other recorders' samples landed meanwhile."""


class Overtaken(LakeError):
    """Samples of other recorders landed while a batch was compared with what was there."""


class Superseded(LakeError):
    """Another process has begun to land one of these recorders."""


@dataclass(frozen=True)
class Span:
    """The rows of one recorder in a batch: from an offset up to before another."""

    start: int
    end: int
    rows: int

    def __or__(self, other: Span) -> Span:
        return Span(min(self.start, other.start), max(self.end, other.end), self.rows + other.rows)


@dataclass(frozen=True)
class Landed:
    """What one batch brought."""

    batch: int
    rows: int
    bytes: int
    newest: datetime | None
    """When the last of its rows was received."""
    reached: Mapping[str, int]
    """Up to before which offset of its recorders the table has come."""
    quarantined: int = 0
    """Rows that were put aside."""
    duplicates: int = 0
    """Rows that were left out, because another recorder had brought them in."""
    lost: int = 0
    """Rows before its own that the journals had trimmed before they landed."""


class Failure(NamedTuple):
    """Why a task could not write its part."""

    cause: str
    is_data: bool
    stack: str


@dataclass
class Written:
    """What the tasks of a batch wrote and put aside."""

    files: list[File] = field(default_factory=list)
    aside: list[Quarantined] = field(default_factory=list)


def write_part(folder: Folder, label: str, dropped: Dropped, part: Slice) -> Salvaged:
    """Write the rows of a part of a journal into files by day and prefix: what a task of Spark does."""
    batches = (without(batch, dropped) for batch in part.batches(WORDS))
    return Salvaged(write_rows(folder, label, (batch for batch in batches if batch.num_rows)), [])


def attempt(write: Callable[[Slice], Salvaged], part: Slice) -> Salvaged | Failure:
    """What a task does: an error is its result, so that Spark does not bury it."""
    try:
        return write(part)
    except Exception as error:
        return Failure(error_cause(error), is_data_error(error), traceback.format_exc())


class Samples:
    """Lands batches of some recorders; from the first batch on no process that began before can land these."""

    def __init__(self, lake: Folder, table: Table, *, deduplicate: bool = False) -> None:
        """With `deduplicate`, samples that another recorder has brought in are left out."""
        self.table = table
        self._lake = lake
        self._deduplicate = deduplicate
        self._epochs: dict[str, int] = {}

    def claim(self, recorders: Iterable[str]) -> None:
        """Begin to land recorders: a process that landed them before cannot commit any more."""
        self.table.refresh()
        new = {recorder: (self.table.mark(f"{EPOCH}{recorder}") or 0) + 1 for recorder in recorders}
        self.table.commit(Change(marks={f"{EPOCH}{recorder}": epoch for recorder, epoch in new.items()}))
        self._epochs |= new

    def land(self, parts: DataFrame, batch: int) -> Landed:
        """Bring one batch into the table, given as parts of journals."""
        _check_columns(parts)
        slices = [_checked(Slice(**row.asDict())) for row in parts.collect()]
        spans = _spans(slices)
        unclaimed = [recorder for recorder in spans if recorder not in self._epochs]
        if unclaimed:
            self.claim(unclaimed)
        for _ in range(MAX_OVERTAKEN):
            self._check_spans(spans, batch)  # before anything is written
            written = self._written(parts.sparkSession, slices, batch)
            try:
                return self._committed(written, spans, batch)
            except Overtaken:
                log.info("batch %d is written again: other recorders' samples landed meanwhile", batch)
        raise LakeError(self.table.folder.address, f"batch {batch} was overtaken {MAX_OVERTAKEN} times")

    def _committed(self, written: Written, spans: Mapping[str, Span], batch: int) -> Landed:
        """Make a batch count: its files, its offsets, and what was put aside."""
        lost = self._commit(written, spans, batch) if spans else 0
        newest: datetime = max((file.greatest["received_at"] for file in written.files), default=None)  # type: ignore[assignment]
        rows = sum(file.rows for file in written.files)
        aside = sum(item.num_rows for item in written.aside)
        return Landed(
            batch,
            rows,
            sum(file.size for file in written.files),
            newest,
            {recorder: span.end for recorder, span in spans.items()},
            quarantined=aside,
            duplicates=sum(span.rows for span in spans.values()) - rows - aside,
            lost=lost,
        )

    def _commit(self, written: Written, spans: Mapping[str, Span], batch: int) -> int:
        """Commit a batch; how many rows before it are lost."""
        reached = marks({recorder: span.end for recorder, span in spans.items()})
        epochs = {f"{EPOCH}{recorder}": self._epochs[recorder] for recorder in spans}
        aside = {item.mark: ASIDE for item in written.aside}
        looked = {DEDUPLICATION: self._looked + 1} if self._deduplicate else {}
        try:
            if not self._deduplicate:  # otherwise it must be the table as it was when duplicates were looked for
                self.table.refresh()
            self._check_owner(spans)
            lost = self._check_spans(spans, batch)
            self.table.commit(Change(add=written.files, marks=epochs | aside | looked | reached))
        except Conflict as error:
            self._discard(written.files)
            self.table.refresh()
            self._check_owner(spans)
            if self._deduplicate:
                raise Overtaken(self.table.folder.address, error.problem) from error
            raise Superseded(self.table.folder.address, f"another process lands here: {error.problem}") from error
        except Superseded:
            self._discard(written.files)
            raise
        return lost

    # --- files

    def _written(self, spark: SparkSession, slices: Sequence[Slice], batch: int) -> Written:
        """Let tasks write the rows, each one part; what no task can write is put aside."""
        label = f"{batch:09}"
        found = Written()
        failed = list(slices)
        write = partial(write_part, self.table.folder, label, self._duplicates(slices))
        for _ in range(MAX_TRIES):
            failed = self._tried(spark, write, failed, found)
            if not failed:
                return found
        failed = self._tried(spark, partial(salvage, self._lake, self.table.folder, label), failed, found)
        if failed:
            raise LakeError(self.table.folder.address, f"the blocks of {failed[0].path} cannot be told apart")
        self._check_systematic(found)
        for item in found.aside:
            log.error(
                "recorder %s: rows %d to %d are put aside: %s", item.recorder, item.start, item.end - 1, item.reason
            )
        return found

    def _check_systematic(self, found: Written) -> None:
        """LakeError if no block at all can be landed, though they are whole."""
        is_systematic = not found.files and len(found.aside) >= SYSTEMATIC_BLOCKS
        if is_systematic and not any(item.is_damaged for item in found.aside):
            discard(self._lake, found.aside)
            reason = found.aside[0].reason
            raise LakeError(self.table.folder.address, f"none of {len(found.aside)} blocks can be landed: {reason}")

    def _duplicates(self, slices: Sequence[Slice]) -> Dropped:
        """The rows that other recorders have brought in, if they are to be left out."""
        return find_duplicates(slices, self.table.refresh()) if self._deduplicate else {}

    @property
    def _looked(self) -> int:
        return self.table.mark(DEDUPLICATION) or 0

    def _tried(
        self, spark: SparkSession, write: Callable[[Slice], Salvaged], slices: Sequence[Slice], found: Written
    ) -> list[Slice]:
        """Have parts written; those whose data is at fault. LakeError if it is anything else."""
        outcomes = on_workers(spark, partial(attempt, write), slices)
        failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
        for outcome in outcomes:
            if isinstance(outcome, Salvaged):
                found.files += outcome.files
                found.aside += outcome.aside
        for failure in failures:
            log.info("a task failed: %s", failure.stack)
        other = next((failure for failure in failures if not failure.is_data), None)
        if other is not None:
            self._discard(found.files)
            raise LakeError(self.table.folder.address, other.cause)
        return [part for part, outcome in zip(slices, outcomes, strict=True) if isinstance(outcome, Failure)]

    def _discard(self, files: Sequence[File]) -> None:
        """Remove files that will not be committed, as far as that is possible; vacuum does the rest."""
        with contextlib.suppress(OSError):
            for file in files:
                self.table.folder.remove(file.path)

    # --- guards

    def _check_owner(self, recorders: Iterable[str]) -> None:
        for recorder in recorders:
            if self.table.mark(f"{EPOCH}{recorder}") != self._epochs[recorder]:
                raise Superseded(self.table.folder.address, f"another process has begun to land recorder {recorder!r}")

    def _check_spans(self, spans: Mapping[str, Span], batch: int) -> int:
        """How many rows before these the journals have lost; LakeError if some of these are there already."""
        lost = 0
        for recorder, span in spans.items():
            end = self.table.mark(mark_of(recorder))
            if end is not None and span.start < end:
                raise LakeError(
                    self.table.folder.address,
                    f"batch {batch} brings rows of recorder {recorder!r} from offset {span.start} on, but up to {end}"
                    " they are there: does another process land this journal without a lease?",
                )
            if end is not None and span.start > end:
                lost += span.start - end
        return lost


def _spans(slices: Iterable[Slice]) -> dict[str, Span]:
    """Which rows of which recorder these parts have."""
    spans: dict[str, Span] = {}
    for part in slices:
        span = Span(part.start, part.end, part.num_rows)
        spans[part.recorder] = spans[part.recorder] | span if part.recorder in spans else span
    return spans


def _check_columns(parts: DataFrame) -> None:
    from zenspark.spark.ingest.read_files import spark_columns
    from zenspark.spark.source.stream import SLICES

    expected, found = dict(spark_columns(SLICES)), dict(parts.dtypes)
    unknown = [f"{name} is unknown" for name in found if name not in expected]
    wrong = "; ".join([difference(expected, found)] * (not unknown) + unknown)
    if wrong:
        raise LakeError("samples", f"these are not parts of journals: {wrong}")


def _checked(part: Slice) -> Slice:
    if part.rows != SAMPLES.name:
        raise LakeError("samples", f"a part with rows of {part.rows} cannot land here: {part.path}")
    return part
