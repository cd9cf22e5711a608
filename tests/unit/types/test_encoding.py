import pickle

import pytest

from zenspark.types.encoding import Encoding
from zenspark.wire import values as wire


def test_there_is_a_constant_for_every_known_name() -> None:
    constants = {name for name in vars(Encoding) if name.isupper()}
    declared = {name for name in Encoding.__annotations__ if name.isupper()}
    assert constants == declared
    assert {str(getattr(Encoding, name)) for name in constants} == set(wire.Encoding.NAMES)
    assert str(Encoding.APPLICATION_JSON_PATCH_JSON) == "application/json-patch+json"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (None, "zenoh/bytes"),
        ("", "zenoh/bytes"),
        ("text/plain", "text/plain"),
        ("text/plain;utf-8", "text/plain;utf-8"),
        ("text/plain;", "text/plain"),
        ("my/type;v1", "my/type;v1"),
        (";x", ";x"),
    ],
)
def test_an_encoding_is_its_text(text: str | None, shown: str) -> None:
    encoding = Encoding(text)
    assert str(encoding) == shown
    assert encoding == shown == encoding
    assert hash(encoding) == hash(shown)
    assert repr(encoding) == f"Encoding({shown!r})"
    assert pickle.loads(pickle.dumps(encoding)) == encoding
    assert Encoding.from_wire(encoding.to_wire()) == encoding


def test_an_encoding_equals_nothing_else() -> None:
    assert Encoding("text/plain") == Encoding.TEXT_PLAIN
    assert Encoding.TEXT_PLAIN != Encoding.TEXT_CSS
    assert Encoding.TEXT_PLAIN != "text/css"
    assert Encoding.TEXT_PLAIN != 4
    assert Encoding.TEXT_PLAIN != None  # noqa: E711 - it is compared with None on purpose


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        (Encoding.TEXT_PLAIN, "text/plain;utf-8"),
        (Encoding("text/plain;latin"), "text/plain;utf-8"),
        (Encoding("my/type"), "my/type;utf-8"),
        (Encoding("my/type;v1"), "my/type;utf-8"),
        (Encoding.from_wire(wire.Encoding(wire.Encoding.CUSTOM)), "utf-8"),
    ],
)
def test_a_schema_replaces_the_one_before(encoding: Encoding, shown: str) -> None:
    assert str(encoding.with_schema("utf-8")) == shown


def test_a_schema_can_be_empty() -> None:
    assert str(Encoding.TEXT_PLAIN.with_schema("")) == "text/plain;"
    assert str(Encoding("my/type;v1").with_schema("")) == "my/type"


def test_only_text_makes_an_encoding() -> None:
    assert Encoding.of("text/plain") == Encoding.of(Encoding.TEXT_PLAIN)
    with pytest.raises(TypeError, match="found 'int'"):
        Encoding(3)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(TypeError, match="found 'bytes'"):
        Encoding.TEXT_PLAIN.with_schema(b"x")  # type: ignore[arg-type]  # that is the point
