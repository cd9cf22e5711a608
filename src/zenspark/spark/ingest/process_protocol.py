"""What `zenspark up` and its landing process send each other: JSON, one message per line.

Orders go to the process on its standard input, behind one line with its `LandingTask`; the end of its input ends it.
Reports come on its standard output. Standard error carries what Java and Python log, for the log file.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

# --- orders -----------------------------------------------------------------------------------------------------------


class Land(msgspec.Struct, frozen=True, tag="land"):
    """Start the query again, after it failed."""


class Drain(msgspec.Struct, frozen=True, tag="drain"):
    """Land everything that the journals have, refresh the derived tables, and end."""


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """Run a SQL query on the tables of the lake."""

    number: int
    query: str


Order: TypeAlias = Land | Drain | Ask


# --- reports ----------------------------------------------------------------------------------------------------------


class Alive(msgspec.Struct, frozen=True, tag="alive"):
    """Nothing new: the process is there. Sent every second while it does not land."""


class Started(msgspec.Struct, frozen=True, tag="started"):
    """Spark is there."""

    ui: str | None = None
    """The address of its web interface, if it has one."""


class Waiting(msgspec.Struct, frozen=True, tag="waiting"):
    """Another process lands one of the recorders."""

    reason: str


class Landed(msgspec.Struct, frozen=True, tag="landed", kw_only=True):
    """How far the process has come; sent every second while it lands. Counts are of this process."""

    reached: dict[str, int] = msgspec.field(default_factory=dict)
    """Up to before which offset the rows of each recorder are in `samples`, or were put aside or lost."""
    rows: int = 0
    bytes: int = 0
    """The size of the files they went into."""
    batches: int = 0
    batch_seconds: float | None = None
    """How long the last batch took."""
    running_seconds: float | None = None
    """How long the batch that is under way has taken so far."""
    quarantined: int = 0
    """Rows that were put aside."""
    duplicates: int = 0
    """Rows that were left out, because another recorder had brought them in."""
    lost: int = 0
    """Rows that the journals had trimmed before they landed."""
    maintenance: str | None = None
    """What is wrong with the maintenance of the tables, if anything; rows land all the same."""


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The query has ended with an error."""

    cause: str


class Drained(msgspec.Struct, frozen=True, tag="drained"):
    """Everything has landed; the process ends."""

    maintenance: str | None = None
    """Why the derived tables could not be refreshed, if so."""


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """The result of a query as an Arrow IPC stream, or what is wrong with it."""

    number: int
    rows: bytes = b""
    error: str | None = None


Report: TypeAlias = Alive | Started | Waiting | Landed | Failed | Drained | Answer

_ORDERS: msgspec.json.Decoder[Order] = msgspec.json.Decoder(Order)
_REPORTS: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)


def line_of(message: msgspec.Struct) -> bytes:
    """A message as its line."""
    return msgspec.json.encode(message) + b"\n"


def order_in(line: bytes) -> Order:
    """The order in a line; msgspec.DecodeError if it is none."""
    return _ORDERS.decode(line)


def report_in(line: bytes) -> Report | None:
    """The report in a line, None if it is none: a library may have printed something."""
    try:
        return _REPORTS.decode(line)
    except msgspec.DecodeError:
        return None
