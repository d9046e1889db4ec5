"""The tasks of a flow other than the copy: each one calls a use case and logs what it did.

They hold names only. The configuration file is read when a task runs, so that no credential is ever part of a DAG.
Use cases are imported then, too: parsing a DAG file must not load a Kafka client.
"""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from srm_common.airflow_bridge.failures import (
    BEGAN_KEY,
    UNABLE_KEY,
    began_ms,
    skip_if_disabled,
    stop_if_unable,
    translate_errors,
    why_unable,
)
from srm_common.airflow_bridge.params import RunParams
from srm_common.airflow_bridge.unshared_store import unshared_store
from srm_common.airflow_bridge.variables import ensure_asset_state, open_flow
from srm_common.domain.flow import FlowName
from srm_common.errors import ClusterError, ConfigError, SrmError, StateError, StoreError
from srm_common.settings_files.checks import notices
from srm_common.settings_files.configuration import Configuration, load_configuration

if TYPE_CHECKING:
    from airflow.sdk import Context

    from srm_common.airflow_bridge.lag_report import LagReport
    from srm_common.domain.flow import FlowSettings
    from srm_common.domain.monitoring.run_report import RunReport
    from srm_common.usecases.filters.effective_filters import EffectiveFilters
    from srm_common.usecases.flows.flow_clusters import FlowClusters


# A key of the asset's state: how many records the flow had copied at the last event of the asset.
_ANNOUNCED = "announced_records"


class FlowOperator(BaseOperator):
    """A task of one flow. ``flow`` is ``source->target``, ``config`` the path of the properties file."""

    ui_color = "#e8f1ff"

    def __init__(self, *, flow: str, config: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.flow = flow
        self.config = config

    def pre_execute(self, context: Any) -> None:
        ensure_asset_state(context)
        skip_if_disabled(context, self.config, self.flow)

    def settings(self) -> FlowSettings:
        """The flow as the file has it now."""
        return load_configuration(Path(self.config)).flow(self.flow)

    def open_flow(self) -> AbstractContextManager[tuple[EffectiveFilters, FlowClusters]]:
        """The flow as it is to run now, with the filters of its Airflow variable, and its clusters."""
        return open_flow(self.config, self.flow)


class RefreshTopicsOperator(FlowOperator):
    """Makes the topics on the target ready; fails at the end when an action failed, having done all others. So do later
    runs until it has succeeded."""

    def execute(self, context: Context) -> None:
        from srm_common.domain.runs.run_options import narrowing
        from srm_common.usecases.filters.effective_filters import record_found
        from srm_common.usecases.topics.refresh_topics import refresh_topics

        context["ti"].xcom_push(key=BEGAN_KEY, value=round(time.time() * 1000))
        with translate_errors():
            try:
                params = RunParams.of(context["params"])
                narrow = narrowing(params.options(context["run_id"]))
                self._warn_of_keys()
                with self.open_flow() as (now, clusters):
                    refreshed = refresh_topics(
                        clusters,
                        at_once=params.refresh_at_once,
                        narrow=narrow,
                        show_plan=lambda plan: self.log.info("%s", plan.render()),
                    )
                    if edit := record_found(clusters, now):
                        self.log.info("%s: recorded an edit of the filters: %s", self.flow, edit.note)
            except SrmError as error:
                context["ti"].xcom_push(key=UNABLE_KEY, value=str(error))
                raise
        self.log.info("%s: %s", self.flow, refreshed)
        for result in refreshed.results:
            self.log.log(logging.INFO if result.error is None else logging.ERROR, "%s", result)
        for sentence in (one for failure in refreshed.standing for one in failure.sentences):
            self.log.error("%s", sentence)
        if refreshed.fault is not None:
            # Final for this run: the copy must not wait for retries. A later run tries again what has failed.
            raise AirflowFailException(refreshed.fault)

    def _warn_of_keys(self) -> None:
        """Once a run: keys of the file without effect."""
        configuration, flow = load_configuration(Path(self.config), connections=None), FlowName.parse(self.flow)
        for warning in notices(configuration, flow).get(flow, ()):
            self.log.warning("%s", warning)


class SyncCheckpointsOperator(FlowOperator):
    """Writes offset syncs and checkpoints; fails at the end when a group could not be read, having done all others."""

    def execute(self, context: Context) -> None:
        from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints

        stop_if_unable(context)
        with translate_errors(), self.open_flow() as (_, clusters):
            report = sync_checkpoints(clusters)
        self.log.info("%s: %s", self.flow, report)
        for line in report.lines():
            self.log.info("%s", line)
        if report.faults:
            raise AirflowException(f"{len(report.faults)} faults, the first: {report.faults[0]}")


class EmitHeartbeatOperator(FlowOperator):
    """Writes one heartbeat to each of the flow's clusters that is to have them."""

    def execute(self, context: Context) -> None:
        from srm_common.usecases.runs.emit_heartbeat import emit_heartbeat

        with translate_errors():
            emit_heartbeat(self.settings())
        self.log.info("%s: heartbeat written", self.flow)


class ReportLagOperator(FlowOperator):
    """Reads the flow's last run record and reports the lag to metrics, the asset's state and the log."""

    def __init__(self, *, asset: Asset, **kwargs: Any) -> None:
        # An outlet, since only a task's own assets may keep state; and other DAGs may wait for fresh data by it.
        super().__init__(outlets=[asset], **kwargs)
        self.asset = asset

    def execute(self, context: Context) -> None:
        from srm_common.airflow_bridge.lag_report import send
        from srm_common.usecases.monitoring.raw_metrics import publish_report
        from srm_common.usecases.monitoring.report_run import (
            followed_by,
            keep_in_history,
            make_report,
            unreachable_report,
        )

        run_id = context["run_id"]
        configuration = load_configuration(Path(self.config), connections=None)
        self._warn_of_store(configuration)
        with translate_errors():
            try:
                with self.open_flow() as (now, clusters):
                    unable = why_unable(context)
                    report = make_report(clusters, run_id, unable=unable, warnings=now.faults, filters=now)
                    if report.fault is not None and (later := followed_by(clusters, run_id, began_ms(context))):
                        self.log.warning(
                            "%s: run %s was followed by %s, which reports itself", self.flow, run_id, later
                        )
                        self.outlets = []
                        return
                    keep_in_history(report, configuration)
                    publish_report(clusters, report)
            except (ClusterError, StateError) as error:
                report = unreachable_report(self.flow, run_id, str(error))
                keep_in_history(report, configuration)
                send(self._tell(self.settings(), report, context).metrics())
                raise
        told = self._tell(now.flow, report, context)
        self._announce(now.flow, report, context)
        # Last, so that a task that is tried again does not count twice.
        send(told.metrics())

    def _announce(self, flow: FlowSettings, report: RunReport, context: Context) -> None:
        """Let Airflow create an event of the asset only if records were committed since the last one: by this run, by
        an earlier attempt of it, or by a run that was not reported here."""
        from srm_common.usecases.monitoring.report_run import copied_records

        fresh = False
        if report.run is not None:
            store = context["asset_state_store"][self.asset]
            copied, total = copied_records(flow, report.run)
            fresh = copied > 0 or total != (store.get(_ANNOUNCED) or 0)
            if fresh:
                store.set(_ANNOUNCED, total)
        # Airflow creates an event for each outlet that the task has when it succeeds.
        self.outlets = [self.asset] if fresh else []

    def _warn_of_store(self, configuration: Configuration) -> None:
        try:
            notice = unshared_store(configuration, self.executor)
        except (ConfigError, StoreError):
            return  # the report cannot be stored then, which is logged
        if notice is not None:
            self.log.warning("%s", notice)

    def _tell(self, flow: FlowSettings, run: RunReport, context: Context) -> LagReport:
        """To the log, the asset's state and the notifiers of alarms; what is left is to send its metrics."""
        from srm_common.airflow_bridge.alarms import judged, send_alarms
        from srm_common.airflow_bridge.lag_report import LagReport

        store = context["asset_state_store"][self.asset]
        memory, verdict = judged(flow, run, store)
        report = LagReport.of(run, verdict.health, memory.history)
        if report.warning is not None:
            self.log.error("%s: %s", self.flow, report.warning)
        self.log.info("%s", report.text())
        before = store.get("status")
        now_ms = round(time.time() * 1000)
        for key, value in report.asset_state(before if isinstance(before, dict) else None, now_ms).items():
            store.set(key, value)
        send_alarms(flow, run, context, store)
        return report


class MisconfiguredOperator(FlowOperator):
    """Stands where the tasks of a flow would be whose keys are wrong."""

    ui_color = "#ffd9d9"

    def execute(self, context: Context) -> None:
        with translate_errors():
            self.settings()
        # The worker's copy of the file is newer than the one this DAG was made from.
        raise AirflowFailException(f"{self.flow} is valid again in {self.config}; its DAG comes back within a minute")
