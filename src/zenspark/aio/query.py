"""Query: what a queryable of tasks receives and answers."""

from __future__ import annotations

from typing import Any, Self

from zenspark.aio.send_readiness import SendReadiness, SendTarget, async_send
from zenspark.key import KeyExpr
from zenspark.types import query as api
from zenspark.types.encoding import Encoding
from zenspark.types.enums import ConsolidationMode, QueryTarget, ReplyKeyExpr
from zenspark.types.ids import SourceInfo
from zenspark.types.selector import Parameters, Selector
from zenspark.types.timestamp_stack import TimestampStack
from zenspark.types.timestamps import Timestamp
from zenspark.types.zbytes import ZBytes
from zenspark.wire.values import Congestion


class Query:
    """A question: answer with `await reply`, `reply_del` or `reply_err`, then `drop` it, or leave its `async with`.

    One nobody holds any more is dropped, and so is one whose callback was a coroutine that has ended.
    """

    __slots__ = ("__weakref__", "_readiness", "_sync")

    def __init__(self, voice: SendReadiness, sync: api.Query) -> None:
        self._readiness = voice
        self._sync = sync

    def _send_target(self, args: tuple[object, ...], options: dict[str, Any]) -> SendTarget:
        return Congestion.BLOCK, None

    reply = async_send(api.Query.reply, 'await query.reply("demo/time", "noon")')
    reply_del = async_send(api.Query.reply_del, 'await query.reply_del("demo/time")')
    reply_err = async_send(api.Query.reply_err, 'await query.reply_err("no such time")')

    def drop(self) -> None:
        """Say that there is no more to come from here; a second time does nothing."""
        self._sync.drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.drop()

    @property
    def key_expr(self) -> KeyExpr:
        """The keys that are asked for; it may have wildcards, so it is rarely what to reply on."""
        return self._sync.key_expr

    @property
    def parameters(self) -> Parameters:
        return self._sync.parameters

    @property
    def selector(self) -> Selector:
        """Keys and parameters together."""
        return self._sync.selector

    @property
    def payload(self) -> ZBytes | None:
        """The value sent along with the question."""
        return self._sync.payload

    @property
    def encoding(self) -> Encoding | None:
        return self._sync.encoding

    @property
    def attachment(self) -> ZBytes | None:
        return self._sync.attachment

    @property
    def source_info(self) -> SourceInfo | None:
        return self._sync.source_info

    @property
    def target(self) -> QueryTarget:
        """Which of the queryables that match the querier asks."""
        return self._sync.target

    @property
    def budget(self) -> int | None:
        """How many responses, replies and errors, the querier accepts; None for any number."""
        return self._sync.budget

    @property
    def timeout(self) -> float | None:
        """Seconds after which the querier stops waiting, counted from its question; None if it did not say."""
        return self._sync.timeout

    @property
    def consolidation(self) -> ConsolidationMode:
        """How the querier merges replies for one key; AUTO if it leaves that to the queryables."""
        return self._sync.consolidation

    @property
    def timestamp(self) -> Timestamp | None:
        """When the querier asked, by its clock, if it told."""
        return self._sync.timestamp

    @property
    def timestamp_stack(self) -> TimestampStack | None:
        return self._sync.timestamp_stack

    def accepts_replies(self) -> ReplyKeyExpr:
        """Which keys replies may have."""
        return self._sync.accepts_replies()

    def __str__(self) -> str:
        return str(self._sync)

    def __repr__(self) -> str:
        return repr(self._sync)
