"""What every test run shares: it says which build it tests, and refuses the wrong one."""

import os

import pytest

import zenspark


def pytest_report_header() -> str:
    return f"zenspark {zenspark.__version__}, {zenspark.build_kind()}, {os.path.dirname(zenspark.__file__)}"


def pytest_sessionstart() -> None:
    """A run meant for the compiled build must not pass by testing the interpreted one."""
    if os.environ.get("ZENSPARK_REQUIRE_COMPILED") == "1" and zenspark.build_kind() != "compiled":
        raise pytest.UsageError("ZENSPARK_REQUIRE_COMPILED=1, but zenspark is not compiled: make build")
