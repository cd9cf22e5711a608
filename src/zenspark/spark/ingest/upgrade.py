"""Makes a lake of format version 1 one of version 2, in place; started again after a crash, it goes on.

What changed with version 2:

- files lay below `batch=…/`, which some readers take for a partition column that the table does not have: each is given
  its place in the layout of every Delta writer, and one commit per table changes the paths. On a local disk that is
  a second name for the same file, elsewhere a copy;
- `latest`, `gaps` and `traffic` were internal state: their tables move to `_state`, and public ones take their place
  with the next refresh.

`samples` comes last. Until then the lake is one of version 1, and can be read as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltalake.exceptions import DeltaError

from zenspark.errors import LakeError
from zenspark.lake.delta_table import VERSION_PROPERTY, Change, Table, one_line
from zenspark.lake.lake import SHAPES, STATE, STATE_SHAPES, Lake
from zenspark.lake.parquet_files import File, escaped
from zenspark.lake.specs import VERSION

LEFTOVERS = ("_recorders", "_attempt.json", "_unused.json")
"""What version 1 kept beside the files of a table."""


@dataclass(frozen=True)
class Upgraded:
    """What an upgrade did."""

    files: int
    """Files that were given another place."""
    tables: Sequence[str]
    """Tables that have the new format now."""


def upgrade(lake: Lake) -> Upgraded:
    """Upgrade a lake; nothing is done to one that has the present format."""
    lake.check()
    if lake.version == VERSION:
        return Upgraded(0, [])
    moved = 0
    for name in STATE_SHAPES:
        _move_state(lake, name)
    others = [name for name in SHAPES if name not in STATE_SHAPES and name != "samples"]
    for name in [*others, "samples"]:
        table = lake.table(name)
        if table.exists and table.format != VERSION:
            moved += _lay_out(table)
            _mark(table)
    lake.reopen()
    lake.create()
    return Upgraded(moved, list(SHAPES))


def _move_state(lake: Lake, name: str) -> None:
    """Give an internal table its place; where that is a copy, the old one goes when all of it is there."""
    old, new = lake.folder / name, lake.folder / f"{STATE}/{name}"
    if old.exists("_delta_log"):
        if lake.folder.local:
            lake.folder.move(name, f"{STATE}/{name}")
        else:
            for found in old.files():
                old.copy(found.path, new, found.path)
            old.remove("")
    table = lake.internal_table(name)
    if table.exists and table.format != VERSION:
        _mark(table)


def _lay_out(table: Table) -> int:
    """Give the files of a table their places, in one commit; how many have a new one."""
    pairs = [(file, _new_path(file)) for file in table.files]
    added = [_at(file, path) for file, path in pairs if path != file.path]
    removed = [file for file, path in pairs if path != file.path]
    for old, new in zip(removed, added, strict=True):
        table.folder.link(old.path, new.path)
    if removed:
        table.commit(Change(add=added, remove=removed, rearranges=True), any_format=True)
    for name in LEFTOVERS:
        table.folder.remove(name)
    return len(removed)


def _new_path(file: File) -> str:
    name = file.path.rsplit("/", 1)[-1]
    if not file.path.startswith("batch="):
        return file.path
    return "/".join(
        [*(f"{column}={escaped(str(value))}" for column, value in file.partition.items()), f"part-v1-{name}"]
    )


def _at(file: File, path: str) -> File:
    return File.logged(path, file.size, file.partition, file.stats, file.types, file.version, file.tags)


def _mark(table: Table) -> None:
    """Write the present version into a table."""
    try:
        table.delta().alter.set_table_properties({VERSION_PROPERTY: VERSION}, raise_if_not_exists=False)
    except (OSError, DeltaError) as error:
        raise LakeError(table.folder.address, one_line(error)) from error
