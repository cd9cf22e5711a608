import pytest

from zenspark.transport.handshake import Identity
from zenspark.transport.scouting import MAX_KNOWN_NODES, ScoutClient, ScoutResponder
from zenspark.wire.codec import decode_scouting, encode
from zenspark.wire.messages import Hello, Scout
from zenspark.wire.values import PROTOCOL_VERSION, Locator, Roles, WhatAmI, ZenohId

ANY_ROLE = Roles(7)
OWN, OTHER = ZenohId(0xA0A1), ZenohId(0xB0B1)
HERE = Locator("tcp/127.0.0.1:7447")


def hello(zid: ZenohId = OTHER, whatami: WhatAmI = WhatAmI.ROUTER, locators: tuple[Locator, ...] = (HERE,)) -> Hello:
    return Hello(version=PROTOCOL_VERSION, whatami=whatami, zid=zid, locators=locators)


def scout(what: int = 7, zid: ZenohId | None = None, version: int = PROTOCOL_VERSION) -> bytes:
    return encode(Scout(version=version, what=Roles(what), zid=zid))


# -- client ------------------------------------------------------------------------------------------------------


def test_scout_equals_that_of_eclipse_zenoh() -> None:
    assert ScoutClient(Roles(3)).scout.hex() == "010903"  # captured from its scout()
    assert decode_scouting(ScoutClient(ANY_ROLE, OWN).scout) == Scout(version=9, what=ANY_ROLE, zid=OWN)


def test_scout_is_sent_at_once_then_with_backoff() -> None:
    client = ScoutClient(ANY_ROLE)
    assert client.next_timeout() is None
    sent_at, now = [], 50.0
    for _ in range(7):
        assert client.handle_timeout(now) == client.scout
        sent_at.append(now - 50)
        due = client.next_timeout()
        assert due is not None
        assert client.handle_timeout(due - 0.01) is None
        now = due
    assert sent_at == [0, 1, 3, 7, 15, 23, 31]  # the first four as captured


def test_each_node_is_reported_once() -> None:
    client = ScoutClient(ANY_ROLE, OWN)
    assert client.receive(encode(hello())) == hello()
    assert client.receive(encode(hello())) is None
    moved = hello(locators=(Locator("tcp/127.0.0.1:1"),))
    assert client.receive(encode(moved)) == moved
    assert client.hellos == (moved,)


def test_a_lost_node_is_reported_again() -> None:
    client = ScoutClient(ANY_ROLE, OWN)
    client.receive(encode(hello()))
    client.forget(OTHER)
    client.forget(OTHER)
    assert client.receive(encode(hello())) == hello()


def test_hello_of_another_role_is_ignored() -> None:
    client = ScoutClient(Roles(WhatAmI.ROUTER.bit), OWN)
    assert client.receive(encode(hello(whatami=WhatAmI.PEER))) is None
    assert client.receive(encode(hello(zid=OWN))) is None
    assert client.receive(scout()) is None
    assert client.hellos == ()


def test_client_without_zid_may_find_itself() -> None:
    assert ScoutClient(ANY_ROLE).receive(encode(hello(zid=OWN))) == hello(zid=OWN)


def test_a_node_without_locators_is_found_all_the_same() -> None:
    client = hello(whatami=WhatAmI.CLIENT, locators=())
    assert ScoutClient(ANY_ROLE).receive(encode(client)) == client


@pytest.mark.slow
def test_number_of_known_nodes_is_limited() -> None:
    client = ScoutClient(ANY_ROLE)
    for number in range(1, MAX_KNOWN_NODES + 2):
        client.receive(encode(hello(zid=ZenohId(number))))
    assert len(client.hellos) == MAX_KNOWN_NODES
    moved = hello(zid=ZenohId(1), locators=())
    assert client.receive(encode(moved)) == moved


# -- responder ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whatami", WhatAmI)
@pytest.mark.parametrize("what", range(1, 8))
def test_responder_replies_to_scouts_for_its_role(whatami: WhatAmI, what: int) -> None:
    is_replied = ScoutResponder(Identity(OWN, whatami)).should_reply(scout(what))
    assert is_replied == bool(what & whatami.bit)


def test_hello_equals_that_of_eclipse_zenoh() -> None:
    responder = ScoutResponder(Identity(ZenohId.parse("a0a1a2a3"), WhatAmI.ROUTER))
    hello = responder.hello([Locator("tcp/127.0.0.1:36871")])
    assert hello.hex() == "220930a3a2a1a001137463702f3132372e302e302e313a3336383731"  # captured


def test_scout_version_is_ignored() -> None:
    assert ScoutResponder(Identity(OWN, WhatAmI.PEER)).should_reply(scout(version=8))


def test_own_scout_is_ignored() -> None:
    responder = ScoutResponder(Identity(OWN, WhatAmI.PEER))
    assert not responder.should_reply(scout(zid=OWN))
    assert responder.should_reply(scout(zid=OTHER))
    assert not responder.should_reply(encode(hello()))


def test_too_long_locator_is_omitted() -> None:
    reply = ScoutResponder(Identity(OWN, WhatAmI.PEER)).hello([Locator("unixsock-stream/" + "x" * 250), HERE])
    assert decode_scouting(reply) == hello(zid=OWN, whatami=WhatAmI.PEER)


@pytest.mark.parametrize("datagram", [b"", b"\x01", b"\x22\x09", b"\x01\x09\x00", b"GET / HTTP/1.1", bytes(65507)])
def test_malformed_datagrams_are_ignored(datagram: bytes) -> None:
    assert not ScoutResponder(Identity(OWN, WhatAmI.PEER)).should_reply(datagram)
    assert ScoutClient(ANY_ROLE).receive(datagram) is None
