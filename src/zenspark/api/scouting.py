"""scout(): discover nodes by multicast, without a session."""

from __future__ import annotations

import threading
from typing import Any, Generic, Self, TypeVar, overload

from zenspark.api._signatures import IntoCallback, IntoCallbackAndHandler, IntoChannel
from zenspark.api.entities import NoChannelError
from zenspark.config.config import Config
from zenspark.handlers.handler import BoundHandler, Handler, bind_handler
from zenspark.net.loop.executor import ThreadPerCallback
from zenspark.net.node.scouting import Scouter, ScoutingSettings
from zenspark.types.arguments import require_type
from zenspark.types.enums import WhatAmIMatcher
from zenspark.types.network_info import Hello
from zenspark.types.uncopyable import refuse_copy

H = TypeVar("H")
H_co = TypeVar("H_co", covariant=True)

SCOUT_WAIT_SECONDS = 3600.0
"""Seconds of one wait for replies; `stop` ends it at once."""


class Scout(Generic[H_co]):
    """A search for nodes that runs until it is stopped; each node is delivered once. `scout` starts it.

    As a context manager it stops at the end of the `with` block; with a channel, also when it is garbage-collected.

    Example:
        >>> with zenspark.scout(what="router|peer") as scout:
        ...     hello = scout.recv(timeout=3)
    """

    def __init__(self, scouter: Scouter, bound: BoundHandler) -> None:
        """Start the search in a thread.

        Args:
            scouter: Socket that sends SCOUT and receives HELLO.
            bound: The handler that nodes are delivered to.
        """
        self._scouter = scouter
        self._bound = bound
        self._stopped = threading.Event()
        search = (
            scouter,
            bound,
            self._stopped,
        )  # not self: it must be possible to collect it, which ends the search
        threading.Thread(target=_search, args=search, name="zenspark-scout", daemon=True).start()

    def stop(self) -> None:
        """Stop the search, and close its channel. Stopping it again does nothing.

        Example:
            >>> scout = zenspark.scout()
            >>> scout.stop()
        """
        if not self._stopped.is_set():
            self._stopped.set()
            self._scouter.close()

    __reduce_ex__ = refuse_copy

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __del__(self) -> None:
        if not self._bound.background:
            self.stop()

    @property
    def handler(self) -> H_co:
        """The channel that nodes are delivered to, the object that was given with a callback, or None."""
        return self._bound.handler  # type: ignore[return-value]

    def _channel(self) -> Handler[Hello]:
        if not isinstance(self._bound.handler, Handler):
            raise NoChannelError("scout")
        return self._bound.handler

    def recv(self: Scout[Handler[Hello]], timeout: float | None = None) -> Hello:
        """Return the next node, and wait for it if there is none yet.

        Args:
            timeout: Seconds to wait; without end by default.

        Returns:
            The HELLO of the node.

        Raises:
            ReceiveTimeout: No node replied in time.
            ChannelClosed: The search was stopped.
            UsageError: It delivers to a callback.
            ValueError: The timeout is NaN.
            TypeError: The timeout is no number.

        Example:
            >>> hello = scout.recv(timeout=3)
        """
        return self._channel().recv(timeout)

    def try_recv(self: Scout[Handler[Hello]]) -> Hello | None:
        """Return the next node without waiting.

        Returns:
            The HELLO of the node, or None if there is none yet.

        Raises:
            ChannelClosed: The search was stopped.
            UsageError: It delivers to a callback.

        Example:
            >>> hello = scout.try_recv()
        """
        return self._channel().try_recv()

    def __iter__(self: Scout[Handler[Hello]]) -> Handler[Hello]:
        """Iterate over the nodes until the search is stopped."""
        return self._channel()


def _search(scouter: Scouter, bound: BoundHandler, stopped: threading.Event) -> None:
    while not stopped.is_set():
        bound.sink.push_many([Hello.from_wire(hello) for hello in scouter.wait(SCOUT_WAIT_SECONDS)])
    bound.sink.close()


@overload
def scout(
    handler: IntoChannel[Hello] | None = None, what: WhatAmIMatcher | str | None = None, config: Config | None = None
) -> Scout[Handler[Hello]]: ...
@overload
def scout(
    handler: IntoCallbackAndHandler[Hello, H], what: WhatAmIMatcher | str | None = None, config: Config | None = None
) -> Scout[H]: ...
@overload
def scout(
    handler: IntoCallback[Hello], what: WhatAmIMatcher | str | None = None, config: Config | None = None
) -> Scout[None]: ...


def scout(handler: object = None, what: WhatAmIMatcher | str | None = None, config: Config | None = None) -> Scout[Any]:
    """Search for nodes by multicast, without opening a session.

    Args:
        handler: Where the nodes are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`), a function
            that is called with each of them, or a pair of a function and an object; by default a `FifoChannel` of 256.
        what: Roles of the nodes, such as "router|peer" or `WhatAmIMatcher.empty().router()`; all roles by default.
        config: Configuration with the multicast address, interface and TTL; that of zenohd by default.

    Returns:
        The search, which runs until it is stopped or, with a channel, garbage-collected.

    Raises:
        ValueError: The handler is none of these.
        UsageError: `what` names no role.
        TypeError: An argument has a wrong type.
        LinkError: No interface has multicast.

    Example:
        >>> with zenspark.scout(what="router") as scout:
        ...     for hello in scout:
        ...         print(hello.zid, hello.locators)
    """
    multicast = (Config() if config is None else require_type(Config, config)).settings().scouting.multicast
    roles = WhatAmIMatcher.of(what or "router|peer|client").to_wire()
    settings = ScoutingSettings(multicast.address, multicast.interface, multicast.ttl)
    bound = bind_handler(handler, ThreadPerCallback(), lambda _: None)
    return Scout(Scouter(settings, roles), bound)
