import pickle
import typing

import pytest

from zenspark.api import ext
from zenspark.errors import UsageError

LATER = ["AdvancedPublisher", "AdvancedSubscriber", "CacheConfig", "HistoryConfig", "Miss", "MissDetectionConfig"]
LATER += ["RecoveryConfig", "RepliesConfig", "SampleMissListener"]
LATER += ["declare_advanced_publisher", "declare_advanced_subscriber"]


@pytest.mark.parametrize("name", LATER)
def test_what_is_not_there_yet_says_so(name: str) -> None:
    with pytest.raises(UsageError, match=f"zenspark.ext.{name} is not available yet") as caught:
        getattr(ext, name)(3, cache=4)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_annotations_can_be_written_already() -> None:
    def listen(subscriber: ext.AdvancedSubscriber[int], listener: ext.SampleMissListener[int]) -> None:
        pass

    assert typing.get_type_hints(listen)


def test_serialization_is_found_here() -> None:
    assert ext.z_deserialize(ext.UInt8, ext.z_serialize(ext.UInt8(7))) == 7
    assert set(LATER) < set(ext.__all__)
    assert all(hasattr(ext, name) for name in ext.__all__)
