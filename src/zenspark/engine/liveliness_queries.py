"""LivelinessQueries: queries for the liveliness tokens that are declared now.

A query declares an interest in the current tokens; each token received because of it is delivered as a reply.
"""

from __future__ import annotations

from functools import partial

from zenspark.engine.entity_registry import EntityRegistry
from zenspark.engine.interests import LocalInterest, LocalInterests
from zenspark.engine.receive_backpressure import ReceiveBackpressure
from zenspark.engine.reply_collector import TIMEOUT_ERROR, ReplyCollector
from zenspark.handlers.handler import DeliverySink
from zenspark.key import KeyExpr
from zenspark.net.node.node import Node
from zenspark.router.face import DeclarationKind, Face
from zenspark.types.enums import ConsolidationMode, SampleKind
from zenspark.types.sample import Reply, token_sample
from zenspark.wire.values import InterestMode


class LivelinessQueries:
    """The liveliness queries of one session."""

    def __init__(
        self, node: Node, interests: LocalInterests, entities: EntityRegistry, backpressure: ReceiveBackpressure
    ) -> None:
        self._node = node
        self._interests = interests
        self._entities = entities
        self._backpressure = backpressure

    def start(self, key_expr: KeyExpr, timeout: float, sink: DeliverySink[Reply]) -> ReplyCollector:
        """Query the tokens that are alive, and deliver each to a sink; `timeout` in seconds."""

        def add_token(change: SampleKind, key: str, _source: Face) -> None:
            collector.add(Reply(token_sample(change, key)))

        def expire() -> None:
            with self._node.lock:
                collector.finish(TIMEOUT_ERROR)

        with self._node.lock:
            entity_id = self._entities.next_id()
            collector = ReplyCollector(key_expr, ConsolidationMode.NONE, sink, 1)
            interest = LocalInterest(
                entity_id, DeclarationKind.TOKEN, key_expr, add_token, collector.source_finished, is_future=False
            )
            timer = self._node.loop.call_at(self._node.loop.now() + timeout, expire)
            collector.on_finish(timer.cancel)
            collector.on_finish(partial(self._interests.undeclare, interest))
            self._entities.add(entity_id, collector.finish)
            collector.on_finish(partial(self._entities.undeclare, entity_id))
            self._backpressure.begin_read_credit()
            collector.on_finish(self._backpressure.end_read_credit)
            collector.on_finish(partial(self._backpressure.remove, sink))
            self._interests.declare(interest, InterestMode.CURRENT)
        return collector
