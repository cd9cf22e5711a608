"""Logging as scripts for eclipse-zenoh switch it on: by `RUST_LOG`, or at a level they name."""

from __future__ import annotations

import logging
import os

from zenspark.api.checks import expect

LEVELS = {
    "off": logging.CRITICAL + 10,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": logging.DEBUG,
}
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def try_init_log_from_env() -> None:
    """Log to standard error at the level `RUST_LOG` names; not at all if it is not set."""
    level = os.environ.get("RUST_LOG")
    if level:
        _log_at(level)


def init_log_from_env_or(level: str) -> None:
    """Log to standard error at the level `RUST_LOG` names, or at this one."""
    _log_at(os.environ.get("RUST_LOG") or expect(str, level))


def _log_at(level: str) -> None:
    """A level, or `target=level` pairs, of which the first level counts."""
    name = level.split(",")[0].rpartition("=")[2].strip().lower()
    logger = logging.getLogger("zenspark")
    logger.setLevel(LEVELS.get(name, logging.INFO))
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(FORMAT))
        logger.addHandler(handler)
