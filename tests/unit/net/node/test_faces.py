"""FaceTable: faces of sessions, of groups and of members."""

from __future__ import annotations

import threading
from typing import Any

from zenspark.net.node.faces import FaceTable
from zenspark.net.node.observer import GroupMemberInfo
from zenspark.router.router import Router
from zenspark.transport.counters import ReceiveCounters
from zenspark.wire.values import WhatAmI, ZenohId

A, B, C = ZenohId(0xA1), ZenohId(0xB1), ZenohId(0xC1)
MEMBER = GroupMemberInfo("udp/1", "udp/2", "udp/group", 1000, False, ReceiveCounters())


def make_table() -> tuple[Router, FaceTable]:
    return Router(A, WhatAmI.PEER), FaceTable(threading.RLock())


def test_session_is_found_by_face_driver_and_zid() -> None:
    router, table = make_table()
    driver: Any = object()
    face, _ = router.add_face(B, WhatAmI.PEER, 0.0)
    table.add_session(face, driver)
    assert table.driver(face) is not None
    assert table.face_of(driver) is face
    assert table.is_open(driver)
    assert table.has_session(B)
    assert not table.has_session(C)
    assert (table.drivers, table.neighbourhood, table.link_drivers) == ({face: driver}, {face: driver}, {driver})
    assert table.remove_session(driver) is face
    assert table.remove_session(driver) is None
    assert table.driver(face) is None
    assert not table.is_open(driver)
    assert not table.has_session(B)


def test_members_share_the_driver_of_their_group_and_are_neighbours() -> None:
    router, table = make_table()
    driver: Any = object()
    group = router.add_group()
    member = router.add_member(group, C, WhatAmI.PEER)
    table.add_group_face(group, driver)
    table.add_group_face(member, driver, MEMBER)
    assert table.driver(group) is table.driver(member) is driver
    assert table.neighbourhood == {member: MEMBER}
    assert table.link_drivers == {driver}
    assert not table.drivers
    assert not table.has_session(C)
    assert table.remove_group_face(member) == (driver, MEMBER)
    assert table.remove_group_face(group) == (driver, None)
    assert not table.link_drivers


def test_clear_removes_all_faces() -> None:
    router, table = make_table()
    driver: Any = object()
    table.add_group_face(router.add_group(), driver)
    table.add_session(router.add_face(B, WhatAmI.PEER, 0.0)[0], driver)
    table.clear()
    assert not table.link_drivers
    assert not table.neighbourhood
