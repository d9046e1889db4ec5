"""What a DAG file adds to the DAGs: an owner, a queue, callbacks, tags."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from srm_common.airflow_bridge import flow_dags, move_dags, verify_dags
from srm_common.domain.flow import FlowName
from srm_common.domain.flow.names import flow_of
from srm_common.errors import ConfigError

pytestmark = pytest.mark.airflow


def page_somebody(context: Any) -> None:
    """A callback, which Airflow calls."""


@pytest.fixture
def dags(configuration_file: Callable[[dict[str, str]], Path]) -> Callable[..., dict[str, DAG]]:
    """All that the project has, with these additions."""
    file = configuration_file(
        {
            "clusters": "a, b",
            "a.bootstrap.servers": "a:1",
            "b.bootstrap.servers": "b:1",
            "a->b.enabled": "true",
            "a->b.task.retries": "3",
            "b->a.tasks.max": "many",
            "alarm.notifiers": "chat",
            "alarm.notifier.chat.class": "airflow.sdk.BaseNotifier",
        }
    )

    def load(default_args: Mapping[str, Any] | None = None, tags: Collection[str] = ()) -> dict[str, DAG]:
        found: dict[str, DAG] = {}
        for make in (flow_dags, move_dags, verify_dags):
            found |= make(file, default_args=default_args, tags=tags)
        assert len(found) == 7
        return found

    return load


def test_default_args_reach_every_task(dags: Callable[..., dict[str, DAG]]) -> None:
    added = {
        "owner": "data platform",
        "queue": "kafka",
        "executor": "CeleryExecutor",
        "executor_config": {"pod_override": "small"},
        "on_failure_callback": page_somebody,
    }
    for dag_id, dag in dags(added).items():
        for task in dag.tasks:
            found = (task.owner, task.queue, task.executor, task.executor_config)
            assert found == ("data platform", "kafka", "CeleryExecutor", {"pod_override": "small"}), dag_id
            assert task.on_failure_callback in (page_somebody, [page_somebody]), (dag_id, task.task_id)


def test_what_the_file_sets_counts(dags: Callable[..., dict[str, DAG]]) -> None:
    added = {"retries": 9, "pool": "elsewhere", "execution_timeout": timedelta(seconds=1)}
    replicate = dags(added)["srm.a.b"].get_task("replicate")
    assert (replicate.retries, replicate.pool, replicate.execution_timeout) == (3, "default_pool", timedelta(hours=6))


def test_without_additions_the_owner_is_ours(dags: Callable[..., dict[str, DAG]]) -> None:
    assert {dag.owner for dag in dags().values()} == {"srm"}


@pytest.mark.parametrize("tags", [("team-data", "kafka"), {"kafka", "team-data"}, ["kafka", "team-data", "kafka"]])
def test_tags_are_added_to_those_that_are_there(dags: Callable[..., dict[str, DAG]], tags: Collection[str]) -> None:
    before, after = dags(), dags(tags=tags)
    for dag_id, dag in after.items():
        assert dag.tags == before[dag_id].tags | {"team-data", "kafka"}
    assert flow_of(after["srm.a.b"].tags) == FlowName("a", "b"), "the page still finds it"


def test_one_tag_is_no_list_of_letters(dags: Callable[..., dict[str, DAG]]) -> None:
    assert "team-data" in dags(tags="team-data")["srm.a.b"].tags


@pytest.mark.parametrize("tag", ["srm", "srm:misconfigured", "source:c", "target:c"])
def test_tags_by_which_the_page_finds_flows_are_refused(dags: Callable[..., dict[str, DAG]], tag: str) -> None:
    with pytest.raises(ConfigError, match=f"tag '{tag}'"):
        dags(tags=[tag])


def test_the_same_additions_give_the_same_dags(dags: Callable[..., dict[str, DAG]]) -> None:
    def serialized() -> dict[str, Any]:
        found = dags({"owner": "me", "on_failure_callback": page_somebody}, {"x", "y", "z"})
        return {
            dag_id: json.dumps(DagSerialization.serialize_dag(dag), sort_keys=True) for dag_id, dag in found.items()
        }

    assert serialized() == serialized()
