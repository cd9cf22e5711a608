"""What users import as `zenspark.ext`: serialization, and the names of what is not here yet.

Advanced publishers and subscribers (protocol section 18) will come; until then every one of their names says so when it
is used, and nothing fails when it is merely imported.
"""

from __future__ import annotations

from typing import Generic, NoReturn, TypeVar

from zenspark.api.serialization import (
    Float32,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Int128,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    UInt128,
    ZDeserializeError,
    z_deserialize,
    z_serialize,
)
from zenspark.errors import UsageError

__all__ = [
    "AdvancedPublisher",
    "AdvancedSubscriber",
    "CacheConfig",
    "Float32",
    "Float64",
    "HistoryConfig",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Int128",
    "Miss",
    "MissDetectionConfig",
    "RecoveryConfig",
    "RepliesConfig",
    "SampleMissListener",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "UInt128",
    "ZDeserializeError",
    "declare_advanced_publisher",
    "declare_advanced_subscriber",
    "z_deserialize",
    "z_serialize",
]


H = TypeVar("H")


class NotAvailable(UsageError):
    """Something eclipse-zenoh has and zenspark does not have yet."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"{self.name} is not available yet: zenspark has plain publishers and subscribers only"


class _NotYet:
    """A class that exists by name only."""

    def __new__(cls, *args: object, **options: object) -> NoReturn:
        raise NotAvailable(f"zenspark.ext.{cls.__name__}")


class AdvancedPublisher(_NotYet):
    """A publisher whose samples can be asked for again."""


class AdvancedSubscriber(_NotYet, Generic[H]):
    """A subscriber that notices and recovers missing samples."""


class CacheConfig(_NotYet):
    """How many samples an advanced publisher keeps."""


class HistoryConfig(_NotYet):
    """Which past samples an advanced subscriber asks for."""


class Miss(_NotYet):
    """How many samples of which source are missing."""


class MissDetectionConfig(_NotYet):
    """How an advanced publisher lets others notice that samples are missing."""


class RecoveryConfig(_NotYet):
    """How an advanced subscriber gets missing samples."""


class RepliesConfig(_NotYet):
    """How the replies of a cache are sent."""


class SampleMissListener(_NotYet, Generic[H]):
    """Somebody who wants to know of missing samples."""


def declare_advanced_publisher(*args: object, **options: object) -> NoReturn:
    """Will declare an advanced publisher."""
    raise NotAvailable("zenspark.ext.declare_advanced_publisher")


def declare_advanced_subscriber(*args: object, **options: object) -> NoReturn:
    """Will declare an advanced subscriber."""
    raise NotAvailable("zenspark.ext.declare_advanced_subscriber")
