"""What take-over and hand-back both read: stored offsets, their topics, and whether copies grow."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from srm_common.account import whoami
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.flow.control_record import HANDOVER
from srm_common.domain.flow.names import ConnectNames
from srm_common.domain.moving.handover import HandoverPosition, counted_verdicts
from srm_common.domain.plans.plan import Plan
from srm_common.domain.runs.open_transaction import find_hanging
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.selection import CopiedTopic
from srm_common.errors import ConfigError
from srm_common.kafka.state.source_offsets import STABLE_WITHIN_SECONDS, SourceOffsets, read_source_offsets
from srm_common.kafka.state.state_topics import StateTopics, present_state_topics
from srm_common.usecases.flows.flow_clusters import FlowClusters

_LISTING_SECONDS = 10.0
#: Markers may follow the answer to a fence by some time where brokers are busy.
_MARKERS_SECONDS = 60.0
_PAUSE_SECONDS = 0.2
#: How often copies are looked at where one that grows is enough.
_LOOK_SECONDS = 0.5


def stored_offsets(clusters: FlowClusters, mirror_maker: ConnectNames, *, fenced: bool) -> SourceOffsets:
    """What ``mirror_maker`` has stored; ``fenced``: nothing is open any more, so that all of it must be readable.

    Raises:
        ConfigError: its offsets topic has another name than usual, and does not exist.
        UnreachableCluster, AccessDenied, ClusterError, StateError: as the target answers.
    """
    return read_source_offsets(
        clusters.flow,
        state_of(clusters, mirror_maker),
        stable_within_seconds=STABLE_WITHIN_SECONDS if fenced else None,
        refuse_loss=False,
        connector=mirror_maker.connector,
        pool=clusters.target.links,
    )


def state_of(clusters: FlowClusters, mirror_maker: ConnectNames) -> StateTopics:
    """Its offsets topic as it is, with no partitions where it does not exist.

    Raises:
        ConfigError: it has another name than usual, and does not exist.
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    flow = clusters.flow
    topic = mirror_maker.offsets_topic
    state = present_state_topics(clusters.target.reader, flow, topic)
    if not state.offsets_partitions and topic != names.offsets_topic(flow.name.source):
        raise ConfigError(
            f"cluster '{flow.target.alias}' has no topic {topic}; pass the correct one with --offsets-topic"
        )
    return state


def handover_topics(clusters: FlowClusters, plan: Plan, stored: Iterable[TopicPartition]) -> list[CopiedTopic]:
    """The accepted topics that have a stored offset or a copy, with the partitions of the source."""
    here, there = clusters.source.admin.topics().partitions, clusters.target.admin.topics().partitions
    known = {topic for topic, _ in stored}
    return [
        CopiedTopic(decision.topic, decision.remote_topic, here[decision.topic])
        for decision in plan.accepted
        if decision.remote_topic is not None
        and decision.topic in here
        and (decision.topic in known or decision.remote_topic in there)
    ]


def growing(
    clusters: FlowClusters, topics: Iterable[CopiedTopic], seconds: float, *, one_is_enough: bool = False
) -> list[str]:
    """One sentence for each copy into which something writes within ``seconds``; if ``one_is_enough``, only for those
    that are found first, and without waiting for others.

    Topics that other flows write to as well are left out.
    """
    flow = clusters.flow
    records = clusters.target.registry.read()
    copies = {
        topic.downstream
        for topic in topics
        if not any(record.flow != str(flow.name) for record in records.feeding(topic.downstream))
    }
    with clusters.target.link("control") as link:
        there = clusters.target.admin.topics().partitions
        places = [TopicPartition(copy, number) for copy in sorted(copies) for number in range(there.get(copy, 0))]
        if not places:
            return []
        before, _ = link.end_offsets(places, committed=False, timeout_seconds=_LISTING_SECONDS)
        begun, more, left = time.monotonic(), dict[str, int](), seconds
        while True:
            time.sleep(max(0.0, min(left, _LOOK_SECONDS) if one_is_enough else left))
            after, _ = link.end_offsets(places, committed=False, timeout_seconds=_LISTING_SECONDS)
            took = time.monotonic() - begun
            left = seconds - took
            for place, end in after.items():
                grown = end - before.get(place, end)
                if grown > 0:
                    more[place[0]] = more.get(place[0], 0) + grown
            if more or left <= 0:
                break
    return [
        f"{copy} on {flow.target.alias} got {count} offsets more within {took:.1f} s: stop MirrorMaker 2, or whatever "
        f"else writes there"
        for copy, count in sorted(more.items())
    ]


def record_handover(
    clusters: FlowClusters,
    command: str,
    how: str,
    positions: Iterable[HandoverPosition],
    changed: list[HandoverPosition],
) -> None:
    """In the control log: which offsets ``command`` changed, and ``how`` with the verdicts on all ``positions``."""
    with clusters.control_log() as log:
        log.append(
            HANDOVER,
            before=[[position.topic, position.partition, position.stored] for position in changed],
            after=[[position.topic, position.partition, position.position] for position in changed],
            who=whoami(),
            origin=f"srm-control {command}",
            note=f"{how}: {counted_verdicts(positions)}",
        )


def blocked_copies(clusters: FlowClusters, topics: Iterable[CopiedTopic]) -> list[str]:
    """One sentence for each copy whose readers an open transaction holds back, after some time for its end.

    Transactions that begin later are not waited for: other flows may write into a copy all the time.
    """
    there = clusters.target.admin.topics().partitions
    places = [
        TopicPartition(topic.downstream, number) for topic in topics for number in range(there.get(topic.downstream, 0))
    ]
    if not places:
        return []
    with clusters.target.link("control") as link:
        deadline = time.monotonic() + _MARKERS_SECONDS
        ends, faults = link.end_offsets(places, committed=False, timeout_seconds=_LISTING_SECONDS)
        waiting = [place for place in places if place not in faults]
        while True:
            stable, more = link.end_offsets(waiting, timeout_seconds=_LISTING_SECONDS)
            # What passes by itself was waited for.
            faults |= more
            waiting = [place for place in waiting if place not in more and stable.get(place, -1) < ends.get(place, 0)]
            if not waiting or time.monotonic() > deadline:
                break
            time.sleep(_PAUSE_SECONDS)
    return [
        *(faults[place] for place in places if place in faults),
        *(_held(clusters.flow, place, stable) for place in waiting),
    ]


def _held(flow: FlowSettings, place: TopicPartition, stable: Mapping[TopicPartition, int]) -> str:
    return (
        f"{place[0]}-{place[1]} on {flow.target.alias} cannot be read beyond offset {stable.get(place)}, because "
        f"another producer's transaction is open there ({find_hanging(flow.target.bootstrap_servers, *place)} names it)"
    )
