"""A session for a task or a query, from the options that say where."""

from __future__ import annotations

import json
from pathlib import Path

from zenspark.api.open import open as open_session
from zenspark.api.session import Session
from zenspark.config.config import Config
from zenspark.errors import LinkError, UsageError, ZError
from zenspark.spark.options import Network


def opened(options: Network) -> Session:
    """Opens a session as told; an endpoint that cannot be reached is an error that names it."""
    try:
        return open_session(config_of(options))
    except ZError as error:
        where = ", ".join(options.connect + options.listen) or options.config or ""
        raise LinkError(where, f"no session as {options.role}: {error}") from error


def config_of(options: Network) -> Config:
    """The configuration of a session: that of the file if one is named, with the other options in place of its own."""
    if options.config is not None and not Path(options.config).is_file():
        raise UsageError(f"option config: there is no file {options.config}")
    config = Config() if options.config is None else Config.from_file(options.config)
    if options.config is None:
        # whom to talk to is said: looking for others would join networks that nobody meant
        config.insert_json5("scouting/multicast/enabled", "false")
        config.insert_json5("listen/endpoints", "[]")
    if options.config is None or options.mode is not None:
        config.insert_json5("mode", json.dumps(options.role))
    if options.connect:
        config.insert_json5("connect/endpoints", json.dumps(options.connect))
        config.insert_json5("connect/exit_on_failure", "true")
    if options.listen:
        config.insert_json5("listen/endpoints", json.dumps(options.listen))
    return config
