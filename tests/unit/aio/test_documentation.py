"""Docstrings of the asyncio API."""

from __future__ import annotations

import inspect

from zenspark import aio
from zenspark.aio.documentation import document, set_return_type


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
