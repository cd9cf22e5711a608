"""What holds for all key expressions: the recursive specification, eclipse-zenoh, a search in a plain list."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenspark.errors import UsageError
from zenspark.key import KeyExpr, canonicalize
from zenspark.key.match import includes, intersects
from zenspark.key.tree import KeyTree

SEED = 12
PAIRS = 200_000

# Few chunks that have much in common, so that most pairs of expressions differ in a detail.
CHUNKS = ["a", "b", "ab", "aab", "é", "*", "**", "a$*", "$*b", "a$*b", "$*a$*", "b$*a$*b", "$*é", "@", "@a", "@a$*"]

chunks = st.sampled_from(CHUNKS)
expressions = st.lists(chunks, min_size=1, max_size=6).map("/".join).map(canonicalize)
similar = expressions.flatmap(lambda text: st.tuples(st.just(text), st.one_of(expressions, variations(text))))
any_text = st.one_of(st.text(), st.text("a*$/@#?é\0"))


def variations(text: str) -> st.SearchStrategy[str]:
    """Expressions that differ from this one in some of its chunks."""
    places = [st.one_of(st.just(chunk), chunks) for chunk in text.split("/")]
    return st.tuples(*places).map("/".join).map(canonicalize)


# --- the specification, section 12.2, word for word -----------------------------------------------------------------


def spec_intersects(a: str, b: str) -> bool:
    return spec_meet(tuple(a.split("/")), tuple(b.split("/")), "**", spec_chunks_meet, is_verbatim)


def spec_chunks_meet(a: str, b: str) -> bool:
    if a == b:
        return True
    if is_verbatim(a) or is_verbatim(b):
        return False
    return "*" in (a, b) or spec_meet(letters(a), letters(b), "$*", str.__eq__, lambda letter: False)


def spec_meet(
    a: tuple[str, ...],
    b: tuple[str, ...],
    star: str,
    meet: Callable[[str, str], bool],
    bars: Callable[[str], bool],
) -> bool:
    @cache
    def f(i: int, j: int) -> bool:
        if i < len(a) and a[i] == star:
            return f(i + 1, j) or (j < len(b) and not bars(b[j]) and f(i, j + 1))
        if j < len(b) and b[j] == star:
            return f(i, j + 1) or (i < len(a) and not bars(a[i]) and f(i + 1, j))
        if i == len(a) or j == len(b):
            return i == len(a) and j == len(b)
        return meet(a[i], b[j]) and f(i + 1, j + 1)

    return f(0, 0)


def spec_includes(a: str, b: str) -> bool:
    return spec_cover(tuple(a.split("/")), tuple(b.split("/")), "**", spec_chunk_covers, is_verbatim)


def spec_chunk_covers(a: str, b: str) -> bool:
    if a == b:
        return True
    if is_verbatim(a) or is_verbatim(b):
        return False
    if a == "*":
        return b != "**"
    if b in ("*", "**") or "$*" not in a:
        return False
    return spec_cover(letters(a), letters(b), "$*", str.__eq__, lambda letter: False)


def spec_cover(
    a: tuple[str, ...],
    b: tuple[str, ...],
    star: str,
    covers: Callable[[str, str], bool],
    bars: Callable[[str], bool],
) -> bool:
    @cache
    def f(i: int, j: int) -> bool:
        if i == len(a):
            return j == len(b)
        if a[i] == star:
            return f(i + 1, j) or (j < len(b) and not bars(b[j]) and f(i, j + 1))
        return j < len(b) and b[j] != star and covers(a[i], b[j]) and f(i + 1, j + 1)

    return f(0, 0)


def letters(chunk: str) -> tuple[str, ...]:
    return tuple("$*" if letter == "*" else letter for letter in chunk if letter != "$")


def is_verbatim(chunk: str) -> bool:
    return chunk.startswith("@")


@given(similar)
def test_matching_equals_the_specification(pair: tuple[str, str]) -> None:
    a, b = pair
    assert intersects(a, b) == intersects(b, a) == spec_intersects(a, b)
    assert includes(a, b) == spec_includes(a, b)
    assert includes(b, a) == spec_includes(b, a)


@given(similar)
def test_relations_imply_each_other(pair: tuple[str, str]) -> None:
    a, b = pair
    assert includes(a, a)
    assert intersects(a, b) or not includes(a, b)
    assert (a == b) == (includes(a, b) and includes(b, a))


@given(any_text, any_text)
def test_matching_does_not_raise_for_any_text(a: str, b: str) -> None:
    assert intersects(a, b) in (True, False)
    assert includes(a, b) in (True, False)


# --- spelling -------------------------------------------------------------------------------------------------------


@given(any_text | st.text(st.characters()))
def test_any_text_is_canonicalized_or_rejected(text: str) -> None:
    try:
        canonical = canonicalize(text)
    except UsageError:
        with pytest.raises(UsageError):
            KeyExpr(text)
        return
    assert canonicalize(canonical) == canonical
    assert str(KeyExpr.autocanonize(text)) == str(KeyExpr(canonical)) == canonical
    if text != canonical:
        with pytest.raises(UsageError, match="canonical form"):
            KeyExpr(text)


@given(
    st.lists(st.sampled_from([*CHUNKS, "$*", "$*$*", "a$*$*b"]), min_size=1, max_size=6).map("/".join),
    st.lists(st.sampled_from(["a", "b", "ab", "c", "@a"]), min_size=1, max_size=6).map("/".join),
)
def test_canonical_form_keeps_the_set_of_keys(text: str, key: str) -> None:
    assert intersects(canonicalize(text), key) == spec_intersects(text, key)


@given(expressions, expressions)
def test_join_canonicalizes_and_concat_to_the_prefix_restores_the_expression(a: str, b: str) -> None:
    assert str(KeyExpr(a) / b) == canonicalize(f"{a}/{b}")
    prefix = KeyExpr(a).prefix
    if prefix is not None:
        assert not prefix.is_wild
        assert prefix.concat(a[len(str(prefix)) :]) == a


# --- eclipse-zenoh --------------------------------------------------------------------------------------------------


def test_matching_agrees_with_eclipse_zenoh() -> None:
    """Draws pairs from families of similar expressions, half of them within one family."""
    zenoh = pytest.importorskip("zenoh")
    print(f"seed {SEED}")
    dice = random.Random(SEED)
    family = 5
    texts = [text for _ in range(5_000) for text in relatives(dice, family)]
    theirs = [zenoh.KeyExpr(text) for text in texts]
    meetings = 0
    for _ in range(PAIRS):
        i = dice.randrange(len(texts))
        j = i // family * family + dice.randrange(family) if dice.random() < 0.5 else dice.randrange(len(texts))
        a, b = texts[i], texts[j]
        meets = theirs[i].intersects(theirs[j])
        assert intersects(a, b) == meets, (SEED, a, b)
        assert includes(a, b) == theirs[i].includes(theirs[j]), (SEED, a, b)
        assert includes(b, a) == theirs[j].includes(theirs[i]), (SEED, b, a)
        meetings += meets
    assert PAIRS // 10 < meetings < PAIRS - PAIRS // 10  # or the draw proves little


def relatives(dice: random.Random, count: int) -> list[str]:
    first = dice.choices(CHUNKS, k=dice.randint(1, 6))
    others = [
        [dice.choice([chunk, chunk, dice.choice(CHUNKS), "*", "**"]) for chunk in first] for _ in range(count - 1)
    ]
    return [canonicalize("/".join(parts)) for parts in [first, *others]]


def test_spelling_agrees_with_eclipse_zenoh() -> None:
    zenoh = pytest.importorskip("zenoh")

    def theirs(make: Callable[[str], object], text: str) -> str | None:
        try:
            return str(make(text))
        except zenoh.ZError:
            return None

    def ours(make: Callable[[str], object], text: str) -> str | None:
        try:
            return str(make(text))
        except UsageError:
            return None

    for size in range(6):
        for text in map("".join, product("a$*/@", repeat=size)):
            assert ours(KeyExpr, text) == theirs(zenoh.KeyExpr, text), text
            if "$*$*" not in text:  # 1.10.2 panics over some of these
                assert ours(KeyExpr.autocanonize, text) == theirs(zenoh.KeyExpr.autocanonize, text), text


# --- the tree -------------------------------------------------------------------------------------------------------


def assert_finds(tree: KeyTree[int], model: dict[str, int], query: str) -> None:
    """Compares with a list that is searched from one end to the other."""
    stored = sorted(model.items())
    assert sorted(tree.intersecting(query)) == [entry for entry in stored if intersects(entry[0], query)]
    assert sorted(tree.including(query)) == [entry for entry in stored if includes(entry[0], query)]
    assert sorted(tree.included(query)) == [entry for entry in stored if includes(query, entry[0])]


@given(st.lists(st.tuples(st.booleans(), expressions), max_size=40), st.lists(expressions, min_size=1, max_size=5))
def test_key_tree_equals_a_list_search_after_any_changes(changes: list[tuple[bool, str]], queries: list[str]) -> None:
    tree: KeyTree[int] = KeyTree()
    model: dict[str, int] = {}
    for value, (is_insert, text) in enumerate(changes):
        if is_insert:
            tree.insert(text, value)
            model[text] = value
        else:
            assert tree.remove(text) == model.pop(text, None)
        assert tree.get(text) == model.get(text)
        assert len(tree) == len(model)
    assert dict(tree.items()) == model
    for text in [*queries, *(text for _, text in changes)]:
        assert_finds(tree, model, text)


def test_large_key_tree_equals_a_list_search_after_random_changes() -> None:
    print(f"seed {SEED}")
    dice = random.Random(SEED)
    tree: KeyTree[int] = KeyTree()
    model: dict[str, int] = {}
    for turn in range(4_000):
        text = relatives(dice, 1)[0]
        if turn < 1_000 or dice.random() < 0.5:
            tree.insert(text, turn)
            model[text] = turn
        else:
            text = dice.choice(list(model))
            assert tree.remove(text) == model.pop(text)
        if turn % 50 == 0:
            assert_finds(tree, model, relatives(dice, 1)[0])
    for text in list(model):
        tree.remove(text)
    assert not tree.intersecting("**")
    assert len(tree) == 0
