"""The dead letter topic of a flow, looked at before a run copies anything."""

from __future__ import annotations

from collections.abc import Iterable

from srm_common.domain.cluster import MAX_MESSAGE_BYTES
from srm_common.domain.topics.copied_topics import CopiedTopic
from srm_common.domain.topics.state_topics import state_topics
from srm_common.domain.transforms.failed_records import DeadLetterTopic, ErrorHandling
from srm_common.errors import ConfigError
from srm_common.usecases.flows.flow_clusters import FlowClusters

_KEY = "errors.deadletterqueue.topic.name"


def error_handling(clusters: FlowClusters, topics: Iterable[CopiedTopic]) -> ErrorHandling:
    """What the flow does with records that a transform cannot take.

    Raises:
        ConfigError: the dead letter topic does not exist, or is another topic of the flow; the message names both.
        UnreachableCluster, AccessDenied, ClusterError: the target cannot be asked about it.
    """
    flow = clusters.flow
    tolerate, name = flow.errors_tolerance == "all", flow.dead_letter_topic
    if not name:
        return ErrorHandling(tolerate, flow.errors_log_enable)
    copy = next((topic for topic in topics if topic.downstream == name), None)
    if copy is not None:
        raise ConfigError(f"{_KEY} = {name} of flow {flow.name} is the copy of {copy.upstream}; name another topic")
    if any(topic.name == name and topic.location == "target" for topic in state_topics(flow)):
        raise ConfigError(f"{_KEY} = {name} of flow {flow.name} is one of its state topics; name another topic")
    admin = clusters.target.admin
    found = admin.describe_topics([name]).get(name)
    settings = admin.topic_settings([name]).get(name) if found is not None else None
    if found is None or settings is None:
        raise ConfigError(
            f"{_KEY} = {name} of flow {flow.name} does not exist on {flow.name.target}; create it, or have it created "
            f'by: srm-control apply --flow "{flow.name}"'
        )
    limit = settings.get("max.message.bytes")
    most = MAX_MESSAGE_BYTES if limit is None or limit.value is None else int(limit.value)
    letters = DeadLetterTopic(name, found.partitions, most, flow.errors_deadletterqueue_context_headers_enable)
    return ErrorHandling(tolerate, flow.errors_log_enable, letters)
