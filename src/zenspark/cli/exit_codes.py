"""Exit codes of all commands, and the error that carries one."""

from __future__ import annotations

from zenspark.errors import ZError

OK = 0
INCOMPLETE = 1
"""The command ran, but its result is empty or incomplete: no reply to `get`, rows lost by `record`."""
FAILED = 2
"""Wrong use, or a failure; one line on stderr has the reason."""
NOT_INGESTED = 3
"""Rows of `up` wait in the journal."""
NOT_CONNECTED = 4
"""No connection where one is required: a client without a node, or `--require-connection`."""
INTERRUPTED = 130
"""Ended by Ctrl-C or SIGTERM before it was done, as shells report it."""
BROKEN_PIPE = 141
"""The reader of a pipe has gone (`| head`), as shells report SIGPIPE."""

DESCRIPTIONS = {
    OK: "done; also commands that run until interrupted (Ctrl-C, SIGTERM)",
    INCOMPLETE: "it ran, and the result is empty or incomplete: no reply to get, no token, rows lost by record",
    FAILED: "wrong use, or a failure: one line on standard error has the reason",
    NOT_INGESTED: "zenspark up: rows wait in the journal",
    NOT_CONNECTED: "no connection: a client whose endpoint cannot be reached, or --require-connection",
    INTERRUPTED: "ended by Ctrl-C or SIGTERM before it was done",
    BROKEN_PIPE: "the reader of the output has gone (| head)",
}
"""Meaning of each exit code, for the manual."""


class CommandError(ZError):
    """A command cannot continue; `code` is its exit code."""

    def __init__(self, text: str, code: int = FAILED) -> None:
        super().__init__(text, code)
        self.text = text
        self.code = code

    def __str__(self) -> str:
        return self.text
