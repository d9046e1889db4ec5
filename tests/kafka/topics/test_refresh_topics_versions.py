"""Planning between a broker of the oldest tested version and a new one, both ways."""

from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.topics.topic_settings import AFTER_MAX, BEFORE_MAX, DIFFERENCE_MAX, LONG_MAX, Source
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.testing import LocalKafka
from srm_common.usecases.flows.cluster_records import replicated_topics
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.monitoring.report_run import measure_clocks
from srm_common.usecases.topics.apply import apply_plan
from srm_common.usecases.topics.plan_topics import plan_topics

pytestmark = pytest.mark.kafka


def test_an_old_broker_on_either_side(target_kafka: LocalKafka, name: str) -> None:
    own = {"retention.ms": "86400000", "compression.type": "lz4"}
    with LocalKafka(name="old", version="3.3.2", settings={"log.message.timestamp.type": "LogAppendTime"}) as old:
        old.create_topic(
            name, partitions=2, config={**own, DIFFERENCE_MAX: "1000", "message.timestamp.type": "CreateTime"}
        )
        there = FlowSettings(
            FlowName("old", "new"),
            ClusterSettings.plaintext("old", old.bootstrap_servers),
            ClusterSettings.plaintext("new", target_kafka.bootstrap_servers),
            topics=(name,),
            replication_factor=1,
            emit_heartbeats=False,
            heartbeats_replication=False,
        )
        back = replace(there, name=FlowName("new", "old"), source=there.target, target=there.source)
        target_kafka.create_topic(f"{name}-back", config={**own, BEFORE_MAX: "1000"})
        back = replace(back, topics=(f"{name}-back",))
        for flow, remote in ((there, f"old.{name}"), (back, f"new.{name}-back")):
            results = apply_plan(flow, plan_topics(flow))
            assert [str(result) for result in results if result.error] == []
            assert plan_topics(flow).actions == ()
            (mapping,) = replicated_topics(flow)
            assert (mapping.downstream, bool(mapping.upstream_topic_id)) == (remote, True)
            settings = ClusterAdmin(flow.target).topic_settings([remote])[remote]
            assert {key: settings[key].value for key in own} == own
            # The old broker's own default would have replaced every record's time.
            assert (settings["message.timestamp.type"].value, settings["message.timestamp.type"].source) == (
                "CreateTime",
                Source.TOPIC,
            )
            limits = (BEFORE_MAX, AFTER_MAX) if flow is there else (DIFFERENCE_MAX,)
            assert {settings[key].value for key in limits} == {LONG_MAX}
        # Both tell their clocks, which are this host's.
        with FlowClusters(there) as clusters:
            clock = measure_clocks(clusters)
        assert clock.source_ms is not None
        assert clock.target_ms is not None
        assert max(abs(clock.source_ms), abs(clock.target_ms)) <= (clock.uncertainty_ms or 0) + 0.1
