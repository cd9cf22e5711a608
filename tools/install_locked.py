"""Installs the packages of a lock file: `python tools/install_locked.py LOCK`.

uv does it, in the version that the lock names and with its hashes: it takes a fraction of pip's processor time. Where
uv cannot be installed, or fails, for example because only pip is configured for the registry of the machine, pip
installs the same packages. pip prints pages of lines, or nothing with --quiet; this counts the packages.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

PIN = re.compile(r"^[A-Za-z0-9_.-]+==", re.MULTILINE)
UV_ENTRY = re.compile(r"^uv==.*\n(?:[ \t]+--hash=.*\n)*", re.MULTILINE)
"""The version of uv in a lock file, with the lines of its hashes."""
FOUND = re.compile(r"(?:Collecting|Requirement already satisfied:) ([A-Za-z0-9_.-]+)")
"""Lines that pip prints once for each package."""
INSTALLING = "Installing collected packages"
LOG_INTERVAL = 10
"""Packages between two lines where the output is no terminal."""
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--require-hashes"]
UV = [sys.executable, "-m", "uv", "pip", "install", "--require-hashes", "--python", sys.executable]


def install_with_uv(lock: Path) -> bool:
    """Install with uv; returns whether that succeeded. Its progress is shown on a terminal only."""
    is_terminal = sys.stdout.isatty()
    if not is_uv_installed(lock):
        return False
    command = [*UV, *([] if is_terminal else ["--quiet"]), "-r", str(lock)]
    run = subprocess.run(command, stderr=None if is_terminal else subprocess.PIPE, text=True, check=False)
    if run.returncode:
        print(f"setup: uv failed, pip installs the packages: {run.stderr or ''}", flush=True)
    return run.returncode == 0


def is_uv_installed(lock: Path) -> bool:
    """Install uv in the version of the lock file; returns whether it is there."""
    entry = UV_ENTRY.search(lock.read_text())
    if entry is None:
        return False
    with tempfile.TemporaryDirectory() as directory:
        only = Path(directory, "uv.lock")
        only.write_text(entry[0])
        return (
            subprocess.run([*PIP, "--quiet", "-r", str(only)], stderr=subprocess.DEVNULL, check=False).returncode == 0
        )


def install_with_pip(lock: Path) -> int:
    """Install with pip. Returns its exit code; its output is printed if it fails."""
    command = [*PIP, "--progress-bar", "off", "-r", str(lock)]
    total = len(PIN.findall(lock.read_text()))
    output: list[str] = []

    def keep(lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            output.append(line)
            yield line

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for text in report_progress(keep(process.stdout), total, is_terminal=sys.stdout.isatty()):
            print(text, end="", flush=True)
    if process.returncode:
        print("".join(output), file=sys.stderr)
    elif sys.stdout.isatty():
        print("\r\x1b[K", end="", flush=True)
    return process.returncode


def report_progress(lines: Iterable[str], total: int, *, is_terminal: bool) -> Iterator[str]:
    """Yield the texts to print while pip prints these lines."""
    found = 0
    for line in lines:
        package = FOUND.match(line)
        if package is not None:
            found += 1
            text = f"setup: package {min(found, total)} of at most {total}"
            if is_terminal:
                yield f"\r\x1b[K{text}: {package[1]}"
            elif found % LOG_INTERVAL == 0:
                yield f"{text}\n"
        elif line.startswith(INSTALLING):
            yield ("\r\x1b[K" if is_terminal else "") + "setup: installing the packages\n"


def main(arguments: list[str]) -> int:
    """Install. Returns the exit code of the installer."""
    (lock,) = map(Path, arguments)
    return 0 if install_with_uv(lock) else install_with_pip(lock)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
