"""The lag of now in place of the report's, in every answer that tells it; what clusters say is told by
tests/kafka/monitoring/test_lag_everywhere.py."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from bench.history import Scenario
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.monitoring.flow_lag import FlowLag, PartitionLag
from srm_common.domain.topic_partition import TopicPartition
from srm_common.rest.query_parameters import now_ms
from srm_common.usecases.monitoring.lag_watch import LagWatch
from tests.unit.rest.conftest import NAMES, Stage, app_of
from tests.unit.rest.people import HEADER

FLOW = NAMES[0]
PATH = f"/api/v2/flows/{FLOW.source}/{FLOW.target}"


class Known(LagWatch):
    """Knows of one flow."""

    def __init__(self, lag: FlowLag, flow: FlowName = FLOW) -> None:
        super().__init__()
        self._lag, self._flow = lag, flow

    def of(self, flows: Iterable[FlowSettings]) -> dict[FlowName, FlowLag]:
        return {flow.name: self._lag for flow in flows if flow.name == self._flow}


def client(stage: Stage, taken_ms: int, fault: str | None = None) -> tuple[TestClient, FlowLag]:
    """Of the flow's topics the first in the alphabet waits most."""
    rows = stage.context.store.partitions(str(FLOW)).rows
    topics = sorted({row.topic for row in rows})
    partitions = {
        TopicPartition(row.topic, row.partition): PartitionLag(
            5, 5 + 1000 * (len(topics) - topics.index(row.topic)), taken_ms - 7000
        )
        for row in rows
    }
    lag = FlowLag(taken_ms, partitions, fault)
    return TestClient(app_of(replace(stage.context, lag=Known(lag))), headers={HEADER: "viewer"}), lag


def test_it_stands_everywhere_and_topics_are_sorted_by_it(same_stage: Stage) -> None:
    taken = now_ms()
    asked, lag = client(same_stage, taken, fault="cluster x does not respond")
    (flow,) = [one for one in asked.get("/api/v2/flows").json()["flows"] if one["flow"] == str(FLOW)]
    assert (flow["lag"], flow["lag_ms"], flow["behind_ms"]) == (lag.whole.records.most, taken, 7000)
    assert flow["lag_fault"] == "cluster x does not respond"
    assert flow["metrics"]["replication-records-lag"]["latest"] == lag.whole.records.most
    assert flow["metrics"]["replication-lag-ms"]["latest"] == 7000

    topics = asked.get(f"{PATH}/topics?order=-lag").json()["topics"]
    assert [topic["lag"] for topic in topics] == sorted(
        (topic.records.least for topic in lag.topics.values()), reverse=True
    )
    assert [topic["topic"] for topic in topics] == sorted(lag.topics), "by the lag that is shown, not by the report's"
    page = asked.get(f"{PATH}/topics?order=lag&offset=1&limit=2").json()
    assert [one["topic"] for one in page["topics"]] == sorted(lag.topics, reverse=True)[1:3]
    assert page["total"] == len(lag.topics)
    first = asked.get(f"{PATH}/topics/{topics[0]['topic']}").json()["topic"]
    assert (first["lag"], first["lag_ms"]) == (topics[0]["lag"], taken)
    for one in asked.get(f"{PATH}/partitions").json()["partitions"]:
        known = lag.partitions[TopicPartition(one["topic"], one["partition"])]
        assert (one["lag"], one["end"], one["position"], one["lag_ms"]) == (known.records, known.end, 5, taken)
    old = f"/api/v1/cluster-metrics/{FLOW.source}"
    wanting = asked.get(f"{old}/replication-records-lag?target={FLOW.target}").json()
    assert wanting["errors"] == ["the current lag is unknown: cluster x does not respond"]
    assert asked.get(f"{old}/byte-rate?target={FLOW.target}").json()["errors"] == []
    points = asked.get(f"{PATH}/metrics/replication-records-lag").json()["points"]
    assert (points[-1]["latest"], points[-1]["latest_ms"]) == (lag.whole.records.most, taken)


def test_what_no_cluster_can_tell_is_unknown_everywhere(same_stage: Stage) -> None:
    """One partition has no leader: what is known of the others is not told as the whole."""
    taken = now_ms()
    _, lag = client(same_stage, taken)
    silent = min(lag.partitions)
    known = {place: one for place, one in lag.partitions.items() if place != silent}
    lag = FlowLag(taken, known, f"{silent[0]}-{silent[1]} has no leader", frozenset({silent}))
    asked = TestClient(app_of(replace(same_stage.context, lag=Known(lag))), headers={HEADER: "viewer"})
    (flow,) = [one for one in asked.get("/api/v2/flows").json()["flows"] if one["flow"] == str(FLOW)]
    least = sum(partition_lag.records for partition_lag in known.values())
    assert (flow["lag"], flow["behind_ms"], flow["lag_ms"]) == (None, None, taken)
    assert (flow["lag_bounds"]["least"], flow["lag_bounds"]["unknown"]) == (least, 1)
    assert flow["lag_bounds"]["text"] == f"at least {least}, unknown in 1 of {len(lag.partitions) + 1} partitions"
    assert flow["metrics"]["replication-lag-unknown-partitions"]["latest"] == 1
    assert flow["metrics"]["replication-records-lag"]["latest_ms"] < taken, "of the report"
    topics = {one["topic"]: one for one in asked.get(f"{PATH}/topics").json()["topics"]}
    assert {topic for topic, one in topics.items() if one["lag"] is None} == {silent[0]}
    partitions = asked.get(f"{PATH}/partitions").json()["partitions"]
    unknown = [partition for partition in partitions if partition["lag"] is None]
    assert [(one["topic"], one["partition"], one["end"], one["lag_ms"]) for one in unknown] == [(*silent, None, taken)]
    points = asked.get(f"{PATH}/metrics/replication-records-lag").json()["points"]
    assert points[-1]["latest_ms"] < taken, "no point for a sum that nobody knows"

    text = asked.get("/metrics").text
    mine = f'source="{FLOW.source}",target="{FLOW.target}"'
    place = f'{mine},topic="{silent[0]}"'
    assert f"srm_flow_lag_records{{{mine}}}" not in text
    assert f"srm_flow_lag_seconds{{{mine}}}" not in text
    assert f"srm_flow_lag_unknown_partitions{{{mine}}} 1\n" in text
    assert f"srm_topic_lag_records{{{place}}}" not in text
    assert f"srm_topic_lag_unknown_partitions{{{place}}} 1\n" in text
    assert f'srm_partition_lag_records{{{place},partition="{silent[1]}"}}' not in text
    assert f'srm_partition_lag_records{{{place},partition="{1 - silent[1]}"}} 4000\n' in text


@pytest.mark.parametrize("path", ["", "/topics", "/partitions"])
def test_what_is_older_than_the_report_gives_way_to_it(same_stage: Stage, path: str) -> None:
    (row,) = same_stage.context.store.flows([str(FLOW)])
    old, _ = client(same_stage, row.reported_ms - 1)
    told = old.get(f"{PATH}{path}").json()
    ones = [told["flow"]] if "flow" in told else told.get("topics") or told["partitions"]
    assert {one["lag_ms"] for one in ones} == {row.reported_ms}
    if not path:
        assert row.history.lag is not None
        assert ones[0]["lag"] == row.history.lag.most


def test_a_record_that_waited_before_the_report_and_still_does_is_told_by_its_age_then(same_stage: Stage) -> None:
    """No report tells how old records are; where nothing was copied since the clusters were asked it is known."""
    behind = NAMES[list(Scenario).index(Scenario.BEHIND)]
    waiting = [row for row in same_stage.context.store.partitions(str(behind)).rows if row.lag]
    (stands, moved), reported_ms = waiting[:2], waiting[0].reported_ms
    known = {
        TopicPartition(row.topic, row.partition): PartitionLag(position, position + 9, reported_ms - 7000)
        for row, position in ((stands, stands.position), (moved, (moved.position or 0) - 1))
        if position is not None
    }
    watch = Known(FlowLag(reported_ms - 3000, known), behind)
    asked = TestClient(app_of(replace(same_stage.context, lag=watch)), headers={HEADER: "viewer"})
    found = asked.get(f"/api/v2/flows/{behind.source}/{behind.target}/partitions").json()["partitions"]
    told = {(one["topic"], one["partition"]): one for one in found}
    one, other = (told[row.topic, row.partition] for row in (stands, moved))
    assert (one["lag"], one["lag_ms"], one["behind_ms"]) == (stands.lag, reported_ms, 7000)
    assert (other["lag"], other["lag_ms"], other["behind_ms"]) == (moved.lag, reported_ms, None)


def test_the_lag_of_now_is_not_a_point_too_many(same_stage: Stage) -> None:
    (row,) = same_stage.context.store.flows([str(FLOW)])
    taken = row.reported_ms + 60_000
    asked, lag = client(same_stage, taken)
    # The lag was taken at the end of the range, behind its last bucket.
    query = f"?from_ms={row.reported_ms - 3_600_000}&to_ms={taken}&samples=1"
    (point,) = asked.get(f"{PATH}/metrics/replication-records-lag{query}").json()["points"]
    assert (point["latest"], point["latest_ms"]) == (lag.whole.records.most, taken)


def test_the_lag_that_comes_while_a_request_is_on_its_way_stands_in_its_statistics(same_stage: Stage) -> None:
    """The range ends when the request begins, and clusters are asked every second."""
    taken = now_ms()
    asked, lag = client(same_stage, taken)
    query = f"?from_ms={taken - 3_600_000}&to_ms={taken - 200}"
    flow = asked.get(f"{PATH}{query}").json()["flow"]
    assert flow["lag"] == flow["metrics"]["replication-records-lag"]["latest"] == lag.whole.records.most
    points = asked.get(f"{PATH}/metrics/replication-records-lag{query}").json()["points"]
    assert points[-1]["latest"] == lag.whole.records.most


def test_a_range_of_the_past_is_as_it_was(same_stage: Stage) -> None:
    (row,) = same_stage.context.store.flows([str(FLOW)])
    asked, _ = client(same_stage, now_ms())
    plain = same_stage.client()
    query = f"?from_ms={row.reported_ms - 3_600_000}&to_ms={row.reported_ms - 60_000}"
    path = f"{PATH}/metrics/replication-records-lag{query}"
    assert asked.get(path).json()["points"] == plain.get(path).json()["points"]
    before, now = (
        test_client.get(f"{PATH}{query}").json()["flow"]["metrics"]["replication-records-lag"]
        for test_client in (plain, asked)
    )
    assert before == now
