"""open(): start a node from a configuration, and return its session once the network is reached."""

from __future__ import annotations

import logging
from collections.abc import Callable

from zenspark.api.adminspace.adminspace import AdminSpace
from zenspark.api.adminspace.transports import TransportDocuments
from zenspark.api.session import Session
from zenspark.config.config import Config
from zenspark.engine.connectivity import Connectivity
from zenspark.engine.lifecycle import SessionLifecycle
from zenspark.engine.node_factory import make_node
from zenspark.engine.qos_overrides import QosOverrides
from zenspark.engine.runtime import SessionRuntime
from zenspark.engine.session_observer import SessionObserver
from zenspark.engine.timestamping import TimestampCallback
from zenspark.types.arguments import require_type

logger = logging.getLogger("zenspark.api")


class SessionOpener:
    """Opens a session: `finish` waits for the network, `abort` in another thread interrupts it.

    Entities that the session declares between `prepare` and `finish` exist before any other node connects: publishers
    that connect to a recorder as soon as its port is open find its subscription, and no publication is lost.
    """

    def __init__(self, config: Config | None, timestamp_callback: TimestampCallback | None) -> None:
        self._settings = (Config() if config is None else require_type(Config, config)).settings()
        if timestamp_callback is not None and not callable(timestamp_callback):
            raise TypeError(f"expected a function as timestamp_callback, found {type(timestamp_callback).__name__!r}")
        node = make_node(self._settings)
        logger.info("Using ZID: %s", node.identity.zid)  # the words of eclipse-zenoh, which operators know
        self._runtime = SessionRuntime(node, self._settings, timestamp_callback)
        self._connectivity = Connectivity(node, self._settings)
        self._runtime.connectors = self._connectivity.connectors
        self._lifecycle = SessionLifecycle(self._runtime, self._connectivity)
        node.start(self._runtime, SessionObserver(self._runtime, self._connectivity.autoconnector, self._lifecycle.end))
        self._session: Session | None = None
        if self._settings.adminspace.enabled:
            AdminSpace(self._runtime, self._settings)

    def prepare(self) -> Session:
        """Bind the listeners, and return the session; other nodes reach it after `finish`. A client is connected."""
        self._run_step(self._connectivity.prepare)
        self._session = self._make_session()
        return self._session

    def finish(self) -> Session:
        """Listen and connect as configured, and return when the network is reached."""
        self._run_step(self._connectivity.start)
        return self._session or self._make_session()

    def _run_step(self, step: Callable[[], None]) -> None:
        """Run a step of opening; close the node if it fails."""
        try:
            step()
        except BaseException:
            self.abort()
            raise

    def _make_session(self) -> Session:
        settings = self._settings
        overrides = QosOverrides(settings.qos.publication)
        session = Session(self._runtime, settings.queries_default_timeout / 1000, self._lifecycle.end, overrides)
        TransportDocuments(self._runtime)
        return session

    def abort(self) -> None:
        """Close the node, and its listeners and links so far."""
        self._lifecycle.end()


def open(config: Config | None = None, *, timestamp_callback: TimestampCallback | None = None) -> Session:
    """Open a session: listen and connect as configured, and return when the network is reached.

    Args:
        config: The configuration, with the keys of zenohd's; by default a peer that finds others by multicast.
        timestamp_callback: Makes the bytes that this node records where a sample is instrumented (see
            `TimestampInstrumentation`); by default its clock.

    Returns:
        The session. It closes at the end of its `with` block, or when the last reference to it is gone.

    Raises:
        UsageError: The configuration is not valid.
        LinkError: A listener could not be bound, or no endpoint was reached that the configuration requires.
        TypeError: `config` is not a `Config`, or `timestamp_callback` no function.

    Example:
        >>> config = zenspark.Config.from_json5('{connect: {endpoints: ["tcp/localhost:7447"]}}')
        >>> with zenspark.open(config) as session:
        ...     session.put("demo/temperature", "21.5")
    """
    return SessionOpener(config, timestamp_callback).finish()
