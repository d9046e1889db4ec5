"""Holds a flow while it is idle, for edits of its offsets and for hand-overs.

"Not running" is proved in two steps. There must be no sign of life: no beat of a run, no open transaction of the flow's
ids, no worker of MirrorMaker 2. Then the flow is fenced, so the target rejects whatever an undetected writer still
sends. A run that starts meanwhile says so before it takes the flow: either it is seen after our fence, and nothing is
written; or its fence comes after ours, and our transaction is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from srm_common.domain.flow.names import ConnectNames, StateKey
from srm_common.errors import Fenced, FlowRunning
from srm_common.kafka.state.driver_presence import WATCH_SECONDS, drivers, living_driver
from srm_common.kafka.transactions.active_writers import active_writers
from srm_common.replication.driver.ownership import Ownership
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.flows.slot_count import take_ownership


@contextmanager
def idle_flow(
    clusters: FlowClusters,
    undone: str,
    mirror_maker: ConnectNames | None = None,
    *,
    before_fence: Callable[[], None] = lambda: None,
) -> Iterator[Ownership | None]:
    """Hold the flow while the block lasts; None where it copies at least once, so that nothing can be fenced.

    Args:
        undone: the beginning of the refusal, as "the source offsets of flow a->b were not changed".
        mirror_maker: one with names of its own, which must not be active either and is fenced, too.
        before_fence: further proofs that nothing runs; raises FlowRunning.

    Raises:
        FlowRunning: a run, or MirrorMaker 2, is active, or a run took the flow within the block.
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    flow, store = clusters.flow, clusters.state
    seen = drivers(store.read_all(prefix=StateKey.DRIVER))
    signs = signs_of_life(clusters, mirror_maker, seen=seen)
    if signs:
        raise FlowRunning(f"{undone}: {signs[0]}")
    before_fence()
    if not flow.exactly_once:
        yield None
        return
    prefix = None if mirror_maker is None else mirror_maker.task_id_prefix
    owner = take_ownership(clusters, 1, flow.tasks_max, task_id_prefix=prefix)
    try:
        # An owner that took the flow before us had announced itself before that.
        begun = living_driver(store, seen, 0)
        if begun is not None:
            raise FlowRunning(f"{undone}: {begun} started at the same moment, and was fenced: start it again")
        yield owner
    except Fenced as error:
        raise FlowRunning(f"{undone}: a run took over the flow in the meantime") from error
    finally:
        # Without another fence: it would hit a run that took the flow meanwhile. Nothing of ours is open.
        owner.abandon()


def signs_of_life(
    clusters: FlowClusters,
    mirror_maker: ConnectNames | None = None,
    *,
    seen: dict[str, object] | None = None,
    watch_seconds: float = WATCH_SECONDS,
) -> list[str]:
    """One sentence for each sign that a run, or MirrorMaker 2, is active on the flow.

    Args:
        seen: presences that were read before; read now where not given.
        watch_seconds: how long to watch for a beat of a run that may be alive.
    """
    flow, store = clusters.flow, clusters.state
    signs = active_writers(flow, mirror_maker, pool=clusters.target.links)
    if signs:
        return signs
    known = drivers(store.read_all(prefix=StateKey.DRIVER)) if seen is None else seen
    alive = living_driver(store, known, watch_seconds)
    return [] if alive is None else [f"{alive} is active; pause the DAG and wait for its end"]
