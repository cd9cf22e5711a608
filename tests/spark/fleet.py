"""A publisher of eclipse-zenoh: `python -m tests.spark.fleet LOCATOR START END`. What it sends follows from the number.

Every sample has a timestamp and a source, some have attachments, some are deletes; keys and encodings vary.
"""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

KEYS = 997
ENCODINGS = ["zenoh/bytes", "text/plain", "application/json", "application/cbor;v2"]
CLOCK = "33"
SOURCE = "fe1d"
BEGAN = 1_700_000_000 << 32
"""NTP64 of the first,"""
TICKS = 64
"""in a second: between two samples lies a whole number of nanoseconds and of units of NTP64."""
COLUMNS = ["key", "kind", "payload", "encoding", "timestamp_ntp64", "timestamp_id", "attachment", "source_sn"]


def is_delete(number: int) -> bool:
    return number % 101 == 100


def key(number: int) -> str:
    return f"fleet/r{number % KEYS}/t{number % 7}"


def payload(number: int) -> bytes:
    return b"%d " % number * (number % 5)


def encoding(number: int) -> str:
    return ENCODINGS[number % 7 % len(ENCODINGS)]


def attachment(number: int) -> bytes | None:
    return b"note %d" % number if number % KEYS % 3 else None


def ntp64(number: int) -> int:
    return BEGAN + number * ((1 << 32) // TICKS)


def table(start: int, end: int) -> pa.Table:
    """What the table must have of numbers from one up to before another."""
    numbers = range(start, end)
    columns = [
        pa.array([key(each) for each in numbers]),
        pa.array(["DELETE" if is_delete(each) else "PUT" for each in numbers]),
        pa.array([None if is_delete(each) else payload(each) for each in numbers], pa.binary()),
        pa.array(["zenoh/bytes" if is_delete(each) else encoding(each) for each in numbers]),
        pa.array([ntp64(each) for each in numbers], pa.int64()),
        pa.array([CLOCK] * len(numbers)),
        pa.array([attachment(each) for each in numbers], pa.binary()),
        pa.array(numbers, pa.int64()),
    ]
    return pa.table(columns, COLUMNS)


def newest(end: int) -> dict[str, int]:
    """The number of the newest sample of every key that is not deleted."""
    found: dict[str, int] = {}
    for number in range(end):
        found[key(number)] = number
    return {name: number for name, number in found.items() if not is_delete(number)}


def main(locator: str, start: int, end: int) -> None:
    """Send them."""
    import zenoh

    config = zenoh.Config()
    config.insert_json5("mode", '"client"')
    config.insert_json5("connect/endpoints", f'["{locator}"]')
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("transport/shared_memory/enabled", "false")
    config.insert_json5("id", f'"{SOURCE}"')
    encodings = [zenoh.Encoding(name) for name in ENCODINGS]
    with zenoh.open(config) as session:
        source = session.declare_publisher("fleet/source")
        clock = bytes.fromhex(CLOCK)
        for number in range(start, end):
            time = zenoh.NTP64(BEGAN // (1 << 32) + number // TICKS, number % TICKS * 1_000_000_000 // TICKS)
            common: dict[str, Any] = {
                "timestamp": zenoh.Timestamp(time, clock),
                "attachment": attachment(number),
                "source_info": zenoh.SourceInfo(source.id, number),
                "congestion_control": zenoh.CongestionControl.BLOCK,
            }
            if is_delete(number):
                session.delete(key(number), **common)
            else:
                session.put(key(number), payload(number), encoding=encodings[number % 7 % len(encodings)], **common)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
