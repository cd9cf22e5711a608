"""`zenspark ping`: measures round-trip times to routers, to a queryable, or to a node that echoes publications."""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from zenspark.api.session import Session
from zenspark.cli import Parser, argument_parser, log_output, node_flags
from zenspark.cli.exit_codes import INCOMPLETE, OK
from zenspark.cli.status_line import write_line
from zenspark.cli.values import json_line
from zenspark.types.enums import CongestionControl
from zenspark.types.sample import Sample

DESCRIPTION = """\
Measure round-trip times.

  zenspark ping                             query the routers (their admin space)
  zenspark ping demo/version                query this selector
  zenspark ping --publish                   publish on test/ping, and wait for the echo on test/pong
  zenspark ping --echo                      send that echo: for ping --publish, and for z_ping of eclipse-zenoh

The exit code is 1 if a reply was missing."""

DEFAULT_SELECTOR = "@/*/router"
PING_KEY, PONG_KEY = "test/ping", "test/pong"
"""The keys of z_ping and z_pong of eclipse-zenoh."""

Ping = Callable[[float], bool]
"""Sends one message and waits for its echo; returns whether it arrived within the timeout in seconds."""


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark ping", description=DESCRIPTION)
    add = argparser.add_argument
    add(
        "selector",
        metavar="SELECTOR",
        nargs="?",
        type=argument_parser.selector,
        help=f"selector to query (default: {DEFAULT_SELECTOR})",
    )
    add("--publish", action="store_true", help=f"publish on {PING_KEY} and wait for {PONG_KEY}")
    add("--echo", action="store_true", help=f"publish payloads received on {PING_KEY} on {PONG_KEY}, until interrupted")
    add("-n", "--count", metavar="N", type=argument_parser.count, default=10, help="number of pings (default: 10)")
    add(
        "--period",
        metavar="DURATION",
        type=argument_parser.duration,
        default=0.1,
        help="time between pings (default: 100ms)",
    )
    add(
        "--size",
        metavar="SIZE",
        type=argument_parser.size,
        default=64,
        help="payload size of --publish in bytes (default: 64)",
    )
    add(
        "--timeout",
        metavar="DURATION",
        type=argument_parser.duration,
        default=2.0,
        help="time to wait for each reply (default: 2s)",
    )
    add("--json", action="store_true", help="print the result as a JSON object")
    node_flags.add_node_flags(argparser, mode=node_flags.CLIENT_OR_PEER)
    return argparser


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    argparser = parser()
    args = argparser.parse_args(arguments)
    if sum((args.publish, args.echo, args.selector is not None)) > 1:
        argparser.error("give one of SELECTOR, --publish and --echo")
    log_output.start_logging(args)
    return node_flags.end_on_interrupt(lambda: _run(args), is_endless=args.echo)


def _run(args: argparse.Namespace) -> int:
    with node_flags.open_node(args) as (session, _):
        if args.echo:
            _echo(session)
        ping = _publish(session, args.size) if args.publish else _query(session, args.selector or DEFAULT_SELECTOR)
        return measure(ping, args)


def measure(ping: Ping, args: argparse.Namespace) -> int:
    """Ping `args.count` times, and print each time and a summary. Returns the exit code."""
    times: list[float] = []
    for number in range(args.count):
        if number:
            time.sleep(args.period)
        started_at = time.perf_counter()
        has_reply = ping(args.timeout)
        elapsed = time.perf_counter() - started_at
        if has_reply:
            times.append(elapsed)
        if not args.json:
            write_line(f"{number + 1}: {format_milliseconds(elapsed) if has_reply else 'no reply'}")
    result = summarize(times, args.count)
    write_line(json_line(result) if args.json else format_summary(result))
    if not times and not args.quiet:
        print("no reply: is a router or queryable there, or zenspark ping --echo?", file=sys.stderr)
    return OK if len(times) == args.count else INCOMPLETE


def summarize(times: Sequence[float], count: int) -> dict[str, object]:
    """Return counts and statistics in milliseconds."""
    summary: dict[str, object] = {"sent": count, "received": len(times)}
    if times:
        milliseconds = sorted(seconds * 1000 for seconds in times)
        summary |= {
            "min_ms": round(milliseconds[0], 4),
            "median_ms": round(statistics.median(milliseconds), 4),
            "max_ms": round(milliseconds[-1], 4),
        }
    return summary


def format_summary(result: dict[str, object]) -> str:
    """Format the summary for people."""
    text = f"{result['received']} of {result['sent']} replies"
    if "min_ms" not in result:
        return text
    return f"{text}: min {result['min_ms']:.3f} ms, median {result['median_ms']:.3f} ms, max {result['max_ms']:.3f} ms"


def format_milliseconds(seconds: float) -> str:
    """Format a round-trip time, given in seconds, as milliseconds."""
    return f"{seconds * 1000:.3f} ms"


def _query(session: Session, selector: str) -> Ping:
    def ping(timeout: float) -> bool:
        return any(reply.ok is not None for reply in session.get(selector, timeout=timeout, budget=1))

    return ping


def _publish(session: Session, size: int) -> Ping:
    arrived = threading.Event()
    session.declare_subscriber(PONG_KEY, lambda _: arrived.set())
    publisher = session.declare_publisher(PING_KEY, congestion_control=CongestionControl.BLOCK, express=True)
    payload = bytes(size)

    def ping(timeout: float) -> bool:
        arrived.clear()
        publisher.put(payload)
        return arrived.wait(timeout)

    return ping


def _echo(session: Session) -> NoReturn:
    publisher = session.declare_publisher(PONG_KEY, congestion_control=CongestionControl.BLOCK, express=True)

    def echo(sample: Sample) -> None:
        publisher.put(sample.payload)

    session.declare_subscriber(PING_KEY, echo)
    write_line(f"echoing {PING_KEY} on {PONG_KEY}; Ctrl-C ends it")
    node_flags.run_until_interrupted(session)
