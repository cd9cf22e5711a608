"""The name under which journals know how far a lake has come."""

from __future__ import annotations

import hashlib


def reader_name(lake: str) -> str:
    """The name for the lake at an address."""
    return f"lake-{hashlib.sha256(lake.encode()).hexdigest()[:16]}"
