"""What a run knows of its topics where the flow's state was lost: as far as the topic records and the committed offsets
on the target still say it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

from srm_common.domain.flow.start_position import StartRules
from srm_common.domain.topic_id import url_safe
from srm_common.domain.topics.selection import CopiedTopic, CopiedTopics
from srm_common.domain.topics.source_topics import LOST, ChosenStart, SourceTopics
from srm_common.usecases.flows.flow_clusters import FlowClusters

_WHY = "decided again after the flow's state was lost"


def recorded_topics(clusters: FlowClusters) -> CopiedTopics:
    """The records of the flow's topics that can be read.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError, StateError: as the target answers.
    """
    return CopiedTopics(str(clusters.flow.name), clusters.target.registry.read().readable)


def restored_memory(
    memory: SourceTopics,
    written: Collection[str],
    topics: Iterable[CopiedTopic],
    rules: StartRules,
    recorded: Callable[[], CopiedTopics],
    now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
) -> SourceTopics:
    """``memory``, with the topics that the flow has copied and does not remember; itself where there are none.

    A topic is the one that is recorded, so that one which was created again since is noticed. Where partitions without
    progress start is decided again if that must come to the same offset. ``latest`` would not: records that were
    written since the first decision would be left out.

    Args:
        written: the topics of the source with progress that this flow has committed, not another tool.
        topics: what the run copies.
        recorded: asked only if something is missing.
    """
    # If nothing at all is remembered, the choices for topics that are idle until now are lost, too.
    everything = bool(written) and not memory.topics
    lost = {
        topic.upstream: topic.partitions
        for topic in topics
        if topic.upstream not in memory.topics and not topic.heartbeats and (everything or topic.upstream in written)
    }
    if not lost:
        return memory
    records = recorded().records
    ids = {topic: url_safe(records[topic].upstream_topic_id) for topic in lost if topic in records}
    starts = {
        topic: ChosenStart(LOST if rules.may_be_latest(topic) else str(rules.of(topic)[0]), _WHY, now_ms(), partitions)
        for topic, partitions in lost.items()
    }
    return memory.with_ids(ids).with_starts(starts)
