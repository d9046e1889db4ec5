"""Responses without records although the log continues: they prove nothing by themselves. A broker returns no records
and no error for a log that was compacted there, but also when a remote read (KIP-405) took longer than
``remote.fetch.max.wait.ms``, when the quota of remote reads (KIP-956) is used up, when another partition of the same
request was read remotely, and when a replica selector names another replica (KIP-392). Only compaction may move a
position, and it is proved by what the leader reports about the log afterwards: the topic is compacted, and the position
is on the brokers' own disks, from which a read with enough room returns whatever is there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.log.log_facts import LogFacts, log_facts

#: This many empty answers in a row are not worth a question.
_FREE_ANSWERS = 2
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
#: How long the leader's report is used: it changes with the log and with the topic's settings.
_FACTS_SECONDS = 5.0
#: How many times the usual patience a remote store and its quota get: others use them, too.
_REMOTE_PATIENCE = 5.0


@dataclass(slots=True)
class Silence:
    """Answers in a row that returned nothing of one partition at one offset. Times are monotonic seconds.

    ``empty_to``: the log continued at least to here when the leader last returned nothing of what comes before; 0 while
    that was not seen. ``proved_to``: it is proved that there is nothing up to here.
    """

    place: TopicPartition
    offset: int
    node: int
    since: float = field(default_factory=lambda: time.monotonic())
    answers: int = 0
    empty_to: int = 0
    proved_to: int = 0
    facts: LogFacts | None = None
    asked_at: float = 0.0

    @property
    def remote(self) -> bool:
        """Whether the offset is in the remote store only, as far as is known."""
        return self.facts is not None and self.offset < self.facts.local_start

    @property
    def pause_seconds(self) -> float:
        """How long to wait before the partition is fetched again."""
        if self.answers <= _FREE_ANSWERS:
            return 0.0
        return float(min(_FIRST_PAUSE_SECONDS * 2 ** min(self.answers - _FREE_ANSWERS, 10), _LONGEST_PAUSE_SECONDS))

    @property
    def wants_facts(self) -> bool:
        """Whether the leader should be asked about the log now."""
        return self.answers > _FREE_ANSWERS and time.monotonic() - self.asked_at > _FACTS_SECONDS


class EmptyAnswers:
    """The silences of one reader of one cluster.

    Args:
        patience_seconds: how long a partition may return nothing.
    """

    def __init__(self, link: ClusterLink, patience_seconds: float) -> None:
        self._link = link
        self._patience = patience_seconds
        self._silences: dict[TopicPartition, Silence] = {}
        #: When a node last returned something from the remote store.
        self._remote_progress: dict[int, float] = {}

    def ended(self, place: TopicPartition) -> None:
        """The partition returned something."""
        if not self._silences:
            return
        silence = self._silences.pop(place, None)
        if silence is not None and silence.remote:
            self._remote_progress[silence.node] = time.monotonic()

    def add(self, place: TopicPartition, offset: int, node: int, *, empty_to: int = 0) -> Silence:
        """One more answer of ``node`` that had room and returned nothing of ``place`` at ``offset``.

        Args:
            empty_to: how far the log continued, if the answer said that it continues and had no bytes of it.
        """
        silence = self._silences.get(place)
        if silence is None or silence.offset != offset:
            silence = self._silences[place] = Silence(place, offset, node)
        silence.answers += 1
        silence.node = node
        facts = silence.facts
        # A follower's answer proves nothing about what its leader may have in the remote store.
        if node == self._link.leader(*place) or (facts is not None and facts.local_start == facts.start):
            silence.empty_to = max(silence.empty_to, empty_to)
        return silence

    async def ask(self, silence: Silence) -> None:
        """Ask the leader about the log, and conclude.

        Raises:
            RetriableFault: it could not be asked.
            AccessDenied: the topic may not be seen.
        """
        silence.asked_at = time.monotonic()
        seen = silence.empty_to
        facts = silence.facts = await log_facts(self._link, silence.place)
        # Local starts only grow: what is local now was local when the answer was given.
        if facts.compacted and silence.offset >= facts.local_start:
            silence.proved_to = max(silence.proved_to, seen)

    def given_up(self, silence: Silence) -> str | None:
        """A sentence if the partition has returned nothing for too long; None before its leader was queried."""
        if silence.facts is None:
            return None
        now = time.monotonic()
        since, patience = silence.since, self._patience
        if silence.remote:
            patience *= _REMOTE_PATIENCE
            # A store that serves other partitions of this node is busy, not broken.
            since = max(since, self._remote_progress.get(silence.node, 0.0))
        return self.describe(silence) if now - since > patience else None

    def describe(self, silence: Silence) -> str:
        """What is known of a silence, in one sentence."""
        topic, partition = silence.place
        seconds = time.monotonic() - silence.since
        finding = (
            f"partition {topic}-{partition} at {self._link.alias} returned nothing at offset {silence.offset} in "
            f"{silence.answers} answers of broker {silence.node} within {seconds:.0f} s"
        )
        facts = silence.facts
        if facts is None:
            return finding
        finding = f"{finding}, although its log continues to {facts.end}"
        if silence.remote:
            return (
                f"{finding}: the offset is in the remote store (local disks begin at {facts.local_start}); check the "
                f"brokers' remote.log.manager.fetch.max.bytes.per.second, remote.fetch.max.wait.ms and remote store"
            )
        if facts.compacted is None:
            return (
                f"{finding}; cannot tell whether compaction removed the rest: grant DESCRIBE_CONFIGS on topic {topic}"
            )
        if facts.compacted:
            return f"{finding}; check replica.selector.class and the log of that broker"
        return (
            f"{finding}, and the topic is not compacted; check replica.selector.class and the log of that broker; if "
            f"the topic was compacted before, move on with: srm-control source-offsets set --topic '{topic}' "
            f"--partition {partition} --offset {facts.end}"
        )
