"""The offsets topic had cleanup.policy=delete for a while: what the error says, done word by word, leaves each record
there once."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from srm_common.domain.flow import names
from srm_common.errors import StateTopicInvalid
from srm_common.testing import FakeCluster
from srm_common.usecases.offsets.repair_offsets import repair_offsets
from srm_common.wire.state.mm2 import partition_for, source_offset_key
from tests.unit.usecases.fakes import Sides

OFFSETS = names.offsets_topic("a")


def set_policy(kafka: FakeCluster, policy: str) -> None:
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, OFFSETS, incremental_configs=[entry])
    for answer in kafka.admin().incremental_alter_configs([resource]).values():
        answer.result()


def test_the_message_names_the_repair_of_offsets_that_have_expired(sides: Sides) -> None:
    rows = [b"%d" % number for number in range(4)]
    sides.source.create_topic("orders", 2)
    sides.refresh()
    for partition in (0, 1):
        sides.source.write("orders", [(b"k", row) for row in rows], partition=partition)
    sides.run("first")
    home = partition_for(source_offset_key("a", "orders", 0), sides.flow.offsets_partitions)
    set_policy(sides.target, "delete")
    log = sides.target.log(OFFSETS, home)
    log.delete_before(log.end)
    with pytest.raises(StateTopicInvalid) as refused:
        sides.run("second")
    assert str(refused.value) == (
        f"state topic {OFFSETS} on cluster 'b' cannot be used: cleanup.policy=delete must be compact, and records may "
        f"have been deleted already; fix it with: kafka-configs.sh --bootstrap-server {sides.target.bootstrap_servers} "
        f"--alter --entity-type topics --entity-name {OFFSETS} --add-config cleanup.policy=compact, then restore what "
        "was deleted, before the flow copies it again, with: srm-control repair --flow 'a->b'"
    )
    set_policy(sides.target, "compact")
    sides.close()
    assert [(one.topic, one.partition, one.next_offset) for one in repair_offsets(sides.flow)] == [("orders", 0, 4)]
    assert sides.run("third").records == 0
    assert (sides.values("a.orders", 0), sides.values("a.orders", 1)) == (rows, rows)
