import pytest

from zenspark.router.face import Face, Outgoing
from zenspark.router.interests.current_declarations import MAX_DECLARATIONS_PER_PORTION
from zenspark.router.router import Router
from zenspark.wire.messages import Declare, DeclareToken, Interest, UndeclareToken
from zenspark.wire.values import InterestMode, WhatAmI, WireExpr, ZenohId


def router_with_tokens(count: int) -> tuple[Router, Face]:
    """A router with so many tokens, and a client that can declare an interest in them."""
    router = Router(ZenohId(1), WhatAmI.ROUTER)
    owner, _ = router.add_face(ZenohId(2), WhatAmI.CLIENT, 0.0)
    for number in range(count):
        name = WireExpr(0, f"t/{number}")
        router.receive(owner, Declare(body=DeclareToken(id=number, wire_expr=name)), 0.0)
    return router, router.add_face(ZenohId(3), WhatAmI.CLIENT, 0.0)[0]


def interest(number: int, mode: InterestMode = InterestMode.CURRENT) -> Interest:
    return Interest(id=number, mode=mode, tokens=True, wire_expr=WireExpr(0, "t/*"))


def bodies(out: Outgoing) -> list[str]:
    """The replies, without declarations of key ids."""
    found = [type(message.body).__name__ for _, message in out if isinstance(message, Declare)]
    return [name for name in found if name != "DeclareKeyexpr"]


@pytest.mark.parametrize("mode", [InterestMode.CURRENT, InterestMode.CURRENT_FUTURE])
def test_many_declarations_are_sent_in_portions_then_final(mode: InterestMode) -> None:
    router, client = router_with_tokens(2 * MAX_DECLARATIONS_PER_PORTION + 10)
    portions = [bodies(router.receive(client, interest(1, mode), 0.0))]
    while router.is_awaiting_declarations(client):
        portions.append(bodies(router.send_next_portion(client)))
    assert [len(portion) for portion in portions] == [MAX_DECLARATIONS_PER_PORTION, MAX_DECLARATIONS_PER_PORTION, 11]
    assert portions[-1][-1] == "DeclareFinal"
    assert router.faces_awaiting_declarations == []


def test_second_interest_gets_its_final_after_the_first() -> None:
    router, client = router_with_tokens(MAX_DECLARATIONS_PER_PORTION + 10)
    router.receive(client, interest(1), 0.0)
    assert bodies(router.receive(client, interest(2), 0.0)) == []
    assert bodies(router.send_next_portion(client)).index("DeclareFinal") == 10, "the first one ends"
    while router.is_awaiting_declarations(client):
        last = bodies(router.send_next_portion(client))
    assert last[-1] == "DeclareFinal"


def test_ended_interest_gets_no_more_portions() -> None:
    router, client = router_with_tokens(3 * MAX_DECLARATIONS_PER_PORTION)
    router.receive(client, interest(1, InterestMode.CURRENT_FUTURE), 0.0)
    router.receive(client, Interest(id=1, mode=InterestMode.FINAL), 0.0)
    assert bodies(router.send_next_portion(client)) == []
    assert not router.is_awaiting_declarations(client)


def test_removed_face_gets_no_more_portions() -> None:
    router, client = router_with_tokens(3 * MAX_DECLARATIONS_PER_PORTION)
    router.receive(client, interest(1), 0.0)
    router.remove_face(client, 0.0)
    assert router.faces_awaiting_declarations == []


def test_declaration_undeclared_before_its_portion_is_not_sent() -> None:
    router, client = router_with_tokens(MAX_DECLARATIONS_PER_PORTION + 2)
    first = router.receive(client, interest(1, InterestMode.CURRENT_FUTURE), 0.0)
    owner = next(face for face in router._faces.values() if face.zid == ZenohId(2))
    for number in range(MAX_DECLARATIONS_PER_PORTION + 2):
        router.receive(owner, Declare(body=UndeclareToken(id=number)), 0.0)
    assert len(bodies(first)) == MAX_DECLARATIONS_PER_PORTION
    assert bodies(router.send_next_portion(client)) == ["DeclareFinal"]
