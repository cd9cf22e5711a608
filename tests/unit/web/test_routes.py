"""The page and its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.web.served import ask, opened, serving
from zenspark.web import routes


def test_the_page_that_was_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "index.html").write_text("<!doctype html><title>zenspark</title>")
    (tmp_path / "app.js").write_text("1")
    (tmp_path / "favicon.svg").write_text("<svg/>")
    monkeypatch.setattr(routes, "STATIC", tmp_path)
    with opened() as session, serving(session) as server:
        page = ask(server, "/")
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert page.headers["cache-control"] == "no-cache"
        asset = ask(server, "/_app/app.js")
        assert (asset.status, asset.body, "no-store" in asset.headers.get("cache-control", "")) == (200, b"1", False)
        assert ask(server, "/favicon.ico").headers["content-type"] == "image/svg+xml"


def test_a_page_that_was_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "STATIC", tmp_path / "nothing")
    with opened() as session, serving(session) as server:
        assert b"make page" in ask(server, "/").body
        assert ask(server, "/_app/app.js").status == 404
        assert ask(server, "/favicon.ico").status == 204
