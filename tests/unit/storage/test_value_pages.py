from __future__ import annotations

import numpy as np
import pytest

from tests.unit.storage.made import recorded, row
from zenspark.storage import value_pages
from zenspark.storage.value_pages import NO_PAGE, ValuePages, parse_encoding
from zenspark.wire.values import Encoding


def rows(*payloads: bytes) -> object:
    return recorded([row("k", payload, 1) for payload in payloads])


def test_rows_round_trip() -> None:
    kept = ValuePages()
    number = kept.add(rows(b"a", b"b"))
    assert kept[number].put(1, None).payload == b"b"
    assert kept.nbytes > 0


def test_page_is_dropped_with_its_last_reference_and_its_number_reused() -> None:
    kept = ValuePages()
    first, second = kept.add(rows(b"a", b"b")), kept.add(rows(b"c"))
    kept.release(np.array([first, NO_PAGE]))
    assert len(kept) == 2
    kept.release(np.array([first]))
    assert len(kept) == 1
    assert kept.add(rows(b"d")) == first
    assert kept[second].put(0, None).payload == b"c"


def test_compaction_starts_above_max_dead_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = ValuePages()
    number = kept.add(rows(b"a" * 1000, b"b", b"c"))
    kept.release(np.array([number, number]))
    assert kept.select_for_compaction() == []
    monkeypatch.setattr(value_pages, "MAX_DEAD_BYTES", 10)
    assert kept.select_for_compaction() == [number]


def test_many_small_pages_are_selected_for_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_pages, "MAX_SMALL_PAGES", 2)
    kept = ValuePages()
    numbers = [kept.add(rows(b"%d" % at)) for at in range(3)]
    assert kept.select_for_compaction() == numbers


def test_compact_moves_referenced_rows_to_a_new_page() -> None:
    kept = ValuePages()
    first, second = kept.add(rows(b"a", b"b"), references=3), kept.add(rows(b"c", b"d"), references=1)
    new, moved = kept.compact([first, second], np.array([0, 1, 0]), np.array([1, 0, 1]))
    assert [kept[new].put(int(at), None).payload for at in moved] == [b"b", b"c", b"b"]
    assert len(kept) == 1
    kept.release(np.array([new] * 3))
    assert len(kept) == 0


def test_null_encoding_is_bytes_and_schema_is_parsed() -> None:
    assert parse_encoding(None) == Encoding.BYTES
    assert str(parse_encoding("application/json;x")) == "application/json;x"
