"""The real MirrorMaker 2 between the clusters of a scenario, under the names that its flow has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from srm_common.testing import LocalKafka, LocalMirrorMaker, ReservedPort
from tests.faults.scenario import SOURCE, TARGET


@contextmanager
def mirror_maker(
    source: LocalKafka, target: LocalKafka, topic: str, *, exactly_once: bool, offsets_ms: int = 3_600_000
) -> Iterator[LocalMirrorMaker]:
    """It runs as long as the block, with the settings that its exactly-once support needs. Without that, it stores its
    offsets each ``offsets_ms`` only."""
    port = ReservedPort()
    arrow = f"{SOURCE}->{TARGET}"
    properties = {
        "clusters": f"{SOURCE}, {TARGET}",
        f"{SOURCE}.bootstrap.servers": source.bootstrap_servers,
        f"{TARGET}.bootstrap.servers": target.bootstrap_servers,
        f"{arrow}.enabled": "true",
        f"{arrow}.topics": topic,
        f"{arrow}.groups.exclude": ".*",
        f"{TARGET}->{SOURCE}.enabled": "false",
        f"{TARGET}->{SOURCE}.emit.heartbeats.enabled": "false",
        "tasks.max": "2",
        # The least that brokers allow: how long a killed worker is missed.
        f"{TARGET}.session.timeout.ms": "6000",
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "sync.topic.acls.enabled": "false",
        f"{SOURCE}.consumer.isolation.level": "read_committed",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://{port.address}",
        **{
            f"{name}.replication.factor": "1"
            for name in (
                "offset-syncs.topic",
                "checkpoints.topic",
                "heartbeats.topic",
                "config.storage",
                "offset.storage",
                "status.storage",
            )
        },
        "replication.factor": "1",
    }
    if exactly_once:
        properties[f"{TARGET}.exactly.once.source.support"] = "enabled"
    else:
        # By default once an hour, which is never: on a slow machine, Connect's minute would come before a kill.
        properties[f"{TARGET}.offset.flush.interval.ms"] = str(offsets_ms)
    try:
        with LocalMirrorMaker(properties, heap="512m") as started:
            yield started
    finally:
        port.release()
