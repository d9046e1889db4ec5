"""The flow of a path, if it is known: to this service, or, if this one is a gateway, to another."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

from fastapi import Depends

from srm_common.domain.flow import FlowName
from srm_common.errors import AirflowError, ConfigError, StoreError
from srm_common.rest.app_context import AppContext, AppContextDep, ReadableFlow
from srm_common.rest.faults import ApiError, fault_of
from srm_common.rest.overview import known_by_reports, unknown
from srm_common.rest.peers.flows import ServedByPeer, serving_peer
from srm_common.rest.peers.gateway import Local, PeersDep
from srm_common.rest.query_parameters import now_ms
from srm_common.rest.schemas import Fault


def local_flow(flow: ReadableFlow, context: AppContextDep, peers: PeersDep, local: Local = False) -> FlowName:
    """The flow of the path, unless another service has it; this service need not know it either.

    A flow that the list shows as this service's own is served here, even if other services know it.

    Raises:
        ServedByPeer: this is a gateway, and another service reports the flow.
        ApiError: 502 if the flow is unknown here, and services that may know it do not respond.
    """
    if local or not peers.gateway or _listed_as_own(context, flow):
        return flow
    peer, missing = serving_peer(peers, flow)
    if peer is not None:
        raise ServedByPeer(flow, peer)
    if missing and not _known(context, flow)[0]:
        text = f"cannot tell whether another service has flow {flow}: {missing[0].message}"
        raise ApiError(502, missing[0].code, text, flow=str(flow), service=missing[0].service)
    return flow


LocalFlow = Annotated[FlowName, Depends(local_flow)]


def existing_flow(flow: LocalFlow, context: AppContextDep) -> FlowName:
    """The flow of the path, when the file or the history knows it.

    Raises:
        ApiError: it is unknown (404), or a service that may know it does not respond (503).
    """
    known, faults = _known(context, flow)
    if not known:
        raise unknown(flow, faults)
    return flow


ExistingFlow = Annotated[FlowName, Depends(existing_flow)]


def _known(context: AppContext, flow: FlowName) -> tuple[bool, list[Fault]]:
    faults: list[Fault] = []
    try:
        configuration = context.configuration()
        if flow in configuration.flows or flow in configuration.faults:
            return True, []
    except ConfigError as error:
        faults.append(fault_of(error))
    try:
        if context.store.flows([str(flow)]):
            return True, []
    except StoreError as error:
        faults.append(fault_of(error))
    return False, faults


def _listed_as_own(context: AppContext, flow: FlowName) -> bool:
    """By the rule of :func:`srm_common.rest.overview.load_overview`, the cheapest check first."""
    with suppress(ConfigError):
        configuration = context.configuration()
        settings = configuration.flows.get(flow)
        if flow in configuration.faults or (settings is not None and settings.enabled):
            return True
    with suppress(StoreError):
        if any(known_by_reports(row, now_ms()) for row in context.store.flows([str(flow)])):
            return True
    with suppress(AirflowError):
        return context.scheduler is not None and any(
            scheduled_flow.flow == flow for scheduled_flow in context.scheduler.flows()
        )
    return False
