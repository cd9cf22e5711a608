"""SessionObserver: passes the events of a node to the parts of its session that they concern."""

from __future__ import annotations

from collections.abc import Callable

from zenspark.engine.runtime import SessionRuntime
from zenspark.net.node.autoconnect import Autoconnector
from zenspark.net.node.observer import NodeObserver
from zenspark.router.linkstate.gossip import DiscoveredNode
from zenspark.types.enums import InterceptionPoint
from zenspark.wire.values import TimestampStack, ZenohId


class SessionObserver(NodeObserver):
    """Observes the node of one session. `close` closes the session when the loop has failed."""

    def __init__(self, runtime: SessionRuntime, autoconnector: Autoconnector, close: Callable[[], None]) -> None:
        self._runtime = runtime
        self._autoconnector = autoconnector
        self._close = close

    def on_callback_waiting(self, is_waiting: bool) -> None:
        self._runtime.backpressure.on_callback_waiting(is_waiting)

    def on_node_discovered(self, discovered: DiscoveredNode) -> None:
        self._autoconnector.on_node_discovered(discovered)

    def on_session_lost(self, zid: ZenohId) -> None:
        self._autoconnector.on_session_lost(zid)

    def record_route(self, stack: TimestampStack | None) -> TimestampStack | None:
        return self._runtime.timestamps.record(stack, InterceptionPoint.ROUTE)

    def on_failed(self) -> None:
        self._close()
