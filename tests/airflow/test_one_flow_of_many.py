"""The tasks of one flow in a file of many: they put their own flow together, and look up the Airflow connections of its
clusters alone."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from srm_common.airflow_bridge import dag_factory, flow_dags
from srm_common.airflow_bridge.replicate_operator import ReplicateOperator
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.settings_files.connections import airflow_connections
from srm_common.settings_files.sources import secret_variables
from srm_common.settings_files.written_flows import WrittenFlows
from srm_common.testing import FakeCluster
from tests.airflow.test_alarms import State

pytestmark = pytest.mark.airflow

_FACTORS = ("offset.storage", "status.storage", "config.storage", "checkpoints.topic", "heartbeats.topic")


class _States(dict[Any, State]):
    def __missing__(self, asset: Any) -> State:
        return self.setdefault(asset, State())


@pytest.mark.parametrize("task_id", ["refresh_topics", "replicate", "sync_checkpoints", "emit_heartbeat", "report_lag"])
def test_a_task_asks_for_its_own_flow(task_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aliases = [f"c{number}" for number in range(6)]
    with FakeCluster() as source, FakeCluster() as target:
        file = tmp_path / "srm.properties"
        lines = [
            f"clusters = {', '.join(aliases)}",
            *(f"{alias}.connection = kafka_{alias}" for alias in aliases),
            *(f"{one}->{other}.enabled = true" for one in aliases for other in aliases if one != other),
            "topics = orders",
            *(f"{key}.replication.factor = 1" for key in (*_FACTORS, "offset-syncs.topic")),
            "replication.factor = 1",
            f"metrics.database.url = sqlite:///{tmp_path}/metrics.db",
        ]
        file.write_text("\n".join(lines))
        source.create_topic("orders", 1)
        for alias, cluster in (("C0", source), ("C1", target)):
            host, _, port = cluster.bootstrap_servers.partition(":")
            monkeypatch.setenv(f"AIRFLOW_CONN_KAFKA_{alias}", json.dumps({"host": host, "port": int(port)}))
        monkeypatch.setenv("AIRFLOW_CONN_SPARK", "spark://local")
        monkeypatch.setenv("AIRFLOW_VAR_SRM_INSTALLATION", "here")
        monkeypatch.setenv("AIRFLOW_VAR_SRM_FILTERS__C0__C1", "{}")
        monkeypatch.setattr(dag_factory, "get_parsing_context", lambda: SimpleNamespace(dag_id="srm.c0.c1"))
        monkeypatch.setattr(ReplicateOperator, "submit", lambda *_: None)
        context: Any = {
            "run_id": "r",
            "params": {},
            "dag_run": SimpleNamespace(run_type="scheduled"),
            "ti": SimpleNamespace(xcom_pull=lambda **_: None, xcom_push=lambda **_: None),
            "asset_state_store": _States(),
        }
        for before in ["refresh_topics", "replicate", "sync_checkpoints"]:
            if before == task_id:
                break
            _run(file, before, context)
        built: list[FlowName] = []
        asked: list[str] = []
        settings = WrittenFlows.settings

        def building(self: WrittenFlows, name: FlowName) -> FlowSettings:
            built.append(name)
            return settings(self, name)

        def asking(name: str) -> str | None:
            asked.append(name)
            return secret_variables.variable(name)

        monkeypatch.setattr(WrittenFlows, "settings", building)
        monkeypatch.setattr(airflow_connections, "variable", asking)
        _run(file, task_id, context)
    assert set(built) <= {FlowName("c0", "c1"), FlowName("c1", "c0")}
    assert FlowName("c0", "c1") in built
    assert set(asked) == {"AIRFLOW_CONN_KAFKA_C0", "AIRFLOW_CONN_KAFKA_C1"}
    # For each time that the task reads the file with connections, however many tasks and flows there are.
    assert len(asked) <= 2


def _run(file: Path, task_id: str, context: Any) -> None:
    (dag,) = flow_dags(file).values()
    task: Any = dag.task_dict[task_id]
    task.pre_execute(context)
    task.execute(context)
