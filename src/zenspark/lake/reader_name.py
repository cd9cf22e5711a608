"""The reader name under which a lake commits its offsets in journals."""

from __future__ import annotations

import hashlib


def reader_name(lake: str) -> str:
    """The reader name of the lake at an address."""
    return f"lake-{hashlib.sha256(lake.encode()).hexdigest()[:16]}"
