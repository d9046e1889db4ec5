"""Filters that are edited while the flow runs, in Airflow's variable."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator

import pytest

from srm_common.errors import LocalAirflowError
from srm_common.testing import LocalKafka
from srm_common.testing.local_airflow import LocalAirflow
from tests.airflow.scheduler.scheduled_flow import DAG_ID, VARIABLE, read, run, write

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def srm_control(
    airflow: LocalAirflow,
    clusters: tuple[LocalKafka, LocalKafka],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Callable[..., str]]:
    """Runs ``srm-control <verb> --flow "a->b" <words>`` against Airflow's REST API; gives what it prints. The lists are
    as in the properties file before and after."""
    from srm_common.cli.main import run as run_cli

    for name in [name for name in os.environ if name.startswith("AIRFLOW")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SRM_CONFIG", airflow.environment["SRM_CONFIG"])
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": clusters[1].bootstrap_servers}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_B", json.dumps(connection))
    monkeypatch.setenv("SRM_AIRFLOW_URL", airflow.url)
    monkeypatch.setenv("SRM_AIRFLOW_USER", "admin")
    monkeypatch.setenv("SRM_AIRFLOW_PASSWORD", "admin")

    def call(verb: str, *words: str, code: int = 0) -> str:
        capsys.readouterr()
        done = run_cli([verb, "--flow", "a->b", *words])
        captured = capsys.readouterr()
        assert done == code, captured
        return captured.err if code else captured.out

    yield call
    with contextlib.suppress(LocalAirflowError):
        # Deleting it would leave the lists in effect.
        airflow.patch(f"/api/v2/variables/{VARIABLE}", {"key": VARIABLE, "value": "{}"})


def topics_of(kafka: LocalKafka) -> set[str]:
    return set(kafka.admin().list_topics(timeout=60).topics)


def test_an_edit_of_the_filters_acts_at_the_next_run_and_is_remembered(
    airflow: LocalAirflow,
    clusters: tuple[LocalKafka, LocalKafka],
    topic: str,
    srm_control: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = clusters
    later = f"{topic}-later"
    source.create_topic(later, partitions=2)
    write(source, topic, 10)
    write(source, later, 10)

    said = srm_control("topics", "--add-exclude", f"{later},other", "--now")
    assert f"Airflow variable {VARIABLE} at {airflow.url}" in said
    assert f"Stops:  {later}" in said
    run_id = said.partition("tarted run ")[2].split()[0]
    assert airflow.wait_for_run(DAG_ID, run_id) == "success", airflow.task_states(DAG_ID, run_id)
    assert read(target, f"a.{topic}") == read(source, topic)
    assert f"a.{later}" not in topics_of(target)
    assert f"topics.exclude from Airflow variable {VARIABLE}" in airflow.log(DAG_ID, run_id, "replicate")

    # As on Airflow's own page.
    airflow.patch(f"/api/v2/variables/{VARIABLE}", {"key": VARIABLE, "value": '{"topics.exclude": ["other"]}'})
    run_id, state = run(airflow)
    assert state == "success", airflow.task_states(DAG_ID, run_id)
    assert read(target, f"a.{later}") == read(source, later)

    edits = json.loads(srm_control("topics", "--history", "--output", "json"))["edits"]
    assert "as Airflow user admin" in edits[-2]["who"]
    assert (edits[-1]["who"], edits[-1]["note"]) == (None, "found in the Airflow variable")
    assert edits[-1]["before"]["topics.exclude"][-2:] == [later, "other"]
    assert edits[-1]["after"] == {"topics.exclude": ["other"]}

    monkeypatch.setenv("SRM_AIRFLOW_USER", "watcher")
    monkeypatch.setenv("SRM_AIRFLOW_PASSWORD", "watcher")
    assert "denies this to user 'watcher'" in srm_control("topics", "--list", code=3)
    monkeypatch.setenv("SRM_AIRFLOW_PASSWORD", "wrong")
    assert "refuses the login of 'watcher'" in srm_control("topics", "--list", code=3)


def test_a_variable_that_cannot_be_read_keeps_the_last_good_filters_and_says_so(
    airflow: LocalAirflow,
    clusters: tuple[LocalKafka, LocalKafka],
    known_topic: str,
    name: str,
    srm_control: Callable[..., str],
) -> None:
    source, target = clusters
    left_out = f"{name}-left-out"
    source.create_topic(left_out, partitions=2)
    write(source, known_topic, 10)
    srm_control("topics", "--add-exclude", left_out)
    airflow.patch(f"/api/v2/variables/{VARIABLE}", {"key": VARIABLE, "value": '{"topics.exclude": ['})

    run_id, state = run(airflow)
    assert state == "success", airflow.task_states(DAG_ID, run_id)
    assert read(target, f"a.{known_topic}") == read(source, known_topic)
    assert f"a.{left_out}" not in topics_of(target)
    sentence = f"Airflow variable {VARIABLE} cannot be used: this is not JSON"
    for task in ("refresh_topics", "replicate", "sync_checkpoints", "report_lag"):
        assert sentence in airflow.log(DAG_ID, run_id, task)
    (flow,) = airflow.get("/srm/api/v2/flows")["flows"]
    assert flow["last_run"]["ok"]
    assert any(sentence in warning for warning in flow["warnings"])
    assert sentence in srm_control("status")

    assert "cannot be edited, since they cannot be read" in srm_control("topics", "--add", "x", code=2)
    assert "edited in" in srm_control("topics", "--reset")
    assert srm_control("topics", "--list").splitlines()[:2] == ["Current whitelist:", ".*"]


def test_the_filters_may_be_edited_where_airflow_runs(
    airflow: LocalAirflow, srm_control: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SRM_AIRFLOW_URL")
    for name, value in airflow.environment.items():
        if name.startswith("AIRFLOW"):
            monkeypatch.setenv(name, value)
    said = srm_control("groups", "--add", "g1", "--now")
    assert f"Airflow variable {VARIABLE} in {airflow.directory}" in said
    assert json.loads(airflow.get(f"/api/v2/variables/{VARIABLE}")["value"]) == {"groups": [".*", "g1"]}
    run_id = said.partition("tarted run ")[2].split()[0]
    assert airflow.wait_for_run(DAG_ID, run_id) == "success", airflow.task_states(DAG_ID, run_id)
