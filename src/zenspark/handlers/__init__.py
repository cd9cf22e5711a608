"""`zenspark.handlers`: how users receive, where scripts for eclipse-zenoh import it."""

from zenspark.handlers.handler import Callback, DefaultHandler, FifoChannel, Handler, RingChannel

__all__ = ["Callback", "DefaultHandler", "FifoChannel", "Handler", "RingChannel"]
