"""`zenspark router`: a Zenoh router, started as zenohd is started."""

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
Run a Zenoh router until it is interrupted (Ctrl-C) or terminated. It listens on tcp/[::]:7447 unless told otherwise.

{node_flags.CONFIGURATION}"""

PERMISSIONS = {"r": (True, False), "w": (False, True), "rw": (True, True), "none": (False, False)}
"""What others may do in the admin space: read, write."""

STORAGES = "storage_manager"
"""The plugin of zenohd whose section says which storages a router has."""

REST = "offer Zenoh over HTTP on PORT of all addresses, or on ADDRESS:PORT; not by default, nor with none"


def run(arguments: list[str]) -> int:
    """Run the command; the exit code."""
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
    """A session as configured, with the storages that the configuration describes."""
    if STORAGES not in json.loads(config.get_json("plugins")):
        with open_session(config) as session:
            yield session
        return
    # here, as a router without storages needs neither the time to load this nor the packages
    from zenspark.storage.manager import StorageManager
    from zenspark.storage.settings import parse_storages

    settings, rest = parse_storages(config)
    with open_session(rest) as session, StorageManager(session, settings):
        yield session


@contextlib.contextmanager
def _serve_rest(session: Session, address: Address | None) -> Iterator[list[tuple[str, str]]]:
    """The REST interface of a session, if there is to be one; what to say of it."""
    if address is None:
        yield []
        return
    from zenspark.web.server import RestServer  # here, as a router without it does without an HTTP server

    with RestServer(session, address) as server:
        yield [("REST on", server.url)]


def _parser() -> Parser:
    parser = Parser(
        prog="zenspark router", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    node_flags.add_node_flags(parser, mode=None)
    add = parser.add_argument
    add("--no-timestamp", action="store_true", help="do not stamp publications that have no timestamp")
    add("--rest-http-port", metavar="PORT", help=REST)
    add("--adminspace-permissions", choices=PERMISSIONS, help="what others may do in the admin space (default: r)")
    return parser


def build_config(given: argparse.Namespace) -> Config:
    """The configuration that a command line means."""
    return node_flags.build_config(given, _flag_settings(given), mode="router")


def _flag_settings(given: argparse.Namespace) -> Iterator[tuple[str, object]]:
    """The keys that flags set."""
    yield "adminspace/enabled", True
    if given.adminspace_permissions is not None:
        read, write = PERMISSIONS[given.adminspace_permissions]
        yield "adminspace/permissions", {"read": read, "write": write}
    if given.rest_http_port is not None:
        yield PORT, given.rest_http_port
    if given.no_timestamp:
        yield "timestamping/enabled", False
