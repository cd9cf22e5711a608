"""Links and scouting against eclipse-zenoh on loopback: every protocol its wheel has, in both directions.

The other node is a process of its own, so that nothing is shared; it prints a line when it is ready.
"""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.unit.net.ends import Certificates, accept, free_group, readable, receive, send
from tests.wait import TIMEOUT_SECONDS
from zenspark.errors import LinkError
from zenspark.net.links import registry
from zenspark.net.links.base import WOULD_BLOCK, Link, Listener
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.interfaces import find_interface
from zenspark.net.links.multicast import join
from zenspark.net.links.udp import UdpListener
from zenspark.net.node.scouting import Responder, Scouter, ScoutingSettings, open_responders
from zenspark.transport.framing import Deframer, LengthPrefix
from zenspark.transport.handshake import Acceptor, Capabilities, Identity, Initiator, Opened
from zenspark.wire.codec import decode_transport, encode
from zenspark.wire.messages import InitSyn, Join, TransportMessage
from zenspark.wire.values import Locator, Roles, WhatAmI, ZenohId

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(find_spec("zenoh") is None, reason="eclipse-zenoh is not installed"),
]

PROTOCOLS = ["tcp", "tls", "udp", "ws", "unixsock-stream"]
LO = find_interface("127.0.0.1").name
OWN = Identity(ZenohId(0xC0C1C2C3), WhatAmI.CLIENT)

NODE = """
import json, sys, zenoh
zenoh.init_log_from_env_or("error")
config = zenoh.Config()
for key, value in json.loads(sys.argv[1]).items():
    config.insert_json5(key, json.dumps(value))
session = zenoh.open(config)
print("open", session.info.zid(), flush=True)
sys.stdin.read()
session.close()
"""
SCOUT = """
import json, sys, zenoh
zenoh.init_log_from_env_or("error")
config = zenoh.Config()
for key, value in json.loads(sys.argv[1]).items():
    config.insert_json5(key, json.dumps(value))
def found(hello):
    print(hello.zid, hello.whatami, *map(str, hello.locators), flush=True)
scout = zenoh.scout(found, what="router|peer", config=config)
print("scouting", flush=True)
sys.stdin.read()
scout.stop()
"""


class Node:
    """A process of eclipse-zenoh, and the lines it prints."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: queue.Queue[str] = queue.Queue()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.strip())

    def line(self) -> str:
        """The next line."""
        return self.lines.get(timeout=2 * TIMEOUT_SECONDS)


@contextlib.contextmanager
def eclipse_zenoh(program: str, config: dict[str, object]) -> Iterator[Node]:
    process = subprocess.Popen(
        [sys.executable, "-c", program, json.dumps(config)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    node = Node(process)
    try:
        yield node
    finally:
        process.kill()
        process.communicate()
        node.reader.join(TIMEOUT_SECONDS)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The options of zenohd's `transport/link/tls`, for both sides and both ends."""
    issued = Certificates(tmp_path_factory.mktemp("certificates"))
    shown, proof = issued.files("localhost", "127.0.0.1", common_name="listening.example")
    connecting, secret = issued.files("client.example", common_name="connecting.example")
    return {
        "root_ca_certificate": str(issued.root),
        "listen_certificate": str(shown),
        "listen_private_key": str(proof),
        "connect_certificate": str(connecting),
        "connect_private_key": str(secret),
        "enable_mtls": "true",
    }


def their_config(mode: str, certificates: dict[str, str], **options: object) -> dict[str, object]:
    return {
        "mode": mode,
        "scouting/multicast/enabled": False,
        "transport/link/tls": {**certificates, "enable_mtls": True},
        **{name.replace("__", "/"): value for name, value in options.items()},
    }


def place(protocol: str, directory: Path) -> str:
    """An endpoint that no process listens on yet."""
    if protocol == "unixsock-stream":
        return f"unixsock-stream/{directory}/zenoh.sock"
    kind = socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM
    return f"{protocol}/127.0.0.1:{free_port(kind)}"


def ours(text: str, certificates: dict[str, str]) -> Endpoint:
    endpoint = Endpoint.parse(text)
    return endpoint.with_defaults(certificates) if endpoint.protocol == "tls" else endpoint


class HandshakeLink:
    """Handshake messages over a link, one per batch."""

    def __init__(self, link: Link, listener: Listener | None = None) -> None:
        self.link = link
        self.listener = listener
        self.deframer = Deframer()

    def send_message(self, message: TransportMessage) -> None:
        batch = encode(message)
        send(self.link, LengthPrefix.U16.wrap(batch) if self.link.is_streamed else batch)

    def receive_message(self) -> TransportMessage:
        if isinstance(self.listener, UdpListener):  # which receives for its links
            while not readable(self.link, 0):
                assert readable(self.listener)
                assert self.listener.accept() is None
        if not self.link.is_streamed:
            return decode_transport(receive(self.link))
        while (batch := self.deframer.next_batch()) is None:
            data = receive(self.link)
            assert data, "the other side has ended"
            self.deframer.receive_data(data)
        return decode_transport(batch)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_zenspark_opens_a_session_to_eclipse_zenoh(protocol: str, certificates: dict[str, str], tmp_path: Path) -> None:
    there = place(protocol, tmp_path)
    config = their_config("router", certificates, listen__endpoints=[there])
    with eclipse_zenoh(NODE, config) as node:
        zid = node.line().removeprefix("open ")
        with contextlib.closing(registry.connect(ours(there, certificates), TIMEOUT_SECONDS)) as link:
            opening = Initiator(OWN, Capabilities(batch_size=link.mtu))
            talk = HandshakeLink(link)
            talk.send_message(opening.start())
            reply = opening.receive(talk.receive_message())
            assert isinstance(reply, TransportMessage)
            talk.send_message(reply)
            opened = opening.receive(talk.receive_message())
            assert isinstance(opened, Opened)
            assert str(opened.parameters.peer.zid) == zid
            assert link.dst == there
            assert link.auth_identifier == ("listening.example" if protocol == "tls" else None)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_eclipse_zenoh_opens_a_session_to_zenspark(protocol: str, certificates: dict[str, str], tmp_path: Path) -> None:
    text = f"unixsock-stream/{tmp_path}/zenoh.sock" if protocol == "unixsock-stream" else f"{protocol}/127.0.0.1:0"
    with contextlib.closing(registry.listen(ours(text, certificates))) as listener:
        config = their_config("client", certificates, connect__endpoints=[listener.locator.text])
        with eclipse_zenoh(NODE, config) as node, contextlib.closing(accept(listener)) as link:
            accepting = Acceptor(Identity(OWN.zid, WhatAmI.ROUTER), Capabilities(batch_size=link.mtu), bytes(32), 7)
            talk = HandshakeLink(link, listener)
            ack = accepting.receive(talk.receive_message())
            assert isinstance(ack, TransportMessage)
            talk.send_message(ack)
            opened = accepting.receive(talk.receive_message())
            assert isinstance(opened, Opened)
            talk.send_message(accepting.ack(opened.parameters))
            assert node.line() == f"open {opened.parameters.peer.zid}"
            assert link.src == listener.locator.text
            assert link.auth_identifier == ("connecting.example" if protocol == "tls" else None)


@pytest.mark.parametrize("protocol", ["tls", "ws"])
def test_invalid_handshake_does_not_prevent_the_next_connection(
    protocol: str, certificates: dict[str, str], tmp_path: Path
) -> None:
    """A peer with another protocol is refused, and the next one is accepted."""
    with contextlib.closing(registry.listen(ours(f"{protocol}/127.0.0.1:0", certificates))) as listener:
        host, port = listener.locator.address.split(":")
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(b"nonsense\r\n\r\n" * 100)
            assert readable(listener)
            bad = listener.accept()
            assert bad is not None
            with contextlib.closing(bad), pytest.raises(LinkError):
                bad.establish(TIMEOUT_SECONDS)
        config = their_config("client", certificates, connect__endpoints=[listener.locator.text])
        with eclipse_zenoh(NODE, config), contextlib.closing(accept(listener)) as link:
            assert isinstance(HandshakeLink(link).receive_message(), InitSyn)


# -- scouting ----------------------------------------------------------------------------------------------------


@pytest.fixture
def settings() -> ScoutingSettings:
    """A multicast group on loopback that no other process uses."""
    return ScoutingSettings(address=free_group(), interface=LO)


def their_scouting(settings: ScoutingSettings) -> dict[str, object]:
    return {
        "scouting/multicast/enabled": True,
        "scouting/multicast/address": settings.address,
        "scouting/multicast/interface": LO,
    }


@pytest.mark.parametrize("mode", ["router", "peer"])
def test_scouter_finds_eclipse_zenoh_node(mode: str, settings: ScoutingSettings) -> None:
    config = {"mode": mode, "listen/endpoints": ["tcp/127.0.0.1:0"], **their_scouting(settings)}
    with eclipse_zenoh(NODE, config) as node, contextlib.closing(Scouter(settings, Roles(3), OWN.zid)) as scouter:
        zid = node.line().removeprefix("open ")
        (hello,) = scouter.wait(TIMEOUT_SECONDS)
        assert str(hello.zid) == zid
        assert hello.whatami.text == mode
        (locator,) = hello.locators
        with contextlib.closing(registry.connect(Endpoint.parse(locator.text), TIMEOUT_SECONDS)) as link:
            assert link.dst == locator.text


def test_scouting_finds_only_requested_roles(settings: ScoutingSettings) -> None:
    config = {"mode": "router", "listen/endpoints": ["tcp/127.0.0.1:0"], **their_scouting(settings)}
    peers, routers = Roles(WhatAmI.PEER.bit), Roles(WhatAmI.ROUTER.bit)
    with eclipse_zenoh(NODE, config) as node:
        node.line()
        with contextlib.closing(Scouter(settings, peers)) as scouter:
            assert scouter.wait(0.3) == []
        with contextlib.closing(Scouter(settings, routers)) as scouter:
            assert len(scouter.wait(TIMEOUT_SECONDS)) == 1


def respond_until(responder: Responder, node: Node) -> str:
    """Reply to SCOUT messages until the other node prints a line."""
    deadline = time.monotonic() + 2 * TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if readable(responder, 0.05):
            responder.respond()
        with contextlib.suppress(queue.Empty):
            return node.lines.get_nowait()
    raise AssertionError("it found nobody")


def test_eclipse_zenoh_scout_finds_zenspark_responder(settings: ScoutingSettings) -> None:
    locators = (Locator("tcp/127.0.0.1:4"), Locator("udp/127.0.0.1:5?rel=0"))
    identity = Identity(OWN.zid, WhatAmI.ROUTER)
    (responder,) = open_responders(settings, identity, lambda loopback: locators if loopback else ())
    with contextlib.closing(responder), eclipse_zenoh(SCOUT, their_scouting(settings)) as node:
        assert node.line() == "scouting"
        assert respond_until(responder, node) == f"{OWN.zid} router tcp/127.0.0.1:4 udp/127.0.0.1:5?rel=0"


def test_eclipse_zenoh_client_connects_to_scouted_listener(settings: ScoutingSettings) -> None:
    with contextlib.closing(registry.listen(Endpoint.parse("tcp/127.0.0.1:0"))) as listener:
        (responder,) = open_responders(settings, Identity(OWN.zid, WhatAmI.ROUTER), listener.locators)
        config = {"mode": "client", **their_scouting(settings)}
        with contextlib.closing(responder), eclipse_zenoh(NODE, config):
            deadline = time.monotonic() + 2 * TIMEOUT_SECONDS
            while (link := listener.accept()) is None:
                assert time.monotonic() < deadline, "it did not connect"
                if readable(responder, 0.05):
                    responder.respond()
            with contextlib.closing(link):
                assert isinstance(HandshakeLink(link).receive_message(), InitSyn)


def test_join_of_eclipse_zenoh_is_received_in_a_multicast_group() -> None:
    """A peer that joined a group sends JOIN, and its address is known."""
    text = f"udp/{free_group()}#iface={LO}"
    config = {"mode": "peer", "scouting/multicast/enabled": False, "listen/endpoints": [text]}
    with contextlib.closing(join(Endpoint.parse(text))) as group, eclipse_zenoh(NODE, config) as node:
        zid = node.line().removeprefix("open ")
        buffer = memoryview(bytearray(1 << 16))
        while (datagram := group.recv_from(buffer))[0] == WOULD_BLOCK:
            assert readable(group)
        message = decode_transport(bytes(buffer[: datagram[0]]))
        assert isinstance(message, Join)
        assert str(message.zid) == zid
        assert datagram[1].startswith("udp/127.0.0.1:")
