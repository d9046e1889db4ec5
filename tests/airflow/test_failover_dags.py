"""The DAGs that move consumer groups: as Airflow parses them, and in a real scheduler with real brokers and Spark.

How groups come over a dead cluster and back is told by the demo of a failover, in test_failover_demo.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from fastapi.testclient import TestClient

from demo.move_run import MoveRun
from srm_common.airflow_rest import AirflowRest
from srm_common.errors import AirflowError
from srm_common.rest.app import AppContext, create_app
from srm_common.rest.serving.logins import OpenAccess
from srm_common.rest.serving.remote_scheduler import RemoteScheduler
from srm_common.rest.serving.watched_files import WatchedConfiguration
from srm_common.store.metrics_store import MetricsStore
from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.testing.airflow_client import wait_until
from srm_common.testing.local_airflow import LocalAirflow
from tests.kafka.flows import read
from tests.kafka.group_commits import commit

MOVES = ("srm.failover", "srm.failback", "srm.switch_direction")
pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark]

# ---- as Airflow parses them


@pytest.fixture
def dags(
    dags_folder: Path, configuration_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> Callable[[dict[str, str]], dict[str, Any]]:
    from airflow.dag_processing.dagbag import DagBag

    def load(properties: dict[str, str]) -> dict[str, Any]:
        monkeypatch.setenv("SRM_CONFIG", str(configuration_file(properties)))
        bag = DagBag(str(dags_folder / "move_groups.py"), load_op_links=False)
        assert bag.import_errors == {}
        return dict(bag.dags)

    return load


def two_clusters(**more: str) -> dict[str, str]:
    return {"clusters": "a, b", "a.bootstrap.servers": "a:9092", "b.bootstrap.servers": "b:9092", **more}


def test_each_step_is_a_task(dags: Callable[[dict[str, str]], dict[str, Any]]) -> None:
    found = dags(two_clusters(**{"a->b.enabled": "true"}))
    assert sorted(found) == sorted(MOVES)
    chain = ["check", "confirm", "last_pass", "stop", "drain", "translate", "apply", "verify", "report", "outcome"]
    assert [task.task_id for task in found["srm.failover"].tasks] == chain
    further = {"srm.failback": {"resume"}, "srm.switch_direction": {"turn", "resume"}}
    for dag_id, tasks in further.items():
        assert {task.task_id for task in found[dag_id].tasks} - set(chain) == tasks
    for dag in found.values():
        assert (dag.schedule, dag.is_paused_upon_creation, dag.tags) == (None, False, {"srm-move"})
        assert dag.get_task("report").trigger_rule == "all_done"
        assert dag.get_task("outcome").upstream_task_ids == {task.task_id for task in dag.tasks} - {"outcome"}
        assert all(task.doc_md for task in dag.tasks)
        assert dag.max_active_runs == 16


def test_a_choice_between_flows_is_asked_for(dags: Callable[[dict[str, str]], dict[str, Any]]) -> None:
    one = dags(two_clusters(**{"a->b.enabled": "true"}))["srm.failover"].params
    assert (one["flow"], one["mode"], one["groups"], one["dry_run"]) == ("a->b", "disaster", None, False)
    two = dags(two_clusters(**{"a->b.enabled": "true", "b->a.enabled": "true"}))["srm.failover"].params
    with pytest.raises(Exception, match="No value passed"):
        two.validate()
    two["flow"] = "b->a"
    with pytest.raises(Exception, match="b->c"):
        two["flow"] = "b->c"


def test_a_file_without_flows_has_no_moves(dags: Callable[[dict[str, str]], dict[str, Any]]) -> None:
    assert dags(two_clusters()) == {}


# ---- in a real scheduler

CONFIGURATION = """\
clusters = a, b, old, new
a.bootstrap.servers = {a}
b.bootstrap.servers = {b}
old.bootstrap.servers = {old}
new.bootstrap.servers = {new}
a->b.enabled = true
b->a.enabled = true
a->b.topics = orders, returns
b->a.topics = orders
old->new.enabled = {there}
new->old.enabled = {back}
old->new.topics = invoices
new->old.topics = invoices
old->new.replication.policy.class = IdentityReplicationPolicy
new->old.replication.policy.class = IdentityReplicationPolicy
new->old.start.positions = .*=opposite
# The tests say when.
schedule.interval.seconds = 86400
task.retries = 2
task.retry.delay.seconds = 2
replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
heartbeats.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
"""


class Site:
    """Four clusters, an Airflow, and the file that describes them; a and b under one policy, old and new under another:
    a flow's target tells clusters apart by their aliases."""

    def __init__(self, clusters: dict[str, LocalKafka], folder: Path) -> None:
        self.a, self.b, self.old, self.new = (clusters[alias] for alias in ("a", "b", "old", "new"))
        self.folder = folder
        self.file = folder / "srm.properties"
        self._addresses = {alias: cluster.bootstrap_servers for alias, cluster in clusters.items()}
        self.turned(False)

    def turned(self, turned: bool) -> None:
        """The direction of the flow under unchanged names."""
        words = {"there": str(not turned).lower(), "back": str(turned).lower()}
        self.file.write_text(CONFIGURATION.format(**self._addresses, **words))


@pytest.fixture(scope="module")
def site(
    broker_jvm: BrokerJvm, source_kafka: LocalKafka, target_kafka: LocalKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """With something to copy in the flows' first runs."""
    with LocalKafka(name="old", jvm=broker_jvm) as old, LocalKafka(name="new", jvm=broker_jvm) as new:
        for cluster, topic, count in ((source_kafka, "orders", 100), (old, "invoices", 50)):
            cluster.create_topic(topic)
            write(cluster, topic, count)
        clusters = {"a": source_kafka, "b": target_kafka, "old": old, "new": new}
        yield Site(clusters, tmp_path_factory.mktemp("moves"))


@pytest.fixture(scope="module")
def airflow(site: Site, dags_folder: Path) -> Iterator[LocalAirflow]:
    environment = {
        "SRM_CONFIG": str(site.file),
        "AIRFLOW_CONN_SPARK": json.dumps({"conn_type": "spark", "host": "local[2,4]"}),
    }
    # In Airflow's database, so that a test can take it away.
    login = {"conn_type": "http", "login": "admin", "password": "admin"}
    with LocalAirflow(
        dags_folder=dags_folder,
        environment=environment,
        directory=site.folder / "airflow",
        connections={"srm_airflow": login},
        # What the tests change in the file is read by tasks; no DAG differs for it.
        refresh_seconds=600,
    ) as running:
        for dag_id in (*MOVES, "srm.a.b", "srm.b.a", "srm.old.new", "srm.new.old"):
            running.wait_for_dag(dag_id)
        yield running


def write(kafka: LocalKafka, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, value=f"{number}", partition=0)
    assert producer.flush(60) == 0


def committed(kafka: LocalKafka, group: str) -> dict[str, int]:
    """Where a group stands, by topic; partition 0 of each."""
    future = kafka.admin().list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
    return {
        partition.topic: partition.offset
        for partition in future.result(60).topic_partitions or ()
        if partition.offset >= 0
    }


class Member:
    """Somebody who reads with a group, inside the block."""

    def __init__(self, kafka: LocalKafka, group: str, topic: str) -> None:
        settings: dict[str, str | bool] = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group}
        self._consumer = Consumer(settings | {"enable.auto.commit": False})
        self._consumer.subscribe([topic])

    def __enter__(self) -> None:
        wait_until(lambda: self._consumer.poll(1) is not None, 300, "a record for the group")

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


def count(kafka: LocalKafka, topic: str) -> int:
    """Records of partition 0; 0 while there is no such topic."""
    return len(read(kafka, topic)) if topic in kafka.admin().list_topics(timeout=60).topics else 0


def end_of(kafka: LocalKafka, topic: str) -> int:
    """The offset behind partition 0; transactions' markers count, too."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "looker"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)[1]
    finally:
        consumer.close()


def end_of_run(airflow: LocalAirflow, run: MoveRun) -> str:
    return airflow.wait_for_run(run.dag_id, run.run_id, 600)


def said(run: MoveRun, *tasks: str) -> str:
    return "\n".join(sentence for task in tasks for sentence in run.sentences(task))


def answer(airflow: LocalAirflow, run: MoveRun, choice: str) -> None:
    """As a person who waits for the question, and sees that the answer has arrived."""

    def answered() -> bool:
        state = airflow.task_states(run.dag_id, run.run_id).get("confirm")
        if state == "awaiting_input":
            run.answer(choice)
        return state == "success"

    wait_until(answered, 300, f"{choice} to arrive", every_seconds=1.0)


def copied(airflow: LocalAirflow, dag_id: str) -> None:
    """Runs a flow once, as its schedule would."""
    airflow.unpause(dag_id)
    run_id = airflow.trigger(dag_id)
    assert airflow.wait_for_run(dag_id, run_id, 600) == "success", airflow.task_states(dag_id, run_id)


def paused(airflow: LocalAirflow, dag_id: str) -> bool:
    found = airflow.dag(dag_id)
    assert found is not None
    return bool(found["is_paused"])


def test_groups_move_over_and_back_without_reading_twice(site: Site, airflow: LocalAirflow) -> None:
    commit(site.a, "billing", TopicPartition("orders", 0, 60))
    copied(airflow, "srm.a.b")
    write(site.a, "orders", 20)
    # Created after the last refresh, and long before the next one is due.
    site.a.create_topic("returns")
    write(site.a, "returns", 7)

    # Not wanted, after all: nothing is changed. Dry runs are in test_the_api_steers_from_inside_and_from_elsewhere.
    asked = {"flow": "a->b", "mode": "controlled", "groups": ["billing"], "wait_seconds": 120}
    refused = MoveRun(airflow, "srm.failover", asked)
    answer(airflow, refused, "Reject")
    assert end_of_run(airflow, refused) == "success"
    states = airflow.task_states(refused.dag_id, refused.run_id)
    assert {task for task, state in states.items() if state != "skipped"} == {"check", "confirm"}
    assert committed(site.b, "billing") == {}
    assert not paused(airflow, "srm.a.b")

    # The real thing, while somebody still reads at the source.
    with Member(site.a, "billing", "orders"):
        run = MoveRun(airflow, "srm.failover", {**asked, "wait_seconds": 5})
        assert end_of_run(airflow, run) == "failed"
        assert "stop its consumers there first" in said(run, "check")
        assert "step 'check'" in said(run, "report")
    airflow.post(
        "/api/v2/dags/srm.failover/clearTaskInstances",
        {"dag_run_id": run.run_id, "task_ids": ["check"], "include_downstream": True, "dry_run": False},
    )
    answer(airflow, run, "Approve")
    assert end_of_run(airflow, run) == "success", airflow.task_states(run.dag_id, run.run_id)
    assert committed(site.b, "billing") == {"a.orders": 60}
    assert "none is skipped" in said(run, "report")
    assert paused(airflow, "srm.a.b")
    (last,) = [one for one in airflow.runs("srm.a.b") if run.run_id in str(one["dag_run_id"])]
    assert (last["state"], count(site.b, "a.orders"), count(site.b, "a.returns")) == ("success", 120, 7)

    # Work goes on at b, and comes back.
    commit(site.b, "billing", TopicPartition("a.orders", 0, end_of(site.b, "a.orders")))
    site.b.create_topic("orders")
    write(site.b, "orders", 30)
    commit(site.b, "billing", TopicPartition("orders", 0, 10))
    copied(airflow, "srm.b.a")
    back = MoveRun(airflow, "srm.failback", {**asked, "approved": True})
    assert end_of_run(airflow, back) == "success", said(back, "check", "drain", "translate", "apply", "verify")
    assert committed(site.a, "billing") == {"orders": 120, "b.orders": 10}
    assert not paused(airflow, "srm.a.b")
    assert not paused(airflow, "srm.b.a")


Ask = Callable[..., Any]


def test_the_api_steers_from_inside_and_from_elsewhere(site: Site, airflow: LocalAirflow, tmp_path: Path) -> None:
    """The app in Airflow's plugin, and that of srm-control serve, which asks Airflow by its REST API."""
    airflow_elsewhere = RemoteScheduler(AirflowRest(airflow.url, "admin", "admin"))
    store = MetricsStore(f"sqlite:///{tmp_path}/metrics.db")
    everybody = OpenAccess(this_machine=False)
    app = create_app(AppContext(everybody, lambda: store, airflow_elsewhere, WatchedConfiguration(lambda: site.file)))

    for about in (AirflowRest.is_paused, AirflowRest.active_runs, lambda rest, dag: rest.start_run(dag, "")):
        with pytest.raises(AirflowError, match=r"has no DAG srm\.x\.y; is the flow in its configuration file\?"):
            about(AirflowRest(airflow.url, "admin", "admin"), "srm.x.y")

    def inside(method: str, path: str, body: Any = None) -> Any:
        return airflow.request(method, f"/srm/api/v2{path}", body=body)

    def outside(method: str, path: str, body: Any = None) -> Any:
        answer = TestClient(app).request(method, f"/api/v2{path}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    commit(site.a, "shipping", TopicPartition("orders", 0, 10))
    run = inside("POST", "/flows/a/b/runs", {"note": "see what is new"})
    assert airflow.wait_for_run("srm.a.b", run["run_id"], 600) == "success"
    for ask in (inside, outside):
        steered(airflow, ask)
        assert committed(site.b, "shipping") == {}
        assert not paused(airflow, "srm.a.b")
    # Lists are kept in one place, whoever edits them.
    inside("PUT", "/flows/a/b/filters", {"lists": {"groups": ["billing"]}, "note": "only this one"})
    seen = outside("GET", "/flows/a/b/filters")
    assert (seen["lists"]["groups"], seen["edited"], seen["editable"]) == (["billing"], ["groups"], True)
    outside("PUT", "/flows/a/b/filters", {"reset": ["groups"], "revision": seen["revision"]})
    history = inside("GET", "/flows/a/b/filters")["history"]
    assert [(one["who"].lower(), one["note"]) for one in history][1] == ("admin", "only this one")


def steered(airflow: LocalAirflow, ask: Ask) -> None:
    (flow,) = [one for one in ask("GET", "/flows")["flows"] if one["flow"] == "a->b"]
    assert (flow["dag_id"], flow["paused"]) == ("srm.a.b", False)
    ask("POST", "/flows/a/b/pause", {"note": "lunch"})
    assert paused(airflow, "srm.a.b")
    ask("POST", "/flows/a/b/resume", {})
    assert not paused(airflow, "srm.a.b")
    asked = {"kind": "failover", "mode": "controlled", "groups": ["shipping"], "wait_seconds": 120}
    started = ask("POST", "/flows/a/b/moves", asked)
    path = f"/moves/failover/{quote(started['run_id'], safe='')}"

    def ended() -> Any:
        found = ask("GET", path)
        return found if found["state"] in ("success", "failed") else None

    found = wait_until(ended, 600, "the dry run to end", every_seconds=1.0)
    assert (found["state"], found["dry_run"], found["flow"]) == ("success", True, "a->b")
    steps = {one["step"]: one for one in found["steps"]}
    assert list(steps) == ["check", "confirm", "last_pass", "stop", "drain", "translate", "apply", "verify", "report"]
    assert {step for step, one in steps.items() if one["state"] == "done"} == {"check", "translate", "report"}
    states = airflow.task_states("srm.failover", started["run_id"])
    done = {task for task, state in states.items() if state == "success"}
    assert done == {"check", "translate", "report", "outcome"}, states
    assert any("groups to move: shipping" in sentence for sentence in steps["check"]["sentences"])
    assert any("translated" in sentence for sentence in steps["translate"]["sentences"])
    places = {(one["topic"], one["partition"]): one["group"] for one in found["positions"]}
    assert places["a.orders", 0] == "shipping"


def test_without_a_login_a_person_pauses_the_flow_which_is_then_turned_round(site: Site, airflow: LocalAirflow) -> None:
    airflow.request("DELETE", "/api/v2/connections/srm_airflow")
    commit(site.old, "ledger", TopicPartition("invoices", 0, 50))
    asked = {"flow": "old->new", "groups": ["ledger"], "approved": True, "wait_seconds": 0}
    run = MoveRun(airflow, "srm.switch_direction", asked)
    wait_until(lambda: "pause srm.old.new on its page now" in run.log("stop"), 300, "being asked to pause")
    airflow.pause("srm.old.new")
    # The file still says otherwise.
    assert end_of_run(airflow, run) == "failed"
    states = airflow.task_states(run.dag_id, run.run_id)
    assert (states["verify"], states["turn"], states["report"]) == ("success", "failed", "failed"), states
    assert "new->old.enabled = true" in said(run, "turn")
    assert committed(site.new, "ledger") == {"invoices": 50}
    site.turned(True)
    airflow.post(
        "/api/v2/dags/srm.switch_direction/clearTaskInstances",
        {"dag_run_id": run.run_id, "task_ids": ["turn"], "include_downstream": True, "dry_run": False},
    )
    wait_until(lambda: "unpause srm.new.old on its page now" in run.log("resume"), 300, "being asked to unpause")
    airflow.unpause("srm.new.old")
    assert end_of_run(airflow, run) == "success"

    write(site.new, "invoices", 7)
    copied(airflow, "srm.new.old")
    assert count(site.old, "invoices") == count(site.new, "invoices") == 57
