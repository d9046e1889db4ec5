"""Where the edited lists of a flow are kept, as the environment says: an Airflow by its REST API, an Airflow on this
machine, or ``srm-control.internal`` alone."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from srm_common.airflow_rest import URL, AirflowRest
from srm_common.cli.airflow_home import AirflowHome
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.filters.flow_filters import FilterLists
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow.names import CONTROL_TOPIC
from srm_common.errors import AirflowError, ConfigError
from srm_common.usecases.filters.edited_filters import FilterPlace, RecordedFilters, VariableFilters
from srm_common.usecases.filters.effective_filters import EffectiveFilters

Store = Literal["auto", "airflow", "kafka"]


class FilterStore(FilterPlace, Protocol):
    """Keeps the edited lists of one flow, and may start its runs."""

    def can_run(self) -> None:
        """Raises :class:`AirflowError` when there is nobody to start a run of the flow."""
        ...

    def start_run(self) -> str:
        """Start a run of the flow; says which, and what it waits for."""
        ...


def filter_store(
    flow: FlowSettings,
    flows: Sequence[FlowName],
    choice: Store = "auto",
    *,
    writes_to: ClusterSettings | None = None,
    environment: Mapping[str, str] = os.environ,
) -> FilterStore:
    """The store of a flow whose lists are those of the properties file.

    Args:
        flows: all flows of the file.
        writes_to: the target as the history is written to it, where that needs other client settings.

    Raises:
        ConfigError: an Airflow is asked for and none is named.
    """
    if choice != "kafka":
        airflow = AirflowRest.from_environment(environment) or AirflowHome.from_environment(environment)
        if airflow is not None:
            return AirflowStore(flow, flows, airflow, writes_to)
        if choice == "airflow":
            raise ConfigError(f"no Airflow is named; set {URL}, or AIRFLOW_HOME where Airflow runs on this machine")
    return KafkaStore(flow, writes_to, told=choice == "kafka")


class AirflowStore(VariableFilters):
    """The lists are in the flow's Airflow variable."""

    def __init__(
        self,
        flow: FlowSettings,
        flows: Sequence[FlowName],
        airflow: AirflowRest | AirflowHome,
        writes_to: ClusterSettings | None,
    ) -> None:
        where, who = f"in {airflow.folder}" if isinstance(airflow, AirflowHome) else f"at {airflow.url}", whoami()
        if isinstance(airflow, AirflowRest) and airflow.user is not None:
            who += f" as Airflow user {airflow.user}"
        super().__init__(flow, flows, airflow, where=where, who=who, writes_to=writes_to)
        self._dag_id = flow.name.dag_id
        self._airflow = airflow
        self._paused = False

    def write(self, lists: FilterLists, effective: EffectiveFilters, note: str) -> list[str]:
        if isinstance(self._airflow, AirflowHome) and self.in_environment in os.environ:
            raise ConfigError(
                f"environment variable {self.in_environment} has the filters, and Airflow goes by it; edit it"
            )
        return super().write(lists, effective, note)

    def can_run(self) -> None:
        self._paused = self._airflow.is_paused(self._dag_id)

    def start_run(self) -> str:
        run_id = self._airflow.start_run(self._dag_id, "srm-control --now")
        waits = "; the DAG is paused, so it waits until it is unpaused" if self._paused else ""
        return f"started run {run_id} of {self._dag_id}{waits}"


class KafkaStore(RecordedFilters):
    """The lists are in ``srm-control.internal`` on the target, and nowhere else.

    Args:
        told: somebody chose this store, so an edit is made even where the flow's lists were kept in Airflow before.
    """

    def __init__(self, flow: FlowSettings, writes_to: ClusterSettings | None, *, told: bool) -> None:
        hint = (
            f"name that Airflow with {URL}, or say --store kafka to keep them in {CONTROL_TOPIC}, which Airflow goes "
            f"by only without a variable"
        )
        super().__init__(flow, who=whoami(), hint=None if told else hint, writes_to=writes_to)
        self._name = flow.name

    def start_run(self) -> str:
        raise AssertionError("nobody can")

    def can_run(self) -> None:
        raise AirflowError(
            f'there is no Airflow to start a run in; copy now with: srm-control run --flow "{self._name}"'
        )


def whoami() -> str:
    """The person, or account, that runs this command."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # an account without a name
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"
