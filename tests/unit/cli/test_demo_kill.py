"""Counts of `zenspark demo --kill`. `tests/spark` runs it."""

from __future__ import annotations

import pytest

from zenspark.cli.demo_kill import Counts, format_counts, print_result


def test_lost_and_duplicated_samples_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_result(Counts(100, (90, 95), 100, 100)) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1][:5] == ["recorded", "by", "recorder", "one", "90"]
    assert [line[-1] for line in lines[-2:]] == ["0", "0"]
    found = Counts(100, (90, 95), 101, 99)
    assert (found.lost, found.duplicates) == (1, 2)
    assert print_result(found) == 1


def test_no_recorder_has_more_samples_than_were_published() -> None:
    shown = format_counts(published=506, recorded={"one": 543, "two": 120}, rows=480)
    assert shown == ["published 543", "recorder one 543", "recorder two 120", "in the table 480"]
    assert format_counts(published=600, recorded={"one": 543}, rows=480)[0] == "published 600"
    assert format_counts(published=0, recorded={"one": 0}, rows=0)[0] == "published 0"
