"""Current topic ids, requested from a broker and never from a cache."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

from srm_common.errors import UnreachableCluster
from srm_common.kafka.client.library import MetadataRequest
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.protocol import codes

#: The first version with topic ids (KIP-516), which every broker from 2.8 on knows.
_VERSION = 10
_PAUSE_SECONDS = 0.1
#: There is no such topic, or none that may be seen.
_GONE = frozenset({codes.UNKNOWN_TOPIC_OR_PARTITION, codes.TOPIC_AUTHORIZATION_FAILED, codes.INVALID_TOPIC})


async def topic_ids(link: ClusterLink, topics: Iterable[str], patience_seconds: float) -> dict[str, str | None]:
    """Ids in Kafka's spelling; None for a topic that does not exist (any more), or may not be seen.

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
                    found[topic.name] = base64.urlsafe_b64encode(topic.topic_id.bytes).rstrip(b"=").decode()
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


def _request(topics: Iterable[str]) -> Any:
    kind = MetadataRequest.MetadataRequestTopic
    return MetadataRequest(
        version=_VERSION,
        topics=[kind(name=topic) for topic in sorted(topics)],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
