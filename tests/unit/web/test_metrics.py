"""Metrics, read by the parser of Prometheus' own client, and the documents that name them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.unit.api.sessions import connected
from tests.unit.web.lakes import FakePipeline, Tables
from tests.unit.web.served import context_of, opened, send_request, serving
from tests.wait import until
from zenspark.api.adminspace.openmetrics import MEDIA_TYPE
from zenspark.web.counts import Histogram
from zenspark.web.metrics import METRIC_FAMILIES, histogram_lines
from zenspark.web.traffic import read_traffic

DOCS = Path(__file__).parents[3] / "docs"
parse: Callable[[str], Iterable[Any]] = text_string_to_metric_families  # which has no types
GAPS = pa.table({"source_zid": ["a", "a", "b"], "kind": ["MISSING", "REPEATED", "MISSING"], "count": [2, 1, 5]})


@pytest.mark.slow
def test_metrics_are_parsed_by_the_prometheus_client() -> None:
    with opened() as session, connected("client", session) as other:
        samples = pa.table({"key": ["a"], "timestamp": [None], "received_at": [None]})
        with serving(session, FakePipeline(), Tables(samples=samples, gaps=GAPS)) as server:
            received: list[object] = []
            subscriber = other.declare_subscriber("demo/back", received.append)
            for _ in range(5):
                other.put("demo/a", b"x")
            assert until(lambda: session.info.declarations())
            for _ in range(3):
                session.put("demo/back", b"x")
            assert until(lambda: len(received) == 3)
            send_request(server, "/demo/**")
            assert until(lambda: context_of(server).overview.status)
            assert until(lambda: read_traffic(session).messages_in >= 5)  # they may still be on their way
            reply = send_request(server, "/metrics")
            del subscriber
            assert reply.headers["content-type"] == MEDIA_TYPE
    families = {family.name: family for family in parse(reply.body.decode())}
    assert set(families) == {family.name for family in METRIC_FAMILIES}
    for family in METRIC_FAMILIES:
        assert families[family.name].type == family.kind
        for sample in families[family.name].samples:
            assert set(sample.labels) <= {*family.labels, "le"}
            assert sample.name in family.sample_names

    def value(name: str, **labels: str) -> float:
        (found,) = [
            sample.value
            for family in families.values()
            for sample in family.samples
            if sample.name == name and sample.labels == labels
        ]
        return float(found)

    assert value("zenspark_sessions", whatami="client") == 1
    assert value("zenspark_messages_total", direction="in", kind="push") == 5
    assert value("zenspark_messages_total", direction="in", kind="declare") >= 1
    assert value("zenspark_messages_total", direction="out", kind="push") == 3
    assert value("zenspark_messages_total", direction="out", kind="oam") >= 0
    assert value("zenspark_bytes_total", direction="out") > 0
    assert value("zenspark_journal_rows", journal="./journal") == 20
    assert value("zenspark_journal_free_bytes", journal="./journal") == 1e9
    assert value("zenspark_journal_refused_rows_total", journal="./journal") == 3
    assert value("zenspark_journal_newest_timestamp_seconds", journal="./journal") == 1_700_000_060
    assert value("zenspark_bytes_total", direction="in") > 0
    assert value("zenspark_recorded_rows_total") == 20
    assert value("zenspark_ingested_rows_total", lake="./lake") == 10
    assert value("zenspark_lost_rows_total", reason="sequence_gap") == 2
    assert value("zenspark_gaps", kind="missing") == 7
    assert value("zenspark_table_rows", table="gaps") == 3
    assert value("zenspark_http_query_seconds_count") == 1
    assert value("zenspark_http_requests_total", path="key", status="200") == 1


def test_a_node_without_a_pipeline_has_none_of_its_samples() -> None:
    with opened() as session, serving(session) as server:
        text = send_request(server, "/metrics").body.decode()
    assert "zenspark_recorded_rows_total" not in text
    assert text.endswith("# EOF\n")


def test_counters_by_reason_are_there_before_the_first_event() -> None:
    with opened() as session, serving(session) as server:
        lines = send_request(server, "/metrics").body.decode().splitlines()
    for line in (
        'zenspark_sessions{whatami="router"} 0',
        'zenspark_lost_messages_total{reason="sequence_gap"} 0',
        'zenspark_dropped_messages_total{reason="congestion"} 0',
        'zenspark_refusals_total{limit="queries"} 0',
        'zenspark_http_dropped_clients_total{reason="slow_stream"} 0',
        'zenspark_http_dropped_clients_total{reason="server_overload"} 0',
        'zenspark_http_refused_requests_total{reason="login"} 0',
    ):
        assert line in lines


def test_a_closed_session_can_be_scraped() -> None:
    with opened() as session, serving(session) as server:
        session.close()
        assert send_request(server, "/metrics").status == 200


def test_histograms_are_cumulative() -> None:
    histogram = Histogram((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 7.0):
        histogram.add(seconds)
    assert list(histogram_lines("x", histogram)) == [
        'x_bucket{le="0.1"} 2',
        'x_bucket{le="1.0"} 3',
        'x_bucket{le="+Inf"} 4',
        "x_count 4",
        "x_sum 7.65",
    ]


def test_grafana_dashboard_queries_existing_metrics() -> None:
    dashboard = json.loads((DOCS / "grafana" / "zenspark.json").read_text())
    known = {name for family in METRIC_FAMILIES for name in family.sample_names}
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    used = {name for query in queries for name in re.findall(r"zenspark_\w+", query)}
    assert used <= known
    shown = {family.name for family in METRIC_FAMILIES if used & set(family.sample_names)}
    assert {family.name for family in METRIC_FAMILIES} - shown == {
        *("zenspark_build", "zenspark_uptime_seconds", "zenspark_stored_keys"),
        *("zenspark_http_connections", "zenspark_http_streams", "zenspark_http_skipped_messages"),
        *("zenspark_ingested_bytes", "zenspark_table_files", "zenspark_journal_segments"),
        *("zenspark_journal_oldest_timestamp_seconds", "zenspark_journal_newest_timestamp_seconds"),
    }


def test_the_manual_lists_every_metric() -> None:
    listed = set(re.findall(r"^\| `(zenspark_\w+)`", (DOCS / "metrics.md").read_text(), re.MULTILINE))
    assert listed == {family.sample_names[0] for family in METRIC_FAMILIES} - {"zenspark_http_query_seconds_bucket"} | {
        "zenspark_http_query_seconds"
    }
