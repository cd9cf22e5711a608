"""Publications passed on in columns arrive as those passed on one by one: same order, same lanes, same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from tests import strategies
from tests.strategies import examples
from zenspark.clock import HybridClock, ntp64_from_ns
from zenspark.errors import LimitExceeded
from zenspark.router.face import Face
from zenspark.router.forwarding.plans import ForwardingPlanner, plans_by_neighbour
from zenspark.router.linkstate.network import TREES_DELAY_SECONDS
from zenspark.router.router import Router, RouterPolicy
from zenspark.router.timestamping import TimestampPolicy
from zenspark.transport.framing import decompress
from zenspark.transport.outbox import Outbox
from zenspark.transport.receiver import FrameReceiver, LaneParameters, MessageReceived
from zenspark.wire.codec import encode, encode_link_states
from zenspark.wire.columns import BatchDecoder, Framing, PushColumns, PushRun, RowForwarder, StopReason
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import (
    Declare,
    DeclareFinal,
    DeclareKeyexpr,
    DeclareSubscriber,
    Del,
    Frame,
    LinkState,
    NetworkMessage,
    NetworkOam,
    Push,
    Put,
    UndeclareKeyexpr,
    UndeclareSubscriber,
)
from zenspark.wire.values import BoundExpr, Mapping, NextSns, Priority, Timestamp, WhatAmI, WireExpr, ZenohId

OWN = ZenohId(0x0123456789ABCDEF)
BESIDE, BEHIND, FAR = ZenohId(0x20), ZenohId(0x21), ZenohId(0x22)
NOW = 1_700_000_000_000_000_000
HOUR = 3_600_000_000_000
SN_MASK = 0xFFF
PATCH = 1
NAMES = ("source", "client", "peer", "router", "far", "group", "member")
SENDERS = ("source", "source", "source", "client", "peer", "router", "router", "member")
KEYS = ("a", "a/b", "a/b/c", "b", "a/*", "**", "not//a/key")

Guarded = st.sampled_from([None, "client", "router"])


class Link(msgspec.Struct, frozen=True):
    """What was agreed with a neighbour."""

    batch_size: int
    qos: bool
    compression: bool
    low_latency: bool


class NeighbourMessage(msgspec.Struct, frozen=True):
    """A neighbour sends a message."""

    who: str
    message: NetworkMessage
    reliable: bool = True


class Run(msgspec.Struct, frozen=True):
    """One of them sends several messages at once, in frames of their lanes."""

    who: str
    messages: tuple[tuple[Push, bool], ...]


class Refusing:
    """A guard that keeps what has no payload."""

    def intercept(self, message: Any, reliable: bool, now: float) -> Any:  # noqa: ANN401
        return None if isinstance(message, Push) and isinstance(message.body, Del) else message


class World:
    """One router, its neighbours, and what each of them is sent."""

    def __init__(self, stamps: bool, drops: bool, guarded: str | None, links: dict[str, Link]) -> None:
        stamping = TimestampPolicy(OWN, HybridClock(), lambda: NOW, drops) if stamps else None
        self.router = Router(OWN, WhatAmI.ROUTER, RouterPolicy(timestamping=stamping))
        self.local = self.router.add_local()
        self.received: list[tuple[Push, bool]] = []
        group = self.router.add_group()
        self.faces = {
            "source": self.router.add_face(ZenohId(0x10), WhatAmI.CLIENT, 0.0)[0],
            "client": self.router.add_face(ZenohId(0x11), WhatAmI.CLIENT, 0.0)[0],
            "peer": self.router.add_face(ZenohId(0x12), WhatAmI.PEER, 0.0)[0],
            "router": self.router.add_face(BESIDE, WhatAmI.ROUTER, 0.0)[0],
            "far": self.router.add_face(FAR, WhatAmI.ROUTER, 0.0)[0],
            "group": group,
            "member": self.router.add_member(group, ZenohId(0x13), WhatAmI.PEER),
        }
        states = [
            LinkState(psid=0, sn=2, zid=BESIDE, whatami=1, links=(1, 2)),
            LinkState(psid=1, sn=1, zid=OWN, whatami=1, links=(0, 3)),
            LinkState(psid=2, sn=2, zid=BEHIND, whatami=1, links=(0,)),
            LinkState(psid=3, sn=2, zid=FAR, whatami=1, links=(1,)),
        ]
        announced = NetworkOam(id=NetworkOam.LINK_STATE, zbuf=encode_link_states(states))
        self.router.receive(self.faces["router"], announced, 0.0)
        states = [
            LinkState(psid=0, sn=3, zid=FAR, whatami=1, links=(1,)),
            LinkState(psid=1, sn=1, zid=OWN, whatami=1),
        ]
        announced = NetworkOam(id=NetworkOam.LINK_STATE, zbuf=encode_link_states(states))
        self.router.receive(self.faces["far"], announced, 0.0)
        self.router.handle_timeout(TREES_DELAY_SECONDS)
        self.outboxes = {
            face: Outbox(link.batch_size, 7, SN_MASK, link.qos, link.compression, link.low_latency)
            for face, link in ((self.faces[name], link) for name, link in links.items())
        }
        self.batch_sizes = {self.faces[name]: link.batch_size for name, link in links.items()}
        if guarded is not None:
            self.faces[guarded].egress = Refusing()

    def receive(self, face: Face, message: NetworkMessage, reliable: bool) -> None:
        """One message, as an object."""
        for target, sent in self.router.receive(face, message, 1.0):
            passed = sent if target.egress is None else target.egress.intercept(sent, reliable, 1.0)
            if target is self.local:
                if isinstance(sent, Push):
                    self.received.append((replace(sent, wire_expr=WireExpr(0, "local")), reliable))
            elif isinstance(passed, Push):  # declarations are not what this is about
                self.append(target, passed, reliable)

    def append(self, target: Face, push: Push, reliable: bool) -> None:
        try:
            self.outboxes[target].append(push.qos.priority, reliable, encode(push))
        except LimitExceeded:  # a low-latency session cannot fragment
            assert len(encode(push)) > self.batch_sizes[target]


class OneByOne(World):
    """Passes on every message by itself."""

    def run(self, run: Run) -> None:
        for message, reliable in run.messages:
            self.receive(self.faces[run.who], message, reliable)


class InColumns(World):
    """Passes on what it can in columns."""

    def __init__(self, *arguments: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments)
        self.forwarding = ForwardingPlanner(self.router, self.local)
        self.columns = PushColumns(5, 4, 3)

    def run(self, run: Run) -> None:
        face = self.faces[run.who]
        cursor = BatchDecoder(b"".join(batches(run)), Framing.STREAM, 0xFFFF)
        outcome = StopReason.FULL
        while outcome is not StopReason.END:
            self.columns.clear()
            outcome = cursor.decode(self.columns)
            self.receive_columns(face, self.columns)
            if outcome is StopReason.MESSAGE:
                message = cursor.message()
                assert isinstance(message, NetworkMessage)
                self.receive(face, message, cursor.reliable)

    def receive_columns(self, face: Face, columns: PushColumns) -> None:
        plans = self.forwarding.plans(face, columns, 0, len(columns))
        if plans is None:
            for row in range(len(columns)):
                self.receive(face, columns.push(row), columns.template_at(columns.template_index[row]).reliable)
            return
        pushes = PushRun(columns, 0, len(columns), timestamped_by=None if self.router.timestamping is None else OWN)
        for row in range(len(columns)):
            if plans[columns.template_index[row]].is_local:
                self.received.append(local_row(pushes, row))
        for target, share in plans_by_neighbour(plans):
            relay = RowForwarder(columns, 0, len(columns), bytes(share.lanes), share.heads, OWN.to_bytes())
            while relay.lane >= 0:
                try:
                    self.outboxes[target].append_forwarded(relay)
                except LimitExceeded:
                    continue


def local_row(pushes: PushRun, row: int) -> tuple[Push, bool]:
    """What the session makes of a row."""
    template = pushes.template_at(pushes.columns.template_index[row])
    push = replace(pushes.columns.push(row), wire_expr=WireExpr(0, "local"), node_id=0)
    if isinstance(push.body, Put) and template.timestamp_id is not None:
        stamp = Timestamp(pushes.columns.timestamp[row], template.timestamp_id)
        push = replace(push, body=replace(push.body, timestamp=stamp))
    return push, template.reliable


def batches(run: Run) -> Iterator[bytes]:
    for message, reliable in run.messages:
        content = encode(Frame(reliable=reliable, sn=1, priority=message.qos.priority, msgs=(message,)))
        yield len(content).to_bytes(2, "little") + content


# -- what arrives ---------------------------------------------------------------------------------------------------


def arrived(written: Sequence[bytes], link: Link) -> list[tuple[Push, bool]]:
    """The messages in what was written to a neighbour."""
    lanes = LaneParameters(link.qos, SN_MASK, PATCH, NextSns(((7, 7),) * len(Priority)), 1 << 20)
    frame_receiver = FrameReceiver(lanes, PushColumns(64))
    found: list[tuple[Push, bool]] = []
    for batch in written:
        if link.low_latency:
            cursor = BatchDecoder(batch, Framing.BARE, 1 << 20)
        elif link.compression:
            cursor = BatchDecoder(decompress(batch[2:], link.batch_size), Framing.BATCH)
        else:
            cursor = BatchDecoder(batch, Framing.STREAM, link.batch_size - 2)
        for event in frame_receiver.events(cursor):
            if isinstance(event, PushRun):
                columns = event.columns
                for row in range(event.start, event.stop):
                    found.append((columns.push(row), columns.template_at(columns.template_index[row]).reliable))
            else:
                assert isinstance(event, MessageReceived), event
                assert isinstance(event.message, Push)
                found.append((event.message, event.reliable))
    return found


def unstamped(found: list[tuple[Push, bool]]) -> tuple[list[tuple[Push, bool]], list[int]]:
    """Remove the timestamps of the router's own clock, which differ from run to run. Returns these as well."""
    own, without = [], []
    for push, reliable in found:
        body = push.body
        if body.timestamp is not None and body.timestamp.id == OWN:
            own.append(body.timestamp.ntp64)
            push = replace(push, body=replace(body, timestamp=Timestamp(0, OWN)))
        without.append((push, reliable))
    return without, own


# -- messages --------------------------------------------------------------------------------------------------------

links = st.builds(
    Link, st.sampled_from([64, 100, 2000]), st.booleans(), st.sampled_from([False, False, True]), st.just(False)
) | st.builds(Link, st.sampled_from([64, 2000]), st.just(True), st.just(False), st.just(True))
numbers = st.integers(1, 3)
exprs = st.builds(WireExpr, st.just(0), st.sampled_from([*KEYS, *KEYS[:3]])) | st.builds(
    WireExpr, numbers, st.sampled_from(["", "/b", "/b/c"]), st.sampled_from(Mapping)
)
clocks = st.none() | st.sampled_from([NOW - HOUR, NOW, NOW + 1, NOW + 100_000_000, NOW + HOUR]).map(
    lambda time: Timestamp(ntp64_from_ns(time), ZenohId(0x77))
)


@st.composite
def pushes(draw: st.DrawFn) -> tuple[Push, bool]:
    push = draw(strategies.messages(Push))
    assert isinstance(push, Push)
    assume(not getattr(push.body, "shm", False))
    if draw(st.booleans()):
        push = Push(qos=push.qos, wire_expr=push.wire_expr, body=Put(payload=b"x" * draw(st.integers(0, 150))))
    body = replace(push.body, timestamp=draw(clocks))
    node_id = draw(st.sampled_from([0, 0, 0, 2, 2, 3, 9]))
    return replace(push, wire_expr=draw(exprs), body=body, node_id=node_id), draw(st.booleans())


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Often several that are alike."""
    kinds = draw(st.lists(pushes(), min_size=1, max_size=4))
    who = draw(st.sampled_from(SENDERS))
    return Run(who, tuple(draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=12))))


def declared(body: Any, node_id: int = 0) -> Declare:  # noqa: ANN401
    return Declare(body=body, node_id=node_id)


neighbours = st.sampled_from(["client", "peer", "router", "far", "source"])
subscriptions = st.builds(
    lambda who, number, key, node: NeighbourMessage(
        who, declared(DeclareSubscriber(id=number, wire_expr=WireExpr(0, key)), node if who == "router" else 0)
    ),
    neighbours,
    numbers,
    st.sampled_from(KEYS[:-1]),
    st.sampled_from([0, 2]),
)
changes = st.one_of(
    subscriptions,
    subscriptions,
    st.builds(lambda who, number: NeighbourMessage(who, declared(UndeclareSubscriber(id=number))), neighbours, numbers),
    st.builds(
        lambda who, number, key: NeighbourMessage(
            who, declared(DeclareKeyexpr(expr_id=number, wire_expr=BoundExpr(0, key)))
        ),
        neighbours,
        numbers,
        st.sampled_from(KEYS[:3]),
    ),
    st.builds(
        lambda who, number: NeighbourMessage(who, declared(UndeclareKeyexpr(expr_id=number))), neighbours, numbers
    ),
    st.just(NeighbourMessage("peer", declared(DeclareFinal()))),
)
first = st.tuples(
    *(
        st.just(NeighbourMessage(who, declared(DeclareSubscriber(id=1, wire_expr=WireExpr(0, key)))))
        for who, key in (("client", "a/**"), ("peer", "**"), ("router", "a/*"), ("far", "a"), ("source", "b"))
    )
).map(list)


@given(
    st.booleans(),
    st.booleans(),
    Guarded,
    st.fixed_dictionaries(dict.fromkeys(NAMES, links)),
    st.booleans(),
    first,
    st.lists(runs() | runs() | changes, min_size=1, max_size=8),
)
@examples(200)
def test_forwarding_by_columns_equals_forwarding_by_message(
    stamps: bool,
    drops: bool,
    guarded: str | None,
    agreed: dict[str, Link],
    listens: bool,
    before: list[NeighbourMessage],
    steps: list[NeighbourMessage | Run],
) -> None:
    steps = [*steps, *steps]  # what was found out about a template is used again, after what has changed since
    arguments = (stamps, drops, guarded, agreed)
    slow, fast = OneByOne(*arguments), InColumns(*arguments)
    worlds: tuple[OneByOne | InColumns, ...] = (slow, fast)
    for world in worlds:
        if listens:
            declaration = declared(DeclareSubscriber(id=1, wire_expr=WireExpr(0, "a")))
            world.router.receive(world.local, declaration, 1.0)
        for step in [*before, *steps]:
            if isinstance(step, Run):
                world.run(step)
            else:
                world.receive(world.faces[step.who], step.message, step.reliable)
    assert unstamped(fast.received)[0] == unstamped(slow.received)[0]
    for name, link in agreed.items():
        one, other = (world.outboxes[world.faces[name]] for world in worlds)
        assert one.next_sns == other.next_sns
        written, same = ([bytes(batch) for batch in outbox.pop_all()] for outbox in (one, other))
        if stamps:
            expected, own = unstamped(arrived(written, link))
            found, also = unstamped(arrived(same, link))
            assert found == expected
            assert len(set(also)) == len(set(own)) == len(own)
        else:
            assert same == written
