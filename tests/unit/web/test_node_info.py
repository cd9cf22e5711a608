"""The node as the page sees it."""

from __future__ import annotations

from tests.unit.web.lakes import FakePipeline
from tests.unit.web.served import context_of, opened, send_request, serving
from tests.wait import until
from zenspark import __version__


def test_node_info_has_zid_version_features_and_locators() -> None:
    with opened() as session, serving(session, FakePipeline(), write=True) as server:
        assert until(lambda: context_of(server).overview.status)
        found = send_request(server, "/_api/node").json
        assert (found["zid"], found["whatami"], found["version"]) == (str(session.zid()), "router", __version__)
        assert (found["write"], found["sql"], found["pipeline"], found["lakes"]) == (True, False, True, ["./lake"])
        assert found["locators"] == session.info.locators()
        session.close()
        assert send_request(server, "/_api/node").json["locators"] == []
