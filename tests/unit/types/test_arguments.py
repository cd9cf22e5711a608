"""Arguments of the wrong type."""

from __future__ import annotations

import pytest

from zenspark.types.arguments import choice, decimal, expect, flag, quantity, seconds


def test_what_is_expected_passes() -> None:
    assert expect(int, 3) == 3
    assert choice(int, None, 4) == 4
    assert choice(int, 0, 4) == 0


@pytest.mark.parametrize("wrong", ["3", None, 3.0])
def test_other_types_are_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="expected int, found"):
        expect(int, wrong)


def test_flags_are_true_or_false() -> None:
    class bool_:
        def __bool__(self) -> bool:
            return True

    assert [flag(None), flag(True), flag(False), flag(bool_())] == [False, True, False, True]
    wrong: object
    for wrong in (1, "", "yes", []):
        with pytest.raises(TypeError, match="expected bool"):
            flag(wrong)


def test_only_what_may_be_endless_is() -> None:
    assert seconds(float("inf"), 7, endless=True) == float("inf")
    for out in (float("-inf"), float("nan"), 1e20):
        with pytest.raises(ValueError, match="from 0 on"):
            seconds(out, 7, endless=True)


def test_quantities_are_whole_numbers_from_1_on() -> None:
    assert [quantity(None), quantity(1), quantity(2**32 - 1)] == [0, 1, 2**32 - 1]
    wrong: object
    for wrong in ("1", 1.0, True, []):
        with pytest.raises(TypeError, match="expected a whole number"):
            quantity(wrong)
    for out in (0, -1, 2**32):
        with pytest.raises(ValueError, match="from 1 to 4294967295"):
            quantity(out)


def test_seconds_are_numbers_from_0_on() -> None:
    assert [seconds(None, 7), seconds(0, 7), seconds(1.5, 7), seconds(True, 7)] == [7, 0, 1.5, 1]
    for wrong in ("1", [], object()):
        with pytest.raises(TypeError, match="expected a number of seconds"):
            seconds(wrong, 7)
    for out in (-1, float("inf"), float("nan"), 1e20):
        with pytest.raises(ValueError, match="from 0 on"):
            seconds(out, 7)


def test_numbers_of_other_nodes_have_as_many_bits_as_they_may() -> None:
    assert [decimal("0"), decimal(str((1 << 64) - 1)), decimal("7", bits=3)] == [0, (1 << 64) - 1, 7]
    for wrong in ("", "-1", "+1", " 1", "1.0", "x", str(1 << 64), "9" * 21, "9" * 5000):
        assert decimal(wrong) is None
    assert decimal("8", bits=3) is None
