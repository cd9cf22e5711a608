"""`zenspark encode`: bytes from fields."""

from __future__ import annotations

from typing import Any

import msgspec

from zenspark.capture import byte_stream
from zenspark.cli import Parser, jsonl
from zenspark.errors import UsageError
from zenspark.wire import json_fields
from zenspark.wire.codec import encode

DESCRIPTION = """\
Make Zenoh bytes from fields: each line {"layer": ..., "fields": {...}} is answered with a line {"hex": ...}.
The layers are transport, network, scouting and stream; the fields are those that zenspark decode --json prints.
A line that cannot be encoded is answered with {"error": {"message": ...}}, and the run goes on: the exit code is 0
once every line has its answer."""


class Line(msgspec.Struct):
    """A line to encode."""

    layer: str
    fields: dict[str, Any]


def run(arguments: list[str]) -> int:
    """Run the command; the exit code."""
    parser = Parser(prog="zenspark encode", description=DESCRIPTION)
    parser.add_argument("--jsonl", metavar="FILE", required=True, help="where the lines are, - for standard input")
    jsonl.run(parser.parse_args(arguments).jsonl, answer)
    return 0


_line = msgspec.json.Decoder(Line)


def answer(text: bytes) -> dict[str, Any]:
    """The answer to one line."""
    try:
        line = _line.decode(text)
        return {"hex": to_bytes(line.layer, line.fields).hex()}
    except jsonl.BAD_LINE as error:
        return {"error": {"message": str(error)}}


def to_bytes(layer: str, fields: dict[str, Any]) -> bytes:
    """The bytes of one message, or of a stream."""
    if layer == "stream":
        return byte_stream.from_fields(fields)
    if layer not in json_fields.LAYERS:
        raise UsageError(f"unknown layer {layer!r}: transport, network, scouting or stream")
    return encode(json_fields.from_fields(json_fields.LAYERS[layer], fields))
