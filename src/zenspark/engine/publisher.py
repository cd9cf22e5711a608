# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""PreencodedPublisher: the send path of one key, to the subscribers of this session and to neighbours.

An encoded PUSH is a head and a payload. The head depends on the key, the settings and the neighbour only, so for
puts without further fields it is encoded once and used until the routes change. The publishing thread appends to the
neighbours' outboxes itself. It waits for full subscribers of this session in `receive_backpressure.py`, for links with
unsent bytes in `net/io/congestion_control.py`. Compiled, because every `put()` passes here.
"""

from __future__ import annotations

import cython
import msgspec

from zenspark.engine.runtime import SessionRuntime
from zenspark.engine.subscriptions import Subscriptions
from zenspark.key import KeyExpr
from zenspark.net.io.link_driver import LinkDriver
from zenspark.router.face import Interceptor
from zenspark.router.routing.routes import Routes
from zenspark.transport.outbox import APPEND_REFUSED, BATCH_FULL, Outbox
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
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import Declare, Del, Push, Put
from zenspark.wire.templates import put_head


class PublishSettings(msgspec.Struct, frozen=True):
    """The encoding, QoS and destination of publications."""

    encoding: wire.Encoding = wire.Encoding.BYTES
    qos: wire.QoS = wire.QoS.DEFAULT
    reliable: bool = True
    destination: Locality = Locality.ANY
    overridden_columns: frozenset[str] = frozenset()
    """The columns of a batch that are ignored, because the configuration overrides them."""
    add_timestamps: bool | None = None
    """Whether publications without a timestamp get one here; None if the configuration decides."""


@cython.cclass
class PreencodedPublisher:
    """Publishes on one key with one set of settings."""

    _runtime: SessionRuntime
    _key_expr: KeyExpr
    _settings: PublishSettings
    _is_declared: cython.bint
    _routes: Routes
    _subscriptions: Subscriptions
    _routes_version: object
    _subscriptions_version: object
    _is_plain: cython.bint
    _priority: cython.int
    _reliable: cython.bint
    _express: cython.bint
    _adds_timestamps: cython.bint
    _heads: list[tuple[LinkDriver, Outbox, bytes]]

    def __init__(
        self, runtime: SessionRuntime, key_expr: KeyExpr, settings: PublishSettings, is_declared: bool = False
    ) -> None:
        self._runtime = runtime
        self._key_expr = key_expr
        self._settings = settings
        self._is_declared = is_declared
        self._routes = runtime.node.router.routes
        self._subscriptions = runtime.subscriptions
        self._routes_version = self._subscriptions_version = None  # the versions for which the following is valid
        self._is_plain = False  # no local subscriber, no interceptor, and no timestamp to add
        self._heads = []  # the encoded head for each target link
        self._priority = settings.qos.priority
        self._express = settings.qos.express
        self._reliable = settings.reliable
        self._adds_timestamps = (
            runtime.timestamps.is_enabled if settings.add_timestamps is None else settings.add_timestamps
        )

    def put(
        self,
        payload: IntoZBytes,
        encoding: Encoding | str | None = None,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        instrumentation: TimestampInstrumentation | None = None,
        source: SourceInfo | None = None,
    ) -> None:
        """Publish a value."""
        if self._routes.version != self._routes_version or self._subscriptions.version != self._subscriptions_version:
            self._refresh_routes()
        raw: bytes | memoryview = payload if type(payload) is bytes else as_buffer(payload)
        if (
            self._is_plain
            and encoding is None
            and attachment is None
            and timestamp is None
            and instrumentation is None
            and source is None
        ):
            self._send_fast(raw)
            return
        body = Put(
            timestamp=self._timestamp(timestamp),
            encoding=self._settings.encoding if encoding is None else Encoding.of(encoding).to_wire(),
            source_info=None if source is None else require_type(SourceInfo, source).to_wire(),
            attachment=None if attachment is None else ZBytes.of(attachment).to_bytes(),
            payload=bytes(raw),
        )
        self._send_general(body, instrumentation)

    def delete(
        self,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        instrumentation: TimestampInstrumentation | None = None,
        source: SourceInfo | None = None,
    ) -> None:
        """Publish the removal of the key."""
        body = Del(
            timestamp=self._timestamp(timestamp),
            source_info=None if source is None else require_type(SourceInfo, source).to_wire(),
            attachment=None if attachment is None else ZBytes.of(attachment).to_bytes(),
        )
        self._send_general(body, instrumentation)

    def _timestamp(self, timestamp: Timestamp | None) -> wire.Timestamp | None:
        if timestamp is not None:
            return require_type(Timestamp, timestamp).to_wire()
        return self._runtime.timestamps.now() if self._adds_timestamps else None

    def _refresh_routes(self) -> None:
        """Find the targets and encode their heads again: routes or subscribers have changed."""
        self._runtime.check_open()
        node, settings = self._runtime.node, self._settings
        with node.lock:
            self._routes_version, self._subscriptions_version = self._routes.version, self._subscriptions.version
            subscribers = self._subscriptions.matching(str(self._key_expr), True)
            self._is_plain = not self._adds_timestamps and (settings.destination is Locality.REMOTE or not subscribers)
            heads = []
            targets = self._targets()
            self._is_plain = self._is_plain and all(interceptor is None for _, _, interceptor in targets)
            for driver, expr, _ in targets:
                outbox = driver.connection.outbox
                assert outbox is not None, "only links with an open session are targets"
                head = put_head(expr, settings.qos.for_patch(driver.patch), settings.encoding)
                heads.append((driver, outbox, head))
            self._heads = heads

    @cython.cfunc
    def _send_fast(self, payload: bytes | memoryview) -> cython.void:
        """Append to the outboxes of the target links without a lock, where they allow it."""
        result: cython.int
        for driver, outbox, head in self._heads:
            result = (
                APPEND_REFUSED
                if self._express
                else outbox.try_append_lockfree(self._priority, self._reliable, head, payload)
            )
            if result == BATCH_FULL:
                driver.write_full_batches()
            elif result == APPEND_REFUSED:
                driver.publish(head, payload, self._settings.qos, self._reliable)

    def _targets(self) -> list[tuple[LinkDriver, wire.WireExpr, Interceptor | None]]:
        if self._settings.destination is Locality.SESSION_LOCAL:
            return []
        return publish_targets(self._runtime, str(self._key_expr), self._is_declared)

    def _has_local_subscriber(self) -> bool:
        if self._settings.destination is Locality.REMOTE:
            return False
        with self._runtime.lock:
            return bool(self._subscriptions.matching(str(self._key_expr), True))

    def _send_general(self, body: Put | Del, instrumentation: TimestampInstrumentation | None) -> None:
        """Send any message: deliver it to local subscribers, then encode and send it for each target."""
        node, qos = self._runtime.node, self._settings.qos
        stack = self._runtime.timestamps.start_stack(instrumentation)
        if self._has_local_subscriber():
            received = self._runtime.timestamps.record(stack, InterceptionPoint.RECEIVE)
            sample = sample_from_body(body, self._key_expr, qos, self._reliable, received)
            with node.lock:
                full = self._subscriptions.deliver(sample, True)
            self._runtime.backpressure.wait(full)
        with node.lock:
            targets = self._targets()
        stack = self._runtime.timestamps.record(stack, InterceptionPoint.ROUTE)
        timestamp = body.timestamp if self._runtime.timestamps.has_push_extension else None
        for driver, expr, interceptor in targets:
            message = Push(wire_expr=expr, qos=qos, timestamp=timestamp, ts_stack=stack, body=body)
            push = intercept_egress(self._runtime, interceptor, message, self._reliable)
            if push is not None:
                driver.publish(encode_for(push, driver), None, push.qos, self._reliable)


def intercept_egress(
    runtime: SessionRuntime, interceptor: Interceptor | None, push: Push, reliable: bool
) -> Push | None:
    """Return a publication as the egress interceptor of a neighbour passes it; None if it is dropped."""
    if interceptor is None:
        return push
    with runtime.lock:
        return interceptor.intercept(push, reliable, runtime.node.loop.now())


def encode_for(push: Push, driver: LinkDriver) -> bytes:
    """Encode a publication for a neighbour; the QoS is reduced to what its protocol patch supports."""
    qos = push.qos.for_patch(driver.patch)
    return encode(push if qos is push.qos else replace(push, qos=qos))


def publish_targets(
    runtime: SessionRuntime, key: str, is_declared: bool
) -> list[tuple[LinkDriver, wire.WireExpr, Interceptor | None]]:
    """Return the targets of a key: link, wire expression there, and egress interceptor.

    Guarded by the node's lock. A declared key gets a numeric key id on each link.
    """
    node = runtime.node
    key = runtime.namespace.add_prefix(key)
    targets = []
    for face in node.router.routes.push_next_hops(node.local_face, key):
        driver = node.driver(face)
        if driver is None:
            continue
        binding = face.bind(key) if is_declared else None
        if binding is not None:
            driver.send_message(Declare(qos=wire.QoS.DECLARE, body=binding), wire.QoS.DECLARE)
        targets.append((driver, face.to_wire_expr(key), face.egress))
    return targets
