"""Parser of the section `plugins/storage_manager` of zenohd's configuration: volumes and storages.

    plugins: { storage_manager: {
      volumes: { zenspark: { lake: "./lake" } },
      storages: { fleet: { key_expr: "fleet/**", complete: true, volume: "zenspark" } },
    } }

The name or the `backend` of a volume must be `zenspark`; its settings are the defaults of its storages. Unknown keys
are errors: a storage that is missing because of a typing error would be noticed too late.
"""

from __future__ import annotations

import json
from copy import copy
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from zenspark.config.config import Config
from zenspark.config.schema import UNSET, ConfigError, Document, Json, Section, resolve, validate_document
from zenspark.errors import UsageError
from zenspark.storage.key_scope import KeyScope
from zenspark.storage.latest_store import DEFAULT_LIFESPAN_SECONDS

PLUGIN_NAME = "storage_manager"
SECTION_PATH = f"plugins/{PLUGIN_NAME}"
BACKEND = "zenspark"
JOURNAL_DIRECTORY = "_journal"
"""Default directory of the journal, in a local lake."""

Seconds = Annotated[float, Meta(ge=0)]


class GarbageCollection(Section, frozen=True):
    """Garbage collection of tombstones."""

    period: Annotated[Seconds, UNSET] = 30.0
    """Accepted for compatibility with zenohd; the period is always 30 seconds."""
    lifespan: Annotated[Seconds, UNSET] = DEFAULT_LIFESPAN_SECONDS


class DataPaths(Section, frozen=True):
    """Lake and journal of a storage."""

    lake: Annotated[str | None, UNSET] = None
    journal: Annotated[str | None, UNSET] = None
    """Default: `_journal` in the lake, or `./journal` if the lake is not local."""
    record: Annotated[bool, UNSET] = True
    """Whether to record samples; otherwise the storage replies from journals that other processes write."""


class Volume(DataPaths, frozen=True):
    """One volume."""

    backend: Annotated[str | None, UNSET] = None
    ingest: Annotated[dict[str, Any] | None, UNSET] = None
    """Ingestion options of `zenspark up`: its flags with underscores, such as `max_batch_rows`; `up` validates them."""
    landing: Annotated[dict[str, Any] | None, UNSET] = None
    """Deprecated name of `ingest`."""


class VolumeReference(DataPaths, frozen=True):
    """The volume of a storage, with overrides of the volume's settings."""

    id: Annotated[str | None, UNSET] = None


class StorageSection(Section, frozen=True):
    """One storage section of the configuration."""

    key_expr: Annotated[str | None, UNSET] = None
    complete: Annotated[bool | Literal["true", "false"], UNSET] = False
    strip_prefix: Annotated[str | None, UNSET] = None
    volume: Annotated[Any, UNSET] = None
    garbage_collection: GarbageCollection = GarbageCollection()


class StorageManagerSection(Section, frozen=True):
    """The section `plugins/storage_manager`."""

    volumes: Annotated[dict[str, Any], UNSET] = msgspec.field(default_factory=dict)
    storages: Annotated[dict[str, Any], UNSET] = msgspec.field(default_factory=dict)
    backend_search_dirs: Annotated[Any, UNSET] = None


class StorageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Resolved settings of one storage."""

    name: str
    key_exprs: tuple[str, ...]
    complete: bool = False
    strip_prefix: str | None = None
    lake: str | None = None
    """A path or a URI."""
    journal: Path
    record: bool = True
    lifespan: float = DEFAULT_LIFESPAN_SECONDS
    ingest: dict[str, Any] = {}
    """Ingestion options of its volume, not validated."""


def parse_storages(config: Config) -> tuple[list[StorageSettings], Config]:
    """Parse the storages of a configuration; also returns the configuration without them."""
    plugins: Json = json.loads(config.get_json("plugins"))
    if not isinstance(plugins, dict) or PLUGIN_NAME not in plugins:
        return [], config
    section = resolve(
        StorageManagerSection,
        validate_document(StorageManagerSection, _drop_loading_keys(plugins[PLUGIN_NAME]), SECTION_PATH),
        "peer",
    )
    volumes = {name: _parse_volume(name, document) for name, document in section.volumes.items()}
    volumes.setdefault(BACKEND, Volume())
    storages = [_parse_storage(name, document, volumes) for name, document in section.storages.items()]
    rest = copy(config)
    rest.insert_json5("plugins", json.dumps({name: value for name, value in plugins.items() if name != PLUGIN_NAME}))
    return storages, rest


def _drop_loading_keys(document: Json) -> Json:
    """Drop zenohd's keys for loading plugin libraries, such as `__path__` and `__required__`."""
    return {k: v for k, v in document.items() if not k.startswith("__")} if isinstance(document, dict) else document


def _parse_volume(name: str, document: Json) -> Volume:
    path = f"{SECTION_PATH}/volumes/{name}"
    backend = document.get("backend", name) if isinstance(document, dict) else name
    if backend != BACKEND:
        raise ConfigError(path, f"a volume whose backend is {BACKEND}", repr(backend))
    volume = resolve(Volume, validate_document(Volume, _drop_loading_keys(document), path), "peer")
    if volume.ingest is not None and volume.landing is not None:
        raise ConfigError(f"{path}/landing", "only one of `ingest` and its deprecated name `landing`", "both")
    return volume


def _parse_storage(name: str, document: Json, volumes: dict[str, Volume]) -> StorageSettings:
    path = f"{SECTION_PATH}/storages/{name}"
    section = resolve(StorageSection, validate_document(StorageSection, document, path), "peer")
    if section.key_expr is None:
        raise ConfigError(f"{path}/key_expr", "a key expression", "nothing")
    try:
        KeyScope([section.key_expr], section.strip_prefix)
    except UsageError as error:
        raise ConfigError(path, "key_expr and strip_prefix that fit", str(error)) from error
    paths, ingest = _resolve_data_paths(f"{path}/volume", section.volume, volumes)
    if section.strip_prefix is not None and paths.record:
        raise ConfigError(f"{path}/volume/record", "false, as with strip_prefix nothing can be recorded", "true")
    journal = journal_path(paths.lake, paths.journal)
    if journal is None:
        raise ConfigError(f"{path}/volume", "a lake or a journal", "neither")
    return StorageSettings(
        name=name,
        key_exprs=(section.key_expr,),
        complete=section.complete in (True, "true"),
        strip_prefix=section.strip_prefix,
        lake=paths.lake and normalize_lake_path(paths.lake),
        journal=journal,
        record=paths.record,
        lifespan=section.garbage_collection.lifespan,
        ingest=ingest,
    )


def normalize_lake_path(path: str) -> str:
    """Normalize the path of a lake; URIs are unchanged."""
    return path if "://" in path else str(Path(path))


def journal_path(lake: str | None, journal: str | None) -> Path | None:
    """Path of the journal: the given one, or in a local lake, or `./journal`; None without a lake."""
    if journal is not None:
        return Path(journal)
    if lake is None:
        return None
    return Path("journal") if "://" in lake else Path(lake) / JOURNAL_DIRECTORY


def _resolve_data_paths(path: str, value: Json, volumes: dict[str, Volume]) -> tuple[DataPaths, dict[str, Any]]:
    """Resolve the paths of a storage, with those of its volume as defaults; also returns its ingestion options."""
    document: Document = (
        {"id": value} if isinstance(value, str) else validate_document(VolumeReference, value or {}, path)
    )
    name = document.get("id")
    if name is None:
        raise ConfigError(path, "the name of a volume", "nothing")
    if name not in volumes:
        raise ConfigError(path, f"one of the volumes {', '.join(sorted(volumes))}", repr(name))
    reference = resolve(VolumeReference, document, "peer")
    volume = volumes[name]
    journal = volume.journal if reference.lake is None else None  # another lake has another journal
    paths = DataPaths(reference.lake or volume.lake, reference.journal or journal, reference.record and volume.record)
    return paths, volume.ingest or volume.landing or {}
