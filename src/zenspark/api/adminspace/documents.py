"""Documents of the admin space of a node, under `@/<zid>/<role>`; each is made when it is queried.

Keys and fields are those of eclipse-zenoh 1.10.2; protocol section 17. `counters`, and the metrics whose names begin
with `zenspark`, are additions. Nothing is cached: all is read from the node and its router, with the node's lock.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from zenspark import __version__, build_kind
from zenspark.api.adminspace.openmetrics import MEDIA_TYPE
from zenspark.key.match import intersects
from zenspark.net.links.base import Link
from zenspark.net.node.node import Node
from zenspark.net.node.observer import GroupMemberInfo, Neighbour
from zenspark.router import introspection
from zenspark.router.face import DeclarationKind, Face, Region
from zenspark.router.introspection import OwnersByRole
from zenspark.router.linkstate.network import RouterNetwork
from zenspark.router.linkstate.spanning_trees import DEFAULT_WEIGHT
from zenspark.types.encoding import Encoding
from zenspark.wire.values import WhatAmI, ZenohId

VERSION = f"zenspark {__version__} ({build_kind()})"
ANYTHING = "**"

COUNTER_HELP = {
    "received": "Network messages received from a neighbour.",
    "lost": "Messages from a neighbour that did not arrive whole;"
    " frames or fragments, where sequence numbers were skipped.",
    "dropped": "Messages that were not sent to a neighbour.",
}
"""Help texts of the counters in the metrics."""

NORTH = "north"
ECLIPSE_REGION_NAMES = {Region.CLIENT: "south:0:client", Region.DOWNSTREAM_PEER: "south:0:peer"}
"""Names of regions in eclipse-zenoh; neighbours in other regions are north."""

DECLARED_KINDS = {
    "subscriber": DeclarationKind.SUBSCRIBER,
    "queryable": DeclarationKind.QUERYABLE,
    "token": DeclarationKind.TOKEN,
}
INTEREST_KINDS = {"publisher": DeclarationKind.SUBSCRIBER, "querier": DeclarationKind.QUERYABLE}
"""Kind of the declarations that publishers and queriers declare an interest in."""


class Document(msgspec.Struct, frozen=True):
    """One document: its key, and its content."""

    key: str
    payload: bytes
    encoding: Encoding


def as_json(key: str, value: object) -> Document:
    """Make a document in JSON."""
    return Document(key, msgspec.json.encode(value), Encoding.APPLICATION_JSON)


class AdminDocuments:
    """The documents of one node."""

    def __init__(self, node: Node, metadata: object) -> None:
        self._node = node
        self._metadata = metadata
        self.root = f"@/{node.identity.zid}/{node.identity.whatami.text}"

    def matching_documents(self, key_expr: str, parameters: Mapping[str, str]) -> list[Document]:
        """Return the documents whose keys match a key expression."""
        with self._node.lock:
            single = [make() for key, make in self._singles(parameters) if intersects(key, key_expr)]
            return [*single, *self._declarations(key_expr)]

    def _singles(self, parameters: Mapping[str, str]) -> Iterator[tuple[str, Callable[[], Document]]]:
        """Yield the key of each document that exists once for the node, and the function that makes it."""
        yield self.root, self._description
        yield f"{self.root}/metrics", partial(self._metrics, parameters)
        yield f"{self.root}/counters", self._counters
        for region, draw in self._graphs():
            key = f"{self.root}/linkstate/{region}"
            yield key, partial(self._draw_document, key, draw)
        network = self._node.router.network
        if network is not None:
            yield from self._successors(network)

    # -- this node

    def _description(self) -> Document:
        description = {
            "locators": self._node.advertised_addresses,
            "metadata": self._metadata,
            "plugins": None,
            "sessions": [self._session(face, neighbour) for face, neighbour in self._node.neighbourhood.items()],
            "version": VERSION,
            "zid": str(self._node.identity.zid),
        }
        return as_json(self.root, description)

    def _session(self, face: Face, neighbour: Neighbour) -> dict[str, Any]:
        peer, whatami = str(face.zid), face.whatami.text
        if isinstance(neighbour, GroupMemberInfo):
            return {"group": neighbour.group, "links": [_addresses(neighbour)], "peer": peer, "whatami": whatami}
        return {
            "links": [_addresses(neighbour.link)],
            "peer": peer,
            "region": ECLIPSE_REGION_NAMES.get(face.region, NORTH),
            "shm": False,
            "weight": self._weight(face),
            "whatami": whatami,
        }

    def _weight(self, face: Face) -> dict[str, int | None] | None:
        """Return the weights of the link to a neighbouring router; None for other neighbours."""
        network = self._node.router.network
        if network is None or face.region is not Region.ROUTER:
            return None
        own, remote = network.weights(face.zid)
        actual = max(own, remote) or DEFAULT_WEIGHT
        return {"actual_weight": actual, "dst_weight": remote or None, "src_weight": own or None}

    def _counters(self) -> Document:
        """List messages received, lost and dropped for each neighbour, disconnected ones included."""
        counters = [
            {"dropped": totals.dropped, "lost": totals.lost, "received": totals.received, "zid": str(totals.zid)}
            for totals in self._node.counters.totals
        ]
        return as_json(f"{self.root}/counters", counters)

    def _metrics(self, parameters: Mapping[str, str]) -> Document:
        """Return metrics in the OpenMetrics format; `compression=false` and `descriptors=false` switch those off."""
        text = "".join(f"{line}\n" for line in self._metric_lines(parameters.get("descriptors") != "false"))
        key = f"{self.root}/metrics"
        if parameters.get("compression") == "false":
            return Document(key, text.encode(), Encoding(MEDIA_TYPE))
        return Document(key, gzip.compress(text.encode()), Encoding(f"{MEDIA_TYPE};content-encoding=gzip"))

    def _metric_lines(self, with_help: bool) -> Iterator[str]:
        identity = self._node.identity
        node_labels = f'local_id="{identity.zid}",local_whatami="{identity.whatami.text}"'
        if with_help:
            yield "# HELP zenoh_build Version of this node."
            yield "# TYPE zenoh_build info"
        yield f'zenoh_build_info{{{node_labels},version="{VERSION}"}} 1'
        if with_help:
            yield "# HELP zenspark_sessions Sessions with other nodes."
            yield "# TYPE zenspark_sessions gauge"
        roles = [face.whatami for face in self._node.drivers]
        for role in WhatAmI:
            yield f'zenspark_sessions{{{node_labels},remote_whatami="{role.text}"}} {roles.count(role)}'
        yield from self._counter_lines(node_labels, with_help)
        yield from self._refusal_lines(node_labels, with_help)
        yield "# EOF"

    def _counter_lines(self, node_labels: str, with_help: bool) -> Iterator[str]:
        peers = self._node.counters.totals
        received = [(totals.zid, "", totals.received) for totals in peers]
        lost = [(totals.zid, f',reason="{reason}"', n) for totals in peers for reason, n in totals.lost.items()]
        dropped = [(totals.zid, f',reason="{reason}"', n) for totals in peers for reason, n in totals.dropped.items()]
        for name, samples in {"received": received, "lost": lost, "dropped": dropped}.items():
            if with_help:
                yield f"# HELP zenspark_{name}_messages {COUNTER_HELP[name]}"
                yield f"# TYPE zenspark_{name}_messages counter"
            for zid, labels, count in samples:
                yield f'zenspark_{name}_messages_total{{{node_labels},remote_zid="{zid}"{labels}}} {count}'

    def _refusal_lines(self, node_labels: str, with_help: bool) -> Iterator[str]:
        if with_help:
            yield "# HELP zenspark_refusals Requests of neighbours that a limit or a rule refused."
            yield "# TYPE zenspark_refusals counter"
        for limit, count in self._node.router.refusals.counts.items():
            yield f'zenspark_refusals_total{{{node_labels},limit="{limit}"}} {count}'

    # -- the network

    def _graphs(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """Yield the regions that have a graph, and the function that draws it."""
        network = self._node.router.network
        if self._node.identity.whatami is WhatAmI.ROUTER:
            assert network is not None
            yield NORTH, partial(_draw_network, network, ())
            yield (
                ECLIPSE_REGION_NAMES[Region.DOWNSTREAM_PEER],
                partial(self._draw_neighbours, (Region.DOWNSTREAM_PEER,)),
            )
        elif self._node.identity.whatami is WhatAmI.PEER:
            yield NORTH, partial(self._draw_north, network)

    @staticmethod
    def _draw_document(key: str, draw: Callable[[], str]) -> Document:
        return Document(key, draw().encode(), Encoding.TEXT_PLAIN)

    def _draw_neighbours(self, regions: tuple[Region, ...]) -> str:
        return _graph(dict(enumerate([str(self._node.identity.zid), *self._neighbours_in(regions)])), [])

    def _draw_north(self, network: RouterNetwork | None) -> str:
        """Draw the neighbours of a peer and, if it relays, the network they are in."""
        regions = (Region.PEER, Region.UPSTREAM)
        if network is None:
            return self._draw_neighbours(regions)
        return _draw_network(network, self._neighbours_in(regions))

    def _neighbours_in(self, regions: tuple[Region, ...]) -> list[str]:
        """Return the neighbours in these regions; a relaying peer is in the network and also a router's peer."""
        relays = Region.DOWNSTREAM_PEER in regions
        return [
            str(face.zid)
            for face in self._node.drivers
            if face.region in regions or (relays and face.relays and face.whatami is WhatAmI.PEER)
        ]

    def _successors(self, network: RouterNetwork) -> Iterator[tuple[str, Callable[[], Document]]]:
        """Yield, for each spanning tree and each destination, the function that makes the document of the next hop."""
        zids = sorted(network.nodes.values())
        for root in zids:
            for destination in zids:
                key = f"{self.root}/route/successor/src/{root}/dst/{destination}"
                if destination != network.zid:
                    yield key, partial(self._successor, key, network, root, destination)

    @staticmethod
    def _successor(key: str, network: RouterNetwork, root: ZenohId, destination: ZenohId) -> Document:
        return as_json(key, str(network.successor(root, destination)))

    # -- declarations

    def _declarations(self, key_expr: str) -> Iterator[Document]:
        for name, kind in DECLARED_KINDS.items():
            yield from self._by_owner(name, partial(introspection.declared_keys, self._node.router, kind), key_expr)
        for name, kind in INTEREST_KINDS.items():
            yield from self._by_owner(name, partial(introspection.interested_keys, self._node.router, kind), key_expr)

    def _by_owner(
        self, name: str, look_up: Callable[[str], dict[str, OwnersByRole]], key_expr: str
    ) -> Iterator[Document]:
        owners_by_key: dict[str, OwnersByRole] = {}
        for rest in relative_key_exprs(key_expr, f"{self.root}/{name}"):
            owners_by_key.update(look_up(rest))
        for key, owners in owners_by_key.items():
            yield as_json(f"{self.root}/{name}/{key}", owners)


def relative_key_exprs(key_expr: str, prefix: str) -> set[str]:
    """Return key expressions relative to a prefix that together match what a key expression matches below it."""
    return {"/".join(rest) for rest in _relative_chunks(key_expr.split("/"), prefix.split("/")) if rest}


def _relative_chunks(key_expr: list[str], prefix: list[str]) -> Iterator[list[str]]:
    if not prefix:
        yield key_expr
    elif key_expr and key_expr[0] == ANYTHING:
        yield from _relative_chunks(key_expr[1:], prefix)
        if not prefix[0].startswith("@"):
            yield from _relative_chunks(key_expr, prefix[1:])
    elif key_expr and intersects(key_expr[0], prefix[0]):
        yield from _relative_chunks(key_expr[1:], prefix[1:])


def _addresses(link: Link | GroupMemberInfo) -> dict[str, str]:
    return {"dst": link.dst, "src": link.src}


def _draw_network(network: RouterNetwork, others: Sequence[str]) -> str:
    """Draw the graph of routers and relays, numbered as in LINKSTATE messages, then neighbours that are not in it."""
    numbers = {zid: number for number, zid in network.nodes.items()}
    edges = [(numbers[start], numbers[end], weight) for start, end, weight in network.edges]
    names = {number: str(zid) for number, zid in network.nodes.items()}
    outside = [name for name in others if name not in names.values()]
    return _graph(names | dict(enumerate(outside, max(names) + 1)), edges)


def _graph(nodes: dict[int, str], edges: list[tuple[int, int, float]]) -> str:
    """Return a graph in the language of Graphviz."""
    lines = [f'    {number} [ label = "{name}" ]\n' for number, name in sorted(nodes.items())]
    lines += [f'    {max(edge[:2])} -- {min(edge[:2])} [ label = "{json.dumps(edge[2])}" ]\n' for edge in sorted(edges)]
    return f"graph {{\n{''.join(lines)}}}\n"
