"""Airflow's metrics in two more dialects, heard by real listeners; StatsD's is heard in scheduler/test_runs.py."""

from __future__ import annotations

import gzip
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import airflow.sdk.observability.stats
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from bench.history import Shape, reports
from srm_common.airflow_bridge.lag_report import AirflowMetric, LagReport, MetricKind, send

pytestmark = pytest.mark.airflow

#: One report of a flow east->west with two topics of two partitions.
SHAPE = Shape(flows=1, topics=2, partitions=2, groups=1, days=0.003)

#: A process as a task is: Airflow's settings, its task runner's first step, and what report_lag does last.
TASK = """
from airflow.sdk.configuration import conf
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
from bench.history import reports
from srm_common.airflow_bridge.lag_report import LagReport, send
from tests.airflow.test_metrics_listeners import SHAPE
legacy = conf.getboolean("metrics", "legacy_names_on")
stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=legacy)
send(LagReport.of(next(reports(SHAPE))).metrics())
"""

#: (name, tags) -> value
Heard = dict[tuple[str, frozenset[tuple[str, str]]], float]


def run_task(**settings: object) -> None:
    environment = {
        **os.environ,
        **{f"AIRFLOW__METRICS__{name.upper()}": str(value) for name, value in settings.items()},
    }
    done = subprocess.run([sys.executable, "-c", TASK], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def sent() -> Heard:
    """Everything that the report has to say; counters hold what one run adds."""
    metrics: list[AirflowMetric] = list(LagReport.of(next(reports(SHAPE))).metrics())
    assert {metric.kind for metric in metrics} == set(MetricKind)
    found = {
        (f"airflow.{airflow_metric.name}", frozenset(airflow_metric.tags.items())): airflow_metric.value
        for airflow_metric in metrics
    }
    assert len(found) == len(metrics) > 30
    return found


def test_datadog_hears_every_metric_with_its_tags() -> None:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        host, port = listener.getsockname()
        run_task(statsd_on=True, statsd_datadog_enabled=True, statsd_host=host, statsd_port=port)
        # All of it has been sent by now, and lies in the socket's buffer.
        listener.setblocking(False)
        lines: list[str] = []
        try:
            while True:
                lines += listener.recv(65_536).decode().splitlines()
        except BlockingIOError:
            pass
    heard: Heard = {}
    for line in lines:
        name, _, rest = line.partition(":")
        if not name.startswith("airflow.srm."):
            continue
        value, kind, *more = rest.split("|")
        assert kind in ("g", "c"), line
        tags = next((part[1:] for part in more if part.startswith("#")), "")
        heard[name, frozenset((key, text) for key, _, text in (tag.partition(":") for tag in tags.split(",")))] = float(
            value
        )
    wanted = sent()
    assert heard.keys() == wanted.keys()
    assert heard == pytest.approx(wanted)


@pytest.mark.parametrize(("dialect", "topics"), [("influxdb", ["short"]), ("datadog", ["long", "short"])])
def test_long_names_are_left_out_only_where_they_are_refused(
    dialect: str, topics: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []
    sink = SimpleNamespace(gauge=lambda *_, tags: heard.append(tags["topic"].strip("x")))
    monkeypatch.setattr(airflow.sdk.observability, "stats", sink)
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
    monkeypatch.setenv(f"AIRFLOW__METRICS__STATSD_{dialect.upper()}_ENABLED", "True")
    names = ["long" + "x" * 245, "short"]
    with caplog.at_level(logging.WARNING):
        send([AirflowMetric("srm.records_lag", MetricKind.GAUGE, 1, {"topic": name}) for name in names])
    assert heard == topics
    assert len(caplog.records) == 2 - len(topics)


@contextmanager
def collector() -> Iterator[tuple[int, list[ExportMetricsServiceRequest]]]:
    """An OpenTelemetry collector that keeps what it is sent by OTLP over HTTP."""
    requests: list[ExportMetricsServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/metrics":
                requests.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_address[1], requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_opentelemetry_hears_every_metric_with_its_attributes() -> None:
    with collector() as (port, requests):
        run_task(otel_on=True, otel_host="127.0.0.1", otel_port=port, otel_interval_milliseconds=60_000)
    heard: Heard = {}
    for request in requests:
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in (*metric.gauge.data_points, *metric.sum.data_points):
                        tags = frozenset(
                            (attribute.key, attribute.value.string_value) for attribute in point.attributes
                        )
                        heard[metric.name, tags] = point.as_double or float(point.as_int)
    wanted = sent()
    heard = {key: value for key, value in heard.items() if key[0].startswith("airflow.srm.")}
    assert heard.keys() == wanted.keys()
    assert heard == pytest.approx(wanted)
