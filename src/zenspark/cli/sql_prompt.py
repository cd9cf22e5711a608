"""The prompt of `zenspark sql`: statements over several lines, history, completion of words, tables and columns."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from zenspark.cli.sql_session import Quit, SqlSession, run_safely
from zenspark.sql.dialect import has_words, split_first
from zenspark.sql.functions import FUNCTION_NAMES
from zenspark.sql.tables import TableInfo

PROMPT, CONTINUATION = "lake> ", "   -> "
HISTORY_FILE = "sql_history"
QUIT_WORDS = frozenset({"quit", "exit", "quit;", "exit;"})
KEYWORDS = [
    "select",
    "from",
    "where",
    "group",
    "by",
    "order",
    "limit",
    "offset",
    "having",
    "join",
    "left",
    "inner",
    "on",
    "using",
    "as",
    "and",
    "or",
    "not",
    "in",
    "is",
    "null",
    "like",
    "between",
    "case",
    "when",
    "then",
    "else",
    "end",
    "distinct",
    "union",
    "all",
    "with",
    "values",
    "asc",
    "desc",
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "date_trunc",
    "interval",
    "cast",
    "describe",
    "summarize",
    "show",
    "tables",
    "true",
    "false",
    "exists",
]
PROMPT_COMMANDS = ["\\d", "\\x", "\\timing", "\\q", "\\?"]


def run_prompt(session: SqlSession) -> None:
    """Read statements from a terminal and run them, until \\q or Ctrl-D."""
    tables = session.engine.tables()
    prompt: PromptSession[str] = PromptSession(
        message=PROMPT,
        multiline=True,
        prompt_continuation=CONTINUATION,
        history=open_history(os.environ),
        completer=make_completer(tables),
        complete_while_typing=False,
        key_bindings=make_key_bindings(),
        enable_history_search=False,
    )
    names = ", ".join(table.name for table in tables)
    print(f"tables: {names}\na statement ends with a semicolon; \\? shows the commands, Tab completes, \\q quits")
    try:
        while True:
            _read_and_run(prompt, session)
    except (EOFError, Quit):
        return


def _read_and_run(prompt: PromptSession[str], session: SqlSession) -> None:
    try:
        text = prompt.prompt()
    except KeyboardInterrupt:  # Ctrl-C discards the typed text
        return
    if text.strip().lower() in QUIT_WORDS:
        raise Quit
    rest = run_safely(session, text)
    assert not rest, "the prompt accepts only complete statements"
    sys.stdout.flush()


def is_complete(text: str) -> bool:
    """Whether Enter runs a text: a command, nothing, or statements that all end with a semicolon."""
    plain = text.strip()
    if not plain or plain.startswith("\\") or plain.lower() in QUIT_WORDS:
        return True
    rest = text
    while split := split_first(rest):
        rest = split[1]
    return rest != text and not has_words(rest)


def make_key_bindings() -> KeyBindings:
    """Bind Enter: it runs a complete text, and begins a new line otherwise."""
    bindings = KeyBindings()

    @Condition
    def is_ready() -> bool:
        from prompt_toolkit.application import get_app

        return is_complete(get_app().current_buffer.text)

    @bindings.add("enter", filter=is_ready)
    def accept(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return bindings


def make_completer(tables: Iterable[TableInfo]) -> WordCompleter:
    """Complete words of SQL, tables, columns, functions and commands."""
    listed = list(tables)
    columns = [column.name for table in listed for column in table.columns]
    words = [*(table.name for table in listed), *columns, *FUNCTION_NAMES, *KEYWORDS, *PROMPT_COMMANDS]
    return WordCompleter(list(dict.fromkeys(words)), ignore_case=True, WORD=False)


def open_history(environment: Mapping[str, str]) -> History:
    """Open the history file in the user's state directory; without one the history is not kept."""
    path = state_directory(environment) / HISTORY_FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def state_directory(environment: Mapping[str, str]) -> Path:
    """Return the directory for the state of programs of this user: that of the XDG rules, or of Windows."""
    if environment.get("XDG_STATE_HOME"):
        return Path(environment["XDG_STATE_HOME"], "zenspark")
    if environment.get("LOCALAPPDATA"):
        return Path(environment["LOCALAPPDATA"], "zenspark")
    return Path(environment.get("HOME") or Path.home(), ".local", "state", "zenspark")
