"""The users of a dictionary file (`transport/auth/usrpwd/dictionary_file`), checked line by line.

The format is eclipse-zenoh's: `user:password` a line. Blank lines are skipped, white space around user and password
does not count, a password may contain `:`. There are no comments: a line without `:` is refused, as eclipse-zenoh does,
because taking it for a user without a password would let that user in. A second line of the same user is refused as
well; in eclipse-zenoh the last one counts without a warning.
"""

from __future__ import annotations

from pathlib import Path

from zenspark.config.schema import ConfigError

DICTIONARY_FILE_KEY = "transport/auth/usrpwd/dictionary_file"
EXPECTED_LINES = "lines `user:password`"


def read_users(path: str) -> dict[bytes, bytes]:
    """Read a dictionary file: the password of each user; ConfigError names the file and the line that is wrong."""
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(DICTIONARY_FILE_KEY, "a file that can be read", f"{path}: {error}") from error
    users: dict[bytes, bytes] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        user, colon, password = (part.strip() for part in line.partition(":"))
        problem = _problem(user, colon, password, users)
        if problem:
            raise ConfigError(DICTIONARY_FILE_KEY, EXPECTED_LINES, f"{path}, line {number}: {problem}")
        users[user.encode()] = password.encode()
    return users


def _problem(user: str, colon: str, password: str, known: dict[bytes, bytes]) -> str | None:
    """Return the problem of a line, without showing what may be a password."""
    if not colon:
        return "no `:`"
    if not user:
        return "an empty user"
    if not password:
        return "an empty password"
    return f"user {user!r} a second time" if user.encode() in known else None
