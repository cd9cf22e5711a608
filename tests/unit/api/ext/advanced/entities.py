"""An advanced publisher and subscriber of one key, and what tests read of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.wait import TIMEOUT_SECONDS
from zenspark.api.ext.advanced.config import (
    CacheConfig,
    HistoryConfig,
    MissDetectionConfig,
)
from zenspark.api.ext.advanced.publisher import AdvancedPublisher, declare_advanced_publisher
from zenspark.api.ext.advanced.subscriber import (
    AdvancedSubscriber,
    declare_advanced_subscriber,
)
from zenspark.api.session import Session
from zenspark.errors import ZError
from zenspark.types.enums import ReplyKeyExpr

HEARTBEAT = MissDetectionConfig(heartbeat=0.05)
ALL = HistoryConfig(detect_late_publishers=True)


def publisher_on(session: Session, **options: Any) -> AdvancedPublisher:  # noqa: ANN401 - any option
    settings = {"cache": CacheConfig(10), "sample_miss_detection": MissDetectionConfig(), **options}
    return declare_advanced_publisher(session, "a/b", **settings)


def subscriber_on(session: Session, handler: object = None, **options: Any) -> AdvancedSubscriber[Any]:  # noqa: ANN401
    declare: Any = declare_advanced_subscriber
    subscriber: AdvancedSubscriber[Any] = declare(session, "a/*", handler, **options)
    return subscriber


def has_subscriber(publisher: AdvancedPublisher) -> Callable[[], object]:
    return lambda: publisher._publisher.matching_status


def is_cache_reachable(session: Session) -> bool:
    """Whether the cache of a publisher replies to this session."""
    return bool(list(session.get("a/b/@adv/**", accept_replies=ReplyKeyExpr.ANY)))


def payloads(subscriber: AdvancedSubscriber[Any], count: int) -> list[str]:
    return [subscriber.recv(TIMEOUT_SECONDS).payload.to_string() for _ in range(count)]


def is_closed(handler: Any) -> bool:  # noqa: ANN401 - some channel
    try:
        handler.try_recv()
    except ZError:
        return True
    return False
