"""`zenspark encode`: encodes fields as Zenoh bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from zenspark.capture import byte_stream
from zenspark.cli import Parser, jsonl
from zenspark.errors import UsageError
from zenspark.wire import json_fields
from zenspark.wire.codec import encode

DESCRIPTION = """\
Encode fields as Zenoh bytes: each line {"layer": ..., "fields": {...}} produces a line {"hex": ...}.
The layers are transport, network, scouting and stream; the fields are those that zenspark decode --json prints.
An invalid line produces {"error": {"message": ...}}; processing continues with the next line. The exit
code is 0."""


class EncodeLine(msgspec.Struct):
    """An input line of --jsonl."""

    layer: str
    fields: dict[str, Any]


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark encode", description=DESCRIPTION)
    argparser.add_argument("--jsonl", metavar="FILE", required=True, help="file with the lines; - is standard input")
    return argparser


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    jsonl.run(parser().parse_args(arguments).jsonl, encode_line)
    return 0


_line = msgspec.json.Decoder(EncodeLine)


def encode_line(text: bytes) -> dict[str, Any]:
    """Encode one line; errors are part of the result."""
    try:
        line = _line.decode(text)
        return {"hex": to_bytes(line.layer, line.fields).hex()}
    except jsonl.BAD_LINE as error:
        return {"error": {"message": str(error)}}


def to_bytes(layer: str, fields: dict[str, Any]) -> bytes:
    """Encode one message, or a stream."""
    if layer == "stream":
        return byte_stream.stream_from_json_fields(fields)
    if layer not in json_fields.LAYERS:
        raise UsageError(f"unknown layer {layer!r}: transport, network, scouting or stream")
    return encode(json_fields.from_json_fields(json_fields.LAYERS[layer], fields))
