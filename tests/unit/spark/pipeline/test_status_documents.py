from __future__ import annotations

import json

import zenspark
from tests.interop.reference import ours
from tests.optional import some
from zenspark.spark.pipeline.status import JobStatus
from zenspark.spark.pipeline.status_documents import StatusQueryable


def test_the_status_is_in_the_admin_space_as_json_and_as_metrics() -> None:
    with zenspark.open(ours(mode="peer")) as session:
        space = StatusQueryable(session, lambda: JobStatus(recorded=5))
        space.start()
        assert space.root == f"@/{session.zid()}/peer/zenspark"
        replies = {str(some(reply.ok).key_expr): reply.ok for reply in session.get(f"{space.root}/*")}
        status, metrics = replies[f"{space.root}/status"], replies[f"{space.root}/metrics"]
        assert json.loads(some(status).payload.to_bytes())["recorded"] == 5
        assert str(some(status).encoding) == "application/json"
        assert "zenspark_recorded_rows_total 5" in some(metrics).payload.to_string()
        assert [str(some(one.ok).key_expr) for one in session.get(f"{space.root}/status")] == [f"{space.root}/status"]
        space.close()
        assert list(session.get(f"{space.root}/*")) == []
        space.close()
