"""TLS links: TCP with certificates on the listening side and, with `enable_mtls`, on the connecting side too.

Certificates and keys are options of the endpoint, under the names zenohd has for them:

    root_ca_certificate                         whom we trust; without it, whom this machine trusts
    listen_certificate, listen_private_key      who we are when others connect to us
    connect_certificate, connect_private_key    who we are when we connect, shown if enable_mtls is true
    enable_mtls                                 a listener demands a certificate, a connector shows one
    verify_name_on_connect                      whether the certificate must name the host we connected to (true)
    close_link_on_expiration                    whether a link ends when the certificate of the other side expires

Each certificate or key can be given as a path (`..._file`, or the bare name as in a configuration file), in PEM
(`..._raw`) or as PEM in base64 (`..._base64`). Files are read again when they have changed, which is looked at for
each new connection; what cannot be used is logged, and what was read before stays in use.

OpenSSL allows one call at a time on a connection, so a lock stands around each; none of them waits. A record that
could not be written whole is kept by OpenSSL, which then insists on the same bytes: hence the rule of `Link.send`.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import logging
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

from zenspark.errors import UsageError
from zenspark.net.links.base import READ, WOULD_BLOCK, WRITE, Buffer, Link, SocketAddress, close_on_error
from zenspark.net.links.endpoint import CREDENTIALS, Endpoint
from zenspark.net.links.sockets import connect_socket
from zenspark.net.links.tcp import TcpLink, TcpListener

logger = logging.getLogger("zenspark.net")

MAX_RECORD_BYTES = 16_384
"""The largest piece that TLS encrypts as one."""
MAX_CONNECT_CONTEXTS = 64
"""Endpoints to connect to whose certificates are kept in memory, so that a broken new file does not end a link."""


class TlsLink(TcpLink):
    """A TLS connection; before `establish` it is only a TCP connection that wants to become one."""

    can_half_close = False
    _socket: ssl.SSLSocket

    def __init__(self, connection: ssl.SSLSocket, endpoint: Endpoint, remote: SocketAddress) -> None:
        super().__init__(connection, endpoint, remote)
        self.is_established = False
        self._ssl_lock = threading.Lock()
        self._pending_record: memoryview | None = None
        """What OpenSSL has made a record of but could not write."""

    @property
    def has_buffered(self) -> bool:
        with self._recv_lock, self._ssl_lock:
            return not self._closed and self._socket.pending() > 0

    def establish(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while (awaited := self._handshake_step()) is not None:
            left = deadline - time.monotonic()
            if left <= 0 or not self._wait(awaited, left):
                raise self.make_error(None, f"no TLS handshake within {timeout:g} s")
        self.is_established = True

    def _handshake_step(self) -> int | None:
        """Go on with the handshake; what to wait for, None when it is done."""
        try:
            with self._recv_lock, self._send_lock, self._ssl_lock:
                self._socket.do_handshake()
                certificate = self._socket.getpeercert()
                self.auth_identifier = common_name(certificate)
                if self.endpoint.flag("close_link_on_expiration"):
                    self.expires_at = expiration(certificate)
        except ssl.SSLWantReadError:
            return READ
        except ssl.SSLWantWriteError:
            return WRITE
        except (OSError, ValueError) as error:  # ValueError: of a socket that was closed meanwhile
            raise self.make_error(error, f"TLS handshake: {tls_error_reason(error)}") from error
        return None

    def recv_into(self, buffer: memoryview) -> int:
        try:
            with self._recv_lock, self._ssl_lock:
                self._check_open()
                return self._socket.recv_into(buffer)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return WOULD_BLOCK
        except OSError as error:
            raise self.make_error(error, tls_error_reason(error)) from error

    def send(self, data: Buffer) -> int:
        left = memoryview(data)
        with self._send_lock:
            assert self._pending_record is None or left[: len(self._pending_record)] == self._pending_record, (
                "not what was offered before"
            )
            try:
                while left:
                    left = left[self._write(left) :]
                self._pending_record = None
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                self._pending_record = memoryview(bytes(left[:MAX_RECORD_BYTES]))
            except OSError as error:
                raise self.make_error(error, tls_error_reason(error)) from error
        return len(data) - len(left)

    def _write(self, data: memoryview) -> int:
        with self._ssl_lock:
            self._check_open()
            return self._socket.send(data)

    def _check_open(self) -> None:
        # Once ended, an SSLSocket would go on in plain text.
        if self._closed:
            raise OSError("the link is closed")

    def _end(self) -> None:
        with self._ssl_lock, contextlib.suppress(OSError, ValueError):
            self._socket.unwrap()  # sends the goodbye of TLS; its answer is not awaited
        super()._end()


class TlsListener(TcpListener):
    """Accepts TLS connections; the links it gives have yet to `establish`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._context = ReloadingContext(endpoint, server_context)
        if endpoint.flag("close_link_on_expiration") and not endpoint.flag("enable_mtls"):
            logger.warning(
                "%s: close_link_on_expiration has no effect on those who connect without enable_mtls: "
                "they show no certificate",
                endpoint.locator.text,
            )
        super().__init__(endpoint)

    def link(self, connection: socket.socket, address: SocketAddress) -> Link:
        connection.setblocking(False)
        wrapped = self._context.current().wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        try:
            return TlsLink(wrapped, self.endpoint, address)
        except OSError:
            wrapped.close()
            raise


def connect(endpoint: Endpoint, timeout: float) -> Link:
    """Open a TLS link and finish its handshake."""
    context = _connect_context(endpoint).current()
    deadline = time.monotonic() + timeout
    connection, address = connect_socket(endpoint, deadline)
    connection.setblocking(False)
    host = endpoint.host_port[0].partition("%")[0]
    with close_on_error(connection, endpoint):
        wrapped = context.wrap_socket(connection, server_hostname=host, do_handshake_on_connect=False)
    with close_on_error(wrapped, endpoint):
        link = TlsLink(wrapped, endpoint, address)
        link.establish(max(0.0, deadline - time.monotonic()))
        return link


def listen(endpoint: Endpoint) -> TlsListener:
    """Listen for TLS links."""
    return TlsListener(endpoint)


# -- certificates ------------------------------------------------------------------------------------------------


class ReloadingContext:
    """The context of an endpoint, made anew when its certificate files have changed."""

    def __init__(self, endpoint: Endpoint, make: Callable[[Endpoint], ssl.SSLContext]) -> None:
        self._endpoint = endpoint
        self._make = make
        self._files = [path for name in CREDENTIALS if (path := _configured_path(endpoint, name)) is not None]
        self._lock = threading.Lock()
        self._versions = self._file_versions()
        self._context = make(endpoint)

    def current(self) -> ssl.SSLContext:
        """The context for the next connection: of the files as they are, or as they were while they could be used."""
        with self._lock:
            versions = self._file_versions()
            if versions != self._versions:
                self._versions = versions
                self._reload()
            return self._context

    def _file_versions(self) -> list[tuple[int, int, int] | None]:
        """What tells one version of each file from the next; None if it is not there."""
        return [_file_version(file) for file in self._files]

    def _reload(self) -> None:
        locator = self._endpoint.locator.text
        try:
            self._context = self._make(self._endpoint)
        except (UsageError, OSError) as error:
            logger.warning("the changed certificates of %s are not used, those before stay in use: %s", locator, error)
        else:
            logger.info("the certificates of %s were read again", locator)


def _file_version(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


@lru_cache(MAX_CONNECT_CONTEXTS)
def _connect_context(endpoint: Endpoint) -> ReloadingContext:
    return ReloadingContext(endpoint, client_context)


def client_context(endpoint: Endpoint) -> ssl.SSLContext:
    """Whom to trust and what to show when connecting."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION  # so that writing never has to wait for reading
    context.hostname_checks_common_name = False  # names stand in subjectAltName only, as rustls has it
    context.check_hostname = endpoint.flag("verify_name_on_connect") is not False
    _load_trusted_roots(context, endpoint)
    if endpoint.flag("enable_mtls"):
        _load_certificate(context, endpoint, "connect")
    return context


def server_context(endpoint: Endpoint) -> ssl.SSLContext:
    """What to show, and whether to demand a certificate, when others connect."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.num_tickets = 0  # a session that is resumed would not have its certificate checked again
    _load_certificate(context, endpoint, "listen")
    if endpoint.flag("enable_mtls"):
        context.verify_mode = ssl.CERT_REQUIRED
        _load_trusted_roots(context, endpoint)
    return context


def _load_trusted_roots(context: ssl.SSLContext, endpoint: Endpoint) -> None:
    pem = _pem(endpoint, "root_ca_certificate")
    if pem is None:
        context.load_default_certs(
            ssl.Purpose.SERVER_AUTH if context.protocol is ssl.PROTOCOL_TLS_CLIENT else ssl.Purpose.CLIENT_AUTH
        )
        return
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        raise endpoint.error(f"has a root_ca_certificate that is not one: {tls_error_reason(error)}") from error


def _load_certificate(context: ssl.SSLContext, endpoint: Endpoint, side: str) -> None:
    certificate, key = f"{side}_certificate", f"{side}_private_key"

    def refuse() -> str:  # OpenSSL would ask on the terminal
        raise endpoint.error(f"has a {key} that is encrypted; give it without a password")

    # The ssl module takes these from files only; nobody else can enter the directory of those that are not in one.
    with tempfile.TemporaryDirectory(prefix="zenspark-") as directory:
        shown, proof = _path(endpoint, certificate, directory), _path(endpoint, key, directory)
        try:
            context.load_cert_chain(shown, proof, refuse)
        except ssl.SSLError as error:
            raise endpoint.error(f"has a {certificate} and {key} that do not fit: {tls_error_reason(error)}") from error


def _path(endpoint: Endpoint, name: str, directory: str) -> Path:
    """The file of a certificate or key; one that was given in the endpoint itself is put in a file for the moment."""
    pem = _pem(endpoint, name)
    if pem is None:
        raise endpoint.error(f"has no {name}")
    given = _configured_path(endpoint, name)
    if given is not None:
        return given
    path = Path(directory, name)
    path.write_text(pem, encoding="ascii")
    return path


def _configured_path(endpoint: Endpoint, name: str) -> Path | None:
    if endpoint.option(f"{name}_raw") or endpoint.option(f"{name}_base64"):
        return None
    path = endpoint.option(f"{name}_file") or endpoint.option(name)
    return Path(path) if path else None


def _pem(endpoint: Endpoint, name: str) -> str | None:
    """The PEM text of a certificate or key, in whichever way it was given."""
    raw = endpoint.option(f"{name}_raw")
    coded = endpoint.option(f"{name}_base64")
    path = _configured_path(endpoint, name)
    try:
        if coded and not raw:
            return base64.b64decode(coded, validate=True).decode("ascii")
        return raw or (path.read_text(encoding="ascii") if path else None)
    except binascii.Error:
        raise endpoint.error(f"has a {name}_base64 that is not base64") from None
    except UnicodeDecodeError:
        raise endpoint.error(f"has a {name} that is not PEM") from None
    except OSError as error:
        raise endpoint.error(f"has a {name} that cannot be read from {path}: {error.strerror}") from error


def common_name(certificate: Mapping[str, object] | None) -> str | None:
    """The common name of a verified certificate."""
    subject = (certificate or {}).get("subject", ())
    assert isinstance(subject, tuple)
    return next((value for part in subject for key, value in part if key == "commonName"), None)


def expiration(certificate: Mapping[str, object] | None) -> float | None:
    """When a verified certificate expires, in seconds since 1970."""
    end = (certificate or {}).get("notAfter")
    return None if end is None else float(ssl.cert_time_to_seconds(str(end)))


def tls_error_reason(error: Exception) -> str:
    """What OpenSSL says, without where in its source it says so."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)
