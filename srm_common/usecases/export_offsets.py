"""Where consumer groups of the source stand on the target, by the checkpoints there: asks the target only, so that it
works while the source is down."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from srm_common.domain import names
from srm_common.domain.checkpoints import Checkpoint
from srm_common.domain.flow import FlowSettings
from srm_common.errors import CorruptRecord
from srm_common.kafka.compacted import StateReader, last_of_each_key
from srm_common.wire.mm2 import decode_checkpoint


@dataclass(frozen=True)
class ExportedOffsets:
    """``checkpoints`` sorted by group, topic and partition; ``written_ms``: when the newest and the oldest of them were
    written, by group. ``unreadable``: one sentence for each record that is no checkpoint."""

    checkpoints: tuple[Checkpoint, ...]
    written_ms: dict[str, tuple[int, int]]
    unreadable: tuple[str, ...] = ()

    @property
    def groups(self) -> list[str]:
        return sorted(self.written_ms)


def export_offsets(flow: FlowSettings, groups: Iterable[str] | None) -> ExportedOffsets:
    """The newest checkpoints of ``groups`` (None: of all).

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    wanted = None if groups is None else set(groups)
    topic = names.checkpoints_topic(flow)
    found: list[Checkpoint] = []
    written: dict[str, tuple[int, int]] = {}
    unreadable: list[str] = []
    with StateReader(flow.target, timeout_seconds=flow.admin_timeout_ms / 1000) as reader:
        records = last_of_each_key(reader.read(topic)).values() if reader.partitions(topic) else ()
        for record in records:
            if record.value is None:
                continue
            try:
                checkpoint = decode_checkpoint(record.key, record.value)
            except CorruptRecord as error:
                unreadable.append(f"{topic}-{record.partition} at offset {record.offset}: {error}")
                continue
            if wanted is not None and checkpoint.group not in wanted:
                continue
            found.append(checkpoint)
            newest, oldest = written.get(checkpoint.group, (record.timestamp_ms, record.timestamp_ms))
            written[checkpoint.group] = (max(newest, record.timestamp_ms), min(oldest, record.timestamp_ms))
    found.sort(key=lambda one: (one.group, one.topic, one.partition))
    return ExportedOffsets(tuple(found), written, tuple(unreadable))
