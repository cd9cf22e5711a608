import pickle
from typing import Annotated, Any, Literal

import msgspec
import pytest

from zenspark.config.schema import (
    PER_MODE,
    SECRET,
    UNSET,
    UNUSED,
    ConfigError,
    Document,
    Key,
    Section,
    describe_type,
    resolve,
    unused_keys,
    validate_document,
    with_defaults,
)
from zenspark.key import KeyExpr


class Pair(msgspec.Struct, frozen=True):
    left: int
    right: int


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keys: Annotated[tuple[KeyExpr, ...], msgspec.Meta(min_length=1)]
    pair: Pair | None = None


class Inner(Section, frozen=True):
    size: Annotated[int, msgspec.Meta(ge=1, le=9)] = 2
    secret: Annotated[str | None, SECRET] = None


class Sample(Section, frozen=True):
    name: Annotated[str, UNSET] = "nobody"
    inner: Inner = Inner()
    maybe: Annotated[Inner, UNSET] = Inner(size=3)
    ratio: Annotated[float, PER_MODE] = 2.0
    hosts: Annotated[
        tuple[str | Pair, ...],
        Key(per_mode=True, otherwise=(), defaults={"router": ("r",), "peer": ("p",), "client": ()}),
    ] = ()
    even: Annotated[int, msgspec.Meta(description="an even number"), Key(check=lambda value: value % 2 == 0)] = 0
    color: Annotated[Literal["red", "blue"], UNUSED] = "red"
    memory: Annotated[bool, Key(used=False, as_if=False)] = True
    extra: Annotated[Any, Key(hidden=True, used=False)] = None
    far: Annotated[Inner, UNUSED] = Inner()
    rules: Annotated[tuple[Rule, ...] | None, Key(hidden=True)] = None
    table: Annotated[dict[str, int] | None, Key(hidden=True)] = None


def test_config_error_has_key_expected_and_found() -> None:
    error = ConfigError("a/b", "true or false", "3")
    assert str(error) == "configuration key a/b: expected true or false, found 3"
    assert str(ConfigError("", "JSON5", "nothing")) == "configuration: expected JSON5, found nothing"
    back = pickle.loads(pickle.dumps(error))
    assert (back.key, back.expected, back.found) == ("a/b", "true or false", "3")


@pytest.mark.parametrize(
    ("document", "result"),
    [
        ({}, {}),
        ({"name": "me", "inner": {"size": 3.0}}, {"name": "me", "inner": {"size": 3}}),
        ({"name": None, "maybe": None}, {"name": None, "maybe": None}),
        ({"ratio": 3}, {"ratio": 3.0}),
        ({"ratio": {"router": 1, "peer": 2.5}}, {"ratio": {"router": 1.0, "peer": 2.5}}),
        ({"ratio": {}}, {"ratio": {}}),
        ({"hosts": ["a", {"left": 1, "right": 2}]}, {"hosts": ["a", {"left": 1, "right": 2}]}),
        ({"extra": {"anything": [1]}}, {"extra": {"anything": [1]}}),
        ({"rules": [{"keys": ["a/*"]}]}, {"rules": [{"keys": ["a/*"], "pair": None}]}),
    ],
)
def test_values_are_checked_and_kept(document: Document, result: Document) -> None:
    assert validate_document(Sample, document) == result


@pytest.mark.parametrize(
    ("document", "key", "expected", "found"),
    [
        ([], "", "an object", "[]"),
        ({"inner": 3}, "inner", "an object", "3"),
        ({"inner": None}, "inner", "an object", "null"),
        ({"inner": {"size": "x"}}, "inner/size", "an integer from 1 to 9", '"x"'),
        ({"inner": {"size": 10}}, "inner/size", "an integer from 1 to 9", "10"),
        ({"inner": {"size": 1.5}}, "inner/size", "an integer from 1 to 9", "1.5"),
        ({"ratio": "x"}, "ratio", "a number, or such a value for each mode", '"x"'),
        ({"ratio": {"peer": "x"}}, "ratio/peer", "a number, or such a value for each mode", '"x"'),
        ({"hosts": ["a", 3]}, "hosts/1", "a text or an object with left and right", "3"),
        ({"even": 3}, "even", "an even number", "3"),
        ({"rules": 3}, "rules", "a list, each item an object with keys and pair or null", "3"),
        ({"rules": [{"keys": ["a", "a//b"]}]}, "rules/0/keys/1", "a key expression", '"a//b"'),
        ({"rules": [{"keys": [3]}]}, "rules/0/keys/0", "a key expression", "3"),
        ({"rules": [{"keys": []}]}, "rules/0/keys", "a list, each item a key expression; it must not be empty", "[]"),
        (
            {"rules": [{"keys": ["a"]}, {}]},
            "rules/1/keys",
            "a list, each item a key expression; it must not be empty",
            "nothing",
        ),
        ({"rules": [{"keys": ["a"], "key": 1}]}, "rules/0/key", "a key such as keys", "a key that does not exist"),
        ({"rules": [{"keys": ["a"], "pair": {"left": 1, "right": "x"}}]}, "rules/0/pair/right", "an integer", '"x"'),
        ({"table": {"a": "x"}}, "table", "an object or null", '{"a": "x"}'),
        ({"color": "green"}, "color", "one of red, blue", '"green"'),
        ({"name": ["x" * 100]}, "name", "a text", f'["{"x" * 55}...'),
        ({"nam": 1}, "nam", "a key such as name", "a key that does not exist"),
        ({"inner": {"zzz": 1}}, "inner/zzz", "one of secret, size", "a key that does not exist"),
        ({"ratio": {"peer": 1, "pear": 1}}, "ratio/pear", "a key such as peer", "a key that does not exist"),
    ],
)
def test_errors_name_the_key_and_the_expected_value(document: Any, key: str, expected: str, found: str) -> None:  # noqa: ANN401 - anything JSON has
    with pytest.raises(ConfigError) as caught:
        validate_document(Sample, document)
    assert (caught.value.key, caught.value.expected, caught.value.found) == (key, expected, found)


def test_document_with_defaults_has_every_shown_key() -> None:
    assert with_defaults(Sample, {}) == {
        "name": None,
        "inner": {"size": 2},
        "maybe": None,
        "ratio": None,
        "hosts": {"router": ["r"], "peer": ["p"]},
        "even": 0,
        "color": "red",
        "memory": True,
        "far": {"size": 2},
    }
    given = {"maybe": {"size": 5, "secret": "x"}, "extra": 1, "hosts": ["h"]}
    assert with_defaults(Sample, given) == with_defaults(Sample, {}) | {
        "maybe": {"size": 5},
        "extra": 1,
        "hosts": ["h"],
    }


def test_resolve_selects_the_values_of_a_mode() -> None:
    document = validate_document(
        Sample, {"ratio": {"peer": 7}, "hosts": {"peer": ["h", {"left": 1, "right": 2}]}, "maybe": None}
    )
    peer, router = resolve(Sample, document, "peer"), resolve(Sample, document, "router")
    assert (peer.ratio, router.ratio) == (7.0, 2.0)
    assert (peer.hosts, router.hosts) == (("h", Pair(1, 2)), ())
    assert (peer.name, peer.maybe, peer.inner) == ("nobody", Inner(), Inner())
    assert resolve(Sample, {}, "router").hosts == ("r",)
    assert resolve(Sample, {"inner": {"size": 4}, "hosts": ["h"]}, "client") == Sample(
        inner=Inner(size=4), hosts=("h",), maybe=Inner()
    )


def test_unused_keys_that_are_set_are_listed() -> None:
    document = {"name": "x", "color": "blue", "memory": True, "extra": 1, "far": {"size": 3}, "inner": {"size": 3}}
    assert list(unused_keys(Sample, document)) == ["color", "memory", "extra", "far/size"]
    assert list(unused_keys(Sample, {"color": "red", "memory": False, "extra": None, "far": {"size": 2}})) == []


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (bool, "true or false"),
        (tuple[str, ...], "a list, each item a text"),
        (float | None, "a number or null"),
        (Annotated[int, msgspec.Meta(ge=1)], "an integer from 1"),
        (Annotated[int, "a note"], "an integer"),
        (dict[str, Any], "an object"),
    ],
)
def test_types_are_described_in_words(hint: Any, words: str) -> None:  # noqa: ANN401 - a type
    assert describe_type(hint) == words
