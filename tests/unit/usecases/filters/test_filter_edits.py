"""srm-control's lists without an Airflow: srm-control.internal keeps them, and the flow goes by them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from srm_common.cli.main import run
from srm_common.domain.filters.flow_filters import FilterLists
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.control_record import FILTERS
from srm_common.errors import AirflowError, ConfigError, EditConflict
from srm_common.kafka.state.control_log import ControlLog
from srm_common.testing import FakeCluster
from srm_common.usecases.filters.edited_filters import VariableFilters
from srm_common.usecases.filters.effective_filters import EditedLists, effective_filters, record_found
from srm_common.usecases.filters.filter_history import (
    IN_AIRFLOW,
    IN_ENVIRONMENT,
    IN_KAFKA,
    filter_history,
    last_edit,
    make_edit,
    record_edit,
)
from tests.kafka.flows import flow_between, properties_of
from tests.kafka.group_commits import commit

Srm = Callable[..., str]


@pytest.fixture(autouse=True)
def no_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("SRM_AIRFLOW_URL", "AIRFLOW_HOME", "SRM_CONFIG"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def flow(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> FlowSettings:
    return flow_between(source_kafka, target_kafka, name)


@pytest.fixture
def file(flow: FlowSettings, configuration_file: Callable[..., Path]) -> Path:
    return configuration_file(properties_of(flow))


@pytest.fixture
def srm(file: Path, flow: FlowSettings, capsys: pytest.CaptureFixture[str]) -> Srm:
    """Runs ``srm-control <verb> --config FILE --source S --target T <words>``; gives what it prints."""

    def call(verb: str, *words: str, code: int = 0) -> str:
        source, target = flow.name.source, flow.name.target
        place = ["--flow", f"{source}->{target}"] if verb == "plan" else ["--source", source, "--target", target]
        done = run([verb, "--config", str(file), *place, *words])
        captured = capsys.readouterr()
        assert done == code, captured
        return captured.out if code == 0 else captured.err

    return call


def as_json(text: str) -> Any:
    return json.loads(text)


def test_an_edit_is_listed_acts_and_is_remembered(
    srm: Srm, flow: FlowSettings, source_kafka: FakeCluster, name: str
) -> None:
    for topic in (f"{name}-1", f"{name}-2", f"other-{name}"):
        source_kafka.create_topic(topic)
    assert srm("topics", "--list").splitlines() == [
        "Current whitelist:", f"{name}.*", "Current blacklist:", *flow.topics_exclude, "Done."
    ]  # fmt: skip

    planned = as_json(srm("topics", "--add", f"other-{name}, x{{1,3}}", "--dry-run", "--output", "json"))
    assert (planned["changed"], planned["starts"], planned["stops"]) == (False, [f"other-{name}"], [])
    assert last_edit(flow) is None, "nothing is written"

    said = srm("topics", "--add", f"other-{name}", "--add-blacklist", f"{name}-2")
    assert f"edited in srm-control.internal on cluster '{flow.name.target}'" in said
    assert f"Starts: other-{name}" in said
    assert f"Stops:  {name}-2" in said
    assert srm("topics", "--list").splitlines()[1:3] == [f"{name}.*", f"other-{name}"]
    decisions = {one["topic"]: one for one in as_json(srm("topics", "--output", "json"))["topics"]}
    assert [decisions[topic]["accepted"] for topic in (f"{name}-1", f"{name}-2", f"other-{name}")] == [
        True,
        False,
        True,
    ]
    plan = as_json(srm("plan", "--output", "json"))
    assert {one["topic"] for one in plan["actions"] if one["action"] == "create_topic"} >= {
        f"{flow.name.source}.{name}-1",
        f"{flow.name.source}.other-{name}",
    }
    assert f"{flow.name.source}.{name}-2" not in {one["topic"] for one in plan["actions"]}

    srm("topics", "--remove", f"other-{name}", "--remove-exclude", f"{name}-2")
    assert "nothing to change" in srm("topics", "--remove", f"other-{name}")
    edits = as_json(srm("topics", "--history", "--output", "json"))["edits"]
    assert [edit["origin"] for edit in edits] == [IN_KAFKA, IN_KAFKA]
    assert all("@" in edit["who"] for edit in edits)
    assert edits[0]["before"] == {}
    assert edits[1]["after"]["topics"] == [f"{name}.*"]
    assert f"topics: -other-{name}; topics.exclude: -{name}-2" in srm("topics", "--history")


def test_what_cannot_be_used_is_refused_before_anything_is_written(
    srm: Srm, flow: FlowSettings, tmp_path: Path
) -> None:
    said = srm("topics", "--add", "fine", "--add-exclude", "a(b", code=2)
    assert "topics.exclude: 'a(b' is not a usable expression: a '(' is not closed at position 4" in said
    lists = tmp_path / "lists.json"
    lists.write_text('{"topics": ["a"], "topic": []}')
    assert "lists.json: there is no list 'topic'; it may be topics" in srm("topics", "--file", str(lists), code=2)
    assert "--dry-run and --now need an edit" in srm("topics", "--dry-run", code=2)
    assert "there is no Airflow to start a run in" in srm("topics", "--add", "fine", "--now", code=3)
    assert "no Airflow is configured" in srm("topics", "--list", "--store", "airflow", code=2)


def test_lists_go_through_a_file_and_back(srm: Srm, flow: FlowSettings, tmp_path: Path, name: str) -> None:
    lists = tmp_path / "lists.json"
    lists.write_text(json.dumps({"topics": [name], "groups": ["g1", "g2"]}))
    srm("topics", "--file", str(lists))
    more = tmp_path / "more.txt"
    more.write_text("# more, of them\n\n  g3 , [a-z]+4,\n")
    srm("groups", "--file", str(more))
    rows = list(csv.reader(io.StringIO(srm("groups", "--list", "--output", "csv"))))
    assert rows[:5] == [["list", "expression"], *(["groups", one] for one in ("g1", "g2", "g3", "[a-z]+4"))]
    assert "topics: as in the properties file again" in srm("topics", "--reset")
    last = last_edit(flow)
    assert last is not None
    assert last.after == {"groups": ["g1", "g2", "g3", "[a-z]+4"]}
    assert effective_filters(flow, None).flow.topics == flow.topics


def test_groups_are_explained(srm: Srm, flow: FlowSettings, source_kafka: FakeCluster, name: str) -> None:
    source_kafka.create_topic(name)
    source_kafka.create_topic(f"not-{name}")
    commit(source_kafka, f"g-{name}", TopicPartition(name, 0, 0), TopicPartition(f"not-{name}", 0, 0))
    explained = as_json(srm("groups", "--explain", f"g-{name}", "--output", "json"))["groups"][0]
    assert (explained["accepted"], explained["copied_topics"], explained["other_topics"]) == (
        True,
        [name],
        [f"not-{name}"],
    )
    srm("groups", "--add-exclude", f"g-{name}")
    found = {one["group"]: one for one in as_json(srm("groups", "--explain", "--output", "json"))["groups"]}
    assert found[f"g-{name}"]["reason"] == f"excluded by 'g-{name}' of groups.exclude"
    text = srm("groups", "--explain", "nobody")
    assert "The source has no group nobody" in text
    assert "groups.exclude: from srm-control.internal on cluster 'target'" in text
    assert "groups: from the properties file" in text


def test_topics_are_explained(srm: Srm, flow: FlowSettings, source_kafka: FakeCluster, name: str) -> None:
    source_kafka.create_topic(name)
    (found,) = as_json(srm("topics", "--explain", name, "--output", "json"))["topics"]
    assert (found["accepted"], found["remote_topic"]) == (True, f"{flow.name.source}.{name}")
    assert f"'{name}.*' of topics" in found["reason"]
    said = srm("topics", "--explain", f"{name}-not-there")
    assert f"The source has no topic {name}-not-there" in said
    assert "topics: from the properties file" in said
    everything = as_json(srm("topics", "--explain", "--output", "json"))["topics"]
    assert name in {one["topic"] for one in everything}


def test_the_lists_of_reverse_checkpointing_are_kept_beside_the_others(srm: Srm, name: str) -> None:
    srm("reverse-checkpointed-topics", "--add", f"p.{name}", "--add-blacklist", "x")
    srm("topics", "--add", "y")
    assert srm("reverse-checkpointed-topics").splitlines() == [
        "Current whitelist:", ".*", f"p.{name}", "Current blacklist:", "x", "Done."
    ]  # fmt: skip


def test_the_target_is_reached_without_a_file(
    srm: Srm, flow: FlowSettings, target_kafka: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    srm("topics", "--add", "by-file")
    client = tmp_path / "client.properties"
    client.write_text("security.protocol = PLAINTEXT\n")
    place = ["--config", str(tmp_path / "none"), "--source", flow.name.source, "--target", flow.name.target]
    clients = ["--bootstrap-servers", target_kafka.bootstrap_servers, "--props", str(client)]
    assert run(["topics", *place, *clients, "--add", "by-props"]) == 0
    assert run(["topics", *place, *clients, "--producer-props", "linger.ms=1", "--add", "x"]) == 2
    assert "linger.ms does not describe how to reach a cluster" in capsys.readouterr().err
    assert run(["topics", *place, *clients]) == 2
    assert "the listing queries the source" in capsys.readouterr().err
    assert srm("topics", "--list").splitlines()[2:4] == ["by-file", "by-props"]


def test_of_two_edits_at_the_same_time_one_is_told(flow: FlowSettings) -> None:
    first = make_edit(flow, FilterLists.of({"topics": ["a"]}), based_on=None, who="ann@x")
    with pytest.raises(EditConflict, match=r"the filters of .* were edited concurrently by ann@x"):
        make_edit(flow, FilterLists.of({"topics": ["b"]}), based_on=None, who="bob@x")
    # Even one that was written between the look and the write does not count.
    with ControlLog(flow) as log:
        log.append(FILTERS, before={}, after={"topics": ["b"]}, origin=IN_KAFKA)
    assert effective_filters(flow, None).flow.topics == ("a",)
    assert effective_filters(flow, None).last == first


def test_a_variable_that_cannot_be_read_leaves_the_last_good_lists(flow: FlowSettings) -> None:
    good = effective_filters(flow, EditedLists('{"topics": ["good"]}', "the variable"))
    assert record_found(flow, good) is not None
    assert record_found(flow, good) is None, "no news"
    for broken in ("{", '{"topics": ["("]}', '{"topic": []}'):
        filters = effective_filters(flow, EditedLists(broken, "the variable"))
        assert filters.flow.topics == ("good",)
        (fault,) = filters.faults
        assert fault.startswith("the variable cannot be used: ")
        assert "continues with its last valid filters" in fault
        assert record_found(flow, filters) is None
    emptied = effective_filters(flow, EditedLists("{}", "the variable"))
    assert (emptied.flow.topics, emptied.faults) == (flow.topics, ())
    record = record_found(flow, emptied)
    assert record is not None
    assert (record.before, record.after, record.who) == ({"topics": ["good"]}, {}, None)
    again = effective_filters(flow, EditedLists("{", "the variable"))
    assert again.flow.topics == flow.topics
    assert "the lists of the properties file apply" in again.faults[0]


@pytest.mark.parametrize("unread", [None, "Airflow does not respond"])
@pytest.mark.parametrize("origin", [IN_AIRFLOW, IN_ENVIRONMENT])
def test_a_variable_that_is_not_found_leaves_the_last_lists_too(
    flow: FlowSettings, origin: str, unread: str | None
) -> None:
    """Airflow says the same of a variable that was deleted and of one that its database could not return: topics that
    someone excluded must not be copied during an outage."""
    good = effective_filters(flow, EditedLists('{"topics": ["good"]}', "the variable", origin))
    record_found(flow, good)
    for _ in range(2):
        gone = effective_filters(flow, EditedLists(None, "the variable", unread=unread))
        assert gone.flow.topics == ("good",)
        (fault,) = gone.faults
        assert unread is None or unread in fault
        assert unread is not None or f"if {flow.name} is to go by the properties file, set it to {{}}" in fault
        assert "continues with its last valid filters" in fault
        assert record_found(flow, gone) is None, "nothing is known, so nothing is recorded"
    broken = effective_filters(flow, EditedLists("{", "the variable"))
    assert broken.flow.topics == ("good",), "the last lists are still known"
    record_found(flow, effective_filters(flow, EditedLists("{}", "the variable")))
    assert effective_filters(flow, EditedLists(None, "the variable")).faults == ()


class Backend:
    """Variables of an Airflow whose secrets backend has them, so that the database's do not count."""

    def __init__(self) -> None:
        self.database: list[str] = []

    def variable(self, name: str) -> str | None:
        return '{"topics": ["backend"]}'

    def set_variable(self, name: str, text: str, description: str) -> None:
        self.database.append(text)


def test_an_edit_of_a_variable_that_a_secrets_backend_has_is_refused(flow: FlowSettings) -> None:
    filters = VariableFilters(flow, [flow.name], Backend(), who="ann@x")
    effective = filters.effective()
    with pytest.raises(
        ConfigError, match=r"is still read as before, .*: a secrets backend of Airflow has the variable"
    ):
        filters.write(FilterLists.of({"topics": ["mine"]}), effective, "")
    assert last_edit(flow) is None, "it is not in effect"


def test_a_variable_that_cannot_be_read_stops_a_flow_of_which_no_lists_are_known(flow: FlowSettings) -> None:
    unread = EditedLists(None, "the variable", unread="Airflow does not respond")
    with pytest.raises(AirflowError, match=r"^Airflow does not respond; .* has no other lists"):
        effective_filters(flow, unread)
    make_edit(flow, FilterLists.of({"topics": ["mine"]}), based_on=None, who="ann@x")
    filters = effective_filters(flow, unread)
    assert filters.flow.topics == ("mine",)
    assert "Airflow does not respond" in filters.faults[0]


def test_without_a_variable_runs_in_airflow_go_by_edits_made_without_airflow(srm: Srm, flow: FlowSettings) -> None:
    srm("topics", "--add", "mine")
    filters = effective_filters(flow, EditedLists(None, "the variable"))
    assert filters.flow.topics == (*flow.topics, "mine")
    assert record_found(flow, filters) is None
    record_edit(flow, FilterLists.of({"topics": ["theirs"]}), origin=IN_AIRFLOW, who="ann@x")
    said = srm("topics", "--add", "more", code=2)
    assert "are kept in an Airflow variable" in said
    assert "--store kafka" in said
    assert "Note: runs in Airflow go by" in srm("topics", "--add", "more", "--store", "kafka")


def test_an_edit_that_cannot_be_read_is_said(flow: FlowSettings, target_kafka: FakeCluster) -> None:
    with ControlLog(flow) as log:
        log.append(FILTERS, before={}, after={"topics": 5}, origin=IN_KAFKA)
    filters = effective_filters(flow, None)
    assert filters.flow.topics == flow.topics
    assert "topics must be a list of expressions" in filters.faults[0]
    assert len(filter_history(flow)[0]) == 1


def test_an_expression_that_would_close_a_loop_is_said(
    flow: FlowSettings, source_kafka: FakeCluster, configuration_file: Callable[..., Path], name: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    source_kafka.create_topic(name)
    there, back = f"{flow.name}", f"{flow.name.target}->{flow.name.source}"
    identity = {f"{one}.replication.policy.class": "IdentityReplicationPolicy" for one in (there, back)}
    lists = {f"{back}.enabled": "true", f"{back}.topics": "nothing", f"{there}.topics": name}
    quiet = {f"{back}.heartbeats.replication.enabled": "false", f"{back}.emit.heartbeats.enabled": "false"}
    config = ["--config", str(configuration_file(properties_of(flow) | identity | lists | quiet))]
    assert run(["apply", *config, "--flow", there]) == 0
    capsys.readouterr()
    assert run(["topics", *config, "--flow", back, "--add", name, "--dry-run", "--output", "json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["starts"] == []
    assert any(
        f"{name} is matched and still not copied: " in note and "would form a loop" in note for note in planned["notes"]
    )
