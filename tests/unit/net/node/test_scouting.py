import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.unit.net.ends import free_group, meanwhile, readable
from tests.waiting import PATIENCE
from zenspark.errors import UsageError
from zenspark.net.links import interfaces
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.interfaces import Interface, find_interface
from zenspark.net.links.multicast import open_sender
from zenspark.net.node.scouting import MAX_DATAGRAMS_PER_READ, Responder, Scouter, ScoutingSettings, open_responders
from zenspark.transport.handshake import Identity
from zenspark.wire.codec import decode_scouting, encode
from zenspark.wire.messages import Hello
from zenspark.wire.values import Locator, Roles, WhatAmI, ZenohId

LO = find_interface("127.0.0.1")
ANYBODY = Roles(7)
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
    """What a scouter finds when its first question has been answered."""
    assert scouter.handle(time.monotonic()) == []
    assert readable(responder)
    responder.respond()
    return scouter.wait(PATIENCE)


def test_scout_discovers_responders(scouter: Open, responder: Responder) -> None:
    (hello,) = found(scouter(ANYBODY), responder)
    assert (hello.zid, hello.whatami) == (ROUTER.zid, WhatAmI.ROUTER)
    assert hello.locators == (HERE, THERE)  # the question came from loopback


def test_scout_delivers_a_node_once(scouter: Open, responder: Responder) -> None:
    asking = scouter(ANYBODY)
    assert found(asking, responder)
    assert asking.handle(time.monotonic() + 1) == []
    assert readable(responder)
    responder.respond()
    assert asking.wait(0.05) == []


def test_other_roles_do_not_answer(scouter: Open, responder: Responder) -> None:
    asking = scouter(Roles(WhatAmI.PEER.bit))
    asking.handle(time.monotonic())
    assert readable(responder)
    responder.respond()
    assert asking.wait(0.05) == []


def test_a_node_does_not_find_itself(scouter: Open, responder: Responder) -> None:
    asking = scouter(ANYBODY, ROUTER.zid)
    asking.handle(time.monotonic())
    assert readable(responder)
    responder.respond()
    assert asking.wait(0.05) == []


def test_a_loop_can_run_it(scouter: Open, responder: Responder) -> None:
    asking = scouter(ANYBODY)
    assert asking.next_timeout() is None
    asking.handle(100.0)
    assert asking.next_timeout() == 101.0
    assert readable(responder)
    responder.respond()
    (descriptor,) = asking.filenos()
    with socket.socket(fileno=socket.dup(descriptor)) as watched:
        assert readable(watched)
    assert [hello.zid for hello in asking.handle(100.1)] == [ROUTER.zid]


def test_close_wakes_waiting_threads(scouter: Open) -> None:
    asking = scouter(ANYBODY)
    with meanwhile(lambda: asking.wait(PATIENCE)) as waited:
        started = time.monotonic()
        asking.close()
        assert waited() == []
        assert time.monotonic() - started < PATIENCE / 2
    asking.close()
    assert asking.wait(PATIENCE) == []
    assert asking.handle(0.0) == []


def test_scout_is_repeated_while_waiting(scouter: Open, responder: Responder, monkeypatch: pytest.MonkeyPatch) -> None:
    asking = scouter(ANYBODY)
    asking.client._period = 0.01
    with meanwhile(lambda: asking.wait(PATIENCE)) as waited:
        for _ in range(3):
            assert readable(responder)
            with responder._lock:
                responder._receiver.recv(100)
        assert readable(responder)
        responder.respond()
        assert len(waited()) == 1


def test_bad_datagrams_are_passed_over(scouter: Open, responder: Responder, settings: ScoutingSettings) -> None:
    asking = scouter(ANYBODY)
    group = (settings.address.partition(":")[0], int(settings.address.partition(":")[2]))
    with open_sender(settings.endpoint, LO, 1) as stranger:
        for datagram in (b"", b"\x01", b"garbage", bytes(60_000)):
            stranger.sendto(datagram, group)
            for descriptor in asking.filenos():
                with socket.socket(fileno=socket.dup(descriptor)) as target:
                    stranger.sendto(datagram, target.getsockname())
        assert [hello.zid for hello in found(asking, responder)] == [ROUTER.zid]
        with pytest.raises(BlockingIOError):
            stranger.recv(100)


def test_a_flood_of_questions_is_answered_in_portions(
    scouter: Open, responder: Responder, settings: ScoutingSettings
) -> None:
    asking = scouter(ANYBODY)
    group = (settings.address.partition(":")[0], int(settings.address.partition(":")[2]))
    with open_sender(settings.endpoint, LO, 1) as stranger:
        for _ in range(MAX_DATAGRAMS_PER_READ + 1):
            stranger.sendto(asking.client.scout, group)
        assert readable(responder)
        responder.respond()
        assert readable(responder, 0)


def test_hello_to_another_machine_has_no_loopback_locators(responder: Responder) -> None:
    hello = decode_scouting(responder._protocol.hello(responder._locators(False)))
    assert isinstance(hello, Hello)
    assert hello.locators == (THERE,)
    assert encode(hello)


def test_closing_a_responder(responder: Responder) -> None:
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
        scouter = Scouter(settings, ANYBODY)
    with contextlib.closing(scouter):
        assert [responder.interface for responder in responders] == [LO]
        assert len(scouter.filenos()) == 1
    for responder in responders:
        responder.close()
    assert len(caplog.messages) == 2
    assert "bare0" in caplog.messages[0]


def test_a_machine_without_multicast(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(interfaces, "multicast_interfaces", lambda _: [])
    with contextlib.closing(Scouter(ScoutingSettings(), ANYBODY)) as scouter:
        assert scouter.wait(0.01) == []
    assert open_responders(ScoutingSettings(), ROUTER, locators) == []
    assert "no network interface supports multicast" in caplog.text


def test_settings_are_those_of_the_configuration() -> None:
    assert ScoutingSettings().endpoint == Endpoint.parse("udp/224.0.0.224:7446")
    with pytest.raises(UsageError, match="nope"):
        ScoutingSettings(interface="nope").interfaces()
    with pytest.raises(UsageError, match="is not a multicast group"):
        open_responders(ScoutingSettings(address="127.0.0.1:1", interface=LO.name), ROUTER, locators)
