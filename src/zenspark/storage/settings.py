"""The section `plugins/storage_manager` of zenohd's configuration: which storages there are, and what they keep.

    plugins: { storage_manager: {
      volumes: { zenspark: { lake: "./lake" } },
      storages: { fleet: { key_expr: "fleet/**", complete: true, volume: "zenspark" } },
    } }

A volume is one of ours if its name or its `backend` is `zenspark`; what it says counts for each of its storages that
does not say otherwise. Whatever is not known here is an error: a storage that is not there is noticed too late.
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
"""Where in a lake on this machine the journal is unless the configuration names a place."""

Seconds = Annotated[float, Meta(ge=0)]


class GarbageCollection(Section, frozen=True):
    """How long it is remembered what was deleted."""

    period: Annotated[Seconds, UNSET] = 30.0
    """Accepted, as zenohd has it; here it is always looked every 30 seconds."""
    lifespan: Annotated[Seconds, UNSET] = DEFAULT_LIFESPAN_SECONDS


class DataPaths(Section, frozen=True):
    """Where a storage keeps what it has."""

    lake: Annotated[str | None, UNSET] = None
    journal: Annotated[str | None, UNSET] = None
    """Unless it is set, `_journal` in the lake, or `./journal` if the lake is elsewhere."""
    record: Annotated[bool, UNSET] = True
    """Whether to record what is published; without, the storage answers from what others have recorded."""


class Volume(DataPaths, frozen=True):
    """A volume."""

    backend: Annotated[str | None, UNSET] = None
    landing: Annotated[dict[str, Any] | None, UNSET] = None
    """How `zenspark up` lands in its lake: its flags without the dashes, such as `max_batch_rows`; `up` checks them."""


class VolumeReference(DataPaths, frozen=True):
    """The volume of a storage, with what differs from the volume's own settings."""

    id: Annotated[str | None, UNSET] = None


class StorageSection(Section, frozen=True):
    """One storage, as it is written."""

    key_expr: Annotated[str | None, UNSET] = None
    complete: Annotated[bool | Literal["true", "false"], UNSET] = False
    strip_prefix: Annotated[str | None, UNSET] = None
    volume: Annotated[Any, UNSET] = None
    garbage_collection: GarbageCollection = GarbageCollection()


class StorageManagerSection(Section, frozen=True):
    """The whole section, as it is written."""

    volumes: Annotated[dict[str, Any], UNSET] = msgspec.field(default_factory=dict)
    storages: Annotated[dict[str, Any], UNSET] = msgspec.field(default_factory=dict)
    backend_search_dirs: Annotated[Any, UNSET] = None


class StorageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One storage, settled."""

    name: str
    key_exprs: tuple[str, ...]
    complete: bool = False
    strip_prefix: str | None = None
    lake: str | None = None
    """A path or a URI."""
    journal: Path
    record: bool = True
    lifespan: float = DEFAULT_LIFESPAN_SECONDS
    landing: dict[str, Any] = {}
    """How rows land in the lake, as it is written."""


def parse_storages(config: Config) -> tuple[list[StorageSettings], Config]:
    """The storages a configuration describes, and the configuration without them."""
    plugins: Json = json.loads(config.get_json("plugins"))
    if not isinstance(plugins, dict) or PLUGIN_NAME not in plugins:
        return [], config
    section = resolve(
        StorageManagerSection,
        validate_document(StorageManagerSection, _drop_loading_keys(plugins[PLUGIN_NAME]), SECTION_PATH),
        "peer",
    )
    volumes = {name: _parse_volume(name, given) for name, given in section.volumes.items()}
    volumes.setdefault(BACKEND, Volume())
    found = [_parse_storage(name, given, volumes) for name, given in section.storages.items()]
    rest = copy(config)
    rest.insert_json5("plugins", json.dumps({name: value for name, value in plugins.items() if name != PLUGIN_NAME}))
    return found, rest


def _drop_loading_keys(given: Json) -> Json:
    """Without zenohd's keys on where its libraries are: `__path__`, `__required__` and the like."""
    return {k: v for k, v in given.items() if not k.startswith("__")} if isinstance(given, dict) else given


def _parse_volume(name: str, given: Json) -> Volume:
    path = f"{SECTION_PATH}/volumes/{name}"
    backend = given.get("backend", name) if isinstance(given, dict) else name
    if backend != BACKEND:
        raise ConfigError(path, f"a volume whose backend is {BACKEND}", repr(backend))
    return resolve(Volume, validate_document(Volume, _drop_loading_keys(given), path), "peer")


def _parse_storage(name: str, given: Json, volumes: dict[str, Volume]) -> StorageSettings:
    path = f"{SECTION_PATH}/storages/{name}"
    section = resolve(StorageSection, validate_document(StorageSection, given, path), "peer")
    if section.key_expr is None:
        raise ConfigError(f"{path}/key_expr", "a key expression", "nothing")
    try:
        KeyScope([section.key_expr], section.strip_prefix)
    except UsageError as error:
        raise ConfigError(path, "key_expr and strip_prefix that fit", str(error)) from error
    places, landing = _resolve_data_paths(f"{path}/volume", section.volume, volumes)
    if section.strip_prefix is not None and places.record:
        raise ConfigError(f"{path}/volume/record", "false, as with strip_prefix nothing can be recorded", "true")
    journal = journal_path(places.lake, places.journal)
    if journal is None:
        raise ConfigError(f"{path}/volume", "a lake or a journal", "neither")
    return StorageSettings(
        name=name,
        key_exprs=(section.key_expr,),
        complete=section.complete in (True, "true"),
        strip_prefix=section.strip_prefix,
        lake=places.lake and normalize_lake_path(places.lake),
        journal=journal,
        record=places.record,
        lifespan=section.garbage_collection.lifespan,
        landing=landing,
    )


def normalize_lake_path(place: str) -> str:
    """A place of a lake, always spelled alike."""
    return place if "://" in place else str(Path(place))


def journal_path(lake: str | None, journal: str | None) -> Path | None:
    """The place of the journal: the one given, or in the lake, or in the working directory if the lake is elsewhere."""
    if journal is not None:
        return Path(journal)
    if lake is None:
        return None
    return Path("journal") if "://" in lake else Path(lake) / JOURNAL_DIRECTORY


def _resolve_data_paths(path: str, given: Json, volumes: dict[str, Volume]) -> tuple[DataPaths, dict[str, Any]]:
    """Where a storage keeps what it has, its own word first, then that of its volume; and how its rows land."""
    document: Document = (
        {"id": given} if isinstance(given, str) else validate_document(VolumeReference, given or {}, path)
    )
    name = document.get("id")
    if name is None:
        raise ConfigError(path, "the name of a volume", "nothing")
    if name not in volumes:
        raise ConfigError(path, f"one of the volumes {', '.join(sorted(volumes))}", repr(name))
    own = resolve(VolumeReference, document, "peer")
    volume = volumes[name]
    journal = volume.journal if own.lake is None else None  # another lake has another journal
    places = DataPaths(own.lake or volume.lake, own.journal or journal, own.record and volume.record)
    return places, volume.landing or {}
