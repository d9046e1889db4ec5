"""The highest number of slots that any run of a flow had: as many transactional ids are fenced by who takes the flow.

Brokers from 3.0 on list these ids by themselves (KIP-664); older ones do not, and a forgotten one could still commit.

Invariant: the number is recorded by a transaction of slot 0 before any id beyond the recorded number is used, and is
read again after slot 0 was fenced. So a run that was overtaken cannot lower it, and whoever takes the flow sees all
that such a run has recorded.
"""

from __future__ import annotations

import time

from srm_common.domain.flow.names import StateKey
from srm_common.errors import Fenced, StateUnavailable, UnreachableCluster
from srm_common.replication.driver.ownership import Ownership, taken_over
from srm_common.replication.driver.state_transaction import write_transaction
from srm_common.usecases.flows.flow_clusters import FlowClusters

_PAUSE_SECONDS = 0.1


def take_ownership(
    clusters: FlowClusters, slots: int, at_least: int, *, task_id_prefix: str | None = None
) -> Ownership:
    """Become the owner of the flow, with every slot fenced that a run is known to have had, and the first ``at_least``.

    Raises:
        FlowOwnedElsewhere: another run took the flow meanwhile.
        UnreachableCluster, AccessDenied, ConfigError, ClusterError: as the target answers.
    """
    fenced = max(at_least, recorded_slots(clusters))
    owner = Ownership.take(clusters.flow, slots, fenced, task_id_prefix=task_id_prefix, pool=clusters.target.links)
    try:
        recorded = recorded_slots(clusters)
        if recorded > fenced:
            owner.include(recorded)
    except BaseException:
        owner.abandon()
        raise
    return owner


def recorded_slots(clusters: FlowClusters) -> int:
    """The highest number of slots that is recorded."""
    return int((clusters.state.read(StateKey.SLOTS) or {}).get("highest", 0))


def record_slots(clusters: FlowClusters, owner: Ownership, slots: int) -> None:
    """Record the number of slots of a run that has taken the flow, if none had more; before they begin.

    Raises:
        FlowOwnedElsewhere: another run took the flow meanwhile; nothing was recorded.
        StateError, UnreachableCluster, AccessDenied, ClusterError: as the target answers, for as long as the flow has
            patience.
    """
    if slots <= recorded_slots(clusters):
        return
    record = clusters.state.record(StateKey.SLOTS, {"highest": slots})
    deadline = time.monotonic() + clusters.flow.patience_seconds
    while True:
        try:
            write_transaction(clusters.flow, owner.identities[0], [record], clusters.target.links)
        except Fenced as error:
            raise taken_over(clusters.flow) from error
        except (StateUnavailable, UnreachableCluster):
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)
            owner.refence()
            continue
        # The slots begin with identities of which nothing was used.
        owner.refence()
        return
