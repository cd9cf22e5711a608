"""Command line and status line of `zenspark up`. `tests/spark` runs it."""

from __future__ import annotations

import argparse
import json
import socket
from pathlib import Path

import pytest

from zenspark.cli import main, up
from zenspark.web.settings import rest_address


def read(*arguments: str) -> argparse.Namespace:
    return up._read_settings(up.parser().parse_args(arguments))[0]


def settings_from_flags(*arguments: str) -> dict[str, object]:
    config = up._configuration(read(*arguments))
    keys = ("mode", "listen/endpoints", "connect/endpoints", "adminspace/enabled", "scouting/multicast/enabled")
    return {key: json.loads(config.get_json(key)) for key in keys}


def test_up_without_flags_is_a_router_on_port_7447() -> None:
    assert settings_from_flags()["mode"] == "router"
    config = up._configuration(read())
    assert config.settings().listen.endpoints == ("tcp/[::]:7447",)
    assert settings_from_flags()["adminspace/enabled"] is True


@pytest.mark.slow
def test_up_with_connect_endpoints_is_a_client_unless_it_listens_or_has_a_mode() -> None:
    assert settings_from_flags("-e", "tcp/127.0.0.1:1")["mode"] == "client"
    assert settings_from_flags("-e", "tcp/127.0.0.1:1", "-l", "tcp/127.0.0.1:2")["mode"] == "router"
    assert settings_from_flags("-e", "tcp/127.0.0.1:1", "-m", "peer")["mode"] == "peer"


@pytest.mark.slow
def test_the_demo_stays_on_loopback_and_takes_another_port_if_it_must(capsys: pytest.CaptureFixture[str]) -> None:
    found = settings_from_flags("--demo")
    assert found["scouting/multicast/enabled"] is False
    assert str(found["listen/endpoints"]).startswith("['tcp/127.0.0.1:")
    assert settings_from_flags("--demo", "-l", "tcp/127.0.0.1:5")["listen/endpoints"] == ["tcp/127.0.0.1:5"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        capsys.readouterr()
        assert up.pick_demo_endpoint(port) == "tcp/127.0.0.1:0"
        assert f"port {port} is in use" in capsys.readouterr().out
    assert up.pick_demo_endpoint(port) == f"tcp/127.0.0.1:{port}"


@pytest.mark.slow
def test_key_lake_and_journal_flags_become_the_default_storage() -> None:
    given = read("--key", "a/**", "--key", "a/b", "--key", "c", "--lake", "l", "--complete")
    (own,) = up._default_storage(given, has_others=True)
    assert (own.key_exprs, own.complete) == (("a/**", "c"), True)
    assert (own.lake, own.journal) == ("l", Path("l/_journal"))
    given = read("--journal", "j")
    (own,) = up._default_storage(given, has_others=False)
    assert (own.key_exprs, own.lake, own.journal) == (("**",), "lake", Path("j"))
    given = read("--lake", "s3://bucket/lake")
    (own,) = up._default_storage(given, has_others=False)
    assert (own.lake, own.journal) == ("s3://bucket/lake", Path("journal"))
    given = read("--journal", "j")
    assert up._default_storage(given, has_others=True) == []


def test_the_rest_interface_of_zenohds_file_is_used(tmp_path: Path) -> None:
    file = tmp_path / "zenohd.json5"
    file.write_text(
        '{plugins: {rest: {http_port: "127.0.0.1:8765"}, zenspark: {lake: "here", http: {address: "none"}}}}'
    )
    given = read("-c", str(file))
    address, config = rest_address(up._configuration(given))
    assert address == ("127.0.0.1", 8765)
    assert json.loads(config.get_json("plugins")) == {}  # so no key is warned of
    assert (given.lake, given.http) == ("here", "none")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--key", "a//b"], "a//b"),
        (["--for", "soon"], "soon"),
        (["--fsync", "maybe"], "maybe"),
        (["--conf", "x"], "--conf"),
        (["--stop-timeout", "soon"], "--stop-timeout"),
        (["--demo", "-e", "tcp/127.0.0.1:1", "-m", "peer", "--cfg", "listen/endpoints:[]"], "--demo"),
        (["--http", "here:there"], "--http"),
        (["--http", "0.0.0.0:8000"], "token"),
        (["--lake-history", "soon"], "--lake-history"),
        (["--lak", "x", "--fsink", "never"], "--fsync"),
        (["-c", "none.json5"], "none.json5"),
        (["-l", "tcp/127.0.0.1"], "tcp/127.0.0.1"),
    ],
)
def test_usage_error_is_reported_in_one_line(
    arguments: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", "--no-multicast-scouting", "--lake", str(tmp_path / "lake"), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("zenspark up: ")
    assert problem in error
    assert error.count("\n") == 1


def test_port_in_use_is_reported_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        endpoint = f"tcp/127.0.0.1:{taken.getsockname()[1]}"
        assert main(["up", "--no-multicast-scouting", "--lake", str(tmp_path / "lake"), "-l", endpoint]) == 2
    error = capsys.readouterr().err
    assert endpoint in error
    assert error.count("\n") == 1
