import contextlib
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.wait import TIMEOUT_SECONDS
from zenspark.errors import LinkError, UsageError
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.sockets import DATAGRAM, STREAM, advertised_locators, bind_socket, connect_socket, resolve
from zenspark.wire.values import Locator


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with bind_socket(Endpoint.parse("tcp/127.0.0.1:0")) as listening:
        yield listening


def at(server: socket.socket, options: str = "", host: str = "127.0.0.1") -> Endpoint:
    return Endpoint.parse(f"tcp/{host}:{server.getsockname()[1]}{options}")


def deadline() -> float:
    return time.monotonic() + TIMEOUT_SECONDS


def resolver(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Let every name have these addresses."""

    def getaddrinfo(host: str, port: int, type: socket.SocketKind) -> list[Any]:
        return [(socket.AF_INET, type, 0, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def test_every_address_of_a_name_is_tried(server: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    resolver(monkeypatch, "127.0.0.2", "127.0.0.3", "127.0.0.1")
    connection, address = connect_socket(at(server, host="somewhere"), deadline())
    with connection:
        assert address[0] == "127.0.0.1"


def test_error_of_the_last_address_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    resolver(monkeypatch, "127.0.0.2", "127.0.0.1")
    with pytest.raises(LinkError, match=rf"^tcp/there:{port}: cannot connect: Connection refused$") as failed:
        connect_socket(Endpoint.parse(f"tcp/there:{port}#bind=127.0.0.1:0"), deadline())
    assert isinstance(failed.value.__cause__, ConnectionRefusedError)


def test_connect_after_its_deadline_raises_link_error(server: socket.socket) -> None:
    with pytest.raises(LinkError, match="no time left"):
        connect_socket(at(server), time.monotonic() - 1)


@pytest.mark.slow
def test_unresponsive_address_does_not_use_up_the_deadline_of_the_next_one(
    monkeypatch: pytest.MonkeyPatch, server: socket.socket
) -> None:
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.2", server.getsockname()[1]))
        full.listen(0)
        for _ in range(2):  # a backlog that is full: further connections get no reply
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        resolver(monkeypatch, "127.0.0.2", "127.0.0.1")
        connection, address = connect_socket(at(server, host="x"), time.monotonic() + 0.4)
        with connection:
            assert address[0] == "127.0.0.1"


def test_unknown_host_raises_link_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: object, **__: object) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(LinkError, match=r"^tcp/nowhere:1: cannot find 'nowhere': Name or service not known$"):
        list(resolve(Endpoint.parse("tcp/nowhere:1"), STREAM))


def test_addresses_of_other_families_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(socket.AF_UNIX, STREAM, 0, "", "/a")])
    assert list(resolve(Endpoint.parse("tcp/a:1"), STREAM)) == []


def test_invalid_host_name_raises_link_error() -> None:
    with pytest.raises(LinkError, match="cannot find"):
        list(resolve(Endpoint.parse(f"tcp/{'x' * 64}.example:1"), STREAM))


def test_port_in_use_raises_link_error(server: socket.socket) -> None:
    with pytest.raises(LinkError, match="cannot listen: Address already in use"):
        bind_socket(at(server))


def test_udp_ports_are_not_shared() -> None:
    with bind_socket(Endpoint.parse("udp/127.0.0.1:0"), DATAGRAM) as first, pytest.raises(LinkError, match="in use"):
        bind_socket(Endpoint.parse(f"udp/127.0.0.1:{first.getsockname()[1]}"), DATAGRAM)


def test_without_ipv6_the_wildcard_is_that_of_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    resolver(monkeypatch, "203.0.113.1")  # an address this machine does not have
    with bind_socket(Endpoint.parse("tcp/[::]:0")) as listening:
        assert listening.getsockname()[0] == "0.0.0.0"


def test_options_reach_the_socket(server: socket.socket) -> None:
    options = "#so_sndbuf=30000;so_rcvbuf=40000;dscp=0x08;iface=lo"
    connection, _ = connect_socket(at(server, options), deadline())
    with connection:
        # Linux doubles the requested size, to account for its bookkeeping.
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) in (30_000, 60_000)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) in (40_000, 80_000)
        assert connection.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 0x20


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_dscp_is_set_for_ipv6() -> None:
    with bind_socket(Endpoint.parse("tcp/[::1]:0#dscp=8")) as listening:
        assert listening.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS) == 0x20


def test_bind_option_sets_the_local_address(server: socket.socket) -> None:
    connection, _ = connect_socket(at(server, "#bind=127.0.0.5:0"), deadline())
    with connection:
        assert connection.getsockname()[0] == "127.0.0.5"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("#iface=nope", "no network interface 'nope'"),
        ("#so_sndbuf=x", "so_sndbuf=x"),
        ("#bind=127.0.0.1:0;iface=lo", "both bind and iface"),
    ],
)
def test_bad_options_are_named(server: socket.socket, options: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        connect_socket(at(server, options), deadline())


def test_iface_option_without_so_bindtodevice_is_a_usage_error(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(socket, "SO_BINDTODEVICE")
    with pytest.raises(UsageError, match="needs Linux"):
        connect_socket(at(server, "#iface=lo"), deadline())


def test_wildcards_are_advertised_as_real_addresses() -> None:
    endpoint = Endpoint.parse("tcp/[::]:0?rel=1")
    near = advertised_locators(endpoint, Locator("tcp/[::]:7?rel=1"), loopback=True)
    far = advertised_locators(endpoint, Locator("tcp/[::]:7?rel=1"), loopback=False)
    assert Locator("tcp/127.0.0.1:7?rel=1") in near
    assert set(far) < set(near)
    assert not [locator for locator in far if locator.text.startswith(("tcp/127.", "tcp/[::"))]


def test_loopback_is_advertised_on_request() -> None:
    only = Endpoint.parse("tcp/0.0.0.0:0#iface=lo")
    assert advertised_locators(only, Locator("tcp/0.0.0.0:7"), loopback=False) == (Locator("tcp/127.0.0.1:7"),)
    explicit = Endpoint.parse("tcp/127.0.0.1:0")
    assert advertised_locators(explicit, Locator("tcp/127.0.0.1:7"), loopback=False) == (Locator("tcp/127.0.0.1:7"),)
