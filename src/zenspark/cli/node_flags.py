"""What the commands that run a node share: the flags that say where it stands, and what it says of itself."""

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
"""Keys of the configuration, and their values."""

CHECK_SECONDS = 1.0
"""How often a command that only waits looks whether its session is still open."""

CONFIGURATION_HELP = """\
A configuration file is one of zenohd: JSON5 or YAML. Flags count more than the file, and --cfg more than flags.
RUST_LOG says how much is logged on standard error: error, warn, info (the default), debug."""


def add_node_flags(parser: ArgumentParser, *, mode: str | None = "peer") -> None:
    """The flags that every node has; `mode` is what it is by default, None if it cannot be chosen."""
    add = parser.add_argument
    add("-c", "--config", metavar="FILE", help="read this configuration file")
    if mode is not None:
        add("-m", "--mode", choices=MODES, help=f"what the node is (default: {mode})")
    add("-l", "--listen", metavar="ENDPOINT", action="append", help="listen here, e.g. tcp/0.0.0.0:7447; repeatable")
    add("-e", "--connect", metavar="ENDPOINT", action="append", help="connect to this node; repeatable")
    add("-i", "--id", metavar="ID", help="the id of this node, in hexadecimal; a random one by default")
    add("--cfg", metavar="KEY:VALUE", action="append", default=[], help="set a key to a JSON5 value; repeatable")
    add("--no-multicast-scouting", action="store_true", help="do not look for others by multicast, nor answer them")


def build_config(given: Namespace, settings: Settings = (), mode: str | None = None) -> Config:
    """The configuration that a command line means: the file, flags, settings of the command, --cfg.

    `mode` counts where neither file nor flags say one.
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
    """The keys that flags set."""
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
    """Ctrl-C and being terminated both raise KeyboardInterrupt."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def run_until_interrupted(session: Session) -> NoReturn:
    """Wait for KeyboardInterrupt; SessionClosed if the session ends without having been asked to."""
    while not session.is_closed():
        time.sleep(CHECK_SECONDS)
    raise SessionClosed("the session ended unexpectedly; the log has the reason")


def print_node_banner(session: Session, screen: Screen, facts: Iterable[tuple[str, str]] = ()) -> None:
    """Say who is there now, and where."""
    known = [("id", str(session.zid())), *(("listens on", locator) for locator in session.info.locators()), *facts]
    screen.write([screen.styled(f"zenspark {__version__} ({build_kind()})", "bold")])
    screen.write(f"  {screen.styled(f'{name:<10}', 'cyan')} {value}" for name, value in known)
    sys.stdout.flush()
