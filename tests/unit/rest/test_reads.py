"""What is read, from a day of history; and what is left of it when a part does not respond."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.history import Scenario, reports, scenario_of
from srm_common.domain.verification.differences import Difference, DifferenceKind, Findings
from srm_common.domain.verification.summary import results_table
from srm_common.domain.verification.verification import Against, PartitionVerified
from srm_common.rest.app import AppContext
from srm_common.rest.query_parameters import now_ms
from srm_common.rest.srm.schemas import TimeSeriesResponse
from srm_common.store.metrics_store import MetricsStore
from tests.unit.rest.conftest import NAMES, SHAPE, Stage, configuration_text
from tests.unit.store.made_up import partition, report

FIRST = NAMES[0]
F = f"/api/v2/flows/{FIRST.source}/{FIRST.target}"
HOUR = 3_600_000


def get(stage: Stage, path: str, who: str = "viewer", status: int = 200) -> Any:
    answer = stage.client(who).get(path)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_every_flow_has_its_figures_and_their_time(same_stage: Stage) -> None:
    found = get(same_stage, "/api/v2/flows?days=1")
    assert found["total"] == len(NAMES)
    assert found["errors"] == []
    assert [flow["flow"] for flow in found["flows"]] == sorted(map(str, NAMES))
    first = next(flow for flow in found["flows"] if flow["flow"] == str(FIRST))
    assert (first["topics"], first["partitions"], first["groups"]) == (4, 8, 3)
    assert first["health"]["cause"]
    assert first["metrics"]["replication-records-lag"]["latest_ms"] is not None
    assert first["reported_ms"] <= found["now_ms"]
    assert any(value is not None for value in first["sparklines"]["byte-rate"]["values"])
    assert first["last_run"]["url"] == f"/dags/{FIRST.dag_id}/runs/{first['last_run']['run_id']}"


def test_flows_are_found_by_source_state_and_name(same_stage: Stage) -> None:
    everything = get(same_stage, "/api/v2/flows")["flows"]
    states = {flow["health"]["state"] for flow in everything}
    assert len(states) > 2, "flows with different scenarios"
    for state in states:
        found = get(same_stage, f"/api/v2/flows?status={state}")["flows"]
        assert {flow["flow"] for flow in found} == {
            flow["flow"] for flow in everything if flow["health"]["state"] == state
        }
    assert {flow["source"] for flow in get(same_stage, "/api/v2/flows?source=west&source=north")["flows"]} <= {
        "west",
        "north",
    }
    assert [flow["flow"] for flow in get(same_stage, "/api/v2/flows?search=EAST-%3Ewest")["flows"]] == ["east->west"]
    page = get(same_stage, "/api/v2/flows?offset=2&limit=3")
    assert [flow["flow"] for flow in page["flows"]] == [flow["flow"] for flow in everything[2:5]]
    assert page["total"] == len(NAMES)


@pytest.mark.parametrize(
    ("part", "key", "total"),
    [("topics", "topics", 4), ("partitions", "partitions", 8), ("groups", "groups", 3), ("runs", "runs", 29)],
)
def test_parts_of_a_flow_come_in_pages(same_stage: Stage, part: str, key: str, total: int) -> None:
    whole = get(same_stage, f"{F}/{part}?limit=1000")
    assert (whole["total"], len(whole[key])) == (total, total)
    pages = [get(same_stage, f"{F}/{part}?limit=2&offset={offset}")[key] for offset in range(0, total, 2)]
    assert [row for page in pages for row in page] == whole[key]
    assert get(same_stage, f"{F}/{part}?offset={total}")[key] == []


def test_a_topic_is_found_by_its_whole_name_on_either_side(same_stage: Stage) -> None:
    row = get(same_stage, f"{F}/topics")["topics"][0]
    assert get(same_stage, f"{F}/topics/{row['topic']}")["topic"]["remote_topic"] == row["remote_topic"]
    span = f"to_ms={row['reported_ms'] + 1}&days=1"
    by_source = get(same_stage, f"/api/v2/topic-metrics/{FIRST.source}/{FIRST.target}/{row['topic']}/byte-rate?{span}")
    by_target = get(same_stage, f"/api/v2/topic-metrics/{FIRST.target}/{row['remote_topic']}/byte-rate?{span}")
    assert by_source["points"] == by_target["points"] != []
    assert by_source["unit"] == "bytes/second"


def test_decisions_and_the_last_plan_are_those_of_the_last_refresh(same_stage: Stage) -> None:
    found = get(same_stage, f"{F}/decisions")
    assert found["reported_ms"] is not None
    assert all(one["reason"] for one in found["decisions"])
    copied = get(same_stage, f"{F}/decisions?copied=true")
    left = get(same_stage, f"{F}/decisions?copied=false")
    assert copied["total"] + left["total"] == found["total"]
    assert get(same_stage, f"{F}/plan")["computed_ms"] is not None


def test_a_caller_sees_only_flows_that_are_for_them(stage: Stage) -> None:
    stage.context.access.hidden = frozenset({FIRST})  # type: ignore[attr-defined]
    assert str(FIRST) not in {flow["flow"] for flow in get(stage, "/api/v2/flows")["flows"]}
    assert str(FIRST) not in get(stage, "/api/v2/health")["flows"]
    assert str(FIRST) not in get(stage, "/api/v1/replications")
    get(stage, F, status=403)
    get(stage, f"{F}/topics", status=403)
    get(stage, f"/api/v2/topic-metrics/{FIRST.target}/{FIRST.source}.orders.created/byte-rate", status=404)


def test_version_1_speaks_as_its_swagger_file_does(same_stage: Stage) -> None:
    info = get(same_stage, "/api/v1/replications?hours=24")[str(FIRST)]
    assert set(info) == {
        "name",
        "source",
        "target",
        "status",
        "numTopics",
        "numConsumerGroups",
        "throughputBps",
        "replicationLatencyMs",
        "checkpointLatencyMs",
    }
    assert info["status"] == "ACTIVE"
    stats = info["throughputBps"]
    assert set(stats) == {
        "name",
        "min",
        "max",
        "sum",
        "avg",
        "samples",
        "latestTimestamp",
        "latestValue",
        "range",
        "groups",
        "topics",
        "partitions",
    }
    assert set(stats["range"]) == {"start", "end", "midpoint", "description"}
    assert stats["min"] <= stats["avg"] <= stats["max"]
    # Of rates and lags, the sum over the partitions.
    assert stats["sum"] == stats["avg"]
    latency = info["replicationLatencyMs"]
    assert latency["avg"] == pytest.approx(latency["sum"] / latency["samples"])
    assert set(get(same_stage, f"/api/v1/replications?source={FIRST.target}")) == {
        str(name) for name in NAMES if name.source == FIRST.target
    }

    topics = get(same_stage, f"/api/v1/remote-topics/{FIRST.source}?target={FIRST.target}&hours=24")
    assert len(topics) == SHAPE.topics
    for name, topic in topics.items():
        assert (topic["name"], topic["source"], topic["numPartitions"]) == (name, FIRST.source, 2)
        assert name == f"{FIRST.source}.{topic['upstreamTopic']}"
        assert topic["originalTopic"] == topic["upstreamTopic"]
        assert topic["numConsumerGroups"] == SHAPE.groups
        assert topic["checkpointLatencyMs"]["samples"] > 0
        assert 30 <= topic["checkpointLatencyMs"]["avg"] <= 70

    for path in (f"topic-metrics/{name}", f"topic-metrics-local/{name}", f"cluster-metrics/{FIRST.source}"):
        found = get(same_stage, f"/api/v1/{path}/byte-rate?hours=24&samples=5&target={FIRST.target}")
        assert set(found) == {"metrics", "errors", "range"}
        assert 0 < len(TimeSeriesResponse.model_validate(found).metrics) <= 5
        assert found["errors"] == []

    several = get(same_stage, f"/api/v1/cluster-metrics/{FIRST.source}/byte-rate", status=409)
    assert several["errors"][0]["code"] == "ambiguous_flow"


def test_a_copy_that_nobody_or_more_than_one_flow_made(stage: Stage) -> None:
    assert isinstance(stage.context.store, MetricsStore)
    report = [run_report for run_report in reports(replace(SHAPE, end_ms=now_ms())) if run_report.flow == str(FIRST)][
        -1
    ]
    assert FIRST.target == "west"
    assert report.run is not None
    copy = report.run.partitions[0].downstream_topic
    stage.context.store.write(replace(report, flow="north->west", run=replace(report.run, flow="north->west")))
    for path, field in (
        (f"/api/v2/topic-metrics/west/{copy}", "downstream_topic"),
        (f"/api/v1/topic-metrics/{copy}", "topic"),
    ):
        [both] = get(stage, f"{path}/byte-rate", status=409)["errors"]
        assert (both["code"], both["field"]) == ("ambiguous_topic", field)
        [none] = get(stage, f"{path}x/byte-rate", status=404)["errors"]
        assert (none["code"], none["field"]) == ("unknown_topic", field)


def test_a_partition_has_its_newest_verification(stage: Stage) -> None:
    assert isinstance(stage.context.store, MetricsStore)
    assert {one["verified"] for one in get(stage, f"{F}/partitions")["partitions"]} == {None}
    report = [run_report for run_report in reports(replace(SHAPE, end_ms=now_ms())) if run_report.flow == str(FIRST)][
        -1
    ]
    assert report.run is not None
    first, second = sorted((record.upstream_topic, record.partition) for record in report.run.partitions)[:2]
    proved = Findings(proved=40, proved_from=0, proved_to=50, segments=2)
    different = Findings()
    different.add(Difference(DifferenceKind.LOST, 7, 8, 6, 6))
    results = [
        PartitionVerified(*first, "copy", proved, checked_ms=5, against=Against.SOURCE),
        PartitionVerified(*second, "copy", different, checked_ms=6, whole=False, sample=0.5, against=Against.MAP),
        PartitionVerified("gone", 0, "copy", proved, checked_ms=5),
    ]
    stage.context.store.write(replace(report, verified=results_table(results)))
    rows = get(stage, f"{F}/partitions")["partitions"]
    told = {(row["topic"], row["partition"]): row["verified"] for row in rows}
    assert told[first] == {
        "verdict": "proved",
        "checked_ms": 5,
        "against": "source",
        "sample": 1.0,
        "whole": True,
        "proved_from": 0,
        "proved_to": 50,
        "records": 40,
        "fault": None,
        "difference": None,
    }
    assert (told[second]["verdict"], told[second]["sample"], told[second]["proved_to"]) == ("different", 0.5, None)
    assert told[second]["difference"] == {
        "kind": "lost",
        "downstream_first": 7,
        "downstream_last": 8,
        "upstream_first": 6,
        "upstream_last": 6,
        "sentence": str(different.differences[0]),
    }
    assert sum(one is not None for one in told.values()) == 2


def test_health_is_that_of_the_service_and_of_each_flow(same_stage: Stage) -> None:
    found = get(same_stage, "/api/v2/health")
    assert found["status"] == "degraded", "some flows of the history are in trouble"
    assert set(found["flows"]) == set(map(str, NAMES))
    assert (found["store"], found["schedule"]) == (None, None)
    clusters = get(same_stage, "/api/v2/clusters")["clusters"]
    assert {cluster["alias"] for cluster in clusters} == {
        alias for name in NAMES for alias in (name.source, name.target)
    }
    assert all(cluster["reachable"] and cluster["checked_ms"] <= found["now_ms"] for cluster in clusters)


def test_a_fresh_install_is_up(stage: Stage, tmp_path: Path) -> None:
    """Its flows have never run; that its history cannot be read is another matter."""
    fresh = with_store(stage, f"sqlite:///{tmp_path}/fresh.db")
    found = get(fresh, "/api/v2/health")
    # One of them is paused, and told as that.
    assert {one["state"] for one in found["flows"].values()} >= {"not_run"}
    assert found["status"] == "up"
    (tmp_path / "broken.db").write_bytes(b"this is no database, and long enough to be seen as none" * 100)
    assert get(with_store(stage, f"sqlite:///{tmp_path}/broken.db"), "/api/v2/health")["status"] == "down"


def test_an_error_has_its_class(same_stage: Stage) -> None:
    """As srm_common.errors has it, beside the sentence."""
    kinds = {str(flow["flow"]): flow["health"].get("error_kind") for flow in get(same_stage, "/api/v2/flows")["flows"]}
    told = {scenario_of(index): kinds[str(name)] for index, name in enumerate(NAMES)}
    assert told[Scenario.FAILING] == "UnreachableCluster"
    assert told[Scenario.HALF_FAILING] == "ClusterError"
    assert told[Scenario.LOST] == "DataLost"
    assert told[Scenario.STEADY] is told[Scenario.IDLE] is None
    name = NAMES[[scenario_of(index) for index in range(len(NAMES))].index(Scenario.LOST)]
    path = f"/api/v2/flows/{name.source}/{name.target}"
    assert get(same_stage, f"{path}/runs")["runs"][0]["error_kind"] == "DataLost"
    assert [one["error_kind"] for one in get(same_stage, f"{path}/partitions?failed=true")["partitions"]] == [
        "DataLost"
    ]


def test_a_cluster_is_out_of_reach_when_the_newest_run_says_so(stage: Stage) -> None:
    failing = next(name for number, name in enumerate(NAMES) if scenario_of(number) is Scenario.FAILING)
    for name in NAMES:
        if name != failing:
            stage.scheduler.known.pop(name)
    stage.file.write_text(configuration_text([failing]))
    with sqlite3.connect(stage.database) as connection:
        connection.execute("update flow set reported_ms = 0 where name <> ?", [str(failing)])
    connection.close()
    clusters = {one["alias"]: one for one in get(stage, "/api/v2/clusters")["clusters"]}
    assert clusters[failing.target]["reachable"] is False
    assert f"cluster '{failing.target}'" in clusters[failing.target]["fault"]
    assert clusters[failing.source]["reachable"] is None


def test_a_topic_that_is_not_copied_any_more_leaves_the_lists_and_keeps_its_history(stage: Stage) -> None:
    names = [topic["topic"] for topic in get(stage, f"{F}/topics")["topics"]]
    kept, gone = names[0], names[-1]
    stage.context.store.write(report(now_ms() - 500, partition(kept), flow=str(FIRST)))
    for hours in (1, 24 * 30):
        assert [topic["topic"] for topic in get(stage, f"{F}/topics?hours={hours}")["topics"]] == [kept]
        assert [*get(stage, f"/api/v1/remote-topics/{FIRST.source}?target={FIRST.target}&hours={hours}")] == [
            f"{FIRST.source}.{kept}"
        ]
    scraped = stage.client().get("/metrics").text
    lag = f'srm_topic_lag_records{{source="{FIRST.source}",target="{FIRST.target}",topic="'
    assert f'{lag}{kept}"' in scraped
    assert f'{lag}{gone}"' not in scraped
    assert get(stage, f"{F}/topics/{gone}")["topic"]["topic"] == gone
    assert get(stage, f"{F}/metrics/byte-rate?topic={gone}&days=1")["points"]


# ---- parts that do not respond


def test_without_airflow_everything_else_is_told(stage: Stage) -> None:
    stage.scheduler.fault = "Airflow's database does not respond"
    found = get(stage, "/api/v2/flows")
    assert [fault["code"] for fault in found["errors"]] == ["airflow_failed"]
    assert found["total"] == len(NAMES)
    assert all(flow["paused"] is None for flow in found["flows"])
    assert get(stage, "/api/v2/health")["schedule"] == "Airflow's database does not respond"


def with_store(stage: Stage, url: str) -> Stage:
    context = stage.context
    store = MetricsStore(url, timeout_seconds=0.2)
    broken = AppContext(context.access, lambda: store, context.scheduler, context.configuration)
    return Stage(broken, stage.scheduler, stage.file, stage.database)


def test_a_store_that_is_no_database(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "broken.db"
    file.write_bytes(b"this is no database, and long enough to be seen as none" * 100)
    broken = with_store(stage, f"sqlite:///{file}")
    found = get(broken, "/api/v2/flows")
    assert [fault["code"] for fault in found["errors"]] == ["store_unavailable"]
    assert found["total"] == len(NAMES), "those of the file and of Airflow"
    assert all(flow["reported_ms"] is None and flow["lag"] is None for flow in found["flows"])
    assert {flow["health"]["state"] for flow in found["flows"]} == {"unknown"}
    assert get(broken, "/api/v2/health")["store"]
    for path in (f"{F}/topics", f"{F}/runs", f"{F}/metrics/byte-rate", "/api/v1/replications"):
        assert [one["code"] for one in get(broken, path, status=503)["errors"]] == ["store_unavailable"]


def test_a_store_of_newer_software(stage: Stage) -> None:
    with sqlite3.connect(stage.database) as connection:
        connection.execute("update srm_metrics_version set version_num = 'ffff'")
    connection.close()
    newer = with_store(stage, f"sqlite:///{stage.database}")
    assert [one["code"] for one in get(newer, f"{F}/topics", status=503)["errors"]] == ["store_too_new"]
    assert [one["code"] for one in get(newer, "/api/v2/flows")["errors"]] == ["store_too_new"]


def test_a_file_that_is_broken_hides_no_flow(stage: Stage) -> None:
    stage.file.write_text("clusters =\n")
    found = get(stage, "/api/v2/flows")
    assert [fault["code"] for fault in found["errors"]] == ["configuration_broken"]
    assert found["total"] == len(NAMES)
    assert get(stage, f"{F}/topics")["total"] == SHAPE.topics
    get(stage, "/api/v2/flows/east/moon", status=503)


def test_a_flow_with_a_wrong_key_says_so(stage: Stage) -> None:
    stage.file.write_text(stage.file.read_text() + f"{FIRST}.tasks.max = many\n")
    found = get(stage, F)["flow"]
    assert found["misconfigured"]
    assert "tasks.max" in found["health"]["cause"]


def test_names_with_markup_are_data(same_stage: Stage) -> None:
    name = "%3Cimg%20src=x%20onerror=alert(1)%3E"
    answer = same_stage.client().get(f"{F}/topics/{name}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/json"
    assert get(same_stage, f"{F}/topics?search={name}")["total"] == 0


def test_a_flow_that_only_the_history_knows_is_shown_while_it_reports(stage: Stage) -> None:
    """On pages, in the graph, in alarms and for Prometheus; by its name as long as its history is kept."""

    def shown() -> set[bool]:
        alarms = stage.client("viewer").get("/metrics?detail=flow").text
        return {
            str(FIRST) in {flow["flow"] for flow in get(stage, "/api/v2/flows")["flows"]},
            str(FIRST) in get(stage, "/api/v2/health")["flows"],
            f'srm_flow_alarm{{source="{FIRST.source}",target="{FIRST.target}"' in alarms,
        }

    def last_reported(ago_ms: int) -> None:
        with sqlite3.connect(stage.database) as connection:
            connection.execute(
                "update flow set reported_ms = :at, history = json_set(history, '$.schedule_interval_seconds', 3600.0, "
                "'$.reported_ms', :at, '$.ended_ms', :at) where name = :flow",
                {"at": now_ms() - ago_ms, "flow": str(FIRST)},
            )
            connection.execute("update run set reported_ms = :at, finished_ms = :at", {"at": now_ms() - ago_ms})
        connection.close()

    text = "".join(line for line in stage.file.read_text().splitlines(True) if not line.startswith(str(FIRST)))
    stage.file.write_text(text)
    del stage.scheduler.known[FIRST]
    last_reported(HOUR)
    assert shown() == {True}  # another installation may run it
    last_reported(5 * HOUR)
    assert shown() == {False}  # it would be stalled, were it there
    stage.file.write_text("nonsense")
    assert shown() == {True}  # it may be in the file
    last_reported(25 * HOUR)
    assert shown() == {False}
    assert get(stage, F)["flow"]["flow"] == str(FIRST)
