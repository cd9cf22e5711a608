"""TransportFactory: state machines with the identity and limits of a node."""

from __future__ import annotations

import contextlib

from tests.unit.net.ends import link_pair
from zenspark.net.node.limits import NodeLimits
from zenspark.net.node.transport_factory import TransportFactory
from zenspark.router.router import Router, RouterPolicy
from zenspark.transport.connection import ConnectionState
from zenspark.transport.handshake import Capabilities, Identity
from zenspark.transport.multicast import GroupSettings
from zenspark.wire.values import WhatAmI, ZenohId

IDENTITY = Identity(ZenohId(0xA1), WhatAmI.PEER)


def make_factory(capabilities: Capabilities, policy: RouterPolicy = RouterPolicy()) -> TransportFactory:  # noqa: B008
    router = Router(IDENTITY.zid, IDENTITY.whatami, policy)
    return TransportFactory(IDENTITY, capabilities, NodeLimits(), GroupSettings(qos=True), router)


def test_batches_fit_the_link() -> None:
    factory = make_factory(Capabilities(batch_size=60_000))
    left, right = link_pair()
    with contextlib.closing(left), contextlib.closing(right):
        left.mtu = 1500
        assert factory._capabilities_on(left).batch_size == 1500
        left.mtu = 65_535
        assert factory._capabilities_on(left).batch_size == 60_000


def test_both_roles_open_a_session() -> None:
    factory = make_factory(Capabilities())
    left, right = link_pair()
    with contextlib.closing(left), contextlib.closing(right):
        for handshake in (factory.make_initiator(left, ZenohId(0xB1)), factory.make_acceptor(right)):
            assert factory.make_connection(handshake, left, 0.0).state is not ConnectionState.OPEN


def test_group_session_has_the_settings_of_the_node() -> None:
    first, second = (make_factory(Capabilities()).make_group_session(0.0) for _ in range(2))
    assert first.qos
    assert first is not second
