"""Query: a query as a queryable receives it, and the handle by which its replies are sent.

A query may be delivered to several queryables of this session, each with a `Query` object of its own; when the last of
them is dropped, the RESPONSE_FINAL is sent. A query is dropped by `drop()`, by leaving its `with` block, or when it is
garbage collected: also after a handler raised.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

from zenspark.errors import UsageError
from zenspark.key import KeyExpr
from zenspark.types.arguments import require_type, require_type_or_default, to_bool
from zenspark.types.encoding import Encoding
from zenspark.types.enums import CongestionControl, ConsolidationMode, Priority, QueryTarget, ReplyKeyExpr
from zenspark.types.ids import SourceInfo
from zenspark.types.selector import Parameters, Selector
from zenspark.types.timestamp_stack import TimestampStack
from zenspark.types.timestamps import Timestamp
from zenspark.types.wire_value import rust_repr
from zenspark.types.zbytes import IntoZBytes, ZBytes
from zenspark.wire import values as wire
from zenspark.wire.messages import Del, Err, Put, Reply, Request

ANY_KEY_PARAMETER = "_anyke"
"""The parameter by which a querier accepts replies on any key."""

SendReply = Callable[[str, Reply | Err, wire.EntityId, wire.QoS | None, wire.Timestamp | None], None]
"""Sends one RESPONSE: key, body, responder, QoS (None for that of the query) and timestamp."""

CallSoon = Callable[[Callable[[], None]], None]
"""Runs a function soon in another thread, without waiting for a lock."""


class RequestHandle:
    """One REQUEST that is delivered to queryables of this session."""

    __slots__ = ("_finish", "_lock", "_open", "call_soon", "key_expr", "request", "send_reply")

    def __init__(
        self,
        request: Request,
        key_expr: KeyExpr,
        send_reply: SendReply,
        finish: Callable[[], None],
        call_soon: CallSoon,
    ) -> None:
        self.request = request
        self.key_expr = key_expr
        self.send_reply = send_reply
        self.call_soon = call_soon
        self._finish = finish
        self._open = 0
        self._lock = threading.Lock()

    def start(self, count: int) -> None:
        """Expect `count` queryables to release the request; with none it is finished at once."""
        self._open = count
        if not count:
            self._finish()

    def release(self) -> None:
        """Release the request for one queryable; the last one finishes it."""
        with self._lock:
            self._open -= 1
            is_last = self._open == 0
        if is_last:
            self._finish()


class Query:
    """A query that a queryable received: reply with `reply`, `reply_del` or `reply_err`, then `drop` it.

    It is dropped at the end of its `with` block, and when it is garbage-collected. The querier waits until then.

    Example:
        >>> with queryable.recv() as query:
        ...     query.reply("demo/time", "noon")
    """

    __slots__ = ("__weakref__", "_handle", "_responder")

    def __init__(self, handle: RequestHandle, responder: wire.EntityId) -> None:
        """Make the query of one queryable.

        Args:
            handle: The request, which may be for several queryables.
            responder: Id of the queryable.
        """
        self._handle: RequestHandle | None = handle
        self._responder = responder

    def _require_handle(self) -> RequestHandle:
        if self._handle is None:
            raise UsageError("this query was dropped: it can no longer be used")
        return self._handle

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def __del__(self) -> None:
        # the garbage collector may run at any point, also while this thread holds a lock that sending needs
        handle = self._handle
        if handle is not None:
            handle.call_soon(handle.release)

    def drop(self) -> None:
        """End the query for this queryable: it sends no more replies. Dropping it again does nothing.

        Example:
            >>> query = queryable.recv()
            >>> query.drop()
        """
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.release()

    # the request

    @property
    def key_expr(self) -> KeyExpr:
        """The keys that are queried; it may have wildcards, so it is rarely the key to reply on.

        Raises `UsageError` after `drop`.
        """
        return self._require_handle().key_expr

    @property
    def parameters(self) -> Parameters:
        """The parameters of the query. Raises `UsageError` after `drop`."""
        return Parameters(self._require_handle().request.body.parameters)

    @property
    def selector(self) -> Selector:
        """Key expression and parameters of the query together. Raises `UsageError` after `drop`."""
        return Selector(self.key_expr, self.parameters)

    @property
    def payload(self) -> ZBytes | None:
        """The value sent along with the query; None without. Raises `UsageError` after `drop`."""
        body = self._require_handle().request.body.body
        return None if body is None else ZBytes(body.payload)

    @property
    def encoding(self) -> Encoding | None:
        """The encoding of the value sent along with the query; None without. Raises `UsageError` after `drop`."""
        body = self._require_handle().request.body.body
        return None if body is None else Encoding.from_wire(body.encoding)

    @property
    def attachment(self) -> ZBytes | None:
        """The attachment of the query; None without. Raises `UsageError` after `drop`."""
        attachment = self._require_handle().request.body.attachment
        return None if attachment is None else ZBytes(attachment)

    @property
    def source_info(self) -> SourceInfo | None:
        """Querier and sequence number of the query; None if it did not send them. Raises `UsageError` after `drop`."""
        source = self._require_handle().request.body.source_info
        return None if source is None else SourceInfo.from_wire(source)

    @property
    def target(self) -> QueryTarget:
        """The matching queryables that are queried: the best matching, all, or all that are complete.

        Raises `UsageError` after `drop`.
        """
        return QueryTarget.from_wire(self._require_handle().request.target)

    @property
    def budget(self) -> int | None:
        """Number of responses (replies and errors) that the querier accepts; None for any number.

        Raises `UsageError` after `drop`.
        """
        return self._require_handle().request.budget or None

    @property
    def timeout(self) -> float | None:
        """Seconds from sending the query after which the querier stops waiting; None if it did not send a timeout.

        Raises `UsageError` after `drop`.
        """
        milliseconds = self._require_handle().request.timeout_ms
        return None if milliseconds is None else milliseconds / 1000

    @property
    def consolidation(self) -> ConsolidationMode:
        """Mode in which the querier merges replies on one key; AUTO if it leaves that to the queryables.

        Raises `UsageError` after `drop`.
        """
        return ConsolidationMode.from_wire(self._require_handle().request.body.consolidation)

    @property
    def timestamp(self) -> Timestamp | None:
        """Time of the query, by the clock of the querier; None if it did not send it.

        Raises `UsageError` after `drop`.
        """
        stamp = self._require_handle().request.timestamp
        return None if stamp is None else Timestamp.from_wire(stamp)

    @property
    def timestamp_stack(self) -> TimestampStack | None:
        """Clock readings of the nodes on the way; None unless the query is instrumented.

        Raises `UsageError` after `drop`.
        """
        stack = self._require_handle().request.ts_stack
        return None if stack is None else TimestampStack.from_wire(stack)

    def accepts_replies(self) -> ReplyKeyExpr:
        """Return whether replies may be on keys that do not match the query.

        Returns:
            ANY if they may, otherwise MATCHING_QUERY.

        Raises:
            UsageError: The query was dropped.

        Example:
            >>> if query.accepts_replies() is zenspark.ReplyKeyExpr.ANY:
            ...     query.reply("another/key", "noon")
        """
        accepts_any = (
            ANY_KEY_PARAMETER in self._require_handle().request.body.parameters and ANY_KEY_PARAMETER in self.parameters
        )
        return ReplyKeyExpr.ANY if accepts_any else ReplyKeyExpr.MATCHING_QUERY

    # replies

    def reply(
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

        Args:
            key_expr: Key of the value, which must match the query unless it accepts replies on any key.
            payload: The value: bytes, a string (sent as UTF-8), or `ZBytes`.
            encoding: Encoding of the payload; `zenoh/bytes` by default.
            congestion_control: Treatment while the link to the querier has unsent bytes; that of the query by default,
                as always in eclipse-zenoh, whose routers also replace it on the way.
            priority: Priority of the reply; that of the query by default.
            express: Whether the reply is sent at once, without waiting for others to fill a batch; as the query by
                default.
            attachment: Bytes or text sent along with the reply; none by default.
            timestamp: Time of the value; none by default.
            consolidation: How this reply should be merged with others on its key, if the querier leaves that to the
                queryables (AUTO, its default); no preference by default. Not in eclipse-zenoh, whose queriers ignore
                it.
            source_info: Publisher and sequence number of the value; none by default.

        Raises:
            UsageError: The query was dropped, or the key does not match it and the querier does not accept other keys.
            TypeError: An argument has a wrong type.

        Example:
            >>> query.reply("demo/time", "noon", encoding="text/plain")
        """
        body = Put(
            timestamp=None if timestamp is None else require_type(Timestamp, timestamp).to_wire(),
            encoding=wire.Encoding.BYTES if encoding is None else Encoding.of(encoding).to_wire(),
            source_info=_source_to_wire(source_info),
            attachment=None if attachment is None else ZBytes.of(attachment).to_bytes(),
            payload=ZBytes.of(payload).to_bytes(),
        )
        self._reply(key_expr, body, consolidation, self._qos(congestion_control, priority, express))

    def reply_del(
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

        Args:
            key_expr: The key, which must match the query unless it accepts replies on any key.
            congestion_control: Treatment while the link to the querier has unsent bytes; that of the query by default,
                as always in eclipse-zenoh, whose routers also replace it on the way.
            priority: Priority of the reply; that of the query by default.
            express: Whether the reply is sent at once, without waiting for others to fill a batch; as the query by
                default.
            attachment: Bytes or text sent along with the reply; none by default.
            timestamp: Time of the value; none by default.
            consolidation: How this reply should be merged with others on its key, if the querier leaves that to the
                queryables (AUTO, its default); no preference by default. Not in eclipse-zenoh, whose queriers ignore
                it.
            source_info: Publisher and sequence number of the value; none by default.

        Raises:
            UsageError: The query was dropped, or the key does not match it and the querier does not accept other keys.
            TypeError: An argument has a wrong type.

        Example:
            >>> query.reply_del("demo/time")
        """
        body = Del(
            timestamp=None if timestamp is None else require_type(Timestamp, timestamp).to_wire(),
            source_info=_source_to_wire(source_info),
            attachment=None if attachment is None else ZBytes.of(attachment).to_bytes(),
        )
        self._reply(key_expr, body, consolidation, self._qos(congestion_control, priority, express))

    def _qos(
        self, congestion: CongestionControl | None, priority: Priority | None, express: bool | None
    ) -> wire.QoS | None:
        """Return the QoS of a reply, if the queryable sets any of it."""
        if congestion is None and priority is None and express is None:
            return None
        qos = self._require_handle().request.qos
        return wire.QoS(
            qos.priority if priority is None else require_type(Priority, priority).to_wire(),
            qos.congestion if congestion is None else require_type(CongestionControl, congestion).to_wire(),
            qos.express if express is None else to_bool(express),
        )

    def _reply(
        self,
        key_expr: KeyExpr | str,
        body: Put | Del,
        consolidation: ConsolidationMode | None = None,
        qos: wire.QoS | None = None,
    ) -> None:
        handle = self._require_handle()
        preferred = require_type_or_default(ConsolidationMode, consolidation, ConsolidationMode.AUTO).to_wire()
        reply = Reply(consolidation=preferred, body=body)
        if key_expr == handle.key_expr:  # most often
            handle.send_reply(str(handle.key_expr), reply, self._responder, qos, None)
            return
        key = KeyExpr.of(key_expr)
        if self.accepts_replies() is ReplyKeyExpr.MATCHING_QUERY and not handle.key_expr.intersects(key):
            raise UsageError(
                f"a reply on {key} does not match the query on {handle.key_expr}; "
                "the querier would have to use accept_replies=ReplyKeyExpr.ANY"
            )
        handle.send_reply(str(key), reply, self._responder, qos, None)

    def reply_err(
        self,
        payload: IntoZBytes,
        *,
        encoding: Encoding | str | None = None,
        source_info: SourceInfo | None = None,
        timestamp: Timestamp | None = None,
    ) -> None:
        """Reply with an error.

        Args:
            payload: The reason: bytes, a string (sent as UTF-8), or `ZBytes`.
            encoding: Encoding of the payload; `zenoh/bytes` by default.
            source_info: Entity that sends it, and sequence number; none by default. Not in eclipse-zenoh.
            timestamp: Time of the response; none by default. Not in eclipse-zenoh.

        Raises:
            UsageError: The query was dropped.
            TypeError: An argument has a wrong type.

        Example:
            >>> query.reply_err("no such time")
        """
        handle = self._require_handle()
        encoded = wire.Encoding.BYTES if encoding is None else Encoding.of(encoding).to_wire()
        error = Err(encoding=encoded, source_info=_source_to_wire(source_info), payload=ZBytes.of(payload).to_bytes())
        stamp = None if timestamp is None else require_type(Timestamp, timestamp).to_wire()
        handle.send_reply(str(handle.key_expr), error, self._responder, None, stamp)

    def __str__(self) -> str:
        return rust_repr(self, selector=f'"{self.selector}"')

    def __repr__(self) -> str:
        return "Query { dropped }" if self._handle is None else str(self)


def _source_to_wire(source: SourceInfo | None) -> wire.SourceInfo | None:
    return None if source is None else require_type(SourceInfo, source).to_wire()


def reply_stored(query: Query, key_expr: KeyExpr, body: Put | Del) -> None:
    """Reply with a sample that was published before, unchanged."""
    query._reply(key_expr, body)
