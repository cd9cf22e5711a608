from pathlib import Path

import pytest

from tools.render_map import BEGIN, END, describe, list_places, renewed

CONTRACT = """
[[tool.importlinter.contracts]]
name = "each layer knows only the layers below it"
layers = ["(cli)", "(net) | (errors)"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(CONTRACT)
    for name, text in {
        "cli/__init__": "Commands.",
        "net/__init__": "Links.\n\nMore.",
        "net/io/__init__": "A\nB.",
    }.items():
        file = tmp_path / f"src/zenspark/{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'"""{text}"""\n')
    (tmp_path / "src/zenspark/errors.py").write_text('"""Every | exception."""\n')
    return tmp_path


def test_places_are_listed_by_layer_with_the_packages_inside(project: Path) -> None:
    assert list(list_places(project)) == [
        ("src/zenspark/cli/", "Commands."),
        ("src/zenspark/net/", "Links."),
        ("src/zenspark/net/io/", "A B."),
        ("src/zenspark/errors.py", "Every | exception."),
    ]


def test_the_table_is_put_between_its_marks(project: Path) -> None:
    text = renewed(f"before\n{BEGIN}old\n{END}after\n", project)
    assert text.startswith(f"before\n{BEGIN}| where | what |\n|---|---|\n| `src/zenspark/cli/` | Commands. |\n")
    assert text.endswith(f"| `src/zenspark/errors.py` | Every \\| exception. |\n{END}after\n")


def test_a_package_without_docstring_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = 1\n")
    with pytest.raises(SystemExit, match="has no docstring"):
        describe(file)
