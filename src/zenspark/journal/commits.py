"""How far readers of a journal have come: one small file for each, replaced as a whole.

Readers write them, in any process; whoever trims the journal reads them.
"""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from urllib.parse import quote, unquote

from zenspark.errors import JournalError, UsageError
from zenspark.journal.layout import READERS

SUFFIX = ".json"


class Commits:
    """The readers of the journal in a directory."""

    def __init__(self, path: Path) -> None:
        self._path = path / READERS

    def write(self, reader: str, offset: int) -> None:
        """Note how far a reader has come."""
        if offset < 0:
            raise UsageError(f"reader {reader}: expected an offset, found {offset}")
        file = self._file(reader)
        self._path.mkdir(exist_ok=True)
        draft = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
        draft.write_text(json.dumps({"offset": offset}) + "\n")
        os.replace(draft, file)

    def read(self, reader: str) -> int | None:
        """How far a reader has come, None if it has never said so."""
        file = self._file(reader)
        try:
            known = json.loads(file.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            known = None
        offset = known.get("offset") if isinstance(known, dict) else None
        if not isinstance(offset, int):
            raise JournalError(str(file), 'expected {"offset": number}: remove the file if the reader is gone')
        return offset

    def all(self) -> dict[str, int]:
        """How far each reader has come."""
        if not self._path.is_dir():
            return {}
        files = sorted(name for name in os.listdir(self._path) if name.endswith(SUFFIX) and not name.startswith("."))
        found = {name: self.read(name) for name in (unquote(file.removesuffix(SUFFIX)) for file in files)}
        return {name: offset for name, offset in found.items() if offset is not None}

    def remove(self, reader: str) -> None:
        """Forget a reader."""
        self._file(reader).unlink(missing_ok=True)

    def _file(self, reader: str) -> Path:
        if not reader:
            raise UsageError("the name of a reader must not be empty")
        return self._path / f"{quote(reader, safe='').replace('.', '%2E')}{SUFFIX}"
