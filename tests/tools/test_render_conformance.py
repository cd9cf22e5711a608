from pathlib import Path

import pytest

from tools.conformance import Mutation, Page, Row, Section
from tools.render_conformance import BEGIN, END, TARGET, main, renewed

MUTATION = Mutation("src/put.py", "1", "2")
PAGE = Page(
    Path("tests/conformance/push.toml"),
    title="Push",
    about="PUSH, PUT and DEL.",
    sections=(
        Section("PUT", (Row("PU-1", "header `Z|E|T`", "shown", ("tests/a.py::test_a",), mutations=(MUTATION,)),)),
        Section(
            "DEL",
            (
                Row(
                    "PU-2",
                    "a timestamp",
                    "differs",
                    ("tests/a.py::test_a", "tests/b.py::test_b"),
                    note="and so on",
                    place="21.18",
                    eclipse="no length, `21 f99e`",
                    zenspark="the same",
                    reason="it has to be understood",
                ),
            ),
        ),
    ),
)
RENDERED = """\

| page | shown | differs | rows | with a mutation |
|---|---|---|---|---|
| Push | 1 | 1 | 2 | 1 |
| all | 1 | 1 | 2 | 1 |

## Where zenspark differs

| id | the page | 1.10.2 | zenspark | reason |
|---|---|---|---|---|
| PU-2 | a timestamp | no length, `21 f99e` | the same | it has to be understood |

## Push

PUSH, PUT and DEL.

### PUT

| id | statement or field | status | evidence |
|---|---|---|---|
| PU-1 | header `Z\\|E\\|T` | shown | `tests/a.py::test_a` |

### DEL

| id | statement or field | status | evidence |
|---|---|---|---|
| PU-2 | a timestamp | differs | 21.18. 1.10.2: no length, `21 f99e`; zenspark: the same; \
`tests/a.py::test_a`, `tests/b.py::test_b`; and so on |

"""


def test_the_rows_stand_between_their_marks() -> None:
    assert renewed(f"before\n{BEGIN}old\n{END}after\n", [PAGE]) == f"before\n{BEGIN}{RENDERED}{END}after\n"
    with pytest.raises(AssertionError):
        renewed("no marks", [PAGE])


def test_conformance_rows_are_written_and_pass_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / TARGET
    page.parent.mkdir()
    page.write_text(BEGIN + END)
    assert main(["--check"], tmp_path) == 1
    assert "make conformance" in capsys.readouterr().err
    assert main([], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0
    assert "| all | 0 | 0 | 0 | 0 |" in page.read_text()
