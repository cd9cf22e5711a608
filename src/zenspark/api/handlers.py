"""How users receive: by a callback, or by a channel they read from; and the end of both where the session delivers.

Users name what they want: `FifoChannel(10)`, `RingChannel(10)`, a function, `Callback(function, drop)`. From that
`attach` makes an `Inlet`, and the session delivers there: `push` and `push_many` in the thread that reads the network,
`close` when nothing more will come. None of them ever blocks or loses what was pushed, except that a ring forgets the
oldest. Instead they answer whether there is room for more. After a no the session stops reading from that link until
`resume` is called. So a slow consumer slows its publishers down instead of filling the memory, and neither keep-alives
nor other links wait for it.

A channel is a deque, whose own methods are atomic, and a lock used as a bell: free means that somebody rang. A producer
adds items, then rings unless the bell has rung already. A consumer that finds nothing takes the bell, sleeping until it
rings, and looks again. Whoever takes it and leaves items, or finds the channel closed, rings for the next. So no ring
is missed, one ring serves a whole batch, and a consumer with enough to do never touches the bell.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable
from threading import Lock
from time import monotonic
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import msgspec

from zenspark.errors import ZError

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

DEFAULT_CAPACITY = 256
CALLBACK_CAPACITY = 1024
"""So many items may wait for a callback before the session is asked to pause."""
LONGEST_SLEEP = 0.1 if sys.platform == "win32" else 1.0
"""Seconds a lock sleeps before it is woken to look: there it does not notice Ctrl-C, elsewhere it misses one that
comes just before it falls asleep."""

logger = logging.getLogger("zenspark")


class ChannelClosed(ZError):
    """Nothing more will come: the subscriber, query or session behind this channel has ended."""

    def __str__(self) -> str:
        return "channel is empty and closed"


class ReceiveTimeout(ZError, TimeoutError):
    """Nothing came in the time given."""

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout)
        self.timeout = timeout

    def __str__(self) -> str:
        return f"nothing received in {self.timeout} s"


# --- what users name ------------------------------------------------------------------------------


class DefaultHandler(Generic[T]):
    """What is taken when no handler is named: a `FifoChannel` of moderate size."""

    __slots__ = ()


class FifoChannel(Generic[T]):
    """A channel that keeps everything in order; when it is full, whoever sends is slowed down."""

    __slots__ = ("capacity",)

    def __init__(self, capacity: int) -> None:
        self.capacity = _checked(capacity)


class RingChannel(Generic[T]):
    """A channel that keeps only the newest items; when it is full, the oldest is forgotten."""

    __slots__ = ("capacity",)

    def __init__(self, capacity: int) -> None:
        self.capacity = _checked(capacity)


class Callback(Generic[T]):
    """A function called with every item, and another one called once when no more will come.

    `indirect` callbacks run in a thread of their own and may take their time. The others run in the thread that reads
    the network: they spare a hand-over, but everything waits for them.
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

Resume: TypeAlias = Callable[[], object]
"""Called in any thread, once there is room again after a push said no.

It must be short, may come without need, and may come before that push has returned: whoever waits for a flag that it
sets must have cleared the flag before pushing.
"""

Spawn: TypeAlias = Callable[[Callable[[], None]], object]
"""Runs a function in a thread of its own; the function returns after `close`."""


class Inlet(Protocol[T_contra]):
    """Where the session delivers; one thread at a time pushes, any thread may close."""

    def push(self, item: T_contra) -> bool:
        """Delivers one item; whether there is room for more."""

    def push_many(self, items: Iterable[T_contra]) -> bool:
        """Delivers a batch at the price of one; whether there is room for more."""

    def close(self) -> None:
        """Ends the delivery; what was pushed will still be received. Closing again does nothing."""


class Bell(Protocol):
    """What a channel rings when there is something to take; free means that it rang. A lock is one."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def locked(self) -> bool: ...

    def release(self) -> None: ...


class Attached(msgspec.Struct, frozen=True):
    """A handler in use: where the session delivers, what the user holds, and whether it outlives that."""

    inlet: Inlet[Any]
    handler: object
    background: bool = False


@runtime_checkable
class Attachable(Protocol):
    """A kind of handler from elsewhere that makes itself ready."""

    def attach(self, resume: Resume) -> Attached: ...


def attach(handler: object, spawn: Spawn, resume: Resume) -> Attached:
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
            return Attached(ring, ring)
        case Attachable():
            return handler.attach(resume)
        case tuple() if len(handler) == 2 and callable(handler[0]):
            return Attached(_caller(handler[0], spawn, resume), handler[1])
        case _ if callable(handler):
            return Attached(_caller(handler, spawn, resume), None, background=True)
    raise ValueError(f"expected a channel, a function or a pair of a function and an object, found {handler!r}")


def _channel(capacity: int, resume: Resume) -> Attached:
    channel: Handler[Any] = Handler(capacity, resume)
    return Attached(channel, channel)


def _caller(callback: Callable[[Any], Any], spawn: Spawn, resume: Resume) -> Inlet[Any]:
    named = callback if isinstance(callback, Callback) else Callback(callback)
    if not named.indirect:
        return DirectCaller(named)
    channel: Handler[Any] = Handler(CALLBACK_CAPACITY, resume)
    spawn(lambda: call_all(named, channel))
    return channel


class Handler(Generic[T]):
    """A channel: users receive from it, by `recv`, `try_recv` or a for loop; the session delivers into it.

    Any number of threads may receive; each item reaches one of them.
    """

    __slots__ = ("_bell", "_capacity", "_closed", "_items", "_paused", "_resume", "_take")

    def __init__(self, capacity: int, resume: Resume, keep: int | None = None) -> None:
        self._items: deque[T] = deque(maxlen=keep)
        self._take = self._items.popleft
        self._bell: Bell = Lock()
        self._bell.acquire()
        self._capacity = capacity
        self._resume = resume
        self._paused = False
        self._closed = False

    def ring_with(self, bell: Bell) -> None:
        """Takes another bell, before anything is pushed: for who waits elsewhere and takes with `try_recv`."""
        self._bell = bell

    # --- for users

    def recv(self, timeout: float | None = None) -> T:
        """The next item, waited for without end or for so many seconds.

        Raises `ReceiveTimeout` if none came, and `ChannelClosed` if none will ever come.
        """
        try:
            item = self._take()
        except IndexError:
            return self._wait(timeout)
        if self._paused:
            self._resume_if_room()
        return item

    def try_recv(self) -> T | None:
        """The next item if there is one, None if not yet; raises `ChannelClosed` if none will ever come."""
        closed = self._closed  # asked first: what was pushed before closing must not be missed
        try:
            item = self._take()
        except IndexError:
            if closed:
                raise ChannelClosed from None
            return None
        if self._paused:
            self._resume_if_room()
        return item

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            return self.recv()
        except ChannelClosed:
            raise StopIteration from None

    def __repr__(self) -> str:
        return f"<Handler: {len(self._items)} items{', closed' if self._closed else ''}>"

    # --- for the session

    def push(self, item: T) -> bool:
        self._items.append(item)
        if self._bell.locked():
            self._ring()
        return len(self._items) < self._capacity or self._has_room()

    def push_many(self, items: Iterable[T]) -> bool:
        self._items.extend(items)
        if self._bell.locked():
            self._ring()
        return len(self._items) < self._capacity or self._has_room()

    def close(self) -> None:
        self._closed = True
        self._ring()

    # --- room

    def _has_room(self) -> bool:
        """Asks to be resumed, then looks once more: all items may have been taken just before."""
        self._paused = True
        if len(self._items) >= self._capacity:
            return False
        self._paused = False
        return True

    def _resume_if_room(self) -> None:
        """Half empty is room: resuming for every single item would wake the session as often as it receives."""
        if len(self._items) <= self._capacity // 2:
            self._paused = False
            self._resume()

    # --- waiting

    def _ring(self) -> None:
        try:  # noqa: SIM105 - suppress takes ten times as long, and somebody waits
            self._bell.release()
        except RuntimeError:
            pass  # somebody else rang meanwhile

    def _wait(self, timeout: float | None) -> T:
        deadline = None if timeout is None else monotonic() + timeout
        if self._paused:
            self._resume_if_room()
        try:
            return self._sleep_and_take(deadline, timeout)
        finally:  # even if Ctrl-C came just after the bell was taken
            if self._items or self._closed:
                self._ring()
            if self._paused:
                self._resume_if_room()

    def _sleep_and_take(self, deadline: float | None, timeout: float | None) -> T:
        while True:
            closed = self._closed  # asked first: what was pushed before closing must not be missed
            try:
                return self._take()
            except IndexError:
                if closed:
                    raise ChannelClosed from None
            if deadline is None:
                self._bell.acquire(timeout=LONGEST_SLEEP)
            elif not self._bell.acquire(timeout=_nap(deadline - monotonic())) and monotonic() >= deadline:
                assert timeout is not None
                raise ReceiveTimeout(timeout)


def _nap(left: float) -> float:
    """How long to sleep of the time that is left."""
    left = max(left, 0)
    return left if LONGEST_SLEEP < 0 else min(left, LONGEST_SLEEP)


# --- callbacks ------------------------------------------------------------------------------------


def call_all(callback: Callback[T], items: Iterable[T]) -> None:
    """Calls back with every item until the channel is closed, then drops: what the thread of a callback runs."""
    try:
        for item in items:
            _call(callback, item)
            del item  # or it would be held until the next one comes, and a query ends when nobody holds it
    finally:
        _drop(callback)


class DirectCaller(Generic[T]):
    """Calls back in the thread that delivers; there is always room, for it delivers no faster than it is called.

    Whoever leaves last after closing drops: nothing waits for a callback, which may be the one that closes, and no
    callback comes after the drop.
    """

    __slots__ = ("_callback", "_calling", "_lock", "_open")

    def __init__(self, callback: Callback[T]) -> None:
        self._callback = callback
        self._lock = Lock()
        self._open = True
        self._calling = 0

    def push(self, item: T) -> bool:
        return self.push_many((item,))

    def push_many(self, items: Iterable[T]) -> bool:
        with self._lock:
            if not self._open:
                return True
            self._calling += 1
        try:
            for item in items:
                _call(self._callback, item)
        finally:
            with self._lock:
                self._calling -= 1
                last = not self._open and not self._calling
            if last:
                _drop(self._callback)
        return True

    def close(self) -> None:
        with self._lock:
            last = self._open and not self._calling
            self._open = False
        if last:
            _drop(self._callback)


def _call(callback: Callback[T], item: T) -> None:
    try:
        callback.callback(item)
    except Exception:  # the user's own; the next item must not suffer for it
        logger.exception("callback %r failed", callback.callback)
        drop = getattr(item, "drop", None)
        if drop is not None:  # a query: who asked must not wait for whoever still looks at the traceback
            drop()


def _drop(callback: Callback[T]) -> None:
    if callback.drop is not None:
        try:
            callback.drop()
        except Exception:  # the user's own; nobody is left to tell
            logger.exception("drop of callback %r failed", callback.callback)


def _checked(capacity: int) -> int:
    if not isinstance(capacity, int):
        raise TypeError(f"expected an int, found {type(capacity).__name__!r}")
    if capacity < 0:
        raise OverflowError(f"expected a capacity of 0 or more, found {capacity}")
    return max(capacity, 1)  # something must be able to lie there for anybody to take it
