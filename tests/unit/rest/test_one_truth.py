"""Whatever the runs of a flow reported: alarms, the page, both versions of the API, Prometheus and the command line
tell the same of it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings

from srm_common.domain.flow import FlowName
from srm_common.domain.health.judge import Verdict, judge, observe
from srm_common.domain.health.notified_alarms import AlarmMemory
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.rest import query_parameters
from srm_common.rest.app import AppContext
from srm_common.rest.serving.watched_files import WatchedConfiguration
from srm_common.rest.srm.v1 import status_of
from srm_common.settings_files.configuration import Configuration, load_configuration
from srm_common.store.metrics_store import MetricsStore
from srm_common.usecases.monitoring.lag_watch import LagWatch
from srm_common.usecases.monitoring.list_flows import Schedule, list_flows
from tests.examples import examples
from tests.unit.domain.monitoring.reports import flow_of
from tests.unit.domain.monitoring.run_stories import stories
from tests.unit.rest.conftest import app_of
from tests.unit.rest.people import HEADER, HeaderAccess

FLOW = FlowName("a", "b")


class Unasked(LagWatch):
    """Opens nothing: what a cluster would tell now is not of the past."""

    def of(self, flows: Any) -> dict[Any, Any]:
        return {}


@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(stories(most=6))
def test_all_tell_the_same(story: Sequence[RunReport]) -> None:
    with TemporaryDirectory() as folder:
        flow_of(Path(folder))
        file = Path(folder, "srm.properties")
        configuration = load_configuration(file, connections=None)
        store = MetricsStore(f"sqlite:///{folder}/metrics.db")
        memory = AlarmMemory()
        for report in story:
            store.write(report)
            memory = AlarmMemory.from_json(json.loads(json.dumps(memory.after(report).to_json())))
        now_ms = max(report.reported_ms for report in story) + 1_000
        told = judge(observe(FLOW, memory.history, configuration.flow("a->b"), None, now_ms))
        watched = WatchedConfiguration(lambda: file, load=lambda path: load_configuration(path, connections=None))
        context = AppContext(HeaderAccess(), lambda: store, None, watched, lag=Unasked())
        _compare(context, configuration, memory, told, now_ms)
        store.close()


def _compare(
    context: AppContext, configuration: Configuration, memory: AlarmMemory, told: Verdict, now_ms: int
) -> None:
    known = memory.history
    (row,) = context.store.flows()
    assert row.history == known
    lag = None if known.lag is None else known.lag.most

    client = TestClient(app_of(context), headers={HEADER: "viewer"})
    # Health is judged at the moment of the question: let that be the same for all.
    with patch.object(query_parameters, "time", SimpleNamespace(time_ns=lambda: now_ms * 1_000_000)):
        page = client.get("/api/v2/flows").json()["flows"][0]
        first = client.get("/api/v1/replications").json()["a->b"]
        text = client.get("/metrics").text
        service = client.get("/api/v2/health").json()
    assert (page["health"]["state"], page["health"]["cause"]) == (told.health.state, told.health.cause)
    assert page["health"]["since_ms"] == told.health.since_ms
    assert [(one["kind"], one["text"]) for one in page["alarms"]] == [(alarm.kind, alarm.text) for alarm in told.alarms]
    assert page["lag"] == lag
    assert page["lag_bounds"] == (
        None if known.lag is None else {**known.lag.to_json(), "text": known.lag.text("partition")}
    )
    assert page["untranslated_groups"] == known.untranslated_groups
    for name in (
        "proved_partitions",
        "unproved_partitions",
        "different_partitions",
        "uncompared_partitions",
        "verified_ms",
    ):
        assert page[name] == getattr(known, name)
    assert service["flows"]["a->b"]["state"] == told.health.state

    assert first["status"] == status_of(told)

    series = dict(re.findall(r'^(srm_flow_\w+)\{source="a",target="b"\} (\S+)$', text, re.MULTILINE))
    expected = {
        "srm_flow_lag_records": lag,
        "srm_flow_lag_unknown_partitions": None if known.lag is None else known.lag.unknown,
        "srm_flow_lost_records": known.lost_records,
        "srm_flow_untranslated_groups": known.untranslated_groups,
        "srm_flow_proved_partitions": known.proved_partitions,
        "srm_flow_good_run_timestamp_seconds": _seconds(known.good_run_ended_ms),
        "srm_flow_failing_since_timestamp_seconds": _seconds(known.failing_since_ms),
        "srm_flow_health_since_timestamp_seconds": _seconds(told.health.since_ms),
    }
    assert {name: float(series[name]) if name in series else None for name in expected} == expected
    states = dict(re.findall(r'^srm_flow_health\{source="a",target="b",state="(\w+)"\} (\d)$', text, re.MULTILINE))
    assert [state for state, value in states.items() if value == "1"] == [told.health.state]
    raised = dict(re.findall(r'^srm_flow_alarm\{source="a",target="b",kind="(\w+)"\} (\d)$', text, re.MULTILINE))
    assert {kind for kind, level in raised.items() if level != "0"} == {alarm.kind for alarm in told.alarms}

    (line,), fault = list_flows(configuration, context.store, Schedule(), now_ms)
    assert (line.health, list(line.alarms), line.lag, fault) == (told.health, told.alarms, known.lag, None)


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
