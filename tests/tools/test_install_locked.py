from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import install_locked
from tools.install_locked import PIN, UV_ENTRY, main, report_progress

ROOT = Path(__file__).resolve().parents[2]

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


def test_runtime_lock_is_a_subset_of_the_development_lock() -> None:
    run, tests = (
        {line.split(" ")[0] for line in (ROOT / name).read_text().splitlines() if PIN.match(line)}
        for name in ("requirements.lock", "requirements-dev.lock")
    )
    assert run <= tests
    assert not {"pytest", "mypy", "moto", "eclipse-zenoh"} & {pin.partition("==")[0] for pin in run}


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_lock_files_name_uv_with_its_hashes(name: str) -> None:
    entry = UV_ENTRY.search((ROOT / name).read_text())
    assert entry is not None
    version, *hashes = entry[0].splitlines()
    assert re.fullmatch(r"uv==\d+\.\d+\.\d+ \\", version)
    assert len(hashes) > 5
    assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in hashes)


def test_pip_installs_what_uv_cannot_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("# no packages\n")
    monkeypatch.setattr(install_locked, "is_uv_installed", lambda _: True)
    monkeypatch.setattr(install_locked, "UV", ["sh", "-c", "echo registry is not reached >&2; exit 1"])
    assert main([str(lock)]) == 0
    assert "uv failed, pip installs the packages: registry is not reached" in capsys.readouterr().out
