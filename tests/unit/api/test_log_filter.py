"""Logging switched on the way scripts do: which loggers show what, and every line once."""

from __future__ import annotations

import io
import logging
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.wait import TIMEOUT_SECONDS
from zenspark.api.log_filter import LEVELS, OFF_LEVEL, init_log, init_log_from_env_or, try_init_log_from_env

NAMES = ("zenspark", "zenspark.net", "zenspark.api", "zenspark.net.messages", "zenspark.handlers")


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Levels and handlers are as before when a test ends."""
    monkeypatch.delenv("RUST_LOG", raising=False)
    monkeypatch.delenv("ZENSPARK_LOG", raising=False)
    before = {name: logging.getLogger(name).level for name in NAMES}
    handlers = list(logging.getLogger("zenspark").handlers)
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)
    logging.getLogger("zenspark").handlers[:] = handlers


def level(name: str) -> int:
    return logging.getLogger(name).getEffectiveLevel()


def test_log_levels_are_unchanged_without_rust_log() -> None:
    before = [level(name) for name in NAMES]
    try_init_log_from_env()
    assert [level(name) for name in NAMES] == before


@pytest.mark.parametrize(
    ("text", "whole", "net"),
    [
        ("debug", logging.DEBUG, logging.DEBUG),
        ("DEBUG", logging.DEBUG, logging.DEBUG),
        ("4", logging.DEBUG, logging.DEBUG),
        ("0", OFF_LEVEL, OFF_LEVEL),
        ("zenoh=warn,other=info", logging.WARNING, logging.WARNING),
        ("other=off,zenoh=debug", logging.DEBUG, logging.DEBUG),
        ("info,zenoh::net=debug", logging.INFO, logging.DEBUG),
        ("zenoh::net=debug, error", logging.ERROR, logging.DEBUG),
        ("zenoh::net", OFF_LEVEL, LEVELS["trace"]),
        ("zenspark.net=info", OFF_LEVEL, logging.INFO),
        ("warn,zenoh_transport=debug", logging.WARNING, logging.DEBUG),
        ("warn,zenoh_link_tcp=error", logging.WARNING, logging.ERROR),
        ("other", OFF_LEVEL, OFF_LEVEL),
        ("info,debug", logging.DEBUG, logging.DEBUG),
    ],
)
def test_rust_log_sets_the_levels_of_its_targets(
    monkeypatch: pytest.MonkeyPatch, text: str, whole: int, net: int
) -> None:
    monkeypatch.setenv("RUST_LOG", text)
    try_init_log_from_env()
    assert (level("zenspark"), level("zenspark.net")) == (whole, net)
    init_log_from_env_or("error")
    assert (level("zenspark"), level("zenspark.net"), level("zenspark.net.messages")) == (whole, net, net)


@pytest.mark.parametrize("text", ["zenoh=loud", "a=b=c", "zenoh[span]=info", "=info", "a b"])
def test_invalid_rust_log_directive_is_reported_and_ignored(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    monkeypatch.setenv("RUST_LOG", f"{text},zenoh=info")
    init_log_from_env_or("error")
    assert level("zenspark") == logging.INFO
    assert f"ignoring `{text}`: expected off, error, warn" in capsys.readouterr().err
    monkeypatch.setenv("RUST_LOG", text)
    init_log_from_env_or("error")
    assert level("zenspark") == logging.ERROR


def test_init_log_from_env_or_sets_its_level_without_rust_log() -> None:
    init_log_from_env_or("zenoh::net=debug")
    init_log_from_env_or("error")
    assert (level("zenspark"), level("zenspark.net")) == (logging.ERROR, logging.ERROR)


def test_errors_of_callbacks_are_always_logged() -> None:
    init_log_from_env_or("off")
    assert (level("zenspark"), level("zenspark.handlers")) == (OFF_LEVEL, logging.ERROR)
    init_log_from_env_or("zenoh::handlers=off")
    assert level("zenspark.handlers") == OFF_LEVEL


def shown(monkeypatch: pytest.MonkeyPatch, roots: list[logging.Handler]) -> str:
    """What our own handler writes of a line."""
    init_log_from_env_or("info")
    init_log_from_env_or("info")
    (ours,) = logging.getLogger("zenspark").handlers
    assert isinstance(ours, logging.StreamHandler)
    written = io.StringIO()
    monkeypatch.setattr(ours, "stream", written)
    monkeypatch.setattr(logging.getLogger(), "handlers", roots)
    logging.getLogger("zenspark.net").info("hello")
    return written.getvalue()


def test_lines_are_shown_once(monkeypatch: pytest.MonkeyPatch) -> None:
    logging.getLogger("zenspark").handlers[:] = []
    assert shown(monkeypatch, []).endswith("INFO zenspark.net: hello\n")
    theirs = io.StringIO()
    assert shown(monkeypatch, [logging.StreamHandler(theirs)]) == ""
    assert theirs.getvalue() == "hello\n"


PROGRAM = """
import logging, sys, zenspark as zenoh
if sys.argv[1] == "before": logging.basicConfig(format="user %(name)s: %(message)s")
zenoh.init_log_from_env_or("debug")
if sys.argv[1] == "after": logging.basicConfig(format="user %(name)s: %(message)s")
def config(text): return zenoh.Config.from_json5("{scouting: {multicast: {enabled: false}}, " + text + "}")
with zenoh.open(config("mode: 'router', id: 'a1', listen: {endpoints: ['tcp/127.0.0.1:0']}")) as router:
    there = router.info.locators()[0]
    with zenoh.open(config(f"mode: 'client', id: 'b2', connect: {{endpoints: ['{there}']}}")) as client:
        token = client.declare_queryable("some/key", lambda query: query.reply("some/key", "x"))
        while not list(router.get("some/key")): pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("order", ["never", "before", "after"])
def test_debug_log_of_a_program_has_sessions_declarations_and_queries(order: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, order], capture_output=True, text=True, timeout=6 * TIMEOUT_SECONDS, check=True
    )
    lines = [line.partition(" zenspark")[2] for line in done.stderr.splitlines()]
    assert done.stdout == ""
    for expected in (
        ".api: Using ZID: a1",
        ".api: Using ZID: b2",
        ".api: close session zid=b2",
        ".api: close session zid=a1",
    ):
        assert lines.count(expected) == 1, done.stderr
    assert sum(line.startswith(".net: Zenoh can be reached at: tcp/127.0.0.1:") for line in lines) == 1
    for pattern in (
        r"\.net: session with client b2 \(tcp/127\.0\.0\.1:\d+\) opened",
        r"\.net\.messages: received from client b2 \(tcp/127\.0\.0\.1:\d+\): DeclareQueryable id=1 key='some/key'",
    ):
        assert sum(re.fullmatch(pattern, line) is not None for line in lines) == 1, done.stderr
    for event in ("sent to client b2", "received from router a1", "received from client b2"):
        word = "Response" if event == "received from client b2" else "Request"
        assert any(re.search(rf"{event} \(tcp/[^)]+\): {word} id=", line) for line in lines), done.stderr
    assert all(line.startswith("user") == (order != "never") for line in done.stderr.splitlines())


def test_zenspark_log_takes_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUST_LOG", "error")
    monkeypatch.setenv("ZENSPARK_LOG", "debug")
    try_init_log_from_env()
    assert level("zenspark") == logging.DEBUG
    init_log("info")
    assert level("zenspark") == logging.INFO
