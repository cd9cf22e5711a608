"""PushRun: consecutive publications of one read, as rows of columns."""

from __future__ import annotations

import msgspec

from zenspark.wire.columns.layout import PushTemplate, RowKind
from zenspark.wire.columns.table import PushColumns
from zenspark.wire.values import ZenohId


class PushRun(msgspec.Struct, frozen=True):
    """Publications: rows `start` to `stop` of columns that are valid until the next event is requested."""

    columns: PushColumns
    start: int
    stop: int
    owns_buffer: bool = False
    """Whether there is one row, joined from fragments, whose bytes stay valid."""
    timestamped_by: ZenohId | None = None
    """Zid of the clock that timestamped the PUTs received without a timestamp, if any."""

    def template_at(self, index: int) -> PushTemplate:
        """Template of the rows with an index, including the clock that timestamped them here."""
        template = self.columns.template_at(index)
        if self.timestamped_by is None or template.timestamp_id is not None or template.kind is not RowKind.PUT:
            return template
        return msgspec.structs.replace(template, timestamp_id=self.timestamped_by)
