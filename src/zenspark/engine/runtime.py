"""SessionRuntime: the state of one session, and its connection to the router of its node.

It owns one object for each job (subscribers, queryables, queries, interests, timestamps, entity ids, backpressure),
and dispatches the messages that the router delivers to them. All of it is guarded by the node's lock. Callbacks and
queues of users only ever get items pushed here: nothing waits for them, and no callback runs with the lock held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zenspark.config.settings import Settings
from zenspark.engine.direct_queries import DirectQueries
from zenspark.engine.entity_registry import EntityRegistry
from zenspark.engine.interests import LocalInterests
from zenspark.engine.liveliness_queries import LivelinessQueries
from zenspark.engine.match_observers import MatchObservers
from zenspark.engine.namespace import Namespace
from zenspark.engine.queries import SessionQueries
from zenspark.engine.queryables import LocalQueryables
from zenspark.engine.receive_backpressure import ReceiveBackpressure
from zenspark.engine.session_sender import SessionSender
from zenspark.engine.subscriber_declarations import SubscriberDeclarations
from zenspark.engine.subscriptions import Subscriptions
from zenspark.engine.timestamping import TimestampCallback, Timestamper
from zenspark.errors import KeyLimitExceeded, SessionClosed
from zenspark.handlers.handler import BoundHandler, bind_handler, bind_sample_handler
from zenspark.key import KeyExpr
from zenspark.net.node.connector import Connector
from zenspark.net.node.node import Node
from zenspark.net.node.observer import Neighbour
from zenspark.router.face import Face
from zenspark.types.enums import SampleKind
from zenspark.types.query import RequestHandle
from zenspark.types.sample import sample_from_push
from zenspark.wire import messages
from zenspark.wire import values as wire
from zenspark.wire.columns import PushRun


class SessionRuntime:
    """Wires the parts of one session together, and dispatches received messages to them."""

    def __init__(self, node: Node, settings: Settings, timestamp_callback: TimestampCallback | None = None) -> None:
        self.node = node
        self.lock = node.lock
        self._key_limits = node.router.policy.limits.key
        self.namespace = Namespace(settings.namespace)
        self.sender = SessionSender(node, self.namespace)
        self.entities = EntityRegistry(node.identity.zid)
        self.timestamps = Timestamper(node, settings.timestamping, timestamp_callback)
        self.backpressure = ReceiveBackpressure(node)
        self.observers = MatchObservers()
        self.subscriptions = Subscriptions(self.backpressure, self.namespace)
        self.subscriber_declarations = SubscriberDeclarations(
            self.lock,
            self.sender,
            self.subscriptions,
            self.backpressure,
            self.observers,
            settings.aggregation.subscribers,
        )
        self.queryables = LocalQueryables(node, self.sender, self.backpressure, self.observers, self.timestamps)
        self.interests = LocalInterests(self.lock, self.sender, settings.aggregation.publishers)
        self.direct_queries = DirectQueries(node, self.backpressure, self.namespace, self.queryables)
        self.queries = SessionQueries(
            node, self.sender, self.direct_queries, self.queryables, self.timestamps, self.backpressure
        )
        self.liveliness = LivelinessQueries(node, self.interests, self.entities, self.backpressure)
        self.transport_listeners: dict[int, Callable[[SampleKind, Face, Neighbour], None]] = {}
        """Callbacks when a session with a neighbour opens (PUT) or closes (DELETE), by entity id."""
        self.connectors: Sequence[Connector] = ()
        """The connectors to the configured endpoints."""

    # -- lifecycle

    @property
    def is_closed(self) -> bool:
        """Whether the session was closed."""
        return self.sender.is_closed

    def check_open(self) -> None:
        """Raise SessionClosed if the session was closed."""
        if self.is_closed:
            raise SessionClosed("this session was closed")

    def wait_for_links(self) -> None:
        """Wait while a link is backlogged, before a declaration is sent; never with the lock held."""
        backlogged = [driver for driver in self.node.link_drivers if driver.is_backlogged]
        self.node.wait_until_drained(backlogged, wire.Congestion.BLOCK)

    def validate_key(self, key_expr: KeyExpr | str) -> KeyExpr:
        """Return a key expression of this session; raises KeyLimitExceeded here instead of on its way."""
        key = KeyExpr.of(key_expr)
        excess = self._key_limits.excess(self.namespace.add_prefix(str(key)))
        if excess is not None:
            raise KeyLimitExceeded(str(key), *excess)
        return key

    def call_soon(self, work: Callable[[], object]) -> None:
        """Run a function in the loop thread; takes no lock, so the garbage collector may call it."""
        self.node.loop.call_soon(work)

    def bind_handler(self, handler: object) -> BoundHandler:
        """Make the sink for a user's handler of items of any type."""
        return bind_handler(handler, self.node.loop, self.backpressure.on_drained)

    def bind_sample_handler(self, handler: object) -> BoundHandler:
        """Make the sink for a user's handler of samples; only these can be delivered as record batches."""
        return bind_sample_handler(handler, self.node.loop, self.backpressure.on_drained)

    def close(self) -> None:
        """Undeclare every entity, and finish every query without further replies."""
        self.sender.is_closed = True
        self.subscriptions.version += 1  # publishers refresh their routes, and raise SessionClosed
        self.entities.undeclare_all()
        self.queries.finish_all()

    # -- received from the router

    def receive(self, message: messages.NetworkMessage, source: Face, reliable: bool) -> None:
        stripped = self.namespace.strip_from_message(message)
        match stripped:
            case None if isinstance(message, messages.Request):
                self.sender.send(messages.ResponseFinal(request_id=message.request_id, qos=message.qos))
            case messages.Push():
                self._receive_push(self.timestamps.record_receive(stripped), source, reliable)
            case messages.Request():
                self.queryables.receive(self.timestamps.record_receive(stripped), source)
            case messages.Response():
                self.queries.receive_response(self.timestamps.record_receive(stripped), source)
            case messages.ResponseFinal():
                self.queries.receive_final(stripped.request_id)
            case messages.Declare():
                self.interests.receive(stripped, source)

    def _receive_push(self, push: messages.Push, face: Face, reliable: bool) -> None:
        sample = sample_from_push(push, KeyExpr(push.wire_expr.suffix), reliable)
        for sink in self.subscriptions.deliver(sample, False):
            self.backpressure.on_full(sink, face)

    def receive_push_run(self, face: Face, pushes: PushRun, keys: list[str | None]) -> None:
        self.subscriptions.deliver_push_run(face, pushes, keys)

    # -- received from neighbours, before the router

    def try_handle(self, face: Face, message: messages.NetworkMessage) -> bool:
        if isinstance(message, (messages.Response, messages.ResponseFinal)):
            return self.direct_queries.try_handle_reply(face, message)
        return isinstance(message, messages.Request) and self._try_handle_request(face, message)

    def _try_handle_request(self, face: Face, request: messages.Request) -> bool:
        direct = self.direct_queries.try_accept(face, request)
        if direct is None:
            return False
        handle = RequestHandle(request, direct.key_expr, direct.send_reply, direct.finish, self.call_soon)
        self.queryables.deliver_remote(handle, face)
        return True

    def on_neighbour_joined(self, face: Face, neighbour: Neighbour) -> None:
        for notify in list(self.transport_listeners.values()):
            notify(SampleKind.PUT, face, neighbour)

    def on_neighbour_left(self, face: Face, neighbour: Neighbour) -> None:
        self.direct_queries.remove_face(face)
        for notify in list(self.transport_listeners.values()):
            notify(SampleKind.DELETE, face, neighbour)
