"""One record of srm-meta.internal that cannot be read keeps one topic from being copied, and every flow from taking its
copy for something else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from srm_common.domain.flow import FlowName, names
from srm_common.domain.flow.names import META_TOPIC
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.errors import CorruptRecord
from srm_common.settings_files.configuration import load_configuration
from srm_common.testing import FakeCluster
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.offsets.resume_points import CopyMaps
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.plan_topics import decide_topics
from srm_common.usecases.topics.refresh_topics import refresh_topics
from tests.slot_worker import here
from tests.unit.usecases.fakes import Sides, properties_of

WriteFile = Callable[..., Path]


def newest(kafka: FakeCluster, key: bytes) -> bytes | None:
    return [record.value for record in kafka.records(META_TOPIC) if record.key == key][-1]


def change_state(kafka: FakeCluster, flow: str, topic: str) -> bytes:
    """As a newer version might write it."""
    key = json.dumps(["topic", flow, topic], separators=(",", ":")).encode()
    document = json.loads(newest(kafka, key) or b"")
    value = json.dumps({**document, "state": "quarantined"}).encode()
    kafka.write(META_TOPIC, [(key, value)])
    return value


def test_only_the_topic_of_the_record_is_not_copied(sides: Sides) -> None:
    for topic in ("orders", "orders2"):
        sides.source.create_topic(topic)
    sides.refresh()
    sides.run("first")
    value = change_state(sides.target, "a->b", "orders2")
    for topic in ("orders", "orders2", "orders"):
        sides.source.write(topic, [(b"k", b"v")])
    sides.source.create_topic("orders3")
    sides.source.write("orders3", [(b"k", b"v")])
    refreshed = sides.refresh()
    said = (
        '\'["topic","a->b","orders2"]\' at offset 8 of srm-meta.internal on cluster \'b\' cannot be read: its state '
        "'quarantined' is not known; run with the newer software that wrote it"
    )
    assert refreshed.fault is not None
    assert "orders2: " in refreshed.fault
    record = sides.run("second")
    assert (record.state, record.records) == (RunState.FAILED, 3)
    assert record.error is not None
    assert record.error.startswith('orders2 is not copied: \'["topic"')
    assert record.error.endswith(said.partition("srm-meta")[2])
    assert len(sides.values("a.orders")) == 2
    assert len(sides.values("a.orders3")) == 1
    assert sides.values("a.orders2") == []
    # The newer version's record is as it was, also when the topic goes away.
    sides.source.delete_topic("orders2")
    sides.refresh()
    assert newest(sides.target, b'["topic","a->b","orders2"]') == value
    with pytest.raises(CorruptRecord, match="run with the newer software"):
        CopyMaps(sides.clusters())


@pytest.mark.parametrize("kept", [True, False])
def test_a_copy_whose_record_cannot_be_read_is_not_copied_back(
    configuration_file: WriteFile, sides: Sides, kept: bool
) -> None:
    """Also where the flow's state does not have the record either."""
    properties = {
        **properties_of(sides.flow),
        "topics": ".*",
        "a->b.topics": ".*",
        "b->a.enabled": "true",
        "b->a.heartbeats.replication.enabled": "false",
        "emit.heartbeats.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "replication.policy.class": "IdentityReplicationPolicy",
    }
    there, back = (load_configuration(configuration_file(properties)).flow(FlowName.parse(n)) for n in ("a->b", "b->a"))
    sides.source.create_topic("orders")
    sides.source.write("orders", [(b"k", b"v")])
    with FlowClusters(there) as clusters:
        refresh_topics(clusters, at_once=True)
        replicate(clusters, RunOptions("first"), here)
    change_state(sides.target, "a->b", "orders")
    if not kept:
        sides.target.delete_topic(names.flow_state_topic("a"))
    (decision,) = [one for one in decide_topics(back) if one.topic == "orders"]
    assert (decision.accepted, decision.code) == (False, "cycle" if kept else "undecided")
    if not kept:
        assert decision.reason.startswith("it is unknown where the records of orders on b come from: ")
