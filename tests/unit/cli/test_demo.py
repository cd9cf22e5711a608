from __future__ import annotations

import importlib.util
import sys
import webbrowser

import pytest

from zenspark.cli import demo, main, up
from zenspark.errors import UsageError


def test_demo_arguments_are_those_of_up_with_demo_and_lake() -> None:
    given = demo.parser().parse_args(["--for", "5s", "--http", "8001", "--http-write", "--no-open"])
    arguments = demo.build_up_arguments(given)
    assert arguments[:2] == ["--demo", "--lake"]
    flags = up.parser().parse_args(arguments)
    assert (flags.demo, flags.lake, flags.seconds) == (True, demo.DEMO_LAKE, "5s")
    assert (flags.http, flags.http_write, flags.open) == ("8001", True, False)
    assert "--open" in demo.build_up_arguments(demo.parser().parse_args([]))


def test_missing_image_library_names_the_demo_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'zenspark\[demo\]'"):
        demo.check_pictures()


def test_a_browser_is_opened_only_on_a_desktop(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def note(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", note)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("DISPLAY", raising=False)
    assert not demo.open_page("http://127.0.0.1:8000")
    monkeypatch.setenv("DISPLAY", ":0")
    assert demo.open_page("http://127.0.0.1:8000")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert not demo.open_page("http://127.0.0.1:8000")
    assert opened == ["http://127.0.0.1:8000"]


def test_mistakes_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--kilt"]) == 2
    assert "--kill" in capsys.readouterr().err
    assert main(["demo", "--kill", "--lake", "src"]) == 2
    assert "expected a directory that is empty" in capsys.readouterr().err
