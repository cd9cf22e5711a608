"""Opens the Zenoh session of a Spark task, or of a stream that records, as options of the source or sink specify."""

from __future__ import annotations

import json
from pathlib import Path

from zenspark.api.open import open as open_session
from zenspark.api.session import Session
from zenspark.config.config import Config
from zenspark.errors import LinkError, UsageError, ZError
from zenspark.spark.options import NetworkOptions


def connect_session(options: NetworkOptions) -> Session:
    """Open a Zenoh session; raises LinkError that names the endpoints if they cannot be reached."""
    try:
        return open_session(session_config(options))
    except ZError as error:
        where = ", ".join(options.connect + options.listen) or options.config or ""
        raise LinkError(where, f"no session as {options.role}: {error}") from error


def session_config(options: NetworkOptions) -> Config:
    """Make the configuration of a Zenoh session: the file, if given, overridden by the other options."""
    if options.config is not None and not Path(options.config).is_file():
        raise UsageError(f"option config: there is no file {options.config}")
    config = Config() if options.config is None else Config.from_file(options.config)
    if options.config is None:
        # endpoints are explicit: scouting could join unrelated networks
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
