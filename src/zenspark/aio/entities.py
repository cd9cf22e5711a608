"""What a session declares, for tasks: each stands for the entity of the synchronous API that it holds.

An entity lives as long as that one does: until it is undeclared, its `async with` block is left or its session closes;
without a callback also until nobody holds it any more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from zenspark.aio.awaitable import Closable, Pending
from zenspark.aio.channels import Channel, ChannelIterator, bind_async_handler
from zenspark.aio.replies import async_get
from zenspark.aio.send_readiness import SendReadiness, SendTarget, WrapsSync, async_in_thread, async_send
from zenspark.api import entities as api
from zenspark.errors import UsageError
from zenspark.key import KeyExpr
from zenspark.types.encoding import Encoding
from zenspark.types.enums import CongestionControl, Priority, Reliability, ReplyKeyExpr
from zenspark.types.ids import EntityGlobalId
from zenspark.types.network_info import MatchingStatus

P = ParamSpec("P")
S = TypeVar("S")
E_co = TypeVar("E_co", bound=api.Entity, covariant=True)
R_co = TypeVar("R_co", bound=api.Receiver[Any], covariant=True)
M_co = TypeVar("M_co", bound=api.MatchingEntity, covariant=True)
K_co = TypeVar("K_co", bound="api.Subscriber[Any] | api.Queryable[Any]", covariant=True)
B = TypeVar("B", bound=api.Entity)
A = TypeVar("A", bound=Closable)


class Entity(Generic[E_co]):
    """Something declared: it can be undeclared once, and then not be used any more."""

    def __init__(self, voice: SendReadiness, sync: E_co) -> None:
        self._readiness = voice
        self._sync = sync

    async def undeclare(self) -> None:
        """End it."""
        self._sync.undeclare()

    @property
    def id(self) -> EntityGlobalId:
        """Its id in the whole network."""
        return self._sync.id

    async def __aenter__(self) -> Self:
        self._sync.__enter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._sync.__exit__()


class Receiver(Entity[R_co]):
    """Something that delivers to a handler: `await recv()`, `try_recv()`, `async for`."""

    @property
    def handler(self) -> Any:  # noqa: ANN401 - a channel, or whatever was given together with a callback
        """Where its items come."""
        return self._sync.handler

    def _channel(self) -> Channel[Any]:
        handler = self._sync.handler
        if not isinstance(handler, Channel):
            raise UsageError(f"this {self._sync._NAME} has no channel to receive from: its callback gets everything")
        return handler

    async def recv(self, timeout: float | None = None) -> Any:  # noqa: ANN401, ASYNC109 - as the synchronous one
        """The next item, waited for; `timeout` in seconds. A task that is cancelled leaves it for the next."""
        return await self._channel().recv(timeout)

    def try_recv(self) -> Any:  # noqa: ANN401 - as above
        """The next item if there is one."""
        return self._channel().try_recv()

    def __aiter__(self) -> ChannelIterator[Any]:
        return ChannelIterator(self, self._channel())


class KeyedReceiver(Receiver[K_co]):
    """Receives what is about the keys it matches."""

    @property
    def key_expr(self) -> KeyExpr:
        return self._sync.key_expr


class Subscriber(KeyedReceiver[api.Subscriber[Any]]):
    """Receives what is published on the keys it matches, or tokens that appear and disappear there."""


class Queryable(KeyedReceiver[api.Queryable[Any]]):
    """Receives queries on the keys it matches, and answers them."""


class LivelinessToken(Entity[api.LivelinessToken]):
    """Says that something is alive, until it is undeclared or its session ends."""


class MatchingListener(Receiver[api.MatchingListener[Any]]):
    """Receives the matching status of a publisher or querier whenever it changes."""


def async_declare(
    method: Callable[Concatenate[S, P], B],
    entity: Callable[[SendReadiness, B], A],
    handler_at: int | None = None,
    item: Callable[[SendReadiness, Any], Any] | None = None,
) -> Callable[Concatenate[WrapsSync[S], P], Pending[A]]:
    """The same declaration for tasks, of an entity for them that stands for the other.

    `handler_at` is the place of the handler among its arguments; what comes there is received as an `item`.
    """

    async def declare(self: WrapsSync[S], args: tuple[Any, ...], options: dict[str, Any]) -> A:
        if handler_at is not None:
            shown = None if item is None else partial(item, self._readiness)
            args, options = bind_async_handler(args, options, handler_at, shown)
        return entity(self._readiness, method(self._sync, *args, **options))  # it fills an outbox, and never waits

    @wraps(method)
    def pending(self: WrapsSync[S], /, *args: P.args, **options: P.kwargs) -> Pending[A]:
        return Pending(declare(self, args, options))

    return pending


class Matcher(Entity[M_co]):
    """A publisher or querier: it knows whether there is anybody at the other end."""

    @property
    def key_expr(self) -> KeyExpr:
        return self._sync.key_expr

    @property
    def matching_status(self) -> MatchingStatus:
        """Whether anybody is at the other end: true or false in an `if`."""
        return self._sync.matching_status

    declare_matching_listener = async_declare(api.MatchingEntity.declare_matching_listener, MatchingListener, 0)


class Publisher(Matcher[api.Publisher]):
    """Publishes on one key, with settings made once."""

    def __init__(self, voice: SendReadiness, sync: api.Publisher) -> None:
        super().__init__(voice, sync)
        self._own_target = (sync.congestion_control.to_wire(), str(sync.key_expr))

    def _send_target(self, args: tuple[object, ...], options: dict[str, Any]) -> SendTarget:
        return self._own_target

    @property
    def encoding(self) -> Encoding:
        return self._sync.encoding

    @property
    def congestion_control(self) -> CongestionControl:
        return self._sync.congestion_control

    @property
    def priority(self) -> Priority:
        return self._sync.priority

    @property
    def reliability(self) -> Reliability:
        return self._sync.reliability

    put = async_send(api.Publisher.put)
    delete = async_send(api.Publisher.delete)
    put_batch = async_in_thread(api.Publisher.put_batch)


class Querier(Matcher[api.Querier]):
    """Asks on one key, with settings made once."""

    @property
    def accept_replies(self) -> ReplyKeyExpr:
        return self._sync.accept_replies

    get = async_get(api.Querier.get, 0)
