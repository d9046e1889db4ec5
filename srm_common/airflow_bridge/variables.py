"""Airflow variables and asset states that tasks read and write."""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowRuntimeError

from srm_common.domain.filters.flow_filters import in_environment, variable_name, variable_names
from srm_common.domain.flow import FlowName, FlowSettings, GraphFlow
from srm_common.errors import AirflowError
from srm_common.settings_files.configuration import Configuration, load_configuration

if TYPE_CHECKING:
    from airflow.sdk import Asset, Context

    from srm_common.usecases.filters.effective_filters import EditedLists, EffectiveFilters
    from srm_common.usecases.flows.flow_clusters import FlowClusters


_LOG = logging.getLogger(__name__)
#: Where Airflow's context has the states of a task's assets.
_OF_CONTEXT = "asset_state_store"


class VariableState:
    """Airflow variables ``srm_state__<asset>__<key>`` in place of an asset's state."""

    def __init__(self, asset: str) -> None:
        self._prefix = f"srm_state__{asset}__"

    def get(self, key: str, default: Any = None) -> Any:
        from airflow.sdk import Variable

        return Variable.get(self._prefix + key, default=default, deserialize_json=True)

    def set(self, key: str, value: Any) -> None:
        from airflow.sdk import Variable

        Variable.set(self._prefix + key, value, serialize_json=True)


class _VariableStates:
    def __getitem__(self, asset: Asset) -> VariableState:
        return VariableState(asset.name)


def ensure_asset_state(context: Context) -> None:
    """The context of a task has a place for the states of assets afterwards."""
    if _OF_CONTEXT not in context:
        mutable: Any = context
        mutable[_OF_CONTEXT] = _VariableStates()


def asset_state_outside_of_tasks(asset: str) -> Any:
    """The same state for Airflow's triggerer."""
    try:
        # Made for tasks; the triggerer answers the same questions.
        from airflow.sdk.execution_time.context import AssetStateStoreAccessor
    except ImportError:
        return VariableState(asset)
    return AssetStateStoreAccessor(name=asset)


def is_missing(error: AirflowRuntimeError) -> bool:
    """Whether Airflow responds that it does not have what a task asked about."""
    return bool((error.error.detail or {}).get("status_code") == 404)


# Airflow does not tell a variable that does not exist from one that it could not read: its server logs whatever its
# database or a secrets backend says, and answers that there is none. So a variable that was not found may be there.


def _is_listed(name: str) -> bool | None:
    """Whether Airflow's database has a variable, and nothing else: secrets backends cannot list theirs. None: this
    Airflow (3.2) does not say.

    Raises:
        AirflowError: it does not respond.
    """
    keys = getattr(Variable, "keys", None)
    if keys is None:
        return None
    try:
        return name in list(keys(prefix=name))
    except ImportError:
        return None  # outside of tasks, where variables are those of the environment
    except AirflowRuntimeError as error:
        if is_missing(error):
            return None  # an API server of Airflow 3.2
        raise AirflowError(f"Airflow does not say whether it has the variable {name}: {error}") from error


def _read(name: str) -> tuple[str | None, str | None]:
    """(the value of a variable, why it may have one that cannot be read, if that is known)."""
    try:
        text = Variable.get(name, default=None)
        if text is not None or not _is_listed(name):
            return text, None
    except (AirflowError, PermissionError) as error:
        return None, str(error)
    return None, f"Airflow has the variable {name} but did not return its value, and the log of its API server says why"


#: Made by the first run. ``AIRFLOW_VAR_SRM_INSTALLATION`` gives it a name of one's own.
VARIABLE = "srm_installation"
_LOOKS = 3
_PAUSE_SECONDS = 1.0


def installation_id() -> str | None:
    """The same for every worker of this Airflow; created on first use. None: there may be one that cannot be read now,
    which this run must not replace."""
    if (found := Variable.get(VARIABLE, default=None)) is not None:
        return str(found)
    try:
        listed = _is_listed(VARIABLE)
    except AirflowError as error:
        _LOG.warning("this run does not say which installation it belongs to: %s", error)
        return None
    looks = 1 if listed is False else _LOOKS
    for _ in range(looks - 1):
        time.sleep(_PAUSE_SECONDS)
        if (found := Variable.get(VARIABLE, default=None)) is not None:
            return str(found)
    if listed:
        return None
    Variable.set(VARIABLE, uuid.uuid4().hex[:12], "Distinguishes installations that run the same flow")
    # Another process may have done so at the same moment.
    made = Variable.get(VARIABLE, default=None)
    return None if made is None else str(made)


# The flow as it is to run now: the properties file, and the filters of its Airflow variable. Read by every task when
# it runs, so that an edit acts at the next run.


@contextmanager
def open_flow(config: str, flow: str) -> Iterator[tuple[EffectiveFilters, FlowClusters]]:
    """The flow as :func:`flow_now` has it, with its clusters, which the task has open once for all that it does."""
    from srm_common.usecases.flows.flow_clusters import FlowClusters

    configuration = load_configuration(Path(config))
    with FlowClusters(with_opposite(configuration.flow(flow), configuration)) as clusters:
        now = _edited(clusters, configuration)
        yield now, clusters.with_flow(now.flow)


def with_opposite(flow: FlowSettings, configuration: Configuration) -> FlowSettings:
    """``flow``, whose graph has the flow in the other direction if that copies without being enabled in the file: one
    for which the file says neither ``enabled = true`` nor ``false`` does, once someone has unpaused its DAG.

    Raises:
        AirflowError: Airflow does not say so.
    """
    back = configuration.flows.get(FlowName(flow.name.target, flow.name.source))
    if back is None or back.enabled or back.disabled or not is_unpaused(back.name.dag_id):
        return flow
    copying = GraphFlow.of(back.name, back.policy, back.source, back.target, back.schemas_context)
    return replace(flow, graph=(*flow.graph, copying))


def is_unpaused(dag_id: str) -> bool:
    """Whether Airflow has this DAG, and it is not paused; for tasks. Raises :class:`AirflowError`."""
    from airflow.sdk.execution_time import task_runner

    if not hasattr(task_runner, "SUPERVISOR_COMMS"):
        return False  # outside of tasks
    try:
        return not task_runner.RuntimeTaskInstance.get_dag(dag_id).is_paused
    except AirflowRuntimeError as error:
        if is_missing(error):
            return False
        raise AirflowError(f"Airflow does not say whether {dag_id} is paused: {error}") from error


def flow_now(config: str, flow: str) -> EffectiveFilters:
    """The flow with the filters that count; whatever keeps an edit from acting is an error in the task's log.

    Raises:
        ConfigError: the file is wrong.
        UnreachableCluster, AccessDenied, ClusterError: there is no variable, or no good one, and the target, which
            has the edits made elsewhere and the last good ones, does not respond.
        AirflowError: the variable may exist but cannot be read, and no earlier lists are known.
    """
    configuration = load_configuration(Path(config))
    return _edited(configuration.flow(flow), configuration)


def _edited(clusters: FlowSettings | FlowClusters, configuration: Configuration) -> EffectiveFilters:
    from srm_common.usecases.filters.effective_filters import effective_filters

    flow = clusters.name if isinstance(clusters, FlowSettings) else clusters.flow.name
    effective = effective_filters(clusters, edited_lists(flow, configuration.names))
    for fault in effective.faults:
        _LOG.error("%s: %s", flow, fault)
    _LOG.info("%s: %s", flow, effective.explain())
    return effective


def edited_lists(flow: FlowName, flows: Sequence[FlowName]) -> EditedLists:
    """What the flow's Airflow variable holds. Raises :class:`ConfigError`."""
    from srm_common.usecases.filters.effective_filters import EditedLists
    from srm_common.usecases.filters.filter_history import IN_ENVIRONMENT

    for name in variable_names(flow, flows):
        text, unread = _read(name)
        if unread is not None:
            return EditedLists(None, f"Airflow variable {name}", unread=unread)
        if text is None:
            continue
        override = in_environment(name)
        # Airflow itself looks there first.
        if os.environ.get(override) == text:
            return EditedLists(text, f"environment variable {override}", IN_ENVIRONMENT)
        return EditedLists(text, f"Airflow variable {name}")
    return EditedLists(None, f"Airflow variable {variable_name(flow)}")
