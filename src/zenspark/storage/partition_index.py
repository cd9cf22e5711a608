"""PartitionIndex: the partitions of `samples` by day, to find the files of a query without filtering all partitions.

With 100,000 files there are as many partitions: filtering them for every query would cost more than the query. The
index is updated from new commits of the table; a removed partition stays in it, without files.
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
    """The partitions of one table; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version = -1
        """Table version up to which the index is complete."""
        self._prefixes: dict[str | None, set[str | None]] = {}
        """Prefixes by day; a null day may stand for any."""
        self._others: dict[str | None, set[str | None]] = {}
        """The prefixes among them that may have any key: those with wildcards, and null."""

    def files(self, table: LakeTable, day_from: date | None = None, prefix: str | None = None) -> list[DataFile]:
        """Files that may have rows received from a day on with a key prefix; None is unbounded."""
        with self._lock:
            self._update(table)
            keys = list(self._keys(None if day_from is None else day_from.isoformat(), prefix))
        partitions = table.partitions
        return [file for key in keys for file in partitions.get(key, {}).values()]

    def _update(self, table: LakeTable) -> None:
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
                yield from ((day, value) for value in prefixes)
                continue
            others = self._others[day]
            yield from ((day, value) for value in others)
            if prefix not in others:
                yield day, prefix
