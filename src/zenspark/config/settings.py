"""Every key of zenohd's configuration (1.10), declared once: its type, its default, and whether zenspark uses it.

A `Settings` is resolved for one mode, with all defaults. The names and defaults are zenohd's, the order is the one it
prints. Keys that only zenspark has are the last of their section. Times without a unit are in milliseconds. The keys
below `transport` are in `transport.py`.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from zenspark.config.limits import LimitSettings
from zenspark.config.schema import PER_MODE, U16, UNSET, UNSET_UNUSED, UNUSED, Key, Milliseconds, Mode, Section
from zenspark.config.transport import TransportSettings
from zenspark.errors import UsageError
from zenspark.key import KeyExpr
from zenspark.router.interceptors.rules import (
    AccessPolicy,
    AccessRule,
    AccessSubject,
    CongestionName,
    DownsamplingItem,
    LowPassItem,
    NodeId,
    OverwriteItem,
    Permission,
    PriorityName,
    RouterSubject,
)

Roles = tuple[Mode, ...]
Endpoint = Annotated[
    str,
    Meta(
        pattern=r"^[^/?#]+/[^?#]+(\?[^?#]+)?(#[^?]+)?$",
        description="an endpoint `protocol/address[?metadata][#config]` such as tcp/127.0.0.1:7447",
    ),
]
SocketAddress = Annotated[
    str,
    Meta(
        pattern=r"^([0-9.]+|\[[0-9a-fA-F:.]+(%\w+)?\]):\d{1,5}$",
        description="an address and port such as 224.0.0.224:7446",
    ),
]
AnyKey = Annotated[str, Meta(description="a key expression")]
FixedKey = Annotated[str, Meta(description="a key expression without wildcards")]
Strategy = Literal["always", "greater-zid"]


def _is_key(key: str) -> bool:
    try:
        KeyExpr(key)
    except UsageError:
        return False
    return True


def _is_key_without_wildcards(key: str | None) -> bool:
    try:
        return key is None or not KeyExpr(key).is_wild
    except UsageError:
        return False


class EndpointGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Endpoints of one node: a link to each, or to the first that accepts."""

    strategy: Literal["allOf", "oneOf"]
    locators: tuple[Endpoint, ...]


class StrategyByTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Decides which of two nodes opens the link, by the role of the other one."""

    to_router: Strategy = "always"
    to_peer: Strategy = "always"


class TransportWeight(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weight of the link to a neighbouring router, in the shortest-path computation."""

    dst_zid: NodeId
    weight: U16


# --- where to connect and listen ------------------------------------------------------------------


class RetrySettings(Section, frozen=True):
    """Backoff between attempts: initial and maximum wait, and the factor between them."""

    period_init_ms: Annotated[Milliseconds, PER_MODE] = 1000
    period_max_ms: Annotated[Milliseconds, PER_MODE] = 4000
    period_increase_factor: Annotated[float, PER_MODE] = 2.0


class ConnectSettings(Section, frozen=True):
    """The endpoints to connect to."""

    timeout_ms: Annotated[int, Key(unset=True, per_mode=True, defaults={"router": -1, "peer": -1, "client": 0})] = 0
    """Milliseconds for all attempts together: 0 is one attempt, -1 no limit."""
    endpoints: Annotated[tuple[Endpoint | EndpointGroup, ...], Key(per_mode=True, otherwise=())] = ()
    exit_on_failure: Annotated[
        bool, Key(unset=True, per_mode=True, defaults={"router": False, "peer": False, "client": True})
    ] = False
    """Whether opening the session fails when no endpoint accepts."""
    retry: Annotated[RetrySettings, UNSET] = RetrySettings()


class ListenSettings(Section, frozen=True):
    """The endpoints to listen on."""

    timeout_ms: Annotated[int, PER_MODE] = 0
    """Milliseconds for all attempts together: 0 is one attempt, -1 no limit."""
    endpoints: Annotated[
        tuple[Endpoint, ...],
        Key(
            per_mode=True,
            otherwise=(),
            defaults={"router": ("tcp/[::]:7447",), "peer": ("tcp/[::]:0",), "client": ()},
        ),
    ] = ()
    exit_on_failure: Annotated[bool, PER_MODE] = True
    """Whether opening the session fails when an address is in use."""
    retry: Annotated[RetrySettings, UNSET] = RetrySettings()


class ReturnConditions(Section, frozen=True):
    """The conditions `open` waits for before it returns."""

    connect_scouted: Annotated[bool, UNSET] = True
    declares: Annotated[bool, UNSET] = True


class OpenSettings(Section, frozen=True):
    """Settings of `open`."""

    return_conditions: ReturnConditions = ReturnConditions()


# --- scouting -------------------------------------------------------------------------------------

ALL_ROLES = ("router", "peer", "client")
AUTOCONNECT = Key(unset=True, per_mode=True, defaults={"router": (), "peer": ALL_ROLES, "client": ALL_ROLES})
GOSSIP_TARGET = Key(
    unset=True, per_mode=True, defaults={"router": ("router", "peer"), "peer": ("router", "peer"), "client": ()}
)


class MulticastScoutingSettings(Section, frozen=True):
    """Scouting by multicast on the local network."""

    enabled: Annotated[bool, UNSET] = True
    address: Annotated[SocketAddress, UNSET] = "224.0.0.224:7446"
    interface: Annotated[str, UNSET] = "auto"
    ttl: Annotated[int, Meta(ge=0, le=255), UNSET] = 1
    autoconnect: Annotated[Roles, AUTOCONNECT] = ()
    autoconnect_strategy: Annotated[Strategy | StrategyByTarget, PER_MODE] = "always"
    listen: Annotated[bool, PER_MODE] = True
    """Whether to reply to SCOUT messages."""


class GossipSettings(Section, frozen=True):
    """Discovery of nodes by the gossip of neighbours."""

    enabled: Annotated[bool, UNSET] = True
    multihop: Annotated[bool, UNSET] = False
    target: Annotated[Roles, GOSSIP_TARGET] = ()
    autoconnect: Annotated[Roles, AUTOCONNECT] = ()
    autoconnect_strategy: Annotated[Strategy | StrategyByTarget, PER_MODE] = "always"


class Scouting(Section, frozen=True):
    """Discovery of other nodes."""

    timeout: Annotated[Milliseconds, UNSET] = 3000
    """Milliseconds a client scouts for a node to connect to."""
    delay: Annotated[Milliseconds, UNSET] = 500
    """Milliseconds a peer scouts before `open` returns."""
    multicast: MulticastScoutingSettings = MulticastScoutingSettings()
    gossip: GossipSettings = GossipSettings()


# --- routing and QoS ------------------------------------------------------------------------------


class TimestampingSettings(Section, frozen=True):
    """Whether samples without a timestamp get one here."""

    enabled: Annotated[
        bool, Key(unset=True, per_mode=True, defaults={"router": True, "peer": False, "client": False})
    ] = False
    drop_future_timestamp: Annotated[bool, UNSET] = False
    """Whether samples with a timestamp too far in the future are dropped instead of timestamped anew."""
    extension: Annotated[bool, Key(hidden=True)] = False
    """Whether PUSH repeats the timestamp of a sample of this session in its Timestamp extension (0x2); not in
    zenohd."""


class LinkStateSettings(Section, frozen=True):
    """Link-state routing between routers."""

    transport_weights: tuple[TransportWeight, ...] = ()


def _are_ip_networks(subjects: tuple[RouterSubject, ...] | None) -> bool:
    try:
        for subject in subjects or ():
            for network in subject.addresses or ():
                ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
    return True


ROUTER_SUBJECTS = Key(unset=True, hidden=True, check=_are_ip_networks)


class RouterRoutingSettings(Section, frozen=True):
    """Routing in routers."""

    peers_failover_brokering: Annotated[bool, Key(hidden=True, used=False)] = True
    linkstate: LinkStateSettings = LinkStateSettings()
    accept: Annotated[tuple[RouterSubject, ...] | None, ROUTER_SUBJECTS] = None
    """Nodes that may connect to a router as another router, all if it is not set; not in zenohd."""
    all_complete: Annotated[Literal["covering", "declared"], Key(hidden=True)] = "covering"
    """Whether a query for AllComplete goes to the complete queryables whose key includes that of the query, as in
    eclipse-zenoh, or to all that are declared complete; not in zenohd."""


class InterestSettings(Section, frozen=True):
    """Interests in the declarations of neighbours."""

    timeout: Annotated[Milliseconds, UNSET] = 10_000


class RoutingSettings(Section, frozen=True):
    """Routing of messages."""

    router: RouterRoutingSettings = RouterRoutingSettings()
    peer: Annotated[Any, Key(hidden=True, used=False)] = None
    interests: InterestSettings = InterestSettings()
    peers: Annotated[Literal["broker", "mesh", "relay"], Key(hidden=True)] = "relay"
    """Whether and how peers without a link to each other are connected by others (docs/routing.md); not in zenohd."""


KEY_EXPRS = Key(check=lambda keys: all(_is_key(key) for key in keys))


class AggregationSettings(Section, frozen=True):
    """Key expressions that are declared in place of many keys they include."""

    subscribers: Annotated[tuple[AnyKey, ...], KEY_EXPRS] = ()
    publishers: Annotated[tuple[AnyKey, ...], KEY_EXPRS] = ()


class PublicationQos(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The QoS of publications; values that are not set are up to the program."""

    congestion_control: CongestionName | None = None
    priority: PriorityName | None = None
    express: bool | None = None
    reliability: Literal["reliable", "best_effort"] | None = None
    allowed_destination: Literal["any", "remote", "session_local"] | None = None


class PublicationRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A QoS override for all publications whose keys are included."""

    key_exprs: tuple[AnyKey, ...]
    config: PublicationQos


RULES = Key(check=lambda rules: all(_is_key(key) for rule in rules for key in rule.key_exprs))


class QosSettings(Section, frozen=True):
    """QoS overrides by key."""

    publication: Annotated[tuple[PublicationRule, ...], RULES] = ()
    network: tuple[OverwriteItem, ...] = ()


# --- the rest, and the whole ----------------------------------------------------------------------


class Permissions(Section, frozen=True):
    """Permissions of other nodes in the admin space."""

    read: bool = True
    write: bool = False


class AdminSpaceSettings(Section, frozen=True):
    """The admin space: keys under `@/` that describe this node."""

    enabled: bool = False
    permissions: Permissions = Permissions()


class GatewaySettings(Section, frozen=True):
    """Section `gateway` of zenohd's configuration: parsed, without effect."""

    south: Annotated[Any, Key(unset=True, used=False, as_if="auto")] = None


class AccessControlSettings(Section, frozen=True):
    """Access control: the permissions of neighbours."""

    enabled: bool = False
    default_permission: Permission = "deny"
    rules: Annotated[tuple[AccessRule, ...] | None, UNSET] = None
    subjects: Annotated[tuple[AccessSubject, ...] | None, UNSET] = None
    policies: Annotated[tuple[AccessPolicy, ...] | None, UNSET] = None


class StatsSettings(Section, frozen=True):
    """Filters by which zenohd counts messages by key: parsed, without effect."""

    filters: Annotated[tuple[Any, ...], UNUSED] = ()


class PluginsLoadingSettings(Section, frozen=True):
    """Whether and from which directories zenohd loads plugins: parsed, without effect."""

    enabled: Annotated[bool, UNUSED] = False
    search_dirs: Annotated[tuple[str | dict[str, Any], ...], UNUSED] = (
        {"kind": "current_exe_parent", "value": None},
        ".",
        "~/.zenoh/lib",
        "/opt/homebrew/lib",
        "/usr/local/lib",
        "/usr/lib",
    )


class Settings(Section, frozen=True):
    """The whole configuration of one node, resolved for its mode."""

    id: Annotated[NodeId | None, UNSET] = None
    """Zid in hexadecimal; a random one if it is not set."""
    metadata: Annotated[Any, UNSET] = None
    """Any JSON value, shown in the admin space."""
    mode: Annotated[Mode, UNSET] = "peer"
    region_name: Annotated[str | None, UNSET_UNUSED] = None
    gateway: GatewaySettings = GatewaySettings()
    connect: ConnectSettings = ConnectSettings()
    listen: ListenSettings = ListenSettings()
    open: OpenSettings = OpenSettings()
    scouting: Scouting = Scouting()
    timestamping: TimestampingSettings = TimestampingSettings()
    queries_default_timeout: Annotated[Milliseconds, UNSET] = 10_000
    queries_max_timeout: Annotated[Milliseconds, Key(hidden=True)] = 3_600_000
    """Longest timeout in milliseconds of a neighbour's query, which is kept in memory until then."""
    routing: RoutingSettings = RoutingSettings()
    aggregation: AggregationSettings = AggregationSettings()
    qos: QosSettings = QosSettings()
    transport: TransportSettings = TransportSettings()
    adminspace: AdminSpaceSettings = AdminSpaceSettings()
    namespace: Annotated[FixedKey | None, Key(unset=True, check=_is_key_without_wildcards)] = None
    """A prefix of every key of the session, invisible to it."""
    downsampling: tuple[DownsamplingItem, ...] = ()
    access_control: AccessControlSettings = AccessControlSettings()
    low_pass_filter: tuple[LowPassItem, ...] = ()
    stats: StatsSettings = StatsSettings()
    plugins_loading: PluginsLoadingSettings = PluginsLoadingSettings()
    plugins: Annotated[Any, UNUSED] = msgspec.field(default_factory=dict)
    limits: Annotated[LimitSettings, Key(hidden=True)] = LimitSettings()
    """Resources a neighbour may use on this node; not in zenohd."""
