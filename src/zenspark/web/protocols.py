"""Typing protocols of the pipeline and the SQL engine, as far as the server uses them. Both may be absent.

The packages that implement them do not import this one; the command line passes them to the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa


@runtime_checkable
class Pipeline(Protocol):
    """The pipeline from Zenoh to tables: `zenspark.spark.pipeline.job.Job` is one."""

    def status(self) -> Any:  # noqa: ANN401 - a msgspec struct of `zenspark.spark`, which this package does not import
        """Return the current status, a struct whose fields are those of the status document."""


class SqlEngine(Protocol):
    """Runs SQL on the tables of a lake, without Spark."""

    def tables(self) -> Sequence[Any]:
        """Return the tables: each with `name`, `columns`, and, where known, `rows`, `bytes` and `files`."""

    def query(self, text: str, limit: int | None = None, timeout: float | None = None) -> pa.Table:
        """Run a query; returns at most `limit` rows, within `timeout` seconds. Raises UsageError with one line."""
