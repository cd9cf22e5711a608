"""The keys below `transport`: sessions, links, queues, encryption and authentication (see `settings.py`)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from zenspark.config.schema import SECRET, U16, UNSET, UNSET_REFUSED, UNUSED, Key, Milliseconds, Section, Size
from zenspark.transport.lease import DEFAULT_LEASE_MS, KEEP_ALIVES_PER_LEASE
from zenspark.transport.reassembly import MAX_MESSAGE_BYTES

Microseconds = Annotated[int, Meta(ge=0)]
Batches = Annotated[int, Meta(ge=1, le=16)]


class Enabled(Section, frozen=True):
    """A switch that is on by default."""

    enabled: bool = True


class Disabled(Section, frozen=True):
    """A switch that is off by default."""

    enabled: bool = False


class UnicastSettings(Section, frozen=True):
    """Sessions between two nodes."""

    open_timeout: Milliseconds = 10_000
    accept_timeout: Milliseconds = 10_000
    accept_pending: Size = 100
    max_sessions: Size = 1000
    max_links: Annotated[Size, UNUSED] = 1
    lowlatency: bool = False
    qos: Enabled = Enabled()
    compression: Disabled = Disabled()


class MulticastTransportSettings(Section, frozen=True):
    """Sessions of many nodes in one group."""

    join_interval: Annotated[int, Meta(ge=1, description="a number of milliseconds, at least 1")] = 2500
    max_sessions: Size = 1000
    qos: Disabled = Disabled()
    compression: Disabled = Disabled()


class QueueSizeSettings(Section, frozen=True):
    """Maximum number of batches queued at each priority."""

    control: Annotated[Batches, UNUSED] = 2
    real_time: Annotated[Batches, UNUSED] = 2
    interactive_high: Annotated[Batches, UNUSED] = 2
    interactive_low: Annotated[Batches, UNUSED] = 2
    data_high: Annotated[Batches, UNUSED] = 2
    data: Annotated[Batches, UNUSED] = 2
    data_low: Annotated[Batches, UNUSED] = 2
    background: Annotated[Batches, UNUSED] = 2


class DropSettings(Section, frozen=True):
    """Waits of messages that may be dropped while a link has unsent bytes."""

    wait_before_drop: Microseconds = 1000
    max_wait_before_drop_fragments: Annotated[Microseconds, UNUSED] = 50_000


class BlockSettings(Section, frozen=True):
    """Waits of messages that must not be dropped while a link has unsent bytes."""

    wait_before_close: Microseconds = 5_000_000
    """Microseconds that a link with unsent bytes may take none of them before its session is closed."""


class CongestionSettings(Section, frozen=True):
    """Congestion control: the treatment of messages while a link has unsent bytes."""

    drop: DropSettings = DropSettings()
    block: BlockSettings = BlockSettings()


class BatchingSettings(Section, frozen=True):
    """Whether messages are delayed to share a batch, and how long."""

    enabled: Annotated[bool, UNUSED] = True
    time_limit: Milliseconds = 1


class AllocationSettings(Section, frozen=True):
    """Time at which the memory of the queues is allocated."""

    mode: Annotated[Literal["init", "lazy"], UNUSED] = "lazy"


class QueueSettings(Section, frozen=True):
    """The send queues of a link."""

    size: QueueSizeSettings = QueueSizeSettings()
    congestion_control: CongestionSettings = CongestionSettings()
    batching: BatchingSettings = BatchingSettings()
    allocation: AllocationSettings = AllocationSettings()
    max_backlog: Annotated[Size, Key(hidden=True)] = 1 << 25
    """Bytes that may be queued for one link; beyond that the link is closed."""


class TransmissionSettings(Section, frozen=True):
    """The sending side of a link."""

    sequence_number_resolution: Literal["8bit", "16bit", "32bit"] = "32bit"
    lease: Milliseconds = DEFAULT_LEASE_MS
    keep_alive: Annotated[int, Meta(ge=1)] = KEEP_ALIVES_PER_LEASE
    """KEEP_ALIVE messages per lease."""
    batch_size: U16 = 0xFFFF
    queue: QueueSettings = QueueSettings()
    threads: Annotated[Size, UNUSED] = 1
    separate_finals: Annotated[bool, Key(hidden=True)] = False
    """Whether each RESPONSE_FINAL is sent in a FRAME of its own, as the specification shows it, and so in one more
    batch; eclipse-zenoh sends it after the last RESPONSE, and accepts both. Not in zenohd."""


class ReceptionSettings(Section, frozen=True):
    """The receiving side of a link."""

    buffer_size: Annotated[Size, UNUSED] = 0xFFFF
    max_message_size: Size = MAX_MESSAGE_BYTES
    """Bytes of the largest message; larger ones are rejected before any memory is reserved for them."""


class TlsSettings(Section, frozen=True):
    """Certificates and keys, as files or as base64 text."""

    root_ca_certificate: Annotated[str | None, UNSET] = None
    listen_private_key: Annotated[str | None, UNSET] = None
    listen_certificate: Annotated[str | None, UNSET] = None
    enable_mtls: Annotated[bool, UNSET] = False
    connect_private_key: Annotated[str | None, UNSET] = None
    connect_certificate: Annotated[str | None, UNSET] = None
    verify_name_on_connect: Annotated[bool, UNSET] = True
    close_link_on_expiration: Annotated[bool, UNSET] = False
    so_sndbuf: Annotated[Size | None, UNSET] = None
    so_rcvbuf: Annotated[Size | None, UNSET] = None
    root_ca_certificate_base64: Annotated[str | None, SECRET] = None
    listen_private_key_base64: Annotated[str | None, SECRET] = None
    listen_certificate_base64: Annotated[str | None, SECRET] = None
    connect_private_key_base64: Annotated[str | None, SECRET] = None
    connect_certificate_base64: Annotated[str | None, SECRET] = None


class TcpSettings(Section, frozen=True):
    """Buffers of TCP sockets."""

    so_sndbuf: Annotated[Size | None, UNSET] = None
    so_rcvbuf: Annotated[Size | None, UNSET] = None


class UnixPipeSettings(Section, frozen=True):
    """Links over named pipes."""

    file_access_mask: Annotated[int | None, UNSET_REFUSED] = None


class LinkSettings(Section, frozen=True):
    """Links of every kind."""

    protocols: Annotated[tuple[str, ...] | None, UNSET] = None
    """The protocols that may be used; all if it is not set."""
    tx: TransmissionSettings = TransmissionSettings()
    rx: ReceptionSettings = ReceptionSettings()
    tls: TlsSettings = TlsSettings()
    tcp: TcpSettings = TcpSettings()
    unixpipe: UnixPipeSettings = UnixPipeSettings()


class SharedMemoryOptimizationSettings(Section, frozen=True):
    """Moving large messages through shared memory."""

    enabled: bool = True
    pool_size: Size = 16_777_216
    message_size_threshold: Size = 3072
    messages: tuple[str, ...] = ("put", "query", "reply")


class SharedMemorySettings(Section, frozen=True):
    """Moving messages through shared memory."""

    enabled: Annotated[bool, Key(used=False, as_if=False)] = True
    mode: Annotated[Literal["init", "lazy"], UNUSED] = "lazy"
    transport_optimization: Annotated[SharedMemoryOptimizationSettings, UNUSED] = SharedMemoryOptimizationSettings()


class UserPasswordSettings(Section, frozen=True):
    """User and password of this node, and the file of users that may connect to it."""

    user: Annotated[str | None, UNSET] = None
    password: Annotated[str | None, UNSET] = None
    dictionary_file: Annotated[str | None, UNSET] = None


class PublicKeySettings(Section, frozen=True):
    """Public-key authentication."""

    public_key_pem: Annotated[str | None, UNSET_REFUSED] = None
    private_key_pem: Annotated[str | None, UNSET_REFUSED] = None
    public_key_file: Annotated[str | None, UNSET_REFUSED] = None
    private_key_file: Annotated[str | None, UNSET_REFUSED] = None
    key_size: Annotated[Size | None, UNSET_REFUSED] = None
    known_keys_file: Annotated[str | None, UNSET_REFUSED] = None


class AuthSettings(Section, frozen=True):
    """Authentication of neighbours."""

    usrpwd: UserPasswordSettings = UserPasswordSettings()
    pubkey: PublicKeySettings = PublicKeySettings()


class TransportSettings(Section, frozen=True):
    """Sessions between nodes, and the links they use."""

    unicast: UnicastSettings = UnicastSettings()
    multicast: MulticastTransportSettings = MulticastTransportSettings()
    link: LinkSettings = LinkSettings()
    shared_memory: SharedMemorySettings = SharedMemorySettings()
    auth: AuthSettings = AuthSettings()
