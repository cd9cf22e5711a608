"""The configuration of `zenspark up`: `zenspark.toml`, or the section `plugins/zenspark` of zenohd's file.

    lake = "./lake"
    keys = ["fleet/**"]
    connect = ["tcp/192.168.0.1:7447"]

    [retention]
    age = "90d"
    rules = { "fleet/*/camera" = "7d" }

Every key is a flag of the command; flags take precedence. docs/configuration.md lists the keys.
"""

from __future__ import annotations

import json
import tomllib
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from zenspark.cli import units
from zenspark.cli.argument_parser import parse_endpoint, parse_key_expr
from zenspark.cli.http_flags import DEFAULT_ADDRESS, parse_host, parse_origin
from zenspark.cli.ingest_flags import JOURNAL_DEFAULTS
from zenspark.cli.record import check_policy_value, describe_policy_default
from zenspark.cli.units import FOREVER
from zenspark.config.config import Config
from zenspark.config.schema import ConfigError, raise_unknown_key
from zenspark.errors import UsageError
from zenspark.journal.policy import Policy
from zenspark.spark.ingest.settings import DEFAULT_MASTER

FILE_NAME = "zenspark.toml"
"""File that is read if it is in the current directory and -c names no other."""
UP_PLUGIN = "zenspark"
SECTION = f"plugins/{UP_PLUGIN}"
ZENOH = "zenoh"
"""Table of the TOML file with the keys of zenohd's configuration."""
HIDDEN = "(hidden)"


class Kind(Enum):
    """Type of a value, with its description for errors."""

    TEXT = "a text or a number"
    FLAG = "true or false"
    LIST = "a list of texts"
    TABLE = "a table"


class Setting(NamedTuple):
    """One key of the configuration."""

    path: str
    dest: str
    """Attribute of the parsed flags."""
    kind: Kind = Kind.TEXT
    default: Any = None
    check: Callable[[str], object] | None = None
    """Raises UsageError if a text, an item of a list or a value of a table is wrong."""
    meaning: str = ""
    is_secret: bool = False


def _parse_age(text: str) -> float | None:
    return None if text == FOREVER else units.parse_duration(text)


def _check_policy(name: str, text: str) -> None:
    if (name, text) != ("retain_read_age", FOREVER):
        check_policy_value(name, text)


def _policy_settings() -> Iterator[Setting]:
    for field in msgspec.structs.fields(Policy):
        meaning, default = describe_policy_default(field.name)
        kind = Kind.FLAG if field.default is False else Kind.TEXT
        yield Setting(
            f"journal_policy/{field.name}",
            field.name,
            kind,
            False if kind is Kind.FLAG else JOURNAL_DEFAULTS.get(field.name, default),
            partial(_check_policy, field.name),
            meaning,
        )


_duration, _size, _number = units.parse_duration, units.parse_size, units.parse_number

SETTINGS: dict[str, Setting] = {
    setting.path: setting
    for setting in (
        Setting("lake", "lake", default="lake", meaning="directory or URI of the tables"),
        Setting("journal", "journal", meaning="directory of the journal; by default `_journal` in the lake"),
        Setting("keys", "key", Kind.LIST, ["**"], parse_key_expr, "key expressions to record and to reply for"),
        Setting("complete", "complete", Kind.FLAG, False, meaning="whether the storage is complete for its keys"),
        Setting("mode", "mode", meaning="router, peer or client; by default router, with `connect` alone client"),
        Setting("listen", "listen", Kind.LIST, check=parse_endpoint, meaning="endpoints to listen on"),
        Setting("connect", "connect", Kind.LIST, check=parse_endpoint, meaning="endpoints to connect to"),
        Setting("id", "id", meaning="zid of the node"),
        Setting("master", "master", default=DEFAULT_MASTER, meaning="Spark master"),
        Setting(
            "stop_timeout",
            "stop_timeout",
            default="60s",
            check=_duration,
            meaning="timeout to ingest the remaining rows",
        ),
        Setting("spark/conf", "conf", Kind.TABLE, {}, meaning="Spark configuration"),
        Setting("spark/ui", "spark_ui", check=_number, meaning="port of Spark's web interface"),
        Setting("spark/trigger", "trigger", default="1s", check=_duration, meaning="time between batches"),
        Setting("spark/max_batch_rows", "max_batch_rows", default="2000000", check=_number, meaning="rows per batch"),
        Setting(
            "spark/max_batch_bytes", "max_batch_bytes", default="1GiB", check=_size, meaning="journal bytes per batch"
        ),
        Setting(
            "spark/deduplicate",
            "deduplicate",
            Kind.FLAG,
            False,
            meaning="whether samples of several recorders are ingested once",
        ),
        Setting("retention/age", "lake_retain_age", default=FOREVER, check=_parse_age, meaning="retention of samples"),
        Setting("retention/bytes", "lake_retain_bytes", check=_size, meaning="maximum size of samples"),
        Setting(
            "retention/rules",
            "lake_retain",
            Kind.TABLE,
            {},
            _parse_age,
            "retention by prefix or key expression; the first that matches applies",
        ),
        Setting(
            "retention/history",
            "lake_history",
            default="1h",
            check=_duration,
            meaning="time for which old versions of tables can be read",
        ),
        Setting(
            "compaction/interval",
            "compact_interval",
            default="60s",
            check=_duration,
            meaning="time between compactions",
        ),
        Setting(
            "compaction/refresh_interval",
            "refresh_interval",
            default="5s",
            check=_duration,
            meaning="time between refreshes of derived tables",
        ),
        *_policy_settings(),
        Setting("http/address", "http", default=DEFAULT_ADDRESS, meaning="address of the page, or none"),
        Setting("http/write", "http_write", Kind.FLAG, False, meaning="whether put and delete are allowed over HTTP"),
        Setting("http/token", "http_token", meaning="required token, or @FILE", is_secret=True),
        Setting("http/user", "http_user", meaning="required NAME:PASSWORD, or @FILE", is_secret=True),
        Setting("http/certificate", "http_certificate", meaning="PEM file of the certificate chain"),
        Setting("http/key", "http_key", meaning="PEM file of the private key"),
        Setting("http/hosts", "http_host", Kind.LIST, [], parse_host, "further names of the server"),
        Setting("http/origins", "http_origin", Kind.LIST, [], parse_origin, "origins whose pages may read and write"),
        Setting(
            "http/insecure",
            "http_insecure",
            Kind.FLAG,
            False,
            meaning="whether other addresses than loopback may be served without login or TLS",
        ),
    )
}
SECTIONS = {path.partition("/")[0] for path in SETTINGS if "/" in path}


class SettingsFile(NamedTuple):
    """A configuration file: its name, the settings by path, and the configuration of the node."""

    name: str
    values: dict[str, Any]
    node: Config | None


# --- read -------------------------------------------------------------------------------------------------------------


def read_file(name: str | None, directory: Path | None = None) -> SettingsFile | None:
    """Read the file that -c names, or `zenspark.toml` of the current directory; None if there is none."""
    default_path = (directory or Path()) / FILE_NAME
    if name is None and not default_path.is_file():
        return None
    path = Path(default_path if name is None else name)
    if path.suffix != ".toml":
        return read_section(str(path), Config.from_file(path))
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("", "a file that can be read", f"{path}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError("", "TOML", f"{path}: {error}") from None
    node = document.pop(ZENOH, None)
    config = None if node is None else Config.from_json5(json.dumps(node, default=str))
    return SettingsFile(str(path), flatten(document, path.name, [ZENOH]), config)


def read_section(name: str, config: Config) -> SettingsFile:
    """Read the section `plugins/zenspark` of zenohd's configuration; `node` is the configuration without it."""
    plugins = json.loads(config.get_json("plugins"))
    if not isinstance(plugins, dict) or UP_PLUGIN not in plugins:
        return SettingsFile(name, {}, config)
    section = plugins.pop(UP_PLUGIN)
    if not isinstance(section, dict):
        raise ConfigError(SECTION, "an object", json.dumps(section))
    # keys that begin with __ are settings with which zenohd loads plugins
    section = {key: value for key, value in section.items() if not key.startswith("__")}
    node = copy(config)
    node.insert_json5("plugins", json.dumps(plugins))
    return SettingsFile(name, flatten(section, SECTION), node)


def flatten(document: Mapping[str, Any], document_name: str, further_keys: list[str] | None = None) -> dict[str, Any]:
    """Return the values by path, checked; `document_name` and `further_keys` are for errors, which suggest keys."""
    top_keys = [path for path in SETTINGS if "/" not in path] + sorted(SECTIONS) + (further_keys or [])
    values: dict[str, Any] = {}
    for name, value in document.items():
        if name in SECTIONS:
            if not isinstance(value, dict):
                raise ConfigError(f"{document_name}/{name}", "a table", json.dumps(value, default=str))
            section_keys = [path.partition("/")[2] for path in SETTINGS if path.startswith(f"{name}/")]
            for key, item in value.items():
                if key not in section_keys:
                    raise_unknown_key(f"{document_name}/{name}/{key}", key, section_keys)
                values[f"{name}/{key}"] = _parse_value(SETTINGS[f"{name}/{key}"], item, document_name)
        elif name in SETTINGS:
            values[name] = _parse_value(SETTINGS[name], value, document_name)
        else:
            raise_unknown_key(f"{document_name}/{name}", name, top_keys)
    return values


def _parse_value(setting: Setting, value: Any, document_name: str) -> Any:  # noqa: ANN401 - any value of a document
    """Return a value as the flag would have it; raises ConfigError if it is wrong."""
    path = f"{document_name}/{setting.path}"
    is_text = isinstance(value, str | int | float) and not isinstance(value, bool)
    match setting.kind:
        case Kind.FLAG if isinstance(value, bool):
            return value
        case Kind.TEXT if is_text:
            return _check_text(setting, str(value), path)
        case Kind.LIST if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return [_check_text(setting, item, path) for item in value]
        case Kind.TABLE if isinstance(value, dict):
            return {key: _check_text(setting, _to_text(item), f"{path}/{key}") for key, item in value.items()}
    raise ConfigError(path, setting.kind.value, json.dumps(value, default=str))


def _to_text(value: Any) -> str:  # noqa: ANN401 - any value of a document
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_text(setting: Setting, text: str, path: str) -> str:
    if setting.check is not None:
        try:
            setting.check(text)
        except UsageError as error:
            raise UsageError(f"configuration key {path}: {error}") from None
    return text


# --- apply ------------------------------------------------------------------------------------------------------------


class EffectiveSetting(NamedTuple):
    """The effective value of a setting, and its source: flag, file or default."""

    value: Any
    source: str


def apply_file(args: Namespace, file: SettingsFile | None) -> tuple[Namespace, dict[str, EffectiveSetting]]:
    """Return the flags, with values of the file for those that are not set, and every effective setting by its path."""
    merged = Namespace(**vars(args))
    effective: dict[str, EffectiveSetting] = {}
    for path, setting in SETTINGS.items():
        flag = getattr(args, setting.dest)
        value = None if file is None else file.values.get(path)
        if setting.kind is Kind.TABLE:
            merged_pairs, effective[path] = _merge_pairs(setting, flag, value, "" if file is None else file.name)
            setattr(merged, setting.dest, merged_pairs)
            continue
        if flag:
            effective[path] = EffectiveSetting(flag, "flag")
        elif value is not None:
            assert file is not None
            setattr(merged, setting.dest, value)
            effective[path] = EffectiveSetting(value, file.name)
        else:
            effective[path] = EffectiveSetting(setting.default, "default")
    return merged, effective


def _merge_pairs(
    setting: Setting, flag: list[str], value: dict[str, str] | None, name: str
) -> tuple[list[str], EffectiveSetting]:
    """Merge NAME=VALUE flags with a table: of `conf` the last entry applies, of rules the first; flags win in both."""
    pairs = [f"{key}={text}" for key, text in (value or {}).items()]
    merged = pairs + flag if setting.dest == "conf" else flag + pairs
    sources = [source for source, values in (("flag", flag), (name, pairs)) if values]
    table: dict[str, str] = {}
    for pair in merged:
        key, _, text = pair.partition("=")
        if setting.dest == "conf" or key not in table:
            table[key] = text
    return merged, EffectiveSetting(table, " and ".join(sources) or "default")


# --- print ------------------------------------------------------------------------------------------------------------


def format_config(effective: Mapping[str, EffectiveSetting], node: Config) -> Iterator[str]:
    """Yield the effective configuration as TOML, with the source of each value."""
    section = ""
    for path, (value, source) in effective.items():
        name, slash, key = path.partition("/")
        if slash and name != section:
            section = name
            yield ""
            yield f"[{name}]"
        displayed = HIDDEN if SETTINGS[path].is_secret and value else value
        line = f"{key or name} = {_to_toml(displayed)}" if displayed is not None else f"# {key or name} is not set"
        yield f"{line:<42} # {source}" if displayed is not None else line
    yield ""
    yield f"[{ZENOH}]"
    yield f"# {json.dumps(json.loads(str(node)), sort_keys=True)}"


def _to_toml(value: Any) -> str:  # noqa: ANN401 - any value of a setting
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(key)} = {_to_toml(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return json.dumps(value, ensure_ascii=False)
