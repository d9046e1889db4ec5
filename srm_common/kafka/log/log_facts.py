"""What a cluster reports about a partition's log: its start, which part is on the brokers' own disks, its end, whether
it is compacted, and where its leader epochs end.

None of it is in a Fetch answer, but it decides what an answer without records, or with an error, means.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from srm_common.domain.flow.principals import Right
from srm_common.domain.runs.data_loss import EpochEnd
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import AccessDenied
from srm_common.kafka.client.library import (
    DescribeConfigsRequest,
    OffsetForLeaderEpochRequest,
)
from srm_common.kafka.client.links.link import (
    EARLIEST,
    LATEST,
    ClusterLink,
    RetriableFault,
    list_offsets_request,
)
from srm_common.kafka.client.links.retriable_fault import OlderBroker
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.client.protocol.broker_versions import ApiKey

#: The first offset on the leader's own disk (KIP-405); brokers from ListOffsets version 8 on (Kafka 3.5) know it.
EARLIEST_LOCAL = -4
_EARLIEST_LOCAL_VERSION = 8
_TOPIC = 2


@dataclass(frozen=True, slots=True)
class LogFacts:
    """A log as its leader describes it. ``end`` is the high watermark. ``compacted`` is None when the topic's settings
    may not be read. ``epoch_end`` is None when no epoch was asked for, or the log has none."""

    start: int
    local_start: int
    end: int
    compacted: bool | None
    epoch_end: EpochEnd | None = None


async def log_facts(link: ClusterLink, place: TopicPartition, epoch: int = -1) -> LogFacts:
    """Ask the leader of a partition.

    Brokers that do not know local starts are treated as brokers without a remote store.

    Args:
        epoch: also ask where this leader epoch ends.

    Raises:
        RetriableFault: it could not be asked; ask again.
        AccessDenied: the topic may not be seen.
    """
    start = await _offset(link, place, EARLIEST)
    try:
        local = await _offset(link, place, EARLIEST_LOCAL)
    except OlderBroker:
        local = start
    end = await _offset(link, place, LATEST)
    compacted = (await compaction(link, [place[0]]))[place[0]]
    epoch_end: EpochEnd | None = None
    if epoch >= 0:
        ends, faults = await epoch_ends(link, {place: epoch})
        if place in faults:
            raise RetriableFault(faults[place])
        epoch_end = ends.get(place)
    return LogFacts(start, max(local, start), end, compacted, epoch_end)


async def _offset(link: ClusterLink, place: TopicPartition, at: int) -> int:
    topic, partition = place
    leader = link.leader(topic, partition)
    if leader is None:
        raise RetriableFault(str(link.leaderless(topic, partition)))
    version = _EARLIEST_LOCAL_VERSION if at == EARLIEST_LOCAL else None
    answer = await link.send(leader, list_offsets_request({place: at}, committed=False, version=version))
    part = answer.topics[0].partitions[0]
    if part.error_code in codes.DENIED:
        missing = Right("Describe", "topic", topic).missing(link.settings)
        raise AccessDenied(f"partition {topic}-{partition} at {link.alias} may not be described; {missing}")
    if part.error_code:
        raise RetriableFault(f"partition {topic}-{partition} at {link.alias}: {codes.name(part.error_code)}")
    return int(part.offset)


async def compaction(link: ClusterLink, topics: Iterable[str]) -> dict[str, bool | None]:
    """Whether each topic's ``cleanup.policy`` contains ``compact``; None where its settings may not be read.

    Raises:
        RetriableFault: the cluster could not be asked.
    """
    wanted = list(topics)
    resource = DescribeConfigsRequest.DescribeConfigsResource
    answer = await link.ask_any(
        lambda: DescribeConfigsRequest(
            max_version=4,
            resources=[
                resource(resource_type=_TOPIC, resource_name=topic, configuration_keys=["cleanup.policy"])
                for topic in wanted
            ],
            include_synonyms=False,
            include_documentation=False,
        )
    )
    found: dict[str, bool | None] = dict.fromkeys(wanted)
    for result in answer.results:
        if result.error_code and codes.retriable(result.error_code):
            raise RetriableFault(f"the settings of topic {result.resource_name}: {codes.name(result.error_code)}")
        for setting in result.configs or ():
            if not result.error_code and setting.name == "cleanup.policy" and setting.value is not None:
                found[result.resource_name] = "compact" in str(setting.value)
    return found


def leader_epoch(link: ClusterLink, place: TopicPartition) -> int:
    """The epoch of a partition's leader according to the metadata; -1 when unknown, or when the cluster's brokers
    cannot say where epochs end (KIP-320)."""
    if not link.offers(ApiKey.OFFSET_FOR_LEADER_EPOCH):
        return -1
    known = link.manager.cluster.leader_epoch_for_partition(TopicPartition(*place))
    return -1 if known is None else int(known)


async def epoch_ends(
    link: ClusterLink, epochs: Mapping[TopicPartition, int], seen: Mapping[TopicPartition, int] | None = None
) -> tuple[dict[TopicPartition, EpochEnd | None], dict[TopicPartition, str]]:
    """Where leader epochs end in the logs of their partitions, one request per leader: (found, faults).

    None: the log has no epochs at all (a message format before Kafka 0.11). For an epoch that is not in a log, the
    result is the newest older one and its end. A broker that does not lead under the newest epoch that is known
    refuses, which is a fault (KIP-320).

    Args:
        seen: epochs of leaders that the link's metadata may not know of.
    """
    leading = {place: max(leader_epoch(link, place), (seen or {}).get(place, -1)) for place in epochs}
    ends, faults = await _ask_epochs(link, epochs, leading)
    # "Undefined" means that the epoch is newer than all in the log, or that the log has none, so not today's either.
    undefined = {place: leader_epoch(link, place) for place, end in ends.items() if end is None}
    asked = {place: epoch for place, epoch in undefined.items() if 0 <= epoch != epochs[place]}
    if asked:
        newest, more = await _ask_epochs(link, asked, leading)
        ends.update(newest)
        faults.update(more)
    return {place: end for place, end in ends.items() if place not in faults}, faults


async def _ask_epochs(
    link: ClusterLink, epochs: Mapping[TopicPartition, int], leading: Mapping[TopicPartition, int]
) -> tuple[dict[TopicPartition, EpochEnd | None], dict[TopicPartition, str]]:
    ends: dict[TopicPartition, EpochEnd | None] = {}
    faults: dict[TopicPartition, str] = {}
    by_leader: dict[int, dict[str, list[tuple[int, int, int]]]] = defaultdict(lambda: defaultdict(list))
    for place, epoch in epochs.items():
        topic, partition = place
        leader = link.leader(topic, partition)
        if leader is None:
            faults[TopicPartition(topic, partition)] = str(link.leaderless(topic, partition))
        else:
            by_leader[leader][topic].append((partition, epoch, leading[place]))
    answers = await link.send_each((leader, _epochs_request(topics)) for leader, topics in by_leader.items())
    for topics, answer in zip(by_leader.values(), answers, strict=True):
        if isinstance(answer, RetriableFault):
            faults |= {TopicPartition(topic, one): str(answer) for topic, ones in topics.items() for one, _, _ in ones}
            continue
        for topic in answer.topics:
            for part in topic.partitions:
                place = TopicPartition(topic.topic, part.partition)
                if part.error_code:
                    faults[place] = f"partition {place[0]}-{place[1]} at {link.alias}: {codes.name(part.error_code)}"
                elif part.end_offset < 0 or part.leader_epoch < 0:
                    ends[place] = None
                else:
                    ends[place] = EpochEnd(part.leader_epoch, part.end_offset)
    return ends, faults


def _epochs_request(topics: Mapping[str, list[tuple[int, int, int]]]) -> Any:
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    return OffsetForLeaderEpochRequest(
        max_version=4,
        replica_id=-1,
        topics=[
            kind(
                topic=topic,
                partitions=[
                    kind.OffsetForLeaderPartition(partition=one, current_leader_epoch=under, leader_epoch=epoch)
                    for one, epoch, under in ones
                ],
            )
            for topic, ones in topics.items()
        ],
    )


#: Ages are determined to within this share, and to no better than a second.
_TOLERANCE = 0.02
_FINEST_MS = 1000
#: This many requests suffice for ages from a second to decades.
MOST_QUESTIONS = 18
_LONGEST_MS = 40 * 366 * 86_400_000


@dataclass(slots=True)
class TimestampSearch:
    """A search for the first record at or beyond ``offset``, by requests for the first record at or after ``asked_ms``.
    Records with timestamps before ``low_ms`` are known to be before the offset, so an answer to ``low_ms`` beyond the
    offset is the result. ``high_ms``: the record is not later, or is the first after it.
    """

    offset: int
    now_ms: int
    low_ms: int
    high_ms: int
    asked_ms: int
    found_ms: int | None = None
    done: bool = False

    @classmethod
    def beyond(cls, offset: int, newest_ms: int | None, now_ms: int) -> Self:
        """``newest_ms``: the timestamp of a record before the offset, where one is known."""
        low_ms = now_ms - _LONGEST_MS if newest_ms is None else newest_ms + 1
        return cls(offset, now_ms, low_ms, max(low_ms, now_ms) + 1, 0 if newest_ms is None else low_ms)

    def learn(self, offset: int, timestamp_ms: int) -> None:
        """The first record at or after ``asked_ms`` is this one; -1 where there is none."""
        if offset >= self.offset:
            self.found_ms = timestamp_ms
            self.done = offset == self.offset or self.asked_ms <= self.low_ms
            self.high_ms = self.asked_ms
        elif offset >= 0:
            self.low_ms = max(self.asked_ms, timestamp_ms) + 1
        else:
            self.high_ms = self.asked_ms
        if self.high_ms <= self.low_ms:
            self.done = True
        self.asked_ms = self._next()

    def _next(self) -> int:
        youngest, oldest = max(1, self.now_ms - self.high_ms), max(1, self.now_ms - self.low_ms)
        if oldest - youngest <= max(_FINEST_MS, _TOLERANCE * youngest):
            return self.low_ms
        # Halved by magnitude: a backlog may be of seconds or of months.
        halfway = self.now_ms - round(math.sqrt(max(youngest, _FINEST_MS / 4) * oldest))
        return min(max(halfway, self.low_ms), self.high_ms - 1)

    @property
    def oldest_ms(self) -> int | None:
        """What was found; the earliest possible time where the search was given up. None where the log has nothing
        beyond the offset, or no timestamps."""
        if not self.done:
            return self.low_ms if self.found_ms is None else min(self.low_ms, self.found_ms)
        return None if self.found_ms is None or self.found_ms < 0 else self.found_ms


async def oldest_records(
    link: ClusterLink,
    positions: Mapping[TopicPartition, int],
    newest_ms: Mapping[TopicPartition, int],
    now_ms: int,
    *,
    committed: bool,
    timeout_seconds: float,
) -> dict[TopicPartition, int]:
    """The timestamps of the first records at or beyond ``positions``; partitions without an answer are left out.

    Exact where the record after the newest copied one is the first, as after a run; otherwise to within 2 % of the age.
    Where producers set timestamps out of order, it is that of a record near the offset.

    Args:
        newest_ms: timestamps of records that were copied, where they are known.
        now_ms: epoch milliseconds.
    """
    searches = {
        place: TimestampSearch.beyond(offset, newest_ms.get(place), now_ms) for place, offset in positions.items()
    }
    for _ in range(MOST_QUESTIONS):
        open_ones = {place: one.asked_ms for place, one in searches.items() if not one.done}
        if not open_ones:
            break
        answers, _faults = await link.listed(open_ones, committed=committed, timeout_seconds=timeout_seconds)
        for place in open_ones:
            if place in answers:
                searches[place].learn(answers[place].offset, answers[place].timestamp_ms)
            else:
                searches[place].done = True
    return {place: one.oldest_ms for place, one in searches.items() if one.oldest_ms is not None}
