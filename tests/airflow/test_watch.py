"""The DAG ``srm.watch`` as Airflow parses it, and its task with flows of which one or the other is in trouble. How it
does in a real scheduler is in scheduler/test_watched_flows.py."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference
from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from srm_common.airflow_bridge import alarms, watch_dag
from srm_common.airflow_bridge.watch_dag import WatchOperator, activity_of
from srm_common.airflow_bridge.watch_overdue import WATCH_ASSET, all_notifiers
from srm_common.domain.flow import FlowName
from srm_common.domain.health.watched_flow import FlowActivity
from srm_common.settings_files.configuration import load_configuration
from tests.airflow.mailbox import Mailbox

pytestmark = pytest.mark.airflow

FLOWS = {
    "clusters": "a, b, c",
    "a.bootstrap.servers": "a:1",
    "b.bootstrap.servers": "b:1",
    "c.bootstrap.servers": "c:1",
    "a->b.enabled": "true",
    "b->c.enabled": "true",
    "c->a.enabled": "true",
    "stalled.after.seconds": "100",
}
NOTIFIERS = {
    "alarm.notifiers": "mail",
    "alarm.notifier.mail.class": "airflow.providers.smtp.notifications.smtp.SmtpNotifier",
    "alarm.notifier.mail.smtp_conn_id": "alarms",
    "alarm.notifier.mail.to": "ops@example.com",
    "alarm.notifier.mail.subject": "{{ alarm.text }}",
    "alarm.notifier.mail.html_content": "{{ alarm.text | e }}",
}
Parse = Callable[[dict[str, str]], DagBag]


@pytest.fixture
def parse(
    dags_folder: Path, configuration_file: Callable[[dict[str, str]], Path], monkeypatch: pytest.MonkeyPatch
) -> Parse:
    def load(properties: dict[str, str]) -> DagBag:
        monkeypatch.setenv("SRM_CONFIG", str(configuration_file(properties)))
        bag = DagBag(str(dags_folder / "replicate_flows.py"), load_op_links=False)
        assert bag.import_errors == {}
        return bag

    return load


class State(dict[str, Any]):
    """What a task has of an asset's state. ``fault``: Airflow does not respond."""

    fault: AirflowRuntimeError | None = None

    def get(self, key: str, default: Any = None) -> Any:
        if self.fault is not None:
            raise self.fault
        return super().get(key, default)

    set = dict.__setitem__


def refused(status: int) -> AirflowRuntimeError:
    return AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": status}))


class Tasks:
    """What a task may ask about other DAGs. ``counts``: task instances by state, ``runs``: active ones."""

    def __init__(self, *, paused: bool = False, runs: int = 0, missing: int | None = None, **counts: str) -> None:
        self.paused, self.runs, self.missing, self.counts = paused, runs, missing, counts

    def get_dag(self, dag_id: str) -> Any:
        if self.missing is not None:
            raise refused(self.missing)
        return SimpleNamespace(is_paused=self.paused)

    def get_dr_count(self, dag_id: str, states: list[str]) -> int:
        return self.runs

    def get_ti_count(self, dag_id: str, *, task_ids: list[str] | None = None, states: list[str]) -> int:
        return sum(task_ids is None or self.counts[state] in task_ids for state in states if state in self.counts)


def test_the_dag_is_there_when_somebody_is_to_be_told(parse: Parse) -> None:
    assert "srm.watch" not in parse(FLOWS).dags
    bag = parse({**FLOWS, **NOTIFIERS, "b->c.tasks.max": "many"})
    assert sorted(bag.dags) == ["srm.a.b", "srm.b.c", "srm.c.a", "srm.watch"]
    dag = bag.dags["srm.watch"]
    assert dag.schedule == timedelta(minutes=1)
    assert (dag.catchup, dag.max_active_runs) == (False, 1)
    assert (dag.is_paused_upon_creation, dag.tags, dag.owner) == (False, {"srm-watch"}, "srm")
    assert dag.doc_md
    (task,) = dag.tasks
    assert isinstance(task, WatchOperator)
    assert task.flows == ["a->b", "b->c", "c->a"], "the one that the file stops, too"
    assert isinstance(dag.deadline, list)
    (deadline,) = dag.deadline
    assert (deadline.interval, deadline.reference) == (timedelta(minutes=5), DeadlineReference.DAGRUN_QUEUED_AT)
    assert deadline.callback.path == "srm_common.airflow_bridge.watch_overdue.notify_unwatched"
    assert (task.pool, task.retries, task.execution_timeout) == ("default_pool", 0, timedelta(minutes=10))
    assert task.doc_md


def test_airflow_3_2_gives_deadlines_no_name(parse: Parse, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_name(*, reference: Any, interval: timedelta, callback: Any) -> DeadlineAlert:
        return DeadlineAlert(reference=reference, interval=interval, callback=callback)

    named = parse({**FLOWS, **NOTIFIERS}).dags["srm.watch"].deadline
    monkeypatch.setattr(watch_dag, "DeadlineAlert", without_name)
    unnamed = parse({**FLOWS, **NOTIFIERS}).dags["srm.watch"].deadline
    assert isinstance(named, list)
    assert isinstance(unnamed, list)
    assert [deadline.name for deadline in (*named, *unnamed)] == ["no flow is watched", None]


def test_only_flows_with_a_notifier_are_watched(parse: Parse) -> None:
    mine = {f"a->b.{key}": value for key, value in NOTIFIERS.items()}
    (task,) = parse({**FLOWS, **mine}).dags["srm.watch"].tasks
    assert isinstance(task, WatchOperator)
    assert task.flows == ["a->b"]


@pytest.mark.parametrize(
    ("tasks", "activity"),
    [
        (Tasks(paused=True, running="replicate", runs=1), FlowActivity(paused=True)),
        (Tasks(running="replicate", runs=1), FlowActivity(at_work=True)),
        (Tasks(up_for_retry="refresh_topics", runs=1), FlowActivity(at_work=True)),
        (Tasks(), FlowActivity(waiting="Airflow starts none")),
        (Tasks(runs=1), FlowActivity(waiting="a run is waiting to start")),
        (
            Tasks(scheduled="replicate", runs=1),
            FlowActivity(waiting="task replicate waits for a slot of pool 'srm_b' or of the executor"),
        ),
        (
            Tasks(scheduled="report_lag", runs=1),
            FlowActivity(waiting="task report_lag waits for a slot of pool 'default_pool' or of the executor"),
        ),
        (Tasks(queued="replicate", runs=1), FlowActivity(waiting="task replicate waits for a worker")),
        (Tasks(missing=404), FlowActivity(waiting="this Airflow has no DAG srm.a.b")),
    ],
)
def test_what_a_flow_is_doing(tasks: Tasks, activity: FlowActivity) -> None:
    assert activity_of(FlowName("a", "b"), "srm_b", tasks) == activity


def test_a_flow_that_nobody_enabled_needs_no_dag() -> None:
    found = activity_of(FlowName("a", "b"), "srm_b", Tasks(missing=404), enabled=False)
    assert found == FlowActivity(paused=True)


def test_an_error_in_the_file_is_no_alarm_of_a_flow_that_nobody_enabled(
    parse: Parse, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"a->b.tasks.max": "many", "b->c.tasks.max": "many"}
    task, _, context = watch_task(parse, {**FLOWS, **NOTIFIERS, **wrong, "a->b.enabled": "false"})
    with Mailbox() as mailbox:
        monkeypatch.setenv("AIRFLOW_CONN_ALARMS", mailbox.connection)
        task.execute(context)
    assert [subject.split(" ")[0] for subject in mailbox.subjects] == ["b->c", "no"]


def test_an_airflow_that_does_not_answer_tells_nothing() -> None:
    with pytest.raises(AirflowRuntimeError):
        activity_of(FlowName("a", "b"), "srm_b", Tasks(missing=500))


def watch_task(parse: Parse, properties: dict[str, str]) -> tuple[WatchOperator, dict[str, State], Any]:
    """The task, the states of its flows, each of which had its last good run an hour ago, and its context."""
    (task,) = parse(properties).dags["srm.watch"].tasks
    assert isinstance(task, WatchOperator)
    now_ms = round(time.time() * 1000)
    # Two looks ago nothing was at work, either.
    memory = {"good_run_ended_ms": now_ms - 3_600_000, "told": {}}
    watch = {"quiet_since_ms": now_ms - 300_000, "told": {}}
    states = {flow: State(alarm_memory=memory, watch=watch) for flow in task.flows}
    by_asset = {asset: states[flow] for flow, asset in zip(task.flows, task.assets, strict=True)}
    by_asset[WATCH_ASSET] = State()
    return task, states, {"asset_state_store": by_asset, "ti": Tasks(), "run_id": "r"}


def test_one_flows_trouble_is_not_the_others(parse: Parse, monkeypatch: pytest.MonkeyPatch) -> None:
    task, states, context = watch_task(parse, {**FLOWS, **NOTIFIERS})
    states["a->b"].fault = refused(500)
    with Mailbox() as mailbox:
        monkeypatch.setenv("AIRFLOW_CONN_ALARMS", mailbox.connection)
        for _ in range(2):
            with pytest.raises(AirflowException, match="1 of 3 flows were not watched, the first: a->b: "):
                task.execute(context)
        text = "no run of {} has succeeded for 60 min, although one should every 100 s; Airflow starts none"
        assert mailbox.subjects == [text.format("b->c"), text.format("c->a")]
        states["a->b"].fault = None
        now_ms = round(time.time() * 1000)
        for state in states.values():
            state["alarm_memory"] = {"good_run_ended_ms": now_ms, "told": {}}
        for _ in range(2):
            task.execute(context)
    assert mailbox.subjects[2:] == ["over: " + text.format("b->c"), "over: " + text.format("c->a")]
    # The watch keeps account of its own alone: what the runs remember is theirs.
    assert set(states["b->c"]) == {"alarm_memory", "watch"}
    assert states["b->c"]["alarm_memory"] == {"good_run_ended_ms": now_ms, "told": {}}


def test_of_a_flow_that_the_file_disables_no_run_is_due(parse: Parse, monkeypatch: pytest.MonkeyPatch) -> None:
    task, _, context = watch_task(parse, {**FLOWS, **NOTIFIERS, "a->b.enabled": "false"})
    with Mailbox() as mailbox:
        monkeypatch.setenv("AIRFLOW_CONN_ALARMS", mailbox.connection)
        task.execute(context)
    assert [subject.split()[3] for subject in mailbox.subjects] == ["b->c", "c->a"]


class Hanging:
    """A notifier that never comes back, for the file to name."""

    over = threading.Event()
    asked = 0

    def __call__(self, context: Any) -> None:
        Hanging.asked += 1
        self.over.wait(60)


def test_a_notifier_that_hangs_is_asked_once_and_others_tell_all(parse: Parse, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = {"alarm.notifiers": "slow, mail", "alarm.notifier.slow.class": f"{__name__}.Hanging"}
    task, states, context = watch_task(parse, {**FLOWS, **NOTIFIERS, **slow})
    monkeypatch.setattr(alarms, "PATIENCE_SECONDS", 5.0)
    with Mailbox() as mailbox:
        monkeypatch.setenv("AIRFLOW_CONN_ALARMS", mailbox.connection)
        task.execute(context)
        Hanging.over.set()
    assert len(mailbox.subjects) == 3
    assert Hanging.asked == 1
    assert [set(state["watch"]["told"]) for state in states.values()] == [{"mail"}] * 3


def test_of_the_watch_itself_each_notifier_tells_once(configuration_file: Callable[[dict[str, str]], Path]) -> None:
    other = {"b->c.alarm.notifier.mail.to": "night@example.com", "c->a.tasks.max": "many"}
    notifiers = all_notifiers(load_configuration(configuration_file({**FLOWS, **NOTIFIERS, **other}), connections=None))
    assert [(notifier.name, notifier.arguments["to"]) for notifier in notifiers] == [
        ("mail", "ops@example.com"),
        ("mail of b->c", "night@example.com"),
    ]
