"""Keys that name an advanced publisher."""

from __future__ import annotations

import pytest

from zenspark.api.ext.advanced.publisher_key import PublisherKey
from zenspark.types.ids import EntityGlobalId
from zenspark.types.timestamps import TimestampId


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("a/@adv/pub/a1/6/_", EntityGlobalId),
        ("a/@adv/pub/a1/uhlc/_", TimestampId),
        ("a/@adv/pub/a1/other/_", type(None)),
        (f"a/@adv/pub/a1/{1 << 32}/_", type(None)),
        (f"a/@adv/pub/a1/{'9' * 5000}/_", type(None)),
        ("a/@adv/pub/xx/6/_", None),
        ("a1", None),
    ],
)
def test_parse_reads_zid_and_number_of_publisher_keys(key: str, kind: type | None) -> None:
    found = PublisherKey.parse(key)
    assert found is None if kind is None else found is not None and isinstance(found.source, kind)
