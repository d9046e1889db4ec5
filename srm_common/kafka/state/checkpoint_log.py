"""The checkpoints topic: the newest checkpoint of every group and partition, by any writer."""

from __future__ import annotations

from dataclasses import dataclass, field

from srm_common.domain.offsets.checkpoints import Checkpoint
from srm_common.errors import CorruptRecord
from srm_common.kafka.state.state_reader import StateReader
from srm_common.wire.state.mm2 import decode_checkpoint

#: Group, topic (as named on the target), partition.
Place = tuple[str, str, int]


@dataclass(frozen=True)
class NewestCheckpoints:
    """``by_place`` in the order of the log; ``written_ms`` is when each was written. ``unreadable`` has one sentence
    for each record that is not a checkpoint of a known version: these are skipped, as by MirrorMaker 2."""

    by_place: dict[Place, Checkpoint] = field(default_factory=dict)
    written_ms: dict[Place, int] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)


def newest_checkpoints(reader: StateReader, topic: str) -> NewestCheckpoints:
    """The newest checkpoints in ``topic``; none where it does not exist.

    An unreadable record hides earlier ones with its key, since they may no longer be valid.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the cluster answers.
    """
    checkpoints = NewestCheckpoints()
    for record in reader.last_records(topic).values():
        if record.value is None:
            continue
        try:
            checkpoint = decode_checkpoint(record.key, record.value)
            if min(checkpoint.partition, checkpoint.upstream, checkpoint.downstream) < 0:
                raise CorruptRecord(f"the checkpoint of group {checkpoint.group} on {checkpoint.topic} is negative")
        except CorruptRecord as error:
            checkpoints.unreadable.append(f"{topic}-{record.partition} at offset {record.offset}: {error}")
            continue
        place = checkpoint.group, checkpoint.topic, checkpoint.partition
        checkpoints.by_place[place] = checkpoint
        checkpoints.written_ms[place] = record.timestamp_ms
    return checkpoints
