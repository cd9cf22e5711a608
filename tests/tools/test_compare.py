import json
from pathlib import Path

import pytest

from bench.compare import compare, load, main

OLD = {"name": "decode", "value": 100.0, "unit": "msg/s", "spread": [90.0, 110.0]}


def write(file: Path, *results: dict[str, object], bench: str = "codec") -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"bench": bench, "results": results}))
    return file


def lines(tmp_path: Path, old: dict[str, object], new: dict[str, object]) -> list[str]:
    old_run = load(write(tmp_path / "old.json", old))
    new_run = load(write(tmp_path / "new.json", new))
    return [" ".join(line.split()) for line in compare(old_run, new_run)]


def test_ratio_of_new_to_old(tmp_path: Path) -> None:
    new = OLD | {"value": 250.0, "spread": [240.0, 260.0]}
    assert lines(tmp_path, OLD, new) == ["codec: decode 2.50x 100 -> 250 msg/s"]


def test_overlapping_spreads_show_no_difference(tmp_path: Path) -> None:
    new = OLD | {"value": 105.0, "spread": [100.0, 120.0]}
    assert lines(tmp_path, OLD, new) == ["codec: decode 1.05x ~ 100 -> 105 msg/s"]


def test_ratio_to_zero_is_not_given(tmp_path: Path) -> None:
    zero = OLD | {"value": 0.0, "spread": [0.0, 0.0]}
    assert lines(tmp_path, zero, OLD) == ["codec: decode - 0 -> 100 msg/s"]


def test_units_must_agree(tmp_path: Path) -> None:
    assert lines(tmp_path, OLD, OLD | {"unit": "s"}) == ["codec: decode not comparable: msg/s and s"]


def test_results_of_one_side_are_named(tmp_path: Path) -> None:
    assert lines(tmp_path, OLD, OLD | {"name": "encode"}) == [
        "codec: decode only in the old run",
        "codec: encode only in the new run",
    ]


def test_directories_are_compared_file_by_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for run in ("old", "new"):
        write(tmp_path / run / "codec.json", OLD)
        write(tmp_path / run / "match.json", OLD, bench="match")
    assert main([str(tmp_path / "old"), str(tmp_path / "new")]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["codec:", "match:"]


def test_empty_directories_have_nothing_to_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), str(tmp_path)]) == 0
    assert capsys.readouterr().out == "nothing to compare\n"


@pytest.mark.parametrize("text", ["{", '{"bench": "codec"}'])
def test_a_file_of_another_shape_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    file = tmp_path / "broken.json"
    file.write_text(text)
    assert main([str(file), str(file)]) == 1
    assert capsys.readouterr().err.startswith("compare: ")
