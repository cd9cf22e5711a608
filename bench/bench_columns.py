"""How many publications per second does one core turn into columns, and columns into frames?

    make bench                                                  this and all others, compiled
    python bench/bench_columns.py --json new.json               this one alone
    python bench/compare.py old.json new.json                   two branches, each run with --json

A good result: of frames with 8-byte puts at least 60 million messages per second are decoded where all are alike and 20
million where they are mixed, and at least 50 times as many as the object codec reads in the same run; writing is of the
same order. "of memcpy" is the time it takes just to copy the same bytes over the time it takes to decode them. With
ZENSPARK_PURE=1 it runs interpreted, and shows the gain of compilation.

The traffic: "uniform" has one key id, "suffix" one whole key; "stamped" is what a router forwards; "ros"
is that with an attachment that counts, as rmw_zenoh sends it; "topics" has 300 keys in random order, each with its own
encoding, stamps, attachments; in "mixed" all of these, and sizes up to 200 bytes, differ from message to message.
Measurements take turns, so a busy machine disturbs all of them alike.
"""

import gc
import random
import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import zenspark
from bench.command import parser, report
from bench.compare import Result
from zenspark.wire.buffer import Writer
from zenspark.wire.codec import decode_batch, encode
from zenspark.wire.columns import (
    ABSENT,
    BatchDecoder,
    BatchEncoder,
    BinaryColumn,
    OutgoingRows,
    PushColumns,
    StopReason,
)
from zenspark.wire.messages import Frame, Push, Put
from zenspark.wire.values import Congestion, Encoding, QoS, SourceInfo, Timestamp, WireExpr, ZenohId

COMPILED = zenspark.build_kind() == "compiled"
MESSAGES = 8_192 if COMPILED else 1_000
"""Messages of a measurement: as many as a connection decodes at once."""
OBJECTS = 1_000
"""Number of messages read by the object codec."""
TURNS = 41
TURN_SECONDS = 0.004
"""Duration of a turn: a measurement is repeated until it is over."""
LIMIT = 49_150
SEED = 7
CLOCK = ZenohId(0xA0A1A2A3A4A5A6A7A8A9AAABACADAEAF)
ENCODINGS = [Encoding.BYTES, Encoding.BYTES, Encoding(5), Encoding(7), Encoding(0xFFFF, "my/schema")]


# --- traffic --------------------------------------------------------------------------------------------------------


def put(number: int, key: WireExpr, **fields: Any) -> Push:  # noqa: ANN401 - fields of Put
    return Push(wire_expr=key, body=Put(payload=number.to_bytes(8, "little"), **fields))


def stamp(number: int) -> Timestamp:
    return Timestamp(0x6A00_0000_0000_0000 + number * 1_000_003, CLOCK)


def uniform(number: int) -> Push:
    return put(number, WireExpr(2))


def suffix(number: int) -> Push:
    return put(number, WireExpr(0, "demo/example/key"))


def stamped(number: int) -> Push:
    return put(number, WireExpr(1, "/r1"), timestamp=stamp(number))


def ros(number: int) -> Push:
    attachment = number.to_bytes(33, "little")
    return put(number, WireExpr(1, "/r1"), timestamp=stamp(number), encoding=Encoding(7), attachment=attachment)


class Fleet:
    """Robots with many topics; with `mixed`, a message has nothing in common with the one before."""

    def __init__(self, mixed: bool) -> None:
        self.dice = random.Random(SEED)
        self.mixed = mixed
        self.topics = [self.topic() for _ in range(300)]

    def topic(self) -> dict[str, Any]:
        dice = self.dice
        return {
            "key": WireExpr(
                dice.randrange(3), f"fleet/robot{dice.randrange(50):03}/{dice.choice(['imu', 'lidar', 'arm'])}"
            ),
            "congestion": dice.choice([Congestion.DROP, Congestion.BLOCK]),
            "encoding": dice.choice(ENCODINGS),
            "stamped": dice.random() < 0.5,
            "sourced": dice.random() < 0.3,
            "attachment": dice.randrange(1, 30) if dice.random() < 0.3 else None,
        }

    def __call__(self, number: int) -> Push:
        dice = self.dice
        topic = self.topic() if self.mixed else dice.choice(self.topics)
        return Push(
            wire_expr=topic["key"],
            qos=QoS(congestion=topic["congestion"]),
            body=Put(
                timestamp=stamp(number) if topic["stamped"] else None,
                encoding=topic["encoding"],
                source_info=SourceInfo(CLOCK, 7, number) if topic["sourced"] else None,
                attachment=topic["attachment"] and dice.randbytes(topic["attachment"]),
                payload=dice.randbytes(dice.choice([8, 8, 8, 40, 200]) if self.mixed else 8),
            ),
        )


TRAFFIC: dict[str, Callable[[int], Push]] = {
    "uniform": uniform,
    "suffix": suffix,
    "stamped": stamped,
    "ros": ros,
    "topics": Fleet(mixed=False),
    "mixed": Fleet(mixed=True),
}


@dataclass(frozen=True)
class Traffic:
    """The same messages as objects, as a stream of batches, and as columns to be encoded."""

    pushes: list[Push]

    @cached_property
    def batches(self) -> list[bytes]:
        done, batch = [], b""
        for message in map(encode, self.pushes):
            if len(batch) + len(message) > LIMIT:
                done.append(batch)
                batch = b""
            batch = (batch or encode(Frame(reliable=True, sn=len(done)))) + message
        return [*done, batch]

    @cached_property
    def stream(self) -> bytes:
        return b"".join(len(batch).to_bytes(2, "little") + batch for batch in self.batches)

    def rows(self) -> OutgoingRows:
        """Columns as `put_batch` passes them: values shared by all rows are given once."""
        bodies: list[Any] = [push.body for push in self.pushes]
        sources = [body.source_info for body in bodies]
        stamps = [body.timestamp for body in bodies]
        keys = {push.wire_expr for push in self.pushes}
        one_kind = len(keys) == 1
        return OutgoingRows(
            len(bodies),
            keys.pop() if one_kind else binary_column([push.wire_expr.suffix.encode() for push in self.pushes]),
            binary_column([body.payload for body in bodies]),
            qos=QoS.DEFAULT if one_kind else bytes(push.qos.to_wire() for push in self.pushes),
            timestamp=array("Q", [stamp.ntp64 if stamp else 0 for stamp in stamps]) if any(stamps) else None,
            timestamp_id=BinaryColumn.constant(CLOCK.to_bytes()) if any(stamps) else None,
            encoding=optional_column([encode_encoding(body.encoding) for body in bodies]),
            attachment=optional_column([body.attachment for body in bodies]),
            source_zid=optional_column([CLOCK.to_bytes() if source else None for source in sources]),
            source_eid=7,
            source_sn=array("I", [source.sn if source else 0 for source in sources]),
        )


def optional_column(values: list[bytes | None]) -> BinaryColumn | None:
    return binary_column(values) if any(values) else None


def binary_column(values: list[bytes | None]) -> BinaryColumn:
    data = bytearray()
    starts, stops = array("I"), array("I")
    for value in values:
        starts.append(ABSENT if value is None else len(data))
        data += value or b""
        stops.append(len(data))
    return BinaryColumn(data, starts, stops)


def encode_encoding(encoding: Encoding) -> bytes | None:
    out = Writer()
    encoding.write(out)
    return None if encoding == Encoding.BYTES else bytes(out.data)


# --- measurements ---------------------------------------------------------------------------------------------------


class Measurement:
    """The operations that are measured with one kind of traffic; each method runs one of them once, on all messages."""

    def __init__(self, make: Callable[[int], Push]) -> None:
        self.traffic = Traffic([make(number) for number in range(MESSAGES)])
        self.few = Traffic(self.traffic.pushes[:OBJECTS])
        self.columns = PushColumns(MESSAGES)
        self.out = bytearray(len(self.traffic.stream) * 2 + LIMIT)
        self.rows = self.traffic.rows()

    def decode(self) -> None:
        self.columns.clear()
        outcome = BatchDecoder(self.traffic.stream, limit=LIMIT).decode(self.columns)
        assert outcome is StopReason.END
        assert len(self.columns) == MESSAGES

    def encode(self) -> None:
        self.rows.reset()
        assert BatchEncoder(limit=LIMIT).encode(self.rows, self.out) is StopReason.END

    def read_objects(self) -> None:
        for batch in self.few.batches:
            decode_batch(batch)

    def write_objects(self) -> None:
        for push in self.few.pushes:
            encode(push)

    def copy(self) -> None:
        bytearray(self.traffic.stream)

    def pack(self) -> None:
        self.columns.payloads().pack()


def seconds_each(work: Callable[[], None]) -> float:
    """Return the mean duration of a call, from as many calls as fill a turn."""
    count = 0
    start = time.perf_counter()
    stop = start + TURN_SECONDS
    while time.perf_counter() < stop:
        work()
        count += 1
    return (time.perf_counter() - start) / count


def measure() -> Iterator[Result]:
    measurements = {name: Measurement(make) for name, make in TRAFFIC.items()}
    taken: dict[tuple[str, str], list[float]] = {}
    for _ in range(TURNS):
        for name, one in measurements.items():
            for work in (one.decode, one.read_objects, one.copy, one.pack, one.encode, one.write_objects):
                taken.setdefault((name, work.__name__), []).append(seconds_each(work))
    for name, one in measurements.items():
        yield from results(name, {work: taken[name, work] for _, work in taken}, len(one.traffic.stream))


def results(name: str, taken: dict[str, list[float]], size: int) -> Iterator[Result]:
    """Yield the results of all turns of one kind of traffic."""

    def ratio(count: int, work: str, other_count: int, other: str) -> list[float]:
        pairs = zip(taken[work], taken[other], strict=True)
        return [count / one / (other_count / reference) for one, reference in pairs]

    def rate(count: int, work: str) -> list[float]:
        return [count / one / 1e6 for one in taken[work]]

    yield Result.of(f"decode {name}", rate(MESSAGES, "decode"), "M msg/s")
    yield Result.of(f"decode {name}, by objects", rate(OBJECTS, "read_objects"), "M msg/s")
    yield Result.of(f"decode {name}, columns / objects", ratio(MESSAGES, "decode", OBJECTS, "read_objects"), "x")
    yield Result.of(f"decode {name}, of memcpy", ratio(size, "decode", size, "copy"), "x")
    yield Result.of(f"gather payloads {name}", rate(MESSAGES, "pack"), "M msg/s")
    yield Result.of(f"encode {name}", rate(MESSAGES, "encode"), "M msg/s")
    yield Result.of(f"encode {name}, columns / objects", ratio(MESSAGES, "encode", OBJECTS, "write_objects"), "x")


def main() -> None:
    options = parser(__doc__).parse_args()
    print(f"zenspark {zenspark.__version__}, {zenspark.build_kind()}")
    gc.disable()  # a collection in the midst of a turn would be measured as slow decoding
    report("columns", measure(), options.json)


if __name__ == "__main__":
    main()
