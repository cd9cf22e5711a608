"""Flags shared by node commands, and the banner of a node."""

from __future__ import annotations

import io
import json
import signal
import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest

from tests.unit.api.sessions import listening
from zenspark.cli import node_flags
from zenspark.cli.screen import Screen
from zenspark.config.config import Config
from zenspark.errors import SessionClosed, UsageError


def meant(*arguments: str, mode: str | None = None) -> Config:
    parser = ArgumentParser()
    node_flags.add_node_flags(parser)
    return node_flags.build_config(parser.parse_args(arguments), [("metadata", "own")], mode)


def test_flags_set_keys() -> None:
    config = meant("-m", "client", "-e", "tcp/a:1", "-l", "tcp/b:2", "-i", "a1", "--no-multicast-scouting")
    found = {key: json.loads(config.get_json(key)) for key in ("mode", "id", "metadata", "scouting/multicast/enabled")}
    assert found == {"mode": "client", "id": "a1", "metadata": "own", "scouting/multicast/enabled": False}
    assert json.loads(config.get_json("connect/endpoints")) == ["tcp/a:1"]
    assert json.loads(config.get_json("listen/endpoints")) == ["tcp/b:2"]


def test_flags_count_more_than_the_file_and_cfg_most(tmp_path: Path) -> None:
    file = tmp_path / "node.json5"
    file.write_text('{mode: "peer", id: "a1"}')
    assert meant("-c", str(file)).get_json("mode") == '"peer"'
    assert meant("-c", str(file), mode="router").get_json("mode") == '"peer"'
    assert meant("-c", str(file), "-m", "client").get_json("mode") == '"client"'
    assert meant("--cfg", 'metadata:"most"').get_json("metadata") == '"most"'
    assert meant(mode="router").get_json("mode") == '"router"'
    with pytest.raises(UsageError, match="--cfg: expected KEY:VALUE, found 'mode'"):
        meant("--cfg", "mode")


def test_being_terminated_is_like_being_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    handled: dict[int, object] = {}
    monkeypatch.setattr(signal, "signal", handled.__setitem__)
    node_flags.raise_interrupt_on_signals()
    assert handled == {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.default_int_handler}


def test_the_banner_is_plain_outside_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Named:
        def zid(self) -> str:
            return "a1"

        def locators(self) -> list[str]:
            return ["tcp/127.0.0.1:1"]

        @property
        def info(self) -> Named:
            return self

    printed = io.StringIO()
    monkeypatch.setattr(sys, "stdout", printed)
    node_flags.print_node_banner(Named(), Screen(), [("records", "**")])  # type: ignore[arg-type]  # all it asks of a session
    assert printed.getvalue().splitlines()[1:] == ["  id         a1", "  listens on tcp/127.0.0.1:1", "  records    **"]
    assert "\x1b" not in printed.getvalue()


def test_a_session_that_ends_by_itself_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_flags, "CHECK_SECONDS", 0.001)
    with listening("peer") as session:
        session.close()
        with pytest.raises(SessionClosed, match="unexpectedly"):
            node_flags.run_until_interrupted(session)
