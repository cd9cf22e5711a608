from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.interop.reference import unused
from zenspark.errors import LinkError, UsageError
from zenspark.spark.options import NetworkOptions
from zenspark.spark.zenoh_session import connect_session, session_config


def setting(options: NetworkOptions, key: str) -> object:
    return json.loads(session_config(options).get_json(key))


def test_scouting_is_disabled_with_explicit_endpoints() -> None:
    options = NetworkOptions(connect=("tcp/127.0.0.1:7447",))
    assert setting(options, "mode") == "client"
    assert setting(options, "connect/endpoints") == ["tcp/127.0.0.1:7447"]
    assert setting(options, "scouting/multicast/enabled") is False
    assert setting(NetworkOptions(listen=("tcp/127.0.0.1:0",)), "mode") == "peer"


def test_options_override_the_configuration_file(tmp_path: Path) -> None:
    file = tmp_path / "node.json5"
    file.write_text('{ mode: "peer", connect: { endpoints: ["tcp/127.0.0.1:1"] } }')
    options = NetworkOptions(config=str(file), connect=("tcp/127.0.0.1:2",))
    assert setting(options, "mode") == "peer"
    assert setting(options, "connect/endpoints") == ["tcp/127.0.0.1:2"]
    assert setting(NetworkOptions(config=str(file), mode="client"), "mode") == "client"


def test_missing_config_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"option config: there is no file .*missing"):
        session_config(NetworkOptions(config=str(tmp_path / "missing")))


def test_sessions_are_opened_with_the_options() -> None:
    endpoint = unused()
    with (
        connect_session(NetworkOptions(listen=(endpoint,))) as peer,
        connect_session(NetworkOptions(connect=(endpoint,))) as client,
    ):
        assert client.info.peers_zid() == [peer.zid()]


def test_an_endpoint_that_cannot_be_reached_is_named() -> None:
    endpoint = unused()
    with pytest.raises(LinkError, match=f"{endpoint}: no session as client"):
        connect_session(NetworkOptions(connect=(endpoint,)))
