"""Runs pytest in this process and records which lines of the sources each test runs, and how long each test takes.

    python -P tools/record_lines.py LINES SECONDS [ARGUMENT OF PYTEST ...]

`LINES` becomes a data file of coverage.py with one context for each test; what runs while tests are collected has the
empty context. `SECONDS` becomes a JSON object: seconds by test, of those that passed or were skipped. Depends on
nothing of the project, so that it can run in any directory; lines that tests run in other processes are not recorded.
"""

import json
import sys
import time
from collections.abc import Generator
from pathlib import Path

import coverage
import pytest


class Recorder:
    """A plugin of pytest: sets the context of the running test, and measures its duration."""

    def __init__(self, tracer: coverage.Coverage) -> None:
        self.tracer = tracer
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.tracer.switch_context(item.nodeid)
        start = time.perf_counter()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = round(time.perf_counter() - start, 6)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def passed(self) -> dict[str, float]:
        return {test: seconds for test, seconds in self.seconds.items() if test not in self.failed}


def main(arguments: list[str]) -> int:
    lines, seconds, *rest = arguments
    tracer = coverage.Coverage(data_file=lines, config_file=False, source=["src"], branch=False)
    tracer.set_option("run:relative_files", True)
    recorder = Recorder(tracer)
    tracer.start()
    status = pytest.main(rest, plugins=[recorder])
    tracer.stop()
    tracer.save()
    Path(seconds).write_text(json.dumps(recorder.passed(), indent=1))
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
