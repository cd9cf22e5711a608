import base64
import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from tests.unit.net.ends import (
    Certificates,
    accept,
    connect,
    connected_links,
    fill,
    listen,
    meanwhile,
    readable,
    receive,
    send,
)
from tests.wait import TIMEOUT_SECONDS
from zenspark.errors import LinkError, UsageError
from zenspark.net.links import tls
from zenspark.net.links.base import WOULD_BLOCK, Link, Listener
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.tls import client_context, common_name, expiration, server_context, tls_error_reason

HANDSHAKE = 0.3
"""Seconds that a bad peer is given."""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(certificates: Certificates) -> str:
    """A listen endpoint whose certificate is for this machine."""
    certificate, key = certificates.files("localhost", "127.0.0.1", common_name="server.example")
    return f"tls/127.0.0.1:0#listen_certificate_file={certificate};listen_private_key_file={key}"


@pytest.fixture(scope="module")
def trust(certificates: Certificates) -> str:
    """The options of a client that trusts our authority."""
    return f"#root_ca_certificate_file={certificates.root}"


@pytest.fixture(scope="module")
def shown(certificates: Certificates) -> str:
    """The options of a client that presents a certificate."""
    certificate, key = certificates.files("client.example", common_name="client.example")
    return f";connect_certificate={certificate};connect_private_key={key}"


@pytest.fixture
def listener(server: str) -> Iterator[Listener]:
    with contextlib.closing(listen(server)) as listener:
        yield listener


def raw_connection(listener: Listener) -> socket.socket:
    host, port = listener.locator.address.split(":")
    return socket.create_connection((host, int(port)))


def accept_unestablished(listener: Listener) -> Link:
    assert readable(listener)
    link = listener.accept()
    assert link is not None
    return link


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_listener_certificate_is_verified(server: str, trust: str, host: str) -> None:
    with connected_links(server, trust, host) as (left, right):
        assert (left.src, left.dst) == (right.dst, right.src)
        assert left.src.startswith("tls/127.0.0.1:")
        assert left.is_streamed
        assert left.is_established
        assert right.is_established
        assert left.auth_identifier == "server.example"
        assert right.auth_identifier is None
        send(left, b"hello")
        assert receive(right, 5) == b"hello"


def test_mtls_verifies_both_certificates(server: str, trust: str, shown: str) -> None:
    mutual = f"{server};enable_mtls=true;{trust[1:]}"
    with connected_links(mutual, f"{trust};enable_mtls=true{shown}") as (left, right):
        assert (left.auth_identifier, right.auth_identifier) == ("server.example", "client.example")
        send(right, b"hello")
        assert receive(left, 5) == b"hello"


def test_mtls_rejects_client_without_certificate(server: str, trust: str, shown: str) -> None:
    with (
        contextlib.closing(listen(f"{server};enable_mtls=true;{trust[1:]}")) as listener,
        # With enable_mtls off the certificate is not shown, as zenohd does not show it.
        meanwhile(lambda: contextlib.closing(connect(listener, trust + shown))) as connecting,
    ):
        link = accept_unestablished(listener)
        with pytest.raises(LinkError, match="peer did not return a certificate"):
            link.establish(TIMEOUT_SECONDS)
        link.close()
        with connecting() as refused, pytest.raises(LinkError, match="certificate required"):
            receive(refused)


def test_certificate_of_an_unknown_authority_is_rejected(listener: Listener) -> None:
    def refuse() -> None:
        with pytest.raises(LinkError, match=r"^tls/127.0.0.1:\d+: TLS handshake: certificate refused: .*issuer"):
            connect(listener, "#verify_name_on_connect=false")

    with (
        meanwhile(refuse),
        contextlib.closing(accept_unestablished(listener)) as link,
        pytest.raises(LinkError, match="unknown ca"),
    ):
        link.establish(TIMEOUT_SECONDS)


def test_certificate_with_another_host_name_is_rejected_unless_verify_name_is_off(
    certificates: Certificates, trust: str
) -> None:
    certificate, key = certificates.files("elsewhere.example", common_name="127.0.0.1")
    elsewhere = f"tls/127.0.0.1:0#listen_certificate={certificate};listen_private_key={key}"
    with connected_links(elsewhere, f"{trust};verify_name_on_connect=false") as (left, _):
        assert left.auth_identifier == "127.0.0.1"
    with contextlib.closing(listen(elsewhere)) as listener:

        def refuse() -> None:
            with pytest.raises(LinkError, match=r"certificate refused: IP address mismatch"):
                connect(listener, trust)

        with meanwhile(refuse), contextlib.closing(accept_unestablished(listener)) as link, pytest.raises(LinkError):
            link.establish(TIMEOUT_SECONDS)


# -- bytes -------------------------------------------------------------------------------------------------------


def test_data_arrives_in_both_directions_at_once(server: str, trust: str) -> None:
    out, back = bytes(range(256)) * 8_000, b"back" * 500_000
    with (
        connected_links(server, trust) as (left, right),
        meanwhile(lambda: send(left, out)),
        meanwhile(lambda: send(right, back)),
        meanwhile(lambda: receive(left, len(back))) as received,
    ):
        assert receive(right, len(out)) == out
        assert received() == back


@pytest.mark.slow
def test_a_full_link_goes_on_where_it_stopped(server: str, trust: str) -> None:
    chunk = bytes(range(250)) * 400
    with connected_links(server, trust) as (left, right):
        taken = fill(left, chunk)
        assert left.send(chunk[taken % len(chunk) :]) == 0
        expected = chunk * (taken // len(chunk)) + chunk[: taken % len(chunk)]
        with meanwhile(lambda: receive(right, taken + len(chunk) - taken % len(chunk))) as received:
            send(left, chunk[taken % len(chunk) :])
            assert received() == expected + chunk[taken % len(chunk) :]


def test_send_of_other_bytes_than_offered_before_is_an_assertion_error(server: str, trust: str) -> None:
    with connected_links(server, trust) as (left, _):
        fill(left, b"a" * 100_000)
        with pytest.raises(AssertionError, match="offered before"):
            left.send(b"b" * 100_000)


def test_has_buffered_reports_decrypted_bytes(server: str, trust: str) -> None:
    with connected_links(server, trust) as (left, right):
        left.send(b"0123456789")
        small = memoryview(bytearray(4))
        while right.recv_into(small) == WOULD_BLOCK:
            assert readable(right)
        assert right.has_buffered
        assert receive(right, 6) == b"456789"
        assert not right.has_buffered
        assert right.recv_into(small) == WOULD_BLOCK


def test_close_by_the_peer_is_the_end_of_the_stream(server: str, trust: str) -> None:
    with connected_links(server, trust) as (left, right):
        left.send(b"bye")
        left.close()
        left.close()
        assert receive(right, 100) == b"bye"
        assert right.recv_into(memoryview(bytearray(1))) == 0
        assert not left.has_buffered
        with pytest.raises(LinkError, match="the link is closed"):
            left.send(b"x")
        with pytest.raises(LinkError, match="the link is closed"):
            left.recv_into(memoryview(bytearray(1)))


def test_forged_record_ends_the_link(listener: Listener, certificates: Certificates) -> None:
    context = ssl.create_default_context(cafile=str(certificates.root))
    with raw_connection(listener) as raw:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with meanwhile(lambda: accept(listener)) as accepting:
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    raw.sendall(outgoing.read())
                    incoming.write(raw.recv(1 << 16))
            raw.sendall(outgoing.read())
            link = accepting()
        with contextlib.closing(link):
            raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
            with pytest.raises(LinkError, match=r"tls/127.0.0.1:\d+: decryption failed or bad record mac"):
                receive(link)


# -- bad peers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", bytes(1000), b"\x16\x03\x01\xff\xff" + bytes(100_000)], ids=len
)
def test_garbage_ends_that_link_only(listener: Listener, trust: str, garbage: bytes) -> None:
    with raw_connection(listener) as raw:
        raw.sendall(garbage)
        with (
            contextlib.closing(accept_unestablished(listener)) as link,
            pytest.raises(LinkError, match="TLS handshake: "),
        ):
            link.establish(TIMEOUT_SECONDS)
    with (
        meanwhile(lambda: contextlib.closing(connect(listener, trust))) as connecting,
        contextlib.closing(accept(listener)),
        connecting() as good,
    ):
        assert good.auth_identifier == "server.example"


def test_peer_that_disconnects_before_the_handshake_raises_link_error(listener: Listener) -> None:
    raw_connection(listener).close()
    with contextlib.closing(accept_unestablished(listener)) as link, pytest.raises(LinkError, match="TLS handshake: "):
        link.establish(TIMEOUT_SECONDS)


@pytest.mark.slow
def test_handshake_with_a_silent_peer_times_out(listener: Listener) -> None:
    with raw_connection(listener), contextlib.closing(accept_unestablished(listener)) as link:
        assert not link.is_established
        started = time.monotonic()
        with pytest.raises(LinkError, match=r"no TLS handshake within 0.3 s"):
            link.establish(HANDSHAKE)
        assert time.monotonic() - started < TIMEOUT_SECONDS


@pytest.mark.slow
def test_slow_bytes_do_not_extend_the_handshake_timeout(listener: Listener) -> None:
    """A peer that sends a byte now and then is given no more time than one that sends nothing."""
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)
    with raw_connection(listener) as raw, contextlib.closing(accept_unestablished(listener)) as link:

        def drip() -> None:
            for byte in hello:
                try:
                    raw.sendall(bytes([byte]))
                except OSError:
                    return
                if readable(raw, 0.02):
                    return

        with meanwhile(drip):
            with pytest.raises(LinkError, match="no TLS handshake"):
                link.establish(HANDSHAKE)
            link.close()


def test_handshake_waits_until_writable(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[bool]()

    def want_to_write(_: ssl.SSLSocket) -> None:
        calls.append(True)
        if len(calls) < 3:
            raise ssl.SSLWantWriteError

    with raw_connection(listener), contextlib.closing(accept_unestablished(listener)) as link:
        monkeypatch.setattr(ssl.SSLSocket, "do_handshake", want_to_write)
        monkeypatch.setattr(ssl.SSLSocket, "getpeercert", lambda _: None)
        link.establish(TIMEOUT_SECONDS)
    assert len(calls) == 3


def test_peer_that_disconnects_before_accept_is_ignored(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise OSError("gone")

    with raw_connection(listener):
        assert readable(listener)
        monkeypatch.setattr(tls.TlsLink, "__init__", gone)
        assert listener.accept() is None


def test_closing_ends_a_handshake(listener: Listener) -> None:
    with raw_connection(listener):
        link = accept_unestablished(listener)

        def shake() -> None:
            with pytest.raises(LinkError, match="closed"):
                link.establish(TIMEOUT_SECONDS)

        with meanwhile(shake):
            link.close()


def test_connect_to_a_listener_without_tls_raises_link_error(trust: str) -> None:
    with contextlib.closing(listen("tcp/127.0.0.1:0")) as listener:
        endpoint = Endpoint.parse(f"tls/{listener.locator.address}{trust}")

        def accept_and_send() -> None:
            with contextlib.closing(accept(listener)) as link:
                receive(link)
                link.send(b"what?" * 10)

        with meanwhile(accept_and_send), pytest.raises(LinkError, match="TLS handshake: "):
            tls.connect(endpoint, TIMEOUT_SECONDS)


# -- certificates ------------------------------------------------------------------------------------------------


def test_certificates_may_be_inline_in_the_endpoint(certificates: Certificates) -> None:
    issued = certificates.issue("localhost", common_name="inline")
    certificate, key = issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()
    root = certificates.root.read_bytes()
    coded = [base64.b64encode(pem).decode() for pem in (certificate, key, root)]
    forms = [
        ("raw", certificate.decode(), key.decode(), root.decode()),
        ("base64", *coded),
    ]
    for form, shown, proof, trusted in forms:
        server = f"tls/127.0.0.1:0#listen_certificate_{form}={shown};listen_private_key_{form}={proof}"
        with connected_links(server, f"#root_ca_certificate_{form}={trusted}", "localhost") as (left, _):
            assert left.auth_identifier == "inline"


def test_client_without_root_ca_still_requires_a_certificate() -> None:
    assert client_context(Endpoint.parse("tls/a:1")).verify_mode is ssl.CERT_REQUIRED


def test_mtls_listener_without_root_ca_still_requires_a_certificate(server: str) -> None:
    assert server_context(Endpoint.parse(f"{server};enable_mtls=true")).verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("", "no listen_certificate"),
        ("#listen_certificate={cert}", "no listen_private_key"),
        ("#listen_certificate=/nowhere;listen_private_key={key}", "cannot be read from /nowhere: No such file"),
        ("#listen_certificate={key};listen_private_key={key}", "that do not fit"),
        ("#listen_certificate={cert};listen_private_key={cert}", "that do not fit"),
        ("#listen_certificate={cert};listen_private_key={other}", "that do not fit: key values mismatch"),
        ("#listen_certificate={cert};listen_private_key={encrypted}", "is encrypted"),
        ("#listen_certificate_base64=%%;listen_private_key={key}", "is not base64"),
        ("#listen_certificate_base64=/w==;listen_private_key={key}", "is not PEM"),
        ("#listen_certificate={cert};listen_private_key={key};enable_mtls=yes", "enable_mtls=yes"),
        (
            "#listen_certificate={cert};listen_private_key={key};enable_mtls=true;root_ca_certificate_raw=x",
            "root_ca_certificate that is not one",
        ),
    ],
)
def test_bad_certificates_are_named(certificates: Certificates, tmp_path: Path, options: str, problem: str) -> None:
    cert, key = certificates.files("localhost")
    _, other = certificates.files("other.example")
    encrypted = tmp_path / "encrypted.key"
    encrypted.write_bytes(
        ec.generate_private_key(ec.SECP256R1()).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password")
        )
    )
    text = "tls/127.0.0.1:0" + options.format(cert=cert, key=key, other=other, encrypted=encrypted)
    with pytest.raises(UsageError) as refused:
        listen(text)
    assert problem in str(refused.value)
    assert "tls/127.0.0.1:0" in str(refused.value)


@pytest.mark.slow
def test_missing_certificate_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no connect_certificate"):
        client_context(Endpoint.parse("tls/a:1#enable_mtls=true"))


def test_common_name_is_read_from_the_subject() -> None:
    assert common_name(None) is None
    assert common_name({}) is None
    assert common_name({"subject": ((("countryName", "XX"),), (("commonName", "me"),))}) == "me"


def test_tls_error_reason_of_other_exceptions_is_their_text() -> None:
    assert tls_error_reason(OSError(104, "Connection reset")) == "Connection reset"
    assert tls_error_reason(ValueError("no")) == "no"


def test_expiration_is_read_from_not_after() -> None:
    assert expiration(None) is None
    assert expiration({}) is None
    assert expiration({"notAfter": "Jan  1 00:00:10 1970 GMT"}) == 10.0


# -- certificates that change ------------------------------------------------------------------------------------


class Renewed:
    """A listener whose certificate files are replaced while it listens."""

    def __init__(self, certificates: Certificates, directory: Path) -> None:
        self.certificates = certificates
        self.paths = directory / "listen.pem", directory / "listen.key"
        self.renew("first")
        certificate, key = self.paths
        options = f"listen_certificate={certificate};listen_private_key={key}"
        self.listener = listen(f"tls/127.0.0.1:0#{options}")

    def renew(self, name: str) -> None:
        for source, target in zip(self.certificates.files("127.0.0.1", common_name=name), self.paths, strict=True):
            source.replace(target)

    def shown(self, trust: str) -> str | None:
        """The name in the certificate that the next one to connect is shown."""
        with (
            meanwhile(lambda: contextlib.closing(connect(self.listener, trust))) as connecting,
            contextlib.closing(accept(self.listener)),
            connecting() as link,
        ):
            return link.auth_identifier


@pytest.fixture
def renewed(tmp_path: Path) -> Iterator[Renewed]:
    directory = tmp_path / "authority"
    directory.mkdir()
    made = Renewed(Certificates(directory), tmp_path)
    with contextlib.closing(made.listener):
        yield made


def test_certificates_are_read_again_when_their_files_change(
    renewed: Renewed, caplog: pytest.LogCaptureFixture
) -> None:
    trust = f"#root_ca_certificate={renewed.certificates.root}"
    assert renewed.shown(trust) == "first"
    renewed.renew("second")
    with caplog.at_level(logging.INFO, "zenspark.net"):
        assert renewed.shown(trust) == "second"
        assert renewed.shown(trust) == "second"
    assert caplog.text.count("reloaded certificates of") == 1


@pytest.mark.parametrize("broken", [None, "", "not PEM", "the key of another"])
def test_a_broken_new_certificate_leaves_the_old_one_in_use(
    renewed: Renewed, caplog: pytest.LogCaptureFixture, broken: str | None
) -> None:
    trust = f"#root_ca_certificate={renewed.certificates.root}"
    key = renewed.paths[1]
    match broken:
        case None:
            key.unlink()
        case "the key of another":
            renewed.certificates.files("other.example", common_name="other")[1].replace(key)
        case _:
            key.write_text(broken)
    assert [renewed.shown(trust), renewed.shown(trust)] == ["first", "first"]
    assert caplog.text.count("the former ones stay in use") == 1
    assert "PRIVATE" not in caplog.text
    renewed.renew("third")
    assert renewed.shown(trust) == "third"


def test_connecting_side_reloads_certificates(
    certificates: Certificates, server: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = tmp_path / "connect.pem", tmp_path / "connect.key"

    def renew(name: str) -> None:
        for source, target in zip(certificates.files(name, common_name=name), paths, strict=True):
            source.replace(target)

    def shown() -> str | None:
        with (
            meanwhile(lambda: contextlib.closing(connect(listener, options))) as connecting,
            contextlib.closing(accept(listener)) as link,
            connecting(),
        ):
            return link.auth_identifier

    root = f"root_ca_certificate={certificates.root};enable_mtls=true"
    options = f"#{root};connect_certificate={paths[0]};connect_private_key={paths[1]}"
    renew("one")
    with contextlib.closing(listen(f"{server};{root}")) as listener:
        assert shown() == "one"
        renew("two")
        assert shown() == "two"
        paths[1].write_text("broken")
        assert shown() == "two"
    assert "the former ones stay in use" in caplog.text


def test_a_session_of_tls_cannot_be_resumed(listener: Listener, certificates: Certificates) -> None:
    """The certificate of one that is resumed would not be checked again."""
    context = ssl.create_default_context(cafile=str(certificates.root))
    with (
        meanwhile(lambda: accept(listener)) as accepting,
        raw_connection(listener) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as client,
        contextlib.closing(accepting()) as link,
    ):
        send(link, b"x")
        assert client.recv(1) == b"x"
        assert client.session is None or not client.session.has_ticket


def test_close_link_on_expiration_without_mtls_is_logged_as_without_effect(
    server: str, caplog: pytest.LogCaptureFixture
) -> None:
    listen(f"{server};close_link_on_expiration=true").close()
    assert "has no effect" in caplog.text
    with pytest.raises(UsageError, match="close_link_on_expiration=maybe"):
        listen(f"{server};close_link_on_expiration=maybe")
