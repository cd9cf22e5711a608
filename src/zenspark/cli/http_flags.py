"""Flags of the HTTP interface: the page, REST and metrics of `zenspark up`, `router` and `demo`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from zenspark.api.session import Session
from zenspark.errors import LinkError, UsageError
from zenspark.web.settings import NONE, Address, HttpSettings, has_private_key, parse_http_address

if TYPE_CHECKING:
    from zenspark.web.protocols import Pipeline, SqlEngine

DEFAULT_ADDRESS = "127.0.0.1:8000"
"""Address of the page where it is served by default; if it is in use, any free port."""
FLAGS = (
    *("http", "http_write", "http_token", "http_user", "http_certificate", "http_key"),
    *("http_host", "http_origin", "http_insecure"),
)


class HttpPlan(NamedTuple):
    """Settings of the HTTP servers of a command."""

    page: HttpSettings | None
    """The page, REST and metrics; None if it is not served."""
    rest: Address | None = None
    """Address of zenohd's REST API alone (`plugins/rest`), if configured."""
    may_move: bool = False
    """Whether the page is served on a free port if its own is in use."""


class HttpAddresses(NamedTuple):
    """Addresses of the running HTTP servers."""

    url: str | None
    """URL of the page."""
    facts: list[tuple[str, str]]
    """Lines for the banner."""


def add_http_flags(parser: ArgumentParser, *, default: str | None) -> None:
    """Add the flags; `default` is the address for the help, None if HTTP is off by default."""
    add = parser.add_argument_group("HTTP: the page, REST, metrics").add_argument
    add(
        "--http",
        metavar="ADDRESS:PORT",
        help=f"serve the page, REST and metrics here; {NONE} disables it (default: {default or NONE})",
    )
    add("--http-write", action="store_true", default=None, help="allow put and delete over HTTP")
    add("--http-token", metavar="TOKEN|@FILE", help="require this token (Authorization: Bearer), or that in a file")
    add("--http-user", metavar="NAME:PASSWORD|@FILE", help="require this user and password (basic authentication)")
    add("--http-certificate", metavar="FILE", help="PEM file of the certificate chain: HTTPS instead of HTTP")
    add("--http-key", metavar="FILE", help="PEM file of the private key (default: that of --http-certificate)")
    host = "another name of this server, such as that of a proxy in front of it; repeatable"
    add("--http-host", metavar="NAME", action="append", help=host)
    origin = "let pages of this origin read and write, such as https://dashboard.example; repeatable"
    add("--http-origin", metavar="ORIGIN", action="append", help=origin)
    insecure = "allow other addresses than loopback without login or TLS: every host that reaches them can use the node"
    add("--http-insecure", action="store_true", default=None, help=insecure)


def parse_http(args: Namespace, *, default: str | None, rest: Address | None = None) -> HttpPlan:
    """Parse the flags; raises UsageError for settings that contradict each other or would expose the node."""
    text = args.http if args.http is not None else default
    if text is None or text == NONE:
        unused_flags = [f"--{name.replace('_', '-')}" for name in FLAGS[1:] if getattr(args, name)]
        if unused_flags:
            raise UsageError(f"{unused_flags[0]}: expected --http ADDRESS:PORT with it")
        return HttpPlan(None, rest)
    try:
        address = parse_http_address(text)
    except UsageError as error:
        raise UsageError(f"--http: {error}") from None
    user, password = _parse_user(args.http_user)
    certificate, key = _parse_certificate(args)
    page = HttpSettings(
        address=address,
        write=bool(args.http_write),
        token=None if args.http_token is None else _read_secret("--http-token", args.http_token),
        user=user,
        password=password,
        certificate=certificate,
        key=key,
        allowed_hosts=tuple(map(parse_host, args.http_host or ())),
        allowed_origins=tuple(map(parse_origin, args.http_origin or ())),
        insecure=bool(args.http_insecure),
    )
    page.check()
    return HttpPlan(page, rest, may_move=args.http is None)


def parse_host(text: str) -> str:
    """Check the name of a server; raises UsageError if there is more than a name, such as a port."""
    if not text or any(sign in text for sign in "/:@ "):
        raise UsageError(f"--http-host: expected a name such as robots.example, found {text!r}")
    return text


def parse_origin(text: str) -> str:
    """Check the origin of a page; raises UsageError if it is not a scheme and a host."""
    scheme, separator, host = text.rstrip("/").partition("://")
    if scheme not in ("http", "https") or not separator or not host or "/" in host:
        raise UsageError(f"--http-origin: expected an origin such as https://dashboard.example, found {text!r}")
    return text


def _parse_user(text: str | None) -> tuple[str | None, str | None]:
    if text is None:
        return None, None
    user, colon, password = _read_secret("--http-user", text).partition(":")
    if not (user and colon and password):
        raise UsageError("--http-user: expected NAME:PASSWORD, or @FILE with it")
    return user, password


def _read_secret(flag: str, text: str) -> str:
    """Return a secret: the text itself, or the first line of the file after an @."""
    if not text.startswith("@"):
        return text
    try:
        secret = Path(text[1:]).read_text().partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{flag}: {text[1:]} cannot be read: {error}") from None
    if not secret:
        raise UsageError(f"{flag}: {text[1:]} is empty")
    return secret


def _parse_certificate(args: Namespace) -> tuple[Path | None, Path | None]:
    """Return the files of certificate and private key; raises UsageError if only one of both is given."""
    certificate = _existing_file("--http-certificate", args.http_certificate)
    key = _existing_file("--http-key", args.http_key)
    if certificate is None and key is not None:
        raise UsageError("--http-key: expected --http-certificate FILE with it")
    if certificate is not None and key is None and not has_private_key(certificate):
        raise UsageError(
            f"--http-certificate: {certificate} has no private key: expected it in the file, or in that of --http-key"
        )
    return certificate, key


def _existing_file(flag: str, text: str | None) -> Path | None:
    if text is None:
        return None
    if not Path(text).is_file():
        raise UsageError(f"{flag}: there is no file {text}")
    return Path(text)


def to_arguments(args: Namespace) -> list[str]:
    """Return the flags as they were given, for another command line."""
    arguments: list[str] = []
    for name in FLAGS:
        value = getattr(args, name)
        if value is not None:
            flag = f"--{name.replace('_', '-')}"
            if value is True:
                arguments.append(flag)
            else:
                arguments += [text for item in ([value] if isinstance(value, str) else value) for text in (flag, item)]
    return arguments


@contextmanager
def serve_http(
    session: Session, plan: HttpPlan, pipeline: Pipeline | None = None, sql: SqlEngine | None = None
) -> Iterator[HttpAddresses]:
    """Serve HTTP while the context is open."""
    if plan == HttpPlan(None):
        yield HttpAddresses(None, [])
        return
    from zenspark.web.server import HttpServer, RestServer  # imported here: slow, and only these need an HTTP server

    with ExitStack() as stack:
        url, facts = None, []
        if plan.rest is not None:
            facts.append(("REST on", stack.enter_context(RestServer(session, plan.rest)).url))
        if plan.page is not None:
            try:
                server = HttpServer(session, plan.page, pipeline, sql)
            except LinkError:
                if not plan.may_move:
                    raise
                with_any_port = msgspec.structs.replace(plan.page, address=(plan.page.address[0], 0))
                server = HttpServer(session, with_any_port, pipeline, sql)
            url = stack.enter_context(server).url
            facts.insert(0, ("page", url))
        yield HttpAddresses(url, facts)
