import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.unit.net.ends import free_group, meanwhile, readable
from tests.wait import TIMEOUT_SECONDS
from zenspark.errors import UsageError
from zenspark.net.links import interfaces
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.interfaces import Interface, find_interface
from zenspark.net.links.multicast import open_sender
from zenspark.net.links.sockets import MAX_DATAGRAMS_PER_READ
from zenspark.net.node.scouting import Responder, Scouter, ScoutingSettings, open_responders
from zenspark.transport.handshake import Identity
from zenspark.wire.codec import decode_scouting, encode
from zenspark.wire.messages import Hello
from zenspark.wire.values import Locator, Roles, WhatAmI, ZenohId

LO = find_interface("127.0.0.1")
ANY_ROLE = Roles(7)
ROUTER = Identity(ZenohId(0xA0A1), WhatAmI.ROUTER)
HERE, THERE = Locator("tcp/127.0.0.1:7447"), Locator("tcp/192.0.2.2:7447")


def locators(loopback: bool) -> Sequence[Locator]:
    return (HERE, THERE) if loopback else (THERE,)


@pytest.fixture
def settings() -> ScoutingSettings:
    return ScoutingSettings(address=free_group(), interface=LO.name)


@pytest.fixture
def responder(settings: ScoutingSettings) -> Iterator[Responder]:
    (responder,) = open_responders(settings, ROUTER, locators)
    with contextlib.closing(responder):
        yield responder


Open = Callable[..., Scouter]


@pytest.fixture
def scouter(settings: ScoutingSettings) -> Iterator[Open]:
    with contextlib.ExitStack() as stack:
        yield lambda *options: stack.enter_context(contextlib.closing(Scouter(settings, *options)))


def found(scouter: Scouter, responder: Responder) -> list[Hello]:
    """What a scouting client finds with the replies to its first SCOUT."""
    assert scouter.handle(time.monotonic()) == []
    assert readable(responder)
    responder.respond()
    return scouter.wait(TIMEOUT_SECONDS)


def test_scout_discovers_responders(scouter: Open, responder: Responder) -> None:
    (hello,) = found(scouter(ANY_ROLE), responder)
    assert (hello.zid, hello.whatami) == (ROUTER.zid, WhatAmI.ROUTER)
    assert hello.locators == (HERE, THERE)  # the question came from loopback


def test_scout_delivers_a_node_once(scouter: Open, responder: Responder) -> None:
    scouting = scouter(ANY_ROLE)
    assert found(scouting, responder)
    assert scouting.handle(time.monotonic() + 1) == []
    assert readable(responder)
    responder.respond()
    assert scouting.wait(0.05) == []


def test_responder_of_another_role_does_not_reply(scouter: Open, responder: Responder) -> None:
    scouting = scouter(Roles(WhatAmI.PEER.bit))
    scouting.handle(time.monotonic())
    assert readable(responder)
    responder.respond()
    assert scouting.wait(0.05) == []


def test_a_node_does_not_find_itself(scouter: Open, responder: Responder) -> None:
    scouting = scouter(ANY_ROLE, ROUTER.zid)
    scouting.handle(time.monotonic())
    assert readable(responder)
    responder.respond()
    assert scouting.wait(0.05) == []


def test_scouter_can_be_driven_by_an_event_loop(scouter: Open, responder: Responder) -> None:
    scouting = scouter(ANY_ROLE)
    assert scouting.next_timeout() is None
    scouting.handle(100.0)
    assert scouting.next_timeout() == 101.0
    assert readable(responder)
    responder.respond()
    (descriptor,) = scouting.filenos()
    with socket.socket(fileno=socket.dup(descriptor)) as watched:
        assert readable(watched)
    assert [hello.zid for hello in scouting.handle(100.1)] == [ROUTER.zid]


def test_close_wakes_waiting_threads(scouter: Open) -> None:
    scouting = scouter(ANY_ROLE)
    with meanwhile(lambda: scouting.wait(TIMEOUT_SECONDS)) as waited:
        started = time.monotonic()
        scouting.close()
        assert waited() == []
        assert time.monotonic() - started < TIMEOUT_SECONDS / 2
    scouting.close()
    assert scouting.wait(TIMEOUT_SECONDS) == []
    assert scouting.handle(0.0) == []


def test_scout_is_repeated_while_waiting(scouter: Open, responder: Responder, monkeypatch: pytest.MonkeyPatch) -> None:
    scouting = scouter(ANY_ROLE)
    scouting.client._period = 0.01
    with meanwhile(lambda: scouting.wait(TIMEOUT_SECONDS)) as waited:
        for _ in range(3):
            assert readable(responder)
            with responder._lock:
                responder._receiver.recv(100)
        assert readable(responder)
        responder.respond()
        assert len(waited()) == 1


def test_bad_datagrams_are_passed_over(scouter: Open, responder: Responder, settings: ScoutingSettings) -> None:
    scouting = scouter(ANY_ROLE)
    group = (settings.address.partition(":")[0], int(settings.address.partition(":")[2]))
    with open_sender(settings.endpoint, LO, 1) as stranger:
        for datagram in (b"", b"\x01", b"garbage", bytes(60_000)):
            stranger.sendto(datagram, group)
            for descriptor in scouting.filenos():
                with socket.socket(fileno=socket.dup(descriptor)) as target:
                    stranger.sendto(datagram, target.getsockname())
        assert [hello.zid for hello in found(scouting, responder)] == [ROUTER.zid]
        with pytest.raises(BlockingIOError):
            stranger.recv(100)


def test_responder_reads_at_most_max_datagrams_per_read(
    scouter: Open, responder: Responder, settings: ScoutingSettings
) -> None:
    scouting = scouter(ANY_ROLE)
    group = (settings.address.partition(":")[0], int(settings.address.partition(":")[2]))
    with open_sender(settings.endpoint, LO, 1) as stranger:
        for _ in range(MAX_DATAGRAMS_PER_READ + 1):
            stranger.sendto(scouting.client.scout, group)
        assert readable(responder)
        responder.respond()
        assert readable(responder, 0)


def test_hello_to_another_machine_has_no_loopback_locators(responder: Responder) -> None:
    hello = decode_scouting(responder._protocol.hello(responder._locators(False)))
    assert isinstance(hello, Hello)
    assert hello.locators == (THERE,)
    assert encode(hello)


def test_close_of_a_responder_is_idempotent(responder: Responder) -> None:
    assert repr(responder) == f"<Responder on {LO.name}>"
    responder.close()
    responder.close()
    responder.respond()
    assert responder.fileno() == -1


def test_an_interface_that_cannot_be_used_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bare = Interface("bare0", 99, ())
    monkeypatch.setattr(interfaces, "multicast_interfaces", lambda _: [bare, LO])
    settings = ScoutingSettings(address=free_group())
    with caplog.at_level(logging.WARNING, "zenspark.net"):
        responders = open_responders(settings, ROUTER, locators)
        scouter = Scouter(settings, ANY_ROLE)
    with contextlib.closing(scouter):
        assert [responder.interface for responder in responders] == [LO]
        assert len(scouter.filenos()) == 1
    for responder in responders:
        responder.close()
    assert len(caplog.messages) == 2
    assert "bare0" in caplog.messages[0]


def test_scouting_without_a_multicast_interface_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(interfaces, "multicast_interfaces", lambda _: [])
    with contextlib.closing(Scouter(ScoutingSettings(), ANY_ROLE)) as scouter:
        assert scouter.wait(0.01) == []
    assert open_responders(ScoutingSettings(), ROUTER, locators) == []
    assert "no interface of scouting/multicast/interface=auto supports multicast" in caplog.text


def test_scouting_uses_the_zenoh_group_by_default_and_rejects_invalid_settings() -> None:
    assert ScoutingSettings().endpoint == Endpoint.parse("udp/224.0.0.224:7446")
    with pytest.raises(UsageError, match="nope"):
        ScoutingSettings(interface="nope").interfaces()
    with pytest.raises(UsageError, match="is not a multicast group"):
        open_responders(ScoutingSettings(address="127.0.0.1:1", interface=LO.name), ROUTER, locators)
