"""`zenspark record`: records publications under key expressions into a journal."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from zenspark.cli import Parser, argument_parser, node_flags, units
from zenspark.cli.connection_watch import ConnectionWatch
from zenspark.cli.log_output import start_logging
from zenspark.cli.screen import Screen
from zenspark.cli.status_line import (
    LOG_STATUS_INTERVAL_SECONDS,
    STATUS_INTERVAL_SECONDS,
    Part,
    StatusLine,
    stamp_parts,
)
from zenspark.cli.units import format_quantity
from zenspark.errors import UsageError
from zenspark.journal import JournalWriter, Policy, Recorder, Status
from zenspark.journal.recorder import drop_included

DESCRIPTION = f"""\
Record publications under key expressions into a journal until interrupted (Ctrl-C) or terminated; samples received
before are written. Started again with the same directory, it continues.

{node_flags.CONFIGURATION_HELP}"""

COLLECTOR_THRESHOLDS = (50_000, 20, 50)
"""Thresholds of Python's cycle collector. The caches per key are no garbage, and traversing them at the default
thresholds took a quarter of the time of recording 100,000 new keys."""


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    args = parser().parse_args(arguments)
    policy = parse_policy(args)
    node_flags.check_config(node_flags.build_config(args))
    keys = drop_included(args.key or ["**"])
    start_logging(args, "warn")
    node_flags.raise_interrupt_on_signals()
    # the journal comes second: a node that cannot be opened must not leave an empty one
    with node_flags.prepare_node(args, _build_settings(args)) as (session, connect), ExitStack() as stack:
        writer = stack.enter_context(JournalWriter(args.journal, policy, recorder=args.recorder))
        recorder = Recorder(session, keys, writer, observe=not args.no_observe)
        try:
            recorder.start()
            watch = connect()  # publishers find the subscription from the start
            gc.freeze()
            gc.set_threshold(*COLLECTOR_THRESHOLDS)
            facts = [("records", str(key)) for key in recorder.keys]
            node_flags.print_node_banner(
                session, Screen(), [*facts, ("journal", f"{args.journal} at offset {writer.end}")]
            )
            _watch(recorder, watch, args)
        except KeyboardInterrupt:
            pass
        has_failed = session.is_closed()
        began = time.monotonic()
        status = recorder.stop()
        _print_summary(status, args.journal, time.monotonic() - began)
    return 1 if status.lost or has_failed else 0


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark record", description=DESCRIPTION)
    node_flags.add_key_flag(argparser, "key expression to record (default: **)")
    add = argparser.add_argument
    add("--journal", metavar="DIR", default="journal", help="directory of the journal (default: ./journal)")
    add("--recorder", metavar="NAME", help="recorder name in the rows (default: random for a new journal)")
    add(
        "--for",
        metavar="DURATION",
        dest="seconds",
        type=argument_parser.duration,
        help="end after this time, e.g. 90s or 1h",
    )
    add("--no-observe", action="store_true", help="write no side journals: sessions, declarations, counters")
    node_flags.add_node_flags(argparser, mode=node_flags.CLIENT_OF_ONE)
    add_policy_flags(argparser)
    return argparser


def _build_settings(args: argparse.Namespace) -> list[tuple[str, object]]:
    """Return the settings of the node: it is a peer, unless file or flags have a mode, or it only connects."""
    settings = node_flags.connect_settings(args)
    has_mode = node_flags.build_config(args).get_json("mode") != "null"
    return settings or ([] if has_mode else [("mode", "peer")])


# --- the policy -------------------------------------------------------------------------------------------------------


def add_policy_flags(parser: argparse.ArgumentParser, defaults: Mapping[str, str] = MappingProxyType({})) -> None:
    """Add a flag for every field of the policy; `defaults` override those of the journal in the help."""
    group = parser.add_argument_group("journal policy (sizes such as 64MiB, durations such as 1h)")
    for field in msgspec.structs.fields(Policy):
        _, meta = _field_type(field.name)
        flag = "--" + field.name.replace("_", "-")
        if field.default is False:
            group.add_argument(flag, action="store_true", default=None, help=meta.description)
            continue
        default = defaults.get(field.name, _format_default(field.name, field.default))
        group.add_argument(flag, metavar=_metavar(field.name), help=f"{meta.description} (default: {default})")


def parse_policy(args: argparse.Namespace) -> Policy:
    """Parse the policy flags."""
    values = {field.name: getattr(args, field.name) for field in msgspec.structs.fields(Policy)}
    return Policy(**{name: _read(name, value) for name, value in values.items() if value is not None})


def describe_policy_default(name: str) -> tuple[str, str | None]:
    """Return the description of a field of the policy, and its default as text; None if there is no limit."""
    default = getattr(Policy(), name)
    return str(_field_type(name)[1].description), None if default is None else _format_default(name, default)


def check_policy_value(name: str, text: str) -> None:
    """Raise UsageError if a text is no value of a field of the policy."""
    Policy(**{name: _read(name, text)})


def _field_type(name: str) -> tuple[Any, msgspec.Meta]:
    hint = get_type_hints(Policy, include_extras=True)[name]
    plain, meta = get_args(hint)[:2]
    return plain, meta


def _metavar(name: str) -> str:
    choices = {"fsync": "never|flush|DURATION", "compression": "none|lz4|zstd"}
    return choices.get(name, _reader(name)[0] + ("|never" if _can_be_never(name) else ""))


def _can_be_never(name: str) -> bool:
    """Whether the default of a field is a limit that can be disabled."""
    plain, _ = _field_type(name)
    return type(None) in get_args(plain) and getattr(Policy(), name) is not None


def _format_default(name: str, default: object) -> str:
    if default is None:
        return "no limit"
    if name.endswith("_bytes"):
        return units.format_size(int(str(default)))
    if not isinstance(default, float):
        return str(default)
    for unit, seconds in (("d", 86_400.0), ("h", 3600.0)):
        if default >= seconds:
            return f"{default / seconds:g}{unit}"
    return f"{default:g}s"


def _reader(name: str) -> tuple[str, Callable[[str], Any]]:
    """Return metavar and parser of a field."""
    if name.endswith("_bytes"):
        return "SIZE", units.parse_size
    if name.endswith("_rows"):
        return "ROWS", units.parse_number
    plain, _ = _field_type(name)
    is_text = get_origin(plain) is not None and str in {type(choice) for choice in get_args(plain)}
    return ("TEXT", str) if is_text else ("DURATION", units.parse_duration)


def _read(name: str, value: Any) -> Any:  # noqa: ANN401 - any type of a field
    if not isinstance(value, str):
        return value
    try:
        if value == "never" and _can_be_never(name):
            return None
        if name == "fsync":
            return value if value in ("never", "flush") else units.parse_duration(value)
        return _reader(name)[1](value)
    except UsageError as error:
        raise UsageError(f"--{name.replace('_', '-')}: {error}") from None


# --- output -----------------------------------------------------------------------------------------------------------


def _watch(recorder: Recorder, connections: ConnectionWatch, args: argparse.Namespace) -> None:
    """Show the status until the time limit, or until the recorder ends."""
    ends_at = None if args.seconds is None else time.monotonic() + args.seconds
    with StatusLine(log_seconds=LOG_STATUS_INTERVAL_SECONDS, is_enabled=not args.quiet) as line:
        while recorder.is_running:
            left = (
                STATUS_INTERVAL_SECONDS if ends_at is None else min(STATUS_INTERVAL_SECONDS, ends_at - time.monotonic())
            )
            if left <= 0:
                return
            time.sleep(left)
            parts = status_parts(recorder.status(), connections.status())
            line.show(*(parts if line.is_terminal else stamp_parts(parts)))


def status_parts(status: Status, connections: Part) -> list[Part]:
    """Return the parts of the status line; a problem comes first, where a narrow terminal does not cut it off."""
    problem = status.error or status.warning
    parts = [
        (problem, "bold red") if problem else None,
        connections,
        f"{status.state}",
        f"{format_quantity(status.rate)} rows/s",
        f"{status.rows} rows",
        format_quantity(status.bytes, "B"),
        f"offset {status.offset}",
        (f"{status.lost} lost", "red") if status.lost else None,
    ]
    return [part for part in parts if part]


def _print_summary(status: Status, journal: str, seconds: float) -> None:
    size = format_quantity(status.bytes, "B")
    what = f"recorded {status.rows} rows ({size}) into {journal}, up to offset {status.offset}"
    print(f"{what}; writing the rest took {seconds:.1f} s", flush=True)
    if status.lost:
        print(f"zenspark record: {format_loss(status)}", file=sys.stderr)


def format_loss(status: Status) -> str:
    """Format the loss of rows that were received and are not in the journal."""
    line = f"lost {status.lost} received rows"
    by_neighbour = ", ".join(f"{rows} from {zid}" for zid, rows in status.dropped.items())
    parts = [part for part in (by_neighbour, status.error) if part]
    return f"{line}: {'; '.join(parts)}" if parts else line
