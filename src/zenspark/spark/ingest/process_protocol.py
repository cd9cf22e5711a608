"""Protocol between `zenspark up` and its ingest process: JSON, one message per line.

Standard input of the process: one line with its `IngestProcessConfig`, then commands; end of file ends the process.
Standard output: reports. Standard error: the logs of Java and Python, for the log file.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

# --- commands ---------------------------------------------------------------------------------------------------------


class RestartQuery(msgspec.Struct, frozen=True, tag="restart"):
    """Start the streaming query again after it failed."""


class Drain(msgspec.Struct, frozen=True, tag="drain"):
    """Ingest everything in the journals, refresh the derived tables, and end."""


Command: TypeAlias = RestartQuery | Drain


# --- reports ----------------------------------------------------------------------------------------------------------


class IngestHeartbeat(msgspec.Struct, frozen=True, tag="alive"):
    """Sent every second while the process does not ingest."""


class Started(msgspec.Struct, frozen=True, tag="started"):
    """Spark has started."""

    ui: str | None = None
    """URL of Spark's web interface, if enabled."""


class Waiting(msgspec.Struct, frozen=True, tag="waiting"):
    """Another process holds the lease of one of the recorders."""

    reason: str


class MaintenanceRun(msgspec.Struct, frozen=True, kw_only=True):
    """The last run of a maintenance task, and the time of the next; times are in seconds since 1970.

    Attributes:
        task: Name of the task: `refresh`, which updates the derived and public tables, or `compaction`, which merges
            files, removes expired samples, vacuums unreferenced files and writes checkpoints.
        time: End of the last run; None before the first one.
        seconds: Duration of the last run; None before the first one.
        result: Summary of the last run, or its error; None before the first one.
        is_failed: Whether the last run has failed.
        next: Start of the next run; None during a run.

    Example:
        >>> for run in query.progress().maintenance_runs:
        ...     print(run.task, run.result)
    """

    task: str
    time: float | None = None
    seconds: float | None = None
    result: str | None = None
    is_failed: bool = False
    next: float | None = None


class ProgressReport(msgspec.Struct, frozen=True, tag="progress", kw_only=True):
    """Progress of ingestion, sent every second while the process ingests. Counts are of this process."""

    committed_offsets: dict[str, int] = msgspec.field(default_factory=dict)
    """End offset per recorder (exclusive): rows before it are in `samples`, duplicates, quarantined or lost."""
    rows: int = 0
    bytes: int = 0
    """Size of the files written."""
    batches: int = 0
    batch_seconds: float | None = None
    """Duration of the last batch."""
    running_seconds: float | None = None
    """Seconds since the current batch started."""
    quarantined: int = 0
    """Rows moved to quarantine."""
    duplicates: int = 0
    """Rows skipped because another recorder's copy was ingested before."""
    lost: int = 0
    """Rows that the journals trimmed before they were ingested."""
    maintenance_error: str | None = None
    """Error of the last table maintenance, if any; ingestion continues."""
    maintenance_runs: tuple[MaintenanceRun, ...] = ()


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The streaming query ended with an error."""

    cause: str


class Drained(msgspec.Struct, frozen=True, tag="drained"):
    """Everything in the journals is ingested; the process ends."""

    maintenance_error: str | None = None
    """Error of the last refresh of the derived tables, if any."""


Report: TypeAlias = IngestHeartbeat | Started | Waiting | ProgressReport | Failed | Drained

_COMMAND_DECODER: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)
_REPORT_DECODER: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)


def encode_line(message: msgspec.Struct) -> bytes:
    """Encode a message as one line of JSON."""
    return msgspec.json.encode(message) + b"\n"


def decode_command(line: bytes) -> Command:
    """Decode a command; raises msgspec.DecodeError if the line is not one."""
    return _COMMAND_DECODER.decode(line)


def decode_report(line: bytes) -> Report | None:
    """Decode a report; None if the line is not one, because a library may print to standard output."""
    try:
        return _REPORT_DECODER.decode(line)
    except msgspec.DecodeError:
        return None
