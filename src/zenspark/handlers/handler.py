"""How users receive: by a callback, or by a channel they read from.

Users name what they want: `FifoChannel(10)`, `RingChannel(10)`, a function, `Callback(function, drop)`. From that
`bind_handler` makes an `DeliverySink`, and the session delivers there; see `channel.py` for what is behind it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, runtime_checkable

import msgspec

from zenspark.handlers.channel import CallbackRunner, Channel, Resume
from zenspark.net.loop.executor import CallbackExecutor

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

DEFAULT_CAPACITY = 256

# --- what users name ------------------------------------------------------------------------------


class DefaultHandler(Generic[T]):
    """What is taken when no handler is named: a `FifoChannel` of moderate size."""

    __slots__ = ()


class FifoChannel(Generic[T]):
    """A channel that keeps everything in order; when it is full, whoever sends is slowed down."""

    __slots__ = ("capacity",)

    def __init__(self, capacity: int) -> None:
        self.capacity = _validate_capacity(capacity)


class RingChannel(Generic[T]):
    """A channel that keeps only the newest items; when it is full, the oldest is forgotten."""

    __slots__ = ("capacity",)

    def __init__(self, capacity: int) -> None:
        self.capacity = _validate_capacity(capacity)


class Callback(Generic[T]):
    """A function called with every item, and another one called once when no more will come.

    A callback may take its time: then it keeps a thread of its own, and nothing else waits for it. `indirect` says
    the same in eclipse-zenoh, where it has a price; here it changes nothing.
    """

    __slots__ = ("callback", "drop", "indirect")

    def __init__(
        self, callback: Callable[[T], Any], drop: Callable[[], Any] | None = None, *, indirect: bool = True
    ) -> None:
        self.callback = callback
        self.drop = drop
        self.indirect = indirect

    def __call__(self, arg: T, /) -> object:
        return self.callback(arg)

    def __repr__(self) -> str:
        return f"Callback({self.callback!r}, {self.drop!r}, indirect={self.indirect})"


# --- where the session delivers -------------------------------------------------------------------


class DeliverySink(Protocol[T_contra]):
    """Where the session delivers; one thread at a time pushes, any thread may close."""

    def push(self, item: T_contra) -> bool:
        """Delivers one item; whether there is room for more."""

    def push_many(self, items: Iterable[T_contra]) -> bool:
        """Delivers a batch at the price of one; whether there is room for more."""

    def close(self) -> None:
        """Ends the delivery; what was pushed will still be received. Closing again does nothing."""


class BoundHandler(msgspec.Struct, frozen=True):
    """A handler in use: where the session delivers, what the user holds, and whether it outlives that."""

    sink: DeliverySink[Any]
    handler: object
    background: bool = False


@runtime_checkable
class BindableHandler(Protocol):
    """A kind of handler from elsewhere that makes itself ready."""

    def bind(self, resume: Resume) -> BoundHandler: ...


def bind_handler(handler: object, loop: CallbackExecutor, resume: Resume) -> BoundHandler:
    """Makes what the user named ready to receive: None, a channel, a callback, or a pair of a callback and an object.

    The object of such a pair is what the user gets back as the handler; the callback is expected to fill it.
    """
    match handler:
        case None | DefaultHandler():
            return _channel(DEFAULT_CAPACITY, resume)
        case FifoChannel():
            return _channel(handler.capacity, resume)
        case RingChannel():
            ring: Handler[Any] = Handler(sys.maxsize, resume, keep=handler.capacity)
            return BoundHandler(ring, ring)
        case BindableHandler():
            return handler.bind(resume)
        case tuple() if len(handler) == 2 and callable(handler[0]):
            return BoundHandler(_callback_runner(handler[0], loop, resume), handler[1])
        case _ if callable(handler):
            return BoundHandler(_callback_runner(handler, loop, resume), None, background=True)
    raise ValueError(f"expected a channel, a function or a pair of a function and an object, found {handler!r}")


def _channel(capacity: int, resume: Resume) -> BoundHandler:
    channel: Handler[Any] = Handler(capacity, resume)
    return BoundHandler(channel, channel)


def _callback_runner(callback: Callable[[Any], Any], loop: CallbackExecutor, resume: Resume) -> DeliverySink[Any]:
    named = callback if isinstance(callback, Callback) else Callback(callback)
    return CallbackRunner(named.callback, named.drop, loop, resume)


class Handler(Channel, Generic[T]):
    """A channel: users receive from it, by `recv`, `try_recv` or a for loop; the session delivers into it.

    Any number of threads may receive; each item reaches one of them.
    """

    if TYPE_CHECKING:

        def recv(self, timeout: float | None = None) -> T: ...
        def try_recv(self) -> T | None: ...
        def __iter__(self) -> Self: ...
        def __next__(self) -> T: ...
        def push(self, item: T) -> bool: ...
        def push_many(self, items: Iterable[T]) -> bool: ...


def _validate_capacity(capacity: int) -> int:
    if not isinstance(capacity, int):
        raise TypeError(f"expected an int, found {type(capacity).__name__!r}")
    if capacity < 0:
        raise OverflowError(f"expected a capacity of 0 or more, found {capacity}")
    return max(capacity, 1)  # something must be able to lie there for anybody to take it
