"""`zenspark up`: the pipeline from Zenoh to tables and back in one command."""

from __future__ import annotations

import contextlib
import socket
from argparse import Namespace
from typing import TYPE_CHECKING

from zenspark.cli import INTERRUPTED, Parser, http_flags, ingest_flags, node_flags
from zenspark.cli.argument_parser import DEFAULT_ZENOH_PORT
from zenspark.cli.log_output import start_logging
from zenspark.cli.record import add_policy_flags
from zenspark.cli.status_line import write_line
from zenspark.cli.up_settings import FILE_NAME, EffectiveSetting, apply_file, format_config, read_file
from zenspark.config.config import Config
from zenspark.journal.recorder import drop_included
from zenspark.web.settings import rest_address

if TYPE_CHECKING:
    from zenspark.storage.settings import StorageSettings

DESCRIPTION = f"""\
Run a Zenoh node that records publications, ingests them into tables with Spark, and replies to queries from them: the
newest value of a key, and with ?_time=[now(-1h)..] its history. It runs until interrupted (Ctrl-C) or terminated, and
then ingests the received samples. Started again with the same lake, it continues.

It is a router and listens on tcp/[::]:7447. With --connect and without --listen it is a client of that node instead.
Its page is on http://{http_flags.DEFAULT_ADDRESS}, or on a free port if that one is in use.

Failed ingestion is retried forever while recording continues; a log file beside the journal has the details.
The exit code is 0 if everything recorded is ingested, 3 if rows wait in the journal, and 2 if recording failed.

Lasting settings can also be keys of {FILE_NAME}, read from the current directory, or of the file that -c names:
TOML, or zenohd's JSON5 or YAML with a section plugins/zenspark. Flags override the file, and --cfg overrides flags;
--print-config shows the result. Storages of the file (plugins/storage_manager) run as well; without --key they replace
the default storage."""

UP_LAKE = "lake"


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    args, effective = _read_settings(parser().parse_args(arguments))
    rest, config = rest_address(_configuration(args))
    from zenspark.storage.settings import parse_storages  # imported here: --help works without the extra

    storages, config = parse_storages(config)
    storages += _default_storage(args, has_others=bool(storages))
    timing = ingest_flags.parse_timing(args)
    ingest_settings = {
        storage.lake: ingest_flags.parse_ingest_settings(ingest_flags.merge_file_settings(args, storage.ingest))
        for storage in reversed(storages)  # the settings of the first storage of a lake apply
        if storage.lake is not None
    }
    file_settings = next((storage.ingest for storage in storages if storage.ingest), {})
    policy = ingest_flags.parse_journal_policy(ingest_flags.merge_file_settings(args, file_settings))
    http = http_flags.parse_http(args, default=http_flags.DEFAULT_ADDRESS, rest=rest)
    node_flags.check_config(config)
    if args.print_config:
        for line in format_config(effective, config):
            write_line(line)
        return 0
    # imported here: --help and --print-config need neither Spark nor the time to load it
    from zenspark.cli.up_run import RunLoop
    from zenspark.spark.pipeline.job import Job

    start_logging(args, "warn")
    node_flags.raise_interrupt_on_signals()
    with node_flags.convert_link_error(node_flags.limit_connecting(config, args)):
        job = Job(config, storages, policy)
    try:
        with contextlib.closing(job):
            return RunLoop(job, args, ingest_settings, http).run(timing)
    except KeyboardInterrupt:  # before recording started, or while ending
        return INTERRUPTED


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark up", description=DESCRIPTION)
    node_flags.add_key_flag(argparser, "key expression to record and reply for (default: **)")
    add = argparser.add_argument
    add("--lake", metavar="PLACE", help=f"directory or URI of the tables (default: ./{UP_LAKE})")
    add(
        "--journal",
        metavar="DIR",
        help="directory of the journal (default: _journal in the lake, if that is not a URI)",
    )
    add("--complete", action="store_true", default=None, help="declare the storage as complete for its keys")
    add("--demo", action="store_true", help="run a small simulated fleet, and show tables and queries")
    add("--open", action="store_true", help="open the page in a browser, if this is the terminal of a desktop")
    add("--print-config", action="store_true", help="print the effective configuration and its origin, and end")
    node_flags.add_node_flags(argparser, mode="router; with --connect alone, client")
    http_flags.add_http_flags(argparser, default=http_flags.DEFAULT_ADDRESS)
    ingest_flags.add_ingest_flags(argparser)
    add_policy_flags(argparser, ingest_flags.JOURNAL_DEFAULTS)
    return argparser


# --- configuration --------------------------------------------------------------------------------------------------


def _read_settings(flags: Namespace) -> tuple[Namespace, dict[str, EffectiveSetting]]:
    """Merge the flags with the configuration file."""
    file = read_file(flags.config)
    args, effective = apply_file(flags, file)
    args.config = None if file is None else file.node
    args.lake = args.lake or UP_LAKE
    return args, effective


def _configuration(args: Namespace) -> Config:
    if args.connect and not args.listen:
        return node_flags.build_config(args, [("adminspace/enabled", True)], mode="client")
    settings: list[tuple[str, object]] = [("adminspace/enabled", True)]
    if args.demo:
        _check_demo()
        if not args.listen:
            settings.append(("listen/endpoints", [pick_demo_endpoint()]))
        settings.append(("scouting/multicast/enabled", False))
    return node_flags.build_config(args, settings, mode="router")


def _check_demo() -> None:
    from zenspark.cli.demo import check_pictures

    check_pictures()


def pick_demo_endpoint(port: int = DEFAULT_ZENOH_PORT) -> str:
    """Return the default port on loopback if it is free, otherwise any port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that was just closed is free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            write_line(f"port {port} is in use: the demo uses another one; --listen chooses it")
            return "tcp/127.0.0.1:0"
    return f"tcp/127.0.0.1:{port}"


def _default_storage(args: Namespace, *, has_others: bool) -> list[StorageSettings]:
    from zenspark.storage.settings import StorageSettings, journal_path, normalize_lake_path

    if has_others and not args.key:
        return []
    journal = journal_path(args.lake, args.journal)
    assert journal is not None
    return [
        StorageSettings(
            name="up",
            key_exprs=tuple(str(key) for key in drop_included(args.key or ["**"])),
            complete=bool(args.complete),
            lake=normalize_lake_path(args.lake),
            journal=journal,
        )
    ]
