"""GET /cluster-info/{kafkaClusterId}: the flows of a cluster, as in Streams Replication Manager's version 2."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

from fastapi import APIRouter, Path

from srm_common.domain.amount import counted
from srm_common.domain.cluster import ClusterSettings
from srm_common.errors import SrmError
from srm_common.rest.app_context import AppContextDep, ReaderDep
from srm_common.rest.faults import ApiError, responses
from srm_common.rest.live import CALLS, TAG
from srm_common.rest.overview import load_overview
from srm_common.rest.query_parameters import RangeDep, now_ms
from srm_common.rest.srm.schemas import ClusterInfo
from srm_common.rest.srm.v1 import replication_infos, shown_range
from srm_common.usecases.flows.open_cluster import OpenCluster

router = APIRouter(prefix="/api/v2", tags=["clusters", TAG])

#: A cluster that is up returns its id within a second.
_SECONDS = 5.0
_ClusterId = Annotated[
    str,
    Path(
        alias="kafkaClusterId",
        min_length=1,
        max_length=249,
        description="Kafka's id of the cluster, or its alias",
        examples=["MkU3OEVBNTcwNTJENDM2Qk"],
    ),
]


@router.get("/cluster-info/{kafkaClusterId}", responses=responses(404, 422, 503, 504))
def cluster_info(context: AppContextDep, caller: ReaderDep, cluster_id: _ClusterId, span: RangeDep) -> ClusterInfo:
    """Flows from and to a cluster. The clusters are queried for their ids; ``errors`` has those that do not respond."""
    seen = load_overview(context, caller, now_ms())
    aliases = {alias for flow in seen.names for alias in (flow.source, flow.target)}
    faults = [fault.message for fault in seen.faults]
    if cluster_id in aliases:
        alias, found_id = cluster_id, None
    else:
        clusters = context.configuration().clusters
        asked = [clusters[alias] for alias in sorted(aliases) if alias in clusters]
        ids, more = CALLS.ask("the ids of the clusters", lambda: _ids(asked))
        faults += more
        if cluster_id not in ids:
            silent = f"; {counted(len(more), 'cluster')} could not be queried: {more[0]}" if more else ""
            raise ApiError(
                404,
                "unknown_cluster",
                f"no cluster of a flow has the id '{cluster_id}'{silent}",
                field="kafkaClusterId",
            )
        alias, found_id = ids[cluster_id], cluster_id
    infos = replication_infos(context, seen, [flow for flow in seen.names if alias in (flow.source, flow.target)], span)
    return ClusterInfo(
        kafka_cluster_id=found_id,
        name=alias,
        sources=[info for info in infos.values() if info.target == alias],
        targets=[info for info in infos.values() if info.source == alias],
        errors=faults,
        range=shown_range(span),
    )


def _ids(clusters: Collection[ClusterSettings]) -> tuple[dict[str, str], list[str]]:
    """Aliases by id, and why others are unknown."""

    def ask(cluster: ClusterSettings) -> tuple[str, str] | str:
        try:
            with OpenCluster(cluster) as opened:
                return opened.admin_within(_SECONDS).cluster_id(), cluster.alias
        except SrmError as error:  # also one of a file of its settings, such as a keystore
            return str(error)

    if not clusters:
        return {}, []
    with ThreadPoolExecutor(min(len(clusters), 16), thread_name_prefix="srm-cluster-id") as pool:
        found = list(pool.map(ask, clusters))
    return dict(one for one in found if not isinstance(one, str)), [one for one in found if isinstance(one, str)]
