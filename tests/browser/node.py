"""A node with its page, in a process of its own: `python -m tests.browser.node SETTINGS`, JSON as in `NodeSettings`.

It is a router. With a lake it is what `zenspark up` is: it records, ingests with Spark, replies to queries for the past
and runs SQL. It prints the URL of its page, and ends at end of file on standard input.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import msgspec

from zenspark.api.open import open as open_session
from zenspark.config.config import Config
from zenspark.web.server import HttpServer
from zenspark.web.settings import HttpSettings


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a node of these tests is."""

    zid: str
    listen: str
    http_port: int = 0
    connect: list[str] = []
    lake: str | None = None
    ingest: bool = True
    """Whether Spark writes what is recorded to the lake."""
    write: bool = True
    token: str | None = None
    user: str | None = None
    password: str | None = None

    def config(self) -> Config:
        """Return the configuration of the session."""
        config = Config.from_json5('{mode: "router", scouting: {multicast: {enabled: false}}}')
        config.insert_json5("id", json.dumps(self.zid))
        config.insert_json5("listen/endpoints", json.dumps([self.listen]))
        config.insert_json5("connect/endpoints", json.dumps(self.connect))
        config.insert_json5("adminspace/enabled", "true")
        config.insert_json5("timestamping/enabled", "true")
        return config

    def http(self) -> HttpSettings:
        """Return the settings of the page."""
        return HttpSettings(
            address=("127.0.0.1", self.http_port),
            write=self.write,
            token=self.token,
            user=self.user,
            password=self.password,
        )


def run(settings: NodeSettings) -> None:
    """Serve until end of file on standard input."""
    with contextlib.ExitStack() as stack:
        if settings.lake is None:
            session = stack.enter_context(open_session(settings.config()))
            server = stack.enter_context(HttpServer(session, settings.http()))
        else:
            server = stack.enter_context(_serve_pipeline(settings, settings.lake, stack))
        print(server.url, flush=True)
        sys.stdin.read()


def _serve_pipeline(settings: NodeSettings, lake: str, stack: contextlib.ExitStack) -> HttpServer:
    # imported here: a node without a lake needs no Spark
    from zenspark.lake import Lake
    from zenspark.spark.ingest.settings import IngestSettings
    from zenspark.spark.pipeline.job import Job
    from zenspark.sql.engine import Engine
    from zenspark.storage.settings import StorageSettings

    storage = StorageSettings(name="all", key_exprs=("**",), lake=lake, journal=Path(lake) / "_journal")
    job = stack.enter_context(contextlib.closing(Job(settings.config(), [storage])))
    job.record()
    if settings.ingest:
        job.ingest({lake: IngestSettings(master="local[1]")})
    engine = Engine(Lake(lake)) if settings.ingest else None
    return HttpServer(job.session, settings.http(), job, engine)


if __name__ == "__main__":
    run(msgspec.json.decode(sys.argv[1], type=NodeSettings))
