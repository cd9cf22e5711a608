"""Which paths are keys."""

from __future__ import annotations

import pytest

from zenspark.web.paths import PathKind, kind_of
from zenspark.web.settings import HttpSettings


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", PathKind.PAGE),
        ("/_app/x.js", PathKind.ASSET),
        ("/_api/node", PathKind.API),
        ("/_api", PathKind.API),
        ("/_api/login", PathKind.LOGIN),
        ("/metrics", PathKind.METRICS),
        ("/ready", PathKind.HEALTH),
        ("/metrics/a", PathKind.KEY),
        ("/_apis", PathKind.KEY),
        ("/demo/**", PathKind.KEY),
    ],
)
def test_path_is_of_a_reserved_kind_or_a_key(path: str, kind: PathKind) -> None:
    assert kind_of(path, HttpSettings()) is kind
    assert kind_of(path, HttpSettings(serve_page=False)) is PathKind.KEY
