import pickle

import pytest

from zenspark.errors import UsageError
from zenspark.types.ids import EntityGlobalId, SourceInfo, ZenohId, format_source
from zenspark.wire import values as wire

ZID = ZenohId("c0c1c2c3")
ENTITY = EntityGlobalId(ZID, 7)
SOURCE = SourceInfo(ENTITY, 42)


def test_a_node_is_its_number_in_hexadecimal() -> None:
    assert str(ZID) == repr(ZID) == "c0c1c2c3"
    assert bytes(ZID) == bytes.fromhex("c3c2c1c0")
    assert ZenohId.from_wire(wire.ZenohId(0xC0C1C2C3)) == ZID
    assert ZID != "c0c1c2c3"
    with pytest.raises(UsageError):
        ZenohId("0C")


def test_an_entity_belongs_to_a_node() -> None:
    assert (ENTITY.zid, ENTITY.eid) == (ZID, 7)
    assert str(ENTITY) == "EntityGlobalId { zid: c0c1c2c3, eid: 7 }"
    with pytest.raises(OverflowError, match="expected a number of 32 bits, found 4294967296"):
        EntityGlobalId(ZID, 1 << 32)


def test_a_source_is_an_entity_and_a_number() -> None:
    assert (SOURCE.source_id, SOURCE.source_sn) == (ENTITY, 42)
    assert SOURCE.to_wire() == wire.SourceInfo(wire.ZenohId(0xC0C1C2C3), 7, 42)
    assert "source_sn: 42" in str(SOURCE)
    with pytest.raises(OverflowError):
        SourceInfo(ENTITY, -1)
    with pytest.raises(TypeError, match="expected an EntityGlobalId, found 'int'"):
        SourceInfo(3, 3)  # type: ignore[arg-type]  # that is the point


def test_source_in_a_log_line_is_its_node() -> None:
    assert format_source(SOURCE) == "c0c1c2c3"
    assert format_source(None) == "an unnamed sender"


@pytest.mark.parametrize("value", [ZID, ENTITY, SOURCE])
def test_ids_survive_pickling(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
    assert hash(pickle.loads(pickle.dumps(value))) == hash(value)
