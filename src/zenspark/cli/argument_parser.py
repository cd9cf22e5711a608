"""Parser: argparse with errors in one line, suggestions for mistyped flags, and checked argument types.

The types are for `add_argument(type=...)`: wrong values are rejected before anything is opened or created.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

from zenspark.cli import units
from zenspark.cli.exit_codes import FAILED
from zenspark.errors import UsageError

T = TypeVar("T")

DEFAULT_ZENOH_PORT = 7447
"""TCP port on which a router listens by default."""
MIN_SIMILARITY = 0.7
"""Minimum similarity of a flag that is suggested, from 0 to 1."""
MIN_PROTOCOL_SIMILARITY = 0.6
"""Minimum similarity of a protocol that is suggested; lower, as their names are short."""


class Parser(argparse.ArgumentParser):
    """Argument parser that prints errors in one line and suggests the flag that was meant."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - those of argparse
        super().__init__(**{"formatter_class": argparse.RawDescriptionHelpFormatter, **settings})

    def error(self, message: str) -> NoReturn:
        text = re.sub(r"^argument ", "", message).replace("the following arguments are required:", "missing")
        text = text.replace(": not allowed with argument", " cannot be combined with")
        self.exit(FAILED, f"{self.prog}: {text} (see {self.prog} --help)\n")

    def parse_known_args(  # type: ignore[override]  # the overloads of argparse differ in the namespace only
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; a flag that does not exist is reported before missing arguments."""
        for argument in args or ():
            if argument == "--" or (self._subparsers is not None and not argument.startswith("-")):
                break
            if argument.startswith("--") and " " not in argument:
                self._check_flag(argument.partition("=")[0])
        return super().parse_known_args(args, namespace)

    def parse_args(  # type: ignore[override]  # the overloads of argparse differ in the namespace only
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Parse, and reject unexpected arguments."""
        parsed, extra = self.parse_known_args(args, namespace)
        for argument in extra:
            if argument.startswith("-") and not argument.removeprefix("-").isdigit():
                self._reject_flag(argument)
            hint = "" if argument.startswith("-") else ": quote a value with blanks or wildcards"
            self.error(f"unexpected argument {argument!r}{hint}")
        return parsed

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401 - any type of an argument
        """Reject a value that is none of the choices; the text is the same for all versions of Python."""
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        close = get_close_matches(str(value), names, 1, MIN_SIMILARITY)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise argparse.ArgumentError(action, f"expected one of {', '.join(names)}, found {str(value)!r}{hint}")

    def _check_flag(self, flag: str) -> None:
        if not any(option.startswith(flag) for option in self._option_string_actions):
            self._reject_flag(flag)

    def _reject_flag(self, flag: str) -> NoReturn:
        close = get_close_matches(flag, self._option_string_actions, 1, MIN_SIMILARITY)
        self.error(f"there is no flag {flag}" + (f"; did you mean {close[0]}?" if close else ""))


# --- types of arguments -----------------------------------------------------------------------------------------------


def to_argument_type(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Make an argument type of a function that raises UsageError; argparse then names the flag."""

    def parse_argument(text: str) -> T:
        try:
            return parse(text)
        except UsageError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse_argument


def _parse_count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise UsageError(f"expected a whole number from 1, found {text!r}")
    return int(text)


def parse_endpoint(text: str) -> str:
    """Check an endpoint; the frequent mistakes get a suggestion."""
    from zenspark.net.links.endpoint import Endpoint
    from zenspark.net.links.registry import PROTOCOLS

    suggestion = _suggest_endpoint(text)
    if suggestion is not None:
        raise UsageError(f"expected an endpoint such as tcp/127.0.0.1:7447, found {text!r}; did you mean {suggestion}?")
    endpoint = Endpoint.parse(text)
    if endpoint.protocol not in PROTOCOLS:
        close = get_close_matches(endpoint.protocol, PROTOCOLS, 1, MIN_PROTOCOL_SIMILARITY)
        hint = f"; did you mean {close[0]}{text.removeprefix(endpoint.protocol)}?" if close else ""
        raise endpoint.error(f"has a protocol that is not one of {', '.join(PROTOCOLS)}{hint}")
    if endpoint.protocol != "unixsock-stream":
        endpoint.host_port  # noqa: B018 - raises if it has no host or port
    return text


def _suggest_endpoint(text: str) -> str | None:
    """Return the endpoint that was probably meant; None if the text has its form."""
    parts = re.fullmatch(r"(?:(\w+)(?:://|:/?))?(\[[0-9a-fA-F:.%]+\]|[\w.-]*)(?::(\d+))?", text)
    if parts is None:
        return None
    protocol, host, port = parts.groups()
    if protocol and not re.match(r"\w+:/", text):  # host:port looks like protocol:host
        protocol, host, port = (protocol, host, port) if port else (None, protocol, host)
    if host.isdigit() and not port:
        host, port = "", host
    return f"{protocol or 'tcp'}/{host or '127.0.0.1'}:{port or DEFAULT_ZENOH_PORT}"


def parse_key_expr(text: str) -> str:
    """Check a key expression and return its canonical form."""
    from zenspark.key import KeyExpr

    return str(KeyExpr.autocanonize(text))


def parse_key(text: str) -> str:
    """Check a key: a key expression without wildcards."""
    from zenspark.key import KeyExpr

    key = KeyExpr(text)
    if "*" in text:
        raise UsageError(f"expected a key without wildcards, found {str(key)!r}")
    return str(key)


def parse_selector(text: str) -> str:
    """Check a selector: a key expression, optionally with `?` and parameters."""
    key, question, parameters = text.partition("?")
    return parse_key_expr(key) + question + parameters


duration = to_argument_type(units.parse_duration)
"""Argument type of a duration in seconds: 500ms, 90s, 1h."""
size = to_argument_type(units.parse_size)
"""Argument type of a size in bytes: 64KiB, 2GB."""
count = to_argument_type(_parse_count)
"""Argument type of a number from 1."""
endpoint = to_argument_type(parse_endpoint)
"""Argument type of an endpoint."""
key_expr = to_argument_type(parse_key_expr)
"""Argument type of a key expression."""
key = to_argument_type(parse_key)
"""Argument type of a key without wildcards."""
selector = to_argument_type(parse_selector)
"""Argument type of a selector."""
