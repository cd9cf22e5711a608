import io
import tokenize
from pathlib import Path

import pytest

from tools import check_words
from tools.check_words import (
    BESIDE,
    CONVERSATION,
    ROOT,
    SOURCES,
    find_former_shared_constants,
    find_former_twins,
    find_vague_actors_beside,
    find_violations,
    find_violations_beside,
)


def write(file: Path, text: str = "") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_plain_sources_have_no_violations(tmp_path: Path) -> None:
    write(tmp_path / "net/driver.py", '"""Reads a link for its session."""\n\nclass Driver:\n    pass\n')
    write(tmp_path / "engine/matching.py")
    assert find_violations(tmp_path) == []


def test_a_class_name_of_two_classes_is_a_violation(tmp_path: Path) -> None:
    write(tmp_path / "net/driver.py", "class Known: ...\n")
    write(tmp_path / "router/face.py", "class Known: ...\n")
    assert find_violations(tmp_path) == ["class Known is defined in net/driver.py, router/face.py"]


def test_a_class_of_aio_may_be_called_like_its_synchronous_form(tmp_path: Path) -> None:
    write(tmp_path / "api/session.py", "class Session: ...\n")
    write(tmp_path / "aio/session.py", "class Session: ...\n")
    assert find_violations(tmp_path) == []


def test_only_a_listed_name_may_be_shared_with_aio(tmp_path: Path) -> None:
    write(tmp_path / "api/session.py", "class Cache: ...\n")
    write(tmp_path / "aio/session.py", "class Cache: ...\n")
    assert find_violations(tmp_path) == ["class Cache is defined in aio/session.py, api/session.py"]


def test_a_third_class_of_a_listed_name_is_a_violation(tmp_path: Path) -> None:
    for package in ("aio", "api", "net"):
        write(tmp_path / package / "session.py", "class Session: ...\n")
    assert find_violations(tmp_path) == ["class Session is defined in aio/session.py, api/session.py, net/session.py"]


def test_twins_that_are_none_any_more_are_named(tmp_path: Path) -> None:
    write(tmp_path / "api/session.py", "class Session: ...\n")
    assert "class Session is listed as a twin of aio, api, but has no twin" in find_former_twins(tmp_path)
    assert list(find_former_twins(SOURCES)) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("MAX_ROWS = 1\n", "MAX_ROWS = 2\n"),
        ("MAX_ROWS: int = 1\n", "MAX_ROWS = 1 << 1\n"),
        ("MAX_ROWS, MAX_KEYS = 1, 1\n", "MAX_ROWS, MAX_KEYS = 2.0, 1\n"),
        ("MAX_ROWS = 1\n", "MAX_ROWS = -1 * 2 + 4 / 1 - 4\n"),
        ("MAX_ROWS = cython.declare(cython.const_int, 1)\n", "MAX_ROWS: cython.int = 2\n"),
    ],
)
def test_a_constant_with_two_numbers_is_a_violation(tmp_path: Path, one: str, other: str) -> None:
    write(tmp_path / "journal/tailer.py", one)
    write(tmp_path / "web/limits.py", other)
    (violation,) = find_violations(tmp_path)
    assert violation.startswith("constant MAX_ROWS differs between journal/tailer.py (1), web/limits.py (")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("MAX_ROWS = 64 << 20\n", "MAX_ROWS = 67108864\n"),
        ("MAX_ROWS = 1\n", "from journal import MAX_ROWS\n"),
        ("MAX_ROWS = 1\n", "class Limits:\n    MAX_ROWS = 2\n"),
        ("NAME = 'a'\n", "NAME = 'b'\n"),
        ("IS_USED = False\n", "IS_USED = True\n"),
        ("rows = 1\n", "rows = 2\n"),
        ("MAX_ROWS = MAX_KEYS\n", "MAX_ROWS = 2\n"),
    ],
)
def test_other_assignments_may_differ(tmp_path: Path, one: str, other: str) -> None:
    write(tmp_path / "journal/tailer.py", one)
    write(tmp_path / "web/limits.py", other)
    assert find_violations(tmp_path) == []


def test_a_listed_constant_may_have_two_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_words, "SHARED_CONSTANTS", {"MAX_ROWS": "a reason"})
    write(tmp_path / "journal/tailer.py", "MAX_ROWS = 1\n")
    assert list(find_former_shared_constants(tmp_path)) == [
        "constant MAX_ROWS is listed as shared, but has not several numbers"
    ]
    write(tmp_path / "web/limits.py", "MAX_ROWS = 2\n")
    assert find_violations(tmp_path) == list(find_former_shared_constants(tmp_path)) == []


def test_two_classes_of_one_package_are_no_twins(tmp_path: Path) -> None:
    write(tmp_path / "aio/session.py", "class Session: ...\n")
    write(tmp_path / "aio/query.py", "class Session: ...\n")
    assert find_violations(tmp_path) == ["class Session is defined in aio/query.py, aio/session.py"]


@pytest.mark.parametrize("file", ["net/moving.py", "moving/__init__.py", "net/_moving.py"])
def test_a_module_named_by_a_gerund_is_a_violation(tmp_path: Path, file: str) -> None:
    write(tmp_path / file)
    assert find_violations(tmp_path) == [f"{file} is named by a gerund"]


@pytest.mark.parametrize("folder", BESIDE)
def test_a_module_beside_the_sources_named_by_a_gerund_is_a_violation(tmp_path: Path, folder: str) -> None:
    for name in ("moving", "ping", "test_moving", "move"):
        write(tmp_path / folder / "unit" / f"{name}.py")
    write(tmp_path / folder / "typing/program.py")
    assert find_violations_beside(tmp_path) == [f"{folder}/unit/moving.py is named by a gerund"]


@pytest.mark.parametrize("word", sorted(CONVERSATION))
def test_a_name_with_a_word_of_a_conversation_is_a_violation(tmp_path: Path, word: str) -> None:
    write(tmp_path / "net/driver.py", f"x = 1\n{word} = 2\n")
    assert find_violations(tmp_path) == [f"net/driver.py:2 has a name with {word!r}: {word}"]


@pytest.mark.parametrize(
    ("text", "name", "word"),
    [
        ("def is_heard(): ...\n", "is_heard", "heard"),
        ("class QueryAnswers: ...\n", "QueryAnswers", "answers"),
        ("async def _ask(): ...\n", "_ask", "ask"),
        ("def receive(told): ...\n", "told", "told"),
        ("receive(told=1)\n", "told", "told"),
        ("from net import speaker\n", "speaker", "speaker"),
        ("link.say_all()\n", "say_all", "say"),
        ("MAX_PATIENCE_SECONDS = 1\n", "MAX_PATIENCE_SECONDS", "patience"),
        ("def tell(): ...\n", "tell", "tell"),
        ("link.tell_all()\n", "tell_all", "tell"),
    ],
)
def test_words_of_a_conversation_are_found_in_all_kinds_of_names(
    tmp_path: Path, text: str, name: str, word: str
) -> None:
    write(tmp_path / "net/driver.py", text)
    assert find_violations(tmp_path) == [f"net/driver.py:1 has a name with {word!r}: {name}"]


@pytest.mark.parametrize(
    "text",
    ["task = mask\n", "saying = essay\n", 'x = "heard"  # told\n', "position = file.tell()\n", "retold = 1\n"],
)
def test_other_names_and_texts_may_contain_these_letters(tmp_path: Path, text: str) -> None:
    write(tmp_path / "net/driver.py", text)
    assert find_violations(tmp_path) == []


@pytest.mark.parametrize("file", ["net/ask.py", "heard/__init__.py", "net/test_answers.py"])
def test_a_module_named_by_a_word_of_a_conversation_is_a_violation(tmp_path: Path, file: str) -> None:
    write(tmp_path / file)
    (violation,) = find_violations(tmp_path)
    assert violation.startswith(f"{file}:1 has a name with")


@pytest.mark.parametrize("folder", BESIDE)
def test_names_beside_the_sources_are_checked(tmp_path: Path, folder: str) -> None:
    write(tmp_path / folder / "unit/test_router.py", "def receive():\n    heard = []\n    return heard\n")
    assert find_violations_beside(tmp_path) == [f"{folder}/unit/test_router.py:2 has a name with 'heard': heard"]


@pytest.mark.parametrize("word", ["inlet", "outlets", "pump", "stamping"])
@pytest.mark.parametrize("folder", BESIDE)
def test_names_with_a_former_word_are_violations_everywhere(tmp_path: Path, folder: str, word: str) -> None:
    write(tmp_path / "src/net/driver.py", f"def is_{word}(): ...\n")
    write(tmp_path / folder / "unit/test_router.py", f"with_{word} = timestamping = pumped = 1\n")
    (violation,) = find_violations(tmp_path / "src")
    assert violation.startswith(f"net/driver.py:1 has a name with {word!r}: is_{word}; the word is ")
    (violation,) = find_violations_beside(tmp_path)
    assert violation.startswith(f"{folder}/unit/test_router.py:1 has a name with {word!r}: with_{word}; the word is ")


@pytest.mark.parametrize(
    ("text", "line", "start"),
    [
        ('"""What is read."""\n', 1, "What"),
        ('LIMIT = 1\n"""For one neighbour; none for all."""\n', 2, "For"),
        ('def read():\n    """\n    In the loop."""\n', 2, "In"),
        ('class Link:\n    pos: int\n    """So many bytes were read."""\n', 3, "So many"),
        ('class Link:\n    """Link."""\n\n    def read(self):\n        "Its id\\n"\n', 5, "Its"),
    ],
)
def test_a_docstring_that_begins_with_no_verb_or_noun_is_a_violation(
    tmp_path: Path, text: str, line: int, start: str
) -> None:
    write(tmp_path / "net/driver.py", text)
    assert find_violations(tmp_path) == [
        f"net/driver.py:{line} begins with {start!r}: begin with a verb or a noun phrase"
    ]


@pytest.mark.parametrize(
    "text",
    [
        '"""In-memory table of keys."""\n',
        '"""Inner link."""\n',
        '"""Notify the loop.\n\nIf it sleeps."""\n',
        '"""No link is left."""\n',
        '"""Form of a frame."""\n',
        'log("If this happens")\n',
        "link = 1  # for one neighbour\n",
    ],
)
def test_other_docstrings_and_texts_may_begin_so(tmp_path: Path, text: str) -> None:
    write(tmp_path / "net/driver.py", text)
    assert find_violations(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('"""Reads a link.\n\nWhoever wrote it.\n"""\n', 3),
        ("x = 1  # somebody needs it\n", 1),
        ('log("nobody")\n', 1),
        ('x = 1\nlog(f"{x}: nobody")\n', 2),
        ('"""Reads a link.\n\nThere is no\n    one else.\n"""\n', 3),
        ('"""The way it gets  on."""\n', 1),
    ],
)
def test_indefinite_pronoun_as_actor_is_a_violation(tmp_path: Path, text: str, line: int) -> None:
    write(tmp_path / "net/driver.py", text)
    (violation,) = find_violations(tmp_path)
    assert violation.startswith(f"net/driver.py:{line} says")


def test_parts_of_f_strings_are_texts_in_every_version_of_python() -> None:
    """From 3.12 on they are tokens of their own."""
    tokens = list(tokenize.generate_tokens(io.StringIO('f"{x}: nobody"\n').readline))
    assert any("nobody" in token.string for token in tokens if token.type in check_words.TEXT_TOKENS)


@pytest.mark.parametrize(
    "file",
    ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs/journal.md", "docs/protocol/quirks.md"],
)
def test_documents_name_the_actor(tmp_path: Path, file: str) -> None:
    write(tmp_path / file, "# Title\n\nWhat no\none reads, somebody\nwrites.\n")
    assert find_violations_beside(tmp_path) == [
        f"{file}:3 says 'no\\none': name the actor",
        f"{file}:4 says 'somebody': name the actor",
    ]


def test_all_documents_are_checked() -> None:
    checked = {file for pattern in check_words.DOCUMENTS for file in ROOT.glob(pattern)}
    assert checked == {*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")}


def test_statements_of_the_specification_are_quoted(tmp_path: Path) -> None:
    rows = "| MR-1 | nobody's business | shown | a test |\n| MR-2 | a number | shown | nobody uses it |\n"
    write(tmp_path / "docs/conformance.md", f"# Conformance\n\n{rows}")
    assert find_violations_beside(tmp_path) == ["docs/conformance.md:4 says 'nobody': name the actor"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('"""Joins two nodes.\n\nWhoever is there.\n"""\n', 3),
        ('LIMIT = 1\n"""Bytes nobody sends."""\n', 2),
        ('class Peer:\n    """Peer."""\n\n    name: str\n    """As anyone calls it."""\n', 5),
        ('def receive() -> None:\n    "What is said."\n', 2),
        ("x = 1\ny = 2  # how it gets on\n", 2),
    ],
)
@pytest.mark.parametrize("folder", BESIDE)
def test_docstrings_and_comments_beside_the_sources_name_the_actor(
    tmp_path: Path, folder: str, text: str, line: int
) -> None:
    write(tmp_path / folder / "unit/test_router.py", text)
    (violation,) = find_vague_actors_beside(tmp_path)
    assert violation.startswith(f"{folder}/unit/test_router.py:{line} says")


@pytest.mark.parametrize("text", ['log("nobody")\n', 'TEXT = """\nWhoever.\n"""\n', '"somebody".upper()\n'])
def test_strings_beside_the_sources_are_data(tmp_path: Path, text: str) -> None:
    write(tmp_path / "tests/test_router.py", f'"""Routes to the peer."""\n\n{text}')
    write(tmp_path / "tests/names.txt", "nobody\n")
    assert list(find_vague_actors_beside(tmp_path)) == []


def test_long_files_are_violations_unless_generated(tmp_path: Path) -> None:
    write(tmp_path / "wire/codec.py", "x = 1\n" * 801)
    write(tmp_path / "wire/columns.py", "x = 1\n" * 801)
    write(tmp_path / "wire/values.py", "x = 1\n" * 800)
    assert find_violations(tmp_path) == ["wire/columns.py has 801 lines, more than 800"]


@pytest.mark.parametrize("folder", BESIDE)
def test_long_files_beside_the_sources_are_violations(tmp_path: Path, folder: str) -> None:
    write(tmp_path / folder / "unit/test_router.py", "x = 1\n" * 801)
    write(tmp_path / folder / "unit/test_face.py", "x = 1\n" * 800)
    write(tmp_path / folder / "corpus/long.txt", "x\n" * 801)
    assert find_violations_beside(tmp_path) == [f"{folder}/unit/test_router.py has 801 lines, more than 800"]


def test_folders_beside_the_sources_exist() -> None:
    assert all(any((ROOT / folder).glob("*.py")) for folder in BESIDE)
