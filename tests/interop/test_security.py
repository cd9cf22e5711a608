"""TLS and user/password with eclipse-zenoh, both ways: which clients are accepted, and which are refused."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.interop.reference import eventually, ours, reference, unused
from tests.unit.net.ends import Certificates
from zenspark.api.open import open as open_session
from zenspark.errors import ZError

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(find_spec("zenoh") is None, reason="eclipse-zenoh is not installed"),
]
TLS = "transport__link__tls"
LOGIN = "transport__auth__usrpwd"


class Authority:
    """Certificates of one authority for both sides."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        issued = Certificates(directory)
        self.root = str(issued.root)
        self.server = [str(path) for path in issued.files("localhost", "127.0.0.1")]
        self.client = [str(path) for path in issued.files("client.example")]

    def listening(self, mutual: bool = False) -> dict[str, object]:
        certificate, key = self.server
        found: dict[str, object] = {"listen_certificate": certificate, "listen_private_key": key}
        return {**found, "root_ca_certificate": self.root, "enable_mtls": True} if mutual else found

    def connecting(self, mutual: bool = False) -> dict[str, object]:
        certificate, key = self.client
        found: dict[str, object] = {"root_ca_certificate": self.root}
        shown = {"connect_certificate": certificate, "connect_private_key": key, "enable_mtls": True}
        return {**found, **shown} if mutual else found


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "right")


@pytest.fixture
def other_authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "wrong")


def connect_zenspark(there: str, **options: object) -> None:
    """Open a session and receive a sample over it."""
    received: list[str] = []
    session = open_session(ours(mode="client", connect__endpoints=[there], **options))
    try:
        session.declare_subscriber("down/**", lambda sample: received.append(sample.payload.to_string()))
        session.put("up/x", "hello")
        assert list(session.info.transports())
    finally:
        session.close()


@pytest.mark.parametrize("mutual", [False, True])
def test_zenspark_connects_over_tls(authority: Authority, mutual: bool) -> None:
    there = unused("tls", "localhost")
    with reference(mode="router", listen__endpoints=[there], **{TLS: authority.listening(mutual)}):
        connect_zenspark(there, **{TLS: authority.connecting(mutual)})


def test_zenspark_rejects_certificate_of_unknown_authority(authority: Authority, other_authority: Authority) -> None:
    there = unused("tls", "localhost")
    with (
        reference(mode="router", listen__endpoints=[there], **{TLS: authority.listening()}),
        pytest.raises(ZError, match="certificate"),
    ):
        connect_zenspark(there, **{TLS: other_authority.connecting()})


def test_mutual_tls_rejects_zenspark_without_certificate(authority: Authority) -> None:
    there = unused("tls", "localhost")
    with (
        reference(mode="router", listen__endpoints=[there], **{TLS: authority.listening(mutual=True)}),
        pytest.raises(ZError),
    ):
        connect_zenspark(there, **{TLS: authority.connecting()})


@pytest.mark.parametrize("mutual", [False, True])
def test_eclipse_zenoh_connects_over_tls(authority: Authority, mutual: bool) -> None:
    there = unused("tls", "localhost")
    received: list[str] = []
    session = open_session(ours(mode="router", listen__endpoints=[there], **{TLS: authority.listening(mutual)}))
    try:
        session.declare_subscriber("up/**", lambda sample: received.append(sample.payload.to_string()))
        with reference(mode="client", connect__endpoints=[there], **{TLS: authority.connecting(mutual)}) as node:
            assert node.first.startswith("open")
            node.execute("put up/x hello")
            assert eventually(lambda: received == ["hello"])
    finally:
        session.close()


@pytest.mark.parametrize("mutual", [False, True])
def test_tls_without_common_authority_is_refused_and_next_client_accepted(
    authority: Authority, other_authority: Authority, mutual: bool
) -> None:
    """With the wrong authority they do not trust us; with mutual TLS we do not trust their certificate either."""
    there = unused("tls", "localhost")
    theirs = {**other_authority.connecting(mutual), **({"root_ca_certificate": authority.root} if mutual else {})}
    session = open_session(ours(mode="router", listen__endpoints=[there], **{TLS: authority.listening(mutual)}))
    try:
        with reference(mode="client", connect__endpoints=[there], **{TLS: theirs}) as node:
            assert node.first == "refused"
        with reference(mode="client", connect__endpoints=[there], **{TLS: authority.connecting(mutual)}) as node:
            assert node.first.startswith("open"), "one who was refused keeps nobody out"
    finally:
        session.close()


def test_expired_client_certificate_closes_the_link(tmp_path: Path) -> None:
    issued = Certificates(tmp_path)
    server = [str(path) for path in issued.files("localhost", "127.0.0.1")]
    passing = [str(path) for path in issued.files("passing.example", lifetime=8)]
    mutual = {"root_ca_certificate": str(issued.root), "enable_mtls": True}
    listening = {"listen_certificate": server[0], "listen_private_key": server[1], "close_link_on_expiration": True}
    connecting = {"connect_certificate": passing[0], "connect_private_key": passing[1]}
    there = unused("tls", "localhost")
    session = open_session(ours(mode="router", listen__endpoints=[there], **{TLS: {**mutual, **listening}}))
    try:
        with reference(mode="client", connect__endpoints=[there], **{TLS: {**mutual, **connecting}}) as node:
            assert node.first.startswith("open")
            assert eventually(lambda: list(session.info.transports()))
            assert eventually(lambda: not list(session.info.transports()))
    finally:
        session.close()


@pytest.fixture
def users(tmp_path: Path) -> str:
    path = tmp_path / "users"
    path.write_text("alice:secret\nbob:hidden\n")
    return str(path)


def login(user: str, password: str) -> dict[str, str]:
    return {"user": user, "password": password}


def test_zenspark_authenticates_with_user_and_password(users: str) -> None:
    there = unused()
    theirs = {LOGIN: {"dictionary_file": users, **login("bob", "hidden")}}
    with reference(mode="router", listen__endpoints=[there], **theirs):
        connect_zenspark(there, **{LOGIN: login("alice", "secret")})
        for wrong in (login("alice", "wrong"), login("nobody", "secret")):
            with pytest.raises(ZError):
                connect_zenspark(there, **{LOGIN: wrong})
        with pytest.raises(ZError):
            connect_zenspark(there)


def test_eclipse_zenoh_authenticates_with_user_and_password(users: str) -> None:
    there = unused()
    session = open_session(ours(mode="router", listen__endpoints=[there], **{LOGIN: {"dictionary_file": users}}))
    try:
        called = {"mode": "client", "connect__endpoints": [there]}
        with reference(**called, **{LOGIN: login("alice", "secret")}) as node:
            assert node.first.startswith("open")
        with reference(**called, **{LOGIN: login("alice", "wrong")}) as node:
            assert node.first == "refused"
        with reference(**called) as node:
            assert node.first == "refused"
    finally:
        session.close()


@pytest.mark.parametrize("text", ["# users\nann:secret\n", "ann:secret\nbob\n", ":secret\n", "ann:\n", ":\n"])
def test_invalid_user_dictionary_is_rejected_by_both(tmp_path: Path, text: str) -> None:
    file = tmp_path / "users"
    file.write_text(text)
    options = {"mode": "router", "listen__endpoints": [unused()], LOGIN: {"dictionary_file": str(file)}}
    with reference(**options) as node:
        assert node.first == "refused"
    with pytest.raises(ZError, match=f"{file}, line "):
        open_session(ours(**options))


@pytest.mark.parametrize(
    ("text", "password"),
    [(" ann : secret \n", "secret"), ("\n \nann:secret\r\n", "secret"), ("ann:a:b", "a:b")],
)
def test_user_dictionary_is_parsed_as_in_eclipse_zenoh(tmp_path: Path, text: str, password: str) -> None:
    file = tmp_path / "users"
    file.write_text(text, newline="")
    there = unused()
    options = {"mode": "router", "listen__endpoints": [there], LOGIN: {"dictionary_file": str(file)}}
    with reference(**options):
        connect_zenspark(there, **{LOGIN: login("ann", password)})
    session = open_session(ours(**options))
    try:
        with reference(mode="client", connect__endpoints=[there], **{LOGIN: login("ann", password)}) as node:
            assert node.first.startswith("open")
    finally:
        session.close()
