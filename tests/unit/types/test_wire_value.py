import copy
import pickle

import pytest

from zenspark.types.enums import Reliability, WhatAmI
from zenspark.types.wire_value import WireValue, rust_repr, rust_repr_field


class Box(WireValue[int]):
    __slots__ = ()


class OtherBox(WireValue[int]):
    __slots__ = ()


def test_a_value_is_the_wire_value_inside() -> None:
    assert Box.from_wire(3).to_wire() == 3
    assert Box.from_wire(3) == Box.from_wire(3) != Box.from_wire(4)
    assert Box.from_wire(3) != OtherBox.from_wire(3)
    assert Box.from_wire(3) != 3
    assert hash(Box.from_wire(3)) == hash(Box.from_wire(3))


def test_a_value_survives_copies() -> None:
    box = Box.from_wire(3)
    assert pickle.loads(pickle.dumps(box)) == box
    assert copy.copy(box) == copy.deepcopy(box) == box


def test_a_value_never_changes() -> None:
    box = Box.from_wire(3)
    with pytest.raises(AttributeError, match="Box never changes: cannot set _wire"):
        box._wire = 4
    with pytest.raises(AttributeError, match="Box never changes: cannot delete _wire"):
        del box._wire


def test_a_value_is_spelled_as_in_logs_of_eclipse_zenoh() -> None:
    box = Box.from_wire(3)
    assert rust_repr(box, a=1, b=True, c=None, d=["x", False]) == "Box { a: 1, b: true, c: None, d: [x, false] }"
    assert [rust_repr_field(WhatAmI.CLIENT), rust_repr_field(Reliability.BEST_EFFORT)] == ["Client", "BestEffort"]
