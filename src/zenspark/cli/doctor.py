"""`zenspark doctor`: checks the requirements of zenspark on this machine, with advice where one is not met."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from zenspark import __version__, build_kind
from zenspark.api.open import open as open_session
from zenspark.api.session import Session
from zenspark.cli import Parser, argument_parser, log_output
from zenspark.cli.argument_parser import DEFAULT_ZENOH_PORT
from zenspark.cli.exit_codes import FAILED
from zenspark.cli.screen import Screen
from zenspark.cli.units import format_quantity
from zenspark.config.config import Config
from zenspark.errors import UsageError, ZError
from zenspark.types.sample import Sample

DESCRIPTION = """\
Check this machine: build, Java, Spark, ports, multicast, router, clock, disk and lake. Each line is ok, warn or fail,
with advice. The exit code is 2 if a check failed.

  zenspark doctor
  zenspark doctor -e tcp/192.168.0.1:7447 --lake ./lake"""

SPARK_PACKAGES = ("deltalake", "numpy", "obstore", "pandas", "pyspark")
SCOUTING_GROUP = ("224.0.0.224", 7446)
"""Multicast group of Zenoh's scouting."""
NETWORK_CHECK_TIMEOUT_SECONDS = 3.0
MIN_DISK_BYTES, LOW_DISK_BYTES = 500_000_000, 5_000_000_000
MAX_SKEW_SECONDS = 0.5
"""Maximum difference of clocks: Zenoh drops timestamps that are further ahead (`drop_future_timestamp`)."""


now = time.time
"""Clock of this machine, in seconds since 1970, which is compared with that of the router."""


class Verdict(StrEnum):
    """Result of a check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


VERDICT_STYLES = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "bold red"}


class Finding(NamedTuple):
    """Result of one check, with advice."""

    check: str
    verdict: Verdict
    text: str


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    args = parser().parse_args(arguments)
    log_output.start_logging(args, "error")
    screen = Screen()
    findings = []
    for finding in run_checks(args):
        findings.append(finding)
        if not args.json:
            verdict = screen.style(f"{finding.verdict:4}", VERDICT_STYLES[finding.verdict])
            screen.write([f"{verdict}  {finding.check:10} {finding.text}"])
            sys.stdout.flush()
    if args.json:
        print(json.dumps([finding._asdict() for finding in findings], indent=2))
    return FAILED if any(finding.verdict is Verdict.FAIL for finding in findings) else 0


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark doctor", description=DESCRIPTION)
    add = argparser.add_argument
    add(
        "-e",
        "--connect",
        metavar="ENDPOINT",
        type=argument_parser.endpoint,
        help="router that must be reachable (default: the one on the port of --port, which may be absent)",
    )
    add("--lake", metavar="PLACE", default="lake", help="directory or URI of the lake (default: ./lake)")
    add(
        "--port",
        metavar="PORT",
        type=int,
        default=DEFAULT_ZENOH_PORT,
        help=f"port to check: free, or a router listens on it (default: {DEFAULT_ZENOH_PORT})",
    )
    add("--json", action="store_true", help="print JSON")
    log_output.add_log_flags(argparser)
    return argparser


def run_checks(args: argparse.Namespace) -> Iterator[Finding]:
    """Run all checks; a check that breaks is a finding, too."""
    checks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("build", check_build),
        ("spark", check_spark),
        ("port", lambda: check_port(args.port)),
        ("multicast", check_multicast),
        ("router", lambda: check_router(args.connect, args.port)),
        ("disk", lambda: check_disk(args.lake)),
        ("lake", lambda: check_lake(args.lake)),
    ]
    for name, check in checks:
        try:
            yield from check()
        except (ZError, OSError) as error:
            yield Finding(name, Verdict.FAIL, str(error))


# --- software ---------------------------------------------------------------------------------------------------------


def check_build() -> Iterator[Finding]:
    """Check that the compiled modules are there."""
    version = f"zenspark {__version__} ({build_kind()}), Python {sys.version.split()[0]}"
    if build_kind() == "compiled":
        yield Finding("build", Verdict.OK, version)
    else:
        hint = "slower: install a wheel, or a C compiler and then `pip install --force-reinstall --no-deps zenspark`"
        yield Finding("build", Verdict.WARN, f"{version}: {hint}")


def check_spark() -> Iterator[Finding]:
    """Check the packages of the extra, and Java."""
    missing = [name for name in SPARK_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        text = f"{', '.join(missing)} missing, which up, sql and lake need: pip install 'zenspark[spark]'"
        yield Finding("spark", Verdict.WARN, text)
        return
    from importlib.metadata import version

    yield Finding("spark", Verdict.OK, f"PySpark {version('pyspark')}, deltalake {version('deltalake')}")
    from zenspark.spark.java_home import java_home, java_version

    try:
        home = java_home(os.environ)
    except UsageError as error:
        yield Finding("java", Verdict.FAIL, str(error))
        return
    yield Finding("java", Verdict.OK, f"version {java_version(home / 'bin' / 'java')}")


# --- network ----------------------------------------------------------------------------------------------------------


def check_port(port: int) -> Iterator[Finding]:
    """Check whether a node could listen on the port, or a router does."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError as error:
            problem = error.strerror
        else:
            yield Finding("port", Verdict.OK, f"{port} is free")
            return
    node = _find_node(port)
    if node is not None:
        is_router = node.startswith("router")
        hint = "" if is_router else "; choose another port with -l"
        yield Finding("port", Verdict.OK if is_router else Verdict.WARN, f"{port} is used by {node}{hint}")
    else:
        text = f"{port} cannot be listened on: {problem}, and no Zenoh node replies there; choose another port with -l"
        yield Finding("port", Verdict.WARN, text)


def _find_node(port: int) -> str | None:
    """Return role and zid of the node that listens on a port of this machine; None if none replies."""
    try:
        with _connect(_local_endpoint(port)) as session:
            return next((f"{transport.whatami} {transport.zid}" for transport in session.info.transports()), None)
    except ZError:
        return None


def _local_endpoint(port: int) -> str:
    return f"tcp/127.0.0.1:{port}"


def check_multicast() -> Iterator[Finding]:
    """Send a datagram to Zenoh's multicast group and receive it."""
    token = uuid4().bytes
    hint = "nodes are not found by scouting; name them with -e"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "SO_REUSEPORT"):
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            receiver.bind(("", 0))
            port = receiver.getsockname()[1]
            membership = struct.pack("4sl", socket.inet_aton(SCOUTING_GROUP[0]), socket.INADDR_ANY)
            receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            receiver.settimeout(NETWORK_CHECK_TIMEOUT_SECONDS)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)  # stays on this machine
                sender.sendto(token, (SCOUTING_GROUP[0], port))
            while receiver.recv(64) != token:
                pass
        except OSError as error:
            yield Finding("multicast", Verdict.WARN, f"does not work here ({error}): {hint}")
            return
    yield Finding("multicast", Verdict.OK, f"datagrams to {SCOUTING_GROUP[0]} arrive on this machine")


def check_router(endpoint: str | None, port: int = DEFAULT_ZENOH_PORT) -> Iterator[Finding]:
    """Connect to a router, by default to the one on a port of this machine; check its version and its clock."""
    address = endpoint or _local_endpoint(port)
    try:
        session = _connect(address)
    except ZError as error:
        if endpoint is None:
            yield Finding("router", Verdict.OK, f"none on {address}, and -e names none")
        else:
            yield Finding("router", Verdict.FAIL, f"{error}; is it running, and does a firewall let it through?")
        return
    with session:
        yield from _check_versions(session, address)
        yield from _check_clock(address, session)


def _connect(endpoint: str) -> Session:
    config = Config.from_json5('{mode: "client", scouting: {multicast: {enabled: false}}}')
    config.insert_json5("connect/endpoints", json.dumps([endpoint]))
    for key in ("connect/timeout_ms", "transport/unicast/open_timeout"):  # the listener may be no Zenoh node
        config.insert_json5(key, str(round(NETWORK_CHECK_TIMEOUT_SECONDS * 1000)))
    return open_session(config)


def _check_versions(session: Session, address: str) -> Iterator[Finding]:
    versions = []
    for reply in session.get("@/*/router", timeout=NETWORK_CHECK_TIMEOUT_SECONDS):
        if reply.ok is not None:
            document = json.loads(reply.ok.payload.to_bytes())
            versions.append(f"{document.get('zid', '?')} version {document.get('version', '?')}")
    if versions:
        yield Finding("router", Verdict.OK, f"{address}: {', '.join(versions)}")
    else:
        text = f"{address} is connected and does not report its version: its admin space is off (adminspace/enabled)"
        yield Finding("router", Verdict.OK, text)


def _check_clock(address: str, session: Session) -> Iterator[Finding]:
    """Compare clocks: a publication without a timestamp gets one from the router.

    The key begins with `@`, which neither `*` nor `**` matches: recorders and storages of all keys do not store it.
    """
    arrived, timestamps = threading.Event(), []

    def on_sample(sample: Sample) -> None:
        if sample.timestamp is not None:
            timestamps.append(sample.timestamp.get_time().timestamp())
        arrived.set()

    key = f"@/{session.zid()}/client/zenspark/doctor"
    with _connect(address) as second_session:
        subscriber = second_session.declare_subscriber(key, on_sample)
        publisher = session.declare_publisher(key)
        deadline = time.monotonic() + NETWORK_CHECK_TIMEOUT_SECONDS
        while not publisher.matching_status.matching and time.monotonic() < deadline:
            arrived.wait(0.01)
        sent_at = now()
        publisher.put(b"")
        arrived.wait(NETWORK_CHECK_TIMEOUT_SECONDS)
        arrived_at = now()
        subscriber.undeclare()
    if not timestamps:
        yield Finding(
            "clock", Verdict.WARN, f"{address} adds no timestamps (timestamping/enabled), so it was not compared"
        )
        return
    skew = max(sent_at - timestamps[0], timestamps[0] - arrived_at, 0.0)
    if skew > MAX_SKEW_SECONDS:
        text = f"differs by {skew:.1f} s from that of {address}: run NTP (chrony, systemd-timesyncd) on both"
        yield Finding("clock", Verdict.WARN, text)
    else:
        yield Finding("clock", Verdict.OK, f"agrees with that of {address} within {arrived_at - sent_at + skew:.3f} s")


# --- data -------------------------------------------------------------------------------------------------------------


def check_disk(lake: str) -> Iterator[Finding]:
    """Check the free space where lake and journal are."""
    directory = Path() if "://" in lake else Path(lake)
    while not directory.exists():
        directory = directory.parent
    usage = shutil.disk_usage(directory)
    text = f"{format_quantity(usage.free, 'B')} of {format_quantity(usage.total, 'B')} free at {directory.absolute()}"
    if usage.free < MIN_DISK_BYTES:
        yield Finding("disk", Verdict.FAIL, f"{text}: recording stops when it is full; see --retain-bytes")
    elif usage.free < LOW_DISK_BYTES:
        yield Finding(
            "disk", Verdict.WARN, f"{text}: limit journal and tables, see --retain-bytes, --lake-retain-bytes"
        )
    else:
        yield Finding("disk", Verdict.OK, text)


def check_lake(path: str) -> Iterator[Finding]:
    """Check that the tables can be read."""
    if importlib.util.find_spec("deltalake") is None:
        return
    from zenspark.lake.lake import Lake

    lake = Lake(path)
    if not lake.exists():
        yield Finding("lake", Verdict.OK, f"there is none at {path} yet; zenspark up makes it, --lake names another")
        return
    rows = lake.dataset("samples").count_rows()
    if "://" not in path and not os.access(path, os.W_OK):
        yield Finding("lake", Verdict.FAIL, f"{path}: {rows} samples can be read, and this user cannot write there")
        return
    yield Finding("lake", Verdict.OK, f"{path}: {rows} samples can be read, format version {lake.version}")
