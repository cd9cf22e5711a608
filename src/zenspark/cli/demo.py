"""`zenspark demo`: runs the whole pipeline with a simulated fleet of robots, and shows it on a page."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import webbrowser

from zenspark.cli import Parser, http_flags
from zenspark.errors import UsageError
from zenspark.spark.ingest.settings import DEFAULT_MASTER

DESCRIPTION = """\
Run `zenspark up` with a small simulated fleet: three robots drive in a warehouse and publish poses, pictures and
battery levels. The page is there at once; tables, replies to queries and commands to try follow when Spark has started.
It runs until interrupted (Ctrl-C) or until --for ends.

With --kill two recorders and the Spark driver are killed (kill -9) one after the other while the robots publish, and
the samples in the table are counted: nothing is lost, nothing is there twice."""

DEMO_LAKE = "zenspark-demo"
UP_OPTIONS = ("lake", "listen", "seconds", "master", "stop_timeout")
"""Options that are passed to `zenspark up`, which has them under the same name."""
FLAG_NAMES = {"seconds": "--for"}


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    args = parser().parse_args(arguments)
    check_pictures()
    if args.kill:
        from zenspark.cli import demo_kill  # imported here: only this needs it

        return demo_kill.run(args)
    from zenspark.cli import up  # imported here: --help does not need Spark

    return up.run(build_up_arguments(args))


def build_up_arguments(args: argparse.Namespace) -> list[str]:
    """Return the command line of `zenspark up`."""
    arguments = ["--demo", *([] if args.no_open else ["--open"])]
    for name in UP_OPTIONS:
        value = getattr(args, name)
        if value is not None:
            arguments += [FLAG_NAMES.get(name, "--" + name.replace("_", "-")), value]
    return arguments + http_flags.to_arguments(args)


def check_pictures() -> None:
    """Raise UsageError if the library that draws the pictures is not installed."""
    if importlib.util.find_spec("PIL") is None:
        raise UsageError("the robots of the demo take pictures: pip install 'zenspark[demo]'")


def open_page(url: str) -> bool:
    """Open the page in the browser of the desktop, if this is a terminal of one. Returns whether it was opened."""
    has_desktop = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return bool(has_desktop and sys.stdout.isatty() and webbrowser.open(url))


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark demo", description=DESCRIPTION)
    add = argparser.add_argument
    add("--kill", action="store_true", help="kill recorders and driver, and count lost and duplicated samples")
    add("--lake", metavar="DIR", default=DEMO_LAKE, help=f"directory of the tables (default: ./{DEMO_LAKE})")
    add("--for", metavar="DURATION", dest="seconds", help="end this time after Spark has started, e.g. 90s")
    add("-l", "--listen", metavar="ENDPOINT", help="endpoint to listen on (default: tcp/127.0.0.1:7447 or a free port)")
    add("--master", metavar="URL", help=f"Spark master (default: {DEFAULT_MASTER})")
    add("--stop-timeout", metavar="DURATION", help="timeout to ingest the remaining rows at the end (default: 60s)")
    add("--no-open", action="store_true", help="do not open the page in a browser")
    http_flags.add_http_flags(argparser, default=http_flags.DEFAULT_ADDRESS)
    return argparser
