"""make_node(): a node with the limits, capabilities and routing policy of its configuration."""

from __future__ import annotations

import time

from zenspark.clock import HybridClock
from zenspark.config.interceptors import make_interceptor_config
from zenspark.config.settings import Settings
from zenspark.config.user_dictionary import read_users
from zenspark.engine.connectivity import parse_roles
from zenspark.net.io.congestion_control import WriterSettings
from zenspark.net.node.limits import NodeLimits
from zenspark.net.node.node import Node, make_identity
from zenspark.router.linkstate.gossip import GossipProtocol
from zenspark.router.router import RouterPolicy
from zenspark.router.timestamping import TimestampPolicy
from zenspark.transport.handshake import Capabilities, Credentials
from zenspark.transport.multicast import DEFAULT_GROUP_BATCH_BYTES, GroupSettings
from zenspark.wire import values as wire

RESOLUTIONS = {"8bit": 0x08, "16bit": 0x09, "32bit": 0x0A}
"""Resolution of sequence numbers, as INIT encodes it: protocol section 1.7."""


def make_node(settings: Settings) -> Node:
    """Make the node of a session; it is not started yet."""
    whatami = wire.WhatAmI[settings.mode.upper()]
    zid = None if settings.id is None else wire.ZenohId.parse(settings.id)
    unicast = settings.transport.unicast
    queue = settings.transport.link.tx.queue
    congestion = queue.congestion_control
    limits = NodeLimits(
        open_timeout=unicast.open_timeout / 1000,
        accept_timeout=unicast.accept_timeout / 1000,
        inbound=settings.limits.for_links(unicast.accept_pending, unicast.max_sessions),
        message_size=settings.transport.link.rx.max_message_size,
        session_reassembly=settings.limits.reassembly.session(settings.transport.link.rx.max_message_size),
        total_reassembly=settings.limits.reassembly.total(settings.transport.link.rx.max_message_size),
        keep_alives=settings.transport.link.tx.keep_alive,
        writer=WriterSettings(
            wait_before_drop=congestion.drop.wait_before_drop / 1e6,
            wait_before_close=congestion.block.wait_before_close / 1e6,
            batch_fill_wait=queue.batching.time_limit / 1000,
            max_backlog=queue.max_backlog,
        ),
    )
    identity = make_identity(zid, whatami)
    scouting = settings.scouting.gossip
    gossip = (
        GossipProtocol(identity.zid, whatami, parse_roles(scouting.target), scouting.multihop)
        if scouting.enabled
        else None
    )
    policy, groups, interceptors = (
        _make_policy(settings, identity.zid),
        _make_group_settings(settings),
        make_interceptor_config(settings),
    )
    return Node(identity, _make_capabilities(settings), limits, policy, gossip, groups, interceptors)


def _make_policy(settings: Settings, zid: wire.ZenohId) -> RouterPolicy:
    timestamping = settings.timestamping
    timestamp_policy = TimestampPolicy(zid, HybridClock(), time.time_ns, timestamping.drop_future_timestamp)
    weights = settings.routing.router.linkstate.transport_weights
    return RouterPolicy(
        query_timeout=settings.queries_default_timeout / 1000,
        max_query_timeout=settings.queries_max_timeout / 1000,
        interest_timeout=settings.routing.interests.timeout / 1000,
        trusts_complete_flag=settings.routing.router.all_complete == "declared",
        is_broker=settings.routing.peers != "mesh",
        relays=_relays(settings),
        weights={wire.ZenohId.parse(link_weight.dst_zid): link_weight.weight for link_weight in weights},
        first_link_state_sn=int(time.time()),
        timestamping=timestamp_policy if timestamping.enabled else None,
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
        batch_size=min(link.tx.batch_size, DEFAULT_GROUP_BATCH_BYTES),
        lease_ms=link.tx.lease,
        qos=multicast.qos.enabled,
        compression=multicast.compression.enabled,
        join_interval=multicast.join_interval / 1000,
        max_members=multicast.max_sessions,
        message_limit=link.rx.max_message_size,
        keep_alives=link.tx.keep_alive,
    )
