from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from srm_common.airflow_bridge.flow_tasks import DagSpec, Work, dag_ids, flow_dag, misconfigured_dag
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow.names import MISCONFIGURED_TAG
from srm_common.errors import ConfigError
from srm_common.settings_files.configuration import load_configuration

FLOW = FlowSettings(
    FlowName("east", "west"),
    source=ClusterSettings.plaintext("east", "east-1:9092,east-2:9092"),
    target=ClusterSettings.plaintext("west", "west-1:9092"),
)


def after(spec: DagSpec) -> dict[Work, set[Work]]:
    return {task.work: set(task.after) for task in spec.tasks}


def test_the_copy_waits_for_topics_and_the_heartbeat_for_nothing() -> None:
    waits = after(flow_dag(FLOW))
    assert waits[Work.REFRESH_TOPICS] == set()
    assert waits[Work.EMIT_HEARTBEAT] == set()
    assert waits[Work.REPLICATE] == {Work.REFRESH_TOPICS}
    assert waits[Work.SYNC_CHECKPOINTS] == {Work.REPLICATE}
    # After it, since the report tells what it did.
    assert waits[Work.REPORT_LAG] == {Work.SYNC_CHECKPOINTS}


def test_one_failure_stops_nothing_behind_it_and_still_fails_the_run() -> None:
    tasks = {task.work: task for task in flow_dag(FLOW).tasks}
    assert {work for work, task in tasks.items() if task.always} == {
        Work.REPLICATE,
        Work.SYNC_CHECKPOINTS,
        Work.REPORT_LAG,
    }
    assert set(tasks[Work.OUTCOME].after) == set(tasks) - {Work.OUTCOME}
    assert not any(Work.OUTCOME in task.after for task in tasks.values())


@pytest.mark.parametrize(
    ("location", "clusters"), [("both", "`east` and `west`"), ("source", "`east`"), ("target", "`west`")]
)
def test_the_task_says_where_heartbeats_go(location: Any, clusters: str) -> None:
    tasks = {task.work: task for task in flow_dag(replace(FLOW, heartbeats_topic_location=location)).tasks}
    assert tasks[Work.EMIT_HEARTBEAT].doc == f"Writes a heartbeat to {clusters}."


def test_a_flow_without_heartbeats_has_no_such_task() -> None:
    waits = after(flow_dag(replace(FLOW, emit_heartbeats=False)))
    assert Work.EMIT_HEARTBEAT not in waits
    assert Work.EMIT_HEARTBEAT not in waits[Work.OUTCOME]


def test_settings_of_tries_and_limits_reach_every_task_that_works() -> None:
    spec = flow_dag(replace(FLOW, retries=5, retry_delay_seconds=1.5, execution_timeout_seconds=60))
    working = [task for task in spec.tasks if task.work is not Work.OUTCOME]
    assert {task.work: task.retries for task in working if task.retries != 5} == {Work.EMIT_HEARTBEAT: 0}
    assert {task.retry_delay for task in working} == {timedelta(seconds=1.5)}
    assert {task.execution_timeout for task in working} == {timedelta(minutes=1)}


def test_an_execution_timeout_of_0_is_none() -> None:
    spec = flow_dag(replace(FLOW, execution_timeout_seconds=0))
    assert all(task.execution_timeout is None for task in spec.tasks)


def test_only_the_copy_takes_a_place_in_the_pool_of_its_target() -> None:
    spec = flow_dag(replace(FLOW, airflow_pool="srm_{target}"))
    assert {task.work: task.pool for task in spec.tasks if task.pool != "default_pool"} == {Work.REPLICATE: "srm_west"}


@pytest.mark.parametrize("enabled", [True, False])
def test_the_file_decides_whether_a_new_flow_starts(enabled: bool) -> None:
    assert flow_dag(replace(FLOW, enabled=enabled)).paused_at_first is not enabled


def test_a_flow_that_the_file_disables_has_no_schedule() -> None:
    spec = flow_dag(replace(FLOW, disabled=True))
    assert (spec.schedule, spec.paused_at_first) == (None, True)
    assert "set it to true and unpause srm.east.west" in spec.doc
    assert flow_dag(FLOW).schedule == timedelta(seconds=30)


def test_the_page_of_a_flow_tells_its_facts() -> None:
    facts = flow_dag(replace(FLOW, topics=("orders.*", "a|b"), run_max_seconds=20)).doc
    for fact in ("east-1:9092,east-2:9092", "west-1:9092", "`orders.*`", r"`a\|b`", "`east.orders`", "exactly once"):
        assert fact in facts
    assert "every 30 s, reading for 20 s per run" in facts


def test_the_page_of_a_flow_links_to_figures_and_to_the_way_back() -> None:
    facts = flow_dag(FLOW, "/airflow", goes_back=True).doc
    assert "(/airflow/plugin/replications#/flows/east/west)" in facts
    assert "(/airflow/dags/srm.west.east)" in facts
    assert "the way back" not in flow_dag(FLOW).doc


def test_credentials_are_not_in_a_dag() -> None:
    secret = replace(
        FLOW,
        source=ClusterSettings(
            "east",
            "east-1:9092",
            {"bootstrap.servers": "east-1:9092", "sasl.password": "hush-hush"},
            {"sasl_plain_password": "hush-hush"},
        ),
    )
    assert "hush-hush" not in repr(flow_dag(secret))


def test_a_misconfigured_flow_says_why_and_how_it_comes_back() -> None:
    fault = ConfigError("'tasks.max' must be a whole number, not 'many'", file="/etc/srm.properties", line=12)
    spec = misconfigured_dag(FlowName("east", "west"), fault, "srm.east.west")
    assert spec.dag_id == "srm.east.west"
    assert spec.display_name == "srm.east.west (misconfigured)"
    assert MISCONFIGURED_TAG in spec.tags
    assert "/etc/srm.properties:12: 'tasks.max' must be" in spec.doc
    assert [task.work for task in spec.tasks] == [Work.MISCONFIGURED]
    assert not spec.paused_at_first


def test_a_misconfigured_flow_that_nobody_enabled_does_not_start_once_it_is_mended(tmp_path: Path) -> None:
    """Airflow pauses a DAG as the file says only when it creates it, and the ids are the same."""
    file = tmp_path / "srm.properties"
    flows = {
        "a->b": "true",
        "b->a": "false",
        "a->c": None,
        "c->a": " TRUE",
        "b->c": "ture",
        "x->a": "true",
    }
    servers = "".join(f"{alias}.bootstrap.servers = {alias}.example:1\n" for alias in "abc")
    lines = [f"{flow}.tasks.max = many\n" for flow in flows]
    lines += [f"{flow}.enabled = {enabled}\n" for flow, enabled in flows.items() if enabled is not None]
    file.write_text(f"clusters = a, b, c\n{servers}{''.join(lines)}")
    configuration = load_configuration(file)
    specs = {
        str(flow): misconfigured_dag(flow, fault, flow.dag_id, enabled=configuration.says_enabled(flow))
        for flow, fault in configuration.faults.items()
    }
    assert {flow for flow, spec in specs.items() if not spec.paused_at_first} == {"a->b", "c->a", "x->a"}
    assert {flow for flow, spec in specs.items() if spec.schedule is None} == {"b->a"}
    assert set(specs) == set(flows)


def test_a_flow_that_is_refused_for_its_dag_id_leaves_the_other_ones_dag_alone(tmp_path: Path) -> None:
    file = tmp_path / "srm.properties"
    aliases = ("a", "a.b", "a.b.c", "b.c.d", "c.d", "d")
    servers = "".join(f"{alias}.bootstrap.servers = {alias}.example:1\n" for alias in aliases)
    flows = "a.b->c.d.enabled = true\na->b.c.d.enabled = true\na.b.c->d.enabled = true\n"
    file.write_text(f"clusters = {', '.join(aliases)}\nreplication.policy.separator = _\n{servers}{flows}")
    configuration = load_configuration(file)
    assert dag_ids(configuration) == {
        FlowName("a.b", "c.d"): "srm.a.b.c.d",
        FlowName("a", "b.c.d"): "srm.a.b.c.d.misconfigured",
        FlowName("a.b.c", "d"): "srm.a.b.c.d.misconfigured.misconfigured",
    }
