import copy
import pickle
from enum import Enum
from typing import Any

import pytest

from zenspark.errors import UsageError
from zenspark.types import enums
from zenspark.types.enums import (
    ApiEnum,
    CongestionControl,
    ConsolidationMode,
    InterceptionPoint,
    Priority,
    QueryConsolidation,
    QueryTarget,
    WhatAmI,
    WhatAmIMatcher,
)
from zenspark.wire import values as wire

ENUMS = [getattr(enums, name) for name in enums.__all__ if issubclass(getattr(enums, name), ApiEnum)]
TWINS = {
    CongestionControl: wire.Congestion,
    ConsolidationMode: wire.Consolidation,
    Priority: wire.Priority,
    QueryTarget: wire.QueryTarget,
    WhatAmI: wire.WhatAmI,
}


@pytest.mark.parametrize("enum", ENUMS)
def test_enum_members_pickle_copy_and_hash(enum: type[Enum]) -> None:
    for member in enum:
        assert isinstance(member, enum)
        assert pickle.loads(pickle.dumps(member)) is member
        assert copy.deepcopy(member) is member
        assert int(member) == member.value
        assert {member: 1}[member] == 1


def test_members_print_with_their_class() -> None:
    assert str(Priority.DATA) == repr(Priority.DATA) == f"{Priority.DATA}" == "Priority.DATA"


def test_members_are_not_numbers() -> None:
    assert Priority.DATA != 5  # type: ignore[comparison-overlap]  # that is the point


def test_defaults_are_other_names_of_members() -> None:
    aliases = {
        f"{enum.__name__}.{name}": member.name
        for enum in ENUMS
        for name, member in enum.__members__.items()
        if name != member.name
    }
    assert aliases == {
        "CongestionControl.DEFAULT": "DROP",
        "ConsolidationMode.DEFAULT": "AUTO",
        "Locality.DEFAULT": "ANY",
        "Priority.DEFAULT": "DATA",
        "Priority.MIN": "BACKGROUND",
        "Priority.MAX": "REAL_TIME",
        "QueryTarget.DEFAULT": "BEST_MATCHING",
        "Reliability.DEFAULT": "BEST_EFFORT",
        "ReplyKeyExpr.DEFAULT": "MATCHING_QUERY",
    }
    assert len(Priority) == Priority.NUM == 7


@pytest.mark.parametrize(("enum", "twin"), TWINS.items())
def test_the_wire_has_the_same_members(enum: type[ApiEnum], twin: type[wire.WireEnum]) -> None:
    for member in enum:
        there = member.to_wire()  # type: ignore[attr-defined]  # all of the table have it
        assert isinstance(there, twin)
        assert there.name == member.name
        assert enum.from_wire(there) is member  # type: ignore[attr-defined]  # as above
    assert {member.name for member in twin} - {member.name for member in enum} <= {"CONTROL"}


def test_data_sent_as_control_shows_as_data() -> None:
    assert Priority.from_wire(wire.Priority.CONTROL) is Priority.DATA


def test_points_are_bits_of_a_stack() -> None:
    assert [point.bit for point in InterceptionPoint] == [1, 2, 4]


def test_roles_are_found_by_name() -> None:
    assert WhatAmI("peer") is WhatAmI.PEER
    assert [str(role) for role in WhatAmI] == ["router", "peer", "client"]
    assert repr(WhatAmI.PEER) == "Peer"
    with pytest.raises(UsageError, match="expected one of router, peer, client, found 'Peer'"):
        WhatAmI("Peer")


@pytest.mark.parametrize("text", ["", "peer", "router|peer", "router|peer|client"])
def test_matchers_are_sets_of_roles(text: str) -> None:
    matcher = WhatAmIMatcher(text)
    assert str(matcher) == text
    assert {str(role) for role in WhatAmI if role in matcher} == set(filter(None, text.split("|")))
    assert matcher.is_empty() is (text == "")
    assert pickle.loads(pickle.dumps(matcher)) == matcher
    assert hash(matcher) == hash(WhatAmIMatcher(text))


def test_matchers_are_built_in_many_ways() -> None:
    both = WhatAmIMatcher(" peer | router|")
    assert repr(both) == "WhatAmIMatcher('router|peer')"
    assert both == WhatAmIMatcher.empty().router().peer() == WhatAmI.PEER | WhatAmI.ROUTER == WhatAmI.PEER | "router"
    assert WhatAmIMatcher() == WhatAmIMatcher(None) == WhatAmIMatcher.empty() != both
    assert WhatAmIMatcher.of(both) is both
    assert WhatAmIMatcher.of("client") == WhatAmIMatcher.of(WhatAmI.CLIENT) == WhatAmIMatcher.empty().client()
    assert both.matches("peer")
    assert both.to_wire() == wire.Roles(0b011)
    assert both != "router|peer"


def test_matchers_reject_unknown_roles() -> None:
    with pytest.raises(UsageError, match="found 'foo'"):
        WhatAmIMatcher("peer|foo")
    with pytest.raises(TypeError):
        WhatAmI.PEER | 3


def test_query_consolidation_has_its_mode() -> None:
    assert QueryConsolidation.AUTO == QueryConsolidation.DEFAULT == QueryConsolidation(ConsolidationMode.AUTO)
    latest = QueryConsolidation(ConsolidationMode.LATEST)
    assert latest.mode is latest.mode() is ConsolidationMode.LATEST
    assert pickle.loads(pickle.dumps(latest)) == latest
    with pytest.raises(TypeError, match="found 'int'"):
        QueryConsolidation(3)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("wrong", [3, 0, b"peer"])
def test_matcher_of_another_type_is_a_type_error(wrong: Any) -> None:  # noqa: ANN401 - no text
    with pytest.raises(TypeError, match=f"expected str, found '{type(wrong).__name__}'"):
        WhatAmIMatcher(wrong)
