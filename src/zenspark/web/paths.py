"""Paths of the server: those of the page and its API, which shadow keys of the same name, and all others: keys."""

from __future__ import annotations

from enum import StrEnum

from zenspark.web.settings import HttpSettings


class PathKind(StrEnum):
    """Kind of a path; the values are labels of metrics."""

    PAGE = "page"
    ASSET = "asset"
    API = "api"
    LOGIN = "login"
    METRICS = "metrics"
    HEALTH = "health"
    KEY = "key"

    @property
    def is_api(self) -> bool:
        """Whether it is part of the page's API, whose errors are JSON."""
        return self in (PathKind.API, PathKind.LOGIN)


FIXED_PATHS = {
    "/": PathKind.PAGE,
    "/metrics": PathKind.METRICS,
    "/health": PathKind.HEALTH,
    "/ready": PathKind.HEALTH,
    "/_api/login": PathKind.LOGIN,
    "/_api/logout": PathKind.LOGIN,
}


def kind_of(path: str, settings: HttpSettings) -> PathKind:
    """Return the kind of a path on a server with these settings."""
    if not settings.serve_page:
        return PathKind.KEY
    if path in FIXED_PATHS:
        return FIXED_PATHS[path]
    if path.startswith("/_app/") or path == "/favicon.ico":
        return PathKind.ASSET
    if path == "/_api" or path.startswith("/_api/"):
        return PathKind.API
    return PathKind.KEY
