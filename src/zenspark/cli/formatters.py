"""Formats protocol values for people: short, on one line, and safe to print.

Data from the network may contain anything. Unprintable characters are escaped, so that no key and no payload can move
the cursor or change the colours of a terminal.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterator
from datetime import UTC, datetime

from zenspark.errors import DecodeError
from zenspark.types.payload_text import is_printable
from zenspark.wire import json_fields
from zenspark.wire.codec import decode_link_states
from zenspark.wire.message_schema import Message, WireField, fields_of
from zenspark.wire.messages import Close, Declaration, NetworkOam, Query, Reply
from zenspark.wire.values import (
    BoundExpr,
    Congestion,
    Encoding,
    EntityId,
    Extension,
    Locator,
    Priority,
    QoS,
    QueryableInfo,
    QueryBody,
    SourceInfo,
    Timestamp,
    WireEnum,
    WireExpr,
    ZenohId,
)

PREVIEW_CHARACTERS = 28
"""Maximum characters of a value."""

SHORT_ID_CHARACTERS = 9
"""Characters of a zid that are shown where it is not the subject; random ids have 32."""

DEFAULT_QOS = (QoS.DEFAULT, QoS.DECLARE, QoS.REQUEST)
"""QoS that eclipse-zenoh sends with publications, declarations and queries; not shown."""

OMITTED_FIELDS = {"wire_expr", "ext_wire_expr", "msgs", "unit"}
"""Fields that are shown elsewhere: in a column, on other lines, or with another field."""

UNNAMED_FIELDS = {"payload", "encoding", "info"}
"""Fields that are shown without their name."""


def printable(text: str) -> str:
    """Escape unprintable characters of a text: line breaks and tabs by their letter, others by their code point."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def truncate(text: str, length: int = PREVIEW_CHARACTERS) -> str:
    """Truncate a text that is too long."""
    return text if len(text) <= length else text[: length - 1] + "…"


def pluralize(count: int, noun: str) -> str:
    """Format a count with its noun: 1 byte, 2 bytes."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_preview(data: bytes) -> str:
    """Format the beginning of bytes, as text if they are text, with their number unless all are shown."""
    if not data:
        return "empty"
    text = _as_text(data[: 4 * PREVIEW_CHARACTERS])
    preview, quote = (data[:PREVIEW_CHARACTERS].hex(" "), "") if text is None else (printable(text), '"')
    is_whole = len(preview) <= PREVIEW_CHARACTERS and len(data) <= 4 * PREVIEW_CHARACTERS
    return quote + truncate(preview) + quote + ("" if is_whole else f" {pluralize(len(data), 'byte')}")


def _as_text(data: bytes) -> str | None:
    try:
        text = getincrementaldecoder("utf-8")().decode(data)  # incremental: the last character may be cut
    except UnicodeDecodeError:
        return None
    return text if text and is_printable(text) else None


def format_time(timestamp: Timestamp) -> str:
    """Format time and clock id of a timestamp."""
    seconds, nanoseconds = divmod(timestamp.unix_ns, 1_000_000_000)
    day = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{day}.{nanoseconds // 1000:06} by {truncate(str(timestamp.id), SHORT_ID_CHARACTERS)}"


def format_qos(qos: QoS) -> str:
    """Format the QoS values that differ from the default."""
    words = [f"priority {qos.priority.value} {qos.priority.text}"] if qos.priority is not Priority.DATA else []
    words += [qos.congestion.text.replace("_", " ")] if qos.congestion is not Congestion.DROP else []
    return " ".join(words + ["express"] * qos.express) or "default"


def format_key_expr(expr: WireExpr | BoundExpr) -> str:
    """Format a key expression as it was sent."""
    if not expr.scope:
        return printable(expr.suffix) or "none"
    whose = f" of the {expr.mapping.text}" if isinstance(expr, WireExpr) else ""
    return f"key {expr.scope}{whose}" + (f" + {printable(expr.suffix)}" if expr.suffix else "")


def format_value(value: object) -> str:
    """Format any value of a message."""
    match value:
        case bytes():
            return format_preview(value)
        case str():
            return f'"{printable(value)}"'
        case Timestamp():
            return format_time(value)
        case QoS():
            return format_qos(value)
        case WireExpr() | BoundExpr():
            return format_key_expr(value)
        case Encoding() | Locator() | ZenohId():
            return printable(str(value))
        case EntityId() | SourceInfo():
            number = f" sn {value.sn}" if isinstance(value, SourceInfo) else ""
            return f"{truncate(str(value.zid), SHORT_ID_CHARACTERS)}/{value.eid}{number}"
    return _format_other(value)


def _format_other(value: object) -> str:
    match value:
        case Priority():
            return f"{value.value} {value.text}"
        case WireEnum():
            return value.text
        case QueryableInfo():
            return ("complete" if value.complete else "incomplete") + f" at distance {value.distance}" * bool(
                value.distance
            )
        case QueryBody():
            return format_preview(value.payload) + (
                "" if value.encoding == Encoding.BYTES else f" {format_value(value.encoding)}"
            )
        case Extension(value=None):
            return f"unknown extension 0x{value.id:x}"
        case Extension():
            return f"unknown extension 0x{value.id:x} {format_value(value.value)}"
        case tuple():
            return ", ".join(map(format_value, value)) or "none"
        case int():
            return str(value)
    return ", ".join(f"{name} {part}" for name, part in json_fields.to_plain(value).items())


# -- a whole message ---------------------------------------------------------------------------------------------


def format_title(message: Message) -> str:
    """Return the name of a message: D_TOKEN for a DECLARE with one, RESPONSE PUT, REQUEST."""
    body = getattr(message, "body", None)
    if not isinstance(body, Message):
        return message.NAME
    if isinstance(body, Declaration):
        return body.NAME
    if isinstance(body, Reply):
        body = body.body
    return message.NAME if isinstance(body, Query) else f"{message.NAME} {body.NAME}"


def details(message: Message) -> list[str]:
    """Format the fields of a message other than its key: payload first, then every non-default field."""
    texts = list(_details(message))
    return [text for first, text in texts if first] + [text for first, text in texts if not first]


def _details(message: Message) -> Iterator[tuple[bool, str]]:
    for field in fields_of(type(message)):
        value = None if field.flags else getattr(message, field.name)
        if isinstance(value, Message):
            yield from _details(value)
        elif not field.flags and _is_shown(field, value):
            yield from ((field.name == "payload", text) for text in _detail(message, field, value))


def _is_shown(field: WireField, value: object) -> bool:
    if field.name in OMITTED_FIELDS or value is False:
        return False
    return field.required or (value != field.default and value not in DEFAULT_QOS)


def _detail(message: Message, field: WireField, value: object) -> Iterator[str]:
    if isinstance(message, NetworkOam) and field.name == "zbuf" and message.id == message.LINK_STATE:
        yield from _link_states(message)
    elif isinstance(message, Close) and field.name == "reason":
        yield f"reason {message.reason} {message.close_reason.name.lower()}"
    elif field.name == "cookie":
        yield f"cookie of {pluralize(len(value), 'byte')}"  # type: ignore[arg-type]  # opaque bytes
    elif field.name == "lease":
        yield f"lease {value} {message.unit.text}"  # type: ignore[attr-defined]
    elif value is True:
        yield field.name
    elif isinstance(value, Timestamp):
        yield f"at {format_time(value)}"
    elif field.name in UNNAMED_FIELDS or isinstance(value, QoS):
        yield format_value(value)
    elif field.name == "exts":
        yield from map(format_value, message.exts)  # type: ignore[attr-defined]
    else:
        yield f"{field.name} {format_value(value)}"


def _link_states(oam: NetworkOam) -> Iterator[str]:
    assert oam.zbuf is not None
    try:
        for entry in decode_link_states(oam.zbuf):
            yield f"node ({', '.join(details(entry))})"
    except DecodeError as error:
        yield f"link states that cannot be read: {error}"
