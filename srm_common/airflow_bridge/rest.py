"""The web app under ``/srm``: what the flows are doing, as JSON for other tools; ``/srm/docs`` describes it.

Reads Airflow's database only: the DAGs, and the state that ``report_lag`` keeps with each flow's asset. Airflow mounts
plugins' apps without a login of their own, so every data route here asks Airflow's auth manager.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.models.asset import AssetModel
from airflow.models.asset_state_store import AssetStateStoreModel
from airflow.models.dag import DagModel, DagTag
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Path
from pydantic import BaseModel
from sqlalchemy import select

from srm_common import __version__
from srm_common.airflow_bridge.flow_tasks import MISCONFIGURED_TAG

FLOW_TAG = "srm"


class Flow(BaseModel):
    """One flow. ``status``, ``figures`` and ``topics`` are those of its last reported run, None before the first."""

    flow: str
    dag_id: str
    paused: bool
    misconfigured: bool
    reason: str | None = None
    status: dict[str, Any] | None = None
    figures: dict[str, Any] | None = None
    topics: list[dict[str, Any]] | None = None


class Flows(BaseModel):
    flows: list[Flow]


router = APIRouter(prefix="/api/v2")


@router.get("/flows", dependencies=[Depends(requires_access_dag("GET"))])
def flows(session: SessionDep, user: GetUserDep) -> Flows:
    """All flows that the caller may see."""
    readable = get_auth_manager().get_authorized_dag_ids(user=user, method="GET", session=session)
    return Flows(flows=[_flow(session, dag) for dag in _dags(session) if dag.dag_id in readable])


@router.get("/flows/{dag_id}", dependencies=[Depends(requires_access_dag("GET"))])
def flow(dag_id: Annotated[str, Path(examples=["srm.east.west"])], session: SessionDep) -> Flow:
    """One flow, by the id of its DAG."""
    for dag in _dags(session):
        if dag.dag_id == dag_id:
            return _flow(session, dag)
    raise HTTPException(404, f"there is no flow with the DAG '{dag_id}'")


def create_app() -> FastAPI:
    """The app that the plugin mounts."""
    app = FastAPI(title="Replication flows", version=__version__)
    app.include_router(router)
    return app


def _dags(session: SessionDep) -> list[DagModel]:
    mine = DagModel.tags.any(DagTag.name == FLOW_TAG)
    return list(session.scalars(select(DagModel).where(mine, ~DagModel.is_stale).order_by(DagModel.dag_id)))


def _flow(session: SessionDep, dag: DagModel) -> Flow:
    tags = {tag.name for tag in dag.tags}
    found = {tag.partition(":")[0]: tag.partition(":")[2] for tag in tags}
    misconfigured = MISCONFIGURED_TAG in tags
    entries = session.execute(
        select(AssetStateStoreModel.key, AssetStateStoreModel.value)
        .join(AssetModel, AssetModel.id == AssetStateStoreModel.asset_id)
        .where(AssetModel.name == dag.dag_id)
    )
    state = {key: json.loads(value) for key, value in entries}
    return Flow(
        flow=f"{found.get('source')}->{found.get('target')}",
        dag_id=dag.dag_id,
        paused=bool(dag.is_paused),
        misconfigured=misconfigured,
        reason=dag.description if misconfigured else None,
        status=state.get("status"),
        figures=state.get("figures"),
        topics=state.get("topics"),
    )
