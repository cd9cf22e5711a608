"""Config: zenohd's configuration as users hold it, from a file, the environment, JSON5 text, or key by key."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import ClassVar

from zenspark.config import json5_parser
from zenspark.config.document_limits import MAX_NESTING_DEPTH, MAX_TEXT_CHARACTERS, DocumentError
from zenspark.config.schema import (
    ConfigError,
    Document,
    Json,
    raise_unknown_key,
    reject_missing_protection,
    resolve,
    unused_keys,
    validate_document,
    with_defaults,
)
from zenspark.config.settings import Settings

logger = logging.getLogger("zenspark.api")


class Config:
    """The configuration of a session, with the keys of zenohd's; empty, it has the defaults of eclipse-zenoh.

    Every value is validated when it is given: an error names the key, what is expected there and what was found.

    Example:
        >>> config = zenspark.Config()
        >>> config.insert_json5("connect/endpoints", '["tcp/localhost:7447"]')
        >>> session = zenspark.open(config)
    """

    DEFAULT_CONFIG_PATH_ENV: ClassVar[str] = "ZENOH_CONFIG"

    __slots__ = ("_document",)
    _document: Document

    def __init__(self) -> None:
        self._document = {}

    @classmethod
    def from_env(cls) -> Config:
        """Read the file that the environment variable ZENOH_CONFIG names.

        Returns:
            The configuration in that file.

        Raises:
            UsageError: The variable is not set, or the file is not valid.

        Example:
            >>> os.environ["ZENOH_CONFIG"] = "zenoh.json5"
            >>> config = zenspark.Config.from_env()
        """
        path = os.environ.get(cls.DEFAULT_CONFIG_PATH_ENV)
        if path is None:
            raise ConfigError("", f"a file named by {cls.DEFAULT_CONFIG_PATH_ENV}", "no such environment variable")
        return cls.from_file(path)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Config:
        """Read a file.

        Args:
            path: JSON5 if its name ends in `.json5` or `.json`, YAML if in `.yaml` or `.yml`.

        Returns:
            The configuration in that file.

        Raises:
            UsageError: It cannot be read, or is not valid.
            TypeError: The path is neither a string nor a path.

        Example:
            >>> session = zenspark.open(zenspark.Config.from_file("zenoh.json5"))
        """
        file = Path(path)
        if file.suffix not in (".json5", ".json", ".yaml", ".yml"):
            raise ConfigError("", "a file .json5, .json, .yaml or .yml", str(file))
        try:
            with file.open(encoding="utf-8") as opened:
                text = opened.read(MAX_TEXT_CHARACTERS + 1)  # one more is too many, and is rejected
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError("", "a file that can be read", f"{file}: {reason}") from error
        return cls._of(_parse_yaml(text) if file.suffix in (".yaml", ".yml") else _parse_json5(text, ""))

    @classmethod
    def from_json5(cls, json: str) -> Config:
        """Parse JSON5 text.

        Args:
            json: The text.

        Returns:
            The configuration; keys that the text does not name have their defaults.

        Raises:
            UsageError: It is not valid.
            TypeError: It is no string.

        Example:
            >>> config = zenspark.Config.from_json5('{mode: "client", connect: {endpoints: ["tcp/localhost:7447"]}}')
            >>> config.get_json("mode")
            '"client"'
        """
        return cls._of(_parse_json5(json, ""))

    @classmethod
    def _of(cls, document: Json) -> Config:
        config = cls()
        config._document = validate_document(Settings, document)
        return config

    def insert_json5(self, key: str, value: str) -> None:
        """Set one key, or everything below one.

        Args:
            key: The key, such as "scouting/multicast/enabled".
            value: Its value, as JSON5.

        Raises:
            UsageError: There is no such key, or the value is not valid.
            TypeError: An argument is no string.

        Example:
            >>> config = zenspark.Config()
            >>> config.insert_json5("scouting/multicast/enabled", "false")
            >>> config.get_json("scouting/multicast/enabled")
            'false'
        """
        names = _split_key(key)
        document = _parse_json5(value, key)
        for name in reversed(names):
            document = {name: document}
        document = validate_document(Settings, document)
        for name in names:
            document = document[name]
        self._document = _set_value(self._document, names, document)

    def get_json(self, key: str) -> str:
        """Return the value of one key, or of everything below one, as JSON; defaults included.

        Args:
            key: The key, such as "scouting/multicast".

        Returns:
            The value as JSON text.

        Raises:
            UsageError: There is no such key.
            TypeError: The key is no string.

        Example:
            >>> config = zenspark.Config.from_json5('{connect: {endpoints: ["tcp/localhost:7447"]}}')
            >>> config.get_json("connect/endpoints")
            '["tcp/localhost:7447"]'
        """
        value: Json = with_defaults(Settings, self._document)
        for name in _split_key(key):
            if not isinstance(value, dict) or name not in value:
                raise_unknown_key(key, name, value if isinstance(value, dict) else ())
            value = value[name]
        return _compact(value)

    def settings(self) -> Settings:
        """Return the settings of a session; one warning names the keys that were set and are not used.

        Returns:
            The settings, with defaults for keys that are not set.

        Raises:
            UsageError: A key requires a protection that zenspark does not have.

        Example:
            >>> zenspark.Config.from_json5('{mode: "client"}').settings().mode
            'client'
        """
        reject_missing_protection(Settings, self._document)
        settings = resolve(Settings, self._document, self._document.get("mode") or "peer")
        login = settings.transport.auth.usrpwd
        if (login.user is None) != (login.password is None):
            missing = "user" if login.user is None else "password"
            raise ConfigError(f"transport/auth/usrpwd/{missing}", "a text, as the other one is set", "null")
        unused = list(unused_keys(Settings, self._document))
        if unused:
            logger.warning("configuration keys that zenspark does not use: %s", ", ".join(unused))
        return settings

    def __str__(self) -> str:
        return _compact(with_defaults(Settings, self._document), sort=True)

    def __repr__(self) -> str:
        return f"<Config {_compact(self._document)}>"

    __hash__ = object.__hash__  # by identity, as in eclipse-zenoh: it can be changed

    def __eq__(self, other: object) -> bool:
        return self._document == other._document if isinstance(other, Config) else NotImplemented


def _set_value(document: Document, names: list[str], value: Json) -> Document:
    """Return a copy of the document with one value changed."""
    name, *rest = names
    if not rest:
        return {**document, name: value}
    inner = document.get(name)
    return {**document, name: _set_value(inner if isinstance(inner, dict) else {}, rest, value)}


def _split_key(key: str) -> list[str]:
    if not isinstance(key, str):
        raise TypeError(f"expected a str, found {type(key).__name__!r}")
    names = [name for name in key.split("/") if name]
    if not names:
        raise ConfigError("", "a key such as connect/endpoints", repr(key))
    if len(names) > MAX_NESTING_DEPTH:
        raise ConfigError("", f"a key of at most {MAX_NESTING_DEPTH} names", f"one of {len(names)}")
    return names


def _parse_json5(text: str, key: str) -> Json:
    if not isinstance(text, str):
        raise TypeError(f"expected a str, found {type(text).__name__!r}")
    try:
        return json5_parser.parse(text)
    except DocumentError as error:
        raise ConfigError(key, "JSON5", str(error)) from error


def _parse_yaml(text: str) -> Json:
    from zenspark.config import yaml_parser  # here, as few have such a file and it loads slowly

    try:
        return yaml_parser.parse(text)
    except DocumentError as error:
        raise ConfigError("", "YAML", str(error)) from error


def _compact(value: Json, *, sort: bool = False) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=sort)
