"""Dictionary files of users: which lines are users, and which make the whole file unusable."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.api.sessions import config
from zenspark.api.open import open
from zenspark.config.schema import ConfigError
from zenspark.config.user_dictionary import read_users


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users"


def test_a_line_is_a_user_and_a_password(file: Path) -> None:
    file.write_text("ann:secret\nbob:other")
    assert read_users(str(file)) == {b"ann": b"secret", b"bob": b"other"}


def test_blank_lines_and_white_space_do_not_count(file: Path) -> None:
    file.write_bytes(b"  ann : secret \r\n\n \t\nbob:other\n")
    assert read_users(str(file)) == {b"ann": b"secret", b"bob": b"other"}


def test_a_password_may_contain_colons_and_a_user_be_any_text(file: Path) -> None:
    file.write_text("ann:a:b\n# bob: c\nzoë:ü\n", encoding="utf-8")
    assert read_users(str(file)) == {b"ann": b"a:b", b"# bob": b"c", "zoë".encode(): "ü".encode()}


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("# who may log in\nann:secret\n", 1, "no `:`"),
        ("ann:secret\n\nbob\n", 3, "no `:`"),
        ("ann:secret\n:\n", 2, "an empty user"),
        (" :secret\n", 1, "an empty user"),
        ("ann:\n", 1, "an empty password"),
        ("ann: \n", 1, "an empty password"),
        ("ann:secret\nann:other\n", 2, "user 'ann' a second time"),
        ("ann:secret\n ann:secret\n", 2, "user 'ann' a second time"),
    ],
)
def test_a_wrong_line_is_refused_by_its_number(file: Path, text: str, line: int, problem: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(f"{file}, line {line}: {problem}")) as caught:
        read_users(str(file))
    assert caught.value.key == "transport/auth/usrpwd/dictionary_file"
    assert "secret" not in str(caught.value)


def test_unreadable_user_dictionary_is_rejected(file: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_users(str(file))
    file.write_bytes(b"ann:\xff\n")
    with pytest.raises(ConfigError, match="utf-8"):
        read_users(str(file))


def test_no_session_opens_with_a_wrong_file(file: Path) -> None:
    file.write_text("# who may log in\nann:secret\n")
    with pytest.raises(ConfigError, match="line 1"):
        open(config("router", transport__auth__usrpwd={"dictionary_file": str(file)}))
