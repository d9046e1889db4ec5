"""Parts of another service's flow, as a gateway shows them: it passes on the question, and the answer as it is."""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.routing import APIRoute

from srm_common.domain.flow import FlowName
from srm_common.errors import PeerError
from srm_common.rest.faults import fault_of, refusal
from srm_common.rest.live import TAG
from srm_common.rest.peers.client import PeerRefusal
from srm_common.rest.peers.flows import foreign
from srm_common.rest.peers.gateway import peers
from srm_common.rest.peers.served_by_peer import ToldElsewhere
from srm_common.rest.schemas import Answer, FlowDetail, RunList, Series

#: What whoever asked can mend; other refusals are the service's own trouble.
_OF_THE_QUESTION = frozenset({404, 409, 422})

Told = TypeVar("Told", bound=Answer)


def pass_on(request: Request, error: Exception) -> Response:
    """Answers a request in whose course :class:`ToldElsewhere` was raised: by GET of the same path and query at the
    service that tells of the flow, whose answer must be what the route here would have given."""
    assert isinstance(error, ToldElsewhere)
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    assert isinstance(route.response_model, type)
    assert issubclass(route.response_model, Answer)
    path = route.path_format.format(**{name: quote(str(one), safe="") for name, one in request.path_params.items()})
    # Clusters take their time, which says nothing of the service.
    patient = TAG in route.tags
    others = peers(request)
    try:
        answer = others.ask_one(
            error.peer, path, request.query_params.multi_items(), route.response_model, held_against=not patient
        )
        told = _as_shown_here(answer, error.flow, error.peer.name)
    except PeerRefusal as refused:
        if any(fault.code == "unknown_flow" for fault in refused.faults):
            others.forget(str(error.flow))
        if refused.status in _OF_THE_QUESTION:
            named = [fault.model_copy(update={"service": error.peer.name}) for fault in refused.faults]
            return refusal(refused.status, named)
        return refusal(502, [fault_of(refused, flow=str(error.flow), service=error.peer.name)])
    except PeerError as failed:
        return refusal(502, [fault_of(failed, flow=str(error.flow), service=error.peer.name)])
    return Response(told.model_dump_json(), media_type="application/json")


def _as_shown_here(answer: Told, flow: FlowName, service: str) -> Told:
    """With the service's name, and without what leads into its Airflow or would steer a flow of that name here.

    Raises:
        PeerError: it tells of another flow.
    """
    named = [fault.model_copy(update={"service": service}) for fault in answer.errors]
    changed: dict[str, object] = {"service": service, "errors": named}
    meant = str(flow)
    match answer:
        case FlowDetail():
            meant = str(FlowName(answer.flow.source, answer.flow.target))
            changed["flow"] = foreign(answer.flow, service)
        case Series():
            meant = answer.flow
        case RunList():
            changed["runs"] = [run.model_copy(update={"url": None}) for run in answer.runs]
    if meant != str(flow):
        raise PeerError(f"service '{service}' was asked about {flow} and tells of '{meant}'")
    return answer.model_copy(update=changed)
