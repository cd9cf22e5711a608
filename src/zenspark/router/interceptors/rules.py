"""Configuration of interceptors: `access_control`, `downsampling`, `low_pass_filter`, `qos/network`.

The names are zenohd's. An absent list matches everything: no list of interfaces means every interface, no list of flows
both directions. A list that is present is not empty.
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
InterceptedAction: TypeAlias = Literal[
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
ProtocolName: TypeAlias = Literal["tcp", "udp", "tls", "quic", "serial", "unixpipe", "unixsock-stream", "vsock", "ws"]
SubjectProtocol: TypeAlias = ProtocolName | Literal["http"]
"""Link protocols of a subject; `http`, specific to zenspark, stands for clients of the REST interface."""
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


class NeighbourAttributes(msgspec.Struct, frozen=True):
    """Attributes of a neighbour or HTTP client: claimed zid, authenticated user, certificate name, link, address."""

    zid: ZenohId | None
    interfaces: tuple[str, ...] = ()
    protocol: str = ""
    username: str | None = None
    common_name: str | None = None
    address: str | None = None

    def __str__(self) -> str:
        """Return user or zid, and address, as log lines name an HTTP client; nodes have `describe_neighbour`."""
        name = f"user {self.username}" if self.zid is None and self.username else self.zid or "a client without zid"
        return f"{name} ({'/'.join(filter(None, (self.protocol, self.address)))})"


class ConfigItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One item of the configuration."""


class InterceptorItem(ConfigItem, frozen=True, kw_only=True):
    """An item that applies to some neighbours and directions."""

    id: str | None = None
    interfaces: NonEmpty[str] | None = None
    link_protocols: NonEmpty[ProtocolName] | None = None
    flows: NonEmpty[Flow] | None = None

    def matches(self, neighbour: NeighbourAttributes, flow: Flow) -> bool:
        """Whether the item applies to messages from, or to, a neighbour."""
        return (
            (self.flows is None or flow in self.flows)
            and (self.interfaces is None or not set(self.interfaces).isdisjoint(neighbour.interfaces))
            and (self.link_protocols is None or neighbour.protocol in self.link_protocols)
        )


# -- access_control


class AccessRule(ConfigItem, frozen=True, kw_only=True):
    """Actions on keys that are allowed or denied."""

    id: str
    key_exprs: NonEmpty[KeyExpr]
    messages: NonEmpty[InterceptedAction]
    flows: NonEmpty[Flow] | None = None
    permission: Permission


class AccessSubject(ConfigItem, frozen=True, kw_only=True):
    """Neighbours a policy applies to: every combination of the listed values."""

    id: str
    interfaces: NonEmpty[str] | None = None
    cert_common_names: NonEmpty[str] | None = None
    usernames: NonEmpty[str] | None = None
    link_protocols: NonEmpty[SubjectProtocol] | None = None
    zids: NonEmpty[NodeId] | None = None


class RouterSubject(ConfigItem, frozen=True, kw_only=True):
    """Neighbours that may connect as a router: every list must contain the neighbour's value."""

    interfaces: NonEmpty[str] | None = None
    addresses: NonEmpty[AddressRange] | None = None
    cert_common_names: NonEmpty[str] | None = None
    usernames: NonEmpty[str] | None = None
    zids: NonEmpty[NodeId] | None = None

    def matches(self, neighbour: NeighbourAttributes) -> bool:
        """Whether a neighbour is included."""
        return (
            (self.interfaces is None or not set(self.interfaces).isdisjoint(neighbour.interfaces))
            and (self.addresses is None or _is_within(neighbour.address, self.addresses))
            and (self.cert_common_names is None or neighbour.common_name in self.cert_common_names)
            and (self.usernames is None or neighbour.username in self.usernames)
            and (self.zids is None or str(neighbour.zid) in self.zids)
        )


def _is_within(address: str | None, networks: tuple[str, ...]) -> bool:
    if address is None:
        return False
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(parsed, "ipv4_mapped", None)
    return any((mapped or parsed) in ipaddress.ip_network(network, strict=False) for network in networks)


class AccessPolicy(ConfigItem, frozen=True, kw_only=True):
    """Assignment of rules to subjects."""

    id: str | None = None
    rules: tuple[str, ...]
    subjects: tuple[str, ...]


# -- downsampling


class Rate(ConfigItem, frozen=True, kw_only=True):
    """Messages per second that may pass on a key; 0 for none."""

    key_expr: KeyExpr
    freq: float


class DownsamplingItem(InterceptorItem, frozen=True, kw_only=True):
    """Rate limits for messages."""

    messages: NonEmpty[DataAction]
    rules: NonEmpty[Rate]


# -- low_pass_filter


class LowPassItem(InterceptorItem, frozen=True, kw_only=True):
    """Size limit of payload and attachment together; larger messages are dropped."""

    messages: NonEmpty[DataAction]
    key_exprs: NonEmpty[KeyExpr]
    size_limit: Annotated[int, Meta(ge=0)]


# -- qos/network


class QosChange(ConfigItem, frozen=True, kw_only=True):
    """New QoS of matching messages; a number is added to the priority."""

    congestion_control: CongestionName | None = None
    priority: PriorityName | Annotated[int, Meta(ge=-7, le=7)] | None = None
    express: bool | None = None


class QosMatch(ConfigItem, frozen=True, kw_only=True):
    """QoS of the messages an item applies to."""

    congestion_control: CongestionName | None = None
    priority: PriorityName | None = None
    express: bool | None = None
    reliability: Literal["reliable", "best_effort"] | None = None


class OverwriteItem(InterceptorItem, frozen=True, kw_only=True):
    """QoS overwrite for messages."""

    zids: NonEmpty[NodeId] | None = None
    messages: NonEmpty[Literal["put", "delete", "query"]]
    key_exprs: NonEmpty[KeyExpr] | None = None
    overwrite: QosChange
    qos: QosMatch | None = None
    payload_size: SizeRange | None = None

    def matches(self, neighbour: NeighbourAttributes, flow: Flow) -> bool:
        return super().matches(neighbour, flow) and (self.zids is None or str(neighbour.zid) in self.zids)
