"""StorageManager: the storages of one node, the recorders that write their journals, and their admin space.

As with zenohd's storage manager, `@/<zid>/<role>/status/plugins/storage_manager/storages/<name>` describes a storage
and `.../volumes/zenspark` the volume.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from zenspark import __version__
from zenspark.api.session import Session, runtime_of
from zenspark.journal import JournalWriter, Policy, Recorder
from zenspark.lake.lake import Lake
from zenspark.storage.inputs import LakeTables
from zenspark.storage.queryable import Storage
from zenspark.storage.settings import BACKEND, PLUGIN_NAME, StorageSettings
from zenspark.types.encoding import Encoding
from zenspark.types.query import Query


class StorageManager:
    """Runs storages in a session, from `start` to `close`."""

    def __init__(
        self,
        session: Session,
        settings: Sequence[StorageSettings],
        policy: Policy | None = None,
        open_lake: Callable[[str], LakeTables] = Lake,
    ) -> None:
        self.settings = list(settings)
        self.recorders: dict[Path, Recorder] = {}
        """Recorders by journal path: storages may share one."""
        self.storages: dict[str, Storage] = {}
        self._session = session
        self._open_lake = open_lake
        self._policy = policy
        self._writers: list[JournalWriter] = []
        node = runtime_of(session).node.identity
        self._root = f"@/{node.zid}/{node.whatami.text}/status/plugins/{PLUGIN_NAME}"

    def start(self) -> Self:
        """Start the recorders, then the storages and the admin space."""
        recorded = [settings for settings in self.settings if settings.record]
        for journal in dict.fromkeys(settings.journal for settings in recorded):
            keys = [key for settings in recorded if settings.journal == journal for key in settings.key_exprs]
            writer = JournalWriter(journal, self._policy)
            self._writers.append(writer)
            self.recorders[journal] = Recorder(self._session, keys, writer)
            self.recorders[journal].start()
        for settings in self.settings:
            self.storages[settings.name] = Storage(
                self._session,
                settings.key_exprs,
                None if settings.lake is None else self._open_lake(settings.lake),
                [settings.journal],
                complete=settings.complete,
                strip_prefix=settings.strip_prefix,
                lifespan=settings.lifespan,
            ).start()
        self._admin = self._session.declare_queryable(f"{self._root}/**", self._on_query)
        return self

    def stop_recording(self) -> None:
        """Stop recording; received samples are flushed."""
        for recorder in self.recorders.values():
            recorder.stop()
        for writer in self._writers:
            writer.close()
        self._writers = []

    def close(self) -> None:
        """Stop recorders and storages."""
        self.stop_recording()
        for storage in self.storages.values():
            storage.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the admin space

    def _on_query(self, query: Query) -> None:
        with query:
            for key, value in self._documents().items():
                if query.key_expr.intersects(key):
                    query.reply(key, msgspec.json.encode(value), encoding=Encoding.APPLICATION_JSON)

    def _documents(self) -> dict[str, Any]:
        documents: dict[str, Any] = {
            f"{self._root}/version": __version__,
            f"{self._root}/volumes/{BACKEND}": {"backend": BACKEND},
        }
        for settings in self.settings:
            volume = {"id": BACKEND, "lake": settings.lake, "journal": str(settings.journal)}
            status = self.storages[settings.name].status()
            documents[f"{self._root}/storages/{settings.name}"] = {**status, "volume": volume}
        return documents
