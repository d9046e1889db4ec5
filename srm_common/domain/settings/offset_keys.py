"""Keys for offsets, checkpoints, heartbeats and their topics."""

from __future__ import annotations

from collections.abc import Iterator

from srm_common.domain.settings.key import WORKER_LEVELS, Key, Kind

_BROKER_DEFAULT = "-1 leaves it to the broker."
_TO_MM2 = "MirrorMaker 2's default."


def offsets_keys() -> Iterator[Key]:
    section = "Offsets, checkpoints, heartbeats"
    yield Key(
        "emit.heartbeats.enabled",
        section,
        Kind.SWITCH,
        "true",
        "Write heartbeats, to the clusters in `heartbeats.topic.location`.",
        _TO_MM2,
        field="emit_heartbeats",
        legacy=("emit.heartbeats",),
    )
    yield Key(
        "emit.heartbeats.interval.seconds",
        section,
        Kind.NUMBER,
        "1",
        "How often in long runs, unless `schedule.interval.seconds` is longer. In addition each run writes one.",
        _TO_MM2,
        unit="seconds",
        field="emit_heartbeats_interval_seconds",
    )
    yield Key(
        "heartbeats.topic.location",
        section,
        Kind.CHOICE,
        "auto",
        "Clusters that heartbeats are written to. Those on the source are replicated, which proves that the flow "
        "copies; `target`, as in MirrorMaker 2, needs no permission to write to the source. `auto` is `both`, or "
        "`target` if `offset-syncs.topic.location = target` indicates that the source must not be written to.",
        "A source that no flow leads to has heartbeats, too.",
        choices=("auto", "both", "source", "target"),
        field="heartbeats_topic_location",
    )
    yield Key(
        "emit.checkpoints.enabled",
        section,
        Kind.SWITCH,
        "true",
        "Write translated group offsets to the checkpoints topic.",
        _TO_MM2,
        field="emit_checkpoints",
        legacy=("emit.checkpoints",),
    )
    yield Key(
        "emit.checkpoints.interval.seconds",
        section,
        Kind.NUMBER,
        "60",
        "How often at most, in whole runs; 0 means each run.",
        _TO_MM2,
        unit="seconds",
        field="emit_checkpoints_interval_seconds",
        legacy=("emit.checkpoints.interval",),
    )
    yield Key(
        "emit.checkpoints.in.runs.interval.seconds",
        section,
        Kind.NUMBER,
        "5",
        "How often at most while a run copies, for groups that moved, and once more after copying; 0 means only by the "
        "task after the run. Rounds that take long are less frequent.",
        "Losing a cluster costs seconds of repetition, at any time.",
        minimum=0,
        unit="seconds",
        field="emit_checkpoints_in_runs_interval_seconds",
    )
    yield Key(
        "sync.group.offsets.enabled",
        section,
        Kind.SWITCH,
        "false",
        "Commit translated offsets for groups that are idle on the target.",
        _TO_MM2,
        field="sync_group_offsets",
        legacy=("sync.group.offsets",),
    )
    yield Key(
        "sync.group.offsets.interval.seconds",
        section,
        Kind.NUMBER,
        "60",
        "How often at most, together with checkpoints: the longer of the two intervals applies, in whole runs.",
        _TO_MM2,
        unit="seconds",
        field="sync_group_offsets_interval_seconds",
    )
    yield Key(
        "emit.offset-syncs.enabled",
        section,
        Kind.SWITCH,
        "true",
        "Write MirrorMaker 2's offset syncs, for tools that read them.",
        _TO_MM2,
        field="emit_offset_syncs",
    )
    yield Key(
        "offset-syncs.topic.location",
        section,
        Kind.CHOICE,
        "source",
        "Cluster that holds the offset-syncs topic.",
        _TO_MM2,
        choices=("source", "target"),
        field="offset_syncs_topic_location",
    )
    yield Key(
        "offset.lag.max",
        section,
        Kind.WHOLE,
        "100",
        "Records between two offset syncs. Translation here is exact regardless of it.",
        _TO_MM2,
        minimum=0,
        unit="records",
        field="offset_lag_max",
    )


def state_keys() -> Iterator[Key]:
    section = "State topics"
    for name, field, what in (
        ("heartbeats.topic", "heartbeats_replication_factor", "the heartbeats topic"),
        ("checkpoints.topic", "checkpoints_replication_factor", "the checkpoints topic"),
        ("offset-syncs.topic", "offset_syncs_replication_factor", "the offset-syncs topic"),
    ):
        yield Key(
            f"{name}.replication.factor",
            section,
            Kind.WHOLE,
            "3",
            f"Replicas of {what}. {_BROKER_DEFAULT}",
            _TO_MM2,
            minimum=-1,
            field=field,
        )
    yield Key(
        "offset.storage.replication.factor",
        section,
        Kind.WHOLE,
        "3",
        "Replicas of the topics that hold committed offsets, the offset map and run records. " + _BROKER_DEFAULT,
        _TO_MM2,
        minimum=-1,
        levels=WORKER_LEVELS,
        field="internal_replication_factor",
    )
    yield Key(
        "status.storage.replication.factor",
        section,
        Kind.WHOLE,
        "3",
        f"Replicas of `mm2-status.<source>.internal`. {_BROKER_DEFAULT}",
        _TO_MM2,
        minimum=-1,
        levels=WORKER_LEVELS,
        field="status_replication_factor",
    )
    yield Key(
        "config.storage.replication.factor",
        section,
        Kind.WHOLE,
        "3",
        f"Replicas of `mm2-configs.<source>.internal`. {_BROKER_DEFAULT}",
        _TO_MM2,
        minimum=-1,
        levels=WORKER_LEVELS,
        field="config_replication_factor",
    )
    yield Key(
        "offset.storage.partitions",
        section,
        Kind.WHOLE,
        "25",
        "Partitions of the offsets topic when it is created.",
        _TO_MM2,
        minimum=1,
        levels=WORKER_LEVELS,
        field="offsets_partitions",
    )
    yield Key(
        "status.storage.partitions",
        section,
        Kind.WHOLE,
        "5",
        "Partitions of the status topic when it is created.",
        _TO_MM2,
        minimum=1,
        levels=WORKER_LEVELS,
        field="status_partitions",
    )
