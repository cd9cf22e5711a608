"""Arguments of the wrong type."""

from __future__ import annotations

import pytest

from zenspark.types.arguments import parse_decimal, require_type, require_type_or_default, to_bool, to_count, to_timeout
from zenspark.types.enums import SampleKind


def test_require_type_returns_values_of_that_type() -> None:
    assert require_type(int, 3) == 3
    assert require_type_or_default(int, None, 4) == 4
    assert require_type_or_default(int, 0, 4) == 0


@pytest.mark.parametrize("wrong", ["3", None, 3.0])
def test_other_types_are_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="expected int, found"):
        require_type(int, wrong)


def test_flags_are_true_or_false() -> None:
    class bool_:
        def __bool__(self) -> bool:
            return True

    assert [to_bool(None), to_bool(True), to_bool(False), to_bool(bool_())] == [False, True, False, True]
    wrong: object
    for wrong in (1, "", "yes", []):
        with pytest.raises(TypeError, match="expected bool"):
            to_bool(wrong)


def test_infinite_timeout_needs_endless() -> None:
    assert to_timeout(float("inf"), 7, endless=True) == float("inf")
    for out in (float("-inf"), float("nan"), 1e20):
        with pytest.raises(ValueError, match="from 0 on"):
            to_timeout(out, 7, endless=True)


def test_counts_are_integers_from_1_on() -> None:
    assert [to_count(None), to_count(1), to_count(2**32 - 1)] == [0, 1, 2**32 - 1]
    wrong: object
    for wrong in ("1", 1.0, True, []):
        with pytest.raises(TypeError, match="expected a whole number"):
            to_count(wrong)
    for out in (0, -1, 2**32):
        with pytest.raises(ValueError, match="from 1 to 4294967295"):
            to_count(out)


def test_seconds_are_numbers_from_0_on() -> None:
    assert [to_timeout(None, 7), to_timeout(0, 7), to_timeout(1.5, 7), to_timeout(True, 7)] == [7, 0, 1.5, 1]
    for wrong in ("1", [], object()):
        with pytest.raises(TypeError, match="expected a number of seconds"):
            to_timeout(wrong, 7)
    for out in (-1, float("inf"), float("nan"), 1e20):
        with pytest.raises(ValueError, match="from 0 on"):
            to_timeout(out, 7)


def test_parse_decimal_rejects_numbers_beyond_their_bits() -> None:
    assert [parse_decimal("0"), parse_decimal(str((1 << 64) - 1)), parse_decimal("7", bits=3)] == [0, (1 << 64) - 1, 7]
    for wrong in ("", "-1", "+1", " 1", "1.0", "x", str(1 << 64), "9" * 21, "9" * 5000):
        assert parse_decimal(wrong) is None
    assert parse_decimal("8", bits=3) is None


def test_an_enumeration_is_named_with_its_members() -> None:
    with pytest.raises(TypeError, match=r"expected SampleKind \(PUT, DELETE\), found 'str'"):
        require_type(SampleKind, "PUT")
