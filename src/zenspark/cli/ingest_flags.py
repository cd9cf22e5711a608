"""The flags of `zenspark up` that say how rows land, how long they are kept, and when to end."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from zenspark.cli import units
from zenspark.cli.record import parse_policy
from zenspark.config.schema import ConfigError
from zenspark.errors import UsageError
from zenspark.journal import Policy
from zenspark.lake.maintenance_config import MaintenanceConfig
from zenspark.spark.ingest.settings import IngestSettings

FOREVER = "forever"
JOURNAL_DEFAULTS = {"segment_bytes": "64MiB", "segment_age": "10m", "retain_read_age": "1h"}
"""What `up` wants of its journals if it is not told otherwise: segments that can be trimmed soon after they landed."""
STOP_SECONDS = 60.0
UI_PORT = 4040

Value = TypeVar("Value")


class RunTiming(NamedTuple):
    """When a run ends."""

    run_seconds: float | None
    """By itself, after so long; None is never."""
    stop_seconds: float
    """So long at most what was received may take to land at the end."""


def add_ingest_flags(parser: ArgumentParser) -> None:
    """The flags; their groups are those of the help."""
    add = parser.add_argument
    add("--for", metavar="DURATION", dest="seconds", help="end by itself so long after Spark is there, e.g. 90s or 1h")
    add(
        "--stop-timeout",
        metavar="DURATION",
        help=f"how long landing may take at the end (default: {STOP_SECONDS:.0f}s)",
    )
    _add_spark_flags(parser)
    _add_retention_flags(parser)


def _add_spark_flags(parser: ArgumentParser) -> None:
    settings = IngestSettings()
    add = parser.add_argument_group("Spark").add_argument
    add(
        "--master",
        metavar="URL",
        help="the Spark that lands (default: local[*], on this machine)",
    )
    add("--conf", metavar="NAME=VALUE", action="append", default=[], help="Spark configuration; repeatable")
    add(
        "--spark-ui",
        metavar="PORT",
        nargs="?",
        const=str(UI_PORT),
        help=f"serve Spark's web interface (default port: {UI_PORT})",
    )
    add("--trigger", metavar="DURATION", help=f"time between batches (default: {settings.trigger:.0f}s)")
    add("--max-batch-rows", metavar="ROWS", help=f"rows in a batch at most (default: {settings.max_batch_rows})")
    add("--max-batch-bytes", metavar="SIZE", help="bytes of the journals in a batch at most (default: 1GiB)")
    add("--deduplicate", action="store_true", help="land samples once that several recorders recorded")


def _add_retention_flags(parser: ArgumentParser) -> None:
    config = MaintenanceConfig()
    add = parser.add_argument_group("how long tables keep rows, and how they are maintained").add_argument
    add("--lake-retain-age", metavar="DURATION", help="keep samples so long in the tables (default: forever)")
    add("--lake-retain-bytes", metavar="SIZE", help="and so many bytes of them at most (default: no limit)")
    add(
        "--lake-retain",
        metavar="KEYS=DURATION",
        action="append",
        default=[],
        help="keep samples under a prefix or key expression so long, or forever; repeatable, the first that matches "
        "decides: --lake-retain 'fleet/*/camera/**=7d'",
    )
    add("--lake-history", metavar="DURATION", help="how far back tables can be read as they were (default: 1h)")
    add(
        "--refresh-interval",
        metavar="DURATION",
        help=f"between refreshes of tables (default: {config.refresh_interval:.0f}s)",
    )
    add("--compact-interval", metavar="DURATION", help=f"between compactions (default: {config.compact_interval:.0f}s)")


# --- the file ---------------------------------------------------------------------------------------------------------

FILE_KEYS = {
    **{name: name for name in ("master", "conf", "trigger", "max_batch_rows", "max_batch_bytes", "deduplicate")},
    **{name: name for name in ("refresh_interval", "compact_interval", "lake_history")},
    **{name: name for name in ("lake_retain", "lake_retain_age", "lake_retain_bytes")},
    **{name: name for name in ("retain_read_age", "retain_read_bytes")},
}
"""What can stand in the file under `landing` of a volume, and the flag it is."""
FILE_PATH = "plugins/storage_manager/volumes/*/landing"


def merge_file_settings(given: Namespace, document: Mapping[str, Any]) -> Namespace:
    """The flags with what a file says where they say nothing; ConfigError names a key that is not known."""
    found = Namespace(**vars(given))
    for key, value in document.items():
        if key not in FILE_KEYS:
            raise ConfigError(f"{FILE_PATH}/{key}", f"one of {', '.join(FILE_KEYS)}", repr(key))
        name = FILE_KEYS[key]
        if isinstance(value, Mapping):
            pairs = [f"{one}={other}" for one, other in value.items()]
            # the last configuration counts, and the first rule: flags count more in both
            setattr(found, name, pairs + given.conf if name == "conf" else [*getattr(given, name), *pairs])
        elif not getattr(given, name):
            setattr(found, name, value if isinstance(value, bool) else str(value))
    return found


# --- what they mean ---------------------------------------------------------------------------------------------------


def parse_timing(given: Namespace) -> RunTiming:
    """When to end."""
    stop = _parse_flag("--stop-timeout", given.stop_timeout, units.duration)
    return RunTiming(_parse_flag("--for", given.seconds, units.duration), STOP_SECONDS if stop is None else stop)


def parse_ingest_settings(given: Namespace) -> IngestSettings:
    """How rows land."""
    said = {
        "trigger": _parse_flag("--trigger", given.trigger, units.duration),
        "max_batch_rows": _parse_flag("--max-batch-rows", given.max_batch_rows, _positive(units.number)),
        "max_batch_bytes": _parse_flag("--max-batch-bytes", given.max_batch_bytes, _positive(units.size)),
    }
    return IngestSettings(
        master=given.master or IngestSettings().master,
        conf=_spark_conf(given),
        deduplicate=given.deduplicate,
        maintenance=_maintenance(given),
        **{name: value for name, value in said.items() if value is not None},  # type: ignore[arg-type]
    )


def parse_journal_policy(given: Namespace) -> Policy:
    """How the journal is written and kept."""
    names = {field.name for field in msgspec.structs.fields(Policy)}
    for name, text in JOURNAL_DEFAULTS.items():
        if name in names and getattr(given, name, None) is None:
            setattr(given, name, text)
    if given.retain_read_age == FOREVER:
        given.retain_read_age = None
    return parse_policy(given)


def _spark_conf(given: Namespace) -> dict[str, str]:
    pairs = dict(_pair("--conf", text, "NAME=VALUE") for text in given.conf)
    if given.spark_ui is not None:
        port = _parse_flag("--spark-ui", given.spark_ui, units.number)
        pairs = {"spark.ui.enabled": "true", "spark.ui.port": str(port)} | pairs
    return pairs


def _maintenance(given: Namespace) -> MaintenanceConfig:
    said = {
        "refresh_interval": _parse_flag("--refresh-interval", given.refresh_interval, units.duration),
        "compact_interval": _parse_flag("--compact-interval", given.compact_interval, units.duration),
        "history": _parse_flag("--lake-history", given.lake_history, units.duration),
        "retain_age": _parse_flag("--lake-retain-age", given.lake_retain_age, _age),
        "retain_bytes": _parse_flag("--lake-retain-bytes", given.lake_retain_bytes, _positive(units.size)),
    }
    return MaintenanceConfig(
        retain=_rules(given.lake_retain),
        **{name: value for name, value in said.items() if value is not None},  # type: ignore[arg-type]
    )


def _rules(given: Sequence[str]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for text in given:
        keys, age = _pair("--lake-retain", text, "KEYS=DURATION")
        found.setdefault(keys, _parse_flag("--lake-retain", age, _age))
    return found


def _pair(flag: str, text: str, expected: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{flag}: expected {expected}, found {text!r}")
    return name, value


def _age(text: str) -> float | None:
    return None if text == FOREVER else units.duration(text)


def _positive(read: Callable[[str], int]) -> Callable[[str], int]:
    def checked(text: str) -> int:
        found = read(text)
        if found < 1:
            raise UsageError(f"expected more than 0, found {text!r}")
        return found

    return checked


def _parse_flag(flag: str, text: str | None, read: Callable[[str], Value]) -> Value | None:
    """The value of a flag, None if it was not given; UsageError names the flag."""
    if text is None:
        return None
    try:
        return read(text)
    except UsageError as error:
        raise UsageError(f"{flag}: {error}") from None
