"""Keys for offsets, checkpoints, heartbeats and their topics."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from srm_common.domain.settings.key import CONNECTOR_LEVELS, LARGEST_INT, LARGEST_SHORT, WORKER_LEVELS, Key, Kind

_BROKER_DEFAULT = "-1 leaves it to the broker."
_TO_MM2 = "MirrorMaker 2's default."


def offsets_keys() -> Iterator[Key]:
    key = partial(Key, section="Offsets, checkpoints, heartbeats")
    yield key(
        "emit.heartbeats.enabled", Kind.SWITCH, "true", flow_field="emit_heartbeats", legacy=("emit.heartbeats",)
    ).means("Write heartbeats, to the clusters in `heartbeats.topic.location`.", _TO_MM2)
    yield key("emit.heartbeats.interval.seconds", Kind.NUMBER, "1", unit="seconds").means(
        "How often in long runs, unless `schedule.interval.seconds` is longer. In addition each run writes one. A "
        "negative value turns heartbeats off.",
        _TO_MM2,
    )
    yield key("heartbeats.topic.location", Kind.CHOICE, "auto", choices=("auto", "both", "source", "target")).means(
        "Clusters that heartbeats are written to. Those on the source are replicated, which proves that the flow "
        "copies; `target`, as in MirrorMaker 2, needs no permission to write to the source. `auto` is `both`, or "
        "`target` if `offset-syncs.topic.location = target` indicates that the source must not be written to.",
        "A source that no flow leads to has heartbeats, too.",
    )
    yield key(
        "emit.checkpoints.enabled", Kind.SWITCH, "true", flow_field="emit_checkpoints", legacy=("emit.checkpoints",)
    ).means("Write translated group offsets to the checkpoints topic.", _TO_MM2)
    yield key(
        "emit.checkpoints.interval.seconds", Kind.NUMBER, "60", unit="seconds", legacy=("emit.checkpoints.interval",)
    ).means("How often at most, in whole runs; 0 means each run. A negative value turns checkpoints off.", _TO_MM2)
    yield key("emit.checkpoints.in.runs.interval.seconds", Kind.NUMBER, "5", unit="seconds", minimum=0).means(
        "How often at most while a run copies, for groups that moved, and once more after copying; 0 means only by the "
        "task after the run. Rounds that take long are less frequent.",
        "Losing a cluster costs seconds of repetition, at any time.",
    )
    yield key(
        "sync.group.offsets.enabled",
        Kind.SWITCH,
        "false",
        flow_field="sync_group_offsets",
        legacy=("sync.group.offsets",),
    ).means("Commit translated offsets for groups that are idle on the target.", _TO_MM2)
    yield key("sync.group.offsets.interval.seconds", Kind.NUMBER, "60", unit="seconds").means(
        "How often at most, together with checkpoints: the longer of the two intervals applies, in whole runs. A "
        "negative value turns it off.",
        _TO_MM2,
    )
    yield key("emit.offset-syncs.enabled", Kind.SWITCH, "true", flow_field="emit_offset_syncs").means(
        "Write MirrorMaker 2's offset syncs, for tools that read them.", _TO_MM2
    )
    yield key(
        "offset-syncs.topic.location",
        Kind.CHOICE,
        "source",
        flow_field="offset_syncs_topic_location",
        choices=("source", "target"),
    ).means("Cluster that holds the offset-syncs topic.", _TO_MM2)
    yield key("offset.lag.max", Kind.WHOLE, "100", unit="records", minimum=0).means(
        "Records between two offset syncs. Translation here is exact regardless of it.", _TO_MM2
    )


def state_keys() -> Iterator[Key]:
    key = partial(Key, section="State topics", levels=WORKER_LEVELS)
    for name, field, what in (
        ("heartbeats.topic", "heartbeats_replication_factor", "the heartbeats topic"),
        ("checkpoints.topic", "checkpoints_replication_factor", "the checkpoints topic"),
        ("offset-syncs.topic", "offset_syncs_replication_factor", "the offset-syncs topic"),
    ):
        yield key(
            f"{name}.replication.factor",
            Kind.WHOLE,
            "3",
            flow_field=field,
            minimum=-1,
            maximum=LARGEST_SHORT,
            levels=CONNECTOR_LEVELS,
        ).means(f"Replicas of {what}. {_BROKER_DEFAULT}", _TO_MM2)
    yield key(
        "offset.storage.replication.factor",
        Kind.WHOLE,
        "3",
        flow_field="internal_replication_factor",
        minimum=-1,
        maximum=LARGEST_SHORT,
    ).means(
        "Replicas of the topics that hold committed offsets, the offset map and run records. " + _BROKER_DEFAULT,
        _TO_MM2,
    )
    yield key(
        "status.storage.replication.factor",
        Kind.WHOLE,
        "3",
        flow_field="status_replication_factor",
        minimum=-1,
        maximum=LARGEST_SHORT,
    ).means(f"Replicas of `mm2-status.<source>.internal`. {_BROKER_DEFAULT}", _TO_MM2)
    yield key(
        "config.storage.replication.factor",
        Kind.WHOLE,
        "3",
        flow_field="config_replication_factor",
        minimum=-1,
        maximum=LARGEST_SHORT,
    ).means(f"Replicas of `mm2-configs.<source>.internal`. {_BROKER_DEFAULT}", _TO_MM2)
    yield key(
        "offset.storage.partitions", Kind.WHOLE, "25", flow_field="offsets_partitions", minimum=1, maximum=LARGEST_INT
    ).means("Partitions of the offsets topic when it is created.", _TO_MM2)
    yield key(
        "status.storage.partitions", Kind.WHOLE, "5", flow_field="status_partitions", minimum=1, maximum=LARGEST_INT
    ).means("Partitions of the status topic when it is created.", _TO_MM2)
