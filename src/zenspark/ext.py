"""`zenspark.ext`: serialization and what else scripts for eclipse-zenoh import from there."""

from zenspark.api.ext import *  # noqa: F403 - all of its names, and nothing else
