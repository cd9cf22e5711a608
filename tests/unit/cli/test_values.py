import io
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.api.sessions import listening
from tests.wait import TIMEOUT_SECONDS
from zenspark.cli.values import (
    error_object,
    format_time,
    format_value,
    json_line,
    read_value,
    sample_object,
    value_object,
)
from zenspark.types.network_info import ReplyError
from zenspark.types.timestamps import Timestamp
from zenspark.types.zbytes import ZBytes


@pytest.mark.parametrize(
    ("payload", "encoding", "text"),
    [
        (b"hello", "zenoh/bytes", "hello"),
        (b"two\nlines", "text/plain", "two\\nlines"),
        (b'{ "a": 1 }', "application/json;v2", '{"a":1}'),
        (b"{broken", "application/json", "{broken"),
        (b"\x1b[31mred", "text/plain", "\\x1b[31mred"),
        (b"\x1b[31mred", "zenoh/bytes", "<8 bytes> 1b 5b 33 31 6d 72 65 64"),
        (b"\x2a\x00\x00\x00", "zenoh/serialized;int32", "42"),
        (b"AB", "zenoh/serialized", "<2 bytes> 41 42"),
        (b"\xa1aa\x01", "application/cbor", '{"a":1}'),
        (b"\xff\x00", "zenoh/bytes", "<2 bytes> ff 00"),
        (bytes(40), "image/jpeg", "<40 bytes> " + " ".join(["00"] * 32) + "…"),
        (b"", "zenoh/bytes", ""),
    ],
)
def test_a_value_is_one_line_that_is_safe_to_print(payload: bytes, encoding: str, text: str) -> None:
    assert format_value(payload, encoding) == text


def test_a_value_is_cut() -> None:
    assert format_value(b"0123456789", "text/plain", 5) == "0123…"
    assert format_value(b"01234", "text/plain", 5) == "01234"


@pytest.mark.parametrize(
    ("payload", "encoding", "found"),
    [
        (b'{"a": [1]}', "application/json", {"value": {"a": [1]}}),
        (b"6162", "zenoh/bytes", {"value": "6162"}),
        (b"{broken", "application/json", {"value": "{broken"}),
        (b"\xff", "application/json", {"base64": "/w=="}),
        (b"AB", "zenoh/serialized;int16", {"base64": "QUI="}),
    ],
)
def test_value_object_has_text_or_base64(payload: bytes, encoding: str, found: dict[str, Any]) -> None:
    assert value_object(payload, encoding) == found


def test_error_object_has_value_and_encoding() -> None:
    assert error_object(ReplyError(ZBytes("no"))) == {"error": {"value": "no"}, "encoding": "zenoh/bytes"}


def test_sample_without_timestamp_shows_its_reception_time() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert format_time(None, noon.timestamp()) == noon.astimezone().strftime("%H:%M:%S.000")


def test_a_script_can_read_the_time_of_a_sample() -> None:
    with listening("router") as session, session.declare_subscriber("a") as subscriber:
        stamp = Timestamp(datetime(2026, 11, 18, 0, 40, 12, 171293, tzinfo=UTC), b"\x01")
        session.put("a", "1", timestamp=stamp)
        session.put("a", "1", timestamp=Timestamp(datetime(2026, 11, 18, tzinfo=UTC), b"\x01"))
        found = [sample_object(subscriber.recv(TIMEOUT_SECONDS)) for _ in range(2)]
    assert [each["time"] for each in found] == ["2026-11-18T00:40:12.171293Z", "2026-11-18T00:00:00.000000Z"]
    assert found[0]["timestamp"] == str(stamp)
    with listening("peer") as session, session.declare_subscriber("a") as subscriber:
        session.put("a", "1")
        unstamped = sample_object(subscriber.recv(TIMEOUT_SECONDS))
    assert not {"time", "timestamp"} & set(unstamped)


def test_values_come_from_arguments_files_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(b"\x00\x01")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"input")))
    assert [read_value("text"), read_value(f"@{file}"), read_value("-")] == [b"text", b"\x00\x01", b"input"]
    with pytest.raises(FileNotFoundError):
        read_value("@/no/such")


def test_json_line_is_compact_and_keeps_unicode() -> None:
    assert json_line({"a": "ä"}) == '{"a":"ä"}'
