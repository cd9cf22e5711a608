"""Pending: what opening and declaring give. `await` it for the thing itself, or enter it with `async with`."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar


class Closable(Protocol):
    """Something an `async with` block ends."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> object: ...


T = TypeVar("T", bound=Closable)


class Pending(Generic[T]):
    """Something on its way; nothing happens before it is awaited or entered, once."""

    __slots__ = ("_coroutine", "_entered")

    def __init__(self, coming: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coming
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
