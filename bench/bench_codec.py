"""What does a message cost as an object: how long do decoding and encoding one take, and what does compiling buy?

    make bench                                                # on each branch; keep build/bench as old and as new
    python bench/compare.py old/codec.json new/codec.json

Both builds are measured in turns, each in processes of its own, so that a slow moment of the machine hits both. Every
result is the median over all turns with the middle half as its spread, in nanoseconds for one call. A frame of 100
messages counts as one call. The last results are ratios: how many times longer the interpreted build takes.

A good result: compiled, 2 µs for small messages and 5 µs for one with everything in it; no more for 1 KiB of payload
than for 8 bytes, because payloads are copied once and not read; for the frame of 100 less than 100 times a PUSH;
interpreted 2 to 8 times longer. What must be faster makes no object of each message: that is `wire/columns`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from time import perf_counter_ns

import zenspark
from bench.command import parser, report
from bench.compare import Result
from zenspark.wire.codec import decode_network, decode_transport, encode
from zenspark.wire.message_schema import Message
from zenspark.wire.messages import (
    Declare,
    DeclareSubscriber,
    Frame,
    InitSyn,
    Push,
    Put,
    Query,
    Reply,
    Request,
    Response,
    TransportMessage,
)
from zenspark.wire.values import (
    Consolidation,
    Encoding,
    EntityId,
    QoS,
    SourceInfo,
    Timestamp,
    WhatAmI,
    WireExpr,
    ZenohId,
)

TURNS = 4
SAMPLES = 5
SAMPLE_NS = 8_000_000
"""Duration of one sample: much longer than the clock's resolution, much shorter than a time slice of the scheduler."""

ZID = ZenohId(0xF0112233445566778899AABBCCDDEEFF)
KEY = WireExpr(0, "demo/robot/7/pose")
PUSH = Push(wire_expr=WireExpr(1), body=Put(payload=bytes(8)))
STAMPED = Put(
    timestamp=Timestamp(7_386_664_595_088_445_305, ZID),
    encoding=Encoding.parse("application/json"),
    source_info=SourceInfo(ZID, 1, 1000),
    attachment=b"trace",
    payload=bytes(8),
)
MESSAGES: dict[str, Message] = {
    "push 8 B": PUSH,
    "push 8 B, full key": Push(wire_expr=KEY, body=Put(payload=bytes(8))),
    "push 8 B, stamped": Push(wire_expr=KEY, qos=QoS.REQUEST, body=STAMPED),
    "push 1 KiB": Push(wire_expr=WireExpr(1), body=Put(payload=bytes(1024))),
    "request": Request(
        request_id=7,
        wire_expr=KEY,
        qos=QoS.REQUEST,
        timeout_ms=10_000,
        body=Query(consolidation=Consolidation.LATEST, parameters="unit=m"),
    ),
    "response": Response(
        request_id=7,
        wire_expr=KEY,
        qos=QoS.REQUEST,
        responder=EntityId(ZID, 3),
        body=Reply(body=Put(payload=bytes(8))),
    ),
    "declare": Declare(qos=QoS.DECLARE, body=DeclareSubscriber(id=1, wire_expr=KEY)),
    "init": InitSyn(version=9, whatami=WhatAmI.CLIENT, zid=ZID, resolution=10, batch_size=65_535, qos=True, patch=1),
    "frame of 100": Frame(reliable=True, sn=1 << 20, msgs=(PUSH,) * 100),
}


def calls() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the measured calls by name."""
    for name, message in MESSAGES.items():
        wire = encode(message)
        decode = decode_transport if isinstance(message, TransportMessage) else decode_network
        assert decode(wire) == message
        yield f"decode {name}", lambda decode=decode, wire=wire: decode(wire)  # type: ignore[misc]
        yield f"encode {name}", lambda message=message: encode(message)  # type: ignore[misc]


def sample(call: Callable[[], object], count: int) -> int:
    """Return the nanoseconds that so many calls take."""
    rounds = range(count)
    start = perf_counter_ns()
    for _ in rounds:
        call()
    return perf_counter_ns() - start


def measure() -> dict[str, list[float]]:
    """Sample the build of this process: nanoseconds for one call, less those of an empty call."""
    empty = min(sample(lambda: None, 10_000) for _ in range(SAMPLES)) / 10_000
    samples = {}
    for name, call in calls():
        count = 1
        while (taken := sample(call, count)) < SAMPLE_NS // 4:  # also warms up
            count *= 2
        count = max(1, count * SAMPLE_NS // taken)
        samples[name] = [max(1.0, sample(call, count) / count - empty) for _ in range(SAMPLES)]
    return samples


def measure_build(build: str) -> dict[str, list[float]]:
    """Sample one build in a process of its own."""
    environment = os.environ | {"ZENSPARK_PURE": "1" if build == "interpreted" else "0"}
    command = [sys.executable, __file__, "--samples"]
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    samples: dict[str, list[float]] = json.loads(run.stdout)
    return samples


def make_results() -> list[Result]:
    """Measure both builds in turns, or the interpreted one if it is the only one."""
    builds = ["compiled", "interpreted"] if zenspark.build_kind() == "compiled" else ["interpreted"]
    turns = [{build: measure_build(build) for build in builds} for _ in range(TURNS)]
    results = [
        Result.of(f"{name}, {build}", [taken for turn in turns for taken in turn[build][name]], "ns")
        for build in builds
        for name in turns[0][build]
    ]
    if len(builds) == 2:
        results += [Result.of(f"{name}, ratio", ratios(turns, name), "x") for name in turns[0]["compiled"]]
    return results


def ratios(turns: list[dict[str, dict[str, list[float]]]], name: str) -> list[float]:
    """Return how many times longer the interpreted build takes, turn by turn."""
    return [statistics.median(turn["interpreted"][name]) / statistics.median(turn["compiled"][name]) for turn in turns]


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--samples", action="store_true", help="measure only the build that runs, and print samples")
    options = command.parse_args()
    if options.samples:
        print(json.dumps(measure()))
        return
    report("codec", make_results(), options.json)


if __name__ == "__main__":
    main()
