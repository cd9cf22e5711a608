"""Many small jobs in one run: a line of JSON in, a line of JSON out, in the same order.

A line that cannot be answered is answered with its error, and the run goes on. Lines are answered as soon as they are
there, so that a program can keep a conversation with us through two pipes, and in blocks as large as they arrive.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec

from zenspark.errors import ZError

BLOCK = 1 << 20

BAD_LINE = (ZError, msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What reading a line can raise: it is no message, no JSON, no text, or brackets within brackets without end."""

Answer = Callable[[bytes], object]
"""What makes the object to print of a line; it must not raise."""


def run(path: str, answer: Answer) -> None:
    """Answer every line of a file, `-` for standard input."""
    if path == "-":
        _run(sys.stdin.buffer, answer)
    else:
        with open(path, "rb") as file:
            _run(file, answer)


def _run(source: BinaryIO, answer: Answer) -> None:
    encoder = msgspec.json.Encoder()
    out = sys.stdout.buffer
    for lines in _blocks(source):
        out.write(b"".join([encoder.encode(answer(line)) + b"\n" for line in lines]))
        out.flush()


def _blocks(source: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of each block that arrives; the last line needs no end."""
    rest: list[bytes] = []
    while block := source.read1(BLOCK):  # type: ignore[attr-defined]  # every buffered stream has it
        *lines, tail = block.split(b"\n")
        if lines:
            lines[0] = b"".join([*rest, lines[0]])
            rest = []
            yield lines
        rest.append(tail)
    last = b"".join(rest)
    if last:
        yield [last]
