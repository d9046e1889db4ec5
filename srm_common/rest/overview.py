"""The flows at one moment, from the file, the history and the scheduler, as far as each is available."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.health.health import Observation, overdue_since
from srm_common.domain.health.judge import Verdict, judge, observe
from srm_common.domain.monitoring.schedule import ScheduledFlow
from srm_common.errors import AirflowError, ConfigError, StoreError
from srm_common.rest.app_context import AppContext
from srm_common.rest.faults import ApiError, fault_of
from srm_common.rest.ports import Caller
from srm_common.rest.schemas import Fault
from srm_common.store.rows import FlowRow

#: While the file or Airflow cannot be queried, how long a flow is known by its last report.
_KNOWN_BY_REPORTS_MS = 86_400_000


@dataclass(frozen=True)
class Overview:
    """The flows that a caller may see. ``store_fault`` and ``schedule_fault``: why the store or the scheduler could not
    be queried; ``faults`` includes them, that of the configuration, and what the store may lack."""

    now_ms: int
    names: tuple[FlowName, ...]
    rows: Mapping[str, FlowRow] = field(default_factory=dict)
    scheduled: Mapping[FlowName, ScheduledFlow] = field(default_factory=dict)
    settings: Mapping[FlowName, FlowSettings] = field(default_factory=dict)
    misconfigured: Mapping[FlowName, str] = field(default_factory=dict)
    cluster_faults: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    store_fault: str | None = None
    schedule_fault: str | None = None

    def observation(self, flow: FlowName) -> Observation:
        """Everything by which the flow's health is judged."""
        row = self.rows.get(str(flow))
        return observe(
            flow,
            None if row is None else row.history,
            self.settings.get(flow),
            self.scheduled.get(flow),
            self.now_ms,
            store_fault=self.store_fault,
            schedule_fault=self.schedule_fault,
            misconfigured=self.misconfigured.get(flow),
        )

    def verdict(self, flow: FlowName) -> Verdict:
        """Flow health."""
        return judge(self.observation(flow))


def load_overview(context: AppContext, caller: Caller, now_ms: int, only: FlowName | None = None) -> Overview:
    """Query the file, the store and the scheduler; those that do not respond are named in the faults.

    Raises:
        ApiError: the flow ``only`` is unknown (404), or a service that may know it does not respond (503).
    """
    faults: list[Fault] = []
    settings: dict[FlowName, FlowSettings] = {}
    misconfigured: dict[FlowName, str] = {}
    cluster_faults: dict[str, str] = {}
    scheduled: dict[FlowName, ScheduledFlow] = {}
    rows: dict[str, FlowRow] = {}
    store_fault = schedule_fault = None
    configured: set[FlowName] = set()
    try:
        configuration = context.configuration()
        settings = dict(configuration.flows)
        misconfigured = {flow: str(fault) for flow, fault in configuration.faults.items()}
        cluster_faults = {alias: str(fault) for alias, fault in configuration.cluster_faults.items()}
        configured = {flow for flow, one in settings.items() if one.enabled} | set(misconfigured)
    except ConfigError as error:
        faults.append(fault_of(error))
    try:
        rows = {row.flow: row for row in context.figures.flows(None if only is None else [str(only)])}
    except StoreError as error:
        store_fault = str(error)
        faults.append(fault_of(error))
    if context.scheduler is not None:
        try:
            scheduled = {scheduled_flow.flow: scheduled_flow for scheduled_flow in context.scheduler.flows()}
        except AirflowError as error:
            schedule_fault = str(error)
            faults.append(fault_of(error))
    unsure = bool(faults) and store_fault is None
    reported = {FlowName.parse(flow) for flow, row in rows.items() if known_by_reports(row, now_ms, unsure=unsure)}
    known: Collection[FlowName] = configured | set(scheduled) | reported
    if only is not None:
        if not (only in known or only in settings or str(only) in rows):
            raise unknown(only, faults)
        known = [only]
    # Not before: it does not make known flows doubtful.
    if known and (notice := context.store_notice()) is not None:
        faults.append(Fault(code="store_not_shared", message=notice))
    return Overview(
        now_ms,
        tuple(sorted(caller.readable(known))),
        rows,
        scheduled,
        settings,
        misconfigured,
        cluster_faults,
        tuple(faults),
        store_fault,
        schedule_fault,
    )


def known_by_reports(row: FlowRow, now_ms: int, *, unsure: bool = True) -> bool:
    """Whether to show a flow that is known only from reports: as long as it reports on time, another installation runs
    it. A removed flow disappears before it would count as stalled.

    Args:
        unsure: the file or Airflow cannot be queried, and may have the flow; then it is shown until a day after its
            last report.
    """
    if now_ms - row.reported_ms >= _KNOWN_BY_REPORTS_MS:
        return False
    return unsure or overdue_since(observe(FlowName.parse(row.flow), row.history, None, None, now_ms)) is None


def unknown(flow: FlowName, faults: Sequence[Fault]) -> ApiError:
    """The flow is unknown (404), or services in ``faults`` may know it and do not respond (503)."""
    if faults:
        return ApiError(503, faults[0].code, f"cannot tell whether flow {flow} exists: {faults[0].message}")
    return ApiError(404, "unknown_flow", f"there is no flow {flow}", flow=str(flow))
