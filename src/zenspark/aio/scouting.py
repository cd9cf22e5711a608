"""scout(): discover nodes by multicast, without a session, for asyncio."""

from __future__ import annotations

from typing import Any, Generic, Self, TypeVar, overload

from zenspark.aio.awaitable import Pending
from zenspark.aio.channels import AsyncHandler, Channel, ChannelIterator
from zenspark.aio.run_in_thread import run_in_thread
from zenspark.api import scouting as api
from zenspark.api._signatures import IntoCallback, IntoCallbackAndHandler, IntoChannel
from zenspark.config.config import Config
from zenspark.errors import UsageError
from zenspark.types.enums import WhatAmIMatcher
from zenspark.types.network_info import Hello

H = TypeVar("H")
H_co = TypeVar("H_co", covariant=True)


class Scout(Generic[H_co]):
    """A search for nodes that runs until it is stopped; each node is delivered once. `scout` starts it.

    Example:
        >>> async with zenspark.aio.scout(what="router|peer") as scout:
        ...     hello = await scout.recv(timeout=3)
    """

    def __init__(self, sync: api.Scout[H_co]) -> None:
        """Wrap a search.

        Args:
            sync: The search of the synchronous API.
        """
        self._sync = sync

    async def stop(self) -> None:
        """Stop the search, and close its channel. Stopping it again does nothing.

        Example:
            >>> scout = await zenspark.aio.scout()
            >>> await scout.stop()
        """
        await run_in_thread(self._sync.stop)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def handler(self) -> H_co:
        """The channel that nodes are delivered to, the object that was given with a callback, or None."""
        return self._sync.handler

    def _channel(self) -> Channel[Hello]:
        handler = self._sync.handler
        if not isinstance(handler, Channel):
            raise UsageError("this scout has no channel to receive from: its callback gets everything")
        return handler

    async def recv(
        self: Scout[Channel[Hello]],
        timeout: float | None = None,  # noqa: ASYNC109 - as the synchronous one
    ) -> Hello:
        """Wait for the next node. A task that is cancelled here leaves it for the next receiver.

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
            >>> hello = await scout.recv(timeout=3)
        """
        return await self._channel().recv(timeout)

    def try_recv(self: Scout[Channel[Hello]]) -> Hello | None:
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

    def __aiter__(self: Scout[Channel[Hello]]) -> ChannelIterator[Hello]:
        return ChannelIterator(self, self._channel())


@overload
def scout(
    handler: IntoChannel[Hello] | None = None, what: WhatAmIMatcher | str | None = None, config: Config | None = None
) -> Pending[Scout[Channel[Hello]]]: ...
@overload
def scout(
    handler: IntoCallbackAndHandler[Hello, H], what: WhatAmIMatcher | str | None = None, config: Config | None = None
) -> Pending[Scout[H]]: ...
@overload
def scout(
    handler: IntoCallback[Hello], what: WhatAmIMatcher | str | None = None, config: Config | None = None
) -> Pending[Scout[None]]: ...
def scout(
    handler: object = None, what: WhatAmIMatcher | str | None = None, config: Config | None = None
) -> Pending[Scout[Any]]:
    """Search for nodes by multicast, without opening a session.

    `await` the result, or enter it with `async with`; before that nothing is sent.

    Args:
        handler: Where the nodes are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`), a function
            or coroutine function that is called with each of them, or a pair of a function and an object; by default a
            `FifoChannel` of 256.
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
        >>> async with zenspark.aio.scout(what="router") as scout:
        ...     async for hello in scout:
        ...         print(hello.zid, hello.locators)
    """
    return Pending(_scout(handler, what, config))


async def _scout(handler: object, what: WhatAmIMatcher | str | None, config: Config | None) -> Scout[Any]:
    bound_to_loop: Any = AsyncHandler(handler)
    return Scout(api.scout(bound_to_loop, what, config))
