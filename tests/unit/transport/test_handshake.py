"""Opening a session, both sides, against each other and against captured bytes of eclipse-zenoh 1.10.2."""

from __future__ import annotations

import pytest

from zenspark.errors import CloseReason
from zenspark.transport.handshake import (
    Acceptor,
    Capabilities,
    Credentials,
    HandshakeRefused,
    Identity,
    Initiator,
    Opened,
    SessionParameters,
    initial_sn,
    lease_seconds,
)
from zenspark.wire.codec import decode_transport
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import Close, InitAck, InitSyn, KeepAlive, OpenAck, OpenSyn, TransportMessage
from zenspark.wire.values import TimeUnit, WhatAmI, ZenohId

CLIENT = Identity(ZenohId(0xC0C1C2C3), WhatAmI.CLIENT)
ROUTER = Identity(ZenohId(0xA0A1A2A3), WhatAmI.ROUTER)
KEY = b"a key only the acceptor knows"
NONCE = 0x1D20DEEEBBB8878C


@pytest.mark.parametrize(
    ("lease", "unit", "seconds"),
    [(10, TimeUnit.S, 10.0), (1500, TimeUnit.MS, 1.5), (2**63, TimeUnit.S, 3600.0), (2**63, TimeUnit.MS, 3600.0)],
)
def test_a_lease_is_an_hour_at_most(lease: int, unit: TimeUnit, seconds: float) -> None:
    assert lease_seconds(OpenAck(lease=lease, unit=unit, initial_sn=0)) == seconds


def accepting(offer: Capabilities | None = None, nonce: int = NONCE) -> Acceptor:
    return Acceptor(ROUTER, offer or Capabilities(), KEY, nonce)


def shake(opening: Initiator, acceptor: Acceptor) -> tuple[SessionParameters, SessionParameters]:
    """The whole handshake; the terms each side came to."""
    init_ack = acceptor.receive(opening.start())
    assert isinstance(init_ack, InitAck), init_ack
    open_syn = opening.receive(init_ack)
    assert isinstance(open_syn, OpenSyn), open_syn
    accepted = acceptor.receive(open_syn)
    assert isinstance(accepted, Opened), accepted
    opened = opening.receive(acceptor.ack(accepted.parameters))
    assert isinstance(opened, Opened), opened
    return opened.parameters, accepted.parameters


def refused(outcome: object) -> tuple[CloseReason, bool]:
    assert isinstance(outcome, HandshakeRefused), outcome
    return outcome.reason, outcome.close is not None


@pytest.mark.parametrize("low_latency", [False, True])
@pytest.mark.parametrize("compression", [False, True])
def test_both_roles_negotiate_the_same_parameters(low_latency: bool, compression: bool) -> None:
    ours = Capabilities(
        batch_size=2048, resolution=0x09, lease_ms=1500, low_latency=low_latency, compression=compression
    )
    theirs = Capabilities(batch_size=49152, lease_ms=10_000, low_latency=True, compression=True)
    mine, yours = shake(Initiator(CLIENT, ours), accepting(theirs))
    assert (mine.peer, yours.peer) == (ROUTER, CLIENT)
    assert mine.batch_size == yours.batch_size == 2048
    assert mine.resolution == yours.resolution == 0x09
    assert mine.sn_mask == 0x3FFF
    assert mine.low_latency == yours.low_latency == low_latency
    assert mine.compression == yours.compression == compression
    assert (mine.lease, mine.peer_lease) == (yours.peer_lease, yours.lease) == (1.5, 10.0)
    assert (mine.initial_sn, mine.peer_initial_sn) == (yours.peer_initial_sn, yours.initial_sn)
    assert mine.patch == yours.patch == 1


@pytest.mark.parametrize(("ours", "theirs", "bits"), [(0x0A, 0x02, 8), (0x06, 0x0A, 16), (0x0A, 0x0A, 32)])
def test_both_sides_come_to_the_smaller_resolution_of_request_ids(ours: int, theirs: int, bits: int) -> None:
    for terms in shake(Initiator(CLIENT, Capabilities(resolution=ours)), accepting(Capabilities(resolution=theirs))):
        assert (terms.request_bits, terms.sn_mask) == (bits, 0x0FFF_FFFF)


@pytest.mark.parametrize(
    ("offered", "agreed"), [(0x0A, 0x0A), (0x09, 0x09), (0x06, 0x06), (0x00, 0x00), (0x0F, 0x0A), (0xF5, 0x05)]
)
def test_both_halves_of_the_resolution_are_agreed_on_and_the_reserved_bits_ignored(offered: int, agreed: int) -> None:
    """Bits 3:2 are for request ids, bits 1:0 for sequence numbers."""
    opening = Initiator(CLIENT, Capabilities())
    ack = accepting().receive(replace(opening.start(), resolution=offered))
    assert isinstance(ack, InitAck)
    assert ack.resolution == agreed
    opened = opening.receive(replace(ack, resolution=0xF0 | 0x0A))
    assert isinstance(opened, OpenSyn), "reserved bits of the reply mean nothing either"


def test_qos_is_negotiated_only_if_both_sides_offer_it() -> None:
    assert shake(Initiator(CLIENT, Capabilities()), accepting())[0].qos
    assert not shake(Initiator(CLIENT, Capabilities(qos=False)), accepting())[0].qos
    assert not shake(Initiator(CLIENT, Capabilities()), accepting(Capabilities(qos=False)))[1].qos


@pytest.mark.parametrize(("ours", "theirs"), [(False, True), (True, False), (True, True)])
def test_relaying_is_negotiated_only_if_both_sides_offer_it(ours: bool, theirs: bool) -> None:
    opening = Initiator(CLIENT, Capabilities(relays=ours))
    mine, yours = shake(opening, accepting(Capabilities(relays=theirs)))
    assert mine.relays == yours.relays == (ours and theirs)
    assert (opening.start().exts != ()) == ours, "a node that does not relay sends what eclipse-zenoh sends"


def test_initial_sequence_numbers_are_those_of_eclipse_zenoh() -> None:
    mask = 0x0FFF_FFFF
    assert initial_sn(CLIENT.zid, ROUTER.zid, mask) == 102766003
    assert initial_sn(ROUTER.zid, CLIENT.zid, mask) == 6376485
    assert initial_sn(CLIENT.zid, ROUTER.zid, 0x7F) == 51


def test_the_captured_replies_of_a_router_open_a_session() -> None:
    opening = Initiator(CLIENT, Capabilities(batch_size=65480))
    assert opening.start() == decode_transport(bytes.fromhex("c10932c3c2c1c00ac8ff812701"))
    cookie = "2005a0e55e1973c5ec849470e9bec9e54e6ab8198250e0746e7b3d01d445e7d818"
    ack = decode_transport(bytes.fromhex(f"e10930a3a2a1a00a00c021{cookie}812701"))
    assert opening.receive(ack) == decode_transport(bytes.fromhex(f"420ab3ab803121{cookie}"))
    opened = opening.receive(decode_transport(bytes.fromhex("620aa5988503")))
    assert isinstance(opened, Opened)
    assert opened.parameters.batch_size == 49152
    assert opened.parameters.peer_initial_sn == 6376485


def test_the_shortest_init_syn_is_accepted_on_defaults() -> None:
    acceptor = accepting()
    ack = acceptor.receive(decode_transport(bytes.fromhex("010932c3c2c1c0")))
    assert isinstance(ack, InitAck)
    assert (ack.qos, ack.patch, ack.batch_size, ack.resolution) == (False, None, 0xFFFF, 0x0A)


def test_a_priority_range_is_echoed_and_taken_as_priorities() -> None:
    syn = replace(Initiator(CLIENT, Capabilities()).start(), qos=False, qos_link=534542)
    ack = accepting().receive(syn)
    assert isinstance(ack, InitAck)
    assert (ack.qos, ack.qos_link) == (False, 534542)


class TestUserAndPassword:
    """The method eclipse-zenoh calls usrpwd."""

    ALICE = Capabilities(credentials=Credentials(b"alice", b"secret"))
    GUARDED = Capabilities(users={b"alice": b"secret"})

    def test_the_right_password_opens(self) -> None:
        opened, accepted = shake(Initiator(CLIENT, self.ALICE), accepting(self.GUARDED))
        assert (opened.user, accepted.user) == (None, b"alice")
        assert shake(Initiator(CLIENT, Capabilities()), accepting())[1].user is None

    def test_the_proof_is_the_captured_one(self) -> None:
        opening = Initiator(CLIENT, self.ALICE)
        ack = accepting(self.GUARDED).receive(opening.start())
        assert isinstance(ack, InitAck)
        syn = opening.receive(ack)
        assert isinstance(syn, OpenSyn)
        assert syn.auth is not None
        proof = "411fdd20d23b4593d0f16c25c72cec8db9177ae1a463d4cc7e6e118741c0c54e"
        assert syn.auth.hex() == f"422705616c69636520{proof}"

    @pytest.mark.parametrize("credentials", [(b"alice", b"wrong"), (b"bob", b"secret"), (b"bob", b"")])
    def test_wrong_password_is_refused(self, credentials: tuple[bytes, bytes]) -> None:
        opening = Initiator(CLIENT, Capabilities(credentials=Credentials(*credentials)))
        acceptor = accepting(self.GUARDED)
        ack = acceptor.receive(opening.start())
        assert isinstance(ack, InitAck)
        syn = opening.receive(ack)
        assert isinstance(syn, OpenSyn)
        assert refused(acceptor.receive(syn)) == (CloseReason.GENERIC, True)

    def test_missing_credentials_are_refused_at_init(self) -> None:
        assert (
            refused(accepting(self.GUARDED).receive(Initiator(CLIENT, Capabilities()).start()))[0]
            is CloseReason.GENERIC
        )

    def test_no_password_proof_to_an_acceptor_without_authentication(self) -> None:
        opening = Initiator(CLIENT, self.ALICE)
        ack = accepting().receive(opening.start())
        assert isinstance(ack, InitAck)
        assert refused(opening.receive(ack))[0] is CloseReason.GENERIC

    def test_garbage_in_the_extension_is_refused(self) -> None:
        syn = replace(Initiator(CLIENT, self.ALICE).start(), auth=b"\x42\xff")
        assert refused(accepting(self.GUARDED).receive(syn))[0] is CloseReason.GENERIC


class TestAcceptorRefuses:
    """What an acceptor turns away, with the reason it gives."""

    SYN = Initiator(CLIENT, Capabilities()).start()

    @pytest.mark.parametrize("version", [0, 8, 255])
    def test_other_protocol_version_is_refused(self, version: int) -> None:
        assert refused(accepting().receive(replace(self.SYN, version=version))) == (CloseReason.INVALID, True)

    def test_message_outside_the_handshake_is_refused(self) -> None:
        assert refused(accepting().receive(KeepAlive())) == (CloseReason.INVALID, True)

    def test_client_refuses_client(self) -> None:
        acceptor = Acceptor(Identity(ZenohId(1), WhatAmI.CLIENT), Capabilities(), KEY, NONCE)
        assert refused(acceptor.receive(self.SYN)) == (CloseReason.GENERIC, True)

    def test_connection_to_self_is_refused(self) -> None:
        opening = Initiator(Identity(ROUTER.zid, WhatAmI.PEER), Capabilities())
        acceptor = accepting()
        ack = acceptor.receive(opening.start())
        assert isinstance(ack, InitAck)
        syn = opening.receive(ack)
        assert isinstance(syn, OpenSyn)
        assert refused(acceptor.receive(syn)) == (CloseReason.CONNECTION_TO_SELF, True)

    @pytest.mark.parametrize("position", [0, -1])
    def test_forged_cookie_is_refused(self, position: int) -> None:
        opening, acceptor = Initiator(CLIENT, Capabilities()), accepting()
        ack = acceptor.receive(opening.start())
        assert isinstance(ack, InitAck)
        forged = bytearray(ack.cookie)
        forged[position] ^= 1
        syn = OpenSyn(lease=10, unit=TimeUnit.S, initial_sn=1, cookie=bytes(forged))
        assert refused(acceptor.receive(syn)) == (CloseReason.INVALID, True)

    def test_cookie_of_another_link_is_refused(self) -> None:
        opening = Initiator(CLIENT, Capabilities())
        ack = accepting(nonce=1).receive(opening.start())
        assert isinstance(ack, InitAck)
        syn = opening.receive(ack)
        assert isinstance(syn, OpenSyn)
        assert refused(accepting(nonce=2).receive(syn))[0] is CloseReason.INVALID

    def test_initial_sn_above_the_resolution_is_refused(self) -> None:
        opening, acceptor = Initiator(CLIENT, Capabilities(resolution=0)), accepting()
        ack = acceptor.receive(opening.start())
        assert isinstance(ack, InitAck)
        syn = opening.receive(ack)
        assert isinstance(syn, OpenSyn)
        assert refused(acceptor.receive(replace(syn, initial_sn=128)))[0] is CloseReason.INVALID


class TestInitiatorRefuses:
    """What an initiator does not put up with."""

    def ack(self, opening: Initiator) -> InitAck:
        ack = accepting().receive(opening.start())
        assert isinstance(ack, InitAck)
        return ack

    def test_resolution_above_the_offer_is_refused(self) -> None:
        opening = Initiator(CLIENT, Capabilities(resolution=0x08))
        bold = replace(self.ack(opening), resolution=None, batch_size=None)  # absent means the default, 32 bits
        assert refused(opening.receive(bold)) == (CloseReason.INVALID, True)

    def test_initial_sn_above_the_resolution_is_refused(self) -> None:
        opening = Initiator(CLIENT, Capabilities(resolution=0))
        assert isinstance(opening.receive(self.ack(opening)), OpenSyn)
        ack = OpenAck(lease=10, unit=TimeUnit.S, initial_sn=128)
        assert refused(opening.receive(ack)) == (CloseReason.INVALID, True)

    def test_patch_above_the_offer_is_refused(self) -> None:
        opening = Initiator(CLIENT, Capabilities())
        assert refused(opening.receive(replace(self.ack(opening), patch=2))) == (CloseReason.GENERIC, True)

    def test_unexpected_zid_is_refused(self) -> None:
        opening = Initiator(CLIENT, Capabilities(), expected=ZenohId(5))
        assert refused(opening.receive(self.ack(opening)))[0] is CloseReason.GENERIC
        opening = Initiator(CLIENT, Capabilities(), expected=ROUTER.zid)
        assert isinstance(opening.receive(self.ack(opening)), OpenSyn)

    @pytest.mark.parametrize("message", [OpenAck(lease=1, unit=TimeUnit.S, initial_sn=1), KeepAlive()])
    def test_messages_out_of_order_are_refused(self, message: TransportMessage) -> None:
        assert refused(Initiator(CLIENT, Capabilities()).receive(message)) == (CloseReason.INVALID, True)

    def test_close_ends_the_handshake_without_a_reply(self) -> None:
        outcome = Initiator(CLIENT, Capabilities()).receive(Close(session=False, reason=4))
        assert refused(outcome) == (CloseReason.MAX_LINKS, False)

    def test_init_syn_in_reply_to_init_syn_is_refused(self) -> None:
        assert isinstance(Initiator(CLIENT, Capabilities()).start(), InitSyn)
        assert refused(Initiator(CLIENT, Capabilities()).receive(Initiator(ROUTER, Capabilities()).start()))[1]
