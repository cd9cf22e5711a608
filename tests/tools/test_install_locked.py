from __future__ import annotations

from pathlib import Path

import pytest

from tools.install_locked import PIN, main, report_progress

LINES = [
    "Collecting anyio==4.16.0 (from -r requirements.lock (line 1))\n",
    "  Downloading anyio-4.16.0-py3-none-any.whl (100 kB)\n",
    "Requirement already satisfied: click==8.5.1 in ./lib (from -r requirements.lock (line 4))\n",
    "Installing collected packages: anyio\n",
]


def test_progress_on_a_terminal_counts_packages() -> None:
    found = "".join(report_progress(LINES, 40, is_terminal=True))
    assert "package 1 of at most 40: anyio" in found
    assert "package 2 of at most 40: click" in found
    assert found.endswith("setup: installing the packages\n")


def test_progress_in_a_log_is_a_line_now_and_then() -> None:
    found = list(report_progress(LINES[:1] * 25, 40, is_terminal=False))
    assert found == ["setup: package 10 of at most 40\n", "setup: package 20 of at most 40\n"]


def test_pip_that_fails_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("no such requirement\n")
    assert main([str(lock)]) != 0
    assert "requirement" in capsys.readouterr().err.lower()


def test_what_runs_is_installed_in_the_versions_that_are_tested() -> None:
    root = Path(__file__).resolve().parents[2]
    run, tests = (
        {line.split(" ")[0] for line in (root / name).read_text().splitlines() if PIN.match(line)}
        for name in ("requirements.lock", "requirements-dev.lock")
    )
    assert run <= tests
    assert not {"pytest", "mypy", "moto", "eclipse-zenoh"} & {pin.partition("==")[0] for pin in run}
