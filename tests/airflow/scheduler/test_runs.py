"""Runs of a flow in a real scheduler, with real brokers and real Spark: copied, reported, paused, failed, recovered."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from srm_common.testing import LocalKafka
from srm_common.testing.airflow_client import wait_until
from srm_common.testing.local_airflow import LocalAirflow
from tests.airflow.mailbox import Mailbox
from tests.airflow.scheduler.scheduled_flow import DAG_ID, GOOD, PASSWORD, TASKS, read, run, settings, write
from tests.airflow.scheduler.statsd import Statsd

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark]


def events(airflow: LocalAirflow, run_id: str) -> list[dict[str, Any]]:
    """Those of the flow's asset that the run has created."""
    found = airflow.get("/api/v2/assets/events", source_dag_id=DAG_ID, source_run_id=run_id)["asset_events"]
    return list(found)


def test_an_enabled_flow_copies_by_itself_and_reports(
    airflow: LocalAirflow, clusters: tuple[LocalKafka, LocalKafka], statsd: Statsd, topic: str
) -> None:
    source, target = clusters
    first = airflow.runs(DAG_ID)[-1]
    assert first["state"] == "success"
    assert first["dag_run_id"].startswith("scheduled__")

    write(source, topic, 1000)
    run_id, state = run(airflow)
    assert state == "success", airflow.task_states(DAG_ID, run_id)
    assert airflow.task_states(DAG_ID, run_id) == dict.fromkeys(TASKS, "success")
    assert read(target, f"a.{topic}") == read(source, topic)

    assert PASSWORD not in "".join(airflow.log(DAG_ID, run_id, task) for task in ("refresh_topics", "replicate"))
    log = airflow.log(DAG_ID, run_id, "refresh_topics")
    assert "a->b.topcs is unknown and has no effect; did you mean a->b.topics?" in log
    log = airflow.log(DAG_ID, run_id, "report_lag")
    assert "a->b: running: the last run copied" in log
    assert any(line.split()[:3] == [topic, "2", "1,000"] for line in log.splitlines()), log

    # Sent, but perhaps not read yet.
    lags = wait_until(lambda: statsd.values("srm.records_lag", flow="a/b", topic=topic), 120, "lag metrics")
    assert set(lags) == {0.0}
    wait_until(lambda: sum(statsd.values("srm.records", flow="a/b", topic=topic)) == 1000, 120, "1000 records")
    wait_until(lambda: statsd.values("srm.flow_ok", flow="a/b")[-1:] == [1.0], 120, "a flow that is well")

    (asset,) = airflow.get("/api/v2/assets", uri_pattern="srm://a/b")["assets"]
    entries = airflow.get(f"/api/v2/assets/{asset['id']}/state-store")["asset_state_store"]
    state_of = {entry["key"]: entry["value"] for entry in entries}
    assert (state_of["status"]["state"], state_of["status"]["run_id"]) == ("running", run_id)
    assert state_of["figures"]["lag"] == 0
    (figures,) = [row for row in state_of["topics"] if row["topic"] == topic]
    assert (figures["records"], figures["lag"], figures["remote_topic"]) == (1000, 0, f"a.{topic}")

    assert len(events(airflow, run_id)) == 1, "other DAGs are told"

    (flow,) = airflow.get("/srm/api/v2/flows")["flows"]
    assert (flow["flow"], flow["dag_id"], flow["paused"]) == ("a->b", DAG_ID, False)
    assert flow["health"]["state"] in GOOD, flow["health"]
    assert (flow["last_run"]["run_id"], flow["last_run"]["lag"]) == (run_id, 0)

    heartbeat = read(target, "heartbeats", partitions=1)[0]
    assert heartbeat, "emit_heartbeat has written"

    installation = airflow.get("/api/v2/variables/srm_installation")["value"]
    remembered = [row[1] for row in read(target, "srm-flow-state.a.internal", partitions=1)[0] if row[1]]
    assert any(f'"id":"{installation}"'.encode() in value for value in remembered)


def test_the_command_line_finds_a_connection_of_airflows_database(
    airflow: LocalAirflow, clusters: tuple[LocalKafka, LocalKafka]
) -> None:
    command = [sys.executable, "-m", "srm_common.cli.main", "config", "explain", "bootstrap.servers", "-o", "json"]
    done = subprocess.run(command, env=airflow.environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = {one["side"]: one for one in json.loads(done.stdout)["explanations"]}
    assert found["target"]["value"] == clusters[1].bootstrap_servers
    assert found["target"]["origin"]["place"] == "Airflow connection kafka_b"


def test_no_secret_and_no_noise_in_the_log_of_the_copy(airflow: LocalAirflow) -> None:
    with settings(airflow, "spark.min.bytes = 0"):
        run_id, state = run(airflow, {"topics": ["nothing-of-this-name"]})
    assert state == "success"
    log = airflow.log(DAG_ID, run_id, "replicate")
    assert "--flow a->b" in log
    chatter = [line for line in log.splitlines() if " INFO " in line and " INFO a->b: " not in line]
    assert chatter == [], "Spark's own"
    assert airflow.task_states(DAG_ID, run_id)["report_lag"] == "success"
    assert events(airflow, run_id) == [], "nothing is new"


def heartbeat(airflow: LocalAirflow) -> str:
    """When the scheduler last said that it lives."""
    return str(airflow.get("/api/v2/monitor/health")["scheduler"]["latest_scheduler_heartbeat"])


def test_a_paused_flow_copies_nothing_until_it_is_unpaused(
    airflow: LocalAirflow, clusters: tuple[LocalKafka, LocalKafka], known_topic: str
) -> None:
    source, target = clusters
    remote = f"a.{known_topic}"
    write(source, known_topic, 10)
    airflow.pause(DAG_ID)
    before = sum(map(len, read(target, remote).values()))
    run_id = airflow.trigger(DAG_ID)
    looks = {heartbeat(airflow)}
    wait_until(lambda: looks.add(heartbeat(airflow)) or len(looks) > 3, 300, "the scheduler to look for work twice")  # type: ignore[func-returns-value]
    assert not any(airflow.task_states(DAG_ID, run_id).values())
    assert sum(map(len, read(target, remote).values())) == before
    airflow.unpause(DAG_ID)
    assert airflow.wait_for_run(DAG_ID, run_id) == "success"
    assert read(target, remote) == read(source, known_topic)


def test_a_cluster_that_is_down_fails_the_run_with_its_name_and_the_next_run_recovers(
    airflow: LocalAirflow, clusters: tuple[LocalKafka, LocalKafka], known_topic: str
) -> None:
    source, target = clusters
    write(source, known_topic, 10)
    target.stop()
    try:
        with settings(airflow, "admin.timeout.ms = 3000"):
            run_id, state = run(airflow)
    finally:
        target.restart()
    assert state == "failed"
    tasks = airflow.tasks(DAG_ID, run_id)
    assert {task_id: task["state"] for task_id, task in tasks.items()} == {
        **dict.fromkeys(TASKS, "failed"),
        "outcome": "upstream_failed",
    }
    assert tasks["refresh_topics"]["try_number"] == 2, "tried again"
    sentence = airflow.log(DAG_ID, run_id, "refresh_topics", 2)
    assert "cluster 'b'" in sentence
    assert target.bootstrap_servers in sentence
    assert tasks["replicate"]["try_number"] == 1, "no Spark job for what is known to be in vain"
    assert "refresh_topics of this run failed: " in airflow.log(DAG_ID, run_id, "replicate")
    (flow,) = airflow.get("/srm/api/v2/flows")["flows"]
    assert flow["health"]["state"] == "failing"
    assert "cluster 'b'" in flow["health"]["cause"]

    run_id, state = run(airflow)
    assert state == "success", airflow.task_states(DAG_ID, run_id)
    assert read(target, f"a.{known_topic}") == read(source, known_topic)
    (flow,) = airflow.get("/srm/api/v2/flows")["flows"]
    assert flow["health"]["state"] in GOOD, flow["health"]


def test_lost_records_fail_the_run_at_once_until_the_operator_says_where_to_start(
    airflow: LocalAirflow, clusters: tuple[LocalKafka, LocalKafka], topic: str, mailbox: Mailbox
) -> None:
    source, target = clusters
    write(source, topic, 100)
    only = {"topics": [topic]}
    assert run(airflow, only)[1] == "success"
    assert not [subject for subject in mailbox.subjects if "disappeared" in subject]
    write(source, topic, 100, first=100)
    # Everything is gone before it was copied, as when retention overtakes a flow.
    whole = {TopicPartition(topic, number, -1) for number in range(2)}
    for future in source.admin().delete_records(list(whole)).values():
        future.result(60)

    run_id, state = run(airflow, only)
    assert state == "failed"
    tasks = airflow.tasks(DAG_ID, run_id)
    assert {task_id for task_id, task in tasks.items() if task["state"] != "success"} == {"replicate", "outcome"}
    assert tasks["replicate"]["try_number"] == 1, "no retry brings the records back"
    assert topic in airflow.log(DAG_ID, run_id, "replicate").rpartition("AirflowFailException")[2]
    (flow,) = airflow.get("/srm/api/v2/flows")["flows"]
    assert flow["health"]["state"] == "lost_data"
    assert topic in flow["health"]["cause"]
    (mail,) = [mail for mail in mailbox.mails if "disappeared" in mail["Subject"]]
    assert "100 records of a->b disappeared at the source before they were copied" in mail["Subject"]
    body = mail.get_body()
    assert body is not None
    assert f"report_lag of {run_id}" in body.get_content()

    write(source, topic, 100, first=200)
    run_id, state = run(airflow, {**only, "start": "earliest"})
    assert state == "success", airflow.task_states(DAG_ID, run_id)
    copied, left = read(target, f"a.{topic}"), read(source, topic)
    assert sum(map(len, copied.values())) == 200
    assert all(rows[len(rows) - len(left[number]) :] == left[number] for number, rows in copied.items())
    log = airflow.log(DAG_ID, run_id, "replicate")
    assert "a->b: 100 records, " in log
    assert "without Spark (spark.min.bytes)" in log
    assert "--flow" not in log, "so little is not worth a Spark job"


def test_figures_are_for_those_who_are_logged_in(airflow: LocalAirflow) -> None:
    import urllib.error
    import urllib.request

    from srm_common.testing.airflow_client import AirflowClient

    for path in ("/srm/api/v2/flows", "/srm/api/v2/flows/a/b"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(airflow.url + path, timeout=120)
        assert refused.value.code == 401
        assert AirflowClient(airflow.url, "watcher", "watcher").get(path)
