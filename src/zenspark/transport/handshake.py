"""Session handshake: two messages each way, after which both ends know the peer's identity and the session parameters.

    initiator                      acceptor
      InitSyn  ------------------->   capabilities of the initiator
               <-------------------   InitAck: common capabilities, and a cookie
      OpenSyn  ------------------->   cookie, lease and initial sequence number of the initiator
               <-------------------   OpenAck: lease and initial sequence number of the acceptor

`Initiator` and `Acceptor` are the two roles. The acceptor keeps no state between its two messages: everything it needs
is in the cookie, authenticated with a key only it has, so that a peer cannot open a session with parameters that were
not negotiated, and half-open sessions cost nothing. Failures end in `HandshakeRefused`, with the CLOSE to send.

Supported extensions: QoS (and QoSLink, which is treated as QoS), LowLatency, Compression, Patch, and inside Auth the
user/password method. Shm, MultiLink, pubkey and RegionName are optional, and offers of them are ignored. One extension
is specific to this implementation (RELAYS): both nodes forward messages for others, see docs/routing.md; eclipse-zenoh
ignores it.
"""

from __future__ import annotations

import hashlib
import hmac
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import ClassVar

import msgspec

from zenspark.errors import CloseReason, DecodeError, HandshakeError
from zenspark.transport.lease import DEFAULT_LEASE_MS
from zenspark.wire.buffer import Reader, Writer
from zenspark.wire.messages import Close, InitAck, InitSyn, Join, OpenAck, OpenSyn, TransportMessage
from zenspark.wire.values import (
    PROTOCOL_VERSION,
    Extension,
    Resolution,
    TimeUnit,
    WhatAmI,
    ZenohId,
    read_extensions,
    write_extensions,
)

DEFAULT_RESOLUTION = 0x0A
"""FSN and RID resolution if INIT carries none: 32 bits each."""
DEFAULT_BATCH_BYTES = 0xFFFF
"""Bytes of a batch if INIT carries no sizes."""
MAX_LEASE_SECONDS = 3600.0
"""Longest lease of a peer that counts: a peer that vanished without CLOSE must not be kept forever."""
PROTOCOL_PATCH = 1
"""Protocol patch implemented here: fragments carry First and Drop markers."""

RELAYS_EXTENSION = 0x0D
"""INIT extension by which two nodes agree to relay: Unit, not mandatory, id 13."""

USRPWD_EXTENSION = 0x02
USRPWD_NONCE_EXTENSION = 0x20 | USRPWD_EXTENSION
USRPWD_PROOF_EXTENSION = 0x40 | USRPWD_EXTENSION
MAC_BYTES = 16


class Identity(msgspec.Struct, frozen=True):
    """Zid and role of a node."""

    zid: ZenohId
    whatami: WhatAmI


class Credentials(msgspec.Struct, frozen=True):
    """User name and password."""

    user: bytes
    password: bytes


class Capabilities(msgspec.Struct, frozen=True):
    """Capabilities a node offers on a link; `users` are the logins an acceptor requires, None for no authentication."""

    resolution: int = DEFAULT_RESOLUTION
    batch_size: int = DEFAULT_BATCH_BYTES
    lease_ms: int = DEFAULT_LEASE_MS
    qos: bool = True
    low_latency: bool = False
    compression: bool = False
    separate_final_frames: bool = False
    """Whether this end sends each RESPONSE_FINAL in a FRAME of its own; not negotiated."""
    credentials: Credentials | None = None
    users: Mapping[bytes, bytes] | None = None
    relays: bool = False
    """Whether this node forwards messages between neighbours that relay, too."""

    @property
    def offers_priorities(self) -> bool:
        """Whether priorities are offered: a low-latency session has none."""
        return self.qos and not self.low_latency


class SessionParameters(msgspec.Struct, frozen=True):
    """Parameters of a session: those negotiated, and those that each end has set."""

    peer: Identity
    resolution: int
    batch_size: int
    qos: bool
    low_latency: bool
    compression: bool
    patch: int
    lease: float = 0.0
    """Seconds without a message from this node after which the peer closes the session."""
    peer_lease: float = 0.0
    """Seconds without a message from the peer after which this node closes the session."""
    initial_sn: int = 0
    peer_initial_sn: int = 0
    user: bytes | None = None
    """Authenticated user name of the peer; None if the acceptor requires none."""
    relays: bool = False
    """Whether both ends relay."""

    @property
    def sn_mask(self) -> int:
        """Bit mask of sequence numbers."""
        return Resolution(self.resolution & 3).mask

    @property
    def request_bits(self) -> int:
        """Bits of a request id on this session: the RID resolution, 8, 16, 32 or 64."""
        return 8 << (self.resolution >> 2 & 3)


class Opened(msgspec.Struct, frozen=True):
    """The session is open with these parameters."""

    parameters: SessionParameters


class HandshakeRefused(msgspec.Struct, frozen=True):
    """The handshake failed; `close` is the CLOSE to send, None if the peer refused."""

    reason: CloseReason
    text: str
    close: Close | None = None


Outcome = TransportMessage | Opened | HandshakeRefused


def initial_sn(sender: ZenohId, receiver: ZenohId, mask: int) -> int:
    """Initial sequence number of one node towards another: the same on every link between the two."""
    digest = hashlib.shake_128(sender.to_bytes() + receiver.to_bytes()).digest(4)
    return int.from_bytes(digest, "little") & mask


def negotiate(local: Capabilities, remote: InitSyn | InitAck) -> SessionParameters:
    """Intersect this node's capabilities with those in the peer's INIT; both ends call this."""
    resolution = DEFAULT_RESOLUTION if remote.resolution is None else remote.resolution
    batch_size = DEFAULT_BATCH_BYTES if remote.batch_size is None else remote.batch_size
    return SessionParameters(
        peer=Identity(remote.zid, remote.whatami),
        resolution=min(local.resolution & 0x3, resolution & 0x3) | min(local.resolution & 0xC, resolution & 0xC),
        batch_size=min(local.batch_size, batch_size),
        qos=local.offers_priorities and (remote.qos or remote.qos_link is not None),
        low_latency=local.low_latency and remote.low_latency,
        compression=local.compression and remote.compression,
        patch=min(PROTOCOL_PATCH, remote.patch or 0),
        relays=local.relays and Extension(RELAYS_EXTENSION) in remote.exts,
    )


def _relay_extensions(relays: bool) -> tuple[Extension, ...]:
    return (Extension(RELAYS_EXTENSION),) if relays else ()


def make_refusal(reason: CloseReason, text: str) -> HandshakeRefused:
    """Refusal by this node, with the CLOSE to send."""
    return HandshakeRefused(reason, text, Close(session=False, reason=reason))


def encode_lease(lease_ms: int) -> tuple[int, TimeUnit]:
    """Encode a lease: in seconds if exact, as eclipse-zenoh does, else in milliseconds."""
    return (lease_ms // 1000, TimeUnit.S) if lease_ms % 1000 == 0 else (lease_ms, TimeUnit.MS)


def lease_seconds(message: OpenSyn | OpenAck | Join) -> float:
    """Lease in a message in seconds, at most MAX_LEASE_SECONDS."""
    return min(message.lease / (1 if message.unit is TimeUnit.S else 1000), MAX_LEASE_SECONDS)


def _check_initial_sn(sn: int, mask: int) -> None:
    if sn > mask:
        raise HandshakeError(f"initial sequence number {sn} exceeds the negotiated maximum {mask}", CloseReason.INVALID)


# -- user and password -------------------------------------------------------------------------------------------


def _encode_auth(header: int, value: int | bytes | None = None) -> bytes:
    """Encode the nested extension chain with the one extension of the user/password method."""
    out = Writer()
    write_extensions(out, (Extension(header, value),))
    return bytes(out.data)


def _read_auth(chain: bytes | None, header: int) -> int | bytes | None:
    """Value of the user/password extension in a chain; HandshakeError if absent."""
    values = {extension.header: extension.value for extension in read_extensions(Reader(chain))} if chain else {}
    if header not in values:
        raise HandshakeError("user and password required", CloseReason.GENERIC)
    return values[header]


def _password_hmac(nonce: int, password: bytes) -> bytes:
    return hmac.digest(nonce.to_bytes(8, "little"), password, "sha3_256")


def _encode_credentials(credentials: Credentials, nonce: int) -> bytes:
    out = Writer()
    out.blob(credentials.user, 16, "user")
    out.blob(_password_hmac(nonce, credentials.password), 16, "hmac")
    return _encode_auth(USRPWD_PROOF_EXTENSION, bytes(out.data))


def _verify_credentials(users: Mapping[bytes, bytes], chain: bytes | None, nonce: int) -> bytes:
    """User name of valid credentials; HandshakeError otherwise."""
    value = _read_auth(chain, USRPWD_PROOF_EXTENSION)
    assert isinstance(value, bytes)
    reader = Reader(value)
    user, proof = reader.blob(16), reader.blob(16)
    is_correct = hmac.compare_digest(proof, _password_hmac(nonce, users.get(user, b"")))
    if not is_correct or user not in users:
        raise HandshakeError(f"wrong user or password: {user.decode(errors='replace')!r}", CloseReason.GENERIC)
    return user


# -- initiator and acceptor --------------------------------------------------------------------------------------


class _Handshake(ABC):
    """Base of both handshakes: takes a message, returns a message or an outcome, and never raises."""

    def receive(self, message: TransportMessage) -> Outcome:
        """Handle the peer's next message."""
        if isinstance(message, Close):
            return HandshakeRefused(message.close_reason, message.close_reason.closed_by_peer)
        try:
            return self._handler_for(type(message))(message)
        except HandshakeError as error:
            return make_refusal(error.reason, str(error))
        except DecodeError as error:  # inside the opaque bytes of an extension
            return make_refusal(CloseReason.GENERIC, str(error))

    @abstractmethod
    def _handler_for(self, kind: type[TransportMessage]) -> Callable[[TransportMessage], Outcome]:
        """Handler of a message type in the current state; HandshakeError if there is none."""


class Initiator(_Handshake):
    """Handshake of the node that opens a session: `start()`, then `receive()` the peer's messages."""

    class HandshakeState(Enum):
        AWAIT_INIT_ACK = auto()
        AWAIT_OPEN_ACK = auto()
        DONE = auto()

    TRANSITIONS: ClassVar = {
        (HandshakeState.AWAIT_INIT_ACK, InitAck): "on_init_ack",
        (HandshakeState.AWAIT_OPEN_ACK, OpenAck): "on_open_ack",
    }

    def __init__(self, identity: Identity, capabilities: Capabilities, expected: ZenohId | None = None) -> None:
        self.identity = identity
        self.capabilities = capabilities
        self.expected = expected
        self.state = self.HandshakeState.AWAIT_INIT_ACK
        self.parameters: SessionParameters | None = None

    def _handler_for(self, kind: type[TransportMessage]) -> Callable[[TransportMessage], Outcome]:
        name = self.TRANSITIONS.get((self.state, kind))
        if name is None:
            raise HandshakeError(f"unexpected {kind.NAME} in state {self.state.name}", CloseReason.INVALID)
        return getattr(self, name)  # type: ignore[no-any-return]

    def start(self) -> InitSyn:
        """INIT(SYN), the first message."""
        return InitSyn(
            version=PROTOCOL_VERSION,
            whatami=self.identity.whatami,
            zid=self.identity.zid,
            resolution=self.capabilities.resolution,
            batch_size=self.capabilities.batch_size,
            qos=self.capabilities.offers_priorities,
            auth=_encode_auth(USRPWD_EXTENSION) if self.capabilities.credentials else None,
            low_latency=self.capabilities.low_latency,
            compression=self.capabilities.compression,
            patch=PROTOCOL_PATCH,
            exts=_relay_extensions(self.capabilities.relays),
        )

    def on_init_ack(self, ack: InitAck) -> OpenSyn:
        parameters = negotiate(self.capabilities, ack)
        self._check_init_ack(ack, parameters)
        first_sn = initial_sn(self.identity.zid, ack.zid, parameters.sn_mask)
        self.parameters = msgspec.structs.replace(
            parameters, lease=self.capabilities.lease_ms / 1000, initial_sn=first_sn
        )
        self.state = self.HandshakeState.AWAIT_OPEN_ACK
        lease, unit = encode_lease(self.capabilities.lease_ms)
        return OpenSyn(lease=lease, unit=unit, initial_sn=first_sn, cookie=ack.cookie, auth=self._authenticate(ack))

    def _check_init_ack(self, ack: InitAck, parameters: SessionParameters) -> None:
        acked_resolution = DEFAULT_RESOLUTION if ack.resolution is None else ack.resolution & 0x0F
        if parameters.resolution != acked_resolution:
            raise HandshakeError(f"resolution 0x{acked_resolution:02x} exceeds the offered one", CloseReason.INVALID)
        if (ack.patch or 0) > PROTOCOL_PATCH:
            raise HandshakeError(f"patch {ack.patch} exceeds the offered {PROTOCOL_PATCH}", CloseReason.GENERIC)
        if self.expected not in (None, ack.zid):
            raise HandshakeError(f"expected node {self.expected}, found {ack.zid}", CloseReason.GENERIC)

    def _authenticate(self, ack: InitAck) -> bytes | None:
        if self.capabilities.credentials is None:
            return None
        nonce = _read_auth(ack.auth, USRPWD_NONCE_EXTENSION)
        assert isinstance(nonce, int)
        return _encode_credentials(self.capabilities.credentials, nonce)

    def on_open_ack(self, ack: OpenAck) -> Opened:
        assert self.parameters is not None
        _check_initial_sn(ack.initial_sn, self.parameters.sn_mask)
        self.state = self.HandshakeState.DONE
        return Opened(
            msgspec.structs.replace(self.parameters, peer_lease=lease_seconds(ack), peer_initial_sn=ack.initial_sn)
        )


class Acceptor(_Handshake):
    """Handshake of the node that accepts a session. `key` authenticates its cookies; `nonce` is a fresh number for this
    link."""

    TRANSITIONS: ClassVar = {InitSyn: "on_init_syn", OpenSyn: "on_open_syn"}

    def __init__(self, identity: Identity, capabilities: Capabilities, key: bytes, nonce: int) -> None:
        self.identity = identity
        self.capabilities = capabilities
        self.key = key
        self.nonce = nonce

    def _handler_for(self, kind: type[TransportMessage]) -> Callable[[TransportMessage], Outcome]:
        if kind not in self.TRANSITIONS:
            raise HandshakeError(f"unexpected {kind.NAME} during the handshake", CloseReason.INVALID)
        return getattr(self, self.TRANSITIONS[kind])  # type: ignore[no-any-return]

    def on_init_syn(self, syn: InitSyn) -> InitAck:
        if syn.version != PROTOCOL_VERSION:
            raise HandshakeError(f"protocol version {syn.version}, expected {PROTOCOL_VERSION}", CloseReason.INVALID)
        if syn.whatami is self.identity.whatami is WhatAmI.CLIENT:
            raise HandshakeError("two clients cannot have a session", CloseReason.GENERIC)
        if self.capabilities.users is not None:
            _read_auth(syn.auth, USRPWD_EXTENSION)
        parameters = negotiate(self.capabilities, syn)
        return InitAck(
            version=PROTOCOL_VERSION,
            whatami=self.identity.whatami,
            zid=self.identity.zid,
            resolution=parameters.resolution,
            batch_size=parameters.batch_size,
            cookie=self._seal_cookie(parameters),
            qos=parameters.qos and syn.qos,
            qos_link=syn.qos_link if parameters.qos else None,
            auth=_encode_auth(USRPWD_NONCE_EXTENSION, self.nonce) if self.capabilities.users is not None else None,
            low_latency=parameters.low_latency,
            compression=parameters.compression,
            patch=None if syn.patch is None else parameters.patch,
            exts=_relay_extensions(parameters.relays),
        )

    def on_open_syn(self, syn: OpenSyn) -> Opened:
        """Session parameters from the cookie; the caller accepts by sending `ack(parameters)`."""
        parameters = self._open_cookie(syn.cookie)
        user = (
            None
            if self.capabilities.users is None
            else _verify_credentials(self.capabilities.users, syn.auth, self.nonce)
        )
        if parameters.peer.zid == self.identity.zid:
            raise HandshakeError("connection to self", CloseReason.CONNECTION_TO_SELF)
        _check_initial_sn(syn.initial_sn, parameters.sn_mask)
        return Opened(
            msgspec.structs.replace(
                parameters,
                lease=self.capabilities.lease_ms / 1000,
                peer_lease=lease_seconds(syn),
                initial_sn=initial_sn(self.identity.zid, parameters.peer.zid, parameters.sn_mask),
                peer_initial_sn=syn.initial_sn,
                user=user,
            )
        )

    def ack(self, parameters: SessionParameters) -> OpenAck:
        """OPEN(ACK), the last message."""
        lease, unit = encode_lease(self.capabilities.lease_ms)
        auth = _encode_auth(USRPWD_EXTENSION) if self.capabilities.users is not None else None
        return OpenAck(lease=lease, unit=unit, initial_sn=parameters.initial_sn, auth=auth)

    def _mac(self, record: bytes) -> bytes:
        return hmac.digest(self.key, record + self.nonce.to_bytes(8, "little"), "sha256")[:MAC_BYTES]

    def _seal_cookie(self, parameters: SessionParameters) -> bytes:
        out = Writer()
        parameters.peer.zid.write(out)
        flags = parameters.qos | parameters.low_latency << 1 | parameters.compression << 2 | parameters.relays << 3
        for value in (parameters.peer.whatami, parameters.resolution, parameters.batch_size, flags, parameters.patch):
            out.z(value, 16, "cookie")
        return self._mac(bytes(out.data)) + bytes(out.data)

    def _open_cookie(self, cookie: bytes) -> SessionParameters:
        mac, record = cookie[:MAC_BYTES], cookie[MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(record)):
            raise HandshakeError("invalid cookie: not issued on this link", CloseReason.INVALID)
        reader = Reader(record)
        zid = ZenohId.read(reader)
        whatami, resolution, batch_size, flags, patch = [reader.z(16) for _ in range(5)]
        return SessionParameters(
            peer=Identity(zid, WhatAmI(whatami)),
            resolution=resolution,
            batch_size=batch_size,
            qos=bool(flags & 1),
            low_latency=bool(flags & 2),
            compression=bool(flags & 4),
            patch=patch,
            relays=bool(flags & 8),
        )
