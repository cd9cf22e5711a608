"""Checks the vocabulary of the sources: one class or constant for one name, module names, wording, file sizes.

    python -m tools.check_words

Prints each violation with its place and exits 1 if there is one:

- a class name that two classes have, unless it is listed in `TWINS` with the packages and the reason;
- a constant with different numbers in several modules, unless it is listed in `SHARED_CONSTANTS` with the reason;
- a module named by a bare gerund (`speaking.py`), unless it is a term of the field listed in `TERMS`;
- a name of the code with a word of a conversation (`CONVERSATION`): nodes send, receive, query and reply;
- a name with a word for which another one is used now (`FORMER_WORDS`);
- a docstring of the sources that begins with a conjunction, a pronoun or a preposition (`SUBORDINATE_START`): it begins
  with a verb or a noun phrase, and can be read alone;
- a string or comment of the sources with an indefinite actor (`VAGUE`): docstrings, logs and help texts name the peer,
  the caller, the reader; of tests, tools, benchmarks, fuzz targets and examples, docstrings and comments are checked:
  their other strings are data; of the documents, everything but the statements of the specification that
  `docs/conformance.md` quotes;
- a file of more than `MAX_LINES` lines that is not generated.

Tests, tools, benchmarks, fuzz targets and examples are checked like the sources, except for the names of classes and
constants and the beginning of docstrings.
"""

import ast
import io
import operator
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "zenspark"
GENERATED = frozenset({"wire/codec.py"})
BESIDE = ("tests", "tools", "bench", "fuzz", "examples")
"""Folders beside the sources whose files are read by the same people."""
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs/**/*.md")
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

SHARED_CONSTANTS: dict[str, str] = {}
"""Constant names that have a different number in several modules, and why."""

OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.LShift: lambda left, right: int(left) << int(right),
}
"""Operators in the numbers of constants, such as `64 << 20`."""

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
FORMER_WORDS = {"inlet": "sink", "outlet": "sink", "pump": "driver", "stamping": "timestamping"}
"""Words that no name may contain, and what is used instead."""
FILE_METHODS = frozenset({"tell"})
"""Words of `CONVERSATION` that are methods of files, so that they may follow a dot."""

SUBORDINATE_START = re.compile(
    r"(What|How|Who|Whose|Which|Why|When|Where|While|If|Unless|Until|Its|Their|So many|Not"
    r"|After|By|For|From|In|Into|Of|On|Per|With|Within|Without)(?=\s)"
)
"""A beginning of a docstring that is neither a verb nor a noun phrase."""

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


def find_shared_constants(sources: Path) -> Iterator[str]:
    """Name every constant that has different numbers in several modules, where that is not listed."""
    for name, numbers in _constants(sources).items():
        if len(set(numbers.values())) > 1 and name not in SHARED_CONSTANTS:
            places = ", ".join(f"{file} ({number})" for file, number in numbers.items())
            yield f"constant {name} differs between {places}: name its subject"


def find_former_shared_constants(sources: Path) -> Iterator[str]:
    """Name every entry of `SHARED_CONSTANTS` that no longer has several numbers."""
    constants = _constants(sources)
    for name in SHARED_CONSTANTS:
        if len(set(constants.get(name, {}).values())) < 2:
            yield f"constant {name} is listed as shared, but has not several numbers"


def _constants(sources: Path) -> dict[str, dict[Path, float]]:
    """Map each constant of modules to the files that define it as a number, and to that number."""
    constants: dict[str, dict[Path, float]] = defaultdict(dict)
    for file in sorted(sources.rglob("*.py")):
        for target, value in _assignments(ast.parse(file.read_text())):
            number = _number(value)
            if isinstance(target, ast.Name) and target.id.isupper() and number is not None:
                constants[target.id][file.relative_to(sources)] = number
    return dict(sorted(constants.items()))


def _assignments(module: ast.Module) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield target and value of each assignment of a module, those of tuples one by one."""
    for node in module.body:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            yield node.target, node.value
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    yield from zip(target.elts, node.value.elts, strict=False)
                else:
                    yield target, node.value


def _number(value: ast.expr) -> float | None:
    """Return the number that an expression of literals is, also in `cython.declare`; None if it is something else."""
    match value:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            positive = _number(operand)
            return None if positive is None else -positive
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            first, second = _number(left), _number(right)
            return None if first is None or second is None else OPERATORS[type(op)](first, second)
        case ast.Call(func=ast.Attribute(attr="declare"), args=[_, declared]):
            return _number(declared)
    return None


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
    for place, name, word in _words_of_names(sources):
        if word in CONVERSATION:
            yield f"{place} has a name with {word!r}: {name}"


def find_former_words(sources: Path) -> Iterator[str]:
    """Name every name of the code with a former word or its plural, at the first line where a file has it."""
    for place, name, word in _words_of_names(sources):
        current = FORMER_WORDS.get(word) or FORMER_WORDS.get(word.removesuffix("s"))
        if current is not None:
            yield f"{place} has a name with {word!r}: {name}; the word is {current!r}"


def _words_of_names(sources: Path) -> Iterator[tuple[str, str, str]]:
    """Yield every word of every name of the code: the first place of the name in a file, the name, and the word."""
    for file in sorted(sources.rglob("*.py")):
        names = {_module_name(file): 1} | _names(file.read_text())
        for name, line in names.items():
            for word in sorted(_words_of(name)):
                yield f"{file.relative_to(sources)}:{line}", name, word


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
    """List where docstrings begin."""
    return {(line, column) for line, column, _ in _docstrings(text)}


def _docstrings(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield line, column and text of docstrings: of strings that are statements, also behind constants and fields."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.col_offset, node.value.value


def find_subordinate_docstrings(sources: Path) -> Iterator[str]:
    """Name every docstring that begins with neither a verb nor a noun phrase."""
    for file in sorted(sources.rglob("*.py")):
        for line, _, text in _docstrings(file.read_text()):
            start = SUBORDINATE_START.match(text.lstrip())
            if start is not None:
                yield f"{file.relative_to(sources)}:{line} begins with {start[0]!r}: begin with a verb or a noun phrase"


def find_long_files(sources: Path) -> Iterator[str]:
    """Name every file that is too long to be read in one go."""
    for file in sorted(sources.rglob("*.py")):
        lines = len(file.read_text().splitlines())
        name = str(file.relative_to(sources))
        if lines > MAX_LINES and name not in GENERATED:
            yield f"{name} has {lines} lines, more than {MAX_LINES}"


def find_violations(sources: Path) -> list[str]:
    """Name everything that the vocabulary forbids."""
    checks = (
        find_shared_names,
        find_shared_constants,
        find_gerunds,
        find_conversation,
        find_former_words,
        find_vague_actors,
        find_subordinate_docstrings,
        find_long_files,
    )
    return [violation for check in checks for violation in check(sources)]


def find_violations_beside(root: Path) -> list[str]:
    """Name what the vocabulary forbids in the folders beside the sources, and in the documents."""
    checks = (find_gerunds, find_conversation, find_former_words, find_long_files)
    return [
        *(f"{folder}/{violation}" for folder in BESIDE for check in checks for violation in check(root / folder)),
        *find_vague_actors_beside(root),
        *find_vague_actors_in_documents(root),
    ]


def main() -> int:
    violations = [
        *find_violations(SOURCES),
        *find_former_twins(SOURCES),
        *find_former_shared_constants(SOURCES),
        *find_violations_beside(ROOT),
    ]
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
