import operator
import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from zenspark.errors import UsageError
from zenspark.types.timestamps import NTP64, Timestamp, TimestampId
from zenspark.wire import values as wire

TIME = datetime(2024, 7, 1, 13, 51, 12, 129693, tzinfo=UTC)
NTP = NTP64(1719841872, 129693000)
STAMP = Timestamp(TIME, b"\x33")
NANOSECONDS = st.integers(0, (1 << 32) * 10**9 - 1)


def test_ntp64_converts_to_seconds_datetime_and_text() -> None:
    assert str(NTP) == repr(NTP) == "7386664595088445305"
    assert NTP.to_wire() == 7386664595088445305
    assert (NTP.as_secs(), NTP.subsec_nanos()) == (1719841872, 129693000)
    assert NTP.as_nanos() == 1719841872129693000
    assert NTP64(1, 500_000_000).as_secs_f64() == 1.5
    assert NTP.to_datetime() == TIME
    assert NTP.to_string_rfc3339_lossy() == "2024-07-01T13:51:12.129693000Z"
    assert NTP64(1, 2_500_000_000) == NTP64(3, 500_000_000)


def test_subsecond_nanoseconds_stay_below_one_second() -> None:
    assert NTP64.from_wire((5 << 32) | 0xFFFF_FFFF).subsec_nanos() == 999_999_999


@pytest.mark.parametrize(("seconds", "nanoseconds"), [(-1, 0), (0, -1), (1 << 32, 0), ((1 << 32) - 1, 10**9)])
def test_times_outside_of_the_format_are_refused(seconds: int, nanoseconds: int) -> None:
    with pytest.raises(OverflowError):
        NTP64(seconds, nanoseconds)


@examples(100)
@given(NANOSECONDS)
def test_nanoseconds_and_texts_survive(nanoseconds: int) -> None:
    time = NTP64(*divmod(nanoseconds, 10**9))
    assert time.as_nanos() == nanoseconds
    assert NTP64.parse_rfc3339(time.to_string_rfc3339_lossy()) == time


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T00:00:01.Z", 1_000_000_000),
        ("1970-01-01T00:00:01.1234567899Z", 1_123_456_789),
        ("1970-01-01T00:00:60Z", 59_000_000_000),
    ],
)
def test_rfc3339_times_are_parsed(text: str, nanoseconds: int) -> None:
    assert NTP64.parse_rfc3339(text).as_nanos() == nanoseconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "foo", "2024-07-01T13:51:12", "2024-07-01T13:51:12+02:00", "2024-07-01t13:51:12z"),
        *("2024-02-30T00:00:00Z", "2024-07-01T13:51:61Z", "2024-07-01T24:00:00Z"),
        *("1969-12-31T23:59:59Z", "2107-01-01T00:00:00Z"),
    ],
)
def test_invalid_rfc3339_times_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="expected a time between 1970 and 2106"):
        NTP64.parse_rfc3339(text)


def test_times_are_ordered() -> None:
    earlier, later = NTP64(1, 0), NTP64(2, 0)
    assert earlier < later
    assert earlier <= later
    assert later > earlier
    assert later >= earlier
    assert sorted([later, earlier]) == [earlier, later]
    assert earlier != 1 << 32
    for compare in (operator.lt, operator.le, operator.gt, operator.ge):
        with pytest.raises(TypeError):
            compare(earlier, 3)


def test_an_id_is_a_number_from_its_lowest_byte_on() -> None:
    assert str(TimestampId(b"\x01\x02\x03")) == repr(TimestampId(b"\x01\x02\x03")) == "30201"
    assert TimestampId(b"\x01\x00") == TimestampId(bytearray(b"\x01")) == TimestampId([1])
    assert bytes(TimestampId(memoryview(b"\x00\x01"))) == b"\x00\x01"
    assert TimestampId(b"\x05") > TimestampId(b"\x02\x01")


@pytest.mark.parametrize("raw", [b"", b"\0\0", b"x" * 17])
def test_ids_of_a_wrong_size_are_refused(raw: bytes) -> None:
    with pytest.raises(UsageError, match="expected 1 to 16 bytes"):
        TimestampId(raw)


@pytest.mark.parametrize("raw", ["a", 3])
def test_ids_are_made_of_bytes(raw: object) -> None:
    with pytest.raises(TypeError, match="expected bytes"):
        TimestampId(raw)  # type: ignore[arg-type]  # that is the point


def test_a_stamp_is_a_time_and_an_id() -> None:
    assert str(STAMP) == repr(STAMP) == "7386664595088445305/33"
    assert Timestamp(NTP, TimestampId(b"\x33")) == STAMP
    assert STAMP.to_wire() == wire.Timestamp(7386664595088445305, wire.ZenohId(0x33))
    assert STAMP.get_time() == TIME
    assert STAMP.get_time_as_ntp64() == NTP
    assert STAMP.get_id() == TimestampId(b"\x33")
    assert Timestamp(TIME.astimezone(timezone(timedelta(hours=2))), b"\x33") == STAMP


def test_timestamp_round_trips_rfc3339() -> None:
    text = "2024-07-01T13:51:12.129693000Z/33"
    assert STAMP.to_string_rfc3339_lossy() == text
    assert Timestamp.parse_rfc3339(text) == STAMP
    assert str(Timestamp.parse_rfc3339("1970-01-01T00:00:00Z/AB")) == "0/ab"


@pytest.mark.parametrize("text", ["foo", "foo/33", "1970-01-01T00:00:00Z/", "1970-01-01T00:00:00Z/0a", "1970Z/zz"])
def test_invalid_timestamp_texts_are_rejected(text: str) -> None:
    with pytest.raises(UsageError):
        Timestamp.parse_rfc3339(text)


def test_stamps_are_ordered_by_time_then_id() -> None:
    assert STAMP < Timestamp(TIME, b"\x34") < Timestamp(TIME + timedelta(seconds=1), b"\x01")
    assert Timestamp(TIME, b"\x05") > Timestamp(TIME, b"\x02\x01")


def test_the_time_between_two_stamps() -> None:
    later = Timestamp(TIME + timedelta(seconds=2, microseconds=5), b"\x01")
    assert later.get_diff_duration(STAMP) == timedelta(seconds=2, microseconds=5)
    assert STAMP.get_diff_duration(later) == -timedelta(seconds=2, microseconds=5)
    with pytest.raises(TypeError, match="expected a Timestamp, found 'int'"):
        STAMP.get_diff_duration(3)  # type: ignore[arg-type]  # that is the point


def test_timestamp_of_a_naive_or_out_of_range_time_raises() -> None:
    with pytest.raises(TypeError):
        Timestamp(TIME.replace(tzinfo=None), b"\x33")
    with pytest.raises(TypeError, match="expected a datetime or an NTP64, found 'int'"):
        Timestamp(3, b"\x33")  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ValueError, match="expected a time since 1970"):
        Timestamp(TIME.replace(year=1960), b"\x33")
    with pytest.raises(OverflowError):
        Timestamp(TIME.replace(year=2200), b"\x33")


@pytest.mark.parametrize("value", [NTP, TimestampId(b"\x33"), STAMP])
def test_times_survive_pickling(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
    assert hash(pickle.loads(pickle.dumps(value))) == hash(value)
