"""Flags shared by node commands, and the banner of a node."""

from __future__ import annotations

import io
import json
import logging
import signal
import sys
import threading
from argparse import ArgumentParser
from pathlib import Path

import pytest

import zenspark.api.open
from tests.ports import free_port
from tests.unit.api.sessions import address, config, listening
from zenspark.cli import node_flags
from zenspark.cli.exit_codes import NOT_CONNECTED, CommandError
from zenspark.cli.interrupts import raise_interrupt
from zenspark.cli.screen import Screen
from zenspark.config.config import Config
from zenspark.config.schema import ConfigError
from zenspark.errors import LinkError, SessionClosed, UsageError


def config_from_flags(*arguments: str, mode: str | None = None) -> Config:
    parser = ArgumentParser()
    node_flags.add_node_flags(parser)
    return node_flags.build_config(parser.parse_args(arguments), [("metadata", "own")], mode)


def test_flags_set_keys() -> None:
    config = config_from_flags("-m", "client", "-e", "tcp/a:1", "-l", "tcp/b:2", "-i", "a1", "--no-multicast-scouting")
    found = {key: json.loads(config.get_json(key)) for key in ("mode", "id", "metadata", "scouting/multicast/enabled")}
    assert found == {"mode": "client", "id": "a1", "metadata": "own", "scouting/multicast/enabled": False}
    assert json.loads(config.get_json("connect/endpoints")) == ["tcp/a:1"]
    assert json.loads(config.get_json("listen/endpoints")) == ["tcp/b:2"]


def test_flags_override_the_file_and_cfg_overrides_flags(tmp_path: Path) -> None:
    file = tmp_path / "node.json5"
    file.write_text('{mode: "peer", id: "a1"}')
    assert config_from_flags("-c", str(file)).get_json("mode") == '"peer"'
    assert config_from_flags("-c", str(file), mode="router").get_json("mode") == '"peer"'
    assert config_from_flags("-c", str(file), "-m", "client").get_json("mode") == '"client"'
    assert config_from_flags("--cfg", 'metadata:"most"').get_json("metadata") == '"most"'
    assert config_from_flags(mode="router").get_json("mode") == '"router"'
    with pytest.raises(UsageError, match="--cfg: expected KEY:VALUE, found 'mode'"):
        config_from_flags("--cfg", "mode")


def test_sigterm_and_sigint_raise_the_same_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    handled: dict[int, object] = {}
    monkeypatch.setattr(signal, "signal", handled.__setitem__)
    node_flags.raise_interrupt_on_signals()
    assert handled == {signal.SIGINT: raise_interrupt, signal.SIGTERM: raise_interrupt}


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
    node_flags.print_node_banner(Named(), Screen(), [("records", "**")])  # type: ignore[arg-type]  # all it uses of a session
    assert printed.getvalue().splitlines()[1:] == ["  id         a1", "  listens on tcp/127.0.0.1:1", "  records    **"]
    assert "\x1b" not in printed.getvalue()


def test_a_session_that_ends_by_itself_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_flags, "SESSION_CHECK_INTERVAL_SECONDS", 0.001)
    with listening("peer") as session:
        session.close()
        with pytest.raises(SessionClosed, match="unexpectedly"):
            node_flags.run_until_interrupted(session)


def opened(*arguments: str) -> tuple[str, int]:
    """Open a node with these flags; its mode, and how many endpoints are connected."""
    parser = ArgumentParser()
    node_flags.add_node_flags(parser)
    given = parser.parse_args([*arguments, "--no-multicast-scouting"])
    with node_flags.open_node(given) as (session, watch):
        return session._runtime.node.identity.whatami.text, watch.counts()[0]


@pytest.mark.slow
def test_a_node_that_only_connects_is_a_client() -> None:
    with listening("router") as router:
        endpoint = address(router)
        assert opened("-e", endpoint) == ("client", 1)
        assert opened("-e", endpoint, "-m", "peer", "--require-connection") == ("peer", 1)
        assert opened("-e", endpoint, "-l", "tcp/127.0.0.1:0", "--require-connection") == ("peer", 1)
    assert opened("-l", "tcp/127.0.0.1:0") == ("peer", 0)


@pytest.mark.slow
def test_a_client_may_wait_for_its_router() -> None:
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with pytest.raises(CommandError, match="does a Zenoh node listen there") as error:
        opened("-e", endpoint)
    assert error.value.code == NOT_CONNECTED
    sessions = []
    later = threading.Timer(0.1, lambda: sessions.append(zenspark.api.open.open(config("router", [endpoint]))))
    later.start()
    assert opened("-e", endpoint, "--require-connection", "--connect-timeout", "30s") == ("client", 1)
    later.join()
    sessions[0].close()


def test_a_listener_that_cannot_be_bound_is_an_error_of_its_own() -> None:
    with listening("router") as router, pytest.raises(LinkError, match="cannot listen"):
        opened("-l", address(router))


def test_keys_are_checked() -> None:
    parser = ArgumentParser()
    node_flags.add_key_flag(parser, "keys")
    assert parser.parse_args(["-k", "a/**/*", "--key", "b"]).key == ["a/*/**", "b"]


def test_a_configuration_is_checked_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    node_flags.check_config(Config.from_json5('{region_name: "north"}'))
    assert not caplog.records
    without_password = Config.from_json5('{transport: {auth: {usrpwd: {user: "ann"}}}}')
    with pytest.raises(ConfigError, match="usrpwd/password"):
        node_flags.check_config(without_password)
    logging.getLogger("zenspark.test").warning("later ones are logged")
    assert len(caplog.records) == 1


def test_an_interrupt_ends_a_command_without_an_end() -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    assert node_flags.end_on_interrupt(lambda: 1, is_endless=False) == 1
    assert node_flags.end_on_interrupt(interrupted, is_endless=True) == 0
    with pytest.raises(KeyboardInterrupt):
        node_flags.end_on_interrupt(interrupted, is_endless=False)
