"""Installs the packages of a lock file with pip, and prints the progress: `python tools/install_locked.py LOCK`.

pip prints pages of lines, or nothing with --quiet; this counts the packages.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

PIN = re.compile(r"^[A-Za-z0-9_.-]+==", re.MULTILINE)
FOUND = re.compile(r"(?:Collecting|Requirement already satisfied:) ([A-Za-z0-9_.-]+)")
"""Lines that pip prints once for each package."""
INSTALLING = "Installing collected packages"
LOG_INTERVAL = 10
"""Packages between two lines where the output is no terminal."""


def report_progress(lines: Iterable[str], total: int, *, is_terminal: bool) -> Iterator[str]:
    """Yield what to print for the lines of pip."""
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
    """Install. Returns the exit code of pip; its output is printed if it fails."""
    (lock,) = arguments
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar", "off"]
    command = [*pip, "--require-hashes", "-r", lock]
    total = len(PIN.findall(Path(lock).read_text()))
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
