"""NodeObserver: every event may be ignored."""

from zenspark.net.node.observer import IgnoredNodeEvents
from zenspark.router.linkstate.gossip import DiscoveredNode
from zenspark.wire.values import TimestampStack, WhatAmI, ZenohId


def test_events_are_ignored_unless_overridden() -> None:
    observer, stack = IgnoredNodeEvents(), TimestampStack(0, ())
    observer.on_callback_waiting(True)
    observer.on_node_discovered(DiscoveredNode(ZenohId(1), WhatAmI.PEER, ()))
    observer.on_session_lost(ZenohId(1))
    observer.on_failed()
    assert observer.record_route(stack) is stack
