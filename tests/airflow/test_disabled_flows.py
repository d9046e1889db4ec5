"""Flows that nobody has enabled, in Airflow: what is scheduled, what runs, and what is reported of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowRuntimeError, AirflowSkipException, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.utils.types import DagRunType

from srm_common.airflow_bridge.variables import with_opposite
from srm_common.errors import AirflowError
from srm_common.settings_files.configuration import load_configuration
from tests.airflow.test_move_report import PARAMS

pytestmark = pytest.mark.airflow

Parse = Callable[..., DagBag]

TWO_CLUSTERS = {
    "clusters": "a, b",
    "a.bootstrap.servers": "a-1.example:9092",
    "b.bootstrap.servers": "b-1.example:9092",
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
}


@pytest.fixture
def parse(dags_folder: Path, configuration_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Parse:
    def load(**properties: str) -> DagBag:
        path = configuration_file({**TWO_CLUSTERS, **properties})
        monkeypatch.setenv("SRM_CONFIG", str(path))
        return DagBag(str(dags_folder / "replicate_flows.py"), load_op_links=False)

    return load


def test_no_run_is_scheduled_of_a_flow_that_the_file_disables(parse: Parse) -> None:
    dags = parse(**{"a->b.enabled": "false", "b->a.topics": "x"}).dags
    assert [dags[dag_id].schedule for dag_id in ("srm.a.b", "srm.b.a")] == [None, timedelta(seconds=30)]
    assert [dags[dag_id].is_paused_upon_creation for dag_id in ("srm.a.b", "srm.b.a")] == [True, True]
    assert "the file disables a->b (a->b.enabled = false), so no run of it is scheduled" in (
        dags["srm.a.b"].doc_md or ""
    )


def test_an_error_in_the_file_does_not_start_a_flow_that_nobody_enabled(parse: Parse) -> None:
    dags = parse(**{"a->b.enabled": "true", "a->b.tasks.max": "many", "b->a.tasks.max": "many"}).dags
    assert [dags[dag_id].is_paused_upon_creation for dag_id in ("srm.a.b", "srm.b.a")] == [False, True]


def tasks(bag: DagBag, dag_id: str) -> list[BaseOperator]:
    found: list[Any] = [task for task in bag.dags[dag_id].tasks if task.task_id != "outcome"]
    return found


def test_a_run_that_was_scheduled_before_the_file_disabled_its_flow_skips(parse: Parse) -> None:
    """Airflow parses a changed file after half a minute."""
    before = parse(**{"a->b.enabled": "true"})

    def skips(run_type: str | DagRunType) -> set[str]:
        skipped = set()
        for task in tasks(before, "srm.a.b"):
            context: Any = {"dag_run": SimpleNamespace(run_type=run_type), "asset_state_store": {}}
            try:
                task.pre_execute(context)
            except AirflowSkipException:
                skipped.add(task.task_id)
        return skipped

    assert skips(DagRunType.SCHEDULED) == set()
    parse(**{"a->b.topics": "x"})
    assert skips(DagRunType.SCHEDULED) == set(), "whoever unpaused its DAG decides"
    parse(**{"a->b.enabled": "false"})
    assert skips(DagRunType.SCHEDULED) == skips("scheduled") == {task.task_id for task in tasks(before, "srm.a.b")}
    assert skips(DagRunType.MANUAL) == set()
    parse(**{"a->b.enabled": "false", "a->b.tasks.max": "many"})
    assert skips(DagRunType.SCHEDULED) == set(), "the tasks say what is wrong"


def test_a_move_says_that_the_flow_it_resumes_has_no_schedule(
    dags_folder: Path, configuration_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a cluster, which may be away meanwhile: the flow is resumed already."""
    monkeypatch.setenv("SRM_CONFIG", str(configuration_file({**TWO_CLUSTERS, "a->b.enabled": "false"})))
    monkeypatch.setenv("AIRFLOW_CONN_SRM_AIRFLOW", '{"conn_type": "http"}')
    resume: Any = (
        DagBag(str(dags_folder / "move_groups.py"), load_op_links=False).dags["srm.failback"].get_task("resume")
    )
    task = SimpleNamespace(get_dag=lambda dag_id: SimpleNamespace(is_paused=False))
    (said,) = resume.execute({"ti": task, "params": PARAMS})
    assert said.startswith("srm.a.b is not paused, but the file disables a->b (a->b.enabled = false)")


@pytest.mark.parametrize(
    ("says", "answer", "runs"),
    [
        ({"enabled": "true"}, None, True),
        ({"enabled": "false"}, False, False),
        ({"topics": "x"}, True, False),
        ({"topics": "x"}, False, True),
        ({"topics": "x"}, 404, False),
    ],
)
def test_the_flow_in_the_other_direction_copies_when_its_dag_does(
    monkeypatch: pytest.MonkeyPatch,
    configuration_file: Callable[..., Path],
    says: dict[str, str],
    answer: bool | int | None,
    runs: bool,
) -> None:
    """Else a flow that keeps names would copy back what the other one, which somebody unpaused, has written."""
    answer_for_the_dag(monkeypatch, answer)
    more = {f"b->a.{key}": value for key, value in says.items()}
    configuration = load_configuration(configuration_file({**TWO_CLUSTERS, "a->b.enabled": "true", **more}))
    flow = with_opposite(configuration.flow("a->b"), configuration)
    assert [str(one.name) for one in flow.graph] == ["a->b", *(["b->a"] if runs else [])]


def test_an_airflow_that_does_not_say_whether_it_copies_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, configuration_file: Callable[..., Path]
) -> None:
    answer_for_the_dag(monkeypatch, 500)
    configuration = load_configuration(configuration_file({**TWO_CLUSTERS, "a->b.enabled": "true", "b->a.topics": "x"}))
    with pytest.raises(AirflowError, match=r"does not say whether srm\.b\.a is paused"):
        with_opposite(configuration.flow("a->b"), configuration)


def answer_for_the_dag(monkeypatch: pytest.MonkeyPatch, answer: bool | int | None) -> None:
    """Whether it is paused, or the status of an error."""
    from airflow.sdk.execution_time import task_runner

    def get_dag(dag_id: str) -> Any:
        assert dag_id == "srm.b.a"
        assert answer is not None, "the file says it"
        if isinstance(answer, bool):
            return SimpleNamespace(is_paused=answer)
        raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": answer}))

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", None, raising=False)
    monkeypatch.setattr(task_runner.RuntimeTaskInstance, "get_dag", staticmethod(get_dag))
