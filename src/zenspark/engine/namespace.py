"""Namespace: a prefix before every key a session sends, invisible to the session itself.

Keys get it in messages the session sends, and lose it in messages it receives; a message whose key does not match it
is not delivered. The admin space, below `@/`, is shared by all sessions and has none. Captured from eclipse-zenoh
1.10.2: a wildcard in a received key stands for the part of the prefix it matches, so with namespace `a/b` both `a/*/k`
and `a/b/k` are `k`, and `**` stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from zenspark.key.match import intersects
from zenspark.wire import messages
from zenspark.wire.message_schema import replace
from zenspark.wire.values import WireExpr

ADMIN_SPACE_PREFIX = "@"
DOUBLE_WILDCARD = "**"

M = TypeVar("M", bound=messages.NetworkMessage)


class Namespace:
    """The prefix of one session; none if it is empty."""

    def __init__(self, prefix: str | None) -> None:
        self._prefix = prefix or ""
        self._chunks = self._prefix.split("/")

    @property
    def is_used(self) -> bool:
        """Whether a namespace is configured."""
        return bool(self._prefix)

    def add_prefix(self, key: str) -> str:
        """Return a key of this session with the prefix."""
        return f"{self._prefix}/{key}" if self._prefix and not _is_admin(key) else key

    def strip_prefix(self, key: str) -> str | None:
        """Return a received key without the prefix; None if it is outside the namespace."""
        if not self._prefix or _is_admin(key):
            return key
        rest = key.split("/")
        for chunk in self._chunks:
            if rest and rest[0] == DOUBLE_WILDCARD:
                break
            if not rest or not intersects(rest[0], chunk):
                return None
            rest = rest[1:]
        return "/".join(rest) or None

    def add_to_message(self, message: M) -> M:
        """Return a message of this session with the prefix in its key."""
        if not self._prefix:
            return message
        changed = _with_key(message, self.add_prefix)
        assert changed is not None
        return changed

    def strip_from_message(self, message: M) -> M | None:
        """Return a received message without the prefix in its key; None if it is outside the namespace."""
        if not self._prefix or _is_error(message):
            return message
        return _with_key(message, self.strip_prefix)


def _is_error(message: messages.NetworkMessage) -> bool:
    """Return whether a message is an error reply: it is delivered whatever its key; that of a router has none."""
    return isinstance(message, messages.Response) and isinstance(message.body, messages.Err)


def _is_admin(key: str) -> bool:
    return key == ADMIN_SPACE_PREFIX or key.startswith(f"{ADMIN_SPACE_PREFIX}/")


def _with_key(message: M, change: Callable[[str], str | None]) -> M | None:
    """Return a message with its key changed; None if the new key is None. Messages without a key stay as they are."""
    expr = getattr(message.body if isinstance(message, messages.Declare) else message, "wire_expr", None)
    if not isinstance(expr, WireExpr):
        return message
    key = change(expr.suffix)
    if key is None:
        return None
    if isinstance(message, messages.Declare):
        return replace(message, body=replace(message.body, wire_expr=WireExpr(0, key)))
    return replace(message, wire_expr=WireExpr(0, key))
