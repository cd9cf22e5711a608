"""Logging switched on the way scripts do."""

from __future__ import annotations

import logging

import pytest

from zenspark.api.logs import init_log_from_env_or, try_init_log_from_env

LOGGER = logging.getLogger("zenspark")


def test_nothing_is_switched_on_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUST_LOG", raising=False)
    before = LOGGER.level
    try_init_log_from_env()
    assert LOGGER.level == before


@pytest.mark.parametrize(
    ("text", "level"), [("debug", logging.DEBUG), ("zenoh=warn,other=info", logging.WARNING), ("odd", logging.INFO)]
)
def test_the_variable_names_the_level(monkeypatch: pytest.MonkeyPatch, text: str, level: int) -> None:
    monkeypatch.setenv("RUST_LOG", text)
    try_init_log_from_env()
    assert LOGGER.level == level
    init_log_from_env_or("error")
    assert LOGGER.level == level
    assert len(LOGGER.handlers) == 1


def test_a_level_of_the_script_counts_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUST_LOG", raising=False)
    init_log_from_env_or("error")
    assert LOGGER.level == logging.ERROR
