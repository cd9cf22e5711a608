"""Flags of `zenspark up` for ingestion, retention and run time."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from zenspark.cli import units
from zenspark.cli.record import parse_policy
from zenspark.cli.units import FOREVER
from zenspark.config.schema import ConfigError
from zenspark.errors import UsageError
from zenspark.journal import Policy
from zenspark.lake.maintenance_config import MaintenanceConfig
from zenspark.spark.ingest.settings import DEFAULT_MASTER, IngestSettings

JOURNAL_DEFAULTS = {"segment_bytes": "64MiB", "segment_age": "10m", "retain_read_age": "1h"}
"""Journal defaults of `up`: small segments, which can be trimmed soon after they are ingested."""
DEFAULT_STOP_TIMEOUT_SECONDS = 60.0
"""Seconds to ingest the remaining rows at the end."""
SPARK_UI_PORT = 4040

Value = TypeVar("Value")


class RunTiming(NamedTuple):
    """Run time and stop timeout."""

    run_seconds: float | None
    """Seconds after which the run ends; None is never."""
    stop_seconds: float
    """Timeout in seconds to ingest the received rows at the end."""


def add_ingest_flags(parser: ArgumentParser) -> None:
    """Add the flags, in the groups of the help."""
    add = parser.add_argument
    add("--for", metavar="DURATION", dest="seconds", help="end this time after Spark has started, e.g. 90s or 1h")
    add(
        "--stop-timeout",
        metavar="DURATION",
        help=f"timeout to ingest the remaining rows at the end (default: {DEFAULT_STOP_TIMEOUT_SECONDS:.0f}s)",
    )
    _add_spark_flags(parser)
    _add_retention_flags(parser)


def _add_spark_flags(parser: ArgumentParser) -> None:
    settings = IngestSettings()
    add = parser.add_argument_group("Spark").add_argument
    add(
        "--master",
        metavar="URL",
        help=f"Spark master (default: {DEFAULT_MASTER}, on this machine)",
    )
    add("--conf", metavar="NAME=VALUE", action="append", default=[], help="Spark configuration; repeatable")
    add(
        "--spark-ui",
        metavar="PORT",
        nargs="?",
        const=str(SPARK_UI_PORT),
        help=f"serve Spark's web interface (default port: {SPARK_UI_PORT})",
    )
    add("--trigger", metavar="DURATION", help=f"time between batches (default: {settings.trigger:.0f}s)")
    add("--max-batch-rows", metavar="ROWS", help=f"maximum rows per batch (default: {settings.max_batch_rows})")
    add("--max-batch-bytes", metavar="SIZE", help="maximum journal bytes per batch (default: 1GiB)")
    add("--deduplicate", action="store_true", default=None, help="ingest samples recorded by several recorders once")


def _add_retention_flags(parser: ArgumentParser) -> None:
    config = MaintenanceConfig()
    add = parser.add_argument_group("retention and maintenance of tables").add_argument
    add("--lake-retain-age", metavar="DURATION", help="retention of samples in the tables (default: forever)")
    add("--lake-retain-bytes", metavar="SIZE", help="maximum size of samples in the tables (default: no limit)")
    add(
        "--lake-retain",
        metavar="KEYS=DURATION",
        action="append",
        default=[],
        help="retention of samples under a prefix or key expression, or forever; repeatable, the first that matches "
        "applies: --lake-retain 'fleet/*/camera/**=7d'",
    )
    add("--lake-history", metavar="DURATION", help="time for which old versions of tables can be read (default: 1h)")
    add(
        "--refresh-interval",
        metavar="DURATION",
        help=f"interval of refreshes of derived tables (default: {config.refresh_interval:.0f}s)",
    )
    add(
        "--compact-interval",
        metavar="DURATION",
        help=f"interval of compactions (default: {config.compact_interval:.0f}s)",
    )


# --- the file ---------------------------------------------------------------------------------------------------------

FILE_KEYS = {
    **{name: name for name in ("master", "conf", "trigger", "max_batch_rows", "max_batch_bytes", "deduplicate")},
    **{name: name for name in ("refresh_interval", "compact_interval", "lake_history")},
    **{name: name for name in ("lake_retain", "lake_retain_age", "lake_retain_bytes")},
    **{name: name for name in ("retain_read_age", "retain_read_bytes")},
}
"""Keys under `ingest` of a volume in zenohd's file, and the flag of each."""
FILE_PATH = "plugins/storage_manager/volumes/*/ingest"


def merge_file_settings(args: Namespace, document: Mapping[str, Any]) -> Namespace:
    """Return the flags, with values of a file for those that are not set; raises ConfigError for an unknown key."""
    merged = Namespace(**vars(args))
    for key, value in document.items():
        if key not in FILE_KEYS:
            raise ConfigError(f"{FILE_PATH}/{key}", f"one of {', '.join(FILE_KEYS)}", repr(key))
        name = FILE_KEYS[key]
        if isinstance(value, Mapping):
            pairs = [f"{left}={right}" for left, right in value.items()]
            # of conf the last entry applies, of rules the first: flags take precedence in both
            setattr(merged, name, pairs + args.conf if name == "conf" else [*getattr(args, name), *pairs])
        elif not getattr(args, name):
            setattr(merged, name, value if isinstance(value, bool) else str(value))
    return merged


# --- parsing ---------------------------------------------------------------------------------------------------------


def parse_timing(args: Namespace) -> RunTiming:
    """Parse run time and stop timeout."""
    stop = _parse_flag("--stop-timeout", args.stop_timeout, units.parse_duration)
    return RunTiming(
        _parse_flag("--for", args.seconds, units.parse_duration), DEFAULT_STOP_TIMEOUT_SECONDS if stop is None else stop
    )


def parse_ingest_settings(args: Namespace) -> IngestSettings:
    """Parse the ingestion settings."""
    values = {
        "trigger": _parse_flag("--trigger", args.trigger, units.parse_duration),
        "max_batch_rows": _parse_flag("--max-batch-rows", args.max_batch_rows, _positive(units.parse_number)),
        "max_batch_bytes": _parse_flag("--max-batch-bytes", args.max_batch_bytes, _positive(units.parse_size)),
    }
    return IngestSettings(
        master=args.master or IngestSettings().master,
        conf=_spark_conf(args),
        deduplicate=bool(args.deduplicate),
        maintenance=_parse_maintenance(args),
        **{name: value for name, value in values.items() if value is not None},  # type: ignore[arg-type]
    )


def parse_journal_policy(args: Namespace) -> Policy:
    """Parse the journal policy."""
    names = {field.name for field in msgspec.structs.fields(Policy)}
    for name, text in JOURNAL_DEFAULTS.items():
        if name in names and getattr(args, name, None) is None:
            setattr(args, name, text)
    if args.retain_read_age == FOREVER:
        args.retain_read_age = None
    return parse_policy(args)


def _spark_conf(args: Namespace) -> dict[str, str]:
    pairs = dict(_split_pair("--conf", text, "NAME=VALUE") for text in args.conf)
    if args.spark_ui is not None:
        port = _parse_flag("--spark-ui", args.spark_ui, units.parse_number)
        pairs = {"spark.ui.enabled": "true", "spark.ui.port": str(port)} | pairs
    return pairs


def _parse_maintenance(args: Namespace) -> MaintenanceConfig:
    values = {
        "refresh_interval": _parse_flag("--refresh-interval", args.refresh_interval, units.parse_duration),
        "compact_interval": _parse_flag("--compact-interval", args.compact_interval, units.parse_duration),
        "history": _parse_flag("--lake-history", args.lake_history, units.parse_duration),
        "retain_age": _parse_flag("--lake-retain-age", args.lake_retain_age, _parse_age),
        "retain_bytes": _parse_flag("--lake-retain-bytes", args.lake_retain_bytes, _positive(units.parse_size)),
    }
    return MaintenanceConfig(
        retain=_parse_rules(args.lake_retain),
        **{name: value for name, value in values.items() if value is not None},  # type: ignore[arg-type]
    )


def _parse_rules(rules: Sequence[str]) -> dict[str, float | None]:
    ages: dict[str, float | None] = {}
    for text in rules:
        keys, age = _split_pair("--lake-retain", text, "KEYS=DURATION")
        ages.setdefault(keys, _parse_flag("--lake-retain", age, _parse_age))
    return ages


def _split_pair(flag: str, text: str, expected: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{flag}: expected {expected}, found {text!r}")
    return name, value


def _parse_age(text: str) -> float | None:
    return None if text == FOREVER else units.parse_duration(text)


def _positive(read: Callable[[str], int]) -> Callable[[str], int]:
    def parse_positive(text: str) -> int:
        number = read(text)
        if number < 1:
            raise UsageError(f"expected more than 0, found {text!r}")
        return number

    return parse_positive


def _parse_flag(flag: str, text: str | None, read: Callable[[str], Value]) -> Value | None:
    """Parse the value of a flag, None if it was not given; raises UsageError that names the flag."""
    if text is None:
        return None
    try:
        return read(text)
    except UsageError as error:
        raise UsageError(f"{flag}: {error}") from None
