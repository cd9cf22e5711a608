"""Multicast groups on the loopback interface: our peers and eclipse-zenoh's receive from each other."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import pytest

import zenspark
from tests.interop.reference import Reference, eventually, ours, reference
from tests.unit.net.ends import free_group, readable
from tests.wait import TIMEOUT_SECONDS
from zenspark.errors import LinkError
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.interfaces import find_interface
from zenspark.net.links.multicast import MulticastLink as GroupLink
from zenspark.net.links.multicast import join
from zenspark.wire.codec import decode_batch, encode
from zenspark.wire.messages import (
    Close,
    Declare,
    DeclareToken,
    Frame,
    Interest,
    Join,
    NetworkMessage,
    Put,
    Query,
    Reply,
    Request,
    Response,
    ResponseFinal,
)
from zenspark.wire.values import InterestMode, TimeUnit, WhatAmI, WireExpr, ZenohId

pytestmark = pytest.mark.interop

LO = find_interface("127.0.0.1").name
BIG = 200_000
"""More than a datagram of eclipse-zenoh holds, and many of ours."""
SHORT_JOIN_INTERVAL = {"transport__multicast__join_interval": 200}
"""A newcomer does not understand eclipse-zenoh before its next JOIN: wait for that less long."""


def multicast_problem() -> str:
    """Return why no datagram of a group is received on the loopback interface here; an empty text if one is."""
    try:
        endpoint = Endpoint.parse(f"udp/{free_group()}#iface={LO}")
        with contextlib.closing(join(endpoint)) as sender, contextlib.closing(join(endpoint)) as listener:
            sender.send(b"?")
            if not readable(listener):
                return "nothing arrived"
    except (LinkError, OSError) as error:
        return str(error)
    return ""


@pytest.fixture(scope="module", autouse=True)
def _needs_multicast() -> None:
    problem = multicast_problem()
    if problem:
        pytest.skip(f"multicast does not work on {LO}: {problem}")


@pytest.fixture
def group() -> str:
    """A group that no other test uses."""
    return f"udp/{free_group()}#iface={LO}"


class ZensparkPeer:
    """A zenspark session in a group, and the samples it receives."""

    def __init__(self, group: str, **config: object) -> None:
        self.session = zenspark.open(ours(**{"listen__endpoints": [group], **SHORT_JOIN_INTERVAL, **config}))
        self.received: list[tuple[str, int]] = []
        self.session.declare_subscriber("test/**", self._on_sample)

    def _on_sample(self, sample: zenspark.Sample) -> None:
        self.received.append((str(sample.key_expr), len(sample.payload)))

    @property
    def zid(self) -> str:
        return str(self.session.info.zid())

    @property
    def others(self) -> set[str]:
        return {str(each.zid) for each in self.session.info.transports() if each.is_multicast}

    def put(self, key: str, size: int = 1) -> None:
        self.session.put(key, b"x" * size)

    def receives(self, key: str, size: int = 1) -> bool:
        return eventually(lambda: (key, size) in self.received)

    def sees(self, *others: str) -> bool:
        return eventually(lambda: self.others == set(others))


@contextlib.contextmanager
def our_peer(group: str, **config: object) -> Iterator[ZensparkPeer]:
    peer = ZensparkPeer(group, **config)
    try:
        yield peer
    finally:
        peer.session.close()


@contextlib.contextmanager
def their_peer(group: str, **config: object) -> Iterator[Reference]:
    with reference(listen__endpoints=[group], **{**SHORT_JOIN_INTERVAL, **config}) as peer:
        peer.execute("sub test/**")
        yield peer


class ReceivedLines:
    """The samples that a session of eclipse-zenoh has received."""

    def __init__(self, theirs: Reference) -> None:
        self._theirs = theirs
        self.lines: list[str] = []

    def read_lines(self) -> None:
        """Run a command: samples that were received before are printed before its result."""
        self.lines += self._theirs.execute("peers")

    def has(self, line: str) -> bool:
        self.read_lines()
        return f"received {line}" in self.lines

    def count(self, line: str) -> int:
        return self.lines.count(f"received {line}")


def meet(mine: ZensparkPeer, theirs: Reference, *others: str) -> ReceivedLines:
    """Wait until both understand each other."""
    ear = ReceivedLines(theirs)

    def is_received() -> bool:
        mine.session.put("test/meet", "?")
        return ear.has("test/meet ?")

    assert mine.sees(theirs.zid, *others)
    assert eventually(is_received)
    return ear


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"transport__multicast__qos__enabled": True},
        {"transport__multicast__compression__enabled": True},
        {"transport__link__tx__batch_size": 2048},
    ],
    ids=["plain", "priorities", "compressed", "small batches"],
)
def test_multicast_members_exchange_fragmented_messages(group: str, config: dict[str, object]) -> None:
    """Datagrams are lost where a receiver is slow, so what is missing is published again, on another key."""
    with their_peer(group, **config) as theirs, our_peer(group, **config) as mine:
        ear = meet(mine, theirs)
        numbers = itertools.count()

        def theirs_is_received() -> bool:
            ear.lines += theirs.execute(f"put test/theirs/{next(numbers)} {'v' * BIG}")
            return any(size == BIG for _, size in mine.received)

        def mine_is_received() -> bool:
            key = f"test/mine/{next(numbers)}"
            mine.put(key, BIG)
            return eventually(lambda: ear.has(f"{key} {BIG} bytes"), 1.0)

        assert eventually(theirs_is_received)
        assert eventually(mine_is_received)
        received = [line for line in ear.lines if "test/mine" in line]
        assert sorted(set(received)) == sorted(received)
        publications = [each for each in mine.received if each[1] == BIG]
        assert sorted(set(publications)) == sorted(publications)


def test_late_member_receives_from_a_declared_publisher(group: str) -> None:
    with our_peer(group) as mine:
        publisher = mine.session.declare_publisher("test/declared")
        publisher.put("early")
        with their_peer(group) as theirs:
            ear = meet(mine, theirs)
            publisher.put("late")
            assert eventually(lambda: ear.has("test/declared late"))


def test_each_multicast_member_receives_a_message_once(group: str) -> None:
    with their_peer(group) as theirs, our_peer(group) as mine, our_peer(group) as other:
        ear = meet(mine, theirs, other.zid)
        assert other.sees(theirs.zid, mine.zid)
        mine.put("test/three")
        assert eventually(lambda: ear.has("test/three x"))
        theirs.execute("put test/end v")
        for each in (mine, other):
            assert each.receives("test/end")
            assert each.received.count(("test/three", 1)) == 1
        ear.read_lines()
        assert ear.count("test/three x") == 1


def test_session_info_lists_multicast_member(group: str) -> None:
    with their_peer(group) as theirs, our_peer(group) as mine:
        assert mine.sees(theirs.zid)
        (transport,) = mine.session.info.transports()
        assert (transport.whatami, transport.is_multicast, transport.is_qos) == (zenspark.WhatAmI.PEER, True, False)
        (link,) = mine.session.info.links()
        assert (link.group, link.mtu, link.is_streamed) == (group.partition("#")[0], 65487, False)
        assert str(link.zid) == theirs.zid
        assert [str(each) for each in mine.session.info.peers_zid()] == [theirs.zid]


def close_session(theirs: Reference) -> None:
    """Have it close its session."""
    assert theirs.process.stdin is not None
    theirs.process.stdin.close()
    theirs.process.stdin = None
    theirs.process.wait(TIMEOUT_SECONDS)


def test_a_member_leaves_and_comes_back(group: str) -> None:
    with our_peer(group) as mine:
        with their_peer(group, id="bb") as theirs:
            meet(mine, theirs)
            close_session(theirs)
            assert mine.sees()
        with their_peer(group, id="bb") as theirs:
            meet(mine, theirs)
            theirs.execute("put test/back v")
            assert mine.receives("test/back")


def test_lease_expiry_removes_a_killed_member(group: str) -> None:
    with our_peer(group) as mine:
        with their_peer(group, transport__link__tx__lease=1000) as theirs:
            assert mine.sees(theirs.zid)
            theirs.kill()
        assert mine.sees()


def test_closed_zenspark_member_is_removed_before_its_lease_expires(group: str) -> None:
    with our_peer(group) as mine:
        with our_peer(group, transport__link__tx__lease=600_000) as other:
            assert mine.sees(other.zid)
            assert other.sees(mine.zid)
        assert mine.sees()
        with our_peer(group) as again:
            assert mine.sees(again.zid)
            assert again.sees(mine.zid)
            again.put("test/again")
            assert mine.receives("test/again")


def test_member_with_different_batch_size_is_ignored(group: str, caplog: pytest.LogCaptureFixture) -> None:
    with our_peer(group) as mine, their_peer(group, transport__link__tx__batch_size=2048) as theirs:
        assert eventually(lambda: "batch size 2048, expected 8192" in caplog.text)
        theirs.execute("put test/blocked v")
        with our_peer(group) as other:
            assert mine.sees(other.zid)
            other.put("test/passed")
            assert mine.receives("test/passed")
        assert ("test/blocked", 1) not in mine.received


def test_multicast_queries_with_eclipse_zenoh_get_no_replies(group: str) -> None:
    """eclipse-zenoh waits for its timeout where a member declares a queryable, so ours declares none."""
    with their_peer(group) as theirs, our_peer(group) as mine:
        ear = meet(mine, theirs)
        queryable = mine.session.declare_queryable("test/mine", lambda query: query.reply("test/mine", "answer"))
        theirs.execute("queryable test/theirs")
        assert list(mine.session.get("test/theirs")) == []
        assert [line for line in theirs.execute("get test/mine") if line.startswith("reply")] == []
        mine.put("test/end")
        assert eventually(lambda: ear.has("test/end x"))
        queryable.undeclare()


@pytest.mark.parametrize(("middle", "outer"), [("peer", "client"), ("router", "client"), ("router", "peer")])
def test_member_forwards_between_multicast_group_and_unicast_sessions(group: str, middle: str, outer: str) -> None:
    places = [group, "tcp/127.0.0.1:0"]
    with their_peer(group) as theirs, our_peer(group, listen__endpoints=places, mode=middle) as mine:
        ear = meet(mine, theirs)
        there = mine.session._runtime.node.listeners[0].locator.text
        with contextlib.closing(zenspark.open(ours(mode=outer, connect__endpoints=[there]))) as session:
            received: list[str] = []
            session.declare_subscriber("test/in/**", lambda sample: received.append(str(sample.key_expr)))
            numbers = itertools.count()

            def is_received() -> bool:
                theirs.execute(f"put test/in/{next(numbers)} v")
                return bool(received)

            assert eventually(is_received)
            assert sorted(set(received)) == sorted(received)
            session.put("test/out", "v")
            session.put("test/end", "v")
            assert eventually(lambda: ear.has("test/end v"))
            assert ear.count("test/out v") == 1


def test_members_with_a_unicast_session_receive_everything_once(group: str) -> None:
    places = [group, "tcp/127.0.0.1:0"]
    with our_peer(group, listen__endpoints=places) as mine:
        there = mine.session._runtime.node.listeners[0].locator.text
        with our_peer(group, connect__endpoints=[there]) as other:
            assert mine.sees(other.zid)
            assert other.sees(mine.zid)
            publisher = mine.session.declare_publisher("test/session", allowed_destination=zenspark.Locality.REMOTE)
            assert eventually(lambda: publisher.matching_status.matching)
            for number in range(20):
                mine.put(f"test/once/{number}")
            mine.put("test/end")
            for each in (mine, other):
                assert each.receives("test/end")
                assert sorted(each.received) == sorted([("test/end", 1), *((f"test/once/{n}", 1) for n in range(20))])


class RawMember:
    """A member by hand, like zenoh-pico: it sends interests and declarations to the group."""

    def __init__(self, link: GroupLink) -> None:
        self._link = link
        self._join = Join(
            version=9, whatami=WhatAmI.PEER, zid=ZenohId(0xF1), unit=TimeUnit.S, lease=60, sn_re=0, sn_be=0, patch=1
        )
        self._sn = 0
        self.received: list[NetworkMessage] = []
        link.send(encode(self._join))

    def send_message(self, message: NetworkMessage) -> None:
        """Send a message to the group."""
        self._link.send(encode(Frame(reliable=True, sn=self._sn, msgs=(message,))))
        self._sn += 1

    def leave(self) -> None:
        """Send CLOSE."""
        self._link.send(encode(Close(session=False, reason=0)))

    def receives(self, kind: type[NetworkMessage]) -> bool:
        """Whether a message of this type came."""
        buffer = memoryview(bytearray(1 << 16))
        while readable(self._link, 0) and (size := self._link.recv_into(buffer)) > 0:
            for message in decode_batch(bytes(buffer[:size])):
                self.received += message.msgs if isinstance(message, Frame) else ()
        return any(isinstance(message, kind) for message in self.received)


@pytest.mark.parametrize("with_theirs", [False, True])
def test_multicast_member_gets_replies_and_its_tokens_live_until_close(group: str, with_theirs: bool) -> None:
    """A member of eclipse-zenoh, which replies to no member of a group, is not disturbed by it."""
    with contextlib.ExitStack() as stack:
        mine = stack.enter_context(our_peer(group))
        tokens: list[tuple[str, str]] = []
        mine.session.liveliness().declare_subscriber(
            "alive/*", lambda sample: tokens.append((sample.kind.name, str(sample.key_expr)))
        )
        mine.session.declare_queryable("q/*", lambda query: query.reply("q/a", b"answer"))
        theirs = stack.enter_context(their_peer(group)) if with_theirs else None
        hand = RawMember(stack.enter_context(contextlib.closing(join(Endpoint.parse(group)))))
        assert eventually(lambda: "f1" in mine.others)
        hand.send_message(Declare(body=DeclareToken(id=1, wire_expr=WireExpr(0, "alive/1"))))
        assert eventually(lambda: tokens == [("PUT", "alive/1")])
        hand.send_message(Request(request_id=3, wire_expr=WireExpr(0, "q/*"), body=Query()))
        assert eventually(lambda: hand.receives(ResponseFinal))
        response, final = [each for each in hand.received if isinstance(each, Response | ResponseFinal)]
        assert isinstance(response, Response)
        assert (response.request_id, response.body) == (3, Reply(body=Put(payload=b"answer")))
        assert final == ResponseFinal(request_id=3)
        if theirs is not None:
            meet(mine, theirs, "f1")
        hand.leave()
        assert eventually(lambda: tokens == [("PUT", "alive/1"), ("DELETE", "alive/1")])


def test_interest_of_a_multicast_member_is_replied_to_without_effect_on_others(group: str) -> None:
    """eclipse-zenoh replies to no interest in a group, and takes no tokens from there."""
    with contextlib.ExitStack() as stack:
        mine = stack.enter_context(our_peer(group))
        theirs = stack.enter_context(their_peer(group))
        hand = RawMember(stack.enter_context(contextlib.closing(join(Endpoint.parse(group)))))
        meet(mine, theirs, "f1")
        token = mine.session.liveliness().declare_token("alive/mine")
        theirs.execute("token alive/theirs")
        mine.session.declare_queryable("alive/queryable", lambda query: query.drop())
        wanted = Interest(
            id=5, mode=InterestMode.CURRENT, tokens=True, queryables=True, wire_expr=WireExpr(0, "alive/*")
        )

        def declared() -> list[tuple[int | None, str]]:
            """What was declared for the interest, and undeclared; eclipse-zenoh declares its subscribers, too."""
            hand.receives(Declare)
            found = [(each.interest_id, each.body.NAME) for each in hand.received if isinstance(each, Declare)]
            return [each for each in dict.fromkeys(found) if each != (None, "D_SUBSCRIBER")]

        def has_final() -> bool:
            hand.send_message(wanted)  # again, for a datagram may be lost
            return (5, "D_FINAL") in declared()

        assert eventually(has_final)
        assert declared() == [(5, "D_TOKEN"), (5, "D_FINAL")]
        assert [line for line in theirs.execute("get alive/queryable") if line.startswith("reply")] == []
        token.undeclare()
        assert eventually(lambda: declared()[2:] == [(None, "U_TOKEN")])
        mine.put("test/end")
        assert eventually(lambda: ReceivedLines(theirs).has("test/end x"))
