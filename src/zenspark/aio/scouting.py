"""scout(): look for nodes without opening a session, for tasks."""

from __future__ import annotations

from typing import Any, Self

from zenspark.aio.awaitable import Pending
from zenspark.aio.channels import AsyncHandler, Channel, ChannelIterator
from zenspark.aio.run_in_thread import run_in_thread
from zenspark.api import scouting as api
from zenspark.config.config import Config
from zenspark.errors import UsageError
from zenspark.types.enums import WhatAmIMatcher
from zenspark.types.network_info import Hello


class Scout:
    """A search that goes on until it is stopped; every node found is delivered once."""

    def __init__(self, sync: api.Scout[Any]) -> None:
        self._sync = sync

    async def stop(self) -> None:
        """Stop looking; a second time does nothing."""
        await run_in_thread(self._sync.stop)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def handler(self) -> Any:  # noqa: ANN401 - a channel, or whatever was given with a callback
        return self._sync.handler

    def _channel(self) -> Channel[Hello]:
        handler = self._sync.handler
        if not isinstance(handler, Channel):
            raise UsageError("this scout has no channel to receive from: its callback gets everything")
        return handler

    async def recv(self, timeout: float | None = None) -> Hello:  # noqa: ASYNC109 - as the synchronous one
        """The next node, waited for; `timeout` in seconds."""
        return await self._channel().recv(timeout)

    def try_recv(self) -> Hello | None:
        """The next node if there is one."""
        return self._channel().try_recv()

    def __aiter__(self) -> ChannelIterator[Hello]:
        return ChannelIterator(self, self._channel())


def scout(
    handler: object = None, what: WhatAmIMatcher | str | None = None, config: Config | None = None
) -> Pending[Scout]:
    """Look for nodes of the roles asked for, or of any."""
    return Pending(_scout(handler, what, config))


async def _scout(handler: object, what: WhatAmIMatcher | str | None, config: Config | None) -> Scout:
    return Scout(api.scout(AsyncHandler(handler), what, config))
