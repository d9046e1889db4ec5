"""The scheduler as the API server has it, on a real Airflow database with the project's own DAGs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from srm_common.domain.flow import FlowName
from srm_common.domain.monitoring.schedule import ScheduledRun
from srm_common.errors import AirflowError
from srm_common.rest.ports import Right

if TYPE_CHECKING:
    from srm_common.airflow_bridge.web.airflow_scheduler import AirflowScheduler

pytestmark = pytest.mark.airflow

FLOW = FlowName("us-east", "b")


class Somebody:
    name = "olga"

    def may(self, right: Right, flow: FlowName | None = None) -> bool:
        return True

    def readable(self, flows: object) -> set[FlowName]:
        return set()


@pytest.fixture(scope="module", autouse=True)
def _database(tmp_path_factory: pytest.TempPathFactory, dags_folder: Path, airflow_database: None) -> Iterator[None]:
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    file = tmp_path_factory.mktemp("scheduler") / "srm.properties"
    file.write_text(
        "clusters = us-east, b\nus-east.bootstrap.servers = localhost:1\nb.bootstrap.servers = localhost:2\n"
        "us-east->b.enabled = true\nb->us-east.enabled = true\nb->us-east.tasks.max = many\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SRM_CONFIG", str(file))
        with create_session() as session:
            session.merge(DagBundleModel(name="dags-folder"))
        bag = DagBag(str(dags_folder), bundle_name="dags-folder")
        assert bag.import_errors == {}
        sync_bag_to_db(bag, "dags-folder", None)
        yield


@pytest.fixture
def scheduler() -> AirflowScheduler:
    from srm_common.airflow_bridge.web.airflow_scheduler import AirflowScheduler

    return AirflowScheduler()


def audit(event: str) -> list[tuple[str, str]]:
    """Who did it, and to which DAG."""
    from airflow.models.log import Log
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        rows = session.execute(select(Log.owner, Log.dag_id).where(Log.event == event).order_by(Log.id))
        return [(str(row.owner), str(row.dag_id)) for row in rows]


def test_flows_are_the_dags_of_flows(scheduler: AirflowScheduler) -> None:
    broken, good = scheduler.flows()
    assert (good.flow, good.dag_id, good.misconfigured) == (FLOW, "srm.us-east.b", None)
    assert good.dag_url == "/dags/srm.us-east.b"
    assert good.next_run_ms is not None
    assert broken.flow == FlowName("b", "us-east")
    assert broken.misconfigured is not None
    assert "tasks.max" in broken.misconfigured


def test_a_flow_is_paused_and_the_audit_log_says_by_whom(scheduler: AirflowScheduler) -> None:
    scheduler.set_paused(FLOW, True, Somebody())
    assert [flow.paused for flow in scheduler.flows() if flow.flow == FLOW] == [True]
    scheduler.set_paused(FLOW, False, Somebody())
    assert [flow.paused for flow in scheduler.flows() if flow.flow == FLOW] == [False]
    assert audit("pause") == audit("unpause") == [("olga", "srm.us-east.b")]


def test_a_run_is_started_and_looked_at(scheduler: AirflowScheduler) -> None:
    started = scheduler.trigger("srm.us-east.b", {"run.max.seconds": 5}, "why not", Somebody())
    assert (started.state, started.conf) == ("queued", {"run.max.seconds": 5})
    run = scheduler.run("srm.us-east.b", started.run_id)
    assert run is not None
    assert dict(run.tasks) == dict.fromkeys(
        ("emit_heartbeat", "outcome", "refresh_topics", "replicate", "report_lag", "sync_checkpoints")
    )
    # A run id holds a plus sign and colons.
    assert run.url == f"/dags/srm.us-east.b/runs/{started.run_id.replace(':', '%3A').replace('+', '%2B')}"
    assert scheduler.results("srm.us-east.b", started.run_id) == {}
    assert scheduler.run("srm.us-east.b", "another") is None
    assert audit("trigger_dag_run") == [("olga", "srm.us-east.b")]


def test_moves_of_the_same_millisecond_are_runs_of_their_own(
    scheduler: AirflowScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    from srm_common.airflow_bridge.web import airflow_scheduler

    moment = datetime.now(UTC)

    class Still(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(moment.timestamp(), tz)

    monkeypatch.setattr(airflow_scheduler, "datetime", Still)
    conf = {"flow": str(FLOW), "mode": "disaster"}
    runs = [scheduler.trigger("srm.failover", {**conf, "groups": [group]}, "", Somebody()) for group in ("a", "b")]
    assert [run.conf["groups"] for run in runs] == [["a"], ["b"]]
    assert len({run.run_id for run in runs}) == 2


def test_a_run_with_a_parameter_that_does_not_fit_is_refused(scheduler: AirflowScheduler) -> None:
    wrong = {"flow": str(FLOW), "mode": "hopeful"}
    with pytest.raises(
        AirflowError, match=r"could not start a run of srm\.failover: .*'hopeful' is not one of"
    ) as caught:
        scheduler.trigger("srm.failover", wrong, "", Somebody())
    assert "\n" not in str(caught.value)


def test_a_backfill_of_a_flow_is_refused() -> None:
    from datetime import UTC, datetime, timedelta

    from airflow.models.backfill import _create_backfill

    begin = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(Exception, match=r"'srm\.us-east\.b' does not allow backfill runs"):
        _create_backfill(
            dag_id="srm.us-east.b",
            from_date=begin,
            to_date=begin + timedelta(minutes=10),
            max_active_runs=2,
            reverse=False,
            dag_run_conf=None,
            triggering_user_name=None,
        )


def test_a_flow_without_a_dag_is_named(scheduler: AirflowScheduler) -> None:
    with pytest.raises(AirflowError, match=r"no DAG srm\.x\.y"):
        scheduler.set_paused(FlowName("x", "y"), True, Somebody())
    with pytest.raises(AirflowError, match=r"no DAG srm\.x\.y"):
        scheduler.trigger("srm.x.y", {}, "", Somebody())


def test_a_variable_that_cannot_be_read_is_not_taken_for_none(
    scheduler: AirflowScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.models.variable import Variable
    from airflow.sdk.exceptions import AirflowSecretsBackendAccessDenied
    from airflow.secrets.metastore import MetastoreBackend
    from sqlalchemy.exc import OperationalError
    from sqlalchemy.orm import Session

    scheduler.set_variable("srm_filters__p__q", '{"topics": []}', "", Somebody())

    def broken(*_: object, **__: object) -> None:
        raise OperationalError("SELECT", {}, Exception("server closed the connection"))

    with monkeypatch.context() as outage:
        # Airflow logs this, and says that there is none.
        outage.setattr(MetastoreBackend, "get_variable", broken)
        assert Variable.get_variable_from_secrets("srm_filters__p__q") is None
        with pytest.raises(AirflowError, match="srm_filters__p__q exists but cannot be read"):
            scheduler.variable("srm_filters__p__q")
        assert scheduler.variable("srm_filters__not__there") is None

        def denied(*_: object, **__: object) -> None:
            raise AirflowSecretsBackendAccessDenied("not for this team")

        outage.setattr(MetastoreBackend, "get_variable", denied)
        with pytest.raises(AirflowError, match="srm_filters__p__q cannot be read: not for this team"):
            scheduler.variable("srm_filters__p__q")
        outage.setattr(MetastoreBackend, "get_variable", broken)
        outage.setattr(Session, "scalar", broken)
        with pytest.raises(AirflowError, match=r"Airflow's database does not respond: .*server closed the connection"):
            scheduler.variable("srm_filters__p__q")


def test_a_variable_is_read_as_tasks_find_it(scheduler: AirflowScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    assert scheduler.variable("srm_filters__us-east__b") is None
    scheduler.set_variable("srm_filters__us-east__b", '{"topics": []}', "what is copied", Somebody())
    assert scheduler.variable("srm_filters__us-east__b") == '{"topics": []}'
    scheduler.set_variable("srm_filters__us-east__b", "{}", "what is copied", Somebody())
    assert scheduler.variable("srm_filters__us-east__b") == "{}"
    monkeypatch.setitem(os.environ, "AIRFLOW_VAR_SRM_FILTERS__X__Y", "[]")
    assert scheduler.variable("srm_filters__x__y") == "[]"
    with pytest.raises(AirflowError, match="AIRFLOW_VAR_SRM_FILTERS__X__Y"):
        scheduler.set_variable("srm_filters__x__y", "{}", "", Somebody())


def test_a_task_that_waits_for_a_pool_that_is_not_there_is_told(scheduler: AirflowScheduler) -> None:
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import update

    started = scheduler.trigger("srm.us-east.b", {}, "", Somebody())
    mine = (TaskInstance.run_id == started.run_id, TaskInstance.task_id == "replicate")
    with create_session() as session:
        session.execute(update(TaskInstance).where(*mine).values(state="scheduled", pool="srm_b"))
    (told,) = [flow.misconfigured for flow in scheduler.flows() if flow.flow == FLOW]
    assert told == (
        "task replicate waits for pool 'srm_b', which Airflow does not have (airflow.pool); create it with: "
        "airflow pools set srm_b 1 'Spark jobs'"
    )
    with create_session() as session:
        session.execute(update(TaskInstance).where(*mine).values(pool="default_pool"))
    assert [flow.misconfigured for flow in scheduler.flows() if flow.flow == FLOW] == [None]


@pytest.mark.parametrize(
    ("column", "sentence"), [("is_stale", "this Airflow has no DAG"), ("has_import_errors", "has import errors")]
)
def test_no_run_is_started_that_would_stay_queued(scheduler: AirflowScheduler, column: str, sentence: str) -> None:
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import func, select, update

    def change(**values: bool) -> int:
        """How many runs of the DAG there are."""
        with create_session() as session:
            if values:
                session.execute(update(DagModel).where(DagModel.dag_id == "srm.failback").values(**values))
            runs = select(func.count()).select_from(DagRun).where(DagRun.dag_id == "srm.failback")
            return int(session.scalar(runs) or 0)

    before = change(**{column: True})
    try:
        for ask in (lambda: scheduler.is_paused("srm.failback"), lambda: _failback(scheduler)):
            with pytest.raises(AirflowError, match=sentence):
                ask()
    finally:
        assert change(**{column: False}) == before
    _failback(scheduler)
    assert change() == before + 1


def _failback(scheduler: AirflowScheduler) -> ScheduledRun:
    conf = {"flow": str(FLOW), "mode": "controlled", "dry_run": True, "approved": True, "wait_seconds": 1}
    return scheduler.trigger("srm.failback", conf, "", Somebody())


@pytest.mark.parametrize("gone", [False, True])
def test_results_that_airflow_keeps_in_an_object_store(
    scheduler: AirflowScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    from airflow.models.xcom import XComModel
    from airflow.providers.common.io.xcom.backend import XComObjectStorageBackend
    from airflow.utils.session import create_session

    from srm_common.airflow_bridge.web import airflow_scheduler

    monkeypatch.setenv("AIRFLOW__COMMON_IO__XCOM_OBJECTSTORAGE_PATH", f"file://{tmp_path}")
    monkeypatch.setenv("AIRFLOW__COMMON_IO__XCOM_OBJECTSTORAGE_THRESHOLD", "0")
    monkeypatch.setattr(airflow_scheduler, "XCom", XComObjectStorageBackend)
    positions = [{"group": "g", "topic": "t", "partition": 0, "applied": 5}]
    run = _failback(scheduler)
    where: dict[str, Any] = {"dag_id": "srm.failback", "task_id": "translate", "run_id": run.run_id}
    stored = XComObjectStorageBackend.serialize_value(positions, key="positions", **where)
    assert "file://" in str(stored)
    with create_session() as session:
        XComModel.set(key="positions", value=stored, session=session, **where)
    if gone:

        def refuse(kept: object) -> object:
            raise PermissionError("no access to the bucket")

        monkeypatch.setattr(XComObjectStorageBackend, "deserialize_value", refuse)
        with pytest.raises(
            AirflowError,
            match=r"XComObjectStorageBackend does not return what task translate of run srm__.* left: no access to the "
            "bucket; the task's log has it",
        ):
            scheduler.results("srm.failback", run.run_id, "positions")
        return
    assert scheduler.results("srm.failback", run.run_id, "positions") == {"translate": positions}


def test_a_paused_dag_is_told(scheduler: AirflowScheduler) -> None:
    scheduler.set_paused(FLOW, True, Somebody())
    assert scheduler.is_paused("srm.us-east.b")
    scheduler.set_paused(FLOW, False, Somebody())
    assert not scheduler.is_paused("srm.us-east.b")
    with pytest.raises(AirflowError, match=r"no DAG srm\.other"):
        scheduler.is_paused("srm.other")


def test_a_run_of_which_no_task_is_at_work_waits_and_tells_for_what(scheduler: AirflowScheduler) -> None:
    from datetime import UTC, datetime

    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import update

    started = scheduler.trigger("srm.us-east.b", {}, "", Somebody())
    then = datetime(2026, 1, 1, tzinfo=UTC)

    def tasks(**states: str) -> tuple[int | None, str | None]:
        """With these tasks in these states; since when the flow waits, and for what."""
        with create_session() as session:
            session.execute(update(DagRun).where(DagRun.run_id == started.run_id).values(state="running"))
            for task, state in states.items():
                mine = (TaskInstance.run_id == started.run_id, TaskInstance.task_id == task)
                times = {"scheduled_dttm": then, "queued_dttm": then}
                session.execute(update(TaskInstance).where(*mine).values(state=state, **times))
        (flow,) = [scheduled_flow for scheduled_flow in scheduler.flows() if scheduled_flow.flow == FLOW]
        return flow.waiting_since_ms, flow.waiting

    since = int(then.timestamp() * 1000)
    assert tasks() == (None, None)
    slot = "task replicate waits for a slot of pool 'default_pool' or of the executor"
    assert tasks(replicate="scheduled") == (since, slot)
    assert tasks(replicate="queued") == (since, "task replicate waits for a worker")
    assert tasks(emit_heartbeat="running") == (None, None)
    assert tasks(emit_heartbeat="success") == (since, "task replicate waits for a worker")
    with create_session() as session:
        session.execute(update(DagRun).where(DagRun.run_id == started.run_id).values(state="failed"))
