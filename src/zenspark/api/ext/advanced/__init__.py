"""Advanced publishers and subscribers: past samples can be queried, missing ones are detected and recovered.

They are made of publishers, queryables, tokens, subscribers and queries of a session, under the keys of protocol
section 18, so that they work together with those of eclipse-zenoh.
"""

from zenspark.api.ext.advanced.config import (
    CacheConfig,
    HistoryConfig,
    MissDetectionConfig,
    RecoveryConfig,
    RepliesConfig,
)
from zenspark.api.ext.advanced.publisher import AdvancedPublisher, declare_advanced_publisher
from zenspark.api.ext.advanced.subscriber import AdvancedSubscriber, SampleMissListener, declare_advanced_subscriber

__all__ = [
    "AdvancedPublisher",
    "AdvancedSubscriber",
    "CacheConfig",
    "HistoryConfig",
    "MissDetectionConfig",
    "RecoveryConfig",
    "RepliesConfig",
    "SampleMissListener",
    "declare_advanced_publisher",
    "declare_advanced_subscriber",
]
