"""The pipeline as documents: its status as plain values, which the page and the metrics read.

The pipeline is a package above this one, so its status is read by field names, and absent fields count as 0.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from zenspark.api.adminspace.pipeline_metrics import lost_rows
from zenspark.web.context import WebContext
from zenspark.web.documents import JSON, encode_json
from zenspark.web.protocols import Pipeline
from zenspark.web.values import Document, iso

MAX_BATCHES = 200
"""Batches that are kept for each lake."""


def status_document(pipeline: Pipeline | None) -> dict[str, Any] | None:
    """Return the status of a pipeline as plain values, with its problem in one line; None without a pipeline."""
    if pipeline is None:
        return None
    status = pipeline.status()
    document: dict[str, Any] = msgspec.to_builtins(status)
    problems = {ingestion.lake: ingestion.problem for ingestion in getattr(status, "ingestions", ())}
    for ingestion in document.get("ingestions", ()):
        ingestion["problem"] = problems.get(ingestion["lake"])
    return document | {"problem": getattr(status, "problem", None)}


def lakes_of(document: dict[str, Any] | None) -> list[str]:
    """Return the lakes that a pipeline ingests into."""
    return [] if document is None else [str(ingestion["lake"]) for ingestion in document.get("ingestions", ())]


class BatchHistory:
    """The last batches of each lake, detected by the growth of its counts."""

    def __init__(self) -> None:
        self._batches: dict[str, deque[Document]] = {}
        self._before: dict[str, tuple[int, int]] = {}

    def add(self, document: dict[str, Any]) -> None:
        """Add a status; rows since the last one are a batch."""
        for ingestion in document.get("ingestions", ()):
            lake, rows, size = str(ingestion["lake"]), int(ingestion.get("rows", 0)), int(ingestion.get("bytes", 0))
            before = self._before.get(lake)
            self._before[lake] = rows, size
            if before is not None and rows > before[0]:
                batch: Document = {
                    "time": iso(datetime.now(UTC)),
                    "rows": rows - before[0],
                    "seconds": ingestion.get("batch_seconds"),
                    "bytes": max(size - before[1], 0),
                }
                self._batches.setdefault(lake, deque(maxlen=MAX_BATCHES)).append(batch)

    def of(self, lake: str) -> list[Document]:
        """Return the batches of a lake, the newest last."""
        return list(self._batches.get(lake, ()))


class PipelineApi:
    """Requests `/_api/pipeline`."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    async def describe(self, request: Request) -> Response:
        """Describe batches, tables, gaps and latencies; empty without a pipeline."""
        return Response(encode_json(await self._context.run(self._document)), media_type=JSON)

    def _document(self) -> Document:
        stats, status = self._context.lake_stats, self._context.overview.status
        tables = [
            {"name": table.name, **{name: getattr(table, name, None) for name in ("rows", "bytes", "files")}}
            for table in stats.tables()
        ]
        lakes = [self._lake(ingestion, tables) for ingestion in (status or {}).get("ingestions", ())]
        return {
            "lakes": lakes,
            "tables": tables,
            "gaps": stats.gaps(),
            "latency": stats.latency(),
            "losses": {} if status is None else lost_rows(status),
            "status": status,
        }

    def _lake(self, ingestion: dict[str, Any], tables: list[Document]) -> Document:
        lake = str(ingestion["lake"])
        return {
            "lake": lake,
            "state": ingestion.get("state"),
            "problem": ingestion.get("problem"),
            "rows": ingestion.get("rows"),
            "bytes": ingestion.get("bytes"),
            "batches": self._context.overview.batches.of(lake),
            "tables": tables,
            "maintenance": [_run_document(run) for run in ingestion.get("maintenance_runs", ())],
        }


def _run_document(run: dict[str, Any]) -> Document:
    """Return the last run of a maintenance task, with its times as texts."""
    return {
        "task": run["task"],
        "time": _time_text(run["time"]),
        "seconds": run["seconds"],
        "result": run["result"],
        "failed": run["is_failed"],
        "next": _time_text(run["next"]),
    }


def _time_text(seconds: float | None) -> str | None:
    return None if seconds is None else iso(datetime.fromtimestamp(seconds, UTC))
