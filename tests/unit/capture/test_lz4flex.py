import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from zenspark.capture.lz4flex import compress
from zenspark.transport.framing import COMPRESSED, decompress

CAPTURED = [
    "ff0425b3ab80317d00036b2f61017868656c6c6f2006005960" + b"hello ".hex(),
    "ff0925b3ab80317d000864656d6f2f6b2f6301c80168656c6c6f0500aa606f68656c6c6f",
    # a table of 128 slots: two of the keys in it share one, and a repetition is missed
    "f128a5d1efa2313100df0121087502070002105101d239127d26c776b33c601573612a0203137463702f5b666430303a3a325d3a3430393633"
    "1400923139322e302e322e321400f20a1e7463702f5b666538303a3a66633a66663a666530303a315d1f00f00d00030100106f453a23ff7840"
    "dc5b69a45688eca7810200be0021081a",
    # JSON: many short repetitions, some of them found one byte late and extended backwards
    "f61f25f5c1de3bfd000764656d6f2f7838211d01c5015b7b226e616d65223a2022746865222c202276223a20367d2c201900456c6561731b00"
    "2931371c00c473656c662e73657373696f6e3e0029383523002563611a002937331a0064707974657374370029333837001569190029323119"
    "00536368616e679000603a2034327d5d",
]


def unpacked(block: bytes) -> bytes:
    return bytes(decompress(bytes([COMPRESSED]) + block, 1 << 17))


@pytest.mark.parametrize("captured", CAPTURED)
def test_compress_makes_the_captured_bytes(captured: str) -> None:
    assert compress(unpacked(bytes.fromhex(captured))).hex() == captured


@pytest.mark.parametrize(
    "size", [0, 1, 12, 13, 14, 15, 16, 17, 256, 257, 269, 270, 271, 525, 2000, 16384, 16385, 70000]
)
@pytest.mark.parametrize("unit", [bytes(range(256)), b"ab", b"\x00"])
def test_compressed_block_of_any_size_can_be_decompressed(size: int, unit: bytes) -> None:
    content = (unit * size)[:size]
    assert unpacked(compress(content)) == content


@pytest.mark.slow
@given(st.binary(max_size=400) | st.text("abc", max_size=400).map(str.encode))
@examples(100)
def test_any_compressed_bytes_can_be_decompressed(content: bytes) -> None:
    assert unpacked(compress(content)) == content
