"""SubscriberDeclarations: declares the subscribers of a session to the router, one by one or aggregated."""

from __future__ import annotations

from collections.abc import Iterable
from threading import RLock

from zenspark.engine.aggregation import DeclarationAggregation
from zenspark.engine.match_observers import MatchObservers
from zenspark.engine.receive_backpressure import ReceiveBackpressure
from zenspark.engine.session_sender import SessionSender
from zenspark.engine.subscriptions import Subscription, Subscriptions
from zenspark.router.face import DeclarationKind
from zenspark.types.enums import Locality
from zenspark.wire import messages
from zenspark.wire.values import WireExpr


class SubscriberDeclarations:
    """The declarations of the subscribers of one session, and their entries in its `Subscriptions`."""

    def __init__(
        self,
        lock: RLock,
        sender: SessionSender,
        subscriptions: Subscriptions,
        backpressure: ReceiveBackpressure,
        observers: MatchObservers,
        aggregated: Iterable[str] = (),
    ) -> None:
        self._lock = lock
        self._sender = sender
        self._subscriptions = subscriptions
        self._backpressure = backpressure
        self._observers = observers
        self._aggregation = DeclarationAggregation(aggregated)

    def declare(self, subscription: Subscription) -> None:
        """Deliver to a subscriber from now on, and declare it unless it is local to the session."""
        with self._lock:
            self._subscriptions.add(subscription)
            self._backpressure.add(subscription.sink, f"subscriber on {subscription.key_expr}")
            if subscription.origin is not Locality.SESSION_LOCAL:
                declaration = self._aggregation.join(subscription.id, subscription.key_expr)
                if declaration is not None:
                    declaration_id, key_expr = declaration
                    expr = WireExpr(0, str(key_expr))
                    self._sender.declare(messages.DeclareSubscriber(id=declaration_id, wire_expr=expr))
            self._observers.notify(DeclarationKind.SUBSCRIBER)

    def undeclare(self, subscription: Subscription) -> None:
        """Stop delivering to a subscriber, undeclare it, and close its sink."""
        with self._lock:
            self._subscriptions.remove(subscription)
            if subscription.origin is not Locality.SESSION_LOCAL:
                declaration_id = self._aggregation.leave(subscription.id, subscription.key_expr)
                if declaration_id is not None:
                    self._sender.declare(messages.UndeclareSubscriber(id=declaration_id))
            self._observers.notify(DeclarationKind.SUBSCRIBER)
            self._backpressure.remove(subscription.sink)
        subscription.sink.close()
