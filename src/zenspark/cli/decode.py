"""`zenspark decode`: decodes Zenoh bytes."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from zenspark.capture import byte_stream
from zenspark.cli import Parser, jsonl
from zenspark.errors import DecodeError, UsageError
from zenspark.transport.framing import LengthPrefix
from zenspark.wire import json_fields

DESCRIPTION = """\
Decode Zenoh bytes. Three forms of input:

  zenspark decode HEX ...                  one message, as a tree with the box of each part
  zenspark decode --jsonl FILE             many, one a line: {"layer": ..., "hex": ...}
  zenspark decode --c2s FILE --s2c FILE    a captured session: the bytes each side sent

HEX may be split, upper case, with spaces, colons, commas or 0x. Its layer is detected from the first byte, except for
scouting. --jsonl prints for each line {"fields": {...}} or {"error": {"message": ..., "offset": ...}}; a line of a
stream may also have "framing": "u16" or "u32" and "compression": true or false. Invalid lines do not change the exit
code of --jsonl, which is 0. In the other forms the exit code is 2 if some bytes are not a message."""

INPUT_LAYERS = (*json_fields.LAYERS, "stream")


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark decode", description=DESCRIPTION)
    argparser.add_argument("hex", nargs="*", metavar="HEX", help="bytes in hexadecimal")
    argparser.add_argument("--layer", choices=INPUT_LAYERS, help="protocol layer; stream: batches with a length prefix")
    argparser.add_argument(
        "--json", action="store_true", help="print one JSON object per line instead of a drawing or table"
    )
    argparser.add_argument("--jsonl", metavar="FILE", help="decode the lines of this file; - is standard input")
    argparser.add_argument("--c2s", metavar="FILE", help="bytes sent by the connecting side")
    argparser.add_argument("--s2c", metavar="FILE", help="bytes sent by the listening side")
    return argparser


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    argparser = parser()
    args = argparser.parse_args(arguments)
    forms = [bool(args.hex), args.jsonl is not None, args.c2s is not None or args.s2c is not None]
    if sum(forms) != 1:
        argparser.error("give HEX, or --jsonl, or --c2s and --s2c" + (", not several of them" if any(forms) else ""))
    if args.layer and not args.hex:
        argparser.error("--layer needs HEX")
    if args.jsonl is not None:
        jsonl.run(args.jsonl, decode_line)
        return 0
    # The drawing modules are imported only here: --jsonl must not wait for them.
    if args.hex:
        from zenspark.cli import decode_hex

        return decode_hex.run(from_hex(" ".join(args.hex)), args.layer, args.json)
    from zenspark.cli import transcript

    return transcript.run(args.c2s, args.s2c, args.json)


# -- lines -------------------------------------------------------------------------------------------------------


class DecodeLine(msgspec.Struct):
    """An input line of --jsonl."""

    layer: str
    hex: str
    framing: LengthPrefix | None = None
    compression: bool | None = None


_line = msgspec.json.Decoder(DecodeLine)


def decode_line(text: bytes) -> dict[str, Any]:
    """Decode one line; errors are part of the result."""
    try:
        line = _line.decode(text)
        return {"fields": to_fields(line)}
    except DecodeError as error:
        return {"error": {"message": str(error), "offset": error.position}}
    except jsonl.BAD_LINE as error:
        return {"error": {"message": str(error), "offset": None}}


def to_fields(line: DecodeLine) -> json_fields.Fields:
    """Decode one message, or a stream, to JSON fields."""
    decode = json_fields.DECODERS.get(line.layer)
    if decode is not None:
        return json_fields.to_json_fields(decode(from_hex(line.hex)))
    if line.layer != "stream":
        raise UsageError(f"unknown layer {line.layer!r}: {', '.join(INPUT_LAYERS)}")
    return byte_stream.stream_to_json_fields(from_hex(line.hex), line.framing, line.compression)


def from_hex(text: str) -> bytes:
    """Parse hexadecimal digits with any separators."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        pass
    digits = re.sub(r"(?:^|(?<=[\s:,]))0[xX]|[\s:,]", "", text)
    invalid = re.search(r"[^0-9a-fA-F]", digits)
    if invalid:
        raise UsageError(f"{invalid[0]!r} is not a hexadecimal digit")
    if len(digits) % 2:
        raise UsageError(f"{len(digits)} hexadecimal digits are not a whole number of bytes")
    return bytes.fromhex(digits)
