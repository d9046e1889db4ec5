"""Topics of a local cluster: made while its nodes may be young, and those that nodes made on a client's demand."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from srm_common.domain.cluster import ClusterSettings
from srm_common.errors import LocalKafkaError
from srm_common.kafka.client.library import MetadataRequest
from srm_common.kafka.client.librdkafka import (
    BROKER_LEFT,
    AdminClient,
    KafkaError,
    KafkaException,
    NewTopic,
    OffsetSpec,
    TopicPartition,
)
from srm_common.kafka.client.links.link import ClusterLink

#: ``kafka.server.DefaultAutoTopicCreationManager``; written with Scala's brackets or Java's.
_MADE_ON_DEMAND = re.compile(r"Sent auto-creation request for \w*[(\[](.+)[)\]] to the active controller")
#: ``[2026-01-31 23:59:59,123]``
_TIME_LENGTH = 25
#: A node that takes longer is stopped, paused or cut off, and is not waited for.
_NODE_SILENT_MS = 5000
_RESULTS = "CreateTopics result(s): "


def create_topic(
    admin: AdminClient,
    cluster: str,
    name: str,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, str] | None,
    timeout_seconds: float,
) -> None:
    """Create a topic and wait for its leaders, as :meth:`~srm_common.testing.LocalKafka.create_topic` says.

    Args:
        cluster: its name in messages.
    """
    topic = NewTopic(name, num_partitions=partitions, replication_factor=replication_factor, config=dict(config or {}))
    deadline = time.monotonic() + timeout_seconds
    asked_before = False
    while True:
        try:
            admin.create_topics([topic], operation_timeout=timeout_seconds)[name].result(timeout_seconds)
            break
        except KafkaException as failure:
            error = failure.args[0]
            if asked_before and error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                break
            # New nodes come and go in each other's metadata; the library fails its requests to one that disappears.
            if error.code() != BROKER_LEFT or time.monotonic() > deadline:
                raise LocalKafkaError(f"topic {name} was not created on {cluster}: {error.str()}") from failure
            asked_before = True
    end = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    latest = {TopicPartition(name, number): end for number in range(partitions)}
    while True:
        try:
            for asked in admin.list_offsets(latest, request_timeout=timeout_seconds).values():
                asked.result(timeout_seconds)
            return
        except KafkaException as failure:
            if time.monotonic() > deadline:
                raise LocalKafkaError(
                    f"topic {name} on {cluster} has no leaders after {timeout_seconds:.0f} s: {failure.args[0].str()}"
                ) from failure
        time.sleep(0.02)


def wait_for_nodes(servers: str, cluster: str, name: str, partitions: int, deadline: float) -> None:
    """Return when every node that answers knows all partitions of a topic.

    Args:
        servers: of a listener without a login.
        cluster: its name in messages.
        deadline: by ``time.monotonic()``.
    """
    with ClusterLink(ClusterSettings.plaintext(cluster, servers), part="topics", at_most_ms=_NODE_SILENT_MS) as link:

        async def answers() -> dict[int, Any]:
            await link.open()
            return await link.ask_each(
                lambda: MetadataRequest(
                    version=10,
                    topics=[MetadataRequest.MetadataRequestTopic(name=name)],
                    allow_auto_topic_creation=False,
                )
            )

        while True:
            told = {
                node: sum(len(topic.partitions) for topic in answer.topics)
                for node, answer in link.run(answers).items()
                if not isinstance(answer, Exception)
            }
            late = [node for node, known in told.items() if known < partitions]
            if not late:
                return
            if time.monotonic() > deadline:
                raise LocalKafkaError(
                    f"nodes {late} of {cluster} do not know the {partitions} partitions of topic {name}"
                )
            time.sleep(0.02)


def made_on_demand(logs: Iterable[str]) -> set[str]:
    """Topics that nodes auto-created because a client requested their metadata, according to the nodes' logs; Kafka's
    own included.

    A broker that has just started also asks the controller to create topics that it does not know yet; the controller
    refuses that.
    """
    asked: dict[str, str] = {}
    created: dict[str, str] = {}
    refused: set[str] = set()
    for line in (line for log in logs for line in log.splitlines()):
        if found := _MADE_ON_DEMAND.search(line):
            _note_first(asked, found.group(1).split(", "), line)
        elif _RESULTS in line:
            results = line.partition(_RESULTS)[2].split("CreatableTopic(name='")[1:]
            _note_first(created, [result.partition("'")[0] for result in results if "): SUCCESS" in result], line)
            refused |= {result.partition("'")[0] for result in results if "): TOPIC_ALREADY_EXISTS" in result}
    # A busy broker logs what it has asked for after the controller has carried it out.
    return {
        topic
        for topic, time_ in asked.items()
        if not created or time_ <= created.get(topic, "") or (topic in created and topic not in refused)
    }


def _note_first(times: dict[str, str], topics: Iterable[str], line: str) -> None:
    """Keep when a log first names each topic."""
    for topic in topics:
        times[topic] = min(line[:_TIME_LENGTH], times.get(topic, line[:_TIME_LENGTH]))
