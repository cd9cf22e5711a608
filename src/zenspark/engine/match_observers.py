"""MatchObservers: notified when subscribers or queryables of this session are declared or undeclared."""

from __future__ import annotations

from typing import Protocol

from zenspark.router.face import DeclarationKind


class MatchObserver(Protocol):
    """Tracks whether entities match a publisher or querier."""

    def on_match_change(self) -> None: ...


class MatchObservers:
    """The observers of one session, by the kind of entity they track. Guarded by the node's lock."""

    def __init__(self) -> None:
        self._observers: dict[DeclarationKind, set[MatchObserver]] = {kind: set() for kind in DeclarationKind}

    def add(self, kind: DeclarationKind, observer: MatchObserver) -> None:
        """Notify an observer from now on."""
        self._observers[kind].add(observer)

    def remove(self, kind: DeclarationKind, observer: MatchObserver) -> None:
        """Notify an observer no longer."""
        self._observers[kind].discard(observer)

    def notify(self, kind: DeclarationKind) -> None:
        """Notify every observer of a kind."""
        for observer in list(self._observers[kind]):
            observer.on_match_change()

    def count(self, kind: DeclarationKind) -> int:
        """Return the number of observers of a kind."""
        return len(self._observers[kind])
