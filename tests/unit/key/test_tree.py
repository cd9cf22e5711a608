"""The tree of values by key expression: what it stores, what it finds, and what it leaves behind."""

import gc
import itertools

import pytest

from zenspark.key import KeyExpr, tree
from zenspark.key.match import includes, intersects
from zenspark.key.tree import KeyTree

# Every kind of chunk at every place, with several children of each kind and entries that end where others go on.
PARTS = ["a", "ab", "*", "**", "a$*", "$*b", "@a", "@a$*"]
EXPRESSIONS = [
    "/".join(parts)
    for size in (1, 2, 3)
    for parts in itertools.product(PARTS, repeat=size)
    if "**/*" not in "/".join(parts)
]


def make_tree(expressions: list[str]) -> KeyTree[str]:
    made: KeyTree[str] = KeyTree()
    for expression in expressions:
        made.insert(expression, f"value of {expression}")
    return made


def texts(found: list[tuple[str, str]]) -> list[str]:
    assert all(value == f"value of {text}" for text, value in found)
    return sorted(text for text, _ in found)


def test_key_tree_finds_what_the_match_functions_find() -> None:
    stored = sorted(EXPRESSIONS)
    made = make_tree(EXPRESSIONS)
    for query in [*EXPRESSIONS[::7], "a/ab/c", "c", "a/c/@a/ab", "**/ab/@a", "ab/**/a/**", "**/a/**/@a/**", "$*c$*/c"]:
        assert texts(made.intersecting(query)) == [text for text in stored if intersects(text, query)], query
        assert texts(made.including(query)) == [text for text in stored if includes(text, query)], query
        assert texts(made.included(query)) == [text for text in stored if includes(query, text)], query


def test_each_expression_comes_once() -> None:
    made = make_tree(["**/a/**", "**/a/**/a/**", "a/a/a", "a", "**"])
    assert texts(made.intersecting("a/a/a/a")) == ["**", "**/a/**", "**/a/**/a/**"]
    assert texts(made.intersecting("**/a/**/a/**")) == ["**", "**/a/**", "**/a/**/a/**", "a/a/a"]
    assert texts(made.included("**/a/**")) == ["**/a/**", "**/a/**/a/**", "a", "a/a/a"]


def test_key_tree_behaves_like_a_mapping() -> None:
    made: KeyTree[int] = KeyTree()
    made.insert("a/*", 1)
    made.insert(KeyExpr("a/b"), 2)
    made.insert("a/*", 3)
    assert len(made) == 2
    assert list(made) == ["a/*", "a/b"]
    assert dict(made.items()) == {"a/*": 3, "a/b": 2}
    assert "a/b" in made
    assert KeyExpr("a/*") in made
    assert "a" not in made
    assert made.get("a/*") == made.get(KeyExpr("a/*")) == 3
    assert made.get("a") is None
    assert made.intersecting(KeyExpr("a/b")) == [("a/b", 2), ("a/*", 3)]
    assert made.including(KeyExpr("a/b")) == [("a/b", 2), ("a/*", 3)]
    assert made.included(KeyExpr("a/**")) == [("a/*", 3), ("a/b", 2)]


def test_none_is_a_value() -> None:
    made: KeyTree[None] = KeyTree()
    made.insert("a/*", None)
    made.insert("a", None)
    assert made.intersecting("a/b") == [("a/*", None)]
    assert made.included("a") == [("a", None)]
    assert made.remove("a") is None
    assert "a" not in made


def test_search_result_is_not_changed_by_removals() -> None:
    made = make_tree(["a/*", "a/**"])
    for text, _ in made.intersecting("a/b"):
        made.remove(text)
    assert not made.intersecting("a/b")


@pytest.mark.parametrize("order", [1, -1])
def test_removed_expressions_are_not_found(order: int) -> None:
    made = make_tree(EXPRESSIONS)
    left = set(EXPRESSIONS)
    for expression in EXPRESSIONS[::order]:
        assert made.remove(expression) == f"value of {expression}"
        left.remove(expression)
        assert made.get(expression) is None
        assert expression not in texts(made.intersecting(expression))
        if len(left) % 50 == 0:
            assert set(texts(made.included("**"))) == {text for text in left if includes("**", text)}
    assert len(made) == 0
    assert list(made.items()) == []


@pytest.mark.parametrize("absent", ["a", "a/b/c", "a/b/c/d/e", "a/*", "x", "**"])
def test_removing_an_absent_expression_returns_none(absent: str) -> None:
    made = make_tree(["a/b/c/d"])
    assert made.remove(absent) is None
    assert texts(made.included("**")) == ["a/b/c/d"]


def count_nodes() -> int:
    gc.collect()  # trees of other tests that are garbage
    return sum(isinstance(thing, tree._Node) for thing in gc.get_objects())


def test_removal_leaves_no_nodes() -> None:
    made = make_tree(["a"])
    before = count_nodes()
    for expression in EXPRESSIONS:
        made.insert(expression, "")
    assert count_nodes() > before
    for expression in EXPRESSIONS:
        made.remove(expression)
    assert count_nodes() == before


@pytest.mark.slow
@pytest.mark.parametrize("chunk", ["a", "*", "a$*", "@a"])
def test_depth_has_no_limit(chunk: str) -> None:
    deep = "/".join([chunk] * 10_000)
    made = make_tree([deep, deep + "/**"])
    assert texts(made.intersecting(deep)) == [deep, deep + "/**"]
    assert texts(made.including(deep + "/**")) == [deep + "/**"]
    assert texts(made.included(chunk + "/**")) == ([] if chunk == "@a" else [deep, deep + "/**"])
    made.remove(deep)
    made.remove(deep + "/**")
    assert len(made) == 0


@pytest.mark.slow
def test_freeing_a_deep_tree_does_not_overflow_the_stack() -> None:
    """Takes no stack: the nodes are freed one below the other."""
    for chunk in ("a", "*"):
        made = make_tree(["/".join([chunk] * 100_000)])
        del made


def test_many_children_of_one_node() -> None:
    made = make_tree([f"a/{number}" for number in range(100)] + [f"a/{number}$*" for number in range(100)])
    assert texts(made.intersecting("a/42")) == ["a/4$*", "a/42", "a/42$*"]
    assert len(made.intersecting("a/*")) == 200
    for number in range(97):
        made.remove(f"a/{number}")
    assert texts(made.intersecting("a/9$*"))[:3] == ["a/9$*", "a/90$*", "a/91$*"]
    assert texts(made.included("a/$*8")) == ["a/98"]
