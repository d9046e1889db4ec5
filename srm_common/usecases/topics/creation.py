"""Create topics, with fewer replicas where the target has too few brokers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from srm_common.domain.amount import counted
from srm_common.domain.topics.actions import CreateTopic
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.kafka.client.librdkafka import KafkaError


@dataclass(frozen=True, slots=True)
class Created:
    """What became of a creation: ``fault`` is the last answer, None when it is done; ``note`` says what is different
    from the plan."""

    fault: KafkaError | None
    note: str | None = None


def create(admin: ClusterAdmin, actions: Sequence[CreateTopic]) -> list[Created]:
    """One result per action, in their order; several attempts at those that the cluster refuses.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: the cluster cannot be asked at all.
    """
    factors = [list(action.attempts) or [action.replication_factor] for action in actions]
    faults: dict[int, KafkaError | None] = {}
    waiting = list(range(len(actions)))
    while waiting:
        asked = [replace(actions[one], replication_factor=factors[one][0]) for one in waiting]
        faults.update(zip(waiting, admin.create_topics(asked), strict=True))
        waiting = [one for one in waiting if _too_many(faults[one]) and len(factors[one]) > 1]
        for one in waiting:
            del factors[one][0]
    return [
        Created(fault := faults[one], _note(action, factors[one][0]) if fault is None else None)
        for one, action in enumerate(actions)
    ]


def _too_many(fault: KafkaError | None) -> bool:
    return fault is not None and fault.code() == KafkaError.INVALID_REPLICATION_FACTOR


def _note(action: CreateTopic, replicas: int) -> str | None:
    if replicas == action.replication_factor:
        return None
    return f"it has {counted(replicas, 'replica')}, since the cluster has brokers that do not respond"
