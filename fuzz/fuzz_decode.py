"""Any bytes either decode or raise DecodeError; what decodes is encoded to bytes that decode to the same.

The first byte chooses the decoder. How to run: see harness.py.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from fuzz.harness import run
from zenspark.errors import DecodeError
from zenspark.wire import codec
from zenspark.wire.message_schema import Message

Decoder = Callable[[bytes | memoryview], Sequence[Message]]


def encode_all(messages: Sequence[Message]) -> bytes:
    return b"".join(map(codec.encode, messages))


DECODERS: list[tuple[Decoder, Callable[..., bytes]]] = [
    (lambda data: [codec.decode_scouting(data)], encode_all),
    (lambda data: [codec.decode_transport(data)], encode_all),
    (lambda data: [codec.decode_network(data)], encode_all),
    (codec.decode_batch, encode_all),
    (codec.decode_bare_batch, encode_all),
    (codec.decode_link_states, codec.encode_link_states),
]


def check_refusal(error: DecodeError, size: int) -> None:
    assert 0 <= error.position <= size, error
    assert error.expected in str(error)


def check(data: bytes) -> None:
    decode, encode = DECODERS[data[0] % len(DECODERS) if data else 0]
    body = memoryview(array("B", list(data[1:])))  # exact size: AddressSanitizer detects a read behind it
    try:
        found = decode(body)
    except DecodeError as error:
        check_refusal(error, len(body))
        return
    assert decode(encode(found)) == found, found


def main() -> None:
    run(check)


if __name__ == "__main__":
    main()
