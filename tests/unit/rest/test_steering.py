"""The API's writes: lists with a preview, the plan, where groups stand, and setting it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from fastapi.testclient import TestClient

from srm_common.domain.filters.flow_filters import variable_name
from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.rest.app import AppContext
from srm_common.rest.live import Writing
from srm_common.rest.serving.watched_files import WatchedConfiguration
from srm_common.store.metrics_store import MetricsStore
from srm_common.testing import FakeCluster
from srm_common.usecases.filters.filter_history import filter_history
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.replicate import replicate
from tests.kafka.flows import flow_between, prepare, properties_of, write
from tests.kafka.group_commits import commit
from tests.slot_worker import here
from tests.unit.rest.airflow_stand_in import MemoryScheduler
from tests.unit.rest.conftest import app_of
from tests.unit.rest.people import HEADER, HeaderAccess


@dataclass(frozen=True)
class Desk:
    """The API over one flow, with and without an Airflow."""

    flow: FlowSettings
    file: Path
    store: MetricsStore
    scheduler: MemoryScheduler

    def ask(self, method: str, path: str, body: Any = None, *, code: int = 200, airflow: bool = True) -> Any:
        """``path`` is below that of the flow; the caller is an op."""
        context = AppContext(
            HeaderAccess(),
            lambda: self.store,
            self.scheduler if airflow else None,
            WatchedConfiguration(lambda: self.file),
        )
        name = self.flow.name
        client = TestClient(app_of(context), headers={HEADER: "op"})
        answer = client.request(method, f"/api/v2/flows/{name.source}/{name.target}{path}", json=body)
        assert answer.status_code == code, answer.text
        return answer.json()


@pytest.fixture
def desk(
    source_kafka: FakeCluster,
    target_kafka: FakeCluster,
    name: str,
    configuration_file: Callable[..., Path],
    tmp_path: Path,
) -> Desk:
    flow = flow_between(source_kafka, target_kafka, name)
    store = MetricsStore(f"sqlite:///{tmp_path}/metrics.db")
    return Desk(flow, configuration_file(properties_of(flow)), store, MemoryScheduler(flow.name))


def names(decisions: list[dict[str, Any]]) -> list[str]:
    return [decision["topic"] for decision in decisions]


@pytest.mark.parametrize("airflow", [True, False])
def test_lists_are_previewed_edited_and_remembered(
    desk: Desk, source_kafka: FakeCluster, name: str, airflow: bool
) -> None:
    for topic in (f"{name}-1", f"{name}-2", f"other-{name}"):
        source_kafka.create_topic(topic)
    commit(source_kafka, f"console-consumer-{name}", TopicPartition(f"{name}-1", 0, 0))

    def ask(method: str, path: str, body: Any = None, code: int = 200) -> Any:
        return desk.ask(method, path, body, code=code, airflow=airflow)

    before = ask("GET", "/filters")
    assert (before["lists"]["topics"], before["editable"], before["edited"]) == ([f"{name}.*"], True, [])
    assert (before["errors"], before["history"]) == ([], [])

    edit: dict[str, Any] = {
        "lists": {**before["lists"], "topics": [f"other-{name}", f"{name}-2"], "groups.exclude": []},
        "note": "the others, please",
        "revision": before["revision"],
    }
    shown = ask("POST", "/filters/preview", edit)
    assert names(shown["starts"]) == [f"other-{name}"]
    assert shown["starts"][0]["remote_topic"] == f"{desk.flow.name.source}.other-{name}"
    assert names(shown["stops"]) == [f"{name}-1"]
    assert "topics" in shown["stops"][0]["reason"]
    assert shown["unchanged"] == 1
    assert f"console-consumer-{name}" in shown["groups_start"]
    assert ask("GET", "/filters")["revision"] == before["revision"], "nothing is written"

    assert ask("PUT", "/filters", edit)["done"].endswith("; the edit takes effect in the next run")
    after = ask("GET", "/filters")
    assert after["lists"]["topics"] == [f"other-{name}", f"{name}-2"]
    assert after["in_file"]["topics"] == [f"{name}.*"]
    # Lists that were sent as they were go on following the file.
    assert after["edited"] == ["topics", "groups.exclude"]
    assert (after["history"][0]["who"], after["history"][0]["note"]) == ("op", "the others, please")

    refused = ask("PUT", "/filters", edit, code=409)["errors"][0]
    assert refused["code"] == "edit_conflict"
    assert ask("PUT", "/filters", {**edit, "revision": after["revision"]})["done"].endswith("are already like this")
    back = ask("PUT", "/filters", {"reset": ["topics", "groups.exclude"], "revision": after["revision"]})
    assert "edited" in back["done"]
    assert ask("GET", "/filters")["edited"] == []
    assert len(filter_history(desk.flow)[0]) == 2


def test_lists_of_an_airflow_are_not_edited_behind_its_back(desk: Desk, name: str) -> None:
    desk.ask("PUT", "/filters", {"lists": {"topics": [f"{name}-x"]}})
    variable = variable_name(desk.flow.name)
    assert json.loads(desk.scheduler.variables[variable]) == {"topics": [f"{name}-x"]}
    refused = desk.ask("PUT", "/filters", {"lists": {"topics": ["y"]}}, code=503, airflow=False)["errors"][0]
    assert variable in refused["message"]
    assert "SRM_AIRFLOW_URL" in refused["message"]

    desk.scheduler.variables[variable] = "{broken"
    shown = desk.ask("GET", "/filters")
    assert shown["lists"]["topics"] == [f"{name}-x"], "the last good ones"
    assert "not JSON" in shown["errors"][0]["message"]
    desk.ask("PUT", "/filters", {"lists": {"topics": [f"{name}-z"]}, "revision": shown["revision"]})
    assert desk.ask("GET", "/filters")["errors"] == []


def test_nothing_is_written_whose_caller_has_gone(
    desk: Desk, target_kafka: FakeCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target_kafka.create_topic(name)
    write(target_kafka, name, [b"x"] * 5)
    row = {"topic": name, "remote_topic": name, "partition": 0, "translated": 3}
    offsets = {"groups": [f"{name}-g"], "offsets": [row], "dry_run": False}
    begin = Writing.begin

    def late(writing: Writing) -> None:
        assert writing.give_up() == "nothing was written"
        begin(writing)

    monkeypatch.setattr(Writing, "begin", late)
    for method, path, body in (
        ("PUT", "/filters", {"lists": {"topics": [f"{name}-x"]}}),
        ("POST", "/offsets", offsets),
    ):
        assert desk.ask(method, path, body, code=504)["errors"][0]["code"] == "clusters_slow"
    assert desk.scheduler.variables == {}
    monkeypatch.undo()
    assert desk.ask("POST", "/offsets", offsets)["applied"][0]["before"] is None, "it was not committed before"


def test_ten_thousand_names_in_a_list(desk: Desk, source_kafka: FakeCluster, name: str) -> None:
    source_kafka.create_topic(f"{name}-7")
    many = [f"{name}-{number}" for number in range(10_000)]
    shown = desk.ask("POST", "/filters/preview", {"lists": {"topics": many}})
    assert shown["unchanged"] == 1
    desk.ask("PUT", "/filters", {"lists": {"topics": many}})
    assert desk.ask("GET", "/filters")["lists"]["topics"] == many


def test_the_plan_and_where_groups_stand(
    desk: Desk, source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
) -> None:
    flow, remote = desk.flow, f"{desk.flow.name.source}.{name}"
    source_kafka.create_topic(name, partitions=2)
    source_kafka.create_topic(f"not-{name}")
    planned = desk.ask("POST", "/plan", {})
    created = [one for one in planned["actions"] if one["kind"] == "create_topic"]
    assert [one["topic"] for one in created] == [remote]
    assert remote in created[0]["sentence"]
    assert created[0]["error"] is None
    assert remote not in target_kafka.admin().list_topics(timeout=60).topics, "nothing is changed"
    with source_kafka.refuse("DescribeConfigs", 29, when=name):
        (refused,) = desk.ask("POST", "/plan", {})["actions"]
    assert (refused["topic"], refused["kind"]) == (remote, "sync_settings")
    assert "needs the permission DescribeConfigs" in refused["error"]

    prepare(flow)
    write(source_kafka, name, [b"%d" % number for number in range(20)])
    assert replicate(flow, RunOptions("r1"), here).state is RunState.DONE
    group = f"{name}-g"
    commit(source_kafka, group, TopicPartition(name, 0, 15), TopicPartition(f"not-{name}", 0, 0))
    sync_checkpoints(flow)

    found = desk.ask("GET", f"/group-offsets?group={group}")
    rows = {(one["topic"], one["partition"]): one for one in found["offsets"]}
    copied, other = rows[name, 0], rows[f"not-{name}", 0]
    assert (copied["remote_topic"], copied["source_offset"], copied["applied"]) == (remote, 15, None)
    assert 0 < copied["translated"] <= 15
    assert copied["age_ms"] >= 0
    assert (other["remote_topic"], other["translated"]) == ("", None)
    assert "not copied" in other["reason"]

    dry = desk.ask("POST", "/offsets", {"groups": [group]})
    assert (dry["dry_run"], [one["after"] for one in dry["applied"]]) == (True, [None])
    done = desk.ask("POST", "/offsets", {"groups": [group], "dry_run": False})
    assert [(one["topic"], one["after"]) for one in done["applied"]] == [(remote, copied["translated"])]
    again = desk.ask("GET", f"/group-offsets?group={group}")["offsets"]
    assert [one["applied"] for one in again if one["topic"] == name] == [copied["translated"]]

    wish = {"topic": name, "remote_topic": remote, "partition": 0, "translated": 3}
    kept = desk.ask("POST", "/offsets", {"groups": [group], "offsets": [wish], "dry_run": False})
    assert "the group is already further ahead" in kept["applied"][0]["effect"], (
        "groups are not moved back unless told so"
    )
    moved = desk.ask("POST", "/offsets", {"groups": [group], "offsets": [wish], "dry_run": False, "rewind": True})
    assert moved["applied"][0]["after"] == 3
    wish["translated"] = 1_000_000
    refused = desk.ask("POST", "/offsets", {"groups": [group], "offsets": [wish], "dry_run": False}, code=409)
    assert "nothing was set: 1 of 1" in refused["errors"][0]["message"]
    assert "not in the log" in refused["errors"][0]["message"]
    assert desk.ask("POST", "/offsets", {"groups": ["nobody"]}, code=409)["errors"][0]["code"] == "no_checkpoint"
    nobody = desk.ask("GET", "/group-offsets?group=nobody")
    assert nobody["offsets"] == []
    assert "no such group" in nobody["errors"][0]["message"]
