"""Objects that cannot be copied."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from zenspark.api.session import Session
from zenspark.types.uncopyable import refuse_copy


class Live:
    """Stands for something live."""

    __reduce_ex__ = refuse_copy


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy, pickle.dumps])
def test_live_objects_are_neither_copied_nor_pickled(make_copy: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="cannot copy or pickle 'Live' objects"):
        make_copy(Live())


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy, pickle.dumps])
def test_sessions_entities_and_channels_are_not_copied(peer: Session, make_copy: Callable[[object], object]) -> None:
    """A copy that is collected would close the session, or undeclare the entity."""
    subscriber = peer.declare_subscriber("a")
    for each in (peer, peer.declare_publisher("a"), subscriber, subscriber.handler, peer.declare_queryable("a")):
        with pytest.raises(TypeError, match=f"cannot copy or pickle '{type(each).__name__}' objects"):
            make_copy(each)
    assert not peer.is_closed()
