"""Timestamps of the hybrid logical clock: NTP64, TimestampId and Timestamp."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Self, TypeVar

from zenspark.clock import NANOS_PER_SECOND, NTP64_MAX_SECONDS, NTP64_PER_SECOND, ns_from_ntp64, ntp64_from_ns
from zenspark.errors import UsageError
from zenspark.types.wire_value import WireValue
from zenspark.wire import values as wire

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""Time from which timestamps count."""
MICROSECOND = timedelta(microseconds=1)
"""Unit of times in journals and tables, to divide a `timedelta` by."""
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:)(\d\d)(?:\.(\d*))?Z", re.ASCII)
W = TypeVar("W")


def parse_rfc3339_utc(text: str) -> tuple[int, int]:
    """Parse an RFC 3339 time in UTC, written `Z`, into seconds since 1970 and nanoseconds; ValueError if it is none."""
    parts = _RFC3339.fullmatch(text)
    if parts is None or parts[2] > "60":
        raise ValueError
    second = min(int(parts[2]), 59)  # a leap second counts as the one before it
    nanoseconds = int(f"{parts[3] or '':0<9}"[:9])
    since = datetime.fromisoformat(f"{parts[1]}{second:02}+00:00") - EPOCH
    return since.days * 86_400 + since.seconds, nanoseconds


class OrderedWireValue(WireValue[W]):
    """A value that is ordered among its own kind by the bytes that `_order` returns."""

    __slots__ = ()

    @abstractmethod
    def _order(self) -> bytes:
        """Return the bytes to compare."""

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
    """A time since 1970: 32 bits of seconds and 32 bits of their fraction.

    Args:
        seconds: Seconds since 1970.
        nanoseconds: Nanoseconds to add.

    Raises:
        OverflowError: The time is before 1970 or after 2106.

    Example:
        >>> zenspark.NTP64(1719841872, 250_000_000).to_string_rfc3339_lossy()
        '2024-07-01T13:51:12.250000000Z'
    """

    __slots__ = ()

    def __init__(self, seconds: int, nanoseconds: int) -> None:
        if seconds < 0 or nanoseconds < 0:
            raise OverflowError(f"expected a time since 1970, found {seconds} s and {nanoseconds} ns")
        object.__setattr__(self, "_wire", _ntp64_from_ns(seconds * NANOS_PER_SECOND + nanoseconds))

    def as_secs(self) -> int:
        """Return the whole seconds.

        Returns:
            Seconds since 1970, rounded down.

        Example:
            >>> zenspark.NTP64(5, 250_000_000).as_secs()
            5
        """
        return self._wire >> 32

    def as_secs_f64(self) -> float:
        """Return the seconds with their fraction, to about a microsecond: not for comparing.

        Returns:
            Seconds since 1970.

        Example:
            >>> zenspark.NTP64(5, 250_000_000).as_secs_f64()
            5.25
        """
        return self.as_secs() + (self._wire & 0xFFFF_FFFF) / NTP64_PER_SECOND

    def as_nanos(self) -> int:
        """Return the nanoseconds since 1970, rounded.

        Returns:
            Nanoseconds since 1970.

        Example:
            >>> zenspark.NTP64(5, 250_000_000).as_nanos()
            5250000000
        """
        return ns_from_ntp64(self._wire)

    def subsec_nanos(self) -> int:
        """Return the fraction in nanoseconds, rounded but always less than a second.

        Returns:
            Nanoseconds since the last whole second.

        Example:
            >>> zenspark.NTP64(5, 250_000_000).subsec_nanos()
            250000000
        """
        return min(self.as_nanos() - self.as_secs() * NANOS_PER_SECOND, NANOS_PER_SECOND - 1)

    def to_datetime(self) -> datetime:
        """Return the time in UTC, truncated to microseconds.

        Returns:
            The time, with the time zone UTC.

        Example:
            >>> zenspark.NTP64(5, 250_000_000).to_datetime()
            datetime.datetime(1970, 1, 1, 0, 0, 5, 250000, tzinfo=datetime.timezone.utc)
        """
        return EPOCH + timedelta(microseconds=self.as_nanos() // 1000)

    def to_string_rfc3339_lossy(self) -> str:
        """Return the time as RFC 3339 text with nanoseconds: `2024-07-01T13:51:12.129693000Z`.

        Returns:
            The text; `parse_rfc3339` may make a slightly different time of it.

        Example:
            >>> zenspark.NTP64(5, 250_000_000).to_string_rfc3339_lossy()
            '1970-01-01T00:00:05.250000000Z'
        """
        seconds, nanoseconds = divmod(self.as_nanos(), NANOS_PER_SECOND)
        return f"{EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09}Z"

    @classmethod
    def parse_rfc3339(cls, s: str) -> Self:
        """Parse a time such as `2024-07-01T13:51:12.129693Z`.

        Args:
            s: RFC 3339 text, in UTC, written `Z`.

        Returns:
            The time.

        Raises:
            UsageError: It is no such text, or not between 1970 and 2106.

        Example:
            >>> zenspark.NTP64.parse_rfc3339("1970-01-01T00:00:05.25Z").as_nanos()
            5250000000
        """
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
    """The id of the clock that made a timestamp, usually that of its node.

    Args:
        bytes: 1 to 16 bytes, not all zero, as bytes or as numbers.

    Raises:
        UsageError: There are none, or too many.
        TypeError: They are no bytes.

    Example:
        >>> zenspark.TimestampId([0x33])
        33
    """

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
    """Time of a sample and id of the clock that made it, so that no two samples have the same.

    As text it is `7386664595088445305/33`; the form with a readable time loses precision.

    Args:
        time: A `datetime` with a time zone, or an `NTP64`.
        id: Id of the clock: 1 to 16 bytes, or a `TimestampId`.

    Raises:
        ValueError: The time is before 1970.
        TypeError: An argument has a wrong type.

    Example:
        >>> session.put("demo/a", "1", timestamp=session.new_timestamp())
    """

    __slots__ = ()

    def __init__(self, time: datetime | NTP64, id: bytes | bytearray | TimestampId) -> None:
        if isinstance(time, datetime):
            time = NTP64.from_wire(_ntp64_from_datetime(time))
        if not isinstance(time, NTP64):
            raise TypeError(f"expected a datetime or an NTP64, found {type(time).__name__!r}")
        clock = id if isinstance(id, TimestampId) else TimestampId(id)
        object.__setattr__(self, "_wire", wire.Timestamp(time.to_wire(), clock.to_wire()))

    def get_time(self) -> datetime:
        """Return the time in UTC, truncated to microseconds.

        Returns:
            The time, with the time zone UTC.

        Example:
            >>> zenspark.Timestamp.parse_rfc3339("2024-07-01T13:51:12.25Z/33").get_time()
            datetime.datetime(2024, 7, 1, 13, 51, 12, 250000, tzinfo=datetime.timezone.utc)
        """
        return self.get_time_as_ntp64().to_datetime()

    def get_time_as_ntp64(self) -> NTP64:
        """Return the exact time.

        Returns:
            The time, of 64 bits.

        Example:
            >>> zenspark.Timestamp.parse_rfc3339("2024-07-01T13:51:12.25Z/33").get_time_as_ntp64().as_secs()
            1719841872
        """
        return NTP64.from_wire(self._wire.ntp64)

    def get_id(self) -> TimestampId:
        """Return the id of the clock.

        Returns:
            The id, usually that of the node that made the timestamp.

        Example:
            >>> zenspark.Timestamp.parse_rfc3339("2024-07-01T13:51:12.25Z/33").get_id()
            33
        """
        return TimestampId.from_wire(self._wire.id)

    def get_diff_duration(self, other: Timestamp) -> timedelta:
        """Subtract another timestamp from this one.

        Args:
            other: The other timestamp.

        Returns:
            How much later this one is; negative if it is earlier.

        Raises:
            TypeError: It is no timestamp.

        Example:
            >>> earlier = zenspark.Timestamp.parse_rfc3339("2024-07-01T13:51:12Z/33")
            >>> later = zenspark.Timestamp.parse_rfc3339("2024-07-01T13:51:14.5Z/33")
            >>> later.get_diff_duration(earlier)
            datetime.timedelta(seconds=2, microseconds=500000)
        """
        if not isinstance(other, Timestamp):
            raise TypeError(f"expected a Timestamp, found {type(other).__name__!r}")
        difference = self._wire.ntp64 - other._wire.ntp64
        duration = timedelta(microseconds=ns_from_ntp64(abs(difference)) // 1000)
        return duration if difference >= 0 else -duration

    def to_string_rfc3339_lossy(self) -> str:
        """Return it with a readable time: `2024-07-01T13:51:12.129693000Z/33`.

        Returns:
            The text; `parse_rfc3339` may make a slightly different timestamp of it.

        Example:
            >>> zenspark.Timestamp.parse_rfc3339("2024-07-01T13:51:12.25Z/33").to_string_rfc3339_lossy()
            '2024-07-01T13:51:12.250000000Z/33'
        """
        return f"{self.get_time_as_ntp64().to_string_rfc3339_lossy()}/{self._wire.id}"

    @classmethod
    def parse_rfc3339(cls, s: str) -> Self:
        """Parse a timestamp such as `2024-07-01T13:51:12.129693Z/33`.

        Args:
            s: Time as RFC 3339 text in UTC, a slash, and the id of the clock in hexadecimal.

        Returns:
            The timestamp.

        Raises:
            UsageError: It is no such text.

        Example:
            >>> timestamp = zenspark.Timestamp.parse_rfc3339("2024-07-01T13:51:12Z/33")
            >>> timestamp == zenspark.Timestamp(timestamp.get_time(), b"3")
            True
        """
        time, slash, clock = s.partition("/")
        if not slash:
            raise UsageError(f"expected `time/id`, found {s!r}")
        return cls.from_wire(wire.Timestamp(NTP64.parse_rfc3339(time).to_wire(), wire.ZenohId.parse(clock.lower())))

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
    """Convert nanoseconds since 1970 to NTP64; OverflowError after 2106, where its 32 bits of seconds end."""
    if nanoseconds >= NTP64_MAX_SECONDS * NANOS_PER_SECOND:
        raise OverflowError(f"{nanoseconds} ns since 1970 are after 2106, where this format ends")
    return ntp64_from_ns(nanoseconds)
