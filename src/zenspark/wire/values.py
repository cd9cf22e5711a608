"""Value types of messages: ids, timestamps, encodings, QoS, wire expressions.

Each class has its fields, `read` and `write` side by side. Values encoded as an integer have `from_wire` and `to_wire`
instead. All are immutable, comparable, hashable and picklable.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import ClassVar, Self

from zenspark.clock import ns_from_ntp64
from zenspark.errors import DecodeError, EncodeError
from zenspark.wire.buffer import Reader, Writer
from zenspark.wire.message_schema import Value

PROTOCOL_VERSION = 0x09


class WireEnum(IntEnum):
    """Enumeration with wire numbers; `text` is its name for users and JSON fields."""

    @classmethod
    def from_wire(cls, position: int, value: int) -> Self:
        try:
            return cls(value)
        except ValueError:
            names = ", ".join(f"{member.value} {member.text}" for member in cls)
            raise DecodeError(f"one of {names}", position, str(value)) from None

    def to_wire(self) -> int:
        return int(self)

    @property
    def text(self) -> str:
        return self.name.lower()


class NamedEnum(WireEnum):
    """Enumeration whose text is its name in PascalCase, as in CurrentFuture."""

    @property
    def text(self) -> str:
        return self.name.title().replace("_", "")


class WhatAmI(WireEnum):
    """Role of a node, as in INIT, JOIN and HELLO."""

    ROUTER = 0
    PEER = 1
    CLIENT = 2

    @property
    def bit(self) -> int:
        """Role in a SCOUT bitmap or a link-state entry."""
        return 1 << self.value


class Priority(WireEnum):
    """Priority of a message: the smaller the number, the more urgent."""

    CONTROL = 0
    REAL_TIME = 1
    INTERACTIVE_HIGH = 2
    INTERACTIVE_LOW = 3
    DATA_HIGH = 4
    DATA = 5
    DATA_LOW = 6
    BACKGROUND = 7

    @classmethod
    def from_wire(cls, position: int, value: int) -> Self:
        return cls(value & 7)  # the other bits are reserved


class Congestion(WireEnum):
    """Congestion control: whether a message is dropped or blocks its sender while the link has unsent bytes."""

    DROP = 0
    BLOCK = 1
    BLOCK_FIRST = 2


class TimeUnit(WireEnum):
    """Unit of a lease."""

    MS = 0
    S = 1


class InterestMode(NamedEnum):
    """Declarations an interest requests; Final ends it."""

    FINAL = 0
    CURRENT = 1
    FUTURE = 2
    CURRENT_FUTURE = 3


class QueryTarget(NamedEnum):
    """Matching queryables a query is sent to."""

    BEST_MATCHING = 0
    ALL = 1
    ALL_COMPLETE = 2


class Consolidation(NamedEnum):
    """Consolidation of the replies on one key, by the querier."""

    AUTO = 0
    NONE = 1
    MONOTONIC = 2
    LATEST = 3

    @classmethod
    def from_wire(cls, position: int, value: int) -> Self:
        return cls(value if value <= 3 else 0)  # unknown modes are Auto, as eclipse-zenoh takes them


class Mapping(WireEnum):
    """The end of the link whose key ids a wire expression uses."""

    RECEIVER = 0
    SENDER = 1


class Roles(int):
    """Bitmap of roles a SCOUT requests: 1 routers, 2 peers, 4 clients."""

    @classmethod
    def from_wire(cls, position: int, value: int) -> Self:
        if not value:
            raise DecodeError("at least one role", position, "none")
        return cls(value)

    def to_wire(self) -> int:
        if not 1 <= self <= 7:
            raise EncodeError(f"{int(self)} is not a set of roles", "what")
        return int(self)


class Extension(Value, frozen=True):
    """Unknown extension, kept as received so that it can be forwarded."""

    header: int
    value: int | bytes | None = None

    ENCODINGS: ClassVar = ("unit", "z64", "zbuf")
    MANDATORY: ClassVar = 0x10

    @property
    def id(self) -> int:
        return self.header & 0x0F

    @property
    def enc(self) -> str:
        return self.ENCODINGS[self.header >> 5]

    @property
    def mandatory(self) -> bool:
        return bool(self.header & self.MANDATORY)

    @classmethod
    def read(cls, reader: Reader, header: int, strict: bool) -> Self:
        """Read the content of an unknown extension; a mandatory one is rejected if `strict`."""
        at = reader.pos - 1
        if strict and header & cls.MANDATORY:
            reader.on_unknown_extension(header & 0x0F, at)
        match header >> 5:
            case 0:
                return cls(header)
            case 1:
                return cls(header, reader.z(64))
            case 2:
                return cls(header, reader.blob(32))
        raise DecodeError("an extension encoding of 0 to 2", at, f"3 in extension 0x{header & 0x0F:x}")

    def write(self, out: Writer, previous: int) -> int:
        """Append after the extension header at `previous`; returns the position of the new header."""
        self._check_header()
        at: int = out.extension(previous, self.header)
        self._write_value(out)
        return at

    def write_in_chain(self, out: Writer, is_last: bool) -> None:
        """Append to a chain that begins with an extension instead of a message; `is_last` if no other follows."""
        self._check_header()
        out.u8(self.header if is_last else self.header | 0x80, "exts")
        self._write_value(out)

    def _check_header(self) -> None:
        if not 0 <= self.header < 0x60:
            raise EncodeError(f"0x{self.header:x} is not an extension header", "exts")

    def _write_value(self, out: Writer) -> None:
        match self.header >> 5:
            case 0 if self.value is not None:
                raise EncodeError(f"extension 0x{self.id:x} cannot carry a value", "exts")
            case 1:
                out.z(self.value, 64, "exts")
            case 2:
                out.blob(self.value, 32, "exts")


Extensions = tuple[Extension, ...]


def read_extensions(reader: Reader) -> Extensions:
    """Read a whole chain of extensions up to the end, as authentication nests one inside an extension."""
    extensions = []
    more = 0x80
    while more:
        header = reader.u8()
        more = header & 0x80
        extensions.append(Extension.read(reader, header & 0x7F, False))
    return tuple(extensions)


def write_extensions(out: Writer, extensions: Extensions) -> None:
    """Write a whole chain of extensions, as `read_extensions` reads it."""
    for count, extension in enumerate(extensions, 1):
        extension.write_in_chain(out, is_last=count == len(extensions))


def read_payload(reader: Reader, shm: bool) -> bytes:
    """Read a payload; one in shared memory is a list of slices and is kept as encoded."""
    if not shm:
        return reader.blob(32)
    start = reader.pos
    for _ in range(reader.z(32)):
        reader.skip(1)
        reader.skip(reader.z(32))
    return bytes(reader.data[start : reader.pos])


def write_payload(out: Writer, payload: bytes, shm: bool) -> None:
    """Write a payload; one in shared memory is written as `read_payload` kept it."""
    if not shm:
        out.blob(payload, 32, "payload")
        return
    out.raw(payload, "payload")
    if not _is_slices(payload):
        raise EncodeError("is not the list of slices that a payload in shared memory is", "payload")


def _is_slices(payload: bytes) -> bool:
    reader = Reader(payload)
    try:
        read_payload(reader, True)
    except DecodeError:
        return False
    return not reader.left()


def read_weights(reader: Reader, links: tuple[int, ...]) -> tuple[int, ...]:
    """Read one weight for each link."""
    return tuple([reader.z(16) for _ in links])


def write_weights(out: Writer, weights: tuple[int, ...], links: tuple[int, ...]) -> None:
    """Write one weight for each link."""
    if len(weights) != len(links):
        raise EncodeError(f"{len(weights)} weights for {len(links)} links", "weights")
    for weight in weights:
        out.z(weight, 16, "weights")


class ZenohId(Value, frozen=True, order=True):
    """Identity of a node: a number of 1 to 128 bits, little-endian on the wire, hexadecimal as text."""

    value: int

    MAX_BYTES: ClassVar = 16

    @classmethod
    def from_bytes(cls, raw: bytes, position: int = 0) -> Self:
        value = int.from_bytes(raw, "little")
        if not value or len(raw) > cls.MAX_BYTES:
            raise DecodeError("a node id of 1 to 16 bytes that is not zero", position, raw.hex() or "nothing")
        return cls(value)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a text such as `a0a1a2a3`."""
        if not text or text[0] == "0" or len(text) > 32 or set(text) - set("0123456789abcdef"):
            raise EncodeError(f"{text!r} is not 1 to 32 lower-case hexadecimal digits without a leading 0", "zid")
        return cls(int(text, 16))

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        if not 0 < self.value < 1 << 128:
            raise EncodeError(f"{self.value} is not a node id of 1 to 128 bits", "zid")
        return (self.value.bit_length() + 7) // 8

    def to_bytes(self) -> bytes:
        return self.value.to_bytes(self.size, "little")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        start = reader.pos
        return cls.from_bytes(reader.blob(8), start)

    def write(self, out: Writer) -> None:
        out.blob(self.to_bytes(), 8, "zid")

    @classmethod
    def read_sized(cls, reader: Reader, size: int) -> Self:
        """Read an id whose length is in a flag byte."""
        start = reader.pos
        return cls.from_bytes(reader.take(size), start)

    def write_sized(self, out: Writer) -> None:
        out.raw(self.to_bytes(), "zid")

    def __str__(self) -> str:
        return f"{self.value:x}"


class Timestamp(Value, frozen=True, order=True):
    """Time of a sample, and the id of the clock; orders samples totally."""

    ntp64: int
    id: ZenohId

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(reader.z(64), ZenohId.read(reader))

    def write(self, out: Writer) -> None:
        out.z(self.ntp64, 64, "ntp64")
        self.id.write(out)

    @property
    def unix_ns(self) -> int:
        return ns_from_ntp64(self.ntp64)

    def __str__(self) -> str:
        return f"{self.ntp64}/{self.id}"


class Encoding(Value, frozen=True):
    """Encoding of a payload: a well-known number and an optional schema.

    The schema is defined by the application. Bytes in it that are not UTF-8 are kept, as PEP 383 does, and are
    forwarded unchanged; as text, and so in every table, each of them is U+FFFD.
    """

    id: int = 0
    schema: str | None = None

    BYTES: ClassVar[Encoding]
    CUSTOM: ClassVar = 0xFFFF
    MAX_ID: ClassVar = 0x7FFF_FFFF
    NAMES: ClassVar = (
        "zenoh/bytes",
        "zenoh/string",
        "zenoh/serialized",
        "application/octet-stream",
        "text/plain",
        "application/json",
        "text/json",
        "application/cdr",
        "application/cbor",
        "application/yaml",
        "text/yaml",
        "text/json5",
        "application/python-serialized-object",
        "application/protobuf",
        "application/java-serialized-object",
        "application/openmetrics-text",
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/bmp",
        "image/webp",
        "application/xml",
        "application/x-www-form-urlencoded",
        "text/html",
        "text/xml",
        "text/css",
        "text/javascript",
        "text/markdown",
        "text/csv",
        "application/sql",
        "application/coap-payload",
        "application/json-patch+json",
        "application/json-seq",
        "application/jsonpath",
        "application/jwt",
        "application/mp4",
        "application/soap+xml",
        "application/yang",
        "audio/aac",
        "audio/flac",
        "audio/mp4",
        "audio/ogg",
        "audio/vorbis",
        "video/h261",
        "video/h263",
        "video/h264",
        "video/h265",
        "video/h266",
        "video/mp4",
        "video/ogg",
        "video/raw",
        "video/vp8",
        "video/vp9",
    )

    @classmethod
    def parse(cls, text: str) -> Encoding:
        """Encoding of a text: a known name and its schema, or the whole text as a custom one."""
        name, _, schema = text.partition(";")
        if not text:
            return cls.BYTES
        if name not in _ENCODING_IDS:
            return cls(cls.CUSTOM, text)
        return cls(_ENCODING_IDS[name], schema or None)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        value = reader.z(32)
        return cls(value >> 1, reader.blob(8).decode(errors="surrogateescape") if value & 1 else None)

    def write(self, out: Writer) -> None:
        if not 0 <= self.id <= self.MAX_ID:
            raise EncodeError(f"{self.id} does not fit 31 bits", "encoding.id")
        out.z(self.id << 1 | (self.schema is not None), 32, "encoding.id")
        if self.schema is not None:
            out.blob(self._schema_bytes(), 8, "encoding.schema")

    def _schema_bytes(self) -> bytes:
        assert self.schema is not None
        try:
            return self.schema.encode(errors="surrogateescape")
        except UnicodeEncodeError as error:
            raise EncodeError(f"character {error.start} cannot be written as UTF-8", "encoding.schema") from None

    def __str__(self) -> str:
        schema = None if self.schema is None else _ESCAPED.sub("\N{REPLACEMENT CHARACTER}", self.schema)
        if self.id == self.CUSTOM and schema is not None:
            return schema
        name = self.NAMES[self.id] if self.id < len(self.NAMES) else f"unknown({self.id})"
        return name if schema is None else f"{name};{schema}"


Encoding.BYTES = Encoding()
_ESCAPED = re.compile(r"[\ud800-\udfff]")
_ENCODING_IDS = {name: number for number, name in enumerate(Encoding.NAMES)}


BLOCK_FIRST_PATCH = 1


class QoS(Value, frozen=True):
    """Quality of service of a message: priority, congestion control, and express (not batched with others)."""

    priority: Priority = Priority.DATA
    congestion: Congestion = Congestion.DROP
    express: bool = False

    DEFAULT: ClassVar[QoS]
    DECLARE: ClassVar[QoS]
    REQUEST: ClassVar[QoS]

    @classmethod
    def from_wire(cls, position: int, value: int) -> QoS:
        return _QOS[value & 0x3F]

    def to_wire(self) -> int:
        congestion = (0, 0x08, 0x20)[self.congestion]
        return self.priority | congestion | (0x10 if self.express else 0)

    def of_response(self, extension: QoS | None) -> QoS:
        """QoS of a response to a request with this QoS: that of its extension, or of the request if it has none."""
        return self if extension is None else extension

    def response_extension(self, response: QoS) -> QoS | None:
        """QoS extension of a response with QoS `response` to a request with this QoS: None if both are the default, as
        eclipse-zenoh sends it. Otherwise the default, too, is sent: the queryable may have chosen Drop."""
        return None if response == QoS.DEFAULT and self == QoS.DEFAULT else response

    def not_before(self, other: QoS) -> QoS:
        """QoS of a message that must not overtake one with another QoS."""
        return self if self.priority >= other.priority else QoS(other.priority, self.congestion, self.express)

    def for_patch(self, patch: int) -> QoS:
        """QoS as a neighbour with this protocol patch understands it: BlockFirst exists from patch 1 on; before, it is
        sent as Drop, which is the flag F without its meaning."""
        if self.congestion is not Congestion.BLOCK_FIRST or patch >= BLOCK_FIRST_PATCH:
            return self
        return QoS(self.priority, Congestion.DROP, self.express)


def _qos(value: int) -> QoS:
    congestion = Congestion.BLOCK if value & 0x08 else Congestion.BLOCK_FIRST if value & 0x20 else Congestion.DROP
    return QoS(Priority(value & 7), congestion, bool(value & 0x10))


_QOS = tuple(_qos(value) for value in range(64))
QoS.DEFAULT = _QOS[5]
QoS.DECLARE = _QOS[0x08]
QoS.REQUEST = _QOS[0x0D]


class WireExpr(Value, frozen=True):
    """Key expression as sent: an id mapped to a prefix, and the suffix, without a separator."""

    scope: int = 0
    suffix: str = ""
    mapping: Mapping = Mapping.SENDER

    FLAGS: ClassVar = {"N": "has_suffix", "M": "by_sender"}

    @property
    def has_suffix(self) -> bool:
        return bool(self.suffix)

    @property
    def by_sender(self) -> bool:
        return self.mapping is Mapping.SENDER

    @classmethod
    def read(cls, reader: Reader, has_suffix: int, by_sender: int) -> Self:
        scope = reader.z(16)
        return cls(scope, reader.text(16) if has_suffix else "", Mapping.SENDER if by_sender else Mapping.RECEIVER)

    def write(self, out: Writer) -> None:
        out.z(self.scope, 16, "wire_expr.scope")
        if self.suffix:
            out.text(self.suffix, 16, "wire_expr.suffix")

    @classmethod
    def read_extension(cls, reader: Reader) -> Self:
        """Read the form of undeclarations: flags of its own, the suffix without a length."""
        flags = reader.u8()
        scope = reader.z(16)
        suffix = reader.rest_text() if flags & 1 else ""
        return cls(scope, suffix, Mapping.SENDER if flags & 2 else Mapping.RECEIVER)

    def write_extension(self, out: Writer) -> None:
        out.u8(self.has_suffix | self.by_sender << 1, "flags")
        out.z(self.scope, 16, "wire_expr.scope")
        if self.suffix:
            out.rest_text(self.suffix, "wire_expr.suffix")


class BoundExpr(Value, frozen=True):
    """Key expression that an id is mapped to; it has no mapping flag, so its scope should be 0."""

    scope: int = 0
    suffix: str = ""

    FLAGS: ClassVar = {"N": "has_suffix"}

    @property
    def has_suffix(self) -> bool:
        return bool(self.suffix)

    @classmethod
    def read(cls, reader: Reader, has_suffix: int) -> Self:
        return cls(reader.z(16), reader.text(16) if has_suffix else "")

    def write(self, out: Writer) -> None:
        out.z(self.scope, 16, "wire_expr.scope")
        if self.suffix:
            out.text(self.suffix, 16, "wire_expr.suffix")


class EntityId(Value, frozen=True):
    """Network-wide id of a publisher, queryable or session."""

    zid: ZenohId
    eid: int

    @classmethod
    def read(cls, reader: Reader) -> Self:
        size = (reader.u8() >> 4) + 1
        return cls(ZenohId.read_sized(reader, size), reader.z(32))

    def write(self, out: Writer) -> None:
        raw = self.zid.to_bytes()
        out.u8((len(raw) - 1) << 4, "zid")
        out.raw(raw, "zid")
        out.z(self.eid, 32, "eid")


class SourceInfo(Value, frozen=True):
    """Publisher id and per-publisher sequence number of a sample."""

    zid: ZenohId
    eid: int
    sn: int

    @classmethod
    def read(cls, reader: Reader) -> Self:
        source = EntityId.read(reader)
        return cls(source.zid, source.eid, reader.z(32))

    def write(self, out: Writer) -> None:
        EntityId(self.zid, self.eid).write(out)
        out.z(self.sn, 32, "sn")


class QueryableInfo(Value, frozen=True):
    """Whether a queryable is complete for its key, and its distance."""

    complete: bool = False
    distance: int = 0

    NONE: ClassVar[QueryableInfo]

    @classmethod
    def from_wire(cls, position: int, value: int) -> Self:
        return cls(bool(value & 1), value >> 8 & 0xFFFF)

    def to_wire(self) -> int:
        if not 0 <= self.distance <= 0xFFFF:
            raise EncodeError(f"{self.distance} does not fit 16 bits", "info.distance")
        return self.complete | self.distance << 8


QueryableInfo.NONE = QueryableInfo()


class QueryBody(Value, frozen=True):
    """Value sent along with a query; its payload extends to the end."""

    encoding: Encoding
    payload: bytes

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(Encoding.read(reader), reader.rest())

    def write(self, out: Writer) -> None:
        self.encoding.write(out)
        out.raw(self.payload, "body.payload")


class TimestampRecord(Value, frozen=True):
    """One record of a timestamp stack: the point on the path, and its clock reading or bytes of the application."""

    flags: int
    ts: bytes


class TimestampStack(Value, frozen=True):
    """Clock readings that nodes add to a message on its path, for latency measurement."""

    conf_flags: int
    stack: tuple[TimestampRecord, ...] = ()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        start = reader.pos
        flags = reader.u8()
        count = reader.z(64)
        if not flags or count > 255:
            raise DecodeError("flags that are not 0 and at most 255 records", start, f"{flags} and {count}")
        return cls(flags, tuple([TimestampRecord(reader.u8(), reader.blob(32)) for _ in range(count)]))

    def write(self, out: Writer) -> None:
        if not self.conf_flags or len(self.stack) > 255:
            raise EncodeError("needs flags that are not 0 and at most 255 records", "ts_stack")
        out.u8(self.conf_flags, "ts_stack.conf_flags")
        out.z(len(self.stack), 64, "ts_stack")
        for record in self.stack:
            out.u8(record.flags, "ts_stack.flags")
            out.blob(record.ts, 32, "ts_stack.ts")


class NextSns(Value, frozen=True):
    """The next reliable and best-effort sequence numbers of each of the eight priorities."""

    pairs: tuple[tuple[int, int], ...]

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(tuple([(reader.z(32), reader.z(32)) for _ in Priority]))

    def write(self, out: Writer) -> None:
        if len(self.pairs) != len(Priority):
            raise EncodeError(f"{len(self.pairs)} pairs instead of {len(Priority)}", "qos")
        for pair in self.pairs:
            if len(pair) != 2:
                raise EncodeError(f"{len(pair)} numbers instead of 2 for one priority", "qos")
            for sn in pair:
                out.z(sn, 32, "qos")


class Locator(Value, frozen=True):
    """Address of a node: `tcp/127.0.0.1:7447`, with optional `?` metadata and no `#` configuration."""

    text: str

    EXPECTED: ClassVar = "a locator `protocol/address[?metadata]`"

    @classmethod
    def read(cls, reader: Reader) -> Self:
        start = reader.pos
        locator = cls(reader.text(8))
        if not locator.is_valid:
            raise DecodeError(cls.EXPECTED, start, repr(locator.text))
        return locator

    def write(self, out: Writer) -> None:
        if not self.is_valid:
            raise EncodeError(f"{self.text!r} is not {self.EXPECTED}", "locators")
        out.text(self.text, 8, "locators")

    @property
    def is_valid(self) -> bool:
        return bool(self.protocol and self.address) and "#" not in self.text

    @property
    def protocol(self) -> str:
        return self.text.partition("/")[0]

    @property
    def address(self) -> str:
        return self.text.partition("/")[2].partition("?")[0]

    @property
    def metadata(self) -> dict[str, str]:
        """The `key=value` pairs after the question mark."""
        pairs = self.text.partition("?")[2].split(";")
        return {name: value for name, _, value in (pair.partition("=") for pair in pairs if pair)}

    def __str__(self) -> str:
        return self.text


class Resolution(WireEnum):
    """Effective bits of a sequence number: what fits in 1, 2, 4 or 9 bytes of a variable-length integer."""

    BITS_8 = 0
    BITS_16 = 1
    BITS_32 = 2
    BITS_64 = 3

    @property
    def mask(self) -> int:
        return (0x7F, 0x3FFF, 0x0FFF_FFFF, 0xFFFF_FFFF)[self]
