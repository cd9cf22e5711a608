"""ReplyCollector: consolidates the replies to one query of this session, delivers them, and finishes exactly once."""

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
    """The replies to one pending query. Guarded by the node's lock."""

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
        """The key expression a reply must match; None accepts any key."""
        self._mode = mode
        self._follows_replies = follows_replies
        """Whether the consolidation a reply prefers is used for it: the query has AUTO."""
        self.sink = sink
        self._sources = sources
        """Number of sources that have not finished: the network, and each queryable of this session."""
        self._budget = budget
        """Number of RESPONSEs still accepted, replies and errors; 0 if there is no limit."""
        self._latest: dict[str, Reply] = {}
        """The latest reply of each key, delivered when the query finishes."""
        self._newest: dict[str, Timestamp] = {}
        """The newest timestamp delivered for each key."""
        self._finish_callbacks: list[Callable[[], object]] = []
        self.is_finished = False

    def on_finish(self, work: Callable[[], object]) -> None:
        """Call a function when the query finishes; at once if it has."""
        if self.is_finished:
            work()
        else:
            self._finish_callbacks.append(work)

    def add(self, reply: Reply) -> bool:
        """Collect a reply; returns whether there is capacity for more. The last of the budget finishes the query."""
        if self.is_finished:
            return True
        has_capacity = self._accept(reply)
        if self._budget:
            self._budget -= 1
            if not self._budget:
                self.finish()
        return has_capacity or self.is_finished

    def _accept(self, reply: Reply) -> bool:
        sample = reply.ok
        if sample is None:
            return self.sink.push(reply)
        if self._key_expr is None or self._key_expr.intersects(sample.key_expr):
            return self._consolidate(reply, sample)
        return True

    def _consolidate(self, reply: Reply, sample: Sample) -> bool:
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
                latest = self._latest.get(key)
                if latest is None or latest.ok is None or not _is_older(sample.timestamp, latest.ok.timestamp):
                    self._latest[key] = reply
        return True

    def source_finished(self) -> None:
        """Note that one source sends no more replies; the last one finishes the query."""
        self._sources -= 1
        if not self._sources:
            self.finish()

    def finish(self, error: ReplyError | None = None) -> None:
        """Deliver the latest reply of each key, then the error if there is one, and close the sink."""
        if self.is_finished:
            return
        self.is_finished = True
        self.sink.push_many(self._latest.values())
        if error is not None:
            self.sink.push(Reply(error))
        self._close()

    def cancel(self) -> None:
        """Close the sink without delivering anything more."""
        if not self.is_finished:
            self.is_finished = True
            self._close()

    def _close(self) -> None:
        self._latest = {}
        self.sink.close()
        for work in self._finish_callbacks:
            work()
        self._finish_callbacks.clear()


def make_reply(
    key: str,
    body: messages.Reply | messages.Err,
    responder: wire.EntityId | None,
    qos: wire.QoS,
    stack: wire.TimestampStack | None = None,
    timestamp: wire.Timestamp | None = None,
) -> Reply:
    """Make the reply of a response; `timestamp` is that of the RESPONSE itself."""
    replier = None if responder is None else EntityGlobalId.from_wire(responder)
    if isinstance(body, messages.Err):
        return Reply(ReplyError.from_wire(body, stack, timestamp), replier)
    sample = sample_from_body(body.body, KeyExpr(key), qos, True, stack, timestamp)
    return Reply(sample, replier, ConsolidationMode.from_wire(body.consolidation))


def _is_older(timestamp: Timestamp | None, other: Timestamp | None) -> bool:
    """Return whether a timestamp is older than another; None is older than any timestamp."""
    if other is None:
        return False
    return timestamp is None or timestamp < other
