import importlib
import runpy
import subprocess
import sys

import pytest

import zenspark


@pytest.mark.slow
def test_python_m_zenspark_runs_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "zenspark", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"zenspark {zenspark.__version__} ({zenspark.build_kind()})\n")


def test_exits_with_the_code_of_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["zenspark", "decode"])
    monkeypatch.delitem(sys.modules, "zenspark.__main__", raising=False)
    with pytest.raises(SystemExit) as exit:
        runpy.run_module("zenspark", run_name="__main__")
    assert exit.value.code == 2
    assert capsys.readouterr().err.startswith("zenspark decode: give HEX")


def test_does_nothing_when_it_is_only_imported(capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module("zenspark.__main__")
    assert capsys.readouterr().out == ""
