"""A project of one function and one test, for tools that change code and run tests."""

from pathlib import Path

SOURCE = "def double(value):\n    return value * 2\n"
TEST = """\
from zenspark.double import double

def test_double(): assert double(2) == 4
def test_zero(): assert double(0) == 0
"""
FILE = "src/zenspark/double.py"
STRONG, WEAK = "tests/unit/test_double.py::test_double", "tests/unit/test_double.py::test_zero"


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def small_project(root: Path) -> Path:
    write(root / FILE, SOURCE)
    write(root / "src/zenspark/__init__.py", "")
    write(root / "tests/unit/test_double.py", TEST)
    write(root / "pyproject.toml", "[tool.pytest.ini_options]\naddopts = ['--import-mode=importlib']\n")
    return root
