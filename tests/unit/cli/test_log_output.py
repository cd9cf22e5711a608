import logging
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

import pytest

from tests.unit.cli.terminals import use_terminal
from zenspark.cli.log_output import CommandLogHandler, add_log_flags, log_level, start_logging
from zenspark.cli.status_line import CLEAR, StatusLine


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Levels and handlers are as before when a test ends."""
    monkeypatch.delenv("RUST_LOG", raising=False)
    monkeypatch.delenv("ZENSPARK_LOG", raising=False)
    loggers = [logging.getLogger(name) for name in ("zenspark", "zenspark.handlers")]
    before = [(logger, logger.level, list(logger.handlers)) for logger in loggers]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


def given(*arguments: str) -> Namespace:
    parser = ArgumentParser()
    add_log_flags(parser)
    return parser.parse_args(arguments)


@pytest.mark.parametrize(
    ("arguments", "level"),
    [
        ([], None),
        (["-q"], "error"),
        (["-v"], "info"),
        (["-vv"], "debug"),
        (["-vvv"], "debug"),
        (["-q", "--log-level", "trace"], "trace"),
    ],
)
def test_flags_set_the_level(arguments: list[str], level: str | None) -> None:
    assert log_level(given(*arguments)) == level


def test_flags_before_zenspark_log_before_rust_log_before_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("zenspark")
    start_logging(given(), "error")
    assert logger.level == logging.ERROR
    monkeypatch.setenv("RUST_LOG", "info")
    start_logging(given(), "error")
    assert logger.level == logging.INFO
    monkeypatch.setenv("ZENSPARK_LOG", "debug")
    start_logging(given(), "error")
    assert logger.level == logging.DEBUG
    start_logging(given("-q"), "error")
    assert logger.level == logging.ERROR
    assert sum(isinstance(each, CommandLogHandler) for each in logger.handlers) == 1


def logged(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Log a line as in a process without other handlers."""
    start_logging(given(), "warn")
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    logging.getLogger("zenspark.net").warning(text)


def test_a_line_goes_above_the_status_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)
    monkeypatch.setattr("sys.stderr", terminal)
    with StatusLine() as line:
        line.show("recording")
        logged(monkeypatch, "lost it")
    shown = re.sub(r"\d\d:\d\d:\d\d", "TIME", terminal.getvalue())
    assert shown == f"recording{CLEAR}TIME \x1b[33mWARNING\x1b[0m zenspark.net: lost it\nrecording{CLEAR}"


def test_a_file_gets_date_and_zone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    logged(monkeypatch, "lost it")
    line = capsys.readouterr().err
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+[+-]\d\d:\d\d WARNING zenspark.net: lost it\n", line)
