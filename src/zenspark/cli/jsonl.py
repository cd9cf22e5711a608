"""JSON Lines loop: for each line of JSON read, one line of JSON is written, in the same order.

An invalid line produces an error object, and processing continues. Lines are processed as soon as they arrive, so that
a program can use it interactively through two pipes, and in blocks as large as they arrive.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec

from zenspark.errors import ZError

MAX_READ_BYTES = 1 << 20

BAD_LINE = (ZError, msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of an invalid line: no message, no JSON, no text, or too deeply nested."""

LineHandler = Callable[[bytes], object]
"""Converts a line to the object to print; must not raise."""


def run(path: str, handle_line: LineHandler) -> None:
    """Process every line of a file; `-` is standard input."""
    if path == "-":
        _run(sys.stdin.buffer, handle_line)
    else:
        with open(path, "rb") as file:
            _run(file, handle_line)


def _run(source: BinaryIO, handle_line: LineHandler) -> None:
    encoder = msgspec.json.Encoder()
    out = sys.stdout.buffer
    for lines in _blocks(source):
        out.write(b"".join([encoder.encode(handle_line(line)) + b"\n" for line in lines]))
        out.flush()


def _blocks(source: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the lines of each block as it arrives; the last line needs no newline."""
    rest: list[bytes] = []
    while block := source.read1(MAX_READ_BYTES):  # type: ignore[attr-defined]  # every buffered stream has read1
        *lines, tail = block.split(b"\n")
        if lines:
            lines[0] = b"".join([*rest, lines[0]])
            rest = []
            yield lines
        rest.append(tail)
    last = b"".join(rest)
    if last:
        yield [last]
