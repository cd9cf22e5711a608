"""TLS links: TCP with certificates on the listening side and, with `enable_mtls`, on the connecting side too.

Certificates and keys are options of the endpoint, under the names zenohd has for them:

    root_ca_certificate                         trusted authorities; by default those of the system
    listen_certificate, listen_private_key      certificate of a listener
    connect_certificate, connect_private_key    certificate of the connecting side, sent if enable_mtls is true
    enable_mtls                                 a listener requires a client certificate, a connector sends one
    verify_name_on_connect                      whether the certificate must name the host (true)
    close_link_on_expiration                    whether a link is closed when the peer's certificate expires

Each certificate or key can be given as a path (`..._file`, or the bare name as in a configuration file), in PEM
(`..._raw`) or as PEM in base64 (`..._base64`). Files are read again when they have changed, which is checked for
each new connection; if they are invalid, that is logged and the former ones stay in use.

OpenSSL allows one call at a time on a connection, so each takes a lock; none of them waits. A record that could not be
written completely is kept by OpenSSL, which then requires the same bytes again: hence the rule of `Link.send`.
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
from zenspark.net.links.base import READ, WOULD_BLOCK, WRITE, Buffer, IpSocketAddress, Link, close_on_error
from zenspark.net.links.endpoint import TLS_CREDENTIALS, Endpoint
from zenspark.net.links.sockets import connect_socket
from zenspark.net.links.tcp import TcpLink, TcpListener

logger = logging.getLogger("zenspark.net")

MAX_RECORD_BYTES = 16_384
"""Bytes of the largest TLS record."""
MAX_CONNECT_CONTEXTS = 64
"""Endpoints whose client certificates are cached, so that an invalid new file does not prevent a connection."""


class TlsLink(TcpLink):
    """A TLS connection; before `establish` only its TCP connection is open."""

    can_half_close = False
    _socket: ssl.SSLSocket

    def __init__(self, connection: ssl.SSLSocket, endpoint: Endpoint, remote: IpSocketAddress) -> None:
        super().__init__(connection, endpoint, remote)
        self.is_established = False
        self._ssl_lock = threading.Lock()
        self._pending_record: memoryview | None = None
        """The bytes of a record that OpenSSL could not write completely."""

    @property
    def has_buffered(self) -> bool:
        with self._recv_lock, self._ssl_lock:
            return not self._closed and self._socket.pending() > 0

    def establish(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while (event := self._handshake_step()) is not None:
            left = deadline - time.monotonic()
            if left <= 0 or not self._wait(event, left):
                raise self.make_error(None, f"no TLS handshake within {timeout:g} s")
        self.is_established = True

    def _handshake_step(self) -> int | None:
        """Continue the handshake; returns the event to wait for, None when it is done."""
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
        except (OSError, ValueError) as error:  # ValueError: the socket was closed meanwhile
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
        # After unwrap, an SSLSocket would continue in plain text.
        if self._closed:
            raise OSError("the link is closed")

    def _end(self) -> None:
        with self._ssl_lock, contextlib.suppress(OSError, ValueError):
            self._socket.unwrap()  # sends close_notify, without waiting for that of the peer
        super()._end()


class TlsListener(TcpListener):
    """Accepts TLS connections; its links have to `establish`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._context = ReloadingContext(endpoint, server_context)
        if endpoint.flag("close_link_on_expiration") and not endpoint.flag("enable_mtls"):
            logger.warning(
                "%s: close_link_on_expiration has no effect without enable_mtls: clients send no certificate",
                endpoint.locator.text,
            )
        super().__init__(endpoint)

    def link(self, connection: socket.socket, address: IpSocketAddress) -> Link:
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
    """The SSLContext of an endpoint, made again when its certificate files have changed."""

    def __init__(self, endpoint: Endpoint, make: Callable[[Endpoint], ssl.SSLContext]) -> None:
        self._endpoint = endpoint
        self._make = make
        self._files = [path for name in TLS_CREDENTIALS if (path := _configured_path(endpoint, name)) is not None]
        self._lock = threading.Lock()
        self._versions = self._file_versions()
        self._context = make(endpoint)

    def current(self) -> ssl.SSLContext:
        """Return the context for the next connection: of the present files, or of the last valid ones."""
        with self._lock:
            versions = self._file_versions()
            if versions != self._versions:
                self._versions = versions
                self._reload()
            return self._context

    def _file_versions(self) -> list[tuple[int, int, int] | None]:
        """Return the version of each file; None for a missing one."""
        return [_file_version(file) for file in self._files]

    def _reload(self) -> None:
        locator = self._endpoint.locator.text
        try:
            self._context = self._make(self._endpoint)
        except (UsageError, OSError) as error:
            logger.warning("reloading certificates of %s failed, the former ones stay in use: %s", locator, error)
        else:
            logger.info("reloaded certificates of %s", locator)


def _file_version(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


@lru_cache(MAX_CONNECT_CONTEXTS)
def _connect_context(endpoint: Endpoint) -> ReloadingContext:
    return ReloadingContext(endpoint, client_context)


def client_context(endpoint: Endpoint) -> ssl.SSLContext:
    """Make the context of the connecting side."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION  # so that a write never has to wait for a read
    context.hostname_checks_common_name = False  # only subjectAltName counts, as in rustls
    context.check_hostname = endpoint.flag("verify_name_on_connect") is not False
    _load_trusted_roots(context, endpoint)
    if endpoint.flag("enable_mtls"):
        _load_certificate(context, endpoint, "connect")
    return context


def server_context(endpoint: Endpoint) -> ssl.SSLContext:
    """Make the context of a listener."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.num_tickets = 0  # the certificate of a resumed session would not be verified again
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

    def reject_password() -> str:  # OpenSSL would prompt on the terminal
        raise endpoint.error(f"has a {key} that is encrypted; give it without a password")

    # The ssl module reads these from files only; the directory is accessible to this user only.
    with tempfile.TemporaryDirectory(prefix="zenspark-") as directory:
        certificate_path = _path(endpoint, certificate, directory)
        key_path = _path(endpoint, key, directory)
        try:
            context.load_cert_chain(certificate_path, key_path, reject_password)
        except ssl.SSLError as error:
            raise endpoint.error(f"has a {certificate} and {key} that do not fit: {tls_error_reason(error)}") from error


def _path(endpoint: Endpoint, name: str, directory: str) -> Path:
    """Return the file of a certificate or key; one given in the endpoint itself is written to a temporary file."""
    pem = _pem(endpoint, name)
    if pem is None:
        raise endpoint.error(f"has no {name}: set transport/link/tls/{name} in the configuration")
    configured = _configured_path(endpoint, name)
    if configured is not None:
        return configured
    path = Path(directory, name)
    path.write_text(pem, encoding="ascii")
    return path


def _configured_path(endpoint: Endpoint, name: str) -> Path | None:
    if endpoint.option(f"{name}_raw") or endpoint.option(f"{name}_base64"):
        return None
    path = endpoint.option(f"{name}_file") or endpoint.option(name)
    return Path(path) if path else None


def _pem(endpoint: Endpoint, name: str) -> str | None:
    """Return the PEM text of a certificate or key; None if it is not configured."""
    raw = endpoint.option(f"{name}_raw")
    encoded = endpoint.option(f"{name}_base64")
    path = _configured_path(endpoint, name)
    try:
        if encoded and not raw:
            return base64.b64decode(encoded, validate=True).decode("ascii")
        return raw or (path.read_text(encoding="ascii") if path else None)
    except binascii.Error:
        raise endpoint.error(f"has a {name}_base64 that is not base64") from None
    except UnicodeDecodeError:
        raise endpoint.error(f"has a {name} that is not PEM") from None
    except OSError as error:
        raise endpoint.error(f"has a {name} that cannot be read from {path}: {error.strerror}") from error


def common_name(certificate: Mapping[str, object] | None) -> str | None:
    """Return the common name of a verified certificate."""
    subject = (certificate or {}).get("subject", ())
    assert isinstance(subject, tuple)
    return next((value for part in subject for key, value in part if key == "commonName"), None)


def expiration(certificate: Mapping[str, object] | None) -> float | None:
    """Return the time at which a verified certificate expires, in seconds since 1970."""
    end = (certificate or {}).get("notAfter")
    return None if end is None else float(ssl.cert_time_to_seconds(str(end)))


def tls_error_reason(error: Exception) -> str:
    """Return the text of an OpenSSL error, without the position in its source."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)
