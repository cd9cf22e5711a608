"""Flags and output shared by the commands that run a node."""

from __future__ import annotations

import json
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from typing import NoReturn

from zenspark import __version__, build_kind
from zenspark.api.session import Session
from zenspark.cli.screen import Screen
from zenspark.config.config import Config
from zenspark.config.schema import MODES
from zenspark.errors import SessionClosed, UsageError

Settings = Iterable[tuple[str, object]]
"""Configuration keys and their values."""

CHECK_SECONDS = 1.0
"""Interval at which a waiting command checks that its session is open."""

CONFIGURATION_HELP = """\
The configuration file has the format of zenohd: JSON5 or YAML. Flags override the file, and --cfg overrides flags.
RUST_LOG sets the log level on standard error: error, warn, info (the default), debug."""


def add_node_flags(parser: ArgumentParser, *, mode: str | None = "peer") -> None:
    """Add the flags of every node; `mode` is the default for the help, None if it cannot be chosen."""
    add = parser.add_argument
    add("-c", "--config", metavar="FILE", help="read this configuration file")
    if mode is not None:
        add("-m", "--mode", choices=MODES, help=f"mode of the node (default: {mode})")
    add(
        "-l",
        "--listen",
        metavar="ENDPOINT",
        action="append",
        help="endpoint to listen on, e.g. tcp/0.0.0.0:7447; repeatable",
    )
    add("-e", "--connect", metavar="ENDPOINT", action="append", help="endpoint to connect to; repeatable")
    add("-i", "--id", metavar="ID", help="Zenoh id of this node in hexadecimal (default: random)")
    add(
        "--cfg",
        metavar="KEY:VALUE",
        action="append",
        default=[],
        help="set a configuration key to a JSON5 value; repeatable",
    )
    add("--no-multicast-scouting", action="store_true", help="neither send nor answer multicast scouting messages")


def build_config(given: Namespace, settings: Settings = (), mode: str | None = None) -> Config:
    """Build the configuration: file, then flags, then settings of the command, then --cfg.

    `mode` applies if neither file nor flags set one.
    """
    config = Config() if given.config is None else Config.from_file(given.config)
    if mode is not None and config.get_json("mode") == "null":
        config.insert_json5("mode", json.dumps(mode))
    for key, value in (*_flag_settings(given), *settings):
        config.insert_json5(key, json.dumps(value))
    for pair in given.cfg:
        key, colon, value = pair.partition(":")
        if not colon:
            raise UsageError(f"--cfg: expected KEY:VALUE, found {pair!r}")
        config.insert_json5(key, value)
    return config


def _flag_settings(given: Namespace) -> Iterator[tuple[str, object]]:
    """Yield the configuration keys that flags set."""
    if getattr(given, "mode", None) is not None:
        yield "mode", given.mode
    if given.id is not None:
        yield "id", given.id
    if given.listen is not None:
        yield "listen/endpoints", given.listen
    if given.connect is not None:
        yield "connect/endpoints", given.connect
    if given.no_multicast_scouting:
        yield "scouting/multicast/enabled", False


def raise_interrupt_on_signals() -> None:
    """Make SIGINT and SIGTERM raise KeyboardInterrupt."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def run_until_interrupted(session: Session) -> NoReturn:
    """Wait for KeyboardInterrupt; raises SessionClosed if the session ends unexpectedly."""
    while not session.is_closed():
        time.sleep(CHECK_SECONDS)
    raise SessionClosed("the session ended unexpectedly; see the log for the reason")


def print_node_banner(session: Session, screen: Screen, facts: Iterable[tuple[str, str]] = ()) -> None:
    """Print version, Zenoh id, listening addresses and other facts of the node."""
    known = [("id", str(session.zid())), *(("listens on", locator) for locator in session.info.locators()), *facts]
    screen.write([screen.style(f"zenspark {__version__} ({build_kind()})", "bold")])
    screen.write(f"  {screen.style(f'{name:<10}', 'cyan')} {value}" for name, value in known)
    sys.stdout.flush()
