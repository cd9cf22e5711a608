"""Shared by every test run: reports the build that is tested, and refuses the wrong one."""

import gc
import logging
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

import zenspark
from tests.class_archive import share

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")  # the duration of an example means nothing on a machine with other load


def pytest_report_header() -> str:
    return f"zenspark {zenspark.__version__}, {zenspark.build_kind()}, {os.path.dirname(zenspark.__file__)}"


def pytest_sessionstart() -> None:
    """Set signals and environment as in tests that a developer starts in a terminal."""
    _refuse_the_wrong_build()
    share()
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.pop("COVERAGE_PROCESS_CONFIG", None)  # commands that tests start load what they load without it
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so it is in the background of a script, and in all children
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Collects no garbage while tests are collected: nearly everything made then stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leaves what was made so far out of garbage collection: `gc.collect` in a test looks at what tests made."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Lets extension modules free what they have: some print what is left at the end."""
    gc.unfreeze()


def _refuse_the_wrong_build() -> None:
    """A run meant for the compiled build must not pass by testing the interpreted one."""
    if os.environ.get("ZENSPARK_REQUIRE_COMPILED") == "1" and zenspark.build_kind() != "compiled":
        raise pytest.UsageError("ZENSPARK_REQUIRE_COMPILED=1, but zenspark is not compiled: make build")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Commands that switch logging on do so for one test: the next has another standard error."""
    logger = logging.getLogger("zenspark")
    level, handlers = logger.level, list(logger.handlers)
    yield
    logger.setLevel(level)
    logger.handlers[:] = handlers
