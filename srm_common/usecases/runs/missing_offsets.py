"""Refuse to run a flow without progress whose copies MirrorMaker 2 has filled: it would copy everything again."""

from __future__ import annotations

from collections.abc import Iterable

from srm_common.domain.flow import names
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.copied_topics import CopiedTopic
from srm_common.errors import CorruptRecord, StateTopicInvalid, StateUnavailable
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.wire.mm2 import decode_offset_sync


def refuse_missing_offsets(clusters: FlowClusters, topics: Iterable[CopiedTopic]) -> None:
    """Call it for a flow that has neither source offsets nor an offset map.

    MirrorMaker 2's offset syncs tell that it copied a partition; that there is no progress means that it was lost, or
    that its connectors keep offsets under names of their own.

    Raises:
        StateTopicInvalid: a copy holds records that such a sync tells of.
        StateUnavailable: a copy that such a sync tells of does not say whether it holds any.
        UnreachableCluster, AccessDenied, ClusterError: as the clusters answer.
    """
    flow = clusters.flow
    synced = _synced(clusters)
    copies = {
        TopicPartition(topic.downstream, number): TopicPartition(topic.upstream, number)
        for topic in topics
        for number in range(topic.partitions)
        if (topic.upstream, number) in synced
    }
    if not copies:
        return
    with clusters.target.link("driver") as link:
        ends, faults = link.end_offsets(copies, timeout_seconds=flow.patience_seconds)
        starts, more_faults = link.start_offsets(copies, timeout_seconds=flow.patience_seconds)
    known = sorted(copies[place] for place, end in ends.items() if end > starts.get(place, end))
    unknown = faults | more_faults
    if unknown and not known:
        raise StateUnavailable(
            f"flow {flow.name} has no progress, and it is currently unknown whether MirrorMaker 2 has copied for it: "
            f"{next(iter(unknown.values()))}; run again"
        )
    if known:
        more = "" if len(known) == 1 else f" and {len(known) - 1} more partitions"
        raise StateTopicInvalid(
            f"flow {flow.name} has no progress, although MirrorMaker 2 has copied {known[0][0]}-{known[0][1]}{more}: "
            f"its offsets were lost, or are stored under other names, and continuing would copy everything again; "
            f"take the flow over with: srm-control takeover --flow '{flow.name}' (to copy from the start anyway: "
            f"srm-control source-offsets reset --topic '.*' --to earliest)"
        )


def _synced(clusters: FlowClusters) -> set[TopicPartition]:
    """The partitions of which there is an offset sync."""
    flow = clusters.flow
    topic = names.offset_syncs_topic(flow)
    cluster = clusters.source if flow.offset_syncs_topic_location == "source" else clusters.target
    found = set()
    reader = cluster.clients.reader.with_patience(
        timeout_seconds=flow.admin_timeout_ms / 1000, patience_seconds=flow.patience_seconds
    )
    for record in reader.read(topic) if reader.partitions(topic) else ():
        try:
            sync = decode_offset_sync(record.key, record.value)
        except CorruptRecord:
            continue  # not one of MirrorMaker 2's: it proves nothing
        found.add(TopicPartition(sync.topic, sync.partition))
    return found
