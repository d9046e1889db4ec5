"""A flow as it is to run now, for routes: the properties file, and the lists that were edited."""

from __future__ import annotations

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.rest.app_context import AppContext
from srm_common.rest.live import hurried
from srm_common.rest.ports import Caller, Scheduler
from srm_common.usecases.filters.edited_filters import FilterPlace, RecordedFilters, VariableFilters

_HINT = (
    "name that Airflow to this service (SRM_AIRFLOW_URL), or edit them with srm-control topics --store kafka, which "
    "Airflow goes by only without a variable"
)


class CallersVariables:
    """Airflow's variables in the hands of one caller."""

    def __init__(self, scheduler: Scheduler, caller: Caller) -> None:
        self._scheduler = scheduler
        self._caller = caller

    def variable(self, name: str) -> str | None:
        return self._scheduler.variable(name)

    def set_variable(self, name: str, text: str, description: str) -> None:
        self._scheduler.set_variable(name, text, description, self._caller)


def filters_of(context: AppContext, name: FlowName, caller: Caller) -> tuple[FlowSettings, FilterPlace]:
    """The flow as the file has it, and where its edited lists are kept. Does not query anything yet.

    Raises:
        ConfigError: there is no such flow, or its keys are wrong.
    """
    configuration = context.configuration()
    flow = hurried(configuration.flow(name))
    if context.scheduler is None:
        return flow, RecordedFilters(flow, who=caller.name, hint=_HINT)
    flows = (*configuration.flows, *configuration.faults)
    return flow, VariableFilters(flow, flows, CallersVariables(context.scheduler, caller), who=caller.name)


def flow_now(context: AppContext, name: FlowName, caller: Caller) -> FlowSettings:
    """The flow with the lists that count.

    Raises:
        ConfigError: as :func:`filters_of`.
        AirflowError, UnreachableCluster, AccessDenied, ClusterError: who keeps the edits does not respond.
    """
    return filters_of(context, name, caller)[1].effective().flow
