"""Bind an alias to another Kafka cluster, wherever flows have recorded its former one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import GraphFlow
from srm_common.domain.topics.topic_records import ClusterBinding
from srm_common.errors import ConfigError
from srm_common.usecases.flows.open_cluster import OpenCluster


@dataclass(frozen=True, slots=True)
class Rebinding:
    """That ``alias`` is recorded on ``place`` as the cluster ``before``, and is to be ``after``."""

    place: str
    alias: str
    before: str
    after: str

    def to_json(self) -> dict[str, Any]:
        return {"place": self.place, "alias": self.alias, "before": self.before, "after": self.after}


def rebind(
    flows: Iterable[GraphFlow], alias: str, *, dry_run: bool = False, clock: Callable[[], float] = time.time
) -> list[Rebinding]:
    """Record on the targets of all flows of ``alias`` the cluster that its addresses lead to. Harmless when repeated.

    Args:
        flows: the enabled flows of the file.
        dry_run: only say what would be written.
        clock: epoch seconds.

    Raises:
        ConfigError: no flow uses the alias, its cluster does not tell its id, or the settings of a target cannot be
            used; the others are done.
        UnreachableCluster, AccessDenied, ClusterError: a cluster cannot be queried; those before it are done.
    """
    involved = [flow for flow in flows if alias in (flow.name.source, flow.name.target)]
    if not involved:
        raise ConfigError(f"no enabled flow has the cluster '{alias}'")
    with OpenCluster(_reached(involved, alias)) as renewed:
        cluster_id = renewed.admin.cluster_id()
    if not cluster_id:
        raise ConfigError(f"cluster '{alias}' does not return its id, so there is nothing to record")
    done = []
    faults = []
    for place in sorted({flow.name.target for flow in involved}):
        try:
            cluster = _reached(involved, place)
        except ConfigError as error:
            faults.append(f"'{place}' was left as it is: {error}")
            continue
        with OpenCluster(cluster) as opened:
            registry = opened.registry
            bound = registry.read().bindings.get(alias)
            if bound is None or bound.cluster_id == cluster_id:
                continue
            if not dry_run:
                registry.write((), [ClusterBinding(alias, cluster_id, int(clock() * 1000))])
        done.append(Rebinding(place, alias, bound.cluster_id, cluster_id))
    if faults:
        written = "" if dry_run else "".join(f"; '{one.place}' has the new binding" for one in done)
        raise ConfigError("; ".join(faults) + written)
    return done


def _reached(flows: Iterable[GraphFlow], alias: str) -> ClusterSettings:
    """The settings of a cluster by the first flow with usable ones; raises the first ConfigError if there is none."""
    faults = []
    for flow in flows:
        if alias in (flow.name.source, flow.name.target):
            try:
                return flow.source if flow.name.source == alias else flow.target
            except ConfigError as error:
                faults.append(error)
    raise faults[0]
