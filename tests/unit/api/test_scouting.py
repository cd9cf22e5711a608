"""Scouting on loopback and a port of our own."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.ports import free_port
from tests.unit.api.programs import run
from zenspark.api.scouting import scout
from zenspark.config.config import Config
from zenspark.errors import UsageError, ZError
from zenspark.handlers.channel import ReceiveTimeout
from zenspark.net.node.scouting import Responder, ScoutingSettings, open_responders
from zenspark.transport.handshake import Identity
from zenspark.types.enums import WhatAmI
from zenspark.types.network_info import Hello
from zenspark.wire import values as wire

ZID = wire.ZenohId(0xA0A1)


@pytest.fixture
def settings() -> ScoutingSettings:
    return ScoutingSettings(f"224.0.0.224:{free_port(socket.SOCK_DGRAM)}", "lo")


@pytest.fixture
def node(settings: ScoutingSettings) -> Iterator[None]:
    locators = (wire.Locator("tcp/127.0.0.1:7447"),)
    responders = open_responders(settings, Identity(ZID, wire.WhatAmI.ROUTER), lambda _: locators)
    ended = threading.Event()
    thread = threading.Thread(target=reply_to_scouts, args=(responders, ended))
    thread.start()
    yield
    ended.set()
    thread.join()
    for responder in responders:
        responder.close()


def reply_to_scouts(responders: list[Responder], ended: threading.Event) -> None:
    while not ended.wait(0.01):
        for responder in responders:
            responder.respond()


def config(settings: ScoutingSettings) -> Config:
    made = Config()
    made.insert_json5("scouting/multicast/address", json.dumps(settings.address))
    made.insert_json5("scouting/multicast/interface", json.dumps(settings.interface))
    return made


@pytest.mark.slow
def test_a_search_that_was_not_stopped_does_not_keep_the_process_alive(settings: ScoutingSettings) -> None:
    program = f"""
        import time
        config = zenspark.Config()
        config.insert_json5("scouting/multicast", '{{"address": "{settings.address}", "interface": "lo"}}')
        scout = zenspark.scout(config=config)
        while scout._scouter.next_timeout() is None:
            time.sleep(0.001)  # until the thread of the search waits
        print(scout.try_recv())
    """
    assert run(program, "tcp/127.0.0.1:7447") == "None\n"


@pytest.mark.usefixtures("node")
def test_scout_delivers_a_node_once(settings: ScoutingSettings) -> None:
    with scout(config=config(settings)) as search:
        hello = search.recv(timeout=5)
        assert (hello.whatami, str(hello.zid), hello.locators) == (WhatAmI.ROUTER, "a0a1", ["tcp/127.0.0.1:7447"])
        assert search.try_recv() is None
    assert list(search) == []


@pytest.mark.slow
@pytest.mark.usefixtures("node")
def test_scout_delivers_only_the_given_roles(settings: ScoutingSettings) -> None:
    with scout(what="peer|client", config=config(settings)) as search, pytest.raises(ReceiveTimeout):
        search.recv(timeout=0.1)


@pytest.mark.usefixtures("node")
def test_callback_receives_scouted_nodes(settings: ScoutingSettings) -> None:
    found: list[Hello] = []
    came = threading.Event()

    def take(hello: Hello) -> None:
        found.append(hello)
        came.set()

    search = scout(take, config=config(settings))
    assert came.wait(5)
    assert search.handler is None
    with pytest.raises(UsageError, match="no channel"):
        search.recv()  # type: ignore[misc]
    search.stop()
    search.stop()


def test_unreferenced_scout_stops(settings: ScoutingSettings) -> None:
    handler = scout(config=config(settings)).handler
    with pytest.raises(ZError):
        handler.recv(timeout=5)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"what": 3}, "expected str, found 'int'"),
        ({"config": 3}, "expected Config, found 'int'"),
    ],
)
def test_arguments_of_another_type_are_refused(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(TypeError, match=expected):
        scout(**options)
