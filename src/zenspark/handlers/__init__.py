"""Delivery of samples, queries and replies to users: channels, callbacks, Arrow batches; `zenspark.handlers`."""

from zenspark.handlers.handler import Callback, DefaultHandler, FifoChannel, Handler, RingChannel

__all__ = ["Callback", "DefaultHandler", "FifoChannel", "Handler", "RingChannel"]
