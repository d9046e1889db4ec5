from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.cli.commands.status import heartbeats_text
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow.heartbeats import Heartbeat, ancestry, beat_seconds, hops, silent_after_seconds
from srm_common.domain.monitoring.heartbeat_report import (
    CopiedHeartbeat,
    HeartbeatReport,
    Hop,
    by_distance,
    make_heartbeat_report,
)
from srm_common.domain.policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    MigratingReplicationPolicy,
    ReplicationPolicy,
)
from srm_common.domain.runs.run_record import RunRecord, RunState
from srm_common.domain.topics.state_topics import written_heartbeats

FLOW = FlowSettings(FlowName("a", "b"), ClusterSettings.plaintext("a", "h:1"), ClusterSettings.plaintext("b", "h:2"))
POLICIES: list[ReplicationPolicy] = [
    DefaultReplicationPolicy(),
    DefaultReplicationPolicy("__"),
    IdentityReplicationPolicy(source_alias="x"),
    MigratingReplicationPolicy(source_alias="x"),
]


@pytest.mark.parametrize(
    ("topic", "alias", "expected"),
    # MirrorClientTest.testCountHops and its like.
    [
        ("heartbeats", "source", -1),
        ("source", "source", -1),
        ("source1.heartbeats", "source1", 1),
        ("source2.source1.heartbeats", "source1", 2),
        ("source2.source1.heartbeats", "source2", 1),
        ("source3.source2.source1.heartbeats", "source1", 3),
        ("source3.source2.source1.heartbeats", "source4", -1),
    ],
)
def test_hops(topic: str, alias: str, expected: int) -> None:
    assert hops(DefaultReplicationPolicy(), [topic], alias) == expected


def test_the_shortest_way_counts() -> None:
    topics = ["c.b.a.heartbeats", "heartbeats", "a.heartbeats", "b.a.heartbeats"]
    assert [hops(DefaultReplicationPolicy(), topics, alias) for alias in "abcd"] == [1, 1, 1, -1]


@given(st.lists(st.from_regex(r"[a-z]{1,3}", fullmatch=True), unique=True, max_size=5), st.sampled_from(POLICIES))
def test_a_name_tells_the_whole_way_under_every_policy(aliases: list[str], policy: ReplicationPolicy) -> None:
    topic = "heartbeats"
    for alias in aliases:
        topic = policy.format_remote_topic(alias, topic)
    assert policy.is_heartbeats_topic(topic)
    assert ancestry(policy, topic) == tuple(reversed(aliases))


def test_circles_end() -> None:
    class Everywhere(DefaultReplicationPolicy):
        def topic_source(self, topic: str) -> str | None:
            return "a"

        def upstream_topic(self, topic: str) -> str | None:
            return topic

    assert ancestry(Everywhere(), "t") == ("a",)
    assert hops(Everywhere(), ["t"], "b") == -1


def test_where_heartbeats_are_written() -> None:
    def places(**settings: object) -> list[str]:
        return [topic.location for topic in written_heartbeats(replace(FLOW, **settings))]  # type: ignore[arg-type]

    assert places() == ["target", "source"]
    assert places(heartbeats_topic_location="source") == ["source"]
    assert places(heartbeats_topic_location="target") == ["target"]
    assert places(offset_syncs_topic_location="target") == ["target"]
    assert len(places(offset_syncs_topic_location="target", heartbeats_topic_location="both")) == 2
    assert places(emit_heartbeats=False) == []


def test_when_a_flow_counts_as_silent() -> None:
    assert beat_seconds(replace(FLOW, schedule_interval_seconds=0, emit_heartbeats_interval_seconds=0)) == 1
    assert silent_after_seconds(FLOW) == 120  # four schedule periods
    assert silent_after_seconds(replace(FLOW, schedule_interval_seconds=1)) == 60
    assert silent_after_seconds(replace(FLOW, emit_heartbeats_interval_seconds=300)) == 1200
    assert silent_after_seconds(replace(FLOW, heartbeats_topic_location="target")) is None
    assert silent_after_seconds(replace(FLOW, heartbeats_replication=False)) is None
    assert silent_after_seconds(replace(FLOW, emit_heartbeats=False)) is None


NEAR = CopiedHeartbeat("a.heartbeats", ("a", "b"), Heartbeat("a", "b", 1_000_000), 1_000_850)
FAR = CopiedHeartbeat("a.z.heartbeats", ("z", "a", "b"), Heartbeat("z", "a", 990_000), 1_002_300)


def test_a_fresh_heartbeat() -> None:
    report = make_heartbeat_report(FLOW, 1_010_000, [FAR, NEAR])
    assert [heartbeat.topic for heartbeat in report.copied] == ["a.heartbeats", "a.z.heartbeats"]
    assert (report.age_ms, report.silence) == (10_000, None)
    assert report.sentence() == (
        "The newest heartbeat of 'a' was written 10 s ago and has arrived, after 850 ms on its way"
    )
    document = report.to_json()
    assert document["heartbeats"][1] | {"by_hop": None} == {
        "topic": "a.z.heartbeats",
        "cluster": "z",
        "path": ["z", "a", "b"],
        "hops": 2,
        "written_by": "z->a",
        "written_ms": 990_000,
        "age_ms": 20_000,
        "arrived_ms": 1_002_300,
        "latency_ms": 12_300,
        "by_hop": None,
    }


def test_a_clock_that_is_ahead_is_said() -> None:
    assert "was written 0 s ago" in str(make_heartbeat_report(FLOW, 940_000, [NEAR]).sentence())
    assert make_heartbeat_report(FLOW, 939_999, [NEAR]).sentence() == (
        "The newest heartbeat of 'a' has arrived; the clock of its writer is 60 s ahead, so its age is unknown"
    )


def test_silence_is_said() -> None:
    assert make_heartbeat_report(FLOW, 1_120_000, [NEAR]).silence is None
    silent = make_heartbeat_report(FLOW, 1_120_001, [NEAR])
    assert "the newest heartbeat of 'a' copied by a->b is 2 min old" in str(silent.silence)
    assert silent.sentence() == silent.silence
    # Heartbeats of clusters further up may be missing for reasons of other flows, and do not stand for the source's.
    never = make_heartbeat_report(FLOW, 0, [FAR])
    assert "no heartbeat of 'a' has been copied by a->b; one is due every 30 s" in str(never.silence)
    assert make_heartbeat_report(replace(FLOW, emit_heartbeats=False), 0).sentence() is None
    unknown = make_heartbeat_report(FLOW, 0, fault="no right")
    assert (unknown.silence, unknown.sentence()) == (None, "Heartbeats are not known: no right")


@pytest.mark.parametrize(
    ("started_ms", "ended_ms", "silent_ms"),
    [
        (1_000_000, 4_000_000, 100_000),
        (1_000_000, None, 0),
        (900_000, 4_000_000, 100_000),  # written while the run was under way
        (1_060_000, 4_000_000, 160_000),
        (4_100_000, 4_100_000, 3_100_000),  # a run that could not begin
    ],
)
def test_what_is_written_during_a_run_is_not_missed(started_ms: int, ended_ms: int | None, silent_ms: int) -> None:
    run = RunRecord("a->b", "r", started_ms, ended_ms, 1, RunState.DONE if ended_ms else RunState.RUNNING)
    report = make_heartbeat_report(FLOW, 4_100_000, [NEAR], run=run)
    assert (report.age_ms, report.silent_ms) == (3_100_000, silent_ms)
    assert (report.silence is None) == (silent_ms <= 120_000)
    assert HeartbeatReport.from_json(report.to_json()) == report


def test_hops_in_words() -> None:
    traced = replace(
        FAR, by_hop=(Hop("z", "a", 11_000), Hop("a", "b", fault="is unknown: the offset map does not have it"))
    )
    assert [str(hop) for hop in traced.by_hop] == ["z->a 11.0 s", "a->b is unknown: the offset map does not have it"]
    text = heartbeats_text(make_heartbeat_report(FLOW, 1_010_000, [traced, NEAR]))
    assert str(text[-1]).startswith("The newest heartbeat of 'a'")
    assert heartbeats_text(make_heartbeat_report(replace(FLOW, emit_heartbeats=False), 0)) == [
        "a->b has brought no heartbeats, and is not configured to."
    ]


def test_metrics_have_one_of_each_distance() -> None:
    ways = [
        replace(FAR, topic=f"a.{way}.z.heartbeats", path=("z", way, "a", "b"), beat=beat)
        for way, beat in (
            ("u", None),
            ("x", Heartbeat("z", "x", 980_000)),
            ("y", Heartbeat("z", "y", 995_000)),
            ("w", Heartbeat("z", "w", 990_000)),
        )
    ]
    found = by_distance(make_heartbeat_report(FLOW, 1_010_000, [NEAR, FAR, *ways]).to_json()["heartbeats"])
    assert [one["topic"] for one in found] == ["a.heartbeats", "a.z.heartbeats", "a.y.z.heartbeats"]
