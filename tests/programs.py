"""Programs of the system that tests need: installed from Debian's packages where they are absent."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest


@cache
def require_program(package: str, *other_names: str) -> str:
    """Return the path of a package's program; skip the test where it is absent and cannot be installed."""
    names = (package, *other_names)
    path = find_program(*names)
    if path is None and shutil.which("apt-get") and os.geteuid() == 0:
        with Path(tempfile.gettempdir(), "zenspark-install.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # other processes that run tests wait
            path = find_program(*names) or _install(package, names)
    if path is None:
        pytest.skip(f"{package} is not installed, and could not be: apt-get install {package}")
    return path


def find_program(*names: str) -> str | None:
    """Return the path of the first of these programs that is installed, or None."""
    return next((path for name in names if (path := shutil.which(name))), None)


def _install(package: str, names: tuple[str, ...]) -> str | None:
    install = ("apt-get", "install", "-q", "-y", "--no-install-recommends", package)
    for command in (install, ("apt-get", "update", "-q"), install):
        subprocess.run(command, capture_output=True, check=False)
        if path := find_program(*names):
            return path
    return None
