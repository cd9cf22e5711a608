"""Flags and output shared by the commands that run a node: the same flags everywhere."""

from __future__ import annotations

import json
import logging
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from copy import copy
from typing import NoReturn

from zenspark import __version__, build_kind
from zenspark.api.open import SessionOpener
from zenspark.api.session import Session
from zenspark.cli import argument_parser, log_output
from zenspark.cli.connection_watch import ConnectionWatch, to_command_error
from zenspark.cli.exit_codes import NOT_CONNECTED, OK
from zenspark.cli.interrupts import raise_interrupt
from zenspark.cli.screen import Screen
from zenspark.config.config import Config
from zenspark.config.schema import MODES
from zenspark.errors import LinkError, SessionClosed, UsageError

Settings = Iterable[tuple[str, object]]
"""Configuration keys and their values."""

SESSION_CHECK_INTERVAL_SECONDS = 1.0
"""Seconds between two checks of a waiting command that its session is open."""

CONFIGURATION_HELP = """\
The configuration file has the format of zenohd: JSON5 or YAML. Flags override the file, and --cfg overrides flags.
ZENSPARK_LOG or RUST_LOG set the log level on standard error, as --log-level does."""

FLAG_KEYS = {"mode": "mode", "id": "id", "listen": "listen/endpoints", "connect": "connect/endpoints"}
"""Flags, and the configuration keys that they set."""
CLIENT_OR_PEER = "peer; with --connect alone, client"
"""Default mode of the commands that do one thing and end."""
CLIENT_OF_ONE = "peer; with one --connect and no --listen, client"
"""Default mode of the commands with `connect_settings`."""
CONNECT_TIMEOUT_SECONDS = 10.0
"""Default timeout of --require-connection, in seconds."""


def add_node_flags(parser: ArgumentParser, *, mode: str | None = "peer") -> None:
    """Add the flags of every node; `mode` is the default for the help, None if it cannot be chosen."""
    group = parser.add_argument_group("node")
    add = group.add_argument
    add("-c", "--config", metavar="FILE", help="read this configuration file")
    if mode is not None:
        add("-m", "--mode", choices=MODES, help=f"mode of the node (default: {mode})")
    add(
        "-l",
        "--listen",
        metavar="ENDPOINT",
        action="append",
        type=argument_parser.endpoint,
        help="endpoint to listen on, e.g. tcp/0.0.0.0:7447; repeatable",
    )
    add(
        "-e",
        "--connect",
        metavar="ENDPOINT",
        action="append",
        type=argument_parser.endpoint,
        help="endpoint to connect to, e.g. tcp/127.0.0.1:7447; repeatable",
    )
    add("-i", "--id", metavar="ID", help="zid of this node in hexadecimal (default: random)")
    add(
        "--cfg",
        metavar="KEY:VALUE",
        action="append",
        default=[],
        help="set a configuration key to a JSON5 value; repeatable",
    )
    add(
        "--no-multicast-scouting",
        action="store_true",
        help="neither send multicast scouting messages nor reply to them",
    )
    add(
        "--require-connection",
        action="store_true",
        help=f"exit with code {NOT_CONNECTED} unless every endpoint of --connect is connected within "
        "--connect-timeout; without --connect, unless any node is",
    )
    add(
        "--connect-timeout",
        metavar="DURATION",
        type=argument_parser.duration,
        default=CONNECT_TIMEOUT_SECONDS,
        help="time limit of --require-connection (default: 10s)",
    )
    log_output.add_log_flags(parser)


def add_key_flag(parser: ArgumentParser, help: str) -> None:
    """Add -k, --key: key expressions, repeatable."""
    parser.add_argument(
        "-k", "--key", metavar="KEYEXPR", action="append", type=argument_parser.key_expr, help=f"{help}; repeatable"
    )


@contextmanager
def open_node(args: Namespace, settings: Settings = ()) -> Iterator[tuple[Session, ConnectionWatch]]:
    """Open the session of a command and watch its connections, as the flags configure it.

    Without a mode in file, flags or settings, the node is a client if it only connects, and a peer otherwise. Raises
    CommandError if it is not connected and has to be.
    """
    with prepare_node(args, settings) as (session, start):
        yield session, start()


@contextmanager
def prepare_node(args: Namespace, settings: Settings = ()) -> Iterator[tuple[Session, Callable[[], ConnectionWatch]]]:
    """Make the session of a command like `open_node`; others reach it after the yielded function was called.

    A command that must not lose publications declares its subscribers in between. With --require-connection the session
    is connected at once: without the connection the command makes nothing.
    """
    config = build_config(args, settings)
    if config.get_json("mode") == "null" and args.connect and not args.listen:
        config.insert_json5("mode", '"client"')
    limit = limit_connecting(config, args)
    with convert_link_error(limit):
        opener = SessionOpener(config, None)
        session = opener.prepare()
    with session, ExitStack() as stack:

        def start() -> ConnectionWatch:
            with convert_link_error(limit):
                opener.finish()
            watch = stack.enter_context(ConnectionWatch(session))
            if args.require_connection:
                watch.require(args.connect_timeout)
            return watch

        watch = start() if args.require_connection else None
        yield session, (start if watch is None else lambda: watch)


def connect_settings(args: Namespace) -> list[tuple[str, object]]:
    """Return the settings of a node that others cannot reach if it only connects: neither file nor flags have a mode or
    an endpoint to listen on. Such a node is a client; with several endpoints a peer, as a client would have one only.
    """
    config = build_config(args)
    is_listening = config.get_json("listen/endpoints") != Config().get_json("listen/endpoints")
    if not args.connect or is_listening or config.get_json("mode") != "null":
        return []
    return [("mode", "client")] if len(args.connect) == 1 else [("mode", "peer"), ("listen/endpoints", [])]


def limit_connecting(config: Config, args: Namespace) -> float | None:
    """Set the time limit of a client that must be connected. Returns the seconds; None if there is no limit."""
    if not args.require_connection or config.get_json("mode") != '"client"':
        return None
    config.insert_json5("connect/timeout_ms", str(round(args.connect_timeout * 1000)))
    return float(args.connect_timeout)


@contextmanager
def convert_link_error(seconds: float | None = None) -> Iterator[None]:
    """Open a session in this context: an endpoint that cannot be reached is a CommandError; `seconds` is the limit."""
    try:
        yield
    except LinkError as error:
        raise to_command_error(error, seconds) from error


def build_config(args: Namespace, settings: Settings = (), mode: str | None = None) -> Config:
    """Build the configuration: file, then flags, then settings of the command, then --cfg.

    `mode` applies if neither file nor flags set one. `args.config` is the name of the file, or the configuration read
    from it.
    """
    if isinstance(args.config, Config):
        config = copy(args.config)
    else:
        config = Config() if args.config is None else Config.from_file(args.config)
    if mode is not None and config.get_json("mode") == "null":
        config.insert_json5("mode", json.dumps(mode))
    for key, value in (*_flag_settings(args), *settings):
        config.insert_json5(key, json.dumps(value))
    for pair in args.cfg:
        key, colon, value = pair.partition(":")
        if not colon:
            raise UsageError(f"--cfg: expected KEY:VALUE, found {pair!r}")
        config.insert_json5(key, value)
    return config


def check_config(config: Config) -> None:
    """Raise if a value of the configuration is wrong; warnings are left to the session that is opened with it."""
    logging.disable(logging.WARNING)
    try:
        config.settings()
    finally:
        logging.disable(logging.NOTSET)


def _flag_settings(args: Namespace) -> Iterator[tuple[str, object]]:
    """Yield the configuration keys that flags set; a command need not have all of them."""
    for flag, key in FLAG_KEYS.items():
        value = getattr(args, flag, None)
        if value is not None:
            yield key, value
    if getattr(args, "no_multicast_scouting", False):
        yield "scouting/multicast/enabled", False


def raise_interrupt_on_signals() -> None:
    """Make SIGINT and SIGTERM raise KeyboardInterrupt; to be called in the main thread."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, raise_interrupt)


def end_on_interrupt(command: Callable[[], int], *, is_endless: bool) -> int:
    """Run a command; SIGINT and SIGTERM end it with exit code 0 if it has no end of its own, at any moment."""
    raise_interrupt_on_signals()
    try:
        return command()
    except KeyboardInterrupt:
        if is_endless:
            return OK
        raise


def run_until_interrupted(session: Session) -> NoReturn:
    """Wait for KeyboardInterrupt; raises SessionClosed if the session ends unexpectedly."""
    while not session.is_closed():
        time.sleep(SESSION_CHECK_INTERVAL_SECONDS)
    raise SessionClosed("the session ended unexpectedly; see the log for the reason")


def print_node_banner(session: Session, screen: Screen, facts: Iterable[tuple[str, str]] = ()) -> None:
    """Print version, zid, listening addresses and other facts of the node."""
    lines = [("id", str(session.zid())), *(("listens on", locator) for locator in session.info.locators()), *facts]
    screen.write([screen.style(f"zenspark {__version__} ({build_kind()})", "bold")])
    screen.write(f"  {screen.style(f'{name:<10}', 'cyan')} {value}" for name, value in lines)
    sys.stdout.flush()
