"""Checks the vocabulary of the sources: one class name for one class, module names, wording, file sizes.

    python -m tools.check_words

Prints each violation with its place and exits 1 if there is one:

- a class name that two classes have, unless it is listed in `TWINS` with the packages and the reason;
- a module named by a bare gerund (`speaking.py`), unless it is a term of the field listed in `TERMS`;
- a name of the code with a word of a conversation (`CONVERSATION`): nodes send, receive, query and reply;
- a string or comment of the sources with an indefinite actor (`VAGUE`): docstrings, logs and help texts name the peer,
  the caller, the reader; of tests, tools, benchmarks, fuzz targets and examples, docstrings and comments are checked:
  their other strings are data; of the documents, everything but the statements of the specification that
  `docs/conformance.md` quotes;
- a file of more than `MAX_LINES` lines that is not generated.

Tests, tools, benchmarks, fuzz targets and examples are checked like the sources, except for class names.
"""

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "zenspark"
GENERATED = frozenset({"wire/codec.py"})
BESIDE = ("tests", "tools", "bench", "fuzz", "examples")
"""Folders beside the sources whose files are read by the same people."""
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/*.md")
MAX_LINES = 800

ASYNC_FORM = "the asyncio form of the class of the synchronous API"
ON_THE_WIRE = "the value that users hold, and the one on the wire"
MESSAGE = "what users hold, and the message on the wire that carries it"

TWINS = {
    "Channel": ("aio handlers", ASYNC_FORM),
    "Declaration": ("types wire", MESSAGE),
    "Encoding": ("types wire", ON_THE_WIRE),
    "Entity": ("aio api", ASYNC_FORM),
    "Hello": ("types wire", MESSAGE),
    "Lake": ("lake spark", "the lake, and the same with the methods that need Spark"),
    "Link": ("net types", "the link of the node, and what `session.info` reports of it"),
    "LinkEventsListener": ("aio api", ASYNC_FORM),
    "Liveliness": ("aio api", ASYNC_FORM),
    "LivelinessToken": ("aio api", ASYNC_FORM),
    "MatchingListener": ("aio api", ASYNC_FORM),
    "NeighbourEventsListener": ("aio api", ASYNC_FORM),
    "Priority": ("types wire", "the seven priorities of users, and the eight on the wire"),
    "Publisher": ("aio api", ASYNC_FORM),
    "Querier": ("aio api", ASYNC_FORM),
    "Query": ("aio types wire", f"{ASYNC_FORM}; {MESSAGE}"),
    "QueryTarget": ("types wire", ON_THE_WIRE),
    "Queryable": ("aio api", ASYNC_FORM),
    "Receiver": ("aio api", ASYNC_FORM),
    "Reply": ("types wire", MESSAGE),
    "Scout": ("aio api wire", f"{ASYNC_FORM}; the message on the wire that it sends"),
    "Session": ("aio api", ASYNC_FORM),
    "SessionInfo": ("aio api", ASYNC_FORM),
    "SourceInfo": ("types wire", ON_THE_WIRE),
    "Subscriber": ("aio api", ASYNC_FORM),
    "Timestamp": ("types wire", ON_THE_WIRE),
    "TimestampStack": ("types wire", ON_THE_WIRE),
    "TransportEventsListener": ("aio api", ASYNC_FORM),
    "WhatAmI": ("types wire", ON_THE_WIRE),
    "ZenohId": ("types wire", ON_THE_WIRE),
}
"""Class names that one class of each of these packages has, and why."""

TERMS = {
    "downsampling": "zenohd's name of the interceptor",
    "encoding": "Zenoh's encoding of a payload",
    "forwarding": "the networking term",
    "framing": "the networking term",
    "matching": "Zenoh's matching status",
    "partitioning": "the database term",
    "pending": "no gerund",
    "ping": "no gerund",
    "routing": "the networking term",
    "scouting": "Zenoh's SCOUT and HELLO",
    "timestamping": "zenohd's configuration key",
}
"""Gerunds that modules may be called, and why."""

VAGUE = re.compile(
    r"\b((some|any|every)(body|one)|nobody|no\s+one|whoever|whomever|what\s+is\s+said|gets\s+on)\b",
    re.IGNORECASE,
)

CONVERSATION = frozenset(
    {
        *("answer", "answered", "answers", "ask", "asked", "asking", "asks", "hear", "heard", "patience"),
        *("said", "say", "speak", "speaker", "tell", "told", "whoever"),
    }
)
"""Words that no name may contain: a message is sent and received, a query has replies, a wait has a timeout."""
FILE_METHODS = frozenset({"tell"})
"""Words of `CONVERSATION` that are methods of files, so that they may follow a dot."""

QUOTED_STATEMENT = re.compile(r"^(\| [A-Z]{2}-\d+ \|)[^|\n]*", re.MULTILINE)
"""A row of `docs/conformance.md` up to the statement of the specification, which is quoted."""
TEXT_TOKENS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
"""Tokens that are strings, or from Python 3.12 on parts of f-strings."""


def find_shared_names(sources: Path) -> Iterator[str]:
    """Name every class name that several classes have, where they are not twins."""
    for name, files in _classes(sources).items():
        packages = sorted(file.parts[0] for file in files)
        if len(files) > 1 and packages != TWINS.get(name, ("", ""))[0].split():
            yield f"class {name} is defined in {', '.join(map(str, files))}"


def find_former_twins(sources: Path) -> Iterator[str]:
    """Name every entry of `TWINS` that no longer stands for several classes."""
    classes = _classes(sources)
    for name, (packages, _) in TWINS.items():
        if len(classes.get(name, ())) < 2:
            yield f"class {name} is listed as a twin of {packages.replace(' ', ', ')}, but has no twin"


def _classes(sources: Path) -> dict[str, list[Path]]:
    """Map each class name to the files that define such a class."""
    files = defaultdict(list)
    for file in sorted(sources.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                files[node.name].append(file.relative_to(sources))
    return dict(sorted(files.items()))


def find_gerunds(sources: Path) -> Iterator[str]:
    """Name every module whose name is a bare gerund."""
    for file in sorted(sources.rglob("*.py")):
        name = _module_name(file)
        if re.fullmatch(r"_?[a-z]+ing", name) and name not in TERMS and name != "string":
            yield f"{file.relative_to(sources)} is named by a gerund"


def _module_name(file: Path) -> str:
    """Return the name of the module, or of the package, in a file."""
    return file.parent.name if file.name == "__init__.py" else file.stem


def find_conversation(sources: Path) -> Iterator[str]:
    """Name every name of the code with a word of a conversation, at the first line where a file has it."""
    for file in sorted(sources.rglob("*.py")):
        names = {_module_name(file): 1} | _names(file.read_text())
        for name, line in names.items():
            for word in _words_of(name) & CONVERSATION:
                yield f"{file.relative_to(sources)}:{line} has a name with {word!r}: {name}"


def _names(text: str) -> dict[str, int]:
    """Map each name of a module, of its own or of others, to its first line, except for methods of files."""
    names: dict[str, int] = {}
    previous = ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and not (previous == "." and token.string in FILE_METHODS):
            names.setdefault(token.string, token.start[0])
        previous = token.string
    return names


def _words_of(name: str) -> set[str]:
    """Split a name at underscores and capital letters."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def find_vague_actors(sources: Path) -> Iterator[str]:
    """Name every string and comment with an indefinite actor."""
    for file in sorted(sources.rglob("*.py")):
        for line, words in _vague_words(file.read_text()):
            yield f"{file.relative_to(sources)}:{line} says {words!r}: name the actor"


def find_vague_actors_beside(root: Path) -> Iterator[str]:
    """Name every docstring and comment with an indefinite actor in the folders beside the sources."""
    for folder in BESIDE:
        for file in sorted((root / folder).rglob("*.py")):
            for line, words in _vague_words(file.read_text(), only_docstrings=True):
                yield f"{file.relative_to(root)}:{line} says {words!r}: name the actor"


def find_vague_actors_in_documents(root: Path) -> Iterator[str]:
    """Name every indefinite actor in the documents."""
    for file in sorted(file for pattern in DOCUMENTS for file in root.glob(pattern)):
        text = file.read_text()
        if file.name == "conformance.md":
            text = QUOTED_STATEMENT.sub(r"\1 ", text)
        for found in VAGUE.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{file.relative_to(root)}:{line} says {found[0]!r}: name the actor"


def _vague_words(text: str, *, only_docstrings: bool = False) -> Iterator[tuple[int, str]]:
    """Yield line and words of every indefinite actor in comments and strings, or in comments and docstrings only."""
    docstrings = _docstring_starts(text) if only_docstrings else None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_text = token.type in TEXT_TOKENS and (docstrings is None or token.start in docstrings)
        if is_text or token.type == tokenize.COMMENT:
            for found in VAGUE.finditer(token.string):
                yield token.start[0] + token.string[: found.start()].count("\n"), found[0]


def _docstring_starts(text: str) -> set[tuple[int, int]]:
    """List where strings begin that are statements: docstrings, also those of constants and attributes."""
    return {
        (node.lineno, node.col_offset)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }


def find_long_files(sources: Path) -> Iterator[str]:
    """Name every file that is too long to be read in one go."""
    for file in sorted(sources.rglob("*.py")):
        lines = len(file.read_text().splitlines())
        name = str(file.relative_to(sources))
        if lines > MAX_LINES and name not in GENERATED:
            yield f"{name} has {lines} lines, more than {MAX_LINES}"


def find_violations(sources: Path) -> list[str]:
    """Name everything that the vocabulary forbids."""
    checks = (find_shared_names, find_gerunds, find_conversation, find_vague_actors, find_long_files)
    return [violation for check in checks for violation in check(sources)]


def find_violations_beside(root: Path) -> list[str]:
    """Name what the vocabulary forbids in the folders beside the sources, and in the documents."""
    checks = (find_gerunds, find_conversation, find_long_files)
    return [
        *(f"{folder}/{violation}" for folder in BESIDE for check in checks for violation in check(root / folder)),
        *find_vague_actors_beside(root),
        *find_vague_actors_in_documents(root),
    ]


def main() -> int:
    violations = [
        *find_violations(SOURCES),
        *find_former_twins(SOURCES),
        *find_violations_beside(ROOT),
    ]
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
