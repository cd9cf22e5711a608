"""Errors of the embedded engine in one line: what is wrong, where, and the name that was probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from zenspark.sql.dialect import Translation

NO_TRANSLATION = Translation("", ())
MAX_MESSAGE_CHARACTERS = 300
"""Most characters of a message; longer ones are cut."""
DUCKDB_POSITION = re.compile(r"\n\nLINE (\d+): (.*)\n( *)\^", re.DOTALL)
LINE_LABEL = "LINE {}: "

NO_TABLE = re.compile(r"Table with name (.+?) does not exist")
NO_COLUMN = re.compile(r'Referenced column "(.+?)" (?:not found|was not found)')
CANDIDATE = re.compile(r'"([^"]+)"')
NO_COLUMN_OF = re.compile(r'(?:Table|Values list) "(.+?)" does not have a column named "(.+?)"')
NO_RELATION = re.compile(r'Referenced table "(.+?)" not found')
BYTES_AS_NUMBERS = re.compile(r"cast \(BLOB ->|argument types '[^']*\bBLOB\b")
ADVICE = re.compile(r" You might need to add explicit type casts\..*")
"""Suffix that the engine adds to an error about types: a list of all functions of that name."""
BYTES_HINT = "; payload is bytes: decode(payload) is its text, as in avg(decode(payload)::double)"
NO_FUNCTION = re.compile(r"(?:Scalar|Aggregate|Table|Macro)?\s*Function with name \"?(.+?)\"? does not exist")


def describe_error(
    error: Exception,
    translation: Translation = NO_TRANSLATION,
    *,
    tables: Iterable[str] = (),
    columns: Iterable[str] = (),
    functions: Iterable[str] = (),
) -> str:
    """Describe an error of the engine; the names are those that can be suggested in place of an unknown one."""
    message = str(error)
    where = _find_position(message, translation)
    if match := NO_TABLE.search(message):
        return _unknown("table", match[1], tables)
    if match := NO_COLUMN.search(message):
        names = list(columns) or CANDIDATE.findall(message.partition("Candidate")[2])
        return _unknown("column", match[1], names, text_hint=_is_in_double_quotes(match[1], translation))
    if match := NO_COLUMN_OF.search(message):
        return _unknown("column", match[2], columns)
    if match := NO_RELATION.search(message):
        return _unknown("table", match[1], tables)
    if match := NO_FUNCTION.search(message):
        return _unknown("function", match[1], functions, lists=False)
    plain = re.sub(r"\s+", " ", DUCKDB_POSITION.split(message)[0]).strip()
    kind, _, rest = plain.partition(" Error: ")
    problem = ADVICE.sub("", rest or plain)
    hint = BYTES_HINT if BYTES_AS_NUMBERS.search(plain) else ""
    if kind == "Parser":
        return f"{_shorten(problem)}{where}"
    return f"the query failed: {_shorten(problem)}{where}{hint}"


def _is_in_double_quotes(name: str, translation: Translation) -> bool:
    """Whether the user wrote a name in double quotes, which the translation adds to names as well: in SQL they enclose
    the name of a column, but a text was often meant."""
    return any(
        match.start() not in translation.added for match in re.finditer(re.escape(f'"{name}"'), translation.text)
    )


def _unknown(what: str, name: str, known: Iterable[str], *, lists: bool = True, text_hint: bool = False) -> str:
    names = list(dict.fromkeys(known))
    close = get_close_matches(name.lower(), names, 1)
    if close:
        return f"there is no {what} {name}: did you mean {close[0]}?"
    if text_hint:
        quoted = name.replace("'", "''")
        return f"there is no {what} {name}; text is in single quotes: '{quoted}'"
    return f"there is no {what} {name}" + (f"; there are {', '.join(names)}" if names and lists else "")


def _find_position(message: str, translation: Translation) -> str:
    """Line and position of an error in the query; the engine shortens long lines, so the line is searched."""
    match = DUCKDB_POSITION.search(message)
    if match is None:
        return ""
    number, excerpt, blanks = int(match[1]), match[2], match[3]
    column = len(blanks) - len(LINE_LABEL.format(number))
    lines = translation.text.split("\n")
    if excerpt.startswith("...") and number <= len(lines):
        shift = lines[number - 1].find(excerpt.removeprefix("...").removesuffix("..."))
        column += shift - 3 if shift >= 0 else 0
    start = sum(len(line) + 1 for line in lines[: number - 1])
    column = translation.original_index(start + column) - translation.original_index(start)
    return f" (line {number}, position {column + 1})"


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARACTERS else f"{text[: MAX_MESSAGE_CHARACTERS - 3]}..."
