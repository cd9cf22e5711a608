"""The node as the page sees it."""

from __future__ import annotations

from tests.unit.web.lakes import Flow
from tests.unit.web.served import ask, context_of, opened, serving
from tests.waiting import until
from zenspark import __version__


def test_a_node() -> None:
    with opened() as session, serving(session, Flow(), write=True) as server:
        assert until(lambda: context_of(server).overview.status)
        found = ask(server, "/_api/node").json
        assert (found["zid"], found["whatami"], found["version"]) == (str(session.zid()), "router", __version__)
        assert (found["write"], found["sql"], found["pipeline"], found["lakes"]) == (True, False, True, ["./lake"])
        assert found["locators"] == session.info.locators()
        session.close()
        assert ask(server, "/_api/node").json["locators"] == []
