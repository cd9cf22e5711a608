"""What the configuration can say of interceptors: `access_control`, `downsampling`, `low_pass_filter`, `qos/network`.

The names are zenohd's. What is not said covers everything: no list of interfaces means every interface, no list of
flows both ways. A list that is there names something.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from zenspark.key import KeyExpr
from zenspark.wire.values import ZenohId

T = TypeVar("T")

Flow: TypeAlias = Literal["ingress", "egress"]
DataAction: TypeAlias = Literal["put", "delete", "query", "reply"]
Action: TypeAlias = Literal[
    "put",
    "delete",
    "declare_subscriber",
    "query",
    "declare_queryable",
    "reply",
    "liveliness_token",
    "declare_liveliness_subscriber",
    "liveliness_query",
]
Permission: TypeAlias = Literal["allow", "deny"]
LinkProtocol: TypeAlias = Literal["tcp", "udp", "tls", "quic", "serial", "unixpipe", "unixsock-stream", "vsock", "ws"]
SubjectProtocol: TypeAlias = LinkProtocol | Literal["http"]
"""Ours: `http` stands for the clients of the REST interface."""
PriorityName: TypeAlias = Literal[
    "real_time", "interactive_high", "interactive_low", "data_high", "data", "data_low", "background"
]
CongestionName: TypeAlias = Literal["drop", "block", "block_first"]
NodeId: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^[1-9a-f][0-9a-f]{0,31}$",
        description="1 to 32 lower-case hexadecimal digits without a leading 0",
    ),
]
AddressRange: TypeAlias = Annotated[
    str,
    Meta(pattern=r"^[0-9a-fA-F.:]+(/\d{1,3})?$", description="an IP address, or a network such as 192.0.2.0/24"),
]
SizeRange: TypeAlias = Annotated[
    str, Meta(pattern=r"^\d*\.\.\d*$", description="a range of sizes such as 10..2000, 10.. or ..2000")
]
NonEmpty = Annotated[tuple[T, ...], Meta(min_length=1)]


class PeerAttributes(msgspec.Struct, frozen=True):
    """What is known of a neighbour: who it says it is, if anybody, who it proved to be, and how it is reached."""

    zid: ZenohId | None
    interfaces: tuple[str, ...] = ()
    protocol: str = ""
    username: str | None = None
    common_name: str | None = None
    address: str | None = None


class ConfigItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One item of the configuration."""


class InterceptorItem(ConfigItem, frozen=True, kw_only=True):
    """An item that is about some neighbours and some flows."""

    id: str | None = None
    interfaces: NonEmpty[str] | None = None
    link_protocols: NonEmpty[LinkProtocol] | None = None
    flows: NonEmpty[Flow] | None = None

    def matches(self, party: PeerAttributes, flow: Flow) -> bool:
        """Whether it is about what comes from, or goes to, a neighbour."""
        return (
            (self.flows is None or flow in self.flows)
            and (self.interfaces is None or not set(self.interfaces).isdisjoint(party.interfaces))
            and (self.link_protocols is None or party.protocol in self.link_protocols)
        )


# -- access_control


class AccessRule(ConfigItem, frozen=True, kw_only=True):
    """What is allowed or denied."""

    id: str
    key_exprs: NonEmpty[KeyExpr]
    messages: NonEmpty[Action]
    flows: NonEmpty[Flow] | None = None
    permission: Permission


class AccessSubject(ConfigItem, frozen=True, kw_only=True):
    """Who is meant: every combination of what the lists name."""

    id: str
    interfaces: NonEmpty[str] | None = None
    cert_common_names: NonEmpty[str] | None = None
    usernames: NonEmpty[str] | None = None
    link_protocols: NonEmpty[SubjectProtocol] | None = None
    zids: NonEmpty[NodeId] | None = None


class RouterSubject(ConfigItem, frozen=True, kw_only=True):
    """Who may be a router beside this one: all that is named must be so, with one of the values of each list."""

    interfaces: NonEmpty[str] | None = None
    addresses: NonEmpty[AddressRange] | None = None
    cert_common_names: NonEmpty[str] | None = None
    usernames: NonEmpty[str] | None = None
    zids: NonEmpty[NodeId] | None = None

    def matches(self, party: PeerAttributes) -> bool:
        """Whether it is about a neighbour."""
        return (
            (self.interfaces is None or not set(self.interfaces).isdisjoint(party.interfaces))
            and (self.addresses is None or _is_within(party.address, self.addresses))
            and (self.cert_common_names is None or party.common_name in self.cert_common_names)
            and (self.usernames is None or party.username in self.usernames)
            and (self.zids is None or str(party.zid) in self.zids)
        )


def _is_within(address: str | None, networks: tuple[str, ...]) -> bool:
    if address is None:
        return False
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None)
    return any((mapped or found) in ipaddress.ip_network(network, strict=False) for network in networks)


class AccessPolicy(ConfigItem, frozen=True, kw_only=True):
    """Which rules hold for whom."""

    id: str | None = None
    rules: tuple[str, ...]
    subjects: tuple[str, ...]


# -- downsampling


class Rate(ConfigItem, frozen=True, kw_only=True):
    """How many messages a second may pass on a key; 0 for none."""

    key_expr: KeyExpr
    freq: float


class DownsamplingItem(InterceptorItem, frozen=True, kw_only=True):
    """Messages of which some are left out."""

    messages: NonEmpty[DataAction]
    rules: NonEmpty[Rate]


# -- low_pass_filter


class LowPassItem(InterceptorItem, frozen=True, kw_only=True):
    """Messages that are left out if payload and attachment together are larger than a limit."""

    messages: NonEmpty[DataAction]
    key_exprs: NonEmpty[KeyExpr]
    size_limit: Annotated[int, Meta(ge=0)]


# -- qos/network


class QosChange(ConfigItem, frozen=True, kw_only=True):
    """How messages are treated instead; a number is added to the priority."""

    congestion_control: CongestionName | None = None
    priority: PriorityName | Annotated[int, Meta(ge=-7, le=7)] | None = None
    express: bool | None = None


class QosMatch(ConfigItem, frozen=True, kw_only=True):
    """How messages wanted to be treated."""

    congestion_control: CongestionName | None = None
    priority: PriorityName | None = None
    express: bool | None = None
    reliability: Literal["reliable", "best_effort"] | None = None


class OverwriteItem(InterceptorItem, frozen=True, kw_only=True):
    """Messages that are treated in another way than they wanted."""

    zids: NonEmpty[NodeId] | None = None
    messages: NonEmpty[Literal["put", "delete", "query"]]
    key_exprs: NonEmpty[KeyExpr] | None = None
    overwrite: QosChange
    qos: QosMatch | None = None
    payload_size: SizeRange | None = None

    def matches(self, party: PeerAttributes, flow: Flow) -> bool:
        return super().matches(party, flow) and (self.zids is None or str(party.zid) in self.zids)
