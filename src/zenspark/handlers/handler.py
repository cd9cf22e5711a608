"""Handlers: the ways users receive items, by a callback or by a channel.

Users pass `FifoChannel(10)`, `RingChannel(10)`, a function or `Callback(function, drop)`. From that `bind_handler`
makes a `DeliverySink`, into which the session delivers; `channel.py` and `callback.py` have the implementations.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, runtime_checkable

import msgspec

from zenspark.handlers.callback import CallbackRunner
from zenspark.handlers.channel import Channel, Resume
from zenspark.net.loop.executor import CallbackExecutor
from zenspark.types.uncopyable import refuse_copy

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

logger = logging.getLogger("zenspark.handlers")

DEFAULT_CAPACITY_ITEMS = 256
"""Items that a channel holds where the user gives none: as many as in eclipse-zenoh."""

# --- handlers that users pass ----------------------------------------------------------------------


class DefaultHandler(Generic[T]):
    """The handler that is used when none is given: a `FifoChannel` of 256 items.

    Example:
        >>> subscriber = session.declare_subscriber("demo/**", zenspark.handlers.DefaultHandler())
    """

    __slots__ = ()


class FifoChannel(Generic[T]):
    """A channel that delivers every item in order. When it is full, senders wait: the links they use are not read.

    Args:
        capacity: Maximum number of items in it; at least 1.

    Raises:
        OverflowError: It is negative.
        TypeError: It is no int.

    Example:
        >>> subscriber = session.declare_subscriber("demo/**", zenspark.handlers.FifoChannel(1000))
    """

    __slots__ = ("capacity",)

    def __init__(self, capacity: int) -> None:
        self.capacity = _validate_capacity(capacity)


class RingChannel(Generic[T]):
    """A channel that keeps the newest items. When it is full, the oldest is dropped.

    Args:
        capacity: Maximum number of items in it; at least 1.

    Raises:
        OverflowError: It is negative.
        TypeError: It is no int.

    Example:
        >>> subscriber = session.declare_subscriber("demo/**", zenspark.handlers.RingChannel(1))
    """

    __slots__ = ("capacity",)

    def __init__(self, capacity: int) -> None:
        self.capacity = _validate_capacity(capacity)


class Callback(Generic[T]):
    """A function that is called with every item, and another that is called once after the last.

    A callback may block: it then keeps a thread of its own, and nothing else waits for it.

    Args:
        callback: Called with each item.
        drop: Called when no more items will come; none by default.
        indirect: Whether the callback runs in another thread than the network; it has no effect here, as in
            eclipse-zenoh.

    Example:
        >>> on_end = lambda: print("end")
        >>> subscriber = session.declare_subscriber("demo/**", zenspark.handlers.Callback(print, on_end))
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


# --- sinks that the session delivers into -----------------------------------------------------------


class DeliverySink(Protocol[T_contra]):
    """The queue the session delivers into; one thread at a time pushes, any thread may close."""

    def push(self, item: T_contra) -> bool:
        """Deliver one item; returns whether there is capacity for more."""

    def push_many(self, items: Iterable[T_contra]) -> bool:
        """Deliver several items with one wakeup; returns whether there is capacity for more."""

    def close(self) -> None:
        """End the delivery; items pushed before can still be received. Closing again does nothing."""


class BoundHandler(msgspec.Struct, frozen=True):
    """A handler in use: the sink of the session, and the object the user receives from."""

    sink: DeliverySink[Any]
    handler: object
    background: bool = False
    """Whether the entity lives on when the user holds no reference to it."""


@runtime_checkable
class BindableHandler(Protocol):
    """A kind of handler that makes its own sink, which takes samples and nothing else."""

    def bind(self, resume: Resume) -> BoundHandler: ...


@runtime_checkable
class ItemHandler(Protocol):
    """A handler that another API makes from the one of its user; its sink takes items of any type."""

    def bind_items(self, resume: Resume) -> BoundHandler: ...


def bind_sample_handler(handler: object, loop: CallbackExecutor, resume: Resume) -> BoundHandler:
    """Make the sink for a handler of samples: any that `bind_handler` takes, or one that makes its own sink."""
    if isinstance(handler, BindableHandler) and not isinstance(handler, type):
        return handler.bind(resume)
    return bind_handler(handler, loop, resume)


def bind_handler(handler: object, loop: CallbackExecutor, resume: Resume) -> BoundHandler:
    """Make the sink for a handler: None, a channel, a callback, or a pair of a callback and an object.

    The object of such a pair is returned to the user as the handler; the callback is expected to fill it.

    Raises:
        ValueError: The handler is none of these.
        TypeError: The callback is a coroutine function.
    """
    match handler:
        case None | DefaultHandler():
            return _channel(DEFAULT_CAPACITY_ITEMS, resume)
        case FifoChannel():
            return _channel(handler.capacity, resume)
        case RingChannel():
            ring: Handler[Any] = Handler(sys.maxsize, resume, keep=handler.capacity)
            return BoundHandler(ring, ring)
        case ItemHandler():
            return handler.bind_items(resume)
        case tuple() if len(handler) == 2 and callable(handler[0]):
            return BoundHandler(_callback_runner(handler[0], loop, resume), handler[1])
        case _ if callable(handler) and not hasattr(handler, "bind"):
            return BoundHandler(_callback_runner(handler, loop, resume), None, background=True)
    raise ValueError(f"expected a channel, a function or a pair of a function and an object, found {handler!r}")


def _channel(capacity: int, resume: Resume) -> BoundHandler:
    channel: Handler[Any] = Handler(capacity, resume)
    return BoundHandler(channel, channel)


def _callback_runner(callback: Callable[[Any], Any], loop: CallbackExecutor, resume: Resume) -> DeliverySink[Any]:
    handler = to_callback(callback)
    return CallbackRunner(handler.callback, handler.drop, loop, resume)


def to_callback(callback: Callable[[Any], Any]) -> Callback[Any]:
    """Return a callback as it is, and make one of a function. TypeError if it is a coroutine function."""
    handler = callback if isinstance(callback, Callback) else Callback(callback)
    for function in (handler.callback, handler.drop):
        if _is_coroutine_function(function):
            raise TypeError(f"expected a function, found the coroutine function {function!r}: only zenspark.aio awaits")
    return handler


def _is_coroutine_function(function: object) -> bool:
    """Return whether calls return coroutines, also those of an object or of the function in a `Callback`."""
    while isinstance(function, Callback):
        function = function.callback
    return inspect.iscoroutinefunction(function) or (
        callable(function) and inspect.iscoroutinefunction(type(function).__call__)
    )


def log_sink_failure(receiver: object) -> None:
    """Log the exception that the sink of a receiver raised now: it loses these items, and nothing else ends."""
    logger.exception("handler of the subscriber of %s failed: the items are lost", receiver)


class Handler(Channel, Generic[T]):
    """A channel that the session delivers into: receive with `recv`, `try_recv` or a `for` loop.

    The session makes it, and returns it from `get` and as `handler` of a subscriber, queryable or listener: for
    `FifoChannel` and `RingChannel`, and where no handler is given. Any number of threads may receive; each item reaches
    one of them.

    Attributes:
        is_stalled: Whether a sender of this session waited for capacity in vain; False again once it has drained.

    Example:
        >>> for reply in session.get("demo/**"):
        ...     print(reply.ok)
    """

    __reduce_ex__ = refuse_copy

    if TYPE_CHECKING:
        is_stalled: bool

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
    return max(capacity, 1)  # with 0 no item could ever be received
