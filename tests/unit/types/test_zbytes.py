import array
import copy
import gc
import pickle
import struct
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from zenspark.types import zbytes
from zenspark.types.zbytes import ZBytes, as_buffer

IS_COMPILED = not zbytes.__file__.endswith(".py")
SUPPORTS_BUFFER = IS_COMPILED or sys.version_info >= (3, 12)
needs_buffer = pytest.mark.skipif(not SUPPORTS_BUFFER, reason="an interpreted class lends memory from Python 3.12 on")


class SomeBytes(bytes):
    pass


class SomeText(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("obj", "raw"),
    [
        (None, b""),
        (b"abc", b"abc"),
        (bytearray(b"abc"), b"abc"),
        (memoryview(b"abc"), b"abc"),
        (memoryview(b"abcdef")[::2], b"ace"),
        ("é", b"\xc3\xa9"),
        (ZBytes(b"abc"), b"abc"),
        (SomeBytes(b"abc"), b"abc"),
        (SomeText("abc"), b"abc"),
        (array.array("H", [1]), struct.pack("=H", 1)),
    ],
)
def test_zbytes_is_made_from_any_buffer(obj: object, raw: bytes) -> None:
    payload = ZBytes(obj)  # type: ignore[arg-type]
    assert payload.to_bytes() == bytes(payload) == raw
    assert type(payload.to_bytes()) is bytes
    assert len(payload) == len(raw)
    assert bool(payload) is bool(raw)
    assert payload == raw
    assert hash(payload) == hash(raw)
    if obj is not None:
        assert ZBytes.of(obj) == raw  # type: ignore[arg-type]
        assert bytes(as_buffer(obj)) == raw  # type: ignore[arg-type]


@pytest.mark.parametrize("obj", [3, 3.5, True, [1], (1,), {}, object(), ZBytes])
def test_zbytes_rejects_objects_that_are_no_buffers(obj: object) -> None:
    for make in (ZBytes, ZBytes.of, as_buffer):
        with pytest.raises(TypeError, match="expected bytes, a str or another buffer, found '"):
            make(obj)  # type: ignore[arg-type]


def test_a_payload_cannot_be_none() -> None:
    with pytest.raises(TypeError, match="found 'NoneType'"):
        ZBytes.of(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="found 'NoneType'"):
        as_buffer(None)  # type: ignore[arg-type]


def test_bytes_are_not_copied() -> None:
    raw = b"abc" * 100
    payload = ZBytes(raw)
    assert payload.to_bytes() is raw
    assert ZBytes.of(payload) is payload
    assert as_buffer(raw) is as_buffer(payload) is raw


def test_mutable_buffers_are_copied() -> None:
    raw = bytearray(b"abc")
    payload = ZBytes(raw)
    written = as_buffer(raw)
    raw[0] = 0
    assert payload == b"abc"
    assert bytes(written) == b"\0bc"


def test_text_is_utf8() -> None:
    assert ZBytes("é").to_string() == str(ZBytes("é")) == f"{ZBytes('é')}" == "é"
    with pytest.raises(ValueError, match="utf-8"):
        ZBytes(b"\xff").to_string()
    with pytest.raises(ValueError, match="utf-8"):
        str(ZBytes(b"\xff"))
    with pytest.raises(ValueError, match="surrogates"):
        ZBytes("\ud800")


def test_zbytes_equals_objects_with_the_same_bytes() -> None:
    payload = ZBytes(b"abc")
    for same in (ZBytes("abc"), b"abc", bytearray(b"abc"), memoryview(b"abc"), "abc"):
        assert payload == same
        assert same == payload
    for other in (ZBytes("abd"), b"abd", "abd", "\ud800", 3, None):
        assert payload != other


def test_repr_of_long_zbytes_is_truncated() -> None:
    assert repr(ZBytes(b"abc")) == "ZBytes(b'abc')"
    assert repr(ZBytes(b"a" * 100)) == f"ZBytes({b'a' * 32!r}... 100 bytes)"


def test_zbytes_is_immutable() -> None:
    payload = ZBytes(b"abc")
    with pytest.raises(AttributeError):
        payload.foo = 1  # type: ignore[attr-defined]  # that is the point
    assert payload.as_shm() is None  # type: ignore[func-returns-value]  # that is the point


@pytest.mark.slow
@examples(100)
@given(st.binary())
def test_zbytes_survives_pickling_and_copying(raw: bytes) -> None:
    payload = ZBytes(raw)
    assert pickle.loads(pickle.dumps(payload)) == copy.copy(payload) == copy.deepcopy(payload) == payload


@needs_buffer
def test_zbytes_exports_a_read_only_buffer() -> None:
    raw = struct.pack("<If", 7, 0.5)
    payload = ZBytes(raw)
    view = memoryview(payload)
    assert (view.readonly, view.format, view.itemsize, view.shape, view.strides) == (True, "B", 1, (8,), (1,))
    assert view == raw
    assert struct.unpack("<If", payload) == (7, 0.5)
    assert b"".join([payload, payload]) == raw * 2
    assert view.cast("I")[0] == int.from_bytes(raw[:4], sys.byteorder)
    with pytest.raises((BufferError, TypeError)):
        struct.pack_into("<I", payload, 0, 1)


@needs_buffer
def test_a_view_keeps_the_memory_alive() -> None:
    payload = ZBytes(bytes(range(256)))
    view = memoryview(payload)
    del payload
    gc.collect()
    assert bytes(view) == bytes(range(256))


@pytest.mark.slow
@needs_buffer
def test_views_leak_no_references() -> None:
    payload = ZBytes(b"abc")

    def use(times: int) -> None:
        for _ in range(times):
            memoryview(payload)
            try:
                struct.pack_into("<I", payload, 0, 1)
            except (BufferError, TypeError):
                continue
            raise AssertionError("it was written to")

    gc.collect()
    before = sys.getrefcount(None), sys.getrefcount(payload)
    use(10_000)
    gc.collect()
    after = sys.getrefcount(None), sys.getrefcount(payload)
    assert abs(after[0] - before[0]) < 5_000  # others move it a little
    assert after[1] == before[1]


def test_the_buffer_method_of_python_312() -> None:
    assert bytes(ZBytes(b"abc").__buffer__(0)) == b"abc"


def test_a_document_gets_a_hint() -> None:
    with pytest.raises(TypeError, match=r"found 'dict'; json.dumps\(...\) makes a str of it"):
        ZBytes({"x": 1})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"found 'object'$"):
        ZBytes(object())  # type: ignore[arg-type]
