"""Observers of the subscribers and queryables of a session."""

from __future__ import annotations

from zenspark.engine.match_observers import MatchObservers
from zenspark.router.face import DeclarationKind


class CountingObserver:
    def __init__(self) -> None:
        self.changes = 0

    def on_match_change(self) -> None:
        self.changes += 1


class LeavingObserver(CountingObserver):
    def __init__(self, observers: MatchObservers) -> None:
        super().__init__()
        self._observers = observers

    def on_match_change(self) -> None:
        super().on_match_change()
        self._observers.remove(DeclarationKind.SUBSCRIBER, self)


def test_observers_are_notified_of_their_kind_only() -> None:
    observers, observer = MatchObservers(), CountingObserver()
    observers.add(DeclarationKind.SUBSCRIBER, observer)
    observers.notify(DeclarationKind.SUBSCRIBER)
    observers.notify(DeclarationKind.QUERYABLE)
    assert observer.changes == 1


def test_removed_observers_are_not_notified() -> None:
    observers, observer = MatchObservers(), CountingObserver()
    observers.add(DeclarationKind.QUERYABLE, observer)
    observers.remove(DeclarationKind.QUERYABLE, observer)
    observers.remove(DeclarationKind.QUERYABLE, observer)
    observers.notify(DeclarationKind.QUERYABLE)
    assert (observer.changes, observers.count(DeclarationKind.QUERYABLE)) == (0, 0)


def test_an_observer_may_leave_while_it_is_notified() -> None:
    observers = MatchObservers()
    leaving = [LeavingObserver(observers) for _ in range(3)]
    for observer in leaving:
        observers.add(DeclarationKind.SUBSCRIBER, observer)
    observers.notify(DeclarationKind.SUBSCRIBER)
    observers.notify(DeclarationKind.SUBSCRIBER)
    assert [observer.changes for observer in leaving] == [1, 1, 1]
