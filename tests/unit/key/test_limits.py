"""Limits of key expressions, and that no expression within them makes a search long."""

from __future__ import annotations

import itertools
import random
from functools import partial

import pytest

from tests.steps import interpreted_key_tree, steps
from zenspark.key import KeyExpr
from zenspark.key.limits import ExceededLimit, KeyLimits
from zenspark.key.match import includes, intersects
from zenspark.key.tree import KeyTree

LIMITS = KeyLimits()
MOST_STEPS = 1_000_000
"""Lines of interpreted Python that the compiled code runs in less than 50 ms: it takes about 20 ns for each."""


@pytest.mark.parametrize(
    ("key", "excess"),
    [
        ("a" * 100, None),
        ("a" * 101, ExceededLimit("bytes", 101, 100)),
        ("é" * 50, None),
        ("é" * 51, ExceededLimit("bytes", 102, 100)),
        ("a/b/c/d", None),
        ("a/b/c/d/e", ExceededLimit("chunks", 5, 4)),
        ("*/a$*/**", None),
        ("*/a$*b$*/**", ExceededLimit("wildcards", 4, 3)),
        ("a/\ud800" + "a" * 200, ExceededLimit("bytes", 203, 100)),
    ],
)
def test_excess_names_the_exceeded_limit(key: str, excess: ExceededLimit | None) -> None:
    assert KeyLimits(bytes=100, chunks=4, wildcards=3).excess(key) == excess


def fitted(chunks: list[str]) -> str:
    """As many chunks from the beginning as the limits allow, in canonical form."""
    for count in range(min(len(chunks), LIMITS.chunks), 0, -1):
        key = str(KeyExpr.autocanonize("/".join(chunks[:count])))
        if LIMITS.excess(key) is None:
            return key
    raise AssertionError("the first chunk alone is too large")


LOOPS = fitted(["**", "a"] * (LIMITS.wildcards - 1))
STARS = fitted(["*", "a"] * (LIMITS.wildcards - 2))
DEEP = "/".join(["a"] * LIMITS.chunks)
WORST = {
    "loops and loops": (LOOPS + "/b", LOOPS + "/c"),
    "loops and a plain key": (LOOPS + "/b", DEEP),
    "one loop and a deep key": ("**/" + "/".join(["a"] * (LIMITS.chunks - 2)) + "/b", DEEP),
    "one loop on both sides": ("**/" + "/".join(["a"] * (LIMITS.chunks - 2)) + "/b", "**/" + DEEP[:-4] + "/c"),
    "stars": (STARS, "a/**/" + STARS.replace("*/a/*", "a/a/a", 1)),
    "a long chunk": ("$*" + "a" * 4000 + "b", "a" * 8000),
    "a long chunk in a loop": ("**/$*" + "a" * 60 + "b", "/".join(["a" * 62] * LIMITS.chunks)),
    "many globs": ("$*a" * 30 + "b", "a" * 8000),
}


@pytest.mark.parametrize("relation", ["intersecting", "including", "included"])
@pytest.mark.parametrize("pair", WORST.values(), ids=WORST)
def test_a_search_for_one_key_within_the_limits_takes_few_steps(pair: tuple[str, str], relation: str) -> None:
    module = interpreted_key_tree()
    for stored, query in (pair, pair[::-1]):
        assert LIMITS.excess(stored) is LIMITS.excess(query) is None
        tree = module.KeyTree()
        tree.insert(stored, 1)
        assert steps(partial(getattr(tree, relation), query)) < MOST_STEPS


def variants(chunks: int, count: int) -> list[str]:
    """Expressions that all match `a/a/...` for as long as possible, and differ from the first chunks on."""
    stars = itertools.product(("a", "*"), repeat=12)
    return [str(KeyExpr.autocanonize("/".join([*star, "**", *["a"] * (chunks - 14), "z"]))) for star in stars][:count]


CROWDS = {
    "wildcards before a loop": (variants(40, 10), DEEP),
    "plain keys below a loop": ([f"a/{number}/" + "/".join("a" * 20) for number in range(10)], LOOPS + "/z"),
    "texts in a loop": ([f"**/$*{'a' * 20}{number}$*" for number in range(10)], "/".join(["a" * 30] * LIMITS.chunks)),
}


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["intersecting", "including", "included"])
@pytest.mark.parametrize("crowd", CROWDS.values(), ids=CROWDS)
def test_a_search_takes_few_times_the_steps_of_comparing_all(crowd: tuple[list[str], str], relation: str) -> None:
    module = interpreted_key_tree()
    stored, query = crowd
    tree = module.KeyTree()
    for key in stored:
        tree.insert(key, 1)
    compared = steps(lambda: [module.intersects(key, query) for key in stored])
    assert steps(partial(getattr(tree, relation), query)) < 3 * compared + 50_000


def test_the_tree_finds_what_the_match_functions_find_in_the_worst_cases() -> None:
    tree: KeyTree[str] = KeyTree()
    crowds = {key for stored, query in CROWDS.values() for key in (*stored, query)}
    keys = sorted({key for pair in WORST.values() for key in pair} | crowds)
    for key in keys:
        tree.insert(key, key)
    for query in random.Random(12).sample(keys, 30):
        assert sorted(key for key, _ in tree.intersecting(query)) == [key for key in keys if intersects(key, query)]
        assert sorted(key for key, _ in tree.including(query)) == [key for key in keys if includes(key, query)]
        assert sorted(key for key, _ in tree.included(query)) == [key for key in keys if includes(query, key)]
