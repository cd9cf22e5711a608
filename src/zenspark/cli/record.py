"""`zenspark record`: records publications under key expressions into a journal."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from zenspark.api.log_filter import init_log_from_env_or
from zenspark.api.open import open as open_session
from zenspark.cli import Parser, node_flags, units
from zenspark.cli.screen import Screen
from zenspark.cli.units import format_quantity
from zenspark.errors import UsageError
from zenspark.journal import JournalWriter, Policy, Recorder, Status
from zenspark.journal.recorder import drop_included

DESCRIPTION = f"""\
Record publications under key expressions into a journal until interrupted (Ctrl-C) or terminated; samples received
before are written. Started again with the same directory, it continues.

{node_flags.CONFIGURATION_HELP}"""

STATUS_SECONDS = 1.0
"""Interval of the status line on a terminal."""
COLLECTOR_THRESHOLDS = (50_000, 20, 50)
"""Thresholds of Python's cycle collector. The caches per key are no garbage, and traversing them at the default
thresholds took a quarter of the time of recording 100,000 new keys."""


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    given = _parser().parse_args(arguments)
    config = node_flags.build_config(given)
    policy = parse_policy(given)
    keys = drop_included(given.key or ["**"])
    init_log_from_env_or("info")
    node_flags.raise_interrupt_on_signals()
    with JournalWriter(given.journal, policy, recorder=given.recorder) as writer, open_session(config) as session:
        recorder = Recorder(session, keys, writer, observe=not given.no_observe)
        try:
            recorder.start()
            gc.freeze()
            gc.set_threshold(*COLLECTOR_THRESHOLDS)
            facts = [("records", str(key)) for key in recorder.keys]
            node_flags.print_node_banner(
                session, Screen(), [*facts, ("journal", f"{given.journal} at offset {writer.end}")]
            )
            _watch(recorder, given.seconds)
        except KeyboardInterrupt:
            pass
        has_failed = session.is_closed()
        began = time.monotonic()
        status = recorder.stop()
        _print_summary(status, given.journal, time.monotonic() - began)
    return 1 if status.lost or has_failed else 0


def _parser() -> Parser:
    parser = Parser(
        prog="zenspark record", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--key", metavar="KEYEXPR", action="append", help="key expression to record; repeatable (default: **)")
    add("--journal", metavar="DIR", default="journal", help="directory of the journal (default: ./journal)")
    add("--recorder", metavar="NAME", help="recorder name in the rows (default: random for a new journal)")
    add("--for", metavar="DURATION", dest="seconds", help="end after this time, e.g. 90s or 1h")
    add("--no-observe", action="store_true", help="do not record sessions and declarations of the network")
    node_flags.add_node_flags(parser)
    add_policy_flags(parser)
    return parser


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
        default = defaults.get(field.name, _format_default(field.default))
        group.add_argument(flag, metavar=_metavar(field.name), help=f"{meta.description} (default: {default})")


def parse_policy(given: argparse.Namespace) -> Policy:
    """Parse the policy flags."""
    values = {field.name: getattr(given, field.name) for field in msgspec.structs.fields(Policy)}
    return Policy(**{name: _read(name, value) for name, value in values.items() if value is not None})


def _field_type(name: str) -> tuple[Any, msgspec.Meta]:
    hint = get_type_hints(Policy, include_extras=True)[name]
    plain, meta = get_args(hint)[:2]
    return plain, meta


def _metavar(name: str) -> str:
    known = {"fsync": "never|flush|DURATION", "compression": "none|lz4|zstd"}
    return known.get(name, _reader(name)[0] + ("|never" if _can_be_never(name) else ""))


def _can_be_never(name: str) -> bool:
    """Whether the default of a field is a limit that can be disabled."""
    plain, _ = _field_type(name)
    return type(None) in get_args(plain) and getattr(Policy(), name) is not None


def _format_default(default: object) -> str:
    if default is None:
        return "no limit"
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
    is_text = get_origin(plain) is not None and str in {type(one) for one in get_args(plain)}
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


def _watch(recorder: Recorder, limit: str | None) -> None:
    """Print the status until the time limit, or until the recorder ends."""
    ends_at = None if limit is None else time.monotonic() + units.parse_duration(limit)
    is_terminal = sys.stdout.isatty()
    while recorder.is_running:
        left = STATUS_SECONDS if ends_at is None else min(STATUS_SECONDS, ends_at - time.monotonic())
        if left <= 0:
            return
        time.sleep(left)
        if is_terminal:
            print(f"\r\x1b[K{format_status(recorder.status())}", end="", flush=True)


def format_status(status: Status) -> str:
    """Format the recorder status as one line."""
    rate, size = format_quantity(status.rate), format_quantity(status.bytes, "B")
    what = f"{status.state}: {rate} rows/s, {status.rows} rows, {size}"
    lost = f", {status.lost} lost" if status.lost else ""
    problem = status.error or status.warning
    return f"{what}, offset {status.offset}{lost}" + (f" ({problem})" if problem else "")


def _print_summary(status: Status, journal: str, seconds: float) -> None:
    start = "\n" if sys.stdout.isatty() else ""
    size = format_quantity(status.bytes, "B")
    what = f"recorded {status.rows} rows ({size}) into {journal}, up to offset {status.offset}"
    print(f"{start}{what}; writing the rest took {seconds:.1f} s", flush=True)
    if status.lost:
        print(f"zenspark record: {format_loss(status)}", file=sys.stderr)


def format_loss(status: Status) -> str:
    """Format the loss of rows that were received and are not in the journal."""
    line = f"{status.lost} rows were received and could not be written"
    by_neighbour = ", ".join(f"{rows} from {zid}" for zid, rows in status.dropped.items())
    parts = [part for part in (by_neighbour, status.error) if part]
    return f"{line} ({'; '.join(parts)})" if parts else line
