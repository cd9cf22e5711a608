"""Log output of commands: the flags -q, -v and --log-level, and lines that never run into a status line.

Precedence: --log-level, then -q and -v, then ZENSPARK_LOG, then RUST_LOG, then the default of the command.
"""

from __future__ import annotations

import logging
import sys
from argparse import ArgumentParser, Namespace
from datetime import datetime

from zenspark.api.log_filter import LEVELS, ROOT_LOGGER, FallbackHandler, init_log, init_log_from_env_or
from zenspark.cli.screen import Screen
from zenspark.cli.status_line import write_line

VERBOSE_LEVELS = ("info", "debug")
"""Log levels of -v and -vv."""
LEVEL_STYLES = {logging.ERROR: "bold red", logging.WARNING: "yellow", logging.INFO: "cyan", logging.DEBUG: "dim"}


def add_log_flags(parser: ArgumentParser) -> None:
    """Add -q, -v and --log-level."""
    group = parser.add_argument_group("log (on standard error)")
    group.add_argument("-q", "--quiet", action="store_true", help="print results and errors only: no status, no log")
    group.add_argument("-v", "--verbose", action="count", default=0, help="log events (info); -vv: debug")
    group.add_argument(
        "--log-level",
        metavar="LEVEL",
        choices=LEVELS,
        help=f"{', '.join(LEVELS)}; ZENSPARK_LOG and RUST_LOG set it too, also for parts: warn,zenspark.net=debug",
    )


def start_logging(args: Namespace, default: str = "warn") -> None:
    """Log to standard error, at the level of the flags, of the environment, or the default one."""
    logger = logging.getLogger(ROOT_LOGGER)
    logger.handlers[:] = [handler for handler in logger.handlers if not isinstance(handler, FallbackHandler)]
    logger.addHandler(CommandLogHandler())
    level = log_level(args)
    if level is None:
        init_log_from_env_or(default)
    else:
        init_log(level)


def log_level(args: Namespace) -> str | None:
    """Return the level that the flags set, None if they set none."""
    if getattr(args, "log_level", None) is not None:
        return str(args.log_level)
    if getattr(args, "quiet", False):
        return "error"
    verbose = getattr(args, "verbose", 0)
    return VERBOSE_LEVELS[min(verbose, len(VERBOSE_LEVELS)) - 1] if verbose else None


class CommandLogHandler(FallbackHandler):
    """Writes log lines above the status line: in colour and with the time of day on a terminal, else with the date."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(CommandLogFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            try:
                write_line(self.format(record), sys.stderr)
            except Exception:
                self.handleError(record)


class CommandLogFormatter(logging.Formatter):
    """Formats a record as time, level, logger and message."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._screen = Screen(sys.stderr)
        self._is_terminal = sys.stderr.isatty()

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        local_time = datetime.fromtimestamp(record.created).astimezone()
        return local_time.strftime("%H:%M:%S") if self._is_terminal else local_time.isoformat(timespec="milliseconds")

    def formatMessage(self, record: logging.LogRecord) -> str:
        style = LEVEL_STYLES.get(record.levelno, "") if self._is_terminal else ""
        level = self._screen.style(record.levelname, style)
        return f"{record.asctime} {level} {record.name}: {record.message}"
