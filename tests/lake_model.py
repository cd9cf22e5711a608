"""What the derived tables of a lake must have, computed from a list of samples in the plainest way.

Samples are dictionaries with the columns of a journal: `key`, `kind`, …, `recorder`, `offset`. Times are microseconds
since 1970, as in the rows of tests.rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from zenspark.key.match import includes
from zenspark.lake.partitioning import partition_prefix

Row = dict[str, Any]

MINUTE = 60_000_000
WRAP = 2**32
CURRENT_BYTES, NAMED_BYTES = 33, 77


# --- latest -----------------------------------------------------------------------------------------------------------


def rank(row: Row) -> tuple[int, int, int, str]:
    """Orders samples as hybrid clocks do; one without a timestamp is ordered by its reception time."""
    timestamp = row["timestamp_ntp64"]
    if timestamp is None:
        seconds, rest = divmod(row["received_at"], 1_000_000)
        timestamp = (seconds << 32) + int(rest * (2**32 / 1_000_000))
    return timestamp % 2**64, int(row["timestamp_id"] or "0", 16), row["offset"], row["recorder"]


def latest(rows: Sequence[Row]) -> dict[str, Row]:
    """For each key the row that `latest` has: of its newest sample, or of a newer PUT with wildcards."""
    wild = [row for row in rows if "*" in row["key"]]
    best: dict[str, Row] = {}
    for row in rows:
        if "*" not in row["key"] and (row["key"] not in best or rank(row) > rank(best[row["key"]])):
            best[row["key"]] = row
    found = {}
    for key, own in best.items():
        newer = [row for row in wild if includes(row["key"], key) and rank(row) > rank(own)]
        if own["kind"] == "PUT" and not any(row["kind"] == "DELETE" for row in newer):
            found[key] = max([own, *newer], key=rank) | {"key": key}
    return found


# --- traffic ----------------------------------------------------------------------------------------------------------


class Minute(NamedTuple):
    """A prefix in a minute."""

    messages: int
    bytes: int
    latency_min_us: int | None
    latency_avg_us: float | None
    latency_max_us: int | None


def traffic(rows: Iterable[Row]) -> dict[tuple[str, int], Minute]:
    """For each prefix and minute what `traffic` counts."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((partition_prefix(row["key"]), row["received_at"] // MINUTE * MINUTE), []).append(row)
    return {name: _minute(group) for name, group in groups.items()}


def _minute(rows: list[Row]) -> Minute:
    size = sum(len(row["payload"] or b"") for row in rows)
    latencies = [row["received_at"] - row["timestamp"] for row in rows if row["timestamp"] is not None]
    if not latencies:
        return Minute(len(rows), size, None, None, None)
    return Minute(len(rows), size, min(latencies), sum(latencies) / len(latencies), max(latencies))


# --- gaps -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gap:
    """A missing range, or a repeated number; `noticed_at` is left out, it depends on when refreshes happen."""

    source_zid: str
    source_eid: int | None
    kind: str
    first_sn: int
    last_sn: int
    count: int


def source_of(row: Row) -> tuple[str, int | None, int] | None:
    """The source of a sample and its number: by SourceInfo, or by an attachment of rmw_zenoh."""
    if row["source_sn"] is not None:
        return row["source_zid"], row["source_eid"], row["source_sn"]
    attachment = row["attachment"] or b""
    if len(attachment) == CURRENT_BYTES and attachment[16] == 16:
        return attachment[17:].hex(), None, int.from_bytes(attachment[:8], "little")
    if len(attachment) == NAMED_BYTES and attachment.startswith(b"\x0fsequence_number"):
        return attachment[61:].hex(), None, int.from_bytes(attachment[16:24], "little")
    return None


def gaps(rows: Iterable[Row]) -> set[Gap]:
    """What is missing and repeated of every source, as long as it misses few ranges and is not silent for a day."""
    numbers: dict[tuple[str, int | None], list[int]] = {}
    for row in rows:
        source = source_of(row)
        if source is not None:
            numbers.setdefault(source[:2], []).append(source[2])
    return {gap for (zid, eid), own in numbers.items() for gap in _gaps_of(zid, eid, own)}


def _gaps_of(zid: str, eid: int | None, numbers: list[int]) -> Iterable[Gap]:
    wrap = WRAP if eid is not None else 2**64
    first = numbers[0]
    counted = [first + (number - first + wrap // 2) % wrap - wrap // 2 for number in numbers]
    for before, after in pairwise(sorted(set(counted))):
        if after - before > 1:
            yield Gap(zid, eid, "MISSING", (before + 1) % wrap, (after - 1) % wrap, after - before - 1)
    for number, times in Counter(counted).items():
        if times > 1:
            yield Gap(zid, eid, "REPEATED", number % wrap, number % wrap, times - 1)
