"""`zenspark.ext`: serialization, advanced publishers and subscribers, where scripts for eclipse-zenoh import them."""

from zenspark.api.ext import *  # noqa: F403 - all of its names, and nothing else
from zenspark.api.ext import __all__ as __all__
