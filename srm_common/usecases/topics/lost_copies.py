"""Copies that the target does not list: lost, or only not known to the broker that answered."""

from __future__ import annotations

import time
from collections.abc import Collection

from srm_common.domain.topics.actions import CreateTopic
from srm_common.kafka.client.faults import is_denied
from srm_common.kafka.client.librdkafka import KafkaError
from srm_common.usecases.flows.flow_clusters import FlowClusters

_SETTLING_SECONDS = 1.0
#: As for the cluster's defaults.
_DEFAULT = -1
#: Besides a lacking right: the controller, or what is in front of it, looked at the topic that was asked for.
_REFUSALS = frozenset(
    {
        KafkaError.POLICY_VIOLATION,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_REQUEST,
        KafkaError.TOPIC_EXCEPTION,
    }
)


def doubtful_losses(clusters: FlowClusters, copies: Collection[str]) -> dict[str, str]:
    """Those of ``copies``, which one broker does not list, that may exist all the same, each with a sentence.

    A broker of KRaft that is cut off from the controllers, or has just started, answers by what it knew. The controller
    knows; it is asked to create these topics without doing it. Where it refuses that, a second listing decides.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: the target cannot be asked.
    """
    if not copies:
        return {}
    alias, admin = clusters.flow.name.target, clusters.target.admin
    later = "the next refresh looks again"
    wanted = [CreateTopic(alias, name, _DEFAULT, _DEFAULT, (), "") for name in sorted(copies)]
    refused = []
    found = {}
    for action, fault in zip(wanted, admin.create_topics(wanted, validate_only=True), strict=True):
        if fault is None:
            continue
        if fault.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            found[action.topic] = (
                f"a broker of {alias} does not list {action.topic}, but the controller has it; {later}"
            )
        elif is_denied(fault) or fault.code() in _REFUSALS:
            refused.append(action.topic)
        else:
            found[action.topic] = (
                f"a broker of {alias} does not list {action.topic}, and the controller does not say whether it exists: "
                f"{fault.str()} ({fault.name()}); {later}"
            )
    if refused:
        time.sleep(_SETTLING_SECONDS)
        listed = admin.topics().partitions
        found |= {
            name: f"brokers of {alias} do not agree whether {name} exists; {later}"
            for name in refused
            if name in listed
        }
    return found
