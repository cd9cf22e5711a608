"""Opening a session: two messages each way, after which both ends know who the other is and what they agreed on.

    initiator                      acceptor
      InitSyn  ------------------->   what I can do
               <-------------------   InitAck: what we can both do, and a cookie
      OpenSyn  ------------------->   the cookie back, my lease, my first sequence number
               <-------------------   OpenAck: my lease, my first sequence number

`Initiator` plays the initiator and `Acceptor` the acceptor. The acceptor keeps nothing between its two messages:
all it needs to know stands in the cookie, under a key only it has, so nobody can open a session on terms it did
not offer, and half-open sessions cost it nothing. What goes wrong ends in `HandshakeRefused`, with the CLOSE to send.

Which extensions are spoken: QoS (and QoSLink, which is taken as QoS), LowLatency, Compression, Patch, and inside
Auth the user/password method. Shm, MultiLink, pubkey and RegionName are offers nobody has to take up. One extension is
ours (RELAYS): both nodes pass on messages for others, as docs/routing.md says; eclipse-zenoh passes over it.
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
)

DEFAULT_RESOLUTION = 0x0A
DEFAULT_BATCH_SIZE = 0xFFFF
MAX_LEASE_SECONDS = 3600.0
"""The longest lease of a neighbour that counts: one that is gone without a word must not be kept for ever."""
PATCH = 1
"""The protocol patch spoken here: fragments carry First and Drop markers."""

RELAYS_EXTENSION = 0x0D
"""The extension of INIT by which nodes agree to relay: Unit, not mandatory, id 13."""

USRPWD = 0x02
USRPWD_NONCE = 0x20 | USRPWD
USRPWD_PROOF = 0x40 | USRPWD
MAC_SIZE = 16


class Identity(msgspec.Struct, frozen=True):
    """Who a node is."""

    zid: ZenohId
    whatami: WhatAmI


class Credentials(msgspec.Struct, frozen=True):
    """A user and the password that proves it."""

    user: bytes
    password: bytes


class Capabilities(msgspec.Struct, frozen=True):
    """What a node is willing to do on a link; `users` is whom an acceptor lets in, None for everybody."""

    resolution: int = DEFAULT_RESOLUTION
    batch_size: int = DEFAULT_BATCH_SIZE
    lease_ms: int = 10_000
    qos: bool = True
    low_latency: bool = False
    compression: bool = False
    finals_apart: bool = False
    """Whether this end sends each RESPONSE_FINAL in a FRAME of its own; nothing the other end agrees on."""
    credentials: Credentials | None = None
    users: Mapping[bytes, bytes] | None = None
    relays: bool = False
    """Whether messages of other nodes are passed on to and from neighbours that do the same."""

    @property
    def lanes(self) -> bool:
        """Whether priorities are offered: a low-latency session has none."""
        return self.qos and not self.low_latency


class SessionParameters(msgspec.Struct, frozen=True):
    """What both ends agreed on, and what each announced."""

    peer: Identity
    resolution: int
    batch_size: int
    qos: bool
    low_latency: bool
    compression: bool
    patch: int
    lease: float = 0.0
    """Seconds within which the peer expects to hear from us."""
    peer_lease: float = 0.0
    """Seconds within which we expect to hear from the peer."""
    initial_sn: int = 0
    peer_initial_sn: int = 0
    user: bytes | None = None
    """Who the peer proved to be, to an acceptor who asked."""
    relays: bool = False
    """Whether both ends pass on messages for others."""

    @property
    def sn_mask(self) -> int:
        return Resolution(self.resolution & 3).mask

    @property
    def request_bits(self) -> int:
        """Bits of a request id on this session: the RID resolution, 8, 16, 32 or 64."""
        return 8 << (self.resolution >> 2 & 3)


class Opened(msgspec.Struct, frozen=True):
    """The session is open on these terms."""

    terms: SessionParameters


class HandshakeRefused(msgspec.Struct, frozen=True):
    """There is no session; `close` is what to tell the other end, None if it is the one that refused."""

    reason: CloseReason
    text: str
    close: Close | None = None


Outcome = TransportMessage | Opened | HandshakeRefused


def initial_sn(own: ZenohId, other: ZenohId, mask: int) -> int:
    """The first sequence number towards a node: the same for every link between the two."""
    digest = hashlib.shake_128(own.to_bytes() + other.to_bytes()).digest(4)
    return int.from_bytes(digest, "little") & mask


def negotiate(ours: Capabilities, theirs: InitSyn | InitAck) -> SessionParameters:
    """What both ends can do; both sides of a handshake call this on what the other said."""
    resolution = DEFAULT_RESOLUTION if theirs.resolution is None else theirs.resolution
    batch_size = DEFAULT_BATCH_SIZE if theirs.batch_size is None else theirs.batch_size
    return SessionParameters(
        peer=Identity(theirs.zid, theirs.whatami),
        resolution=min(ours.resolution & 0x3, resolution & 0x3) | min(ours.resolution & 0xC, resolution & 0xC),
        batch_size=min(ours.batch_size, batch_size),
        qos=ours.lanes and (theirs.qos or theirs.qos_link is not None),
        low_latency=ours.low_latency and theirs.low_latency,
        compression=ours.compression and theirs.compression,
        patch=min(PATCH, theirs.patch or 0),
        relays=ours.relays and Extension(RELAYS_EXTENSION) in theirs.exts,
    )


def _relay_extensions(relays: bool) -> tuple[Extension, ...]:
    return (Extension(RELAYS_EXTENSION),) if relays else ()


def make_refusal(reason: CloseReason, text: str) -> HandshakeRefused:
    """A refusal of ours, with the message that says so."""
    return HandshakeRefused(reason, text, Close(session=False, reason=reason))


def encode_lease(lease_ms: int) -> tuple[int, TimeUnit]:
    """A lease as it is written: in seconds where that says it all, as eclipse-zenoh does."""
    return (lease_ms // 1000, TimeUnit.S) if lease_ms % 1000 == 0 else (lease_ms, TimeUnit.MS)


def lease_seconds(message: OpenSyn | OpenAck | Join) -> float:
    """The lease of a message, at most MAX_LEASE_SECONDS."""
    return min(message.lease / (1 if message.unit is TimeUnit.S else 1000), MAX_LEASE_SECONDS)


def _check_initial_sn(sn: int, mask: int) -> None:
    if sn > mask:
        raise HandshakeError(f"initial sequence number {sn} is above the agreed {mask}", CloseReason.INVALID)


# -- user and password -------------------------------------------------------------------------------------------


def _encode_auth(header: int, value: int | bytes | None = None) -> bytes:
    """The nested chain with the one extension of the user/password method."""
    out = Writer()
    out.u8(0, "auth")
    Extension(header, value).write(out, 0)
    return bytes(out.data[1:])


def _read_auth(chain: bytes | None, header: int) -> int | bytes | None:
    """The value of the user/password extension in a chain; HandshakeError if it is not there."""
    found = {extension.header: extension.value for extension in read_extensions(Reader(chain))} if chain else {}
    if header not in found:
        raise HandshakeError("no user and password were given", CloseReason.GENERIC)
    return found[header]


def _password_hmac(nonce: int, password: bytes) -> bytes:
    return hmac.digest(nonce.to_bytes(8, "little"), password, "sha3_256")


def _encode_credentials(credentials: Credentials, nonce: int) -> bytes:
    out = Writer()
    out.blob(credentials.user, 16, "user")
    out.blob(_password_hmac(nonce, credentials.password), 16, "hmac")
    return _encode_auth(USRPWD_PROOF, bytes(out.data))


def _verify_credentials(users: Mapping[bytes, bytes], chain: bytes | None, nonce: int) -> bytes:
    """The user who answered rightly."""
    value = _read_auth(chain, USRPWD_PROOF)
    assert isinstance(value, bytes)
    reader = Reader(value)
    user, proof = reader.blob(16), reader.blob(16)
    right = hmac.compare_digest(proof, _password_hmac(nonce, users.get(user, b"")))
    if not right or user not in users:
        raise HandshakeError(f"user {user.decode(errors='replace')!r} or password is wrong", CloseReason.GENERIC)
    return user


# -- the two sides -----------------------------------------------------------------------------------------------


class _HandshakeRole(ABC):
    """What both sides share: a message in, a message or a result out, and never an exception."""

    def receive(self, message: TransportMessage) -> Outcome:
        """Take the next message of the other side."""
        if isinstance(message, Close):
            return HandshakeRefused(message.why, f"the other side refused: {message.why.name.lower()}")
        try:
            return self._move(type(message))(message)
        except HandshakeError as error:
            return make_refusal(error.reason, str(error))
        except DecodeError as error:  # inside the opaque bytes of an extension
            return make_refusal(CloseReason.GENERIC, str(error))

    @abstractmethod
    def _move(self, kind: type[TransportMessage]) -> Callable[[TransportMessage], Outcome]:
        """What to do with a message of this kind now; HandshakeError if nothing."""


class Initiator(_HandshakeRole):
    """The initiator: `start()`, then `receive()` what comes back."""

    class State(Enum):
        AWAIT_INIT_ACK = auto()
        AWAIT_OPEN_ACK = auto()
        DONE = auto()

    MOVES: ClassVar = {
        (State.AWAIT_INIT_ACK, InitAck): "on_init_ack",
        (State.AWAIT_OPEN_ACK, OpenAck): "on_open_ack",
    }

    def __init__(self, identity: Identity, offer: Capabilities, expected: ZenohId | None = None) -> None:
        self.identity = identity
        self.offer = offer
        self.expected = expected
        self.state = self.State.AWAIT_INIT_ACK
        self.terms: SessionParameters | None = None

    def _move(self, kind: type[TransportMessage]) -> Callable[[TransportMessage], Outcome]:
        name = self.MOVES.get((self.state, kind))
        if name is None:
            raise HandshakeError(f"{kind.NAME} is not what {self.state.name} waits for", CloseReason.INVALID)
        return getattr(self, name)  # type: ignore[no-any-return]

    def start(self) -> InitSyn:
        """The first message."""
        return InitSyn(
            version=PROTOCOL_VERSION,
            whatami=self.identity.whatami,
            zid=self.identity.zid,
            resolution=self.offer.resolution,
            batch_size=self.offer.batch_size,
            qos=self.offer.lanes,
            auth=_encode_auth(USRPWD) if self.offer.credentials else None,
            low_latency=self.offer.low_latency,
            compression=self.offer.compression,
            patch=PATCH,
            exts=_relay_extensions(self.offer.relays),
        )

    def on_init_ack(self, ack: InitAck) -> OpenSyn:
        terms = negotiate(self.offer, ack)
        self._check_init_ack(ack, terms)
        own_sn = initial_sn(self.identity.zid, ack.zid, terms.sn_mask)
        self.terms = msgspec.structs.replace(terms, lease=self.offer.lease_ms / 1000, initial_sn=own_sn)
        self.state = self.State.AWAIT_OPEN_ACK
        lease, unit = encode_lease(self.offer.lease_ms)
        return OpenSyn(lease=lease, unit=unit, initial_sn=own_sn, cookie=ack.cookie, auth=self._prove(ack))

    def _check_init_ack(self, ack: InitAck, terms: SessionParameters) -> None:
        answered = DEFAULT_RESOLUTION if ack.resolution is None else ack.resolution & 0x0F
        if terms.resolution != answered:
            raise HandshakeError(f"resolution 0x{answered:02x} is more than was offered", CloseReason.INVALID)
        if (ack.patch or 0) > PATCH:
            raise HandshakeError(f"patch {ack.patch} is more than was offered", CloseReason.GENERIC)
        if self.expected not in (None, ack.zid):
            raise HandshakeError(f"expected node {self.expected}, met {ack.zid}", CloseReason.GENERIC)

    def _prove(self, ack: InitAck) -> bytes | None:
        if self.offer.credentials is None:
            return None
        nonce = _read_auth(ack.auth, USRPWD_NONCE)
        assert isinstance(nonce, int)
        return _encode_credentials(self.offer.credentials, nonce)

    def on_open_ack(self, ack: OpenAck) -> Opened:
        assert self.terms is not None
        _check_initial_sn(ack.initial_sn, self.terms.sn_mask)
        self.state = self.State.DONE
        return Opened(
            msgspec.structs.replace(self.terms, peer_lease=lease_seconds(ack), peer_initial_sn=ack.initial_sn)
        )


class Acceptor(_HandshakeRole):
    """The acceptor. `key` authenticates its cookies; `nonce` is a fresh number for this link."""

    MOVES: ClassVar = {InitSyn: "on_init_syn", OpenSyn: "on_open_syn"}

    def __init__(self, identity: Identity, offer: Capabilities, key: bytes, nonce: int) -> None:
        self.identity = identity
        self.offer = offer
        self.key = key
        self.nonce = nonce

    def _move(self, kind: type[TransportMessage]) -> Callable[[TransportMessage], Outcome]:
        if kind not in self.MOVES:
            raise HandshakeError(f"{kind.NAME} is no part of opening a session", CloseReason.INVALID)
        return getattr(self, self.MOVES[kind])  # type: ignore[no-any-return]

    def on_init_syn(self, syn: InitSyn) -> InitAck:
        if syn.version != PROTOCOL_VERSION:
            raise HandshakeError(f"protocol version {syn.version}, expected {PROTOCOL_VERSION}", CloseReason.INVALID)
        if syn.whatami is self.identity.whatami is WhatAmI.CLIENT:
            raise HandshakeError("two clients cannot have a session", CloseReason.GENERIC)
        if self.offer.users is not None:
            _read_auth(syn.auth, USRPWD)
        terms = negotiate(self.offer, syn)
        return InitAck(
            version=PROTOCOL_VERSION,
            whatami=self.identity.whatami,
            zid=self.identity.zid,
            resolution=terms.resolution,
            batch_size=terms.batch_size,
            cookie=self._bake(terms),
            qos=terms.qos and syn.qos,
            qos_link=syn.qos_link if terms.qos else None,
            auth=_encode_auth(USRPWD_NONCE, self.nonce) if self.offer.users is not None else None,
            low_latency=terms.low_latency,
            compression=terms.compression,
            patch=None if syn.patch is None else terms.patch,
            exts=_relay_extensions(terms.relays),
        )

    def on_open_syn(self, syn: OpenSyn) -> Opened:
        """The terms to open on; the caller decides whether there is room, and then sends `ack(terms)`."""
        terms = self._unbake(syn.cookie)
        user = None if self.offer.users is None else _verify_credentials(self.offer.users, syn.auth, self.nonce)
        if terms.peer.zid == self.identity.zid:
            raise HandshakeError("this node is calling itself", CloseReason.CONNECTION_TO_SELF)
        _check_initial_sn(syn.initial_sn, terms.sn_mask)
        return Opened(
            msgspec.structs.replace(
                terms,
                lease=self.offer.lease_ms / 1000,
                peer_lease=lease_seconds(syn),
                initial_sn=initial_sn(self.identity.zid, terms.peer.zid, terms.sn_mask),
                peer_initial_sn=syn.initial_sn,
                user=user,
            )
        )

    def ack(self, terms: SessionParameters) -> OpenAck:
        """The last message."""
        lease, unit = encode_lease(self.offer.lease_ms)
        auth = _encode_auth(USRPWD) if self.offer.users is not None else None
        return OpenAck(lease=lease, unit=unit, initial_sn=terms.initial_sn, auth=auth)

    def _mac(self, record: bytes) -> bytes:
        return hmac.digest(self.key, record + self.nonce.to_bytes(8, "little"), "sha256")[:MAC_SIZE]

    def _bake(self, terms: SessionParameters) -> bytes:
        out = Writer()
        terms.peer.zid.write(out)
        flags = terms.qos | terms.low_latency << 1 | terms.compression << 2 | terms.relays << 3
        for value in (terms.peer.whatami, terms.resolution, terms.batch_size, flags, terms.patch):
            out.z(value, 16, "cookie")
        return self._mac(bytes(out.data)) + bytes(out.data)

    def _unbake(self, cookie: bytes) -> SessionParameters:
        mac, record = cookie[:MAC_SIZE], cookie[MAC_SIZE:]
        if not hmac.compare_digest(mac, self._mac(record)):
            raise HandshakeError("the cookie is not the one given out on this link", CloseReason.INVALID)
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
