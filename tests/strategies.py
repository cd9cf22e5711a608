"""Hypothesis strategies for everything on the wire, derived from the declarations.

`messages(cls)` reads `fields_of(cls)` and knows no message by name: a new declaration is tested as soon as it exists.
Only value classes, and words with a function of their own, have a strategy each. Numbers and lengths at the edges of
their spelling come up often, because that is where codecs break.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from zenspark.wire import messages as declarations
from zenspark.wire.codec_generator import collect_messages
from zenspark.wire.message_schema import (
    EnumCodec,
    FieldCodec,
    FunctionCodec,
    IntCodec,
    ListCodec,
    Message,
    PrefixedCodec,
    RemainderCodec,
    ValueCodec,
    WireField,
    fields_of,
)
from zenspark.wire.values import (
    BoundExpr,
    Encoding,
    EntityId,
    Extension,
    Locator,
    Mapping,
    NextSns,
    Priority,
    QoS,
    QueryableInfo,
    QueryBody,
    Roles,
    SourceInfo,
    Timestamp,
    TimestampRecord,
    TimestampStack,
    WireEnum,
    WireExpr,
    ZenohId,
)


def examples(count: int) -> settings:
    """So many examples, or ZENSPARK_EXAMPLES times as many."""
    return settings(max_examples=count * int(os.environ.get("ZENSPARK_EXAMPLES", "1")))


# -- numbers, bytes and texts ------------------------------------------------------------------------------------

EDGES = sorted({0, 1, 127, 128, 255, 256, *((1 << bits) - low for bits in range(14, 65, 7) for low in (0, 1))})
EDGES = sorted({*EDGES, (1 << 16) - 1, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, (1 << 64) - 1})


@cache
def integers(bits: int) -> SearchStrategy[int]:
    """An unsigned integer of so many bits, often one where its spelling changes length."""
    largest = (1 << bits) - 1
    return st.sampled_from([edge for edge in EDGES if edge < largest] + [largest]) | st.integers(0, largest)


blobs = st.binary(max_size=20) | st.sampled_from([b"", bytes(127), bytes(range(128)), bytes(300)])
texts = st.text(max_size=12) | st.sampled_from(["", "a/*", "é" * 63, "k/" * 64, "\0", "\U0001f600"])

# -- value classes -----------------------------------------------------------------------------------------------

zids = st.builds(ZenohId, integers(64).filter(bool) | st.integers(1, (1 << 128) - 1) | st.just((1 << 128) - 1))
timestamps = st.builds(Timestamp, integers(64), zids)
schemas = st.none() | st.text(max_size=60) | st.just("s" * 255)
encodings = st.builds(Encoding, st.sampled_from([0, 1, 52, 53, 0xFFFF]) | st.integers(0, 0xFFFF), schemas)
protocols = st.sampled_from(["tcp", "udp", "tls", "quic", "ws", "unixsock-stream"])
addresses = st.sampled_from(["127.0.0.1:7447", "[::]:0", "é"]) | st.text(
    st.characters(codec="utf-8", exclude_characters="#?"), min_size=1, max_size=20
)
metadata = st.sampled_from(["", "?", "?rel=1", "?prio=1-5;rel=0"])
records = st.builds(TimestampRecord, integers(8), blobs)

VALUES: dict[type, SearchStrategy[Any]] = {
    ZenohId: zids,
    Timestamp: timestamps,
    Encoding: encodings,
    QoS: st.integers(0, 0x3F).map(lambda value: QoS.from_wire(0, value)),
    WireExpr: st.builds(WireExpr, integers(16), texts, st.sampled_from(Mapping)),
    BoundExpr: st.builds(BoundExpr, integers(16), texts),
    EntityId: st.builds(EntityId, zids, integers(32)),
    SourceInfo: st.builds(SourceInfo, zids, integers(32), integers(32)),
    QueryableInfo: st.builds(QueryableInfo, st.booleans(), integers(16)),
    QueryBody: st.builds(QueryBody, encodings, blobs),
    TimestampStack: st.builds(TimestampStack, st.integers(1, 255), st.lists(records, max_size=3).map(tuple)),
    NextSns: st.lists(st.tuples(integers(32), integers(32)), min_size=len(Priority), max_size=len(Priority)).map(
        lambda pairs: NextSns(tuple(pairs))
    ),
    Locator: st.builds("{}/{}{}".format, protocols, addresses, metadata).map(Locator),
    Roles: st.integers(1, 7).map(Roles),
}


@cache
def values(kind: Any) -> SearchStrategy[Any]:  # noqa: ANN401 - a type, or an alias of one
    """Any value of one value class or enumeration."""
    return st.sampled_from(list(kind)) if issubclass(kind, WireEnum) else VALUES[kind]


@cache
def extensions(header: int) -> SearchStrategy[Extension]:
    """An extension with this header and whatever fits its encoding."""
    contents: tuple[SearchStrategy[Any], ...] = (st.none(), integers(64), blobs)
    return contents[header >> 5].map(lambda value: Extension(header, value))


def unknown_headers(cls: type[Message], *, mandatory: bool) -> list[int]:
    """Headers of extensions that mean nothing in this message."""
    known = {field.ext_header for field in fields_of(cls) if field.ext}
    return [header for header in range(0x60) if bool(header & 0x10) is mandatory and header not in known]


@cache
def unknown_extensions(cls: type[Message]) -> SearchStrategy[tuple[Extension, ...]]:
    """Extensions this message does not know and must pass on."""
    headers = unknown_headers(cls, mandatory=False)
    if cls.LENIENT:
        headers += unknown_headers(cls, mandatory=True)
    return st.just(()) | st.lists(st.sampled_from(headers).flatmap(extensions), max_size=3).map(tuple)


# -- words -------------------------------------------------------------------------------------------------------

Drawn = dict[str, Any]


@cache
def _network_messages() -> SearchStrategy[Any]:
    return st.lists(network(), max_size=3).map(tuple)


def _payloads(drawn: Drawn) -> SearchStrategy[bytes]:
    """Any bytes; in shared memory a count and that many slices, each a kind and a blob."""
    if not drawn["shm"]:
        return blobs
    slices = st.tuples(st.integers(0, 255), st.binary(max_size=20))
    written = slices.map(lambda one: bytes((one[0], len(one[1]))) + one[1])
    return st.lists(written, max_size=3).map(lambda all_of_them: bytes((len(all_of_them), *b"".join(all_of_them))))


def _weights(drawn: Drawn) -> SearchStrategy[tuple[int, ...]]:
    return st.tuples(*(integers(16) for _ in drawn["links"]))


CALLED: dict[str, Callable[[Drawn], SearchStrategy[Any]]] = {  # by the fields drawn before, which may decide the form
    "network_messages": lambda drawn: _network_messages(),
    "payload": _payloads,
    "weights": _weights,
}


@cache
def codec_values(codec: FieldCodec) -> SearchStrategy[Any]:
    """Values a codec can encode."""
    match codec:
        case IntCodec():
            return integers(codec.bits)
        case PrefixedCodec(form="blob") | RemainderCodec(form="raw"):
            return blobs
        case PrefixedCodec() | RemainderCodec():
            return texts
        case EnumCodec() | ValueCodec():
            return values(codec.cls)
        case ListCodec():
            return st.lists(codec_values(codec.codec), max_size=4).map(tuple)
    raise NotImplementedError(f"no strategy for {codec!r}")


# -- messages ----------------------------------------------------------------------------------------------------


class _Choices:
    """Which of the fields with a condition are on the wire, decided as the flags demand."""

    def __init__(self, draw: st.DrawFn, cls: type[Message]) -> None:
        self.draw = draw
        self.fields = fields_of(cls)
        self.decided: dict[str, Any] = {}

    def has_flag_byte(self, field: WireField, drawn: Drawn) -> bool:
        """Whether the flag byte the field depends on is there at all, as the options of a Final interest are not."""
        mark = field.bits or field.when
        for place in self.fields:
            if mark and place.flags and place.flags.when and mark.flag in place.flags.shift:
                switch = next(f.name for f in self.fields if f.bits and f.bits.flag == place.flags.when)
                return bool(drawn[switch])
        return True

    def is_present(self, field: WireField) -> bool:
        """Fields that share a flag are all there or all absent; of those that share its values at most one is."""
        if not field.optional:
            return True
        if not field.when:
            return self.draw(st.booleans())
        flag = field.when.flag
        if flag not in self.decided:
            exclusive = [f.when.equals for f in self.fields if f.when and f.when.flag == flag]
            self.decided[flag] = self.draw(st.sampled_from([False, *exclusive]))
        return bool(self.decided[flag] == field.when.equals)


@cache
def messages(cls: type[Message]) -> SearchStrategy[Message]:
    """Any message of one class that can stand on the wire."""
    return _messages(cls)


@st.composite
def _messages(draw: st.DrawFn, cls: type[Message]) -> Message:
    choices = _Choices(draw, cls)
    drawn: dict[str, Any] = {}
    for field in fields_of(cls):
        if field.flags:
            continue
        if choices.has_flag_byte(field, drawn) and choices.is_present(field):
            codec = field.codec
            drawn[field.name] = draw(
                CALLED[codec.name](drawn) if isinstance(codec, FunctionCodec) else _field(cls, field)
            )
        else:
            drawn[field.name] = field.default
    return cls(**drawn)


@cache
def _field(cls: type[Message], field: WireField) -> SearchStrategy[Any]:
    if field.name == "exts":
        return unknown_extensions(cls)
    if field.bodies:
        return st.one_of(*map(messages, field.bodies))
    if field.type is bool:
        return st.booleans()
    if field.bits:
        return values(field.type)
    assert field.codec is not None
    carried = codec_values(field.codec)
    return carried if field.required or field.optional else st.just(field.default) | carried


def members(family: type[Message]) -> list[type[Message]]:
    """The messages of one family, in the order of the declarations."""
    return [cls for cls in collect_messages() if issubclass(cls, family)]


@cache
def scouting() -> SearchStrategy[Message]:
    """Any datagram of scouting."""
    return st.one_of(*map(messages, members(declarations.ScoutingMessage)))


@cache
def transport() -> SearchStrategy[Message]:
    """Any transport message, frames with network messages included."""
    return st.one_of(*map(messages, members(declarations.TransportMessage)))


@cache
def network() -> SearchStrategy[Message]:
    """Any network message with any body."""
    return st.one_of(*map(messages, members(declarations.NetworkMessage)))


def link_states() -> SearchStrategy[tuple[Message, ...]]:
    """The content of a link-state OAM."""
    return st.lists(messages(declarations.LinkState), max_size=3).map(tuple)
