"""Rows of `samples` that a derived table has not processed yet, by recorder and offset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.lake.delta_table import LakeTable
from zenspark.lake.ingested_offsets import list_recorders, read_offsets
from zenspark.lake.parquet_files import DataFile
from zenspark.lake.quarantine import QUARANTINE_APP_ID_PREFIX, RETRIED, parse_app_id

SAMPLES_VERSION_APP_ID = "samples-version"
"""Application id of a state table: the version of `samples` up to which it has processed all rows."""
PROPAGATED_DELETES_APP_ID = "erased-version"
"""Application id of a state table: the version of `samples` up to which deletes by other tools have been applied."""
REBUILD_COUNT_APP_ID = "rebuilt"
"""Application id: number of rebuilds of the state. A public table of an earlier rebuild is replaced as a whole."""
STATE_VERSION_APP_ID = "state-version"
"""Application id of a public table: the version of the state it was made from."""
OffsetRange = tuple[int, int]
"""First offset, and end offset (exclusive)."""


@dataclass(frozen=True)
class OffsetRanges:
    """Rows of `samples`: of each recorder those from `start` to `end` (exclusive), and late ones before `start`."""

    start: Mapping[str, int]
    end: Mapping[str, int]
    late: Mapping[str, tuple[OffsetRange, ...]] = field(default_factory=dict)
    """Offset ranges of rows that were in quarantine, and ingested after rows with higher offsets."""

    @property
    def is_empty(self) -> bool:
        return not self.late and all(end <= self.start.get(recorder, 0) for recorder, end in self.end.items())

    def limit_rows(self, rows: int) -> OffsetRanges:
        """Limit to the first `rows` of each recorder; late rows are kept."""
        end = {recorder: min(end, self.start.get(recorder, 0) + rows) for recorder, end in self.end.items()}
        return replace(self, end=end)

    def may_have_rows_in(self, file: DataFile) -> bool:
        """Whether a file may have such rows, by its statistics; True if it has none."""
        recorder = file.min_values.get("recorder")
        if recorder is None or recorder != file.max_values.get("recorder"):
            return True
        first, last = file.min_values.get("offset"), file.max_values.get("offset")
        ranges = self._ranges(recorder)
        if first is None or last is None:
            return any(start < end for start, end in ranges)
        return any(first < end and last >= start for start, end in ranges)

    def filter_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Select such rows of a batch; `recorder` must be dictionary-encoded."""
        recorders, offset = batch["recorder"], pc.fill_null(batch["offset"], -1).to_numpy()
        names = recorders.dictionary.to_pylist()
        index = pc.fill_null(
            recorders.indices, len(names)
        ).to_numpy()  # the code of rows without a recorder matches no name
        within = np.zeros(len(offset), np.bool_)
        for code, name in enumerate(names):
            for start, end in self._ranges(name):
                within |= (index == code) & (offset >= start) & (offset < end)
        return batch if within.all() else batch.filter(pa.array(within))

    def _ranges(self, recorder: str) -> list[OffsetRange]:
        start = self.start.get(recorder, 0)
        late = [(first, min(end, start)) for first, end in self.late.get(recorder, ())]
        return [(start, self.end.get(recorder, 0)), *late]


def find_pending(state: LakeTable, samples: LakeTable) -> OffsetRanges:
    """Find the rows of `samples` that a state table has not processed yet."""
    recorders = list_recorders(samples)
    late: dict[str, tuple[OffsetRange, ...]] = {}
    for app_id in find_late(state, samples):
        recorder, start, end = parse_app_id(app_id)
        late[recorder] = (*late.get(recorder, ()), (start, end))
    return OffsetRanges(read_offsets(state, recorders), read_offsets(samples, recorders), late)


def find_late(state: LakeTable, samples: LakeTable) -> list[str]:
    """Application ids of quarantined rows that were ingested since a state table processed `samples`."""
    statuses = {
        app_id: status for app_id, status in samples.app_versions.items() if app_id.startswith(QUARANTINE_APP_ID_PREFIX)
    }
    retried = [app_id for app_id, status in statuses.items() if status == RETRIED]
    return [app_id for app_id in retried if state.app_version(app_id) != RETRIED]
