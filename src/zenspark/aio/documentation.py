"""Docstrings of the asyncio API, made from those of the synchronous methods that it wraps."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

EXAMPLE = "Example:"
INDENT = "    "
ASYNC_WORDS = {
    "`recv`, `try_recv` or a `for` loop": "`await recv()`, `try_recv()` or `async for`",
    "function that is called": "function or coroutine function that is called",
    "`with` block": "`async with` block",
    "unsent bytes, after the query is queued there.": "unsent bytes.",
    "BLOCK (the default) waits until they are taken, DROP and BLOCK_FIRST only if they exceed 4 MiB.": (
        "The task waits until they are taken, also with DROP and BLOCK_FIRST, before the query is sent."
    ),
}
"""Words of the synchronous docstrings, and those that say the same of the asynchronous methods."""
RETURNS = re.compile(r"^Returns:\n( +.*(\n|$))+", re.MULTILINE)


def document(
    wrapper: Callable[..., Any], method: Callable[..., Any], form: str, example: str, result: str | None = None
) -> None:
    """Give a wrapper the docstring of the method it wraps, with its asynchronous form and an example of that.

    Args:
        wrapper: The function to document.
        method: The synchronous method.
        form: Sentences about what to await, and what happens when the task is cancelled.
        example: Lines of Python.
        result: What it returns, if that is not what the method returns.
    """
    text = inspect.getdoc(method)
    if text is None:  # python -OO
        return
    summary, _, rest = text.partition("\n")
    details = rest.partition(f"\n{EXAMPLE}\n")[0].strip("\n")
    for words, async_words in ASYNC_WORDS.items():
        details = details.replace(words, async_words)
    if result is not None:
        details = RETURNS.sub(f"Returns:\n{INDENT}{result}\n", details).rstrip()
    lines = "\n".join(f"{INDENT}{'...' if line.startswith(' ') else '>>>'} {line}" for line in example.splitlines())
    wrapper.__doc__ = "\n\n".join(filter(None, [summary, form, details, f"{EXAMPLE}\n{lines}"]))


def set_return_type(wrapper: Callable[..., Any], method: Callable[..., Any], result: str) -> None:
    """Give a wrapper the signature of the method it wraps, with another return type."""
    signature = inspect.signature(method).replace(return_annotation=result)
    wrapper.__signature__ = signature  # type: ignore[attr-defined]
