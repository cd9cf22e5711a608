"""Rows of `samples` that a derived table has not taken in yet, by recorder and offset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.lake.delta_table import LakeTable
from zenspark.lake.offset_marks import list_recorders, read_offsets
from zenspark.lake.parquet_files import DataFile
from zenspark.lake.quarantine import APP_ID_PREFIX, RETRIED, parse_app_id

SAMPLES_VERSION = "samples-version"
"""The mark of a state: the version of `samples` up to which it has all rows."""
OffsetRange = tuple[int, int]
"""From an offset up to before another."""


@dataclass(frozen=True)
class OffsetRanges:
    """Rows of `samples`: of every recorder those from `start` up to before `end`, and late ones before `start`."""

    start: Mapping[str, int]
    end: Mapping[str, int]
    late: Mapping[str, tuple[OffsetRange, ...]] = field(default_factory=dict)
    """Offsets of rows that have landed after others behind them: they had been in quarantine."""

    @property
    def is_empty(self) -> bool:
        return not self.late and all(end <= self.start.get(recorder, 0) for recorder, end in self.end.items())

    def limit_rows(self, rows: int) -> OffsetRanges:
        """The first rows of it: at most so many of each recorder, and all that are late."""
        end = {recorder: min(end, self.start.get(recorder, 0) + rows) for recorder, end in self.end.items()}
        return replace(self, end=end)

    def may_have_rows_in(self, file: DataFile) -> bool:
        """Whether a file can have such rows, by its statistics; without any, it can."""
        recorder = file.min_values.get("recorder")
        if recorder is None or recorder != file.max_values.get("recorder"):
            return True
        first, last = file.min_values.get("offset"), file.max_values.get("offset")
        spans = self._spans(recorder)
        if first is None or last is None:
            return any(start < end for start, end in spans)
        return any(first < end and last >= start for start, end in spans)

    def filter_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that belong to it; `recorder` is a dictionary."""
        recorders, offset = batch["recorder"], pc.fill_null(batch["offset"], -1).to_numpy()
        names = recorders.dictionary.to_pylist()
        index = pc.fill_null(recorders.indices, len(names)).to_numpy()  # rows without a recorder have none of these
        within = np.zeros(len(offset), np.bool_)
        for place, name in enumerate(names):
            for start, end in self._spans(name):
                within |= (index == place) & (offset >= start) & (offset < end)
        return batch if within.all() else batch.filter(pa.array(within))

    def _spans(self, recorder: str) -> list[OffsetRange]:
        start = self.start.get(recorder, 0)
        late = [(first, min(end, start)) for first, end in self.late.get(recorder, ())]
        return [(start, self.end.get(recorder, 0)), *late]


def find_pending(state: LakeTable, samples: LakeTable) -> OffsetRanges:
    """The rows that are in `samples` and not taken into a state yet."""
    known = list_recorders(samples)
    late: dict[str, tuple[OffsetRange, ...]] = {}
    for name in find_late(state, samples):
        recorder, start, end = parse_app_id(name)
        late[recorder] = (*late.get(recorder, ()), (start, end))
    return OffsetRanges(read_offsets(state, known), read_offsets(samples, known), late)


def find_late(state: LakeTable, samples: LakeTable) -> list[str]:
    """The marks of rows that have left quarantine since a state took in samples."""
    retried = [
        name for name, mark in samples.app_versions.items() if name.startswith(APP_ID_PREFIX) and mark == RETRIED
    ]
    return [name for name in retried if state.app_version(name) != RETRIED]
