"""Programs of users in processes of their own, each with a configuration for the router in its first argument."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from tests.wait import TIMEOUT_SECONDS

PROGRAM = """
import json, os, sys
import zenspark
config = zenspark.Config()
config.insert_json5("mode", '"client"')
config.insert_json5("connect/endpoints", json.dumps([sys.argv[1]]))
config.insert_json5("scouting/multicast/enabled", "false")
"""


def run(program: str, *arguments: str) -> str:
    """Run a program after PROGRAM in a process of its own; returns its output."""
    command = [sys.executable, "-c", PROGRAM + textwrap.dedent(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=6 * TIMEOUT_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
