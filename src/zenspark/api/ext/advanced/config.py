"""Configuration of advanced publishers and subscribers: cache, history, miss detection, recovery."""

from __future__ import annotations

from datetime import timedelta

from zenspark.types.arguments import require_type, require_type_or_default, to_bool, to_timeout
from zenspark.types.enums import (
    CongestionControl,
    Priority,
)


class ValidatedConfig:
    """Settings that were validated when they were made; they compare, hash and pickle."""

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class RepliesConfig(ValidatedConfig):
    """QoS of the replies of a cache. Replies have the QoS of their query, so nothing here has an effect.

    Args:
        congestion_control: Treatment while a link has unsent bytes; BLOCK by default.
        priority: Priority of the replies; DATA by default.
        express: Whether replies are sent at once, without waiting for others to fill a batch; False by default.

    Raises:
        TypeError: An argument has a wrong type.

    Example:
        >>> cache = CacheConfig(10, replies_config=RepliesConfig(priority=zenspark.Priority.DATA_LOW))
    """

    def __init__(
        self,
        *,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
    ) -> None:
        self.congestion_control = require_type_or_default(
            CongestionControl, congestion_control, CongestionControl.BLOCK
        )
        self.priority = require_type_or_default(Priority, priority, Priority.DEFAULT)
        self.express = to_bool(express)


class CacheConfig(ValidatedConfig):
    """Cache of an advanced publisher: the last samples, which subscribers query.

    Args:
        max_samples: How many samples are kept; 1 by default.
        replies_config: QoS of the replies; it has no effect.

    Raises:
        OverflowError: `max_samples` is negative.
        TypeError: An argument has a wrong type.

    Example:
        >>> publisher = declare_advanced_publisher(
        ...     session, "demo/a", cache=CacheConfig(10), sample_miss_detection=MissDetectionConfig()
        ... )
    """

    def __init__(self, max_samples: int | None = None, *, replies_config: RepliesConfig | None = None) -> None:
        self.max_samples = _count(require_type_or_default(int, max_samples, 1))
        self.replies_config = require_type_or_default(RepliesConfig, replies_config, RepliesConfig())


class HistoryConfig(ValidatedConfig):
    """Past samples that an advanced subscriber queries from the caches of publishers.

    Args:
        detect_late_publishers: Whether publishers that appear later are queried too, if they have
            `publisher_detection`; False by default.
        max_samples: How many samples of each publisher; all that are cached by default.
        max_age: How old they may be, in seconds; of any age by default.

    Raises:
        OverflowError: `max_samples` is negative.
        TypeError: An argument has a wrong type.

    Example:
        >>> history = HistoryConfig(max_samples=10, max_age=60)
        >>> subscriber = declare_advanced_subscriber(session, "demo/**", history=history)
    """

    def __init__(
        self,
        *,
        detect_late_publishers: bool | None = None,
        max_samples: int | None = None,
        max_age: float | None = None,
    ) -> None:
        self.detect_late_publishers = to_bool(detect_late_publishers)
        self.max_samples = None if max_samples is None else _count(max_samples)
        self.max_age = None if max_age is None else _number(max_age)

    def parameters(self) -> dict[str, str]:
        """Return the parameters of a query to a cache.

        Returns:
            The parameters by name.

        Example:
            >>> HistoryConfig(max_samples=10, max_age=60).parameters()
            {'_max': '10', '_time': '[now(-60.0s)..]'}
        """
        selection = {} if self.max_samples is None else {"_max": str(self.max_samples)}
        return selection if self.max_age is None else {**selection, "_time": f"[now({-self.max_age}s)..]"}


class MissDetectionConfig(ValidatedConfig):
    """Sequence numbers of an advanced publisher, by which subscribers detect missing samples.

    A heartbeat announces the last sequence number. Without one, no subscriber detects that the very last sample is
    missing.

    Args:
        heartbeat: Seconds between heartbeats; none are sent by default.
        sporadic_heartbeat: Seconds between heartbeats that are sent only if the number has changed; it takes
            precedence.

    Raises:
        ValueError: A period is negative or not finite.
        TypeError: An argument has a wrong type.

    Example:
        >>> numbered = MissDetectionConfig(heartbeat=0.5)
        >>> publisher = declare_advanced_publisher(session, "demo/a", sample_miss_detection=numbered)
    """

    def __init__(self, *, heartbeat: float | None = None, sporadic_heartbeat: float | None = None) -> None:
        self.heartbeat = None if heartbeat is None else to_timeout(heartbeat, 0)
        self.sporadic_heartbeat = None if sporadic_heartbeat is None else to_timeout(sporadic_heartbeat, 0)


class RecoveryConfig(ValidatedConfig):
    """Detection of missing last samples of a publisher, by periodic queries or heartbeats. Give one of the two.

    Args:
        periodic_queries: Seconds, or a `timedelta`, between queries for samples after the last one received.
        heartbeat: Whether to subscribe to the heartbeats of publishers; False by default.

    Raises:
        ValueError: Both or none were given, or the period is not more than zero, or not finite.
        TypeError: An argument has a wrong type.

    Example:
        >>> subscriber = declare_advanced_subscriber(session, "demo/**", recovery=RecoveryConfig(heartbeat=True))
    """

    def __init__(self, *, periodic_queries: float | timedelta | None = None, heartbeat: bool | None = None) -> None:
        period = periodic_queries.total_seconds() if isinstance(periodic_queries, timedelta) else periodic_queries
        self.periodic_queries = None if period is None else to_timeout(period, 0)
        self.heartbeat = to_bool(heartbeat)
        if (self.periodic_queries is None) is not self.heartbeat:
            raise ValueError("expected either periodic_queries or heartbeat=True")
        if self.periodic_queries == 0:
            raise ValueError(f"expected a period of more than 0 seconds, found {periodic_queries}")


def _count(value: int) -> int:
    if require_type(int, value) < 0:
        raise OverflowError(f"expected a number from 0 on, found {value}")
    return value


def _number(value: float) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"expected a number, found {type(value).__name__!r}")
    return float(value)
