"""Makes a SPARK_HOME whose Python workers import the installed PySpark, with its bytecode.

Spark puts `python/lib/pyspark.zip` of its home first on the path of every Python worker. That archive has no bytecode,
so each worker that is started compiles PySpark again. The home made here has the programs and the jars of the
installed PySpark and no archive: a worker imports the package that its own Python has.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from zenspark.spark.java_home import cache_directory

LINKED_DIRECTORIES = ("bin", "jars")
"""Directories of a Spark installation that are needed to start Spark; the home has links to them."""


def spark_home(environ: Mapping[str, str], package: Path, cache: Path | None = None) -> Path | None:
    """Return the SPARK_HOME for the PySpark in `package`; None if that has no Spark, or SPARK_HOME is set."""
    if environ.get("SPARK_HOME") or not all((package / name).is_dir() for name in LINKED_DIRECTORIES):
        return None
    name = f"spark-{hashlib.sha256(str(package).encode()).hexdigest()[:16]}"
    try:
        return _make_home((cache or cache_directory(environ)) / name, package)
    except OSError:  # the home directory is not writable, as of a service account
        return None


def _make_home(home: Path, package: Path) -> Path:
    if not home.is_dir():
        home.parent.mkdir(parents=True, exist_ok=True)
        # filled under another name and renamed: a concurrent process must not use half of it
        temporary = Path(tempfile.mkdtemp(dir=home.parent))
        for name in LINKED_DIRECTORIES:
            (temporary / name).symlink_to(package / name)
        try:
            temporary.rename(home)
        except OSError:  # a concurrent process made it
            shutil.rmtree(temporary)
    return home
