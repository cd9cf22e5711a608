"""Live state, requested once."""

from __future__ import annotations

import pytest

from tests.unit.web.served import opened, send_request, serving
from tests.wait import until


@pytest.mark.slow
def test_keys_are_collected_from_the_first_request_on() -> None:
    with opened() as session, serving(session) as server:
        assert send_request(server, "/_api/keys?key_expr=demo/**").json == {"rows": [], "total": 0, "truncated": False}
        for number in range(3):
            session.put(f"demo/{number}", b"x")
        assert until(lambda: send_request(server, "/_api/keys?key_expr=demo/**").json["total"] == 3)
        cut = send_request(server, "/_api/keys?key_expr=demo/**&limit=2").json
        assert (len(cut["rows"]), cut["total"], cut["truncated"]) == (2, 3, True)
        wrong = send_request(server, "/_api/keys?key_expr=a//b")
        assert (wrong.status, "expected a chunk" in wrong.error) == (400, True)
