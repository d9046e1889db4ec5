"""The committed source offsets of a flow, next to the logs to which they refer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.names import StateKey
from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.source_topics import SourceTopics
from srm_common.errors import UnreachableCluster
from srm_common.kafka.state.source_offsets import SourceOffsets, read_source_offsets
from srm_common.kafka.state.state_topics import present_state_topics
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """One partition. ``offset`` is the next to copy, None without a position; ``log`` the source's log, None if it
    cannot be read; ``note`` a remark."""

    topic: str
    partition: int
    offset: int | None
    log: LogRange | None
    note: str = ""

    @property
    def lag(self) -> int | None:
        """Offsets that are not copied yet; None where that is not known."""
        return None if self.offset is None or self.log is None else max(0, self.log.end - self.offset)

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "log_start": None if self.log is None else self.log.start,
            "log_end": None if self.log is None else self.log.end,
            "lag": self.lag,
            "note": self.note,
        }


def list_source_offsets(flow: FlowSettings | FlowClusters) -> list[ListedOffset]:
    """Everything the flow has a position for, or remembers a start of. Changes nothing; a run may be going on.

    A source that does not respond is noted beside each partition.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError, StateError: as the target answers.
    """
    with clusters_of(flow) as clusters:
        offsets = committed_now(clusters)
        memory = SourceTopics.from_json(clusters.state.read(StateKey.TOPICS))
        pinned = {(topic, partition) for topic, known in memory.topics.items() for partition in known.pins}
        places = sorted({*offsets, *offsets.faults, *offsets.resets, *pinned})
        try:
            logs = logs_of(clusters, places)
        except UnreachableCluster as error:
            # Committed offsets are shown all the same; they are needed while the source is down, too.
            logs = dict.fromkeys(places, str(error))
    return [_listed(place, offsets, memory, logs[place]) for place in places]


def committed_now(flow: FlowSettings | FlowClusters) -> SourceOffsets:
    """What is committed, as far as it can be read at this moment; nothing where the flow never ran."""
    with clusters_of(flow) as clusters:
        target = clusters.target
        return read_source_offsets(
            clusters.flow,
            present_state_topics(target.reader, clusters.flow),
            stable_within_seconds=None,
            refuse_loss=False,
            request_timeout_ms=target.link_timeout_ms,
            pool=target.links,
        )


def logs_of(
    clusters: FlowClusters, places: Iterable[TopicPartition], *, missing_is_empty: bool = False
) -> dict[TopicPartition, LogRange | str]:
    """The source's logs; a sentence for each partition that cannot be read.

    Args:
        missing_is_empty: partitions that a topic does not have yet, or any more, count as empty.
    """
    wanted = list(places)
    if not wanted:
        return {}
    flow = clusters.flow
    with clusters.source_view() as source:
        # A partition without a leader is waited for; one of a topic that is gone never gets any.
        ids = source.topic_ids({topic for topic, _ in wanted})
        partitions = source.partitions({topic for topic, _ in wanted if ids[topic] is not None})
        # Asked for, one that does not exist would be waited for as one without a leader is.
        beyond = {
            place: f"the topic has no partition {place.partition} on {flow.source.alias}, only {len(known)}"
            for place in wanted
            if (known := partitions.get(place.topic)) and place.partition not in known
        }
        there = [place for place in wanted if ids[place[0]] is not None and place not in beyond]
        starts, faults = source.starts(there)
        ends, more = source.ends(there)
    gone = f"the topic does not exist on {flow.source.alias}, or may not be seen"
    faults = {**{place: gone for place in wanted if ids[place[0]] is None}, **beyond, **faults, **more}
    if missing_is_empty:
        starts, ends = {**starts, **dict.fromkeys(beyond, 0)}, {**ends, **dict.fromkeys(beyond, 0)}
    return {
        place: LogRange(starts[place], ends[place])
        if place in starts and place in ends
        else faults.get(place, "the source does not return it")
        for place in wanted
    }


def _listed(place: TopicPartition, offsets: SourceOffsets, memory: SourceTopics, log: LogRange | str) -> ListedOffset:
    committed = offsets.get(place)
    position = memory.position(*place, committed, offsets.copied_to.get(place))
    notes = []
    if place in offsets.faults:
        notes.append(str(offsets.faults[place]))
    chosen = memory.start(place[0])
    if committed is None and position is not None and place in offsets.resets:
        notes.append("set by hand; nothing committed since")
    elif committed is None and position is not None and chosen is not None:
        notes.append(f"nothing committed yet; starts here by {chosen.why}")
    elif position != committed:
        notes.append(f"continues here instead of the committed {committed}")
    elif committed is None and place in offsets.resets:
        notes.append("forgotten; starts like a partition without progress")
    if isinstance(log, str):
        notes.append(log)
    elif position is not None and position < log.start:
        notes.append(
            f"before the log start offset by {log.start - position}: these were deleted before they were copied"
        )
    elif position is not None and position > log.end:
        notes.append(f"beyond the log's end by {position - log.end}: the topic was truncated or created again")
    return ListedOffset(*place, position, log if isinstance(log, LogRange) else None, "; ".join(notes))
