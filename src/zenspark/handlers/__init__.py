"""Delivery of samples, queries and replies to users: channels, callbacks, Arrow batches; `zenspark.handlers`."""

from zenspark.errors import ChannelClosed, ReceiveTimeout
from zenspark.handlers.handler import Callback, DefaultHandler, FifoChannel, Handler, RingChannel

__all__ = [
    "Callback",
    "ChannelClosed",
    "DefaultHandler",
    "FifoChannel",
    "Handler",
    "ReceiveTimeout",
    "RingChannel",
]
