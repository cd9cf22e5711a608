"""Documents of the transports and links of a session: the keys `@/<zid>/session/transport/**`.

They are visible only to the session itself. A query receives a document for each transport and each link, a subscriber
one for each that appears or disappears. Keys and documents are those of eclipse-zenoh 1.10.2; protocol section 17.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from enum import Enum
from typing import Any

from zenspark.api.adminspace.documents import Document, as_json
from zenspark.api.entities import Queryable
from zenspark.api.info import link_of, transport_of
from zenspark.engine.runtime import SessionRuntime
from zenspark.key import KeyExpr
from zenspark.key.match import intersects
from zenspark.net.node.observer import Neighbour
from zenspark.router.face import Face
from zenspark.types.enums import Locality, SampleKind
from zenspark.types.network_info import Link, Transport
from zenspark.types.query import Query
from zenspark.types.sample import sample_from_body
from zenspark.wire import values as wire
from zenspark.wire.messages import Del, Put


class TransportDocuments:
    """The queryable of the transports and links of one session; it lives as long as the session."""

    def __init__(self, runtime: SessionRuntime) -> None:
        self._runtime = runtime
        self._root = f"@/{runtime.node.identity.zid}/session"
        key_expr = KeyExpr(f"{self._root}/**")
        queryable: Queryable[None] = Queryable(
            runtime, key_expr, False, Locality.SESSION_LOCAL, runtime.bind_handler(self._on_query)
        )
        runtime.transport_listeners[queryable.id.eid] = self._notify

    def _documents(self, face: Face, neighbour: Neighbour) -> list[Document]:
        """Return the documents of a transport and its link."""
        transport, link = transport_of(face, neighbour), link_of(face, neighbour)
        kind = "multicast" if transport.is_multicast else "unicast"
        key = f"{self._root}/transport/{kind}/{transport.zid}"
        return [as_json(key, _transport(transport)), as_json(f"{key}/link/{_link_id(link)}", _link(link))]

    def _on_query(self, query: Query) -> None:
        with query:
            for document in self._all():
                if intersects(document.key, str(query.key_expr)):
                    query.reply(document.key, document.payload, encoding=document.encoding)

    def _all(self) -> Iterator[Document]:
        for face, neighbour in self._runtime.node.neighbourhood.items():
            yield from self._documents(face, neighbour)

    def _notify(self, kind: SampleKind, face: Face, neighbour: Neighbour) -> None:
        """Deliver the documents of a neighbour that connected, or the deletion of those of one that disconnected."""
        documents = self._documents(face, neighbour)
        for document in documents if kind is SampleKind.PUT else reversed(documents):
            key = KeyExpr(document.key)
            put = Put(encoding=document.encoding.to_wire(), payload=document.payload)
            body = put if kind is SampleKind.PUT else Del()
            self._runtime.subscriptions.deliver(
                sample_from_body(body, key, wire.QoS.DEFAULT), True, cache_matches=False
            )


def _transport(transport: Transport) -> dict[str, Any]:
    return {
        "zid": str(transport.zid),
        "whatami": str(transport.whatami),
        "is_qos": transport.is_qos,
        "is_shm": transport.is_shm,
    }


def _link(link: Link) -> dict[str, Any]:
    """Return the document of a link; priorities and reliability are in it only with QoS."""
    document = {
        "src": link.src,
        "dst": link.dst,
        "group": link.group,
        "mtu": link.mtu,
        "is_streamed": link.is_streamed,
        "interfaces": link.interfaces,
        "auth_identifier": link.auth_identifier,
    }
    if link.priorities is None or link.reliability is None:
        return document
    first, last = (_rust_name(wire.Priority(number)) for number in link.priorities)
    return {**document, "priorities": {"start": first, "end": last}, "reliability": _rust_name(link.reliability)}


def _rust_name(member: Enum) -> str:
    """Return the name of a member as Rust prints it."""
    return member.name.title().replace("_", "")


def _link_id(link: Link) -> int:
    """Return a number that identifies a link as long as it exists."""
    return int.from_bytes(hashlib.blake2b(f"{link.src} {link.dst}".encode(), digest_size=8).digest(), "big")
