"""Replies to one query of this session: merged as asked, handed over, and ended exactly once."""

from __future__ import annotations

from collections.abc import Callable

from zenspark.handlers.handler import DeliverySink
from zenspark.key import KeyExpr
from zenspark.types.encoding import Encoding
from zenspark.types.enums import ConsolidationMode
from zenspark.types.ids import EntityGlobalId
from zenspark.types.network_info import ReplyError
from zenspark.types.sample import Reply, Sample, sample_from_body
from zenspark.types.timestamps import Timestamp
from zenspark.types.zbytes import ZBytes
from zenspark.wire import messages
from zenspark.wire import values as wire

TIMEOUT_ERROR = ReplyError(ZBytes(b"Timeout"), Encoding.ZENOH_STRING)


class ReplyCollector:
    """One query in flight. Guarded by the node's lock."""

    def __init__(
        self,
        key_expr: KeyExpr | None,
        mode: ConsolidationMode,
        sink: DeliverySink[Reply],
        sources: int,
        budget: int = 0,
        follows_replies: bool = False,
    ) -> None:
        self._key_expr = key_expr
        """What a reply must match; None for anything."""
        self._mode = mode
        self._follows_replies = follows_replies
        """Whether a reply that prefers a mode is merged in that mode: the querier has asked with AUTO."""
        self.sink = sink
        self._sources = sources
        """How many still have something to say: the network, and each queryable of this session."""
        self._budget = budget
        """How many more RESPONSEs are accepted, replies and errors; 0 if there is no limit."""
        self._held: dict[str, Reply] = {}
        self._newest: dict[str, Timestamp] = {}
        self._on_end: list[Callable[[], object]] = []
        self.is_over = False

    def on_finish(self, work: Callable[[], object]) -> None:
        """Have something done when it ends; at once if it has."""
        if self.is_over:
            work()
        else:
            self._on_end.append(work)

    def add(self, reply: Reply) -> bool:
        """A reply came; whether there is room for more. The last one of the budget ends the query."""
        if self.is_over:
            return True
        has_room = self._take(reply)
        if self._budget:
            self._budget -= 1
            if not self._budget:
                self.finish()
        return has_room or self.is_over

    def _take(self, reply: Reply) -> bool:
        sample = reply.ok
        if sample is None:
            return self.sink.push(reply)
        if self._key_expr is None or self._key_expr.intersects(sample.key_expr):
            return self._merge(reply, sample)
        return True

    def _merge(self, reply: Reply, sample: Sample) -> bool:
        key = str(sample.key_expr)
        mode = self._mode
        if self._follows_replies and reply.consolidation is not ConsolidationMode.AUTO:
            mode = reply.consolidation
        match mode:
            case ConsolidationMode.NONE:
                return self.sink.push(reply)
            case ConsolidationMode.MONOTONIC:
                newest = self._newest.get(key)
                if sample.timestamp is None or newest is None or not sample.timestamp < newest:
                    if sample.timestamp is not None:
                        self._newest[key] = sample.timestamp
                    return self.sink.push(reply)
            case _:
                held = self._held.get(key)
                if held is None or held.ok is None or not _is_older(sample.timestamp, held.ok.timestamp):
                    self._held[key] = reply
        return True

    def source_finished(self) -> None:
        """One that was asked has nothing more to say."""
        self._sources -= 1
        if not self._sources:
            self.finish()

    def finish(self, error: ReplyError | None = None) -> None:
        """End: hand over what was held back, then the reason if it ended before its time."""
        if self.is_over:
            return
        self.is_over = True
        self.sink.push_many(self._held.values())
        if error is not None:
            self.sink.push(Reply(error))
        self._close()

    def cancel(self) -> None:
        """End without handing over anything more."""
        if not self.is_over:
            self.is_over = True
            self._close()

    def _close(self) -> None:
        self._held = {}
        self.sink.close()
        for work in self._on_end:
            work()
        self._on_end.clear()


def make_reply(
    key: str,
    body: messages.Reply | messages.Err,
    responder: wire.EntityId | None,
    qos: wire.QoS,
    stack: wire.TimestampStack | None = None,
    timestamp: wire.Timestamp | None = None,
) -> Reply:
    """The reply in a response; `timestamp` is that of the RESPONSE itself."""
    replier = None if responder is None else EntityGlobalId.from_wire(responder)
    if isinstance(body, messages.Err):
        return Reply(ReplyError.from_wire(body, stack, timestamp), replier)
    sample = sample_from_body(body.body, KeyExpr(key), qos, True, stack, timestamp)
    return Reply(sample, replier, ConsolidationMode.from_wire(body.consolidation))


def _is_older(stamp: Timestamp | None, other: Timestamp | None) -> bool:
    """Whether a reply is older than another; one without a stamp is older than any with one."""
    if other is None:
        return False
    return stamp is None or stamp < other
