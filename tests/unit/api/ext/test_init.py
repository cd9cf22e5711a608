import pickle
import typing

from zenspark.api import ext
from zenspark.types.ids import EntityGlobalId, ZenohId


def test_ext_exports_every_name_of_all() -> None:
    assert ext.z_deserialize(ext.UInt8, ext.z_serialize(ext.UInt8(7))) == 7
    assert all(hasattr(ext, name) for name in ext.__all__)


def test_generic_ext_classes_can_be_used_in_annotations() -> None:
    def listen(subscriber: ext.AdvancedSubscriber[int], listener: ext.SampleMissListener[int]) -> None:
        pass

    assert typing.get_type_hints(listen)


def test_miss_is_equal_after_pickling() -> None:
    miss = ext.Miss(EntityGlobalId(ZenohId("a1"), 1), 2)
    assert pickle.loads(pickle.dumps(miss)) == miss
