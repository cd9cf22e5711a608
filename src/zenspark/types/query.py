"""Query: what a queryable receives and answers; and the ends of queries this session asked.

A query that came from the network may be handed to several queryables of this session. Each gets an object of its own;
when the last of them is dropped the querier is told that there is no more to come. Dropping happens by `drop()`, by
leaving a `with` block, or when nobody holds the object any more: also when a handler raised.
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
"""Sends one response: the key it is about, what is said, who says it, its QoS (None for the query's), and when."""

CallSoon = Callable[[Callable[[], None]], None]
"""Has something done soon in another thread, without ever waiting for a lock."""


class RequestHandle:
    """One request that queryables of this session are handle."""

    __slots__ = ("_finish", "_lock", "_open", "call_soon", "key_expr", "request", "send_reply")

    def __init__(
        self, request: Request, key_expr: KeyExpr, answer: SendReply, finish: Callable[[], None], later: CallSoon
    ) -> None:
        self.request = request
        self.key_expr = key_expr
        self.send_reply = answer
        self.call_soon = later
        self._finish = finish
        self._open = 0
        self._lock = threading.Lock()

    def start(self, count: int) -> None:
        """So many queryables were asked; with none, it is finished."""
        self._open = count
        if not count:
            self._finish()

    def end(self) -> None:
        """One of them will say no more."""
        with self._lock:
            self._open -= 1
            last = self._open == 0
        if last:
            self._finish()


class Query:
    """A question to one queryable: answer with `reply`, `reply_del` or `reply_err`, then `drop` it."""

    __slots__ = ("__weakref__", "_handle", "_responder")

    def __init__(self, handle: RequestHandle, responder: wire.EntityId) -> None:
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
        # the garbage collector may run in the middle of anything, also of what a final would have to wait for
        handle = self._handle
        if handle is not None:
            handle.call_soon(handle.end)

    def drop(self) -> None:
        """Say that there is no more to come from here; a second time does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.end()

    # what is asked

    @property
    def key_expr(self) -> KeyExpr:
        """The keys that are asked for; it may have wildcards, so it is rarely what to reply on."""
        return self._require_handle().key_expr

    @property
    def parameters(self) -> Parameters:
        return Parameters(self._require_handle().request.body.parameters)

    @property
    def selector(self) -> Selector:
        """Keys and parameters together."""
        return Selector(self.key_expr, self.parameters)

    @property
    def payload(self) -> ZBytes | None:
        """The value sent along with the question."""
        body = self._require_handle().request.body.body
        return None if body is None else ZBytes(body.payload)

    @property
    def encoding(self) -> Encoding | None:
        body = self._require_handle().request.body.body
        return None if body is None else Encoding.from_wire(body.encoding)

    @property
    def attachment(self) -> ZBytes | None:
        attachment = self._require_handle().request.body.attachment
        return None if attachment is None else ZBytes(attachment)

    @property
    def source_info(self) -> SourceInfo | None:
        source = self._require_handle().request.body.source_info
        return None if source is None else SourceInfo.from_wire(source)

    @property
    def target(self) -> QueryTarget:
        """Which of the queryables that match the querier asks."""
        return QueryTarget.from_wire(self._require_handle().request.target)

    @property
    def budget(self) -> int | None:
        """How many responses, replies and errors, the querier accepts; None for any number."""
        return self._require_handle().request.budget or None

    @property
    def timeout(self) -> float | None:
        """Seconds after which the querier stops waiting, counted from its question; None if it did not say."""
        milliseconds = self._require_handle().request.timeout_ms
        return None if milliseconds is None else milliseconds / 1000

    @property
    def consolidation(self) -> ConsolidationMode:
        """How the querier merges replies for one key; AUTO if it leaves that to the queryables."""
        return ConsolidationMode.from_wire(self._require_handle().request.body.consolidation)

    @property
    def timestamp(self) -> Timestamp | None:
        """When the querier asked, by its clock, if it told."""
        stamp = self._require_handle().request.timestamp
        return None if stamp is None else Timestamp.from_wire(stamp)

    @property
    def timestamp_stack(self) -> TimestampStack | None:
        stack = self._require_handle().request.ts_stack
        return None if stack is None else TimestampStack.from_wire(stack)

    def accepts_replies(self) -> ReplyKeyExpr:
        """Which keys replies may have."""
        is_asked = (
            ANY_KEY_PARAMETER in self._require_handle().request.body.parameters and ANY_KEY_PARAMETER in self.parameters
        )
        return ReplyKeyExpr.ANY if is_asked else ReplyKeyExpr.MATCHING_QUERY

    # answers

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
        """Answer with a value.

        `congestion_control`, `priority` and `express` are those of the query where they are not given, as they always
        are in eclipse-zenoh, whose routers also replace them on the way. A reply that may be dropped is, where the link
        to the querier is full.

        `consolidation`, which eclipse-zenoh does not have, is how this reply should be merged with others for its key,
        if the querier leaves that to the queryables (AUTO, its default); no preference by default. eclipse-zenoh's
        queriers pass over it.

        `source_info` is whose value it is and the how-manieth of theirs, as in `Session.put`; none by default. Raises
        UsageError if the key does not match the query, TypeError for arguments of another type.
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
        """Answer that a key has no value any more; `consolidation` and `source_info` as in `reply`."""
        body = Del(
            timestamp=None if timestamp is None else require_type(Timestamp, timestamp).to_wire(),
            source_info=_source_to_wire(source_info),
            attachment=None if attachment is None else ZBytes.of(attachment).to_bytes(),
        )
        self._reply(key_expr, body, consolidation, self._qos(congestion_control, priority, express))

    def _qos(
        self, congestion: CongestionControl | None, priority: Priority | None, express: bool | None
    ) -> wire.QoS | None:
        """The QoS of a reply, if the queryable says anything about it."""
        if congestion is None and priority is None and express is None:
            return None
        asked = self._require_handle().request.qos
        return wire.QoS(
            asked.priority if priority is None else require_type(Priority, priority).to_wire(),
            asked.congestion if congestion is None else require_type(CongestionControl, congestion).to_wire(),
            asked.express if express is None else to_bool(express),
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
                "the querier would have to ask with accept_replies=ReplyKeyExpr.ANY"
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
        """Answer that there is no answer, and why.

        `source_info` and `timestamp`, which eclipse-zenoh does not have, tell which entity says so and when; neither by
        default.
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
    """Answer with what was published before, as it was."""
    query._reply(key_expr, body)
