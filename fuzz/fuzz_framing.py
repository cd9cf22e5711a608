"""A stream gives the same batches however it is cut; any batch is decompressed or rejected.

The first byte chooses the framing, the second where the stream is cut. How to run: see harness.py.
"""

from __future__ import annotations

from contextlib import suppress

from fuzz.harness import run
from zenspark.errors import DecodeError, LimitExceeded
from zenspark.transport.framing import Deframer, LengthPrefix, compress, decompress

LIMIT = 1000


def batches(data: bytes, framing: LengthPrefix, cut: int) -> tuple[list[bytes], int, str]:
    """Read a stream in chunks of `cut` bytes. Returns the batches, the number of bytes left, and the error, if any."""
    deframer = Deframer(framing, LIMIT)
    found = []
    try:
        for start in range(0, len(data), cut):
            deframer.receive_data(data[start : start + cut])
            while (batch := deframer.next_batch()) is not None:
                found.append(bytes(batch))
    except LimitExceeded as error:
        return found, len(data) - deframer.position, str(error)
    assert deframer.position + deframer.available == len(data)
    return found, deframer.available, ""


def check(data: bytes) -> None:
    framing = (LengthPrefix.U16, LengthPrefix.U32)[data[0] % 2 if data else 0]
    cut = data[1] + 1 if len(data) > 1 else 1
    stream = data[2:]
    whole = batches(stream, framing, max(1, len(stream)))
    assert batches(stream, framing, cut) == whole
    assert b"".join(map(framing.wrap, whole[0])) == stream[: len(stream) - whole[1]]
    for batch in [*whole[0], stream]:
        assert decompress(compress(batch), max(1, len(batch))) == batch
        with suppress(DecodeError):
            assert len(decompress(batch, LIMIT)) <= max(LIMIT, len(batch))


def main() -> None:
    run(check)


if __name__ == "__main__":
    main()
