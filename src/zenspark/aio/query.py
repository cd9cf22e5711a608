"""Query: a query that a queryable of asyncio received, and replies to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from zenspark.aio.send_readiness import SendReadiness, SendTarget, async_send
from zenspark.key import KeyExpr
from zenspark.types import query as api
from zenspark.types.encoding import Encoding
from zenspark.types.enums import CongestionControl, ConsolidationMode, Priority, QueryTarget, ReplyKeyExpr
from zenspark.types.ids import SourceInfo
from zenspark.types.selector import Parameters, Selector
from zenspark.types.timestamp_stack import TimestampStack
from zenspark.types.timestamps import Timestamp
from zenspark.types.zbytes import IntoZBytes, ZBytes
from zenspark.wire.values import Congestion


class Query:
    """A query that a queryable received: reply with `await reply`, `reply_del` or `reply_err`, then `drop` it.

    It is dropped at the end of its `async with` block, when it is garbage-collected, and when the coroutine that it was
    delivered to has returned. The querier waits until then.

    Example:
        >>> async with await queryable.recv() as query:
        ...     await query.reply("demo/time", "noon")
    """

    __slots__ = ("__weakref__", "_readiness", "_sync")

    def __init__(self, readiness: SendReadiness, sync: api.Query) -> None:
        """Wrap a query of the synchronous API.

        Args:
            readiness: Waits for links of the session that have unsent bytes.
            sync: The query.
        """
        self._readiness = readiness
        self._sync = sync

    def _send_target(self, args: tuple[object, ...], options: dict[str, Any]) -> SendTarget:
        return Congestion.BLOCK, None

    if TYPE_CHECKING:

        async def reply(
            self,
            key_expr: KeyExpr | str,
            payload: IntoZBytes,
            *,
            encoding: Encoding | str | None = None,
            congestion_control: CongestionControl | None = None,
            priority: Priority | None = None,
            express: bool | None = None,
            attachment: IntoZBytes | None = None,
            timestamp: Timestamp | None = None,
            consolidation: ConsolidationMode | None = None,
            source_info: SourceInfo | None = None,
        ) -> None:
            """Reply with a value.

            `await` it: it returns when the message can be sent without blocking.

            Args:
                key_expr: Key of the value, which must match the query unless it accepts replies on any key.
                payload: The value: bytes, a string (sent as UTF-8), or `ZBytes`.
                encoding: Encoding of the payload; `zenoh/bytes` by default.
                congestion_control: Treatment while the link to the querier has unsent bytes; that of the query by
                    default, as always in eclipse-zenoh, whose routers also replace it on the way.
                priority: Priority of the reply; that of the query by default.
                express: Whether the reply is sent at once, without waiting for others to fill a batch; as the query by
                    default.
                attachment: Bytes or text sent along with the reply; none by default.
                timestamp: Time of the value; none by default.
                consolidation: How this reply should be merged with others on its key, if the querier leaves that to the
                    queryables (AUTO, its default); no preference by default. Not in eclipse-zenoh, whose queriers
                    ignore it.
                source_info: Publisher and sequence number of the value; none by default.

            Raises:
                UsageError: The query was dropped, or the key does not match it and the querier does not accept other
                    keys.
                TypeError: An argument has a wrong type.

            Example:
                >>> await query.reply("demo/time", "noon")
            """

        async def reply_del(
            self,
            key_expr: KeyExpr | str,
            *,
            congestion_control: CongestionControl | None = None,
            priority: Priority | None = None,
            express: bool | None = None,
            attachment: IntoZBytes | None = None,
            timestamp: Timestamp | None = None,
            consolidation: ConsolidationMode | None = None,
            source_info: SourceInfo | None = None,
        ) -> None:
            """Reply that a key was deleted.

            `await` it: it returns when the message can be sent without blocking.

            Args:
                key_expr: The key, which must match the query unless it accepts replies on any key.
                congestion_control: Treatment while the link to the querier has unsent bytes; that of the query by
                    default, as always in eclipse-zenoh, whose routers also replace it on the way.
                priority: Priority of the reply; that of the query by default.
                express: Whether the reply is sent at once, without waiting for others to fill a batch; as the query by
                    default.
                attachment: Bytes or text sent along with the reply; none by default.
                timestamp: Time of the value; none by default.
                consolidation: How this reply should be merged with others on its key, if the querier leaves that to the
                    queryables (AUTO, its default); no preference by default. Not in eclipse-zenoh, whose queriers
                    ignore it.
                source_info: Publisher and sequence number of the value; none by default.

            Raises:
                UsageError: The query was dropped, or the key does not match it and the querier does not accept other
                    keys.
                TypeError: An argument has a wrong type.

            Example:
                >>> await query.reply_del("demo/time")
            """

        async def reply_err(
            self,
            payload: IntoZBytes,
            *,
            encoding: Encoding | str | None = None,
            source_info: SourceInfo | None = None,
            timestamp: Timestamp | None = None,
        ) -> None:
            """Reply with an error.

            `await` it: it returns when the message can be sent without blocking.

            Args:
                payload: The reason: bytes, a string (sent as UTF-8), or `ZBytes`.
                encoding: Encoding of the payload; `zenoh/bytes` by default.
                source_info: Entity that sends it, and sequence number; none by default. Not in eclipse-zenoh.
                timestamp: Time of the response; none by default. Not in eclipse-zenoh.

            Raises:
                UsageError: The query was dropped.
                TypeError: An argument has a wrong type.

            Example:
                >>> await query.reply_err("no such time")
            """

    else:
        reply = async_send(api.Query.reply, 'await query.reply("demo/time", "noon")')
        reply_del = async_send(api.Query.reply_del, 'await query.reply_del("demo/time")')
        reply_err = async_send(api.Query.reply_err, 'await query.reply_err("no such time")')

    def drop(self) -> None:
        """End the query for this queryable: it sends no more replies. Dropping it again does nothing.

        Example:
            >>> query = await queryable.recv()
            >>> query.drop()
        """
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
        """The keys that are queried; it may have wildcards, so it is rarely the key to reply on.

        Raises `UsageError` after `drop`.
        """
        return self._sync.key_expr

    @property
    def parameters(self) -> Parameters:
        """The parameters of the query. Raises `UsageError` after `drop`."""
        return self._sync.parameters

    @property
    def selector(self) -> Selector:
        """Key expression and parameters of the query together. Raises `UsageError` after `drop`."""
        return self._sync.selector

    @property
    def payload(self) -> ZBytes | None:
        """The value sent along with the query; None without. Raises `UsageError` after `drop`."""
        return self._sync.payload

    @property
    def encoding(self) -> Encoding | None:
        """The encoding of the value sent along with the query; None without. Raises `UsageError` after `drop`."""
        return self._sync.encoding

    @property
    def attachment(self) -> ZBytes | None:
        """The attachment of the query; None without. Raises `UsageError` after `drop`."""
        return self._sync.attachment

    @property
    def source_info(self) -> SourceInfo | None:
        """Querier and sequence number of the query; None if it did not send them. Raises `UsageError` after `drop`."""
        return self._sync.source_info

    @property
    def target(self) -> QueryTarget:
        """The matching queryables that are queried: the best matching, all, or all that are complete.

        Raises `UsageError` after `drop`.
        """
        return self._sync.target

    @property
    def budget(self) -> int | None:
        """Number of responses (replies and errors) that the querier accepts; None for any number.

        Raises `UsageError` after `drop`.
        """
        return self._sync.budget

    @property
    def timeout(self) -> float | None:
        """Seconds from sending the query after which the querier stops waiting; None if it did not send a timeout.

        Raises `UsageError` after `drop`.
        """
        return self._sync.timeout

    @property
    def consolidation(self) -> ConsolidationMode:
        """Mode in which the querier merges replies on one key; AUTO if it leaves that to the queryables.

        Raises `UsageError` after `drop`.
        """
        return self._sync.consolidation

    @property
    def timestamp(self) -> Timestamp | None:
        """Time of the query, by the clock of the querier; None if it did not send it.

        Raises `UsageError` after `drop`.
        """
        return self._sync.timestamp

    @property
    def timestamp_stack(self) -> TimestampStack | None:
        """Clock readings of the nodes on the way; None unless the query is instrumented.

        Raises `UsageError` after `drop`.
        """
        return self._sync.timestamp_stack

    def accepts_replies(self) -> ReplyKeyExpr:
        """Return whether replies may be on keys that do not match the query.

        Returns:
            ANY if they may, otherwise MATCHING_QUERY.

        Raises:
            UsageError: The query was dropped.

        Example:
            >>> if query.accepts_replies() is zenspark.ReplyKeyExpr.ANY:
            ...     await query.reply("another/key", "noon")
        """
        return self._sync.accepts_replies()

    def __str__(self) -> str:
        return str(self._sync)

    def __repr__(self) -> str:
        return repr(self._sync)
