"""Session: the session of the synchronous API, for tasks of one event loop."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from zenspark.aio.awaitable import Pending
from zenspark.aio.entities import (
    Entity,
    LivelinessToken,
    Publisher,
    Querier,
    Queryable,
    Subscriber,
    async_declare,
)
from zenspark.aio.info import SessionInfo
from zenspark.aio.query import Query
from zenspark.aio.replies import async_get
from zenspark.aio.run_in_thread import run_in_thread
from zenspark.aio.send_readiness import SendReadiness, SendTarget, async_in_thread, async_send
from zenspark.api import session as api
from zenspark.api.open import SessionOpener
from zenspark.config.config import Config
from zenspark.engine.timestamping import TimestampCallback
from zenspark.key import KeyExpr
from zenspark.net.loop.executor import start_callback_thread
from zenspark.types.enums import CongestionControl
from zenspark.types.ids import EntityGlobalId, ZenohId
from zenspark.types.timestamps import Timestamp


def open(config: Config | None = None, *, timestamp_callback: TimestampCallback | None = None) -> Pending[Session]:
    """Open a session: `await` it when the network is reached, or `async with` it.

    A task that is cancelled meanwhile leaves at once, and what there is so far ends.
    """
    return Pending(_open(config, timestamp_callback))


async def _open(config: Config | None, timestamp_callback: TimestampCallback | None) -> Session:
    opening = SessionOpener(config, timestamp_callback)
    try:
        return Session(await run_in_thread(opening.finish))
    except asyncio.CancelledError:
        start_callback_thread(opening.abort)
        raise


class Session:
    """An open session. Closes when it leaves its `async with` block, or when nobody holds it any more."""

    def __init__(self, sync: api.Session) -> None:
        self._sync = sync
        self._readiness = SendReadiness(sync._runtime.node)
        self._info = SessionInfo(self._readiness, sync.info)

    # -- life

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the session with all its entities, when what it published is written; a second time does nothing.

        A task that is cancelled meanwhile leaves at once, and the session closes all the same.
        """
        await run_in_thread(self._sync.close)

    def is_closed(self) -> bool:
        return self._sync.is_closed()

    @property
    def info(self) -> SessionInfo:
        """Who this session is connected to."""
        return self._info

    @property
    def id(self) -> EntityGlobalId:
        return self._sync.id

    def zid(self) -> ZenohId:
        """The id of this node."""
        return self._sync.zid()

    def new_timestamp(self) -> Timestamp:
        """The time now, by this node's clock: never the same twice."""
        return self._sync.new_timestamp()

    async def undeclare(self, obj: KeyExpr | Entity[Any]) -> None:
        """End an entity; a declared key expression needs no end."""
        self._sync.undeclare(obj._sync if isinstance(obj, Entity) else obj)

    async def declare_keyexpr(self, key_expr: api.IntoKeyExpr) -> KeyExpr:
        """A key expression to be used often; numbers for it are given out by themselves."""
        return self._sync.declare_keyexpr(key_expr)

    def liveliness(self) -> Liveliness:
        """Tokens: who is alive."""
        return Liveliness(self._readiness, self._sync.liveliness())

    # -- publish, receive, ask

    def _send_target(self, args: tuple[object, ...], options: dict[str, Any]) -> SendTarget:
        """Of a publication; its key is its first argument."""
        congestion = options.get("congestion_control") or CongestionControl.DEFAULT
        return congestion.to_wire(), str(args[0] if args else options.get("key_expr"))

    put = async_send(api.Session.put)
    delete = async_send(api.Session.delete)
    put_batch = async_in_thread(api.Session.put_batch)
    declare_publisher = async_declare(api.Session.declare_publisher, Publisher)
    declare_subscriber = async_declare(api.Session.declare_subscriber, Subscriber, 1)
    declare_queryable = async_declare(api.Session.declare_queryable, Queryable, 1, Query)
    get = async_get(api.Session.get, 1)
    declare_querier = async_declare(api.Session.declare_querier, Querier)


class Liveliness:
    """Tokens of a session: declare them, ask for them, be told of them."""

    def __init__(self, voice: SendReadiness, sync: api.Liveliness) -> None:
        self._readiness = voice
        self._sync = sync

    declare_token = async_declare(api.Liveliness.declare_token, LivelinessToken)
    declare_subscriber = async_declare(api.Liveliness.declare_subscriber, Subscriber, 1)
    get = async_get(api.Liveliness.get, 1)
