"""Validation of policies."""

from __future__ import annotations

import pytest

from zenspark.errors import UsageError
from zenspark.journal import Policy


def test_default_policy_is_valid() -> None:
    assert Policy() == Policy(fsync=1.0, compression="none", retain_age=None)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("flush_rows", 0),
        ("flush_bytes", -1),
        ("flush_bytes", 1 << 31),
        ("segment_bytes", 0),
        ("segment_age", 0.0),
        ("retain_age", 0),
        ("retain_bytes", 0),
        ("retain_read_age", -1.0),
        ("retain_read_bytes", -1),
        ("reader_expiry", 0.0),
        ("flush_interval", -0.1),
        ("fsync", -1.0),
        ("block_timeout", -1.0),
        ("fsync", "always"),
        ("compression", "gzip"),
    ],
)
def test_invalid_policies_are_rejected(field: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"{field}: expected"):
        Policy(**{field: value})  # type: ignore[arg-type]
