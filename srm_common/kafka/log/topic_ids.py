"""Topic ids (KIP-516): by which a topic is told from one of the same name that was created later."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable
from functools import partial
from typing import Any
from uuid import UUID

from srm_common.domain.offsets.segments import generation_of, is_another_generation
from srm_common.domain.topic_id import NO_TOPIC_ID
from srm_common.errors import UnreachableCluster
from srm_common.kafka.client.library import MetadataRequest
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.client.protocol.broker_versions import ApiKey
from srm_common.wire.protocol import fetch

#: The first version with topic ids (KIP-516), which brokers know from 2.8 on; an older one answers without ids.
_VERSION = 10
_PAUSE_SECONDS = 0.1
#: There is no such topic, or none that may be seen.
_GONE = frozenset({codes.UNKNOWN_TOPIC_OR_PARTITION, codes.TOPIC_AUTHORIZATION_FAILED, codes.INVALID_TOPIC})


class UsedTopics:
    """The topics that a slot reads from, or writes to, by the ids that they had when it began."""

    def __init__(self, link: ClusterLink) -> None:
        self._link = link
        self._ids: dict[str, UUID] = {}

    def replaced(self, topic: str, generation: int) -> bool:
        """Whether the metadata have another topic of this name now.

        Args:
            generation: of the topic that is meant (:func:`~srm_common.domain.offsets.segments.generation_of`); 0 where
                it is not known, and the first one that is seen is meant.
        """
        now: UUID | None = self._link.manager.cluster.topic_id(topic)
        if now is None or not now.int:
            return False
        if topic in self._ids:
            return self._ids[topic] != now
        if is_another_generation(generation, generation_of(id_text(now))):
            return True
        self._ids[topic] = now
        return False

    def ids(self, topics: Iterable[str], node: int) -> dict[str, UUID] | None:
        """For a Fetch from a broker; None where that does not know ids, or one is not known."""
        if not self._link.takes(node, ApiKey.FETCH, fetch.VERSION_BY_ID):
            return None
        wanted = set(topics)
        return {topic: self._ids[topic] for topic in wanted} if wanted <= self._ids.keys() else None


async def topic_ids(link: ClusterLink, topics: Iterable[str], patience_seconds: float) -> dict[str, str | None]:
    """Ids in Kafka's spelling, asked for now; NO_TOPIC_ID for a topic that has none, None for one that does not exist
    (any more), or may not be seen.

    Raises:
        UnreachableCluster: no broker answered for all of them in time; partial answers are discarded.
        AccessDenied: the login was refused.
    """
    found: dict[str, str | None] = {}
    left = set(topics)
    deadline = time.monotonic() + patience_seconds
    while left:
        fault = ""
        ask = partial(_request, frozenset(left))
        try:
            answer = await link.ask_any(ask)
        except RetriableFault as error:
            fault = str(error)
        else:
            for topic in answer.topics:
                if topic.error_code == codes.NONE:
                    found[topic.name] = id_text(topic.topic_id)
                elif topic.error_code in _GONE:
                    found[topic.name] = None
                else:
                    fault = f"topic {topic.name}: {codes.name(topic.error_code)}"
            left -= found.keys()
        if not left:
            break
        if time.monotonic() > deadline:
            raise UnreachableCluster(
                f"cluster {link.alias} did not return the ids of {len(left)} topics, {min(left)} among them, within "
                f"{patience_seconds:g} s: {fault}"
            )
        await link.loop.sleep(_PAUSE_SECONDS)
        await link.refresh()
    return found


def id_text(topic_id: UUID | None) -> str:
    """In Kafka's spelling; NO_TOPIC_ID for none."""
    if topic_id is None or not topic_id.int:
        return NO_TOPIC_ID
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def _request(topics: Iterable[str]) -> Any:
    kind = MetadataRequest.MetadataRequestTopic
    return MetadataRequest(
        max_version=_VERSION,
        topics=[kind(name=topic) for topic in sorted(topics)],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
