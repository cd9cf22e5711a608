"""When a sample was made and by whose clock: NTP64, TimestampId and Timestamp."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Self, TypeVar

from zenspark.clock import NANOS_PER_SECOND, ns_from_ntp64, ntp64_from_ns
from zenspark.errors import UsageError
from zenspark.types.wire_value import WireValue
from zenspark.wire import values as wire

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:)(\d\d)(?:\.(\d*))?Z", re.ASCII)
_NTP64_SECONDS = 1 << 32
W = TypeVar("W")


def parse_rfc3339_utc(text: str) -> tuple[int, int]:
    """Seconds since 1970, and nanoseconds, of a time in RFC 3339 and UTC, written `Z`, of any year; or ValueError."""
    parts = _RFC3339.fullmatch(text)
    if parts is None or parts[2] > "60":
        raise ValueError
    second = min(int(parts[2]), 59)  # a leap second counts as the one before it
    nanoseconds = int(f"{parts[3] or '':0<9}"[:9])
    since = datetime.fromisoformat(f"{parts[1]}{second:02}+00:00") - EPOCH
    return since.days * 86_400 + since.seconds, nanoseconds


class OrderedWireValue(WireValue[W]):
    """A value with an order among its own kind: that of the bytes `_order` gives."""

    __slots__ = ()

    @abstractmethod
    def _order(self) -> bytes:
        """What is compared instead of the value."""

    def __lt__(self, other: Self) -> bool:
        return self._order() < other._order() if isinstance(other, type(self)) else NotImplemented

    def __le__(self, other: Self) -> bool:
        return self._order() <= other._order() if isinstance(other, type(self)) else NotImplemented

    def __gt__(self, other: Self) -> bool:
        return self._order() > other._order() if isinstance(other, type(self)) else NotImplemented

    def __ge__(self, other: Self) -> bool:
        return self._order() >= other._order() if isinstance(other, type(self)) else NotImplemented

    def __repr__(self) -> str:
        return str(self)


class NTP64(OrderedWireValue[int]):
    """A time since 1970: 32 bits of seconds and 32 bits of their fraction."""

    __slots__ = ()

    def __init__(self, seconds: int, nanoseconds: int) -> None:
        if seconds < 0 or nanoseconds < 0:
            raise OverflowError(f"expected a time since 1970, found {seconds} s and {nanoseconds} ns")
        object.__setattr__(self, "_wire", _ntp64_from_ns(seconds * NANOS_PER_SECOND + nanoseconds))

    def as_secs(self) -> int:
        """The whole seconds."""
        return self._wire >> 32

    def as_secs_f64(self) -> float:
        """The seconds with their fraction, to about a microsecond: not for comparing."""
        return self.as_secs() + (self._wire & 0xFFFF_FFFF) / _NTP64_SECONDS

    def as_nanos(self) -> int:
        """The time in nanoseconds, rounded."""
        return ns_from_ntp64(self._wire)

    def subsec_nanos(self) -> int:
        """The fraction in nanoseconds, rounded but always less than a second."""
        return min(self.as_nanos() - self.as_secs() * NANOS_PER_SECOND, NANOS_PER_SECOND - 1)

    def to_datetime(self) -> datetime:
        """The time in UTC, cut to microseconds."""
        return EPOCH + timedelta(microseconds=self.as_nanos() // 1000)

    def to_string_rfc3339_lossy(self) -> str:
        """The time as people read it, to the nanosecond: `2024-07-01T13:51:12.129693000Z`."""
        seconds, nanoseconds = divmod(self.as_nanos(), NANOS_PER_SECOND)
        return f"{EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09}Z"

    @classmethod
    def parse_rfc3339(cls, s: str) -> Self:
        """Reads such a text; only UTC, written `Z`, is accepted."""
        try:
            return cls(*parse_rfc3339_utc(s))
        except (ValueError, OverflowError) as error:
            raise UsageError(
                f"expected a time between 1970 and 2106 such as 2024-07-01T13:51:12.129693Z, found {s!r}"
            ) from error

    def _order(self) -> bytes:
        return self._wire.to_bytes(8, "big")

    def __str__(self) -> str:
        return str(self._wire)


class TimestampId(OrderedWireValue[wire.ZenohId]):
    """Whose clock it was: 1 to 16 bytes, usually the id of the node."""

    __slots__ = ()

    def __init__(self, bytes: bytes | bytearray | memoryview | Iterable[int]) -> None:
        if isinstance(bytes, str | int):
            raise TypeError(f"expected bytes, found {type(bytes).__name__!r}")
        raw = bytearray(bytes).rstrip(b"\0")  # it is a number, the lowest byte first
        if not 0 < len(raw) <= wire.ZenohId.MAX_BYTES:
            raise UsageError(f"expected 1 to {wire.ZenohId.MAX_BYTES} bytes that are not zero, found {len(raw)}")
        object.__setattr__(self, "_wire", wire.ZenohId(int.from_bytes(raw, "little")))

    def _order(self) -> bytes:
        # Bytes from the lowest on, as eclipse-zenoh compares them: nodes must agree which of two stamps is the later.
        return self._wire.value.to_bytes(wire.ZenohId.MAX_BYTES, "little")

    def __bytes__(self) -> bytes:
        return self._wire.to_bytes()

    def __str__(self) -> str:
        return str(self._wire)


class Timestamp(OrderedWireValue[wire.Timestamp]):
    """When a sample was made and by whose clock, so that no two samples have the same.

    As text it is `7386664595088445305/33`; the form with a readable time loses precision.
    """

    __slots__ = ()

    def __init__(self, time: datetime | NTP64, id: bytes | bytearray | TimestampId) -> None:
        if isinstance(time, datetime):
            time = NTP64.from_wire(_ntp64_from_datetime(time))
        if not isinstance(time, NTP64):
            raise TypeError(f"expected a datetime or an NTP64, found {type(time).__name__!r}")
        by = id if isinstance(id, TimestampId) else TimestampId(id)
        object.__setattr__(self, "_wire", wire.Timestamp(time.to_wire(), by.to_wire()))

    def get_time(self) -> datetime:
        """The time in UTC, cut to microseconds."""
        return self.get_time_as_ntp64().to_datetime()

    def get_time_as_ntp64(self) -> NTP64:
        """The time, exactly."""
        return NTP64.from_wire(self._wire.ntp64)

    def get_id(self) -> TimestampId:
        """Whose clock it was."""
        return TimestampId.from_wire(self._wire.id)

    def get_diff_duration(self, other: Timestamp) -> timedelta:
        """How much later this one is than the other; negative if it is earlier."""
        if not isinstance(other, Timestamp):
            raise TypeError(f"expected a Timestamp, found {type(other).__name__!r}")
        difference = self._wire.ntp64 - other._wire.ntp64
        duration = timedelta(microseconds=ns_from_ntp64(abs(difference)) // 1000)
        return duration if difference >= 0 else -duration

    def to_string_rfc3339_lossy(self) -> str:
        """The stamp with a time as people read it: `2024-07-01T13:51:12.129693000Z/33`."""
        return f"{self.get_time_as_ntp64().to_string_rfc3339_lossy()}/{self._wire.id}"

    @classmethod
    def parse_rfc3339(cls, s: str) -> Self:
        """Reads such a text."""
        time, slash, by = s.partition("/")
        if not slash:
            raise UsageError(f"expected `time/id`, found {s!r}")
        return cls.from_wire(wire.Timestamp(NTP64.parse_rfc3339(time).to_wire(), wire.ZenohId.parse(by.lower())))

    def _order(self) -> bytes:
        return self.get_time_as_ntp64()._order() + self.get_id()._order()

    def __str__(self) -> str:
        return str(self._wire)


def _ntp64_from_datetime(time: datetime) -> int:
    since = time - EPOCH
    if since < timedelta(0):
        raise ValueError(f"expected a time since 1970, found {time}")
    return _ntp64_from_ns((since.days * 86_400 + since.seconds) * NANOS_PER_SECOND + since.microseconds * 1000)


def _ntp64_from_ns(nanoseconds: int) -> int:
    """The NTP64 of nanoseconds since 1970, if its 32 bits of seconds can hold them."""
    if nanoseconds >= _NTP64_SECONDS * NANOS_PER_SECOND:
        raise OverflowError(f"{nanoseconds} ns since 1970 are after 2106, where this format ends")
    return ntp64_from_ns(nanoseconds)
