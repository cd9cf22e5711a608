"""Logs received and sent messages at debug level: declarations, interests, queries and replies, with their ids.

Publications are not logged: there are too many. Keys are shortened and quoted, because neighbours choose them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from zenspark.router.face import Face
from zenspark.wire.messages import Declare, Interest, NetworkMessage, Push, Request, Response
from zenspark.wire.values import WireExpr

logger = logging.getLogger("zenspark.net.messages")

MAX_KEY_CHARACTERS = 200
"""Characters of a key that are logged: keys can have 65,535 bytes."""


def is_enabled() -> bool:
    """Return whether messages are logged; checked before any other work is done for that."""
    return logger.isEnabledFor(logging.DEBUG)


def log_received(face: Face, message: NetworkMessage) -> None:
    """Log a message received from a neighbour."""
    logger.debug("received from %s: %s", face, format_message(message, face.resolve))


def log_sent(face: Face, message: NetworkMessage) -> None:
    """Log a message sent to a neighbour, unless it is a publication."""
    if not isinstance(message, Push):
        logger.debug("sent to %s: %s", face, format_message(message, face.resolve_outgoing))


def format_message(message: NetworkMessage, resolve: Callable[[WireExpr], str | None]) -> str:
    """Format a message as one line: its type, id, and key."""
    part = message.body if isinstance(message, Declare) else message
    words = [type(part).__name__]
    message_id = getattr(part, "request_id", None) or getattr(part, "id", None)
    if message_id is not None:
        words.append(f"id={message_id}")
    expr = getattr(part, "wire_expr", None) or getattr(part, "ext_wire_expr", None)
    if isinstance(expr, WireExpr):
        key = resolve(expr)
        words.append(f"key={'?' if key is None else repr(key[:MAX_KEY_CHARACTERS])}")
    if isinstance(message, Interest):
        words.append(f"mode={message.mode.name}")
    if isinstance(message, Request) and message.body.parameters:
        words.append(f"parameters={message.body.parameters[:MAX_KEY_CHARACTERS]!r}")
    if isinstance(message, Declare) and message.interest_id is not None:
        words.append(f"for interest {message.interest_id}")
    if isinstance(message, Response):
        words.append(type(message.body).__name__)
    return " ".join(words)
