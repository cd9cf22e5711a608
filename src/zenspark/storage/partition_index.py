"""Which partitions of `samples` there are, by day: the files that a query looks at are found without a search.

With 100,000 files there are as many partitions: to look at each of them for every query would cost more than to answer
it. The index follows the table; a partition that is gone stays in it, and has no files.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from datetime import date

from zenspark.lake.delta_log import PartitionKey
from zenspark.lake.delta_table import LakeTable
from zenspark.lake.parquet_files import DataFile
from zenspark.lake.partitioning import WILDCARD


class PartitionIndex:
    """The partitions of one table; any number of threads may ask at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version = -1
        """The version of the table up to which all partitions are known."""
        self._prefixes: dict[str | None, set[str | None]] = {}
        """By day; what has no day may be of any."""
        self._others: dict[str | None, set[str | None]] = {}
        """Of these the prefixes that may have any key: those with wildcards, and none."""

    def files(self, table: LakeTable, day_from: date | None = None, prefix: str | None = None) -> list[DataFile]:
        """The files with rows received from a day on whose keys may begin with the prefix; all of both if None."""
        with self._lock:
            self._follow(table)
            keys = list(self._keys(None if day_from is None else day_from.isoformat(), prefix))
        partitions = table.partitions
        return [file for key in keys for file in partitions.get(key, {}).values()]

    def _follow(self, table: LakeTable) -> None:
        if table.version <= self._version:
            return
        if self._version < 0:
            self._add(table.partitions)
        else:
            files = table.files_since(self._version)
            self._add((file.partition.get("day"), file.partition.get("prefix")) for file in files)
        self._version = table.version

    def _add(self, keys: Iterable[PartitionKey]) -> None:
        for day, prefix in keys:
            self._prefixes.setdefault(day, set()).add(prefix)
            others = self._others.setdefault(day, set())
            if prefix is None or WILDCARD in prefix:
                others.add(prefix)

    def _keys(self, first: str | None, prefix: str | None) -> Iterator[PartitionKey]:
        for day, prefixes in self._prefixes.items():
            if first is not None and day is not None and day < first:
                continue
            if prefix is None:
                yield from ((day, each) for each in prefixes)
                continue
            others = self._others[day]
            yield from ((day, each) for each in others)
            if prefix not in others:
                yield day, prefix
