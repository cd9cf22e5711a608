"""open(): start a node from a configuration, and return its session once the network is reached."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from typing import ClassVar

from zenspark.api.adminspace.adminspace import AdminSpace
from zenspark.api.adminspace.transports import TransportDocuments
from zenspark.api.session import Session
from zenspark.clock import HybridClock
from zenspark.config.config import Config
from zenspark.config.interceptors import make_interceptor_config
from zenspark.config.settings import Settings
from zenspark.config.user_dictionary import read_users
from zenspark.engine.connectivity import Connectivity, parse_roles
from zenspark.engine.qos_overrides import QosOverrides
from zenspark.engine.runtime import SessionRuntime
from zenspark.engine.session_observer import SessionObserver
from zenspark.engine.timestamping import TimestampCallback
from zenspark.net.io.congestion import WriterSettings
from zenspark.net.node.limits import NodeLimits
from zenspark.net.node.node import Node, make_identity
from zenspark.router.linkstate.gossip import GossipProtocol
from zenspark.router.router import RouterPolicy
from zenspark.router.timestamping import TimestampPolicy
from zenspark.transport.handshake import Capabilities, Credentials
from zenspark.transport.multicast import DEFAULT_BATCH_SIZE, GroupSettings
from zenspark.types.arguments import require_type
from zenspark.wire import values as wire

logger = logging.getLogger("zenspark.api")

RESOLUTIONS = {"8bit": 0x08, "16bit": 0x09, "32bit": 0x0A}
"""Resolution of sequence numbers, as INIT encodes it: protocol.md section 1.7."""


class SessionLifecycle:
    """Ends one session exactly once, from any thread, and at exit of the process at the latest."""

    _all: ClassVar[set[SessionLifecycle]] = set()

    def __init__(self, runtime: SessionRuntime, reach: Connectivity) -> None:
        self._runtime = runtime
        self._reach = reach
        self._lock = threading.RLock()
        self._has_ended = False
        self._all.add(self)

    def end(self) -> None:
        """Write what was published, send CLOSE, stop. A second caller waits for that, except the loop."""
        in_loop = self._runtime.node.loop.is_loop_internal
        if not self._lock.acquire(blocking=not in_loop):
            return
        try:
            if not self._has_ended:
                self._has_ended = True
                self._end(in_loop)
        finally:
            self._lock.release()

    def _end(self, in_loop: bool) -> None:
        node = self._runtime.node
        logger.info("close session zid=%s", node.identity.zid)
        self._reach.stop_connecting()
        try:
            self._runtime.close()
            if not in_loop:  # the loop itself cannot wait: it has to do the writing
                for pump in node.link_drivers:
                    pump.flush_and_wait()
        finally:
            node.close()
            self._reach.close()
            self._all.discard(self)

    @classmethod
    def end_all(cls) -> None:
        """Close all sessions at exit: afterwards daemon threads stand still, and what they had to write is lost."""
        for running in list(cls._all):
            running.end()

    @classmethod
    def forget_all(cls) -> None:
        """Forget all sessions in a forked child: their threads do not run there, and the parent keeps them."""
        for running in cls._all:
            running._runtime.face.is_closed = running._has_ended = True
            running._lock = threading.RLock()
        cls._all.clear()


atexit.register(SessionLifecycle.end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SessionLifecycle.forget_all)


class SessionOpener:
    """Opens a session: `finish` waits for the network, `abort` in another thread ends that."""

    def __init__(self, config: Config | None, timestamp_callback: TimestampCallback | None) -> None:
        self._settings = (Config() if config is None else require_type(Config, config)).settings()
        node = _make_node(self._settings)
        logger.info("Using ZID: %s", node.identity.zid)
        self._runtime = SessionRuntime(node, self._settings, timestamp_callback)
        self._reach = Connectivity(node, self._settings)
        self._running = SessionLifecycle(self._runtime, self._reach)
        node.start(self._runtime, SessionObserver(self._runtime, self._reach.discovery, self._running.end))
        if self._settings.adminspace.enabled:
            AdminSpace(self._runtime, self._settings)

    def finish(self) -> Session:
        """Listen and connect as configured, and return when the network is reached."""
        try:
            self._reach.start()
        except BaseException:
            self.abort()
            raise
        settings = self._settings
        overrides = QosOverrides(settings.qos.publication)
        session = Session(self._runtime, settings.queries_default_timeout / 1000, self._running.end, overrides)
        TransportDocuments(self._runtime)
        return session

    def abort(self) -> None:
        """Stop what was started so far."""
        self._running.end()


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
        TypeError: `config` is not a `Config`.

    Example:
        >>> config = zenspark.Config.from_json5('{connect: {endpoints: ["tcp/localhost:7447"]}}')
        >>> with zenspark.open(config) as session:
        ...     session.put("demo/temperature", "21.5")
    """
    return SessionOpener(config, timestamp_callback).finish()


def _make_node(settings: Settings) -> Node:
    whatami = wire.WhatAmI[settings.mode.upper()]
    zid = None if settings.id is None else wire.ZenohId.parse(settings.id)
    unicast = settings.transport.unicast
    queue = settings.transport.link.tx.queue
    congestion = queue.congestion_control
    limits = NodeLimits(
        open_timeout=unicast.open_timeout / 1000,
        accept_timeout=unicast.accept_timeout / 1000,
        inbound=settings.limits.for_callers(unicast.accept_pending, unicast.max_sessions),
        message_size=settings.transport.link.rx.max_message_size,
        session_reassembly=settings.limits.reassembly.session(settings.transport.link.rx.max_message_size),
        total_reassembly=settings.limits.reassembly.total(settings.transport.link.rx.max_message_size),
        keep_alives=settings.transport.link.tx.keep_alive,
        writer=WriterSettings(
            drop_wait=congestion.drop.wait_before_drop / 1e6,
            block_wait=congestion.block.wait_before_close / 1e6,
            batch_fill_wait=queue.batching.time_limit / 1000,
            max_backlog=queue.max_backlog,
        ),
    )
    own = make_identity(zid, whatami)
    scouting = settings.scouting.gossip
    gossip = (
        GossipProtocol(own.zid, whatami, parse_roles(scouting.target), scouting.multihop) if scouting.enabled else None
    )
    policy, rules, interception = (
        _make_policy(settings, own.zid),
        _make_group_settings(settings),
        make_interceptor_config(settings),
    )
    return Node(own, _make_capabilities(settings), limits, policy, gossip, rules, interception)


def _make_policy(settings: Settings, zid: wire.ZenohId) -> RouterPolicy:
    timestamping = settings.timestamping
    stamping = TimestampPolicy(zid, HybridClock(), time.time_ns, timestamping.drop_future_timestamp)
    weights = settings.routing.router.linkstate.transport_weights
    return RouterPolicy(
        query_timeout=settings.queries_default_timeout / 1000,
        max_query_timeout=settings.queries_max_timeout / 1000,
        interest_timeout=settings.routing.interests.timeout / 1000,
        trusts_complete_flag=settings.routing.router.all_complete == "declared",
        is_broker=settings.routing.peers != "mesh",
        relays=_relays(settings),
        weights={wire.ZenohId.parse(each.dst_zid): each.weight for each in weights},
        first_sn=int(time.time()),
        timestamping=stamping if timestamping.enabled else None,
        routers=settings.routing.router.accept,
        limits=settings.limits.for_router(),
    )


def _relays(settings: Settings) -> bool:
    """Return whether this node relays; not where routers are restricted, since every relay acts as one."""
    return settings.routing.peers == "relay" and settings.routing.router.accept is None and settings.mode != "client"


def _make_capabilities(settings: Settings) -> Capabilities:
    transport = settings.transport
    login = transport.auth.usrpwd
    credentials = None
    if login.user is not None and login.password is not None:
        credentials = Credentials(login.user.encode(), login.password.encode())
    return Capabilities(
        resolution=RESOLUTIONS[transport.link.tx.sequence_number_resolution],
        batch_size=transport.link.tx.batch_size,
        lease_ms=transport.link.tx.lease,
        qos=transport.unicast.qos.enabled,
        low_latency=transport.unicast.lowlatency,
        compression=transport.unicast.compression.enabled,
        separate_final_frames=transport.link.tx.separate_finals,
        credentials=credentials,
        users=None if login.dictionary_file is None else read_users(login.dictionary_file),
        relays=_relays(settings),
    )


def _make_group_settings(settings: Settings) -> GroupSettings:
    """Make the settings of multicast groups."""
    multicast, link = settings.transport.multicast, settings.transport.link
    return GroupSettings(
        resolution=RESOLUTIONS[link.tx.sequence_number_resolution],
        batch_size=min(link.tx.batch_size, DEFAULT_BATCH_SIZE),
        lease_ms=link.tx.lease,
        qos=multicast.qos.enabled,
        compression=multicast.compression.enabled,
        join_interval=multicast.join_interval / 1000,
        max_members=multicast.max_sessions,
        message_limit=link.rx.max_message_size,
        keep_alives=link.tx.keep_alive,
    )
