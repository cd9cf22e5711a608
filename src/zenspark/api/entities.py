"""What a session declares: publishers, subscribers, queryables, queriers, tokens, listeners.

An entity lives until it is undeclared, leaves its `with` block, or its session closes. One that delivers to a channel
also ends when nobody holds it any more; one with a callback lives on in the background, as long as its session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from zenspark.api.encoding import Encoding
from zenspark.api.enums import CongestionControl, Locality, Priority, Reliability, ReplyKeyExpr, SampleKind
from zenspark.api.handlers import Attached, Handler
from zenspark.api.hub import Hub, Offered, Watching
from zenspark.api.ids import EntityGlobalId, SourceInfo
from zenspark.api.instrumentation import TimestampInstrumentation
from zenspark.api.parameters import IntoParameters, Parameters
from zenspark.api.publishing import Publication, Publishing
from zenspark.api.sample import Head, Sample
from zenspark.api.subscriptions import Subscription
from zenspark.api.timestamps import Timestamp
from zenspark.api.values import MatchingStatus
from zenspark.api.zbytes import IntoZBytes
from zenspark.errors import UsageError
from zenspark.key import KeyExpr
from zenspark.router.face import Kind
from zenspark.wire import messages
from zenspark.wire import values as wire

T = TypeVar("T")
H = TypeVar("H")


class Entity:
    """Something declared: it can be undeclared once."""

    _NAME = "entity"

    def __init__(self, forget: Callable[[Entity], None]) -> None:
        self._forget = forget
        self._is_live = True

    def undeclare(self) -> None:
        """End it."""
        if self._is_live:
            self._is_live = False
            self._end()
            self._forget(self)

    def _end(self) -> None:
        raise NotImplementedError

    def _check(self) -> None:
        if not self._is_live:
            raise UsageError(f"this {self._NAME} was undeclared: it can no longer be used")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.undeclare()


class Receiver(Entity, Generic[H]):
    """Something that delivers to a handler."""

    def __init__(self, forget: Callable[[Entity], None], attached: Attached) -> None:
        super().__init__(forget)
        self._attached = attached

    @property
    def handler(self) -> H:
        """Where its items come: a channel, or whatever was given together with a callback."""
        return self._attached.handler  # type: ignore[return-value]

    def _channel(self) -> Handler[Any]:
        if not isinstance(self._attached.handler, Handler):
            raise UsageError(f"this {self._NAME} has no channel to receive from: its callback gets everything")
        return self._attached.handler

    def recv(self, timeout: float | None = None) -> Any:  # noqa: ANN401 - what comes depends on the kind of receiver
        """The next item, waited for; `timeout` in seconds."""
        return self._channel().recv(timeout)

    def try_recv(self) -> Any:  # noqa: ANN401 - as above
        """The next item if there is one."""
        return self._channel().try_recv()

    def __iter__(self) -> Handler[Any]:
        return self._channel()

    def __del__(self) -> None:
        if self._is_live and not self._attached.background:
            self.undeclare()


class Subscriber(Receiver[H]):
    """Receives what is published on the keys it matches."""

    _NAME = "subscriber"

    def __init__(
        self, hub: Hub, key_expr: KeyExpr, origin: Locality, attached: Attached, forget: Callable[[Entity], None]
    ) -> None:
        super().__init__(forget, attached)
        self._hub = hub
        self._subscription = Subscription(hub.next_id(), key_expr, origin, attached.inlet)
        with hub.lock:
            hub.subscriptions.add(self._subscription)
            if origin is not Locality.SESSION_LOCAL:
                expr = wire.WireExpr(0, str(key_expr))
                hub.declare(messages.DeclareSubscriber(id=self._subscription.id, wire_expr=expr))
        hub.changed(Kind.SUBSCRIBER)

    @property
    def id(self) -> EntityGlobalId:
        return EntityGlobalId.from_wire(self._hub.entity(self._subscription.id))

    @property
    def key_expr(self) -> KeyExpr:
        return self._subscription.key_expr

    def _end(self) -> None:
        with self._hub.lock:
            self._hub.subscriptions.remove(self._subscription)
            if self._subscription.origin is not Locality.SESSION_LOCAL:
                self._hub.declare(messages.UndeclareSubscriber(id=self._subscription.id))
        self._hub.changed(Kind.SUBSCRIBER)
        self._attached.inlet.close()


class LivelinessSubscriber(Receiver[H]):
    """Receives a sample when a token that matches appears or disappears."""

    _NAME = "liveliness subscriber"

    def __init__(
        self, hub: Hub, key_expr: KeyExpr, history: bool, attached: Attached, forget: Callable[[Entity], None]
    ) -> None:
        super().__init__(forget, attached)
        self._hub = hub
        inlet = attached.inlet
        self._watching = Watching(
            hub.next_id(), Kind.TOKEN, key_expr, lambda change, key: inlet.push(token_sample(change, key)), _nothing
        )
        hub.watch(self._watching, wire.InterestMode.CURRENT_FUTURE if history else wire.InterestMode.FUTURE)

    @property
    def id(self) -> EntityGlobalId:
        return EntityGlobalId.from_wire(self._hub.entity(self._watching.id))

    @property
    def key_expr(self) -> KeyExpr:
        return self._watching.key_expr

    def _end(self) -> None:
        self._hub.unwatch(self._watching)
        self._attached.inlet.close()


def _nothing() -> None:
    return None


class Queryable(Receiver[H]):
    """Receives queries on the keys it matches, and answers them."""

    _NAME = "queryable"

    def __init__(self, hub: Hub, offered: Offered, attached: Attached, forget: Callable[[Entity], None]) -> None:
        super().__init__(forget, attached)
        self._hub = hub
        self._offered = offered
        hub.offer(offered)
        hub.changed(Kind.QUERYABLE)

    @property
    def id(self) -> EntityGlobalId:
        return EntityGlobalId.from_wire(self._hub.entity(self._offered.id))

    @property
    def key_expr(self) -> KeyExpr:
        return self._offered.key_expr

    def _end(self) -> None:
        self._hub.withdraw(self._offered)
        self._hub.changed(Kind.QUERYABLE)


class LivelinessToken(Entity):
    """Says that something is alive, until it is undeclared or its session ends."""

    _NAME = "liveliness token"

    def __init__(self, hub: Hub, key_expr: KeyExpr, forget: Callable[[Entity], None]) -> None:
        super().__init__(forget)
        self._hub = hub
        self._id = hub.next_id()
        hub.declare(messages.DeclareToken(id=self._id, wire_expr=wire.WireExpr(0, str(key_expr))))

    def _end(self) -> None:
        self._hub.declare(messages.UndeclareToken(id=self._id))

    def __del__(self) -> None:
        self.undeclare()


class MatchingListener(Receiver[H]):
    """Receives the matching status of a publisher or querier whenever it changes."""

    _NAME = "matching listener"

    def __init__(self, matcher: Matcher, attached: Attached, forget: Callable[[Entity], None]) -> None:
        super().__init__(forget, attached)
        self._matcher = matcher
        self._last = False
        self.look()

    def look(self) -> None:
        """Tell what has changed."""
        status = self._matcher.matching_status
        if status != self._last:
            self._last = status
            self._attached.inlet.push(MatchingStatus(status))

    def _end(self) -> None:
        self._matcher.listeners.discard(self)
        self._attached.inlet.close()


class Matcher(Entity):
    """A publisher or querier: it knows whether there is anybody at the other end."""

    _KIND = Kind.SUBSCRIBER

    def __init__(
        self,
        hub: Hub,
        key_expr: KeyExpr,
        destination: Locality,
        attach: Callable[[object], Attached],
        forget: Callable[[Entity], None],
    ) -> None:
        super().__init__(forget)
        self._hub = hub
        self._key_expr = key_expr
        self._destination = destination
        self._attach = attach
        self._number = hub.next_id()
        self.listeners: set[MatchingListener[Any]] = set()
        self._watching = Watching(hub.next_id(), self._KIND, key_expr, lambda *_: self.look(), _nothing)
        hub.watch(self._watching, wire.InterestMode.CURRENT_FUTURE)
        hub.on_change[self._KIND].add(self)

    def look(self) -> None:
        """Something that may match came or went."""
        for listener in list(self.listeners):
            listener.look()

    @property
    def id(self) -> EntityGlobalId:
        return EntityGlobalId.from_wire(self._hub.entity(self._number))

    @property
    def key_expr(self) -> KeyExpr:
        return self._key_expr

    @property
    def matching_status(self) -> bool:
        """Whether anybody is at the other end."""
        elsewhere = self._destination is not Locality.SESSION_LOCAL and self._hub.is_known(self._KIND, self._key_expr)
        return elsewhere or (self._destination is not Locality.REMOTE and self._is_here())

    def _is_here(self) -> bool:
        return bool(self._hub.subscriptions.route(str(self._key_expr), True))

    def declare_matching_listener(self, handler: object = None) -> MatchingListener[Any]:
        """Be told when `matching_status` changes."""
        self._check()
        listener: MatchingListener[Any] = MatchingListener(self, self._attach(handler), lambda _: None)
        self.listeners.add(listener)
        return listener

    def _end(self) -> None:
        self._hub.on_change[self._KIND].discard(self)
        self._hub.unwatch(self._watching)
        for listener in list(self.listeners):
            listener.undeclare()

    def __del__(self) -> None:
        self.undeclare()


class Publisher(Matcher):
    """Publishes on one key, with settings made once."""

    _NAME = "publisher"

    def __init__(
        self,
        hub: Hub,
        key_expr: KeyExpr,
        publishing: Publishing,
        attach: Callable[[object], Attached],
        forget: Callable[[Entity], None],
    ) -> None:
        super().__init__(hub, key_expr, publishing.destination, attach, forget)
        self._publishing = publishing
        self._publication = Publication(hub, key_expr, publishing)

    @property
    def encoding(self) -> Encoding:
        return Encoding.from_wire(self._publishing.encoding)

    @property
    def congestion_control(self) -> CongestionControl:
        return CongestionControl.from_wire(self._publishing.qos.congestion)

    @property
    def priority(self) -> Priority:
        return Priority.from_wire(self._publishing.qos.priority)

    @property
    def reliability(self) -> Reliability:
        return Reliability.RELIABLE if self._publishing.reliable else Reliability.BEST_EFFORT

    def put(
        self,
        payload: IntoZBytes,
        *,
        encoding: Encoding | str | None = None,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Write a value."""
        self._check()
        self._publication.put(payload, encoding, attachment, timestamp, timestamp_instrumentation, source_info)

    def delete(
        self,
        *,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Remove the key."""
        self._check()
        self._publication.delete(attachment, timestamp, timestamp_instrumentation, source_info)


class Querier(Matcher):
    """Asks on one key, with settings made once."""

    _NAME = "querier"
    _KIND = Kind.QUERYABLE

    def __init__(
        self,
        hub: Hub,
        key_expr: KeyExpr,
        destination: Locality,
        accept: ReplyKeyExpr,
        ask: Callable[..., Any],
        attach: Callable[[object], Attached],
        forget: Callable[[Entity], None],
    ) -> None:
        super().__init__(hub, key_expr, destination, attach, forget)
        self._accept = accept
        self._ask = ask

    @property
    def accept_replies(self) -> ReplyKeyExpr:
        return self._accept

    def _is_here(self) -> bool:
        return self._hub.is_offered(str(self._key_expr))

    def get(
        self,
        handler: object = None,
        *,
        parameters: IntoParameters | None = None,
        payload: IntoZBytes | None = None,
        encoding: Encoding | str | None = None,
        attachment: IntoZBytes | None = None,
        source_info: SourceInfo | None = None,
        cancellation_token: object = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
    ) -> Any:  # noqa: ANN401 - a channel, or whatever was given with a callback
        """Ask once."""
        self._check()
        return self._ask(
            handler,
            parameters=Parameters.of(parameters),
            payload=payload,
            encoding=encoding,
            attachment=attachment,
            source_info=source_info,
            cancellation_token=cancellation_token,
            timestamp_instrumentation=timestamp_instrumentation,
        )


def token_sample(change: SampleKind, key: str) -> Sample:
    """What a liveliness subscriber sees of a token."""
    return Sample(Head(KeyExpr(key), change), b"")
