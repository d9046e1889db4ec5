"""What a flow has not copied yet, queried from both clusters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from srm_common.domain.amount import counted
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.selection import CopiedTopics
from srm_common.domain.topics.topic_records import TopicState
from srm_common.domain.topics.topic_settings import some
from srm_common.errors import SrmError
from srm_common.kafka.client.links.link import EARLIEST, LATEST
from srm_common.usecases.flows.cluster_records import FlowTopics
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.offsets.source_offsets import committed_now


@dataclass(frozen=True)
class Uncopied:
    """``ends`` of the source's partitions, ``copied_to`` where the flow continues in them, ``partitions`` those that
    have more, each with the number of offsets. ``held`` is a sentence about a partition whose records nobody can read
    yet, since a transaction is open there. ``faults`` are what the source did not answer: of these partitions, or of
    all, nothing is known. ``stopped`` are topics among them that no run copies as it is: they have no copy yet, or were
    stopped."""

    ends: Mapping[TopicPartition, int]
    copied_to: Mapping[TopicPartition, int]
    partitions: Mapping[TopicPartition, int]
    held: str = ""
    faults: tuple[SrmError, ...] = ()
    stopped: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Empty when everything is copied."""
        if not self.partitions:
            return self.held
        (topic, number), most = max(self.partitions.items(), key=lambda one: one[1])
        total = sum(self.partitions.values())
        where = f"{topic}-{number}" if len(self.partitions) == 1 else f"{len(self.partitions)} partitions"
        worst = "" if len(self.partitions) == 1 else f", {most} of them of {topic}-{number}"
        why = f"; no run copies {some([*self.stopped])} yet, see srm-control plan" if self.stopped else ""
        return f"{total} offsets of {where} are not copied yet{worst}{why}"


class ChosenTopics(NamedTuple):
    """All topics of the source with their ``partitions``, and those that the flow is to copy and that no run copies as
    it is, heartbeats aside: ``new`` ones, which the next refresh will find, and ``stopped`` ones, each with the
    recorded reason. None of the latter two where the flow copies nothing."""

    partitions: dict[str, int]
    new: list[str]
    stopped: dict[str, str]

    def without_copy(self, flow: str) -> list[str]:
        """What becomes of positions in the latter two, in sentences."""
        said = []
        if self.new:
            said.append(
                f"chosen by the filters, but not copied yet: {some(self.new)}; positions in them are not moved, unless "
                f'srm-control run --flow "{flow}" copies them before'
            )
        if self.stopped:
            why = some([f"{topic} ({reason})" for topic, reason in self.stopped.items()])
            said.append(
                f"chosen by the filters, but stopped: {why}; positions in them are translated by what was copied before"
            )
        return said


def chosen_topics(clusters: FlowClusters) -> ChosenTopics:
    """
    Raises:
        UnreachableCluster, AccessDenied, ClusterError, StateError, ConfigError: as the clusters answer.
    """
    flow = clusters.flow
    with ThreadPoolExecutor(max_workers=4, thread_name_prefix="srm-topics") as pool:
        topics = FlowTopics.decided(clusters, pool)
    copied = topics.copied(flow)
    chosen = ChosenTopics(dict(topics.source.partitions), [], {})
    for topic in sorted(decision.topic for decision in topics.decisions if decision.accepted):
        if not copied.going_on or topic in copied.going_on or names.has_heartbeats(flow, topic):
            continue
        record = copied.records.get(topic)
        if record is None or record.state is TopicState.CLAIMED:
            chosen.new.append(topic)
        else:
            chosen.stopped[topic] = record.reason or f"it is {record.state}"
    return chosen


def uncopied(clusters: FlowClusters, *, going_on: bool = False) -> Uncopied:
    """Of the topics that the flow copies or is to copy, without heartbeats: these never end.

    Args:
        going_on: only of those that runs copy as it is.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError, StateError: as the clusters answer.
    """
    found = known_backlog(clusters, going_on=going_on)
    for fault in found.faults:
        raise fault
    return found


def known_backlog(clusters: FlowClusters, *, going_on: bool = False) -> Uncopied:
    """The same, as far as the source answers: with ``faults`` instead of its errors.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError, StateError: as the target answers.
    """
    flow, source = clusters.flow, clusters.source.admin
    topics = CopiedTopics(str(flow.name), clusters.target.registry.read()).going_on
    copied = {topic for topic in topics if not names.has_heartbeats(flow, topic)}
    committed = committed_now(clusters)
    faults: list[SrmError] = []

    def offsets(of: Iterable[TopicPartition], at: int, *, committed: bool = True) -> dict[TopicPartition, int]:
        try:
            answers = source.offsets(of, at, committed=committed)
        except SrmError as error:
            faults.append(error)
            return {}
        faults.extend(answer for answer in answers.values() if isinstance(answer, SrmError))
        return {place: answer for place, answer in answers.items() if not isinstance(answer, SrmError)}

    stopped: list[str] = []
    known: dict[str, int] | None = None
    if not going_on:
        try:
            chosen = chosen_topics(clusters)
            known, stopped = chosen.partitions, [*chosen.new, *chosen.stopped]
        except SrmError as error:
            faults.append(error)
    if known is None:
        try:
            known = dict(source.topics().partitions)
        except SrmError as silent:
            return Uncopied({}, {}, {}, faults=(silent,))
    wanted = sorted(copied.union(stopped))
    places = [TopicPartition(topic, number) for topic in wanted for number in range(known.get(topic, 0))]
    # In this order: a transaction that is committed in between holds nothing. What did not answer is not asked again.
    logs = offsets(places, LATEST, committed=False)
    ends = offsets(logs, LATEST) if flow.read_committed else logs
    starts = offsets(ends, EARLIEST)
    copied_to = {place: max(committed.get(place, 0), start) for place, start in starts.items()}
    left = {place: ends[place] - to for place, to in copied_to.items() if ends[place] > to}
    return Uncopied(
        ends,
        copied_to,
        left,
        _held(flow, {place: end for place, end in ends.items() if end < logs[place]}),
        tuple(faults),
        tuple(sorted({place.topic for place in left}.intersection(stopped))),
    )


def _held(flow: FlowSettings, ends: Mapping[TopicPartition, int]) -> str:
    if not ends:
        return ""
    (topic, number), end = min(ends.items())
    more = "" if len(ends) == 1 else f", and {counted(len(ends) - 1, 'other partition')} likewise"
    return (
        f"{topic}-{number} cannot be copied beyond offset {end} yet{more}, because a transaction is open there; if it "
        f"does not end by itself: kafka-transactions.sh --bootstrap-server {flow.source.bootstrap_servers} abort "
        f"--topic {topic} --partition {number} --start-offset {end}"
    )
