"""Pending: the result of opening and declaring. `await` it for the object, or enter it with `async with`."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar


class Closable(Protocol):
    """An object that an `async with` block closes."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> object: ...


T = TypeVar("T", bound=Closable)


class Pending(Generic[T]):
    """An object that is opened or declared when this is awaited, or entered with `async with`, once.

    Example:
        >>> session = await zenspark.aio.open()
        >>> async with session.declare_subscriber("demo/**") as subscriber:
        ...     sample = await subscriber.recv()
    """

    __slots__ = ("_coroutine", "_entered")

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        """Wrap a coroutine that makes the object.

        Args:
            coroutine: It runs when this is awaited or entered.
        """
        self._coroutine = coroutine
        self._entered: T | None = None

    def __await__(self) -> Generator[Any, None, T]:
        return self._coroutine.__await__()

    async def __aenter__(self) -> T:
        self._entered = await self._coroutine
        return await self._entered.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._entered is not None
        await self._entered.__aexit__(kind, error, trace)
