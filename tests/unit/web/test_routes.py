"""The page and its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.web.served import opened, send_request, serving
from zenspark.web import routes


def test_built_page_and_its_assets_are_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "index.html").write_text("<!doctype html><title>zenspark</title>")
    (tmp_path / "app.js").write_text("1")
    (tmp_path / "favicon.svg").write_text("<svg/>")
    monkeypatch.setattr(routes, "STATIC", tmp_path)
    with opened() as session, serving(session) as server:
        page = send_request(server, "/")
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert page.headers["cache-control"] == "no-cache"
        asset = send_request(server, "/_app/app.js")
        assert (asset.status, asset.body, "no-store" in asset.headers.get("cache-control", "")) == (200, b"1", False)
        assert send_request(server, "/favicon.ico").headers["content-type"] == "image/svg+xml"


def test_missing_page_names_the_build_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "STATIC", tmp_path / "nothing")
    with opened() as session, serving(session) as server:
        assert b"make page" in send_request(server, "/").body
        assert send_request(server, "/_app/app.js").status == 404
        assert send_request(server, "/favicon.ico").status == 204
