"""SessionObserver: events of a node reach the backpressure, the autoconnector and the timestamps of its session."""

from __future__ import annotations

from typing import Any

from zenspark.engine.session_observer import SessionObserver
from zenspark.router.linkstate.gossip import DiscoveredNode
from zenspark.types.enums import InterceptionPoint
from zenspark.wire.values import TimestampStack, WhatAmI, ZenohId


class Recorder:
    """Records the calls of any method."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - stands for any method
        def record(*arguments: Any) -> Any:  # noqa: ANN401
            self.calls.append((name, *arguments))
            return arguments[0]

        return record


def test_each_event_reaches_its_part_of_the_session() -> None:
    runtime: Any = Recorder()
    runtime.backpressure, runtime.timestamps = Recorder(), Recorder()
    autoconnector: Any = Recorder()
    closed: list[str] = []
    observer = SessionObserver(runtime, autoconnector, lambda: closed.append("closed"))
    node, stack = DiscoveredNode(ZenohId(1), WhatAmI.PEER, ()), TimestampStack(0, ())
    observer.on_callback_waiting(True)
    observer.on_node_discovered(node)
    observer.on_session_lost(ZenohId(1))
    assert observer.record_route(stack) is stack
    observer.on_failed()
    assert runtime.backpressure.calls == [("on_callback_waiting", True)]
    assert autoconnector.calls == [("on_node_discovered", node), ("on_session_lost", ZenohId(1))]
    assert runtime.timestamps.calls == [("record", stack, InterceptionPoint.ROUTE)]
    assert closed == ["closed"]
