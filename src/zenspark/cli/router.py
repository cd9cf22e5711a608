"""`zenspark router`: a Zenoh router with the flags of zenohd."""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from zenspark.api.open import SessionOpener
from zenspark.api.open import open as open_session
from zenspark.api.session import Session
from zenspark.cli import Parser, http_flags, node_flags
from zenspark.cli.connection_watch import ConnectionWatch
from zenspark.cli.log_output import start_logging
from zenspark.cli.screen import Screen
from zenspark.cli.status_line import STATUS_INTERVAL_SECONDS, Part, StatusLine
from zenspark.config.config import Config
from zenspark.errors import SessionClosed
from zenspark.web.settings import PORT, rest_address

if TYPE_CHECKING:
    from zenspark.web.protocols import SqlEngine

DESCRIPTION = f"""\
Run a Zenoh router until it is interrupted (Ctrl-C) or terminated. It listens on tcp/[::]:7447 by default.

{node_flags.CONFIGURATION_HELP}"""

PERMISSIONS = {"r": (True, False), "w": (False, True), "rw": (True, True), "none": (False, False)}
"""Permissions of remote nodes in the admin space: read, write."""

STORAGES = "storage_manager"
"""The zenohd plugin whose configuration section defines the storages."""


REST_HELP = "serve zenohd's REST API on PORT of all addresses, or on ADDRESS:PORT; none disables it (default: none)"


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    args = parser().parse_args(arguments)
    rest, config = rest_address(build_config(args))
    http = http_flags.parse_http(args, default=None, rest=rest)
    start_logging(args, "info")
    node_flags.raise_interrupt_on_signals()
    try:
        with (
            _open(config) as (session, storages, sql),
            http_flags.serve_http(session, http, sql=sql) as served,
            ConnectionWatch(session) as watch,
        ):
            if args.require_connection:
                watch.require(args.connect_timeout)
            node_flags.print_node_banner(session, Screen(), [*served.facts, *storages])
            _run_until_interrupted(session, watch, args)
    except KeyboardInterrupt:
        return 0


def _run_until_interrupted(session: Session, watch: ConnectionWatch, args: argparse.Namespace) -> NoReturn:
    """Show the status on a terminal; raises SessionClosed if the session ends unexpectedly."""
    with StatusLine(is_enabled=not args.quiet) as line:
        while not session.is_closed():
            line.show(*status_parts(session, watch))
            time.sleep(STATUS_INTERVAL_SECONDS)
    raise SessionClosed("the session ended unexpectedly; see the log for the reason")


def status_parts(session: Session, watch: ConnectionWatch) -> list[Part]:
    """Return the parts of the status line."""
    received = sum(counters.received for counters in session.info.link_counters())
    return [watch.status(), f"{received} messages received"]


@contextlib.contextmanager
def _open(config: Config) -> Iterator[tuple[Session, list[tuple[str, str]], SqlEngine | None]]:
    """Open a session with the storages of the configuration. Yields facts of the storages for the banner, too."""
    if STORAGES not in json.loads(config.get_json("plugins")):
        with open_session(config) as session:
            yield session, [], None
        return
    # imported here: a router without storages needs neither these packages nor the time to load them
    from zenspark.lake.lake import Lake
    from zenspark.sql.engine import Engine
    from zenspark.storage.manager import StorageManager
    from zenspark.storage.settings import parse_storages

    settings, rest = parse_storages(config)
    lake = next((storage.lake for storage in settings if storage.lake is not None), None)
    facts = [
        ("storage", f"{storage.name}: {', '.join(storage.key_exprs)} in {storage.lake or storage.journal}")
        for storage in settings
    ]
    opener = SessionOpener(rest, None)
    with opener.prepare() as session, StorageManager(session, settings):
        opener.finish()  # publishers find the subscriptions of the storages from the start
        yield session, facts, None if lake is None else Engine(Lake(lake))


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark router", description=DESCRIPTION)
    node_flags.add_node_flags(argparser, mode=None)
    add = argparser.add_argument
    add("--no-timestamp", action="store_true", help="do not add timestamps to publications without one")
    add("--rest-http-port", metavar="PORT", help=REST_HELP)
    add(
        "--adminspace-permissions",
        choices=PERMISSIONS,
        help="permissions of remote nodes in the admin space (default: r)",
    )
    http_flags.add_http_flags(argparser, default=None)
    return argparser


def build_config(args: argparse.Namespace) -> Config:
    """Build the configuration from the command line."""
    return node_flags.build_config(args, _flag_settings(args), mode="router")


def _flag_settings(args: argparse.Namespace) -> Iterator[tuple[str, object]]:
    """Yield the configuration keys that flags set."""
    yield "adminspace/enabled", True
    if args.adminspace_permissions is not None:
        read, write = PERMISSIONS[args.adminspace_permissions]
        yield "adminspace/permissions", {"read": read, "write": write}
    if args.rest_http_port is not None:
        yield PORT, args.rest_http_port
    if args.no_timestamp:
        yield "timestamping/enabled", False
