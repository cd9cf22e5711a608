"""Payloads as text: the rule that the command line, the page and SQL share.

| encoding | text |
|---|---|
| `zenoh/string`, `text/*`, `application/json` and others whose content is text | valid UTF-8 |
| `zenoh/serialized`, `application/cbor` | none: `sql/payloads.py` decodes them |
| any other, such as `zenoh/bytes`, the default of `put` | valid UTF-8 without control characters |

Tabs and line breaks do not count as control characters.
"""

from __future__ import annotations

MAX_LOG_TEXT_CHARACTERS = 200
"""Characters of a payload in a log line: what a neighbour sends must not fill the log."""

DEFAULT_ENCODING = "zenoh/bytes"
"""Encoding of samples that are published without one."""

JSON_ENCODINGS = frozenset({"application/json", "text/json", "text/json5"})

TEXT_ENCODINGS = frozenset(
    {
        "zenoh/string",
        "application/json",
        "application/json-patch+json",
        "application/json-seq",
        "application/jsonpath",
        "application/jwt",
        "application/openmetrics-text",
        "application/soap+xml",
        "application/sql",
        "application/x-www-form-urlencoded",
        "application/xml",
        "application/yaml",
        "application/yang",
    }
)
"""Encodings with UTF-8 content, besides those that begin with `text/` or end with a suffix."""

TEXT_SUFFIXES = ("+json", "+xml", "+yaml")

SERIALIZED_ENCODINGS = frozenset({"zenoh/serialized", "application/cbor"})
"""Encodings whose content is structured bytes, even where these happen to be characters."""

_WITHOUT_WHITESPACE = str.maketrans("", "", "\t\r\n")


def media_type(encoding: object) -> str:
    """Return an encoding without its schema."""
    return str(encoding).partition(";")[0]


def is_text_encoding(encoding: object) -> bool:
    """Return whether the content of an encoding is text."""
    name = media_type(encoding)
    return name in TEXT_ENCODINGS or name.startswith("text/") or name.endswith(TEXT_SUFFIXES)


def decode_text(payload: bytes, encoding: object = DEFAULT_ENCODING) -> str | None:
    """Return the payload as text; None if it is not text by its encoding and content."""
    is_declared = is_text_encoding(encoding)
    if not is_declared and media_type(encoding) in SERIALIZED_ENCODINGS:
        return None
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return None
    return text if is_declared or is_printable(text) else None


def log_text(payload: bytes) -> str:
    """Format a payload for a log line: one line without control characters, cut after `MAX_LOG_TEXT_CHARACTERS`."""
    text = payload[: 4 * MAX_LOG_TEXT_CHARACTERS].decode(errors="replace")
    line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return line if len(line) <= MAX_LOG_TEXT_CHARACTERS else f"{line[: MAX_LOG_TEXT_CHARACTERS - 1]}…"


def is_printable(text: str) -> bool:
    """Return whether a text has no control characters but tabs and line breaks."""
    return text.isprintable() or text.translate(_WITHOUT_WHITESPACE).isprintable()
