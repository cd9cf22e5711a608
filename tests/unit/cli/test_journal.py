"""`zenspark journal` on journals with rows, readers and damage."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from tests.unit.journal.rows import batch, counted, row
from zenspark.cli import main
from zenspark.journal import Journal, JournalWriter, Policy
from zenspark.journal.format import index_file, segment_file
from zenspark.journal.segment import list_segments

SMALL = Policy(flush_rows=5, segment_bytes=1, fsync="never")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Four segments of five rows, a second for each row."""
    with JournalWriter(tmp_path / "j", SMALL, recorder="r") as writer:
        for start in range(0, 20, 5):
            writer.append(counted(start, start + 5))
    return tmp_path / "j"


def output_lines(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    assert main(["journal", *map(str, arguments)]) == 0
    return capsys.readouterr().out.splitlines()


def error_line(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["journal", *map(str, arguments)]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    return line.strip()


# --- ls -----------------------------------------------------------------------------------------------------------


def test_segments_are_listed(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    title, head, *lines = output_lines(capsys, "ls", path)
    assert title.startswith("samples of r: offsets 0 to 20, ")
    assert title.endswith(" in 4 segments")
    assert head.split() == ["first", "end", "rows", "bytes", "received", "from", "to"]
    assert [line.split()[:3] for line in lines] == [[str(at), str(at + 5), "5"] for at in (0, 5, 10, 15)]
    assert lines[0].split()[-2:] == ["2023-11-14T22:13:20.000000Z", "2023-11-14T22:13:24.000000Z"]


def test_an_empty_journal_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    JournalWriter(tmp_path / "j", recorder="r", row_type="sessions").close()
    title, _, line = output_lines(capsys, "ls", tmp_path / "j")
    assert title == "sessions of r: offsets 0 to 0, 0 B in 1 segment"
    assert line.split() == ["0", "0", "0", "0", "B"]


def test_a_segment_that_cannot_be_read_is_listed_with_the_reason(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = bytearray(index_file(path, 5).read_bytes())
    raw[-1] ^= 1
    index_file(path, 5).write_bytes(raw)
    _, _, *lines = output_lines(capsys, "ls", path)
    assert len(lines) == 4
    assert "expected an entry of the index at byte 0" in lines[1]


# --- readers ------------------------------------------------------------------------------------------------------


def test_readers_are_listed(path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert output_lines(capsys, "readers", path) == ["no reader is attached"]
    for now, name, offset, text in (
        (0.0, "slow", 5, None),
        (100_000.0, "quick\n", 20, "a query"),
        (3e5, "new", 21, ""),
    ):
        monkeypatch.setattr("time.time", lambda now=now: now)
        Journal(path).commit(name, offset, text)
    assert output_lines(capsys, "readers", path) == [
        "offset  behind  age  reader   description",
        "    21       0   0s  new",
        "    20       0   2d  quick\\n  a query",
        "     5      15   3d  slow",
    ]


def test_a_reader_is_forgotten(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Journal(path).commit("spark-1", 5)
    Journal(path).commit("broken", 5)
    (path / "readers" / "broken.json").write_text("?")
    assert output_lines(capsys, "forget", path, "broken") == ["detached reader broken"]
    assert "no reader 'spark-2' is attached; did you mean spark-1?" in error_line(capsys, "forget", path, "spark-2")
    assert output_lines(capsys, "forget", path, "spark-1") == [
        "detached reader spark-1, which was at offset 5, 15 rows behind"
    ]
    assert error_line(capsys, "forget", path, "x").endswith("no reader 'x' is attached: attached are none")
    assert Journal(path).readers() == {}


# --- trim ---------------------------------------------------------------------------------------------------------


def test_trim_to_committed_removes_committed_rows(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nothing counts as committed" in error_line(capsys, "trim", path, "--to-committed")
    Journal(path).commit("reader", 12)
    (line,) = output_lines(capsys, "trim", path, "--to-committed")
    assert line.startswith("removed 10 rows (")
    assert line.endswith("left are offsets 10 to 20")
    Journal(path).commit("reader", 20)
    (line,) = output_lines(capsys, "trim", path, "--to-committed")
    assert line.endswith("left are offsets 20 to 20")


def test_a_segment_that_is_being_written_stays(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with JournalWriter(path, Policy(flush_rows=1, fsync="never")) as writer:
        Journal(path).commit("reader", 20)
        (line,) = output_lines(capsys, "trim", path, "--to-committed")
        assert line.endswith("left are offsets 15 to 20")
        writer.append(counted(20, 21))
    assert (list_segments(path)[0], Journal(path).latest()) == (15, 21)


def test_rows_are_removed_by_age_and_size(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Journal(path).commit("reader", 5)
    size = sum(file.stat().st_size for file in path.glob("0*"))
    assert output_lines(capsys, "trim", path, "--retain-bytes", size)[0].startswith("removed 0 rows (0 B)")
    assert output_lines(capsys, "trim", path, "--retain-age", "1h")[0].endswith("left are offsets 5 to 20")
    assert output_lines(capsys, "trim", path, "--retain-age", "1h", "--trim-unread")[0].endswith(
        "left are offsets 15 to 20"
    )


def test_contradictory_arguments_are_one_line(path: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "give --to-committed, --retain-age or --retain-bytes" in error_line(capsys, "trim", path)
    assert "there is no such directory" in error_line(capsys, "ls", tmp_path / "nothing")
    assert "found 'fly'" in error_line(capsys, "fly")
    assert "missing COMMAND" in error_line(capsys)


# --- rows -------------------------------------------------------------------------------------------------------------


def test_journal_info_prints_rows_offsets_and_readers(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Journal(path).commit("spark", 5)
    title, *lines = output_lines(capsys, "info", path)
    assert title.endswith(": samples of recorder r")
    assert lines[0].split() == ["rows", "20,", "offsets", "0", "to", "20"]
    assert lines[-1].strip().startswith("reader    spark at offset 5, 15 behind")
    document = json.loads(output_lines(capsys, "info", path, "--json")[0])
    assert (document["rows"], document["segments"], document["readers"][0]["behind"]) == (20, 4, 15)
    assert document["received_from"] == "2023-11-14T22:13:20.000000Z"


def test_rows_are_printed(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = output_lines(capsys, "cat", path, "--from", "3", "-n", "2")
    assert lines == ["2023-11-14T22:13:23.000000Z k/3 3", "2023-11-14T22:13:24.000000Z k/4 4"]
    found = [json.loads(line) for line in output_lines(capsys, "cat", path, "--json", "-k", "k/1$*", "-k", "k/7")]
    assert [row["key"] for row in found] == ["k/1", "k/7", *(f"k/1{number}" for number in range(10))]
    assert found[1]["payload"] == "7"
    assert output_lines(capsys, "cat", path, "--from", "20") == []


def test_a_journal_that_is_whole_is_verified(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert output_lines(capsys, "verify", path) == ["20 of 20 rows can be read; 0 problems found"]


def test_verify_reports_a_corrupt_segment_and_reads_the_others(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = segment_file(path, 5)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    assert main(["journal", "verify", str(path), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["expected"], len(found["problems"])) == (15, 20, 1)
    assert "offset 5 to" in found["problems"][0]


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_rows_are_exported(format: str, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / f"rows.{format}"
    lines = output_lines(capsys, "export", path, target, "--to", "2023-11-14T22:13:30Z", "-k", "k/$*")
    assert lines == [f"10 rows exported to {target}"]
    with duckdb.connect() as connection:
        assert connection.execute(f"select count(distinct key) from '{target}'").fetchall() == [(10,)]
    assert "--force" in error_line(capsys, "export", path, target)


def test_values_are_printed_as_by_sub(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = batch(
        row(0, payload=b'{"text": "' + b"long " * 20 + b'"}', encoding="application/json"),
        row(1, payload=b"\x00\x01"),
        row(2, payload=b"42", encoding="text/plain"),
    )
    with JournalWriter(tmp_path / "j", recorder="r") as writer:
        writer.append(rows)
    values = [line.split(" ", 2)[2] for line in output_lines(capsys, "cat", tmp_path / "j")]
    assert values == ['{"text":"' + "long " * 20 + '"}', "<2 bytes> 00 01", "42"]


def test_a_lake_is_no_journal_and_the_journal_in_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lake" / "samples" / "_delta_log").mkdir(parents=True)
    expected = "this is a lake, not a journal; name the directory of its journal"
    assert error_line(capsys, "info", tmp_path / "lake").endswith(f"lake: {expected}")
    JournalWriter(tmp_path / "lake" / "_journal", recorder="r").close()
    line = error_line(capsys, "info", tmp_path / "lake")
    assert line.endswith(f"{expected}: {tmp_path}/lake/_journal")


def test_keys_of_rows_without_keys_are_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    JournalWriter(tmp_path / "j", recorder="r", row_type="sessions").close()
    assert "have no key" in error_line(capsys, "cat", tmp_path / "j", "-k", "a")
