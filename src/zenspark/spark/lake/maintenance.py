"""Keeping files of `samples` few and not too old, and removing from disk what no longer counts.

*Compaction* puts small files of one day, prefix and recorder together. Files are in tiers by size, each `FACTOR` times
the one below; a tier that has many files becomes one of the next tier, so that a row is rewritten once per tier at
most, not once per compaction. When a day is over, what is still small in it is put together whatever its tier. Rows
that derived tables have not taken in stay where they are.

*Retention* takes away whole days, oldest first, of what the derived tables have taken in.

*Sweeping* removes files from disk that are in no snapshot any more, or never were, after a grace for those who still
read them. All of this may happen while batches land: they only add files.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from uuid import uuid4

from pyspark.sql import SparkSession

from zenspark.spark.lake.files import File, Files, batches_of, grouped
from zenspark.spark.lake.folder import Folder
from zenspark.spark.lake.offsets import reaches
from zenspark.spark.lake.samples import ATTEMPT
from zenspark.spark.lake.shapes import SAMPLES
from zenspark.spark.lake.table import Change, Table
from zenspark.spark.lake.writing import on_workers

TARGET = 128 << 20
"""Bytes from which on a file is large enough,"""
SMALLEST = 64 << 10
"""and up to which files are all of the lowest tier."""
FACTOR = 8
ENOUGH = 16
"""So many files of a tier are put together."""
UNUSED = "_unused.json"

Bin = list[File]


def tier(size: int) -> int:
    """The tier of a file of this size, 0 for the smallest."""
    return max(0, math.ceil(math.log(max(size, 1) / SMALLEST, FACTOR)))


def bins(files: Iterable[File], today: date) -> list[Bin]:
    """Which files to put together, each bin into one."""
    groups: dict[tuple[object, ...], Bin] = defaultdict(list)
    for file in files:
        if file.size < TARGET:
            day = str(file.partition["day"])
            is_over = date.fromisoformat(day) < today
            level = None if is_over else tier(file.size)
            groups[day, file.partition["prefix"], file.least["recorder"], level].append(file)
    return [
        part
        for (*_, level), group in groups.items()
        for part in _filled(group)
        if len(part) >= (ENOUGH if level is not None else 2)
    ]


def _filled(files: Bin) -> Iterable[Bin]:
    """The same files in order, in bins of about the target's size."""
    found: list[Bin] = [[]]
    for file in sorted(files, key=lambda each: int(str(each.least["offset"]))):
        if sum(each.size for each in found[-1]) + file.size > TARGET:
            found.append([])
        found[-1].append(file)
    return found


def compact(spark: SparkSession, samples: Table, taken_in: Sequence[Mapping[str, int]], today: date) -> int:
    """Puts small files together that all derived tables have taken in; how many files fewer there are."""
    settled = [file for file in samples.files if not any(reaches(file, offsets) for offsets in taken_in)]
    found = bins(settled, today)
    write = partial(write_together, samples.folder, f"batch=compact-{uuid4().hex}")
    for small, added in zip(found, on_workers(spark, write, found), strict=True):
        samples.commit(Change(add=added, remove=small, rearranges=True))
    return sum(len(small) - 1 for small in found)


def write_together(folder: Folder, directory: str, small: Bin) -> list[File]:
    """Writes the rows of small files of one partition into one: what a task of Spark does."""
    files = Files(folder, SAMPLES, directory)
    for rows in grouped(batch for file in small for batch in batches_of(folder, file, SAMPLES)):
        files.write(rows, {name: str(value) for name, value in small[0].partition.items()})
    return files.close()


def expired(files: Sequence[File], oldest: date | None, most: int | None) -> list[File]:
    """The files of days before the oldest to be kept, and of the first days while all are larger than they may be."""
    days: dict[date, Bin] = defaultdict(list)
    for file in files:
        days[date.fromisoformat(str(file.partition["day"]))].append(file)
    size = sum(file.size for file in files)
    found: list[File] = []
    for day in sorted(days):
        too_old = oldest is not None and day < oldest
        too_much = most is not None and size > most
        if too_old or too_much:
            found += days[day]
            size -= sum(file.size for file in days[day])
    return found


def retain(
    samples: Table, taken_in: Sequence[Mapping[str, int]], age: timedelta | None, most: int | None, now: datetime
) -> int:
    """Takes away days older than an age, and the oldest while all are larger than `most` bytes; how many files."""
    oldest = (now.astimezone(UTC) - age).date() if age is not None else None
    found = [
        file for file in expired(samples.files, oldest, most) if not any(reaches(file, offsets) for offsets in taken_in)
    ]
    if found:
        samples.commit(Change(remove=found))
    return len(found)


def sweep(table: Table, grace: timedelta, now: datetime) -> int:
    """Removes files that do not count, and did not when this was called a grace ago; how many."""
    used = {file.path for file in table.files}
    attempt = _attempt(table)
    there = [found.path for found in table.folder.files() if found.path.startswith("batch=")]
    unused = [path for path in there if path not in used and path.split("/")[0] != attempt]
    known: dict[str, float] = json.loads(table.folder.read(UNUSED) or b"{}")
    since = {path: known.get(path, now.timestamp()) for path in unused}
    due = [path for path, time in since.items() if now.timestamp() - time >= grace.total_seconds()]
    for path in due:
        table.folder.remove(path)
    for directory in {path.split("/")[0] for path in due} - {path.split("/")[0] for path in used}:
        table.folder.prune(directory)
    left = {path: time for path, time in since.items() if path not in due}
    if left != known:
        table.folder.write(UNUSED, json.dumps(left).encode())
    return len(due)


def _attempt(table: Table) -> str | None:
    """The directory that a batch may just be writing."""
    content = table.folder.read(ATTEMPT)
    return str(json.loads(content)["directory"]) if content else None
