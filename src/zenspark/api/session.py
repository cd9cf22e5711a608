"""Session: a node's place in the network, and everything one can do from there. Runs in the caller's thread.

It makes entities, hands them their settings and keeps track of them; what they do is in their own modules.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self, TypeVar

from zenspark.api.cancellation import CancellationToken
from zenspark.api.encoding import Encoding
from zenspark.api.entities import (
    Entity,
    LivelinessSubscriber,
    LivelinessToken,
    Publisher,
    Querier,
    Queryable,
    Subscriber,
    token_sample,
)
from zenspark.api.enums import (
    CongestionControl,
    ConsolidationMode,
    InterceptionPoint,
    Locality,
    Priority,
    QueryConsolidation,
    QueryTarget,
    Reliability,
    ReplyKeyExpr,
    SampleKind,
)
from zenspark.api.handlers import Attached, attach
from zenspark.api.hub import Hub, Offered, Question, Watching
from zenspark.api.ids import EntityGlobalId, SourceInfo, ZenohId
from zenspark.api.info import SessionInfo
from zenspark.api.instrumentation import TimestampInstrumentation
from zenspark.api.parameters import Parameters, Selector
from zenspark.api.publishing import Publication, Publishing
from zenspark.api.query import ANY_KEY
from zenspark.api.replies import TIMEOUT
from zenspark.api.sample import Reply
from zenspark.api.timestamps import Timestamp
from zenspark.api.zbytes import IntoZBytes, ZBytes
from zenspark.errors import SessionClosed
from zenspark.key import KeyExpr
from zenspark.router.face import Kind
from zenspark.wire import messages
from zenspark.wire import values as wire

IntoKeyExpr = KeyExpr | str
AnyEntity = TypeVar("AnyEntity", bound=Entity)


class Session:
    """An open session. Closes when it leaves its `with` block, or when nobody holds it any more."""

    def __init__(self, hub: Hub, query_timeout: float, on_close: Callable[[], None]) -> None:
        self._hub = hub
        self._query_timeout = query_timeout
        self._on_close = on_close
        self._entities: set[Entity] = set()
        self._entity_id = hub.next_id()
        self._is_closed = False
        self._closing = threading.Lock()
        self.info = SessionInfo(hub, self._attach)

    # -- life

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """End the session with all its entities; a second time does nothing."""
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
        for entity in list(self._entities):
            entity.undeclare()
        self._hub.end()
        self._on_close()

    def is_closed(self) -> bool:
        return self._is_closed

    def _check(self) -> None:
        if self._is_closed:
            raise SessionClosed("this session was closed")

    @property
    def id(self) -> EntityGlobalId:
        return EntityGlobalId.from_wire(self._hub.entity(self._entity_id))

    def zid(self) -> ZenohId:
        """The id of this node."""
        return ZenohId.from_wire(self._hub.node.identity.zid)

    def new_timestamp(self) -> Timestamp:
        """The time now, by this node's clock: never the same twice."""
        return Timestamp.from_wire(self._hub.stamp())

    def undeclare(self, obj: KeyExpr | Entity) -> None:
        """End an entity; a declared key expression needs no end."""
        if isinstance(obj, Entity):
            obj.undeclare()

    def declare_keyexpr(self, key_expr: IntoKeyExpr) -> KeyExpr:
        """A key expression to be used often; numbers for it are given out by themselves."""
        self._check()
        return KeyExpr.of(key_expr)

    def liveliness(self) -> Liveliness:
        """Tokens: who is alive."""
        return Liveliness(self)

    def _keep(self, entity: Entity) -> None:
        self._entities.add(entity)

    def _forget(self, entity: Entity) -> None:
        self._entities.discard(entity)

    def _attach(self, handler: object) -> Attached:
        return attach(handler, _spawn, self._hub.resume)

    # -- publish

    def put(
        self,
        key_expr: IntoKeyExpr,
        payload: IntoZBytes,
        *,
        encoding: Encoding | str | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Write a value under a key."""
        self._check()
        publishing = _publishing(encoding, congestion_control, priority, express, None, allowed_destination)
        publication = Publication(self._hub, KeyExpr.of(key_expr), publishing)
        publication.put(payload, None, attachment, timestamp, timestamp_instrumentation, source_info)

    def delete(
        self,
        key_expr: IntoKeyExpr,
        *,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Remove a key."""
        self._check()
        publishing = _publishing(None, congestion_control, priority, express, None, allowed_destination)
        publication = Publication(self._hub, KeyExpr.of(key_expr), publishing)
        publication.delete(attachment, timestamp, timestamp_instrumentation, source_info)

    def declare_publisher(
        self,
        key_expr: IntoKeyExpr,
        *,
        encoding: Encoding | str | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        reliability: Reliability | None = None,
        allowed_destination: Locality | None = None,
    ) -> Publisher:
        """Get ready to publish on one key, again and again."""
        self._check()
        publishing = _publishing(encoding, congestion_control, priority, express, reliability, allowed_destination)
        return Publisher(self._hub, KeyExpr.of(key_expr), publishing, self._attach, self._forget)

    # -- receive

    def declare_subscriber(
        self, key_expr: IntoKeyExpr, handler: object = None, *, allowed_origin: Locality | None = None
    ) -> Subscriber[Any]:
        """Receive what is published on the keys that match."""
        self._check()
        attached = self._attach(handler)
        subscriber: Subscriber[Any] = Subscriber(
            self._hub, KeyExpr.of(key_expr), allowed_origin or Locality.ANY, attached, self._forget
        )
        return self._kept(subscriber, attached)

    def declare_queryable(
        self,
        key_expr: IntoKeyExpr,
        handler: object = None,
        *,
        complete: bool | None = None,
        allowed_origin: Locality | None = None,
    ) -> Queryable[Any]:
        """Answer queries on the keys that match."""
        self._check()
        attached = self._attach(handler)
        offered = Offered(
            self._hub.next_id(),
            KeyExpr.of(key_expr),
            bool(complete),
            allowed_origin or Locality.ANY,
            attached.inlet,
        )
        queryable: Queryable[Any] = Queryable(self._hub, offered, attached, self._forget)
        return self._kept(queryable, attached)

    def _kept(self, entity: AnyEntity, attached: Attached) -> AnyEntity:
        """Callbacks live in the background: the session holds what nobody else may hold."""
        if attached.background:
            self._keep(entity)
        return entity

    # -- ask

    def get(
        self,
        selector: Selector | IntoKeyExpr,
        handler: object = None,
        *,
        target: QueryTarget | None = None,
        consolidation: ConsolidationMode | QueryConsolidation | None = None,
        accept_replies: ReplyKeyExpr | None = None,
        timeout: float | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        payload: IntoZBytes | None = None,
        encoding: Encoding | str | None = None,
        attachment: IntoZBytes | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
        cancellation_token: CancellationToken | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
    ) -> Any:  # noqa: ANN401 - a channel, or whatever was given with a callback
        """Ask the queryables that match; iterating over what is returned ends with the last reply."""
        self._check()
        selected = Selector.of(selector)
        parameters = selected.parameters
        mode = _mode(consolidation, parameters)
        any_key = accept_replies is ReplyKeyExpr.ANY or ANY_KEY in parameters
        if any_key and ANY_KEY not in parameters:
            parameters.insert(ANY_KEY, "")
        body = None
        if payload is not None or encoding is not None:
            encoded = wire.Encoding.BYTES if encoding is None else Encoding.of(encoding).to_wire()
            body = wire.QueryBody(encoded, b"" if payload is None else ZBytes.of(payload).to_bytes())
        query = messages.Query(
            consolidation=mode.to_wire(),
            parameters=str(parameters),
            source_info=None if source_info is None else source_info.to_wire(),
            body=body,
            attachment=None if attachment is None else ZBytes.of(attachment).to_bytes(),
        )
        question = Question(
            key_expr=selected.key_expr,
            query=query,
            target=(target or QueryTarget.DEFAULT).to_wire(),
            qos=_qos(congestion_control or CongestionControl.BLOCK, priority, express),
            timeout=self._query_timeout if timeout is None else timeout,
            mode=mode,
            any_key=any_key,
            destination=allowed_destination or Locality.ANY,
            stack=self._stack(timestamp_instrumentation),
        )
        attached = self._attach(handler)
        stop = self._hub.ask(question, attached.inlet)
        if cancellation_token is not None:
            cancellation_token.attach(stop)
        return attached.handler

    def _stack(self, instrumentation: TimestampInstrumentation | None) -> wire.TimestampStack | None:
        if instrumentation is None:
            return None
        at_once = instrumentation.is_instrumented(InterceptionPoint.SEND)
        records = (self._hub.record(InterceptionPoint.SEND),) if at_once else ()
        return wire.TimestampStack(instrumentation.to_wire(), records)

    def declare_querier(
        self,
        key_expr: IntoKeyExpr,
        *,
        target: QueryTarget | None = None,
        consolidation: ConsolidationMode | QueryConsolidation | None = None,
        accept_replies: ReplyKeyExpr | None = None,
        timeout: float | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        allowed_destination: Locality | None = None,
    ) -> Querier:
        """Get ready to ask on one key, again and again."""
        self._check()
        key = KeyExpr.of(key_expr)

        def ask(handler: object, parameters: Parameters, **values: Any) -> Any:  # noqa: ANN401 - passed on
            return self.get(
                Selector(key, parameters),
                handler,
                target=target,
                consolidation=consolidation,
                accept_replies=accept_replies,
                timeout=timeout,
                congestion_control=congestion_control,
                priority=priority,
                express=express,
                allowed_destination=allowed_destination,
                **values,
            )

        accept = accept_replies or ReplyKeyExpr.DEFAULT
        destination = allowed_destination or Locality.ANY
        return Querier(self._hub, key, destination, accept, ask, self._attach, self._forget)


class Liveliness:
    """Tokens of a session: declare them, ask for them, be told of them."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def declare_token(self, key_expr: IntoKeyExpr) -> LivelinessToken:
        """Say that something is alive."""
        self._session._check()
        return LivelinessToken(self._session._hub, KeyExpr.of(key_expr), self._session._forget)

    def declare_subscriber(
        self, key_expr: IntoKeyExpr, handler: object = None, *, history: bool | None = None
    ) -> LivelinessSubscriber[Any]:
        """Be told of tokens that appear and disappear; with `history` also of those that are there."""
        session = self._session
        session._check()
        attached = session._attach(handler)
        subscriber: LivelinessSubscriber[Any] = LivelinessSubscriber(
            session._hub, KeyExpr.of(key_expr), bool(history), attached, session._forget
        )
        return session._kept(subscriber, attached)

    def get(
        self,
        key_expr: IntoKeyExpr,
        handler: object = None,
        *,
        timeout: float | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> Any:  # noqa: ANN401 - a channel, or whatever was given with a callback
        """Ask for the tokens there are."""
        session = self._session
        session._check()
        hub = session._hub
        attached = session._attach(handler)
        inlet = attached.inlet
        is_over = threading.Event()

        def tell(change: SampleKind, key: str) -> None:
            if not is_over.is_set():
                inlet.push(Reply(token_sample(change, key)))

        def end() -> None:
            if not is_over.is_set():
                is_over.set()
                hub.unwatch(watching)
                inlet.close()

        def give_up() -> None:
            with hub.lock:
                if not is_over.is_set():
                    inlet.push(Reply(TIMEOUT))
                end()

        watching = Watching(hub.next_id(), Kind.TOKEN, KeyExpr.of(key_expr), tell, end, is_future=False)
        seconds = session._query_timeout if timeout is None else timeout
        hub.node.loop.call_at(hub.node.loop.now() + seconds, give_up)
        hub.watch(watching, wire.InterestMode.CURRENT)
        if cancellation_token is not None:
            cancellation_token.attach(end)
        return attached.handler


def _spawn(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="zenspark-callback", daemon=True).start()


def _qos(congestion: CongestionControl | None, priority: Priority | None, express: bool | None) -> wire.QoS:
    return wire.QoS(
        (priority or Priority.DEFAULT).to_wire(), (congestion or CongestionControl.DEFAULT).to_wire(), bool(express)
    )


def _publishing(
    encoding: Encoding | str | None,
    congestion: CongestionControl | None,
    priority: Priority | None,
    express: bool | None,
    reliability: Reliability | None,
    destination: Locality | None,
) -> Publishing:
    return Publishing(
        wire.Encoding.BYTES if encoding is None else Encoding.of(encoding).to_wire(),
        _qos(congestion, priority, express),
        reliability is not Reliability.BEST_EFFORT,
        destination or Locality.ANY,
    )


def _mode(consolidation: ConsolidationMode | QueryConsolidation | None, parameters: Parameters) -> ConsolidationMode:
    mode = consolidation.mode if isinstance(consolidation, QueryConsolidation) else consolidation
    if mode is None or mode is ConsolidationMode.AUTO:
        return ConsolidationMode.NONE if "_time" in parameters else ConsolidationMode.LATEST
    return mode
