"""`zenspark router`: a Zenoh router, started as zenohd is started."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterator

from zenspark import __version__, build_kind
from zenspark.api.config import Config
from zenspark.api.logs import init_log_from_env_or
from zenspark.api.opening import open as open_session
from zenspark.api.session import Session
from zenspark.cli import Parser
from zenspark.cli.screen import Screen
from zenspark.errors import UsageError

DESCRIPTION = """\
Run a Zenoh router until it is interrupted (Ctrl-C) or terminated. It listens on tcp/[::]:7447 unless told otherwise.

A configuration file is one of zenohd: JSON5 or YAML. Flags count more than the file, and --cfg more than flags.
RUST_LOG says how much is logged on standard error: error, warn, info (the default), debug."""

PERMISSIONS = {"r": (True, False), "w": (False, True), "rw": (True, True), "none": (False, False)}
"""What others may do in the admin space: read, write."""

A_DAY = 86_400.0


def run(arguments: list[str]) -> int:
    """Run the command; the exit code."""
    config = configuration(_parser().parse_args(arguments))
    init_log_from_env_or("info")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        with open_session(config) as session:
            announce(session, Screen())
            while True:
                time.sleep(A_DAY)
    except KeyboardInterrupt:
        return 0


def _parser() -> Parser:
    parser = Parser(
        prog="zenspark router", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("-c", "--config", metavar="FILE", help="read this configuration file")
    add("-l", "--listen", metavar="ENDPOINT", action="append", help="listen here, e.g. tcp/0.0.0.0:7447; repeatable")
    add("-e", "--connect", metavar="ENDPOINT", action="append", help="connect to this node; repeatable")
    add("-i", "--id", metavar="ID", help="the id of this node, in hexadecimal; a random one by default")
    add("--cfg", metavar="KEY:VALUE", action="append", default=[], help="set a key to a JSON5 value; repeatable")
    add("--no-timestamp", action="store_true", help="do not stamp publications that have no timestamp")
    add("--no-multicast-scouting", action="store_true", help="do not look for others by multicast, nor answer them")
    add("--rest-http-port", metavar="PORT", help="not there yet: zenspark has no REST interface")
    add("--adminspace-permissions", choices=PERMISSIONS, help="what others may do in the admin space (default: r)")
    return parser


def configuration(given: argparse.Namespace) -> Config:
    """The configuration that a command line means."""
    if given.rest_http_port is not None:
        raise UsageError("--rest-http-port: zenspark has no REST interface yet")
    config = Config() if given.config is None else Config.from_file(given.config)
    if config.get_json("mode") == "null":
        config.insert_json5("mode", '"router"')
    for key, value in _settings(given):
        config.insert_json5(key, json.dumps(value))
    for pair in given.cfg:
        key, colon, value = pair.partition(":")
        if not colon:
            raise UsageError(f"--cfg: expected KEY:VALUE, found {pair!r}")
        config.insert_json5(key, value)
    return config


def _settings(given: argparse.Namespace) -> Iterator[tuple[str, object]]:
    """The keys that flags set."""
    yield "adminspace/enabled", True
    if given.adminspace_permissions is not None:
        read, write = PERMISSIONS[given.adminspace_permissions]
        yield "adminspace/permissions", {"read": read, "write": write}
    if given.id is not None:
        yield "id", given.id
    if given.listen is not None:
        yield "listen/endpoints", given.listen
    if given.connect is not None:
        yield "connect/endpoints", given.connect
    if given.no_timestamp:
        yield "timestamping/enabled", False
    if given.no_multicast_scouting:
        yield "scouting/multicast/enabled", False


def announce(session: Session, screen: Screen) -> None:
    """Say who is there now, and where."""
    facts = [("id", str(session.zid())), *(("listens on", locator) for locator in session.info.locators())]
    screen.write([screen.styled(f"zenspark {__version__} ({build_kind()})", "bold")])
    screen.write(f"  {screen.styled(f'{name:<10}', 'cyan')} {value}" for name, value in facts)
    sys.stdout.flush()
