"""What the routes of the web app share: the context, the caller, and the caller's permissions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, cast

from fastapi import Depends, Path, Request

from srm_common.domain.flow import FlowName
from srm_common.rest.current_figures import CurrentFigures
from srm_common.rest.faults import ApiError
from srm_common.rest.ports import Access, Caller, Right, Scheduler
from srm_common.settings_files.configuration import Configuration
from srm_common.store.metrics_store import MetricsStore
from srm_common.usecases.monitoring.lag_watch import LagWatch


@dataclass(frozen=True)
class AppContext:
    """``scheduler`` is None where there is no Airflow to ask. ``configuration`` loads the file (cached while it
    has not changed) and raises :class:`ConfigError`. ``lag`` queries clusters while figures are requested; the
    creator of the context closes it with the store."""

    access: Access
    store: MetricsStore
    scheduler: Scheduler | None
    configuration: Callable[[], Configuration]
    lag: LagWatch = field(default_factory=LagWatch)

    @property
    def figures(self) -> CurrentFigures:
        """The history, with the lag of now."""
        return CurrentFigures(self.store, self.lag, self.configuration)


def app_context(request: Request) -> AppContext:
    return cast(AppContext, request.app.state.context)


AppContextDep = Annotated[AppContext, Depends(app_context)]


#: Names of clusters: what properties can say, and no longer than a topic's name.
Alias = Annotated[str, Path(min_length=1, max_length=249, examples=["east"])]
TargetAlias = Annotated[str, Path(min_length=1, max_length=249, examples=["west"])]


def caller(request: Request, context: AppContextDep) -> Caller:
    """The caller; 401 without a login. A plain function, as access may ask a database."""
    return context.access.caller(request)


CallerDep = Annotated[Caller, Depends(caller)]


def flow_for(right: Right) -> Callable[..., FlowName]:
    """A dependency: the flow of the path's ``{source}`` and ``{target}``, when the caller has the right; else 403."""

    def flow_of_path(source: Alias, target: TargetAlias, caller: CallerDep) -> FlowName:
        flow = FlowName(source, target)
        require(caller, right, flow)
        return flow

    return flow_of_path


def require(caller: Caller, right: Right, flow: FlowName | None = None) -> None:
    """Raises :class:`ApiError` (403) unless the caller has the right; ``flow`` None: for any flow at all."""
    if caller.may(right, flow):
        return
    which = "any flow" if flow is None else str(flow)
    what = {Right.READ: "read", Right.TRIGGER: "start, pause or resume", Right.EDIT: "edit"}[right]
    raise ApiError(403, "forbidden", f"{caller.name} may not {what} {which}", flow=None if flow is None else str(flow))


def reader(caller: CallerDep) -> Caller:
    """A caller who may read some flow; 403 for others."""
    require(caller, Right.READ)
    return caller


ReaderDep = Annotated[Caller, Depends(reader)]
ReadableFlow = Annotated[FlowName, Depends(flow_for(Right.READ))]
TriggerableFlow = Annotated[FlowName, Depends(flow_for(Right.TRIGGER))]
EditableFlow = Annotated[FlowName, Depends(flow_for(Right.EDIT))]
