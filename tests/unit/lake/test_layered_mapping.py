from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenspark.lake import layered_mapping
from zenspark.lake.layered_mapping import MAX_CHANGES, LayeredMapping

CHANGES = st.dictionaries(st.integers(0, 6), st.none() | st.text(max_size=2), max_size=4)


@pytest.mark.slow
@given(st.dictionaries(st.integers(0, 6), st.text(max_size=2)), st.lists(CHANGES, max_size=6), st.integers(0, 5))
def test_every_version_equals_a_dict(base: dict[int, str], steps: list[Mapping[int, str | None]], most: int) -> None:
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(layered_mapping, "MAX_CHANGES", most)
        versions = [(LayeredMapping(base), dict(base))]
        for step in steps:
            before, known = versions[-1]
            after = {key: value for key, value in {**known, **step}.items() if value is not None}
            versions.append((before.with_changes(step), after))
        for found, expected in versions:  # older ones are what they were
            assert dict(found) == expected
            assert (len(found), list(found.items())) == (len(expected), [(key, expected[key]) for key in found])
            assert [found.get(key) for key in range(7)] == [expected.get(key) for key in range(7)]


def test_removed_key_raises_key_error() -> None:
    found = LayeredMapping({1: "a"}).with_changes({1: None})
    assert 1 not in found
    with pytest.raises(KeyError):
        found[1]


def test_keys_keep_their_order() -> None:
    assert list(LayeredMapping({2: "a", 1: "b"}).with_changes({1: "c", 3: "d"})) == [2, 1, 3]


@pytest.mark.slow
def test_base_is_copied_once_per_max_changes() -> None:
    base = dict.fromkeys(range(10_000), "x")
    found = LayeredMapping(base)
    for number in range(MAX_CHANGES):
        found = found.with_changes({number: "y"})
    assert found._base is base
    found = found.with_changes({MAX_CHANGES: "y"})
    assert found._base is not base
    assert not found._changes
