"""Measures a cluster's clock against this host's, without writing anything.

The leader of a KRaft quorum puts its own time into every description of the quorum (``LastCaughtUpTimestamp`` of the
leader: "the current time", KIP-836). The error of the measurement is half of the round trip, as with NTP.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from srm_common.domain.cluster import Client, ClusterSettings
from srm_common.errors import SrmError
from srm_common.kafka.client.library import DescribeQuorumRequest
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.client.protocol.broker_versions import ApiKey

_WITH_TIMES = 1
_METADATA_TOPIC = "__cluster_metadata"
#: The quickest answer counts.
_TRIES = 3
_TIMEOUT_MS = 5_000


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """The cluster's clock is ``ahead_ms`` ahead of this host's (negative: behind), give or take ``uncertainty_ms``."""

    ahead_ms: float
    uncertainty_ms: float


def clock_offset(cluster: ClusterSettings, pool: LinkPool | None = None) -> ClockOffset | None:
    """The clock of the cluster's active controller; None if it is unknown: the cluster does not respond, has
    ZooKeeper, is older than Kafka 3.3, or does not grant DESCRIBE on the cluster."""
    try:
        with ClusterLink(cluster.of_client(Client.ADMIN), part="clock", at_most_ms=_TIMEOUT_MS, pool=pool) as link:
            return link.run(lambda: _asked(link))
    except (SrmError, RetriableFault):  # one figure less; other requests to the cluster report why it does not respond
        return None


async def _asked(link: ClusterLink) -> ClockOffset | None:
    await link.open(timeout_seconds=_TIMEOUT_MS / 1000)
    node = await link.any_node()
    if not link.takes(node, ApiKey.DESCRIBE_QUORUM, _WITH_TIMES):
        return None
    topic = DescribeQuorumRequest.TopicData
    request = DescribeQuorumRequest(
        version=_WITH_TIMES,
        topics=[topic(topic_name=_METADATA_TOPIC, partitions=[topic.PartitionData(partition_index=0)])],
    )
    best: ClockOffset | None = None
    # The first round trip includes making the connection.
    for _ in range(_TRIES + 1):
        sent = time.time()
        answer = await link.send(node, request)
        took_ms = (time.time() - sent) * 1000
        there_ms = _leader_ms(answer)
        if there_ms is None:
            return None
        # Kafka's clock ticks in whole milliseconds.
        offset = ClockOffset(there_ms + 0.5 - (sent * 1000 + took_ms / 2), took_ms / 2 + 0.5)
        if best is None or offset.uncertainty_ms < best.uncertainty_ms:
            best = offset
    return best


def _leader_ms(answer: object) -> int | None:
    if getattr(answer, "error_code", -1):
        return None
    for topic in answer.topics:  # type: ignore[attr-defined]
        for partition in topic.partitions:
            for voter in partition.current_voters:
                if voter.replica_id == partition.leader_id and voter.last_caught_up_timestamp > 0:
                    return int(voter.last_caught_up_timestamp)
    return None
