"""The task ``refresh_topics`` of a flow of which one topic cannot be created."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from srm_common.airflow_bridge.failures import UNABLE_KEY
from srm_common.airflow_bridge.operators import RefreshTopicsOperator
from srm_common.testing import FakeCluster

pytestmark = pytest.mark.airflow

_TOPIC_AUTHORIZATION_FAILED = 29


def test_a_change_that_fails_is_final_for_the_run_and_does_not_stop_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_SRM_FILTERS__A__B", "{}")
    pushed: dict[str, str] = {}
    with FakeCluster() as source, FakeCluster() as target:
        for topic in ("orders", "orders-eu"):
            source.create_topic(topic)
        target.refuse("CreateTopics", _TOPIC_AUTHORIZATION_FAILED, when="a.orders-eu")
        file = tmp_path / "srm.properties"
        file.write_text(
            f"clusters = a, b\na.bootstrap.servers = {source.bootstrap_servers}\n"
            f"b.bootstrap.servers = {target.bootstrap_servers}\na->b.enabled = true\na->b.topics = orders.*\n"
            "replication.factor = 1\noffset.storage.replication.factor = 1\nstatus.storage.replication.factor = 1\n"
            "config.storage.replication.factor = 1\nheartbeats.topic.replication.factor = 1\n"
        )
        task = RefreshTopicsOperator(task_id="refresh_topics", flow="a->b", config=str(file))
        context: Any = {
            "run_id": "r",
            "params": {"topics": None, "topics.exclude": None, "run.max.seconds": None, "start": "committed"},
            "ti": SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value})),
        }
        # Airflow retries what is not of this class, and the copy waits for the last attempt.
        with pytest.raises(AirflowFailException, match="failed, the first: FAILED: create topic"):
            task.execute(context)
        assert "a.orders" in target.topics()
        capsys.readouterr()
        with pytest.raises(AirflowFailException, match="1 change failed in an earlier run, to be tried again in"):
            task.execute(context)
        assert "FAILED: create topic a.orders-eu on b" in capsys.readouterr().out
        context["params"]["refresh.at.once"] = True
        with pytest.raises(AirflowFailException, match="failed, the first: FAILED: create topic"):
            task.execute(context)
        # What was not even planned is another matter: that is retried, and the copy does not begin.
        assert UNABLE_KEY not in pushed
        source.go_away()
        file.write_text(file.read_text() + "admin.timeout.ms = 2000\ntopics.exclude = x\n")
        with pytest.raises(AirflowException, match="cluster 'a'") as caught:
            task.execute(context)
        assert not isinstance(caught.value, AirflowFailException)
        assert "cluster 'a'" in pushed[UNABLE_KEY]
