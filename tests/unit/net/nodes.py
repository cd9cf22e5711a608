"""Nodes and drivers for tests: they record what they receive, and every wait is for an event."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from tests.unit.net.ends import link_pair
from tests.wait import TIMEOUT_SECONDS
from zenspark.net.io.congestion_control import WriterSettings
from zenspark.net.io.link_driver import ConnectionDriver, LinkDriver
from zenspark.net.io.link_observer import LinkObserver
from zenspark.net.links.base import Buffer, Link
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.loop.event_loop import EventLoop
from zenspark.net.node.autoconnect import Autoconnector
from zenspark.net.node.limits import NodeLimits
from zenspark.net.node.node import Node
from zenspark.net.node.observer import Neighbour, NodeObserver
from zenspark.router.face import Face
from zenspark.router.linkstate.gossip import DiscoveredNode, GossipProtocol
from zenspark.transport.connection import Connection, ConnectionEvent, SessionRequested
from zenspark.transport.handshake import Acceptor, Capabilities, Identity, Initiator, Opened
from zenspark.transport.multicast import GroupSettings
from zenspark.transport.receiver import Closed, MessageReceived
from zenspark.wire.codec import encode
from zenspark.wire.columns import PushRun
from zenspark.wire.messages import Declare, DeclareSubscriber, NetworkMessage, Push, Put
from zenspark.wire.values import Congestion, Priority, QoS, Roles, WhatAmI, WireExpr, ZenohId

QUICK = WriterSettings(close_linger=0.2)
KEY = "test/key"
CHUNK = b"c" * 20_000


def qos(congestion: Congestion = Congestion.BLOCK, express: bool = False, priority: Priority = Priority.DATA) -> QoS:
    return QoS(priority, congestion, express)


def push(payload: bytes, treatment: QoS | None = None) -> Push:
    return Push(wire_expr=WireExpr(0, KEY), qos=treatment or qos(), body=Put(payload=payload))


class EventRecorder:
    """What happened, and a way to wait for it."""

    def __init__(self) -> None:
        self.events: list[object] = []
        self._changed = threading.Condition()

    def note(self, event: object) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def wait(self, is_so: Callable[[], bool], timeout: float = TIMEOUT_SECONDS) -> bool:
        with self._changed:
            return self._changed.wait_for(is_so, timeout)

    @property
    def payloads(self) -> list[bytes]:
        return [
            event.body.payload for event in list(self.events) if isinstance(event, Push) and isinstance(event.body, Put)
        ]

    def wait_payloads(self, count: int) -> list[bytes]:
        assert self.wait(lambda: len(self.payloads) >= count), f"only {len(self.payloads)} of {count} came"
        return self.payloads

    @property
    def closure(self) -> Closed | None:
        return next((event for event in list(self.events) if isinstance(event, Closed)), None)

    def wait_closed(self) -> Closed:
        assert self.wait(lambda: self.closure is not None), "it was not closed"
        assert self.closure is not None
        return self.closure


# -- drivers without a node ---------------------------------------------------------------------------------------


class End(EventRecorder, LinkObserver):
    """One end of a link with a driver; every session is accepted."""

    def __init__(self, link: Link, side: Initiator | Acceptor, writer: WriterSettings = QUICK) -> None:
        super().__init__()
        self.loop = EventLoop("test-end")
        connection = Connection(side, self.loop.now(), is_streamed=link.is_streamed)
        self.link_closed = threading.Event()
        self.driver = ConnectionDriver(self.loop, link, connection, self._on_event, writer, self)
        self.loop.start()
        self.loop.call_soon(self.driver.start)

    def _on_event(self, driver: ConnectionDriver, event: ConnectionEvent) -> None:
        match event:
            case SessionRequested():
                driver.accept()
            case PushRun(columns, start, stop):
                for row in range(start, stop):
                    self.note(columns.push(row))
            case MessageReceived(message):
                self.note(message)
            case _:
                self.note(event)

    def on_link_closed(self, driver: LinkDriver) -> None:
        self.link_closed.set()

    def wait_open(self) -> None:
        assert self.wait(lambda: any(isinstance(event, Opened) for event in self.events)), self.events

    def put(self, payload: bytes, treatment: QoS | None = None) -> bool:
        used = treatment or qos()
        return self.driver.publish(encode(push(payload, used)), None, used, True)

    def in_loop(self, work: Callable[[], object]) -> None:
        """Run something in the loop, and wait until it is done."""
        done = threading.Event()
        self.loop.call_soon(work)
        self.loop.call_soon(done.set)
        assert done.wait(TIMEOUT_SECONDS)

    def close(self) -> None:
        self.loop.call_soon(self.driver.end_session)
        assert self.link_closed.wait(TIMEOUT_SECONDS)
        self.loop.call_soon(self.driver.close_link)
        assert self.loop.stop(TIMEOUT_SECONDS)


def opening(number: int = 0xA1, offer: Capabilities | None = None) -> Initiator:
    return Initiator(Identity(ZenohId(number), WhatAmI.PEER), offer or Capabilities())


def accepting(number: int = 0xB0B, offer: Capabilities | None = None) -> Acceptor:
    return Acceptor(Identity(ZenohId(number), WhatAmI.PEER), offer or Capabilities(), bytes(32), 7)


@contextlib.contextmanager
def ends(
    offer: Capabilities | None = None,
    writer: WriterSettings = QUICK,
    streamed: bool = True,
    buffer_size: int | None = None,
) -> Iterator[tuple[End, End]]:
    """Two ends with a session between them."""
    left, right = link_pair(streamed, buffer_size)
    bob = End(right, accepting(offer=offer), writer)
    alice = End(left, opening(offer=offer), writer)
    try:
        alice.wait_open()
        bob.wait_open()
        yield alice, bob
    finally:
        alice.close()
        bob.close()


class RecordingLink(Link):
    """A link that records the sent batches, and their senders."""

    def __init__(self, inner: Link) -> None:
        self._inner = inner
        self.endpoint, self.src, self.dst = inner.endpoint, inner.src, inner.dst
        self.is_streamed, self.is_reliable = inner.is_streamed, inner.is_reliable
        self.writes: list[tuple[int, bool]] = []
        self.bytes_sent = bytearray()
        """The bytes that the link took."""

    def fileno(self) -> int:
        return self._inner.fileno()

    def recv_into(self, buffer: memoryview) -> int:
        return self._inner.recv_into(buffer)

    def send(self, data: Buffer) -> int:
        self.writes.append((len(data), "test-end" in threading.current_thread().name))
        count = self._inner.send(data)
        self.bytes_sent += memoryview(data)[:count]
        return count

    def wait_writable(self, timeout: float) -> bool:
        return self._inner.wait_writable(timeout)

    def close(self) -> None:
        self._inner.close()


@contextlib.contextmanager
def ends_with_paused_reader(writer: WriterSettings, offer: Capabilities | None = None) -> Iterator[tuple[End, End]]:
    """Two ends, the second of which does not read for the moment."""
    with ends(offer, writer, buffer_size=4096) as (alice, bob):
        bob.driver.pause()
        bob.in_loop(lambda: None)
        yield alice, bob


def fill(alice: End) -> int:
    """Send messages until the link takes no more. Returns their number."""
    count = 0
    while not alice.driver._unsent:
        assert alice.put(b"fill%d" % count + CHUNK)
        count += 1
    return count


# -- nodes --------------------------------------------------------------------------------------------------------


class Recorder(EventRecorder):
    """The session of a node; records what it receives."""

    def receive(self, message: NetworkMessage, source: Face, reliable: bool) -> None:
        self.note(message)

    def try_handle(self, face: Face, message: NetworkMessage) -> bool:
        return False

    def receive_push_run(self, face: Face, pushes: PushRun, keys: list[str | None]) -> None:
        columns = pushes.columns
        for row in range(pushes.start, pushes.stop):
            if keys[columns.template_index[row]] is not None:
                self.note(columns.push(row))

    def on_neighbour_joined(self, face: Face, neighbour: Neighbour) -> None:
        self.note(("opened", face.zid.value))

    def on_neighbour_left(self, face: Face, neighbour: Neighbour) -> None:
        self.note(("closed", face.zid.value))


class RecordingObserver(EventRecorder, NodeObserver):
    """Records waiting callbacks and discovered nodes; passes events to the autoconnector of the node, if it has one."""

    autoconnector: Autoconnector | None = None

    def on_callback_waiting(self, is_waiting: bool) -> None:
        self.note(is_waiting)

    def on_node_discovered(self, discovered: DiscoveredNode) -> None:
        self.note(discovered)
        if self.autoconnector is not None:
            self.autoconnector.on_node_discovered(discovered)

    def on_session_lost(self, zid: ZenohId) -> None:
        if self.autoconnector is not None:
            self.autoconnector.on_session_lost(zid)


class TestNode(Node):
    """A node on loopback, with the session that goes with it."""

    __test__ = False

    def __init__(
        self,
        number: int,
        whatami: WhatAmI = WhatAmI.PEER,
        limits: NodeLimits | None = None,
        offer: Capabilities | None = None,
        gossip: bool = False,
        groups: GroupSettings = GroupSettings(),  # noqa: B008 - frozen
    ) -> None:
        zid = ZenohId(number)
        super().__init__(
            Identity(zid, whatami),
            offer or Capabilities(),
            limits or NodeLimits(writer=QUICK),
            gossip=GossipProtocol(zid, whatami, Roles(7)) if gossip else None,
            groups=groups,
        )
        self.received = Recorder()
        self.observer = RecordingObserver()
        self.start(self.received, self.observer)

    def listen_on_loopback(self, protocol: str = "tcp") -> Endpoint:
        """Listen somewhere on loopback; where."""
        return Endpoint.parse(self.listen(Endpoint.parse(f"{protocol}/127.0.0.1:0")).locator.text)

    def neighbours(self) -> set[int]:
        return {face.zid.value for face in self.drivers}

    def wait_for(self, *neighbours: int) -> None:
        """Wait until exactly these are neighbours."""
        assert self.wait(lambda: self.neighbours() == set(neighbours), TIMEOUT_SECONDS), self.neighbours()

    def subscribe(self) -> None:
        self.send_local(Declare(body=DeclareSubscriber(id=1, wire_expr=WireExpr(0, KEY))))

    def publish(self, payload: bytes) -> None:
        """Publish to the subscribers of KEY."""
        with self.lock:
            faces = self.router.routes.push_next_hops(self.local_face, KEY)
        for face in faces:
            driver = self.driver(face)
            if driver is not None:
                message = Push(wire_expr=face.to_wire_expr(KEY), qos=qos(), body=Put(payload=payload))
                driver.publish(encode(message), None, qos(), True)


@contextlib.contextmanager
def nodes(*made: TestNode) -> Iterator[None]:
    """Nodes that are closed in the end."""
    try:
        yield
    finally:
        for node in made:
            node.close()
            assert node.loop._ended.is_set()


def call(node: TestNode, endpoint: Endpoint) -> EventRecorder:
    """Connect; what becomes of it."""
    recorder = EventRecorder()
    node.connect(endpoint, lambda _, event: recorder.note(event))
    return recorder
