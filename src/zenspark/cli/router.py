"""`zenspark router`: a Zenoh router with the flags of zenohd."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterator

from zenspark.api.log_filter import init_log_from_env_or
from zenspark.api.open import open as open_session
from zenspark.api.session import Session
from zenspark.cli import Parser, node_flags
from zenspark.cli.screen import Screen
from zenspark.config.config import Config
from zenspark.web.settings import PORT, Address, rest_address

DESCRIPTION = f"""\
Run a Zenoh router until it is interrupted (Ctrl-C) or terminated. It listens on tcp/[::]:7447 by default.

{node_flags.CONFIGURATION_HELP}"""

PERMISSIONS = {"r": (True, False), "w": (False, True), "rw": (True, True), "none": (False, False)}
"""Permissions of remote nodes in the admin space: read, write."""

STORAGES = "storage_manager"
"""The zenohd plugin whose configuration section defines the storages."""

REST = "serve the REST API on PORT of all addresses, or on ADDRESS:PORT; none disables it (default: none)"


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    address, config = rest_address(build_config(_parser().parse_args(arguments)))
    init_log_from_env_or("info")
    node_flags.raise_interrupt_on_signals()
    try:
        with _open(config) as session, _serve_rest(session, address) as facts:
            node_flags.print_node_banner(session, Screen(), facts)
            node_flags.run_until_interrupted(session)
    except KeyboardInterrupt:
        return 0


@contextlib.contextmanager
def _open(config: Config) -> Iterator[Session]:
    """Open a session with the storages of the configuration."""
    if STORAGES not in json.loads(config.get_json("plugins")):
        with open_session(config) as session:
            yield session
        return
    # imported here: a router without storages needs neither these packages nor the time to load them
    from zenspark.storage.manager import StorageManager
    from zenspark.storage.settings import parse_storages

    settings, rest = parse_storages(config)
    with open_session(rest) as session, StorageManager(session, settings):
        yield session


@contextlib.contextmanager
def _serve_rest(session: Session, address: Address | None) -> Iterator[list[tuple[str, str]]]:
    """Serve the REST API, if configured. Yields the facts for the banner."""
    if address is None:
        yield []
        return
    from zenspark.web.server import RestServer  # imported here: a router without REST needs no HTTP server

    with RestServer(session, address) as server:
        yield [("REST on", server.url)]


def _parser() -> Parser:
    parser = Parser(
        prog="zenspark router", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    node_flags.add_node_flags(parser, mode=None)
    add = parser.add_argument
    add("--no-timestamp", action="store_true", help="do not add timestamps to publications without one")
    add("--rest-http-port", metavar="PORT", help=REST)
    add(
        "--adminspace-permissions",
        choices=PERMISSIONS,
        help="permissions of remote nodes in the admin space (default: r)",
    )
    return parser


def build_config(given: argparse.Namespace) -> Config:
    """Build the configuration from the command line."""
    return node_flags.build_config(given, _flag_settings(given), mode="router")


def _flag_settings(given: argparse.Namespace) -> Iterator[tuple[str, object]]:
    """Yield the configuration keys that flags set."""
    yield "adminspace/enabled", True
    if given.adminspace_permissions is not None:
        read, write = PERMISSIONS[given.adminspace_permissions]
        yield "adminspace/permissions", {"read": read, "write": write}
    if given.rest_http_port is not None:
        yield PORT, given.rest_http_port
    if given.no_timestamp:
        yield "timestamping/enabled", False
