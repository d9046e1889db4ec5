"""Export where consumer groups of the source resume on the target, by the checkpoints there. Queries only the target,
so that it works while the source is down."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.offsets.checkpoints import Checkpoint
from srm_common.kafka.state.checkpoint_log import newest_checkpoints
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of


@dataclass(frozen=True)
class ExportedOffset:
    """``written_ms``: when the checkpoint was written, in milliseconds since the epoch."""

    checkpoint: Checkpoint
    written_ms: int


@dataclass(frozen=True)
class ExportedOffsets:
    """``offsets`` sorted by group, topic and partition. ``unreadable``: one sentence for each record that is no
    checkpoint."""

    offsets: tuple[ExportedOffset, ...]
    unreadable: tuple[str, ...] = ()

    @property
    def written_ms(self) -> dict[str, tuple[int, int]]:
        """By group: when the newest and the oldest of its checkpoints were written."""
        out: dict[str, tuple[int, int]] = {}
        for one in self.offsets:
            newest, oldest = out.get(one.checkpoint.group, (one.written_ms, one.written_ms))
            out[one.checkpoint.group] = (max(newest, one.written_ms), min(oldest, one.written_ms))
        return out


def export_offsets(flow: FlowSettings | FlowClusters, groups: Iterable[str] | None) -> ExportedOffsets:
    """The newest checkpoints of ``groups`` (None: of all).

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    wanted = None if groups is None else set(groups)
    with clusters_of(flow) as clusters:
        seconds = clusters.flow.admin_timeout_ms / 1000
        reader = clusters.target.clients.reader.with_patience(timeout_seconds=seconds)
        found = newest_checkpoints(reader, names.checkpoints_topic(clusters.flow))
    places = sorted(place for place in found.by_place if wanted is None or place[0] in wanted)
    return ExportedOffsets(
        tuple(ExportedOffset(found.by_place[place], found.written_ms[place]) for place in places),
        tuple(found.unreadable),
    )
