"""GET /health, /clusters and /whoami: the service itself, the graph of clusters, and who the caller is."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from srm_common import __version__
from srm_common.domain.health.health import HealthState
from srm_common.rest import presenters
from srm_common.rest.app_context import AppContextDep, CallerDep, ReaderDep
from srm_common.rest.faults import responses
from srm_common.rest.overview import Overview, load_overview
from srm_common.rest.peers.flows import health_of_peers
from srm_common.rest.peers.gateway import Answers, Local, PeersDep
from srm_common.rest.ports import Right
from srm_common.rest.query_parameters import now_ms
from srm_common.rest.schemas import Answer, HealthAnswer

router = APIRouter(prefix="/api/v2", tags=["service"])

#: States in which nothing is wrong with a flow: it works as configured, or is new.
_GOOD = {
    HealthState.RUNNING,
    HealthState.CATCHING_UP,
    HealthState.IDLE,
    HealthState.HEARTBEAT_ONLY,
    HealthState.NOT_RUN,
    HealthState.PAUSED,
}


class ClusterNode(BaseModel):
    """``reachable`` null: not tried recently."""

    alias: str
    reachable: bool | None = None
    fault: str | None = None
    checked_ms: int | None = None


class ClusterGraph(Answer):
    """GET /clusters: nodes; the edges are the flows."""

    clusters: list[ClusterNode]


class WhoAmI(Answer):
    name: str
    rights: list[str] = Field(description="of: read, trigger, edit")


@router.get("/health", responses=responses())
def health(context: AppContextDep, peers: PeersDep, caller: ReaderDep, local: Local = False) -> HealthAnswer:
    """Health of the service and its flows; for a gateway also of the other services and their flows. ``status`` is
    ``down`` when every flow has a problem or nothing is known, ``degraded`` when some have one or something does not
    respond, otherwise ``up``, also with flows that have not run yet or copy heartbeats only; it covers this service's
    own flows."""
    seen = load_overview(context, caller, now_ms())
    states = {flow: seen.verdict(flow).health for flow in seen.names}
    others, asked = ({}, Answers()) if local else health_of_peers(peers)
    faults = [*seen.faults, *asked.faults]
    bad = sum(state.state not in _GOOD for state in states.values())
    if (states and bad == len(states)) or (seen.faults and not states):
        status = "down"
    else:
        status = "degraded" if bad or faults else "up"
    readable = caller.readable(others)
    models = {flow: one for flow, one in others.items() if flow in readable}
    models |= {flow: presenters.health(one) for flow, one in states.items()}
    return HealthAnswer(
        status=status,
        store=seen.store_fault,
        schedule=seen.schedule_fault,
        flows={str(flow): models[flow] for flow in sorted(models)},
        services=list(asked.services),
        version=__version__,
        errors=faults,
        now_ms=seen.now_ms,
    )


@router.get("/clusters", responses=responses(503))
def clusters(context: AppContextDep, caller: ReaderDep) -> ClusterGraph:
    """The clusters of the flows that the caller may see. Whether they are reachable is as of the last runs."""
    seen = load_overview(context, caller, now_ms())
    aliases = sorted({alias for flow in seen.names for alias in (flow.source, flow.target)})
    return ClusterGraph(
        clusters=[_node(seen, alias) for alias in aliases], errors=list(seen.faults), now_ms=seen.now_ms
    )


def _node(seen: Overview, alias: str) -> ClusterNode:
    """By the newest run that says something about the cluster: it was good, or its error names the cluster."""
    if alias in seen.cluster_faults:
        return ClusterNode(alias=alias, fault=seen.cluster_faults[alias])
    flows = [str(flow) for flow in seen.names if alias in (flow.source, flow.target)]
    reports = [
        (run.finished_ms or run.reported_ms, run.ok, run.error)
        for run in (seen.rows[flow].last_run for flow in flows if flow in seen.rows)
        if run.ok or f"cluster '{alias}'" in (run.error or "")
    ]
    if not reports:
        return ClusterNode(alias=alias)
    when, reachable, fault = max(reports, key=lambda one: one[:2])
    return ClusterNode(alias=alias, reachable=reachable, fault=fault, checked_ms=when)


@router.get("/whoami", responses=responses())
def whoami(caller: CallerDep) -> WhoAmI:
    """The caller's name and rights."""
    return WhoAmI(name=caller.name, rights=[right.value for right in Right if caller.may(right)], now_ms=now_ms())
