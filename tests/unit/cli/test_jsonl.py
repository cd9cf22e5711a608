import io
from pathlib import Path

import pytest

from zenspark.cli import jsonl


def echo(line: bytes) -> object:
    return {"size": len(line)}


def test_each_line_of_a_file_gives_a_json_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\n\nabc\nlast")
    jsonl.run(str(path), echo)
    assert capsys.readouterr().out == '{"size":1}\n{"size":0}\n{"size":3}\n{"size":4}\n'


def test_reads_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"ab\n")))
    jsonl.run("-", echo)
    assert capsys.readouterr().out == '{"size":2}\n'


def test_empty_file_prints_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lines"
    path.touch()
    jsonl.run(str(path), echo)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("block", [1, 2, 3, 5, 100])
def test_lines_may_be_longer_than_a_block(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jsonl, "MAX_READ_BYTES", block)
    path = tmp_path / "lines"
    path.write_bytes(b"\nabcdef\nab\n" + b"x" * 11)
    jsonl.run(str(path), echo)
    assert capsys.readouterr().out == '{"size":0}\n{"size":6}\n{"size":2}\n{"size":11}\n'
