import copy
import pickle

import pytest

from zenspark.errors import UsageError
from zenspark.key import KeyExpr
from zenspark.types.selector import Parameters, Selector


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("", []),
        (";", []),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("a=1;b=2", [("a", "1"), ("b", "2")]),
        ("a=1;;b", [("a", "1"), ("b", "")]),
        ("a=1=2", [("a", "1=2")]),
        ("a=1&b=2", [("a", "1&b=2")]),
        (" a = 1 ", [(" a ", " 1 ")]),
        ("a=%20", [("a", "%20")]),
        ("a=1;a=2", [("a", "1"), ("a", "2")]),
        ("a;=x;b", [("a", ""), ("", "x"), ("b", "")]),
    ],
)
def test_parameters_are_items_of_a_text(text: str, items: list[tuple[str, str]]) -> None:
    parameters = Parameters(text)
    assert list(parameters) == items
    assert bool(parameters) is bool(items)
    assert parameters.is_empty() is not bool(items)
    first_values = dict(reversed(items))  # of a name that occurs twice the first value counts
    assert {name: parameters.get(name) for name, _ in items} == first_values
    assert {name: parameters[name] for name, _ in items} == first_values
    for name, value in first_values.items():
        assert name in parameters
        assert parameters.values(name) == value.split("|")


def test_the_first_value_of_a_repeated_name_counts() -> None:
    assert Parameters("a=1;a=2").get("a") == "1"


def test_missing_parameter_gives_none_or_the_default() -> None:
    parameters = Parameters("a=1")
    assert parameters.get("b") is None
    assert parameters["b"] is None
    assert parameters.get("b", "2") == "2"
    assert parameters.values("b") == []
    assert "b" not in parameters


def test_several_values_of_one_name() -> None:
    assert Parameters("a=1|2").values("a") == ["1", "2"]
    assert Parameters("a=|1|").values("a") == ["", "1"]


@pytest.mark.parametrize(
    ("text", "shown"), [("a=1;", "a=1"), ("a=1;;b=2;", "a=1;;b=2"), ("a=|", "a"), (";;a", ";;a"), ("=;|", "")]
)
def test_separators_at_the_end_are_dropped(text: str, shown: str) -> None:
    assert str(Parameters(text)) == shown


def test_parameters_are_made_from_a_dict() -> None:
    assert str(Parameters({"b": "1", "a": "", "": "x"})) == "b=1;a"
    assert str(Parameters(None)) == str(Parameters()) == str(Parameters({})) == ""
    same = Parameters("a=1")
    assert Parameters.of(same) is same
    assert Parameters.of("a=1") == Parameters.of({"a": "1"}) == same


@pytest.mark.parametrize("wrong", [3, ["a"], {"a": 1}, {1: "a"}])
def test_parameters_are_made_from_text_only(wrong: object) -> None:
    with pytest.raises(TypeError, match="expected a str, or a dict from str to str"):
        Parameters(wrong)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize(
    ("text", "key", "value", "old", "shown"),
    [
        ("a=1;b=2", "a", "3", "1", "b=2;a=3"),
        ("a=1;b=2", "c", "3", None, "a=1;b=2;c=3"),
        ("a=1;;b=;", "c", "", None, "a=1;b;c"),
        ("a=1;a=2;b=3", "a", "4", "1", "b=3;a=4"),
        ("=1;b=2", "", "x", "1", "b=2"),
    ],
)
def test_inserting_moves_a_name_to_the_end(text: str, key: str, value: str, old: str | None, shown: str) -> None:
    parameters = Parameters(text)
    assert parameters.insert(key, value) == old
    assert str(parameters) == shown


@pytest.mark.parametrize(
    ("text", "key", "old", "shown"),
    [
        ("a=1;b=2", "a", "1", "b=2"),
        ("a=1;a=2;b=3", "a", "1", "b=3"),
        ("b=1;;a", "z", None, "b=1;a"),
        ("b=", "b", "", ""),
    ],
)
def test_removing_gives_the_old_value(text: str, key: str, old: str | None, shown: str) -> None:
    parameters = Parameters(text)
    assert parameters.remove(key) == old
    assert str(parameters) == shown


@pytest.mark.parametrize(
    ("text", "other", "shown"),
    [
        ("a=1;b=2", "c=3", "a=1;b=2;c=3"),
        ("a=1;b=2", "b=3;a=9", "b=3;a=9"),
        ("a=1;;b=2", "", "a=1;b=2"),
        ("c=1;a=1;a=2", "b=1;b=2", "c=1;a=1;a=2;b=1;b=2"),
    ],
)
def test_extending_replaces_and_adds(text: str, other: str, shown: str) -> None:
    parameters = Parameters(text)
    parameters.extend(other)
    assert str(parameters) == shown


def test_names_and_values_are_text() -> None:
    parameters = Parameters("a=1")
    with pytest.raises(TypeError, match="expected a str, found 'int'"):
        parameters.get(3)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(TypeError, match="expected a str, found 'int'"):
        parameters.insert("a", 3)  # type: ignore[arg-type]  # that is the point
    assert str(parameters) == "a=1"


@pytest.mark.parametrize(("text", "ordered"), [("", True), ("a;b", True), ("a;a", True), ("b;a", False)])
def test_order_of_names(text: str, ordered: bool) -> None:
    assert Parameters(text).is_ordered() is ordered


def test_parameters_can_be_changed_while_they_are_read() -> None:
    parameters = Parameters("a=1;b=2")
    for name, _ in parameters:
        parameters.remove(name)
    assert parameters.is_empty()


def test_parameters_are_compared_by_text() -> None:
    parameters = Parameters("a=1")
    assert parameters == Parameters({"a": "1"}) != Parameters("a=2")
    assert parameters != "a=1"
    assert repr(parameters) == "Parameters('a=1')"
    assert pickle.loads(pickle.dumps(parameters)) == copy.copy(parameters) == parameters
    assert {parameters: 1, Parameters("a=1"): 2}[parameters] == 1


def test_selectors_and_parameters_are_found_in_dictionaries_after_a_change() -> None:
    """By identity, as those of eclipse-zenoh."""
    parameters, selector = Parameters("a=1"), Selector("a")
    found = {parameters: 1, selector: 2}
    parameters.insert("b", "2")
    selector.parameters = parameters
    assert (found[parameters], found[selector]) == (1, 2)


@pytest.mark.parametrize(
    ("selector", "shown"),
    [
        (Selector("a/b"), "a/b"),
        (Selector("a/b?"), "a/b"),
        (Selector("a/b?x=1;"), "a/b?x=1"),
        (Selector("a?b?c"), "a?b?c"),
        (Selector("a/b", "x=1"), "a/b?x=1"),
        (Selector("a/b", {"x": "1"}), "a/b?x=1"),
        (Selector("a/b", Parameters("x=1")), "a/b?x=1"),
        (Selector("a/b", ""), "a/b"),
        (Selector(KeyExpr("a/b")), "a/b"),
        (Selector(KeyExpr("a/*"), parameters="y"), "a/*?y"),
        (Selector("a", "?x=1"), "a??x=1"),
    ],
)
def test_selectors_are_key_and_parameters(selector: Selector, shown: str) -> None:
    assert str(selector) == shown
    assert repr(selector) == f"Selector({shown!r})"
    assert selector == Selector(shown)
    assert pickle.loads(pickle.dumps(selector)) == selector
    assert Selector.of(selector) is selector


def test_selectors_can_be_changed() -> None:
    selector = Selector("a/b?x=1")
    selector.parameters.insert("y", "2")
    assert str(selector) == "a/b?x=1"
    selector.key_expr = "c/**"
    selector.parameters = {"z": "1|"}
    assert selector.key_expr == KeyExpr("c/**")
    assert str(selector) == "c/**?z=1|"
    assert selector.parameters == Parameters({"z": "1|"})
    assert selector != "c/**?z=1|"
    assert Selector.of("c/d") == Selector(KeyExpr("c/d"))


@pytest.mark.parametrize("text", ["", "?a", "a//b", "a/b/", "a#"])
def test_selectors_need_a_key_expression(text: str) -> None:
    with pytest.raises(UsageError):
        Selector(text)


def test_selectors_reject_other_types() -> None:
    with pytest.raises(UsageError):
        Selector("a?b", "c")
    with pytest.raises(TypeError, match="expected a KeyExpr or a str, found 'Selector'"):
        Selector(Selector("a"))  # type: ignore[arg-type]  # that is the point
    with pytest.raises(TypeError):
        Selector("a", 3)  # type: ignore[arg-type]  # that is the point
