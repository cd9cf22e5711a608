import pickle

import pytest

from zenspark.net.io.counters import DropReason, NeighbourTotals
from zenspark.transport.counters import LossReason
from zenspark.types.encoding import Encoding
from zenspark.types.enums import Reliability, SampleKind, WhatAmI
from zenspark.types.ids import ZenohId
from zenspark.types.network_info import (
    Hello,
    Link,
    LinkCounters,
    LinkEvent,
    MatchingStatus,
    ReplyError,
    Transport,
    TransportEvent,
)
from zenspark.types.zbytes import ZBytes
from zenspark.wire import messages
from zenspark.wire import values as wire

ZID = ZenohId("c0c1c2c3")
HELLO = Hello.from_wire(
    messages.Hello(
        version=9, whatami=wire.WhatAmI.PEER, zid=ZID.to_wire(), locators=(wire.Locator("tcp/127.0.0.1:7447"),)
    )
)
TRANSPORT = Transport(ZID, WhatAmI.CLIENT)
LINK = Link(ZID, "tcp/127.0.0.1:17999", "tcp/127.0.0.1:38932", mtu=49152, interfaces=["lo"], priorities=(0, 7))
STACK = wire.TimestampStack(1, (wire.TimestampRecord(0x81, b"x"),))


def test_hello_has_role_zid_and_locators() -> None:
    assert (HELLO.whatami, HELLO.zid, HELLO.locators) == (WhatAmI.PEER, ZID, ["tcp/127.0.0.1:7447"])
    assert str(HELLO) == "Hello { zid: c0c1c2c3, whatami: Peer, locators: [tcp/127.0.0.1:7447] }"


def test_transports_and_links_print_as_in_eclipse_zenoh() -> None:
    transport = "Transport { zid: c0c1c2c3, whatami: Client, is_qos: true, is_multicast: false, is_shm: false }"
    assert str(TRANSPORT) == transport
    assert str(TransportEvent(SampleKind.PUT, TRANSPORT)) == f"TransportEvent {{ kind: Put, transport: {transport} }}"
    link = (
        "Link { zid: c0c1c2c3, src: tcp/127.0.0.1:17999, dst: tcp/127.0.0.1:38932, group: None, mtu: 49152, "
        'is_streamed: true, interfaces: ["lo"], auth_identifier: None, priorities: Some((0, 7)), reliability: None }'
    )
    assert str(LINK) == link
    assert str(LinkEvent(SampleKind.DELETE, LINK)) == f"LinkEvent {{ kind: Delete, link: {link} }}"
    assert str(MatchingStatus(True)) == "MatchingStatus { matching: true }"


def test_repr_of_a_link_shows_its_optional_fields() -> None:
    link = Link(ZID, "a", "b", auth_identifier="me", reliability=Reliability.RELIABLE)
    assert 'auth_identifier: Some("me"), priorities: None, reliability: Some(Reliable) }' in str(link)
    assert "group: Some(udp/224.0.0.225:7450), mtu: 65487" in str(Link(ZID, "a", "b", "udp/224.0.0.225:7450", 65487))


def test_counters_are_plain_numbers_by_reason() -> None:
    totals = NeighbourTotals(ZID.to_wire(), 7, {LossReason.INTERRUPTED: 2}, {DropReason.CONGESTION: 1})
    counters = LinkCounters.from_totals(totals)
    assert counters == LinkCounters(ZID, 7, {"interrupted": 2}, {"congestion": 1})
    assert {type(reason) for reason in (*counters.lost, *counters.dropped)} == {str}
    assert str(counters) == (
        "LinkCounters { zid: c0c1c2c3, received: 7, lost: {'interrupted': 2}, dropped: {'congestion': 1} }"
    )


def test_the_documentation_names_every_reason() -> None:
    text = LinkCounters.__doc__ or ""
    assert [reason for reason in (*LossReason, *DropReason) if f"`{reason}`" not in text] == []


def test_an_error_comes_from_a_message() -> None:
    error = messages.Err(payload=b"bad", encoding=wire.Encoding.parse("text/plain"))
    reply = ReplyError.from_wire(error)
    assert (reply.payload, reply.encoding, reply.timestamp_stack) == (ZBytes(b"bad"), Encoding.TEXT_PLAIN, None)
    stamped = ReplyError.from_wire(error, STACK)
    assert stamped.timestamp_stack is not None
    assert stamped.timestamp_stack.to_wire() == STACK
    assert str(reply) == "ReplyError { payload: bad, encoding: text/plain, timestamp_stack: None }"


@pytest.mark.parametrize(
    "value",
    [
        *(HELLO, TRANSPORT, LINK, MatchingStatus(False), ReplyError(ZBytes(b"x"))),
        *(TransportEvent(SampleKind.PUT, TRANSPORT), LinkEvent(SampleKind.PUT, LINK)),
        LinkCounters(ZID, 7, {"interrupted": 2}, {}),
    ],
)
def test_values_survive_pickling(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
    with pytest.raises(AttributeError):
        value.zid = ZID  # type: ignore[attr-defined]  # that is the point
