"""Adds inputs that fuzzing has found to the corpus of a target: few, which reach what the corpus does not reach yet.

    python -m fuzz.minimise decode fuzz/corpus/decode build/fuzz/decode

Each input gets the digest of its bytes as its name. What an input reaches is counted in compiled modules by their
instrumentation (`make corpus TARGET=...` runs this in a build that has it), and in the others by lines.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from fuzz.harness import counters_of, instrumented_modules

if TYPE_CHECKING:
    from _typeshed import TraceFunction

MAX_INPUTS = 150
"""Inputs of one target at most: a test runs all of them."""
MAX_BYTES = 40_000
"""Bytes of all inputs of one target at most: they are in the repository."""

Reached = set[tuple[object, int]]
"""Places in the code: a module and a counter, or a function and a line."""


def measure_reach(check: Callable[[bytes], None], data: bytes) -> Reached:
    """Run one input. Returns the places that it reaches."""
    libraries = list(instrumented_modules())
    for library in libraries:
        ctypes.memset(counters_of(library), 0, ctypes.sizeof(counters_of(library)))
    found: Reached = set()

    def trace(frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        if not str(frame.f_globals.get("__name__")).startswith("zenspark."):
            return None
        found.add((frame.f_code, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        check(data)
    finally:
        sys.settrace(None)
    for number, library in enumerate(libraries):
        found |= {(number, place) for place, count in enumerate(bytes(counters_of(library))) if count}
    return found


def select_inputs(check: Callable[[bytes], None], corpus: list[bytes], found: set[bytes]) -> list[bytes]:
    """Return the inputs to add: one after the other the one that reaches most of what none before it does."""
    kept = list(corpus)
    covered: Reached = set().union(*(measure_reach(check, data) for data in corpus))
    reach = {data: measure_reach(check, data) for data in sorted(found, key=lambda data: (len(data), data))}
    before = len(covered)
    while len(kept) < MAX_INPUTS:
        bytes_left = MAX_BYTES - sum(map(len, kept))
        fitting = {data: places for data, places in reach.items() if len(data) <= bytes_left}
        reach = {data: places - covered for data, places in fitting.items() if not places <= covered}
        if not reach:
            break
        best = max(reach, key=lambda data: len(reach[data]))  # of several the smallest, for they are in that order
        kept.append(best)
        covered |= reach[best]
    print(
        f"{len(corpus)} inputs reached {before} places, {len(kept)} of {sum(map(len, kept))} bytes reach {len(covered)}"
    )
    return kept[len(corpus) :]


def contents(place: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted(place.iterdir())]


def main(target: str, corpus: Path, found: Path) -> None:
    check = import_module(f"fuzz.fuzz_{target}").check
    for data in select_inputs(check, contents(corpus), set(contents(found))):
        (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
