# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""How a publication leaves this session: to its own subscribers, and to every neighbour with one.

A message is a head and a payload. The head depends on the key, the settings and the neighbour only, so for plain puts
it is made once and used until the routes change. The thread that publishes writes into the neighbours' outboxes itself.
Compiled, because every `put()` passes here.
"""

from __future__ import annotations

import cython
import msgspec

from zenspark.engine.runtime import SessionRuntime
from zenspark.engine.subscriptions import Subscriptions
from zenspark.key import KeyExpr
from zenspark.net.io.driver import LinkDriver
from zenspark.router.face import Interceptor
from zenspark.router.routing.routes import Routes
from zenspark.transport.outbox import FULL, REFUSED, Outbox
from zenspark.types.arguments import require_type
from zenspark.types.encoding import Encoding
from zenspark.types.enums import InterceptionPoint, Locality
from zenspark.types.ids import SourceInfo
from zenspark.types.sample import sample_from_body
from zenspark.types.timestamp_stack import TimestampInstrumentation
from zenspark.types.timestamps import Timestamp
from zenspark.types.zbytes import IntoZBytes, ZBytes, as_buffer
from zenspark.wire import values as wire
from zenspark.wire.codec import encode
from zenspark.wire.declare import replace
from zenspark.wire.messages import Declare, Del, Push, Put


class PublishSettings(msgspec.Struct, frozen=True):
    """The settings of a publication."""

    encoding: wire.Encoding = wire.Encoding.BYTES
    qos: wire.QoS = wire.QoS.DEFAULT
    reliable: bool = True
    destination: Locality = Locality.ANY
    fixed: frozenset[str] = frozenset()
    """The columns of a batch that do not count, because the configuration decides."""
    stamps: bool | None = None
    """Whether what has no timestamp gets one here; None if the configuration decides."""


@cython.cclass
class CachedPublisher:
    """One key and its settings, ready to publish."""

    _runtime: SessionRuntime
    _key_expr: KeyExpr
    _publishing: PublishSettings
    _is_declared: cython.bint
    _routes: Routes
    _subscriptions: Subscriptions
    _seen_routes: object
    _seen_subscriptions: object
    _is_plain: cython.bint
    _priority: cython.int
    _reliable: cython.bint
    _express: cython.bint
    _stamps: cython.bint
    _heads: list[tuple[LinkDriver, Outbox, bytes]]

    def __init__(
        self, runtime: SessionRuntime, key_expr: KeyExpr, publishing: PublishSettings, is_declared: bool = False
    ) -> None:
        self._runtime = runtime
        self._key_expr = key_expr
        self._publishing = publishing
        self._is_declared = is_declared
        self._routes = runtime.node.router.routes
        self._subscriptions = runtime.subscriptions
        self._seen_routes = self._seen_subscriptions = None  # the versions for which the following is so
        self._is_plain = False  # whether nobody here wants it, nobody else looks at it and no clock reading is added
        self._heads = []  # for each link with somebody who wants it
        self._priority = publishing.qos.priority
        self._express = publishing.qos.express
        self._reliable = publishing.reliable
        self._stamps = runtime.stamps if publishing.stamps is None else publishing.stamps

    def put(
        self,
        payload: IntoZBytes,
        encoding: Encoding | str | None = None,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        instrumentation: TimestampInstrumentation | None = None,
        source: SourceInfo | None = None,
    ) -> None:
        """Write a value."""
        if self._routes.version != self._seen_routes or self._subscriptions.version != self._seen_subscriptions:
            self._look_again()
        raw: bytes | memoryview = payload if type(payload) is bytes else as_buffer(payload)
        if (
            self._is_plain
            and encoding is None
            and attachment is None
            and timestamp is None
            and instrumentation is None
            and source is None
        ):
            self._send(raw)
            return
        body = Put(
            timestamp=self._stamp(timestamp),
            encoding=self._publishing.encoding if encoding is None else Encoding.of(encoding).to_wire(),
            source_info=None if source is None else require_type(SourceInfo, source).to_wire(),
            attachment=None if attachment is None else ZBytes.of(attachment).to_bytes(),
            payload=bytes(raw),
        )
        self._publish(body, instrumentation)

    def delete(
        self,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        instrumentation: TimestampInstrumentation | None = None,
        source: SourceInfo | None = None,
    ) -> None:
        """Remove the key."""
        body = Del(
            timestamp=self._stamp(timestamp),
            source_info=None if source is None else require_type(SourceInfo, source).to_wire(),
            attachment=None if attachment is None else ZBytes.of(attachment).to_bytes(),
        )
        self._publish(body, instrumentation)

    def _stamp(self, timestamp: Timestamp | None) -> wire.Timestamp | None:
        if timestamp is not None:
            return require_type(Timestamp, timestamp).to_wire()
        return self._runtime.stamp() if self._stamps else None

    def _look_again(self) -> None:
        """See who wants it: something has changed."""
        self._runtime.check()
        node, publishing = self._runtime.node, self._publishing
        body = Put(encoding=publishing.encoding, payload=b"")
        with node.lock:
            self._seen_routes, self._seen_subscriptions = self._routes.version, self._subscriptions.version
            wanted = self._subscriptions.route(str(self._key_expr), True)
            self._is_plain = not self._stamps and (publishing.destination is Locality.REMOTE or not wanted)
            heads = []
            targets = self._targets()
            self._is_plain = self._is_plain and all(guard is None for _, _, guard in targets)
            for driver, expr, _ in targets:
                outbox = driver.connection.outbox
                assert outbox is not None, "only a link with a session leads anywhere"
                whole = encode(Push(wire_expr=expr, qos=publishing.qos.for_patch(driver.patch), body=body))
                heads.append((driver, outbox, whole[: len(whole) - 1]))  # without the length of the empty payload
            self._heads = heads

    @cython.cfunc
    def _send(self, payload: bytes | memoryview) -> cython.void:
        """The short way: in the middle of a run straight into the outboxes of the links."""
        answer: cython.int
        for driver, outbox, head in self._heads:
            answer = REFUSED if self._express else outbox.flow(self._priority, self._reliable, head, payload)
            if answer == FULL:
                driver.write_full_batches()
            elif answer == REFUSED:
                driver.put(head, payload, self._publishing.qos, self._reliable)

    def _targets(self) -> list[tuple[LinkDriver, wire.WireExpr, Interceptor | None]]:
        if self._publishing.destination is Locality.SESSION_LOCAL:
            return []
        return publish_targets(self._runtime, str(self._key_expr), self._is_declared)

    def _is_wanted_here(self) -> bool:
        if self._publishing.destination is Locality.REMOTE:
            return False
        with self._runtime.lock:
            return bool(self._subscriptions.route(str(self._key_expr), True))

    def _publish(self, body: Put | Del, instrumentation: TimestampInstrumentation | None) -> None:
        """The whole way: any message, to subscribers of this session and of others."""
        node, qos = self._runtime.node, self._publishing.qos
        stack = self._runtime.stack(instrumentation)
        if self._is_wanted_here():
            received = self._runtime.stamped(stack, InterceptionPoint.RECEIVE)
            sample = sample_from_body(body, self._key_expr, qos, self._reliable, received)
            with node.lock:
                full = self._subscriptions.deliver(sample, True)
            self._runtime.backpressure.wait(full)
        with node.lock:
            targets = self._targets()
        stack = self._runtime.stamped(stack, InterceptionPoint.ROUTE)
        stamp = body.timestamp if self._runtime.timestamp_extension else None
        for driver, expr, guard in targets:
            message = Push(wire_expr=expr, qos=qos, timestamp=stamp, ts_stack=stack, body=body)
            push = intercept_egress(self._runtime, guard, message, self._reliable)
            if push is not None:
                driver.put(encode_for(push, driver), None, push.qos, self._reliable)


def intercept_egress(runtime: SessionRuntime, guard: Interceptor | None, push: Push, reliable: bool) -> Push | None:
    """A publication as it may leave to a neighbour; None if it may not."""
    if guard is None:
        return push
    with runtime.lock:
        return guard.admit(push, reliable, runtime.node.loop.now())


def encode_for(push: Push, driver: LinkDriver) -> bytes:
    """A publication as a neighbour is told it, who may not know every congestion control."""
    qos = push.qos.for_patch(driver.patch)
    return encode(push if qos is push.qos else replace(push, qos=qos))


def publish_targets(
    runtime: SessionRuntime, key: str, is_declared: bool
) -> list[tuple[LinkDriver, wire.WireExpr, Interceptor | None]]:
    """The links with somebody who wants a key, how to say it there, and who decides what may be said there.

    Guarded by the node's lock. A declared key is worth a number of its own on each.
    """
    node = runtime.node
    key = runtime.namespace.outward(key)
    targets = []
    for face in node.router.routes.push(node.local_face, key):
        driver = node.driver(face)
        if driver is None:
            continue
        binding = face.bind(key) if is_declared else None
        if binding is not None:
            driver.say(Declare(qos=wire.QoS.DECLARE, body=binding), wire.QoS.DECLARE)
        targets.append((driver, face.express(key), face.egress))
    return targets
