"""Docstrings of the asyncio API."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import zenspark
from tests.unit.public_api import public_members
from zenspark import aio
from zenspark.aio.documentation import document, set_return_type
from zenspark.api import _signatures


def sync(key: str) -> int:
    """Count a key.

    Args:
        key: The key.

    Returns:
        How many.

    Example:
        >>> sync("a")
        3
    """
    return len(key)


def test_form_and_example_replace_those_of_the_synchronous_method() -> None:
    async def wrapper(key: str) -> int:
        return sync(key)

    document(wrapper, sync, "`await` it.", "for key in keys:\n    await count(key)", "A future.")
    assert inspect.getdoc(wrapper) == (
        "Count a key.\n\n`await` it.\n\nArgs:\n    key: The key.\n\nReturns:\n    A future.\n\n"
        "Example:\n    >>> for key in keys:\n    ...     await count(key)"
    )


def test_words_of_the_synchronous_docstring_become_asynchronous() -> None:
    def method() -> None:
        """Receive.

        Args:
            handler: A function that is called with each item.

        Returns:
            The receiver: use `recv`, `try_recv` or a `for` loop; it ends with its `with` block.
        """

    async def wrapper() -> None: ...

    document(wrapper, method, "`await` it.", "await receive()")
    text = inspect.getdoc(wrapper) or ""
    assert "A function or coroutine function that is called with each item." in text
    assert "use `await recv()`, `try_recv()` or `async for`; it ends with its `async with` block." in text


def test_nothing_is_documented_without_docstrings() -> None:
    def wrapper() -> None: ...

    document(wrapper, wrapper, "`await` it.", "await count()")
    assert wrapper.__doc__ is None


def test_signature_has_the_asynchronous_result() -> None:
    def wrapper(*args: object) -> None: ...

    set_return_type(wrapper, sync, "Pending[int]")
    assert str(inspect.signature(wrapper)).replace("'", "") == "(key: str) -> Pending[int]"


def test_methods_of_a_session_show_their_asynchronous_form() -> None:
    for method, form in (
        (aio.Session.put, "await session.put("),
        (aio.Session.get, "async for reply in session.get("),
        (aio.Session.declare_subscriber, "async with session.declare_subscriber("),
        (aio.Publisher.put_batch, "await publisher.put_batch("),
    ):
        text = inspect.getdoc(method)
        assert text is not None
        assert form in text
        assert "Args:" in text


# --- what type checkers and editors see -----------------------------------------------------------

PACKAGE = Path(zenspark.__file__).parent


Definition = ast.FunctionDef | ast.AsyncFunctionDef


class TypedMethod(NamedTuple):
    """A method of the asyncio API as type checkers see it, and what it is when the program runs."""

    overloads: list[Definition]
    implementation: Definition
    runtime: Any


def typed_methods() -> Iterator[tuple[str, TypedMethod]]:
    """Yield the methods in the TYPE_CHECKING blocks of `zenspark.aio`, by name."""
    for path in sorted((PACKAGE / "aio").glob("*.py")):
        module = importlib.import_module(f"zenspark.aio.{path.stem}")
        for owner in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(owner, ast.ClassDef):
                for node in owner.body:
                    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                        definitions = [each for each in node.body if isinstance(each, Definition)]
                        for name, group in groupby(definitions, lambda each: each.name):
                            *overloads, last = group
                            runtime = getattr(getattr(module, owner.name), name)
                            yield f"{owner.name}.{name}", TypedMethod(overloads, last, runtime)


TYPED = dict(typed_methods())
WITH_HANDLERS = sorted(name for name, method in TYPED.items() if method.overloads)
PUBLIC_METHODS = {
    f"{name}.{member_name}": getattr(owner, member_name)
    for name in aio.__all__
    if inspect.isclass(owner := getattr(aio, name))
    for member_name, member in public_members(owner)
    if inspect.isfunction(member)
}


def synchronous(method: TypedMethod) -> list[ast.FunctionDef]:
    """Return the definitions of the synchronous method that is wrapped: its overloads, and last the implementation."""
    wrapped = inspect.unwrap(method.runtime)
    path = PACKAGE.joinpath(*wrapped.__module__.split(".")[1:]).with_suffix(".py")
    owner, name = wrapped.__qualname__.split(".")
    classes = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]
    (found,) = [node for node in classes if node.name == owner]
    return [node for node in found.body if isinstance(node, ast.FunctionDef) and node.name == name]


def test_all_methods_with_handlers_have_overloads() -> None:
    assert WITH_HANDLERS == [
        "Liveliness.declare_subscriber",
        "Liveliness.get",
        "Matcher.declare_matching_listener",
        "Querier.get",
        "Session.declare_queryable",
        "Session.declare_subscriber",
        "Session.get",
        "SessionInfo.declare_link_events_listener",
        "SessionInfo.declare_neighbour_events_listener",
        "SessionInfo.declare_transport_events_listener",
    ]


@pytest.mark.parametrize("name", WITH_HANDLERS)
def test_overloads_have_the_parameters_of_the_synchronous_overloads(name: str) -> None:
    """Names, types and defaults; handlers that make their own sink are for zenspark itself."""
    *overloads, _ = [ast.unparse(node.args) for node in synchronous(TYPED[name])]
    expected = [arguments for arguments in overloads if "BindableHandler" not in arguments]
    assert [ast.unparse(node.args) for node in TYPED[name].overloads] == expected


@pytest.mark.parametrize("name", sorted(TYPED))
def test_typed_implementation_has_the_parameters_of_the_synchronous_method(name: str) -> None:
    given, expected = TYPED[name].implementation.args, synchronous(TYPED[name])[-1].args
    if given.kwarg is None:
        assert ast.unparse(given) == ast.unparse(expected)
        return
    assert given.kwarg.annotation is not None
    options = ast.unparse(given.kwarg.annotation).removeprefix("Unpack[").removesuffix("]")
    assert list(vars(_signatures)[options].__annotations__) == [each.arg for each in expected.kwonlyargs]
    assert {ast.unparse(default) for default in expected.kw_defaults if default} == {"None"}
    assert _positional(given) == _positional(expected)


def _positional(arguments: ast.arguments) -> str:
    return ast.unparse(ast.arguments(arguments.posonlyargs, arguments.args, None, [], [], None, arguments.defaults))


@pytest.mark.parametrize("name", sorted(set(TYPED) - set(WITH_HANDLERS)))
def test_typed_implementation_has_the_result_of_the_method(name: str) -> None:
    implementation, runtime = TYPED[name].implementation, TYPED[name].runtime
    assert implementation.returns is not None
    assert ast.unparse(implementation.returns) == str(inspect.signature(runtime).return_annotation)
    assert isinstance(implementation, ast.AsyncFunctionDef) == inspect.iscoroutinefunction(runtime)


def test_methods_made_from_synchronous_ones_are_typed() -> None:
    """Editors show of a method without a definition of its own the docstring of the synchronous one."""
    made = {method for method in PUBLIC_METHODS.values() if hasattr(method, "__wrapped__")}
    assert made == {method.runtime for method in TYPED.values()}
    assert {PUBLIC_METHODS[name] for name in ("Session.put", "Publisher.put_batch", "Query.reply_err")} <= made


@pytest.mark.parametrize("name", sorted(TYPED))
def test_editors_show_the_docstring_that_help_shows(name: str) -> None:
    shown = ast.get_docstring(TYPED[name].implementation) or ""
    assert shown.split() == (inspect.getdoc(TYPED[name].runtime) or "").split()
