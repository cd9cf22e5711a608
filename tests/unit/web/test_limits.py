"""Limits agree with each other, and with the manual."""

from __future__ import annotations

from pathlib import Path

from zenspark.web import limits

MANUAL = (Path(__file__).parents[3] / "docs" / "http.md").read_text()


def test_stream_limit_is_below_the_connection_limit() -> None:
    assert limits.MAX_STREAMS < limits.MAX_CONNECTIONS
    assert limits.MAX_API_BODY_BYTES <= limits.MAX_BODY_BYTES


def test_manual_states_the_http_limits() -> None:
    for text in (
        f"{limits.MAX_CONNECTIONS} connections",
        f"{limits.MAX_STREAMS} event streams",
        f"{limits.MAX_HEADER_BYTES >> 10} KiB",
        f"{limits.MAX_BODY_BYTES >> 20} MiB",
        f"{limits.CLIENT_STALL_TIMEOUT_SECONDS:g} s",
        f"{limits.MAX_STREAM_BYTES >> 20} MiB",
        f"{limits.MAX_ALL_STREAM_BYTES >> 20} MiB",
    ):
        assert text in MANUAL, text
