"""How a publication leaves this session: to its own subscribers, and to every neighbour with one.

A message is a head and a payload. The head depends on the key, the settings and the neighbour only, so for plain puts
it is made once and used until the routes change. The thread that publishes writes into the neighbours' outboxes itself.
"""

from __future__ import annotations

import msgspec

from zenspark.api.encoding import Encoding
from zenspark.api.enums import Locality
from zenspark.api.hub import Hub
from zenspark.api.ids import SourceInfo
from zenspark.api.instrumentation import TimestampInstrumentation
from zenspark.api.sample import sample_from_body
from zenspark.api.timestamps import Timestamp
from zenspark.api.zbytes import IntoZBytes, ZBytes, buffer_of
from zenspark.key import KeyExpr
from zenspark.net.driver import Driver
from zenspark.net.node import Node
from zenspark.wire import values as wire
from zenspark.wire.codec import encode
from zenspark.wire.messages import Declare, Del, Push, Put

_NO_EXTRAS = (None, None, None, None, None)


class Publishing(msgspec.Struct, frozen=True):
    """The settings of a publication."""

    encoding: wire.Encoding = wire.Encoding.BYTES
    qos: wire.QoS = wire.QoS.DEFAULT
    reliable: bool = True
    destination: Locality = Locality.ANY


class Publication:
    """One key and its settings, ready to publish."""

    def __init__(self, hub: Hub, key_expr: KeyExpr, publishing: Publishing, is_declared: bool = False) -> None:
        self._hub = hub
        self._key_expr = key_expr
        self._key = str(key_expr)
        self._publishing = publishing
        self._is_declared = is_declared
        """Whether the key is worth a number of its own."""
        self._heads: tuple[int, list[tuple[Driver, bytes]]] = (-1, [])
        """The version of the routes they were made for, and a head for each link."""

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
        raw = buffer_of(payload)
        extras = (encoding, attachment, timestamp, instrumentation, source)
        if extras == _NO_EXTRAS and not self._hub.stamps and not self._is_wanted_here():
            self._send_plain(raw)
            return
        body = Put(
            timestamp=self._stamp(timestamp),
            encoding=self._publishing.encoding if encoding is None else Encoding.of(encoding).to_wire(),
            source_info=None if source is None else source.to_wire(),
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
            source_info=None if source is None else source.to_wire(),
            attachment=None if attachment is None else ZBytes.of(attachment).to_bytes(),
        )
        self._publish(body, instrumentation)

    def _stamp(self, timestamp: Timestamp | None) -> wire.Timestamp | None:
        if timestamp is not None:
            return timestamp.to_wire()
        return self._hub.stamp() if self._hub.stamps else None

    def _is_wanted_here(self) -> bool:
        if self._publishing.destination is Locality.REMOTE:
            return False
        route = self._hub.subscriptions.local_route(self._key)
        if route is None:
            with self._hub.lock:
                route = self._hub.subscriptions.route(self._key, True)
        return bool(route)

    def _send_plain(self, payload: bytes | memoryview) -> None:
        """The short way: heads that were made before."""
        if self._publishing.destination is Locality.SESSION_LOCAL:
            return
        version, heads = self._heads
        if version != self._hub.node.router.routes.version:
            heads = self._make_heads()
        qos, reliable = self._publishing.qos, self._publishing.reliable
        for driver, head in heads:
            driver.put(head, payload, qos, reliable)

    def _make_heads(self) -> list[tuple[Driver, bytes]]:
        node = self._hub.node
        body = Put(encoding=self._publishing.encoding, payload=b"")
        with node.lock:
            version = node.router.routes.version
            heads = []
            for driver, expr in targets_of(node, self._key, self._is_declared):
                push = Push(wire_expr=expr, qos=self._publishing.qos, body=body)
                heads.append((driver, encode(push)[:-1]))  # without the length of the empty payload
            self._heads = (version, heads)
        return heads

    def _publish(self, body: Put | Del, instrumentation: TimestampInstrumentation | None) -> None:
        """The whole way: any message, to subscribers of this session and of others."""
        node, qos = self._hub.node, self._publishing.qos
        stack = self._hub.stack(instrumentation)
        if self._publishing.destination is not Locality.REMOTE:
            sample = sample_from_body(body, self._key_expr, qos, self._publishing.reliable, stack)
            with node.lock:
                self._hub.subscriptions.deliver(sample, True)
        if self._publishing.destination is Locality.SESSION_LOCAL:
            return
        with node.lock:
            targets = targets_of(node, self._key, self._is_declared)
        for driver, expr in targets:
            push = Push(wire_expr=expr, qos=qos, ts_stack=stack, body=body)
            driver.put(encode(push), None, qos, self._publishing.reliable)


def targets_of(node: Node, key: str, is_declared: bool) -> list[tuple[Driver, wire.WireExpr]]:
    """The links with somebody who wants a key, and how to say it there. Guarded by the node's lock.

    A declared key is worth a number of its own on each.
    """
    targets = []
    for face in node.router.routes.push(node.local_face, key):
        driver = node.driver(face)
        if driver is None:
            continue
        binding = face.bind(key) if is_declared else None
        if binding is not None:
            driver.say(Declare(qos=wire.QoS.DECLARE, body=binding), wire.QoS.DECLARE)
        targets.append((driver, face.express(key)))
    return targets
