"""Logging as scripts for eclipse-zenoh switch it on: by `RUST_LOG` or `ZENSPARK_LOG`, or at a level they name.

Lines go through Python's `logging`, to loggers below `zenspark`. `RUST_LOG` is read as eclipse-zenoh does:
directives separated by commas, each a level, a target, or `target=level`; the most exact target counts, and what none
names is off. `ZENSPARK_LOG` is read in the same way and takes precedence. The targets of eclipse-zenoh stand for
loggers of zenspark: `zenoh` for `zenspark`, `zenoh::net` and `zenoh_transport` for `zenspark.net`. A directive that
cannot be read is named on standard error and left out.

Lines go to standard error, unless the program has handlers of its own at the root logger: then they go there, once.
Errors of callbacks are logged to `zenspark.handlers` whatever the filter is, as in eclipse-zenoh.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator

from zenspark.types.arguments import require_type

OFF_LEVEL = logging.CRITICAL + 10
LEVELS = {
    "off": OFF_LEVEL,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": logging.DEBUG,
}
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
ROOT_LOGGER = "zenspark"
HANDLERS_LOGGER = f"{ROOT_LOGGER}.handlers"
"""Logger of errors raised by callbacks of the program."""

_NUMBERS = dict(zip("012345", LEVELS, strict=True))
_TARGET = re.compile(r"[\w:.-]+")
_LINKS = ("zenoh_transport", "zenoh_link", "zenoh_protocol", "zenoh_codec")
"""Crates of eclipse-zenoh whose place is taken by `zenspark.net`."""
_changed: set[str] = set()
"""The loggers below `zenspark` whose level an earlier call set."""


def try_init_log_from_env() -> None:
    """Log what the environment variable `ZENSPARK_LOG` or `RUST_LOG` names; nothing changes if it is not set.

    Example:
        >>> os.environ["RUST_LOG"] = "info,zenoh::net=debug"
        >>> zenspark.try_init_log_from_env()
    """
    text = _environment()
    if text:
        _set_levels(dict(_directives(text)))


def init_log_from_env_or(level: str) -> None:
    """Log what the environment variable `ZENSPARK_LOG` or `RUST_LOG` names, or, without, what `level` names.

    Args:
        level: A filter as in `RUST_LOG`: levels and targets, such as "info" or "warn,zenoh::net=debug".

    Raises:
        TypeError: It is not a string.

    Example:
        >>> zenspark.init_log_from_env_or("error")
    """
    require_type(str, level)
    _set_levels(dict(_directives(_environment())) or dict(_directives(level)))


def init_log(directives: str) -> None:
    """Log what `directives` name, regardless of the environment; the format is that of `RUST_LOG`."""
    _set_levels(dict(_directives(directives)))


def _environment() -> str:
    """Return the log filter of the environment, empty if there is none."""
    return os.environ.get("ZENSPARK_LOG") or os.environ.get("RUST_LOG") or ""


def _directives(text: str) -> Iterator[tuple[str | None, int]]:
    """Yield the targets of a filter and their levels; None is the target of a level without one."""
    for directive in filter(None, (part.strip() for part in text.split(","))):
        target, has_level, name = (part.strip() for part in directive.rpartition("="))
        level = _level(name)
        if not has_level and level is not None:
            yield None, level
        elif not has_level and _TARGET.fullmatch(name):
            yield name, LEVELS["trace"]
        elif level is not None and _TARGET.fullmatch(target):
            yield target, level
        else:
            expected = f"{', '.join(LEVELS)}, a number 0-5, or target=level"
            print(f"ignoring `{directive}`: expected {expected}", file=sys.stderr)


def _level(name: str) -> int | None:
    name = name.lower()
    return LEVELS.get(_NUMBERS.get(name, name))


def _logger_name(target: str) -> str | None:
    """Return the logger of zenspark that a target of eclipse-zenoh stands for; None if there is none."""
    if target.startswith(_LINKS):
        return f"{ROOT_LOGGER}.net"
    first, *rest = target.replace("::", ".").split(".")
    return ".".join([ROOT_LOGGER, *rest]) if first in ("zenoh", ROOT_LOGGER) else None


def _set_levels(levels: dict[str | None, int]) -> None:
    """Set the levels of the loggers of zenspark, and add a handler that shows their lines."""
    level_of_logger = {ROOT_LOGGER: levels.get(None, OFF_LEVEL), HANDLERS_LOGGER: logging.ERROR}
    level_of_logger |= {name: level for target, level in levels.items() if target and (name := _logger_name(target))}
    for name in _changed - set(level_of_logger):
        logging.getLogger(name).setLevel(logging.NOTSET)
    _changed.update(level_of_logger)
    for name, level in level_of_logger.items():
        logging.getLogger(name).setLevel(level)
    logger = logging.getLogger(ROOT_LOGGER)
    if not any(isinstance(handler, FallbackHandler) for handler in logger.handlers):
        logger.addHandler(FallbackHandler())


class FallbackHandler(logging.StreamHandler):  # type: ignore[type-arg]  # generic only for type checkers
    """Writes to standard error the lines that no handler of the program writes."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(LOG_FORMAT))

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            super().emit(record)
