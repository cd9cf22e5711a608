"""Upgrade of a lake from format version 1 to version 2, in place; restartable after a crash.

Changes of version 2:

- Files were below `batch=…/`, which some readers take for a partition column that the table does not have. Each file
  gets the path of the standard Delta layout, and one commit per table changes the paths. On a local disk this is a hard
  link, elsewhere a copy.
- `latest`, `gaps` and `traffic` were internal state: their tables move to `_state`, and the next refresh writes public
  ones in their place.

`samples` is upgraded last. Until then the lake has version 1, and can be read as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltalake.exceptions import DeltaError

from zenspark.errors import LakeError
from zenspark.lake.delta_table import VERSION_PROPERTY, LakeTable, Transaction, to_one_line
from zenspark.lake.lake import STATE_DIRECTORY, STATE_TABLE_SPECS, TABLE_SPECS, Lake
from zenspark.lake.parquet_files import DataFile, escape_path_value
from zenspark.lake.specs import LAKE_FORMAT_VERSION

V1_LEFTOVERS = ("_recorders", "_attempt.json", "_unused.json")
"""Files of version 1 in the directory of a table that version 2 does not use."""


@dataclass(frozen=True)
class UpgradeResult:
    """Result of an upgrade."""

    files: int
    """Number of files with a new path."""
    tables: Sequence[str]
    """Upgraded tables."""


def upgrade(lake: Lake) -> UpgradeResult:
    """Upgrade a lake; does nothing if it has the current format."""
    lake.check()
    if lake.version == LAKE_FORMAT_VERSION:
        return UpgradeResult(0, [])
    moved = 0
    for name in STATE_TABLE_SPECS:
        _move_state(lake, name)
    others = [name for name in TABLE_SPECS if name not in STATE_TABLE_SPECS and name != "samples"]
    for name in [*others, "samples"]:
        table = lake.table(name)
        if table.exists and table.format != LAKE_FORMAT_VERSION:
            moved += _move_files(table)
            _set_version(table)
    lake.reopen()
    lake.create()
    return UpgradeResult(moved, list(TABLE_SPECS))


def _move_state(lake: Lake, name: str) -> None:
    """Move an internal table to `_state`; where this is a copy, the original is removed after it is complete."""
    old, new = lake.location / name, lake.location / f"{STATE_DIRECTORY}/{name}"
    if old.exists("_delta_log"):
        if lake.location.is_local:
            lake.location.move(name, f"{STATE_DIRECTORY}/{name}")
        else:
            for file in old.files():
                old.copy(file.path, new, file.path)
            old.remove("")
    table = lake.internal_table(name)
    if table.exists and table.format != LAKE_FORMAT_VERSION:
        _set_version(table)


def _move_files(table: LakeTable) -> int:
    """Change the paths of the files of a table in one commit. Returns the number of changed paths."""
    pairs = [(file, _new_path(file)) for file in table.files]
    added = [_with_path(file, path) for file, path in pairs if path != file.path]
    removed = [file for file, path in pairs if path != file.path]
    for old, new in zip(removed, added, strict=True):
        table.location.link(old.path, new.path)
    if removed:
        table.commit(Transaction(add=added, remove=removed, is_optimize=True), any_format=True)
    for name in V1_LEFTOVERS:
        table.location.remove(name)
    return len(removed)


def _new_path(file: DataFile) -> str:
    name = file.path.rsplit("/", 1)[-1]
    if not file.path.startswith("batch="):
        return file.path
    return "/".join(
        [*(f"{column}={escape_path_value(str(value))}" for column, value in file.partition.items()), f"part-v1-{name}"]
    )


def _with_path(file: DataFile, path: str) -> DataFile:
    return DataFile.from_log(path, file.size, file.partition, file.stats, file.types, file.version, file.tags)


def _set_version(table: LakeTable) -> None:
    """Set the format version property of a table."""
    try:
        table.to_deltalake().alter.set_table_properties(
            {VERSION_PROPERTY: LAKE_FORMAT_VERSION}, raise_if_not_exists=False
        )
    except (OSError, DeltaError) as error:
        raise LakeError(table.location.address, to_one_line(error)) from error
