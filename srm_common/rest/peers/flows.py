"""Flows of other services, which a gateway shows read-only among its own, with the service's name. Requests for one of
them are forwarded, and the response is returned unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.routing import APIRoute

from srm_common.domain.flow import FlowName
from srm_common.domain.flow.service_advertisement import Advertisement
from srm_common.domain.health.health import HealthState
from srm_common.domain.metrics.stats import TimeRange
from srm_common.errors import ConfigError, PeerError
from srm_common.rest.faults import fault_of, refusal
from srm_common.rest.live import TAG
from srm_common.rest.peers.client import PeerRefusal
from srm_common.rest.peers.gateway import Answers, Peers, peers
from srm_common.rest.query_parameters import LONGEST_SEARCH, MOST_ROWS
from srm_common.rest.schemas import (
    AlarmModel,
    Answer,
    Fault,
    FlowDetail,
    FlowList,
    FlowSummary,
    HealthAnswer,
    HealthModel,
    Helping,
    RunList,
    Series,
)


class ServedByPeer(Exception):
    """The flow belongs to another service, to which the request is passed on:
    :func:`srm_common.rest.peers.flows.pass_on`."""

    def __init__(self, flow: FlowName, peer: Advertisement) -> None:
        super().__init__(f"service '{peer.name}' reports {flow}")
        self.flow = flow
        self.peer = peer


def flows_of_peers(
    peers: Peers, span: TimeRange, sources: Sequence[str], states: Sequence[HealthState], search: str
) -> tuple[list[FlowSummary], list[Fault]]:
    """Flows by name; if several services report a flow, the newest report is used. The faults name the missing
    services, and what the services themselves could not return."""
    query = [
        ("from_ms", str(span.start_ms)),
        ("to_ms", str(span.end_ms)),
        ("search", search),
        ("limit", str(MOST_ROWS)),
        *(("source", source) for source in sources),
        *(("status", state.value) for state in states),
    ]
    found, faults = _reported(peers, query)
    return [foreign(one, peer.name) for _, (peer, one) in sorted(found.items())], faults


def serving_peer(peers: Peers, flow: FlowName) -> tuple[Advertisement | None, list[Fault]]:
    """The service whose flow the list shows, None if no service that responds has it; the faults are those of the
    others. It is remembered as long as it advertises itself."""
    known = peers.reporter(str(flow))
    if known is not None:
        return known, []
    query = [("source", flow.source), ("search", str(flow)[:LONGEST_SEARCH]), ("limit", str(MOST_ROWS))]
    found, faults = _reported(peers, query)
    return (found[str(flow)][0], []) if str(flow) in found else (None, faults)


def _reported(
    peers: Peers, query: Sequence[tuple[str, str]]
) -> tuple[dict[str, tuple[Advertisement, FlowSummary]], list[Fault]]:
    """Flows by name, each with the service that reported it last."""
    asked = peers.ask("/api/v2/flows", query, FlowList)
    found: dict[str, tuple[Advertisement, FlowSummary]] = {}
    faults = list(asked.faults)
    for peer, answer in asked.answers:
        faults += [fault.model_copy(update={"service": peer.name}) for fault in answer.errors]
        if answer.total > len(answer.flows):
            text = f"service '{peer.name}' has {answer.total} flows; the first {len(answer.flows)} are shown"
            faults.append(fault_of(PeerError(text), service=peer.name))
        for summary in answer.flows:
            if summary.flow != str(FlowName(summary.source, summary.target)):
                ends = f"from '{summary.source}' to '{summary.target}'"
                text = f"service '{peer.name}' reports a flow '{summary.flow}' {ends}"
                faults.append(fault_of(PeerError(text), service=peer.name))
                continue
            known = found.get(summary.flow)
            if known is None or (known[1].reported_ms or 0) < (summary.reported_ms or 0):
                found[summary.flow] = (peer, summary)
    peers.remember({flow: peer.url for flow, (peer, _) in found.items()})
    return found, faults


def health_of_peers(peers: Peers) -> tuple[dict[FlowName, HealthModel], Answers[HealthAnswer]]:
    """Health of the other services' flows, and their responses."""
    asked = peers.ask("/api/v2/health", (), HealthAnswer)
    models: dict[FlowName, HealthModel] = {}
    for _, answer in asked.answers:
        for flow, health in answer.flows.items():
            with suppress(ConfigError):  # not the name of a flow
                models[FlowName.parse(flow)] = _without_button(health)
    return models, asked


def foreign(flow: FlowSummary, service: str) -> FlowSummary:
    """Without links and actions, which here would lead to, or change, a flow of that name in this service's Airflow."""
    return flow.model_copy(
        update={
            "service": service,
            "dag_url": None,
            "last_run": None if flow.last_run is None else flow.last_run.model_copy(update={"url": None}),
            "health": _without_button(flow.health),
            "alarms": [_plain_alarm(alarm) for alarm in flow.alarms],
        }
    )


def _plain_alarm(alarm: AlarmModel) -> AlarmModel:
    return alarm.model_copy(update={"help": _plain(alarm.help)})


def _without_button(health: HealthModel) -> HealthModel:
    return health.model_copy(update={"help": _plain(health.help)})


def _plain(help: Helping | None) -> Helping | None:
    return None if help is None else help.model_copy(update={"action": None})


#: Refusals that the caller can fix; others are the service's own problem.
_OF_THE_REQUEST = frozenset({404, 409, 422})

AnswerType = TypeVar("AnswerType", bound=Answer)


def pass_on(request: Request, error: Exception) -> Response:
    """Answer a request that raised :class:`ServedByPeer` by a GET of the same path and query at the service that
    reports the flow; its response must have the model of the route here."""
    assert isinstance(error, ServedByPeer)
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    assert isinstance(route.response_model, type)
    assert issubclass(route.response_model, Answer)
    path = route.path_format.format(**{name: quote(str(one), safe="") for name, one in request.path_params.items()})
    # A live request waits for clusters, which says nothing about the service.
    patient = TAG in route.tags
    others = peers(request)
    try:
        answer = others.ask_one(
            error.peer, path, request.query_params.multi_items(), route.response_model, held_against=not patient
        )
        shown = _as_shown_here(answer, error.flow, error.peer.name)
    except PeerRefusal as refused:
        if any(fault.code == "unknown_flow" for fault in refused.faults):
            others.forget(str(error.flow))
        if refused.status in _OF_THE_REQUEST:
            named = [fault.model_copy(update={"service": error.peer.name}) for fault in refused.faults]
            return refusal(refused.status, named)
        return refusal(502, [fault_of(refused, flow=str(error.flow), service=error.peer.name)])
    except PeerError as failed:
        return refusal(502, [fault_of(failed, flow=str(error.flow), service=error.peer.name)])
    return Response(shown.model_dump_json(), media_type="application/json")


def _as_shown_here(answer: AnswerType, flow: FlowName, service: str) -> AnswerType:
    """With the service's name, and without links and actions, as in :func:`foreign`.

    Raises:
        PeerError: it is about another flow.
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
        raise PeerError(f"service '{service}' was queried for {flow} and returned '{meant}'")
    return answer.model_copy(update=changed)
