"""scout(): look for nodes without opening a session."""

from __future__ import annotations

import threading
from typing import Any, Generic, Self, TypeVar

from zenspark.api.entities import NoChannelError
from zenspark.config.config import Config
from zenspark.handlers.handler import BoundHandler, Handler, bind_handler
from zenspark.net.loop.executor import ThreadPerCallback
from zenspark.net.node.scouting import Scouter, ScoutingSettings
from zenspark.types.enums import WhatAmIMatcher
from zenspark.types.network_info import Hello

H = TypeVar("H")

SCOUT_WAIT_SECONDS = 3600.0
"""Seconds one wait for answers lasts; stopping ends it at once."""


class Scout(Generic[H]):
    """A search that goes on until it is stopped; every node found is delivered once."""

    def __init__(self, scouter: Scouter, attached: BoundHandler) -> None:
        self._scouter = scouter
        self._attached = attached
        self._stopped = threading.Event()
        search = (scouter, attached, self._stopped)  # not self: nobody holding it any more must end it
        threading.Thread(target=_search, args=search, name="zenspark-scout", daemon=True).start()

    def stop(self) -> None:
        """Stop looking; a second time does nothing."""
        if not self._stopped.is_set():
            self._stopped.set()
            self._scouter.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __del__(self) -> None:
        if not self._attached.background:
            self.stop()

    @property
    def handler(self) -> H:
        """Where the nodes found come: a channel, or whatever was given together with a callback."""
        return self._attached.handler  # type: ignore[return-value]

    def _channel(self) -> Handler[Hello]:
        if not isinstance(self._attached.handler, Handler):
            raise NoChannelError("scout")
        return self._attached.handler

    def recv(self, timeout: float | None = None) -> Hello:
        """The next node, waited for; `timeout` in seconds."""
        return self._channel().recv(timeout)

    def try_recv(self) -> Hello | None:
        """The next node if there is one."""
        return self._channel().try_recv()

    def __iter__(self) -> Handler[Hello]:
        return self._channel()


def _search(scouter: Scouter, attached: BoundHandler, stopped: threading.Event) -> None:
    while not stopped.is_set():
        attached.sink.push_many([Hello.from_wire(hello) for hello in scouter.wait(SCOUT_WAIT_SECONDS)])
    attached.sink.close()


def scout(handler: object = None, what: WhatAmIMatcher | str | None = None, config: Config | None = None) -> Scout[Any]:
    """Look for nodes of the roles asked for, or of any."""
    multicast = (config or Config()).settings().scouting.multicast
    roles = WhatAmIMatcher.of(what or "router|peer|client").to_wire()
    settings = ScoutingSettings(multicast.address, multicast.interface, multicast.ttl)
    attached = bind_handler(handler, ThreadPerCallback(), lambda _: None)
    return Scout(Scouter(settings, roles), attached)
