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
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow_filters import FilterLists, variable_name, variable_names
from srm_common.domain.names import CONTROL_TOPIC
from srm_common.errors import AirflowError, ClusterError, ConfigError, EditConflict, StateError
from srm_common.usecases.effective_filters import EditedLists, EffectiveFilters, effective_filters
from srm_common.usecases.filter_history import IN_AIRFLOW, IN_ENVIRONMENT, IN_KAFKA, last_edit, make_edit, record_edit

Store = Literal["auto", "airflow", "kafka"]
_ENVIRONMENT_PREFIX = "AIRFLOW_VAR_"


class FilterStore(Protocol):
    """Keeps the edited lists of one flow."""

    @property
    def place(self) -> str:
        """Where, for people."""
        ...

    def effective(self) -> EffectiveFilters:
        """What counts for the flow now."""
        ...

    def write(self, lists: FilterLists, effective: EffectiveFilters, note: str) -> list[str]:
        """Keep ``lists`` instead of those of ``effective``; returns what went less than well.

        Raises:
            EditConflict: they were edited since; nothing was changed.
        """
        ...

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


class AirflowStore:
    """The lists are in the flow's Airflow variable; every edit is written down in ``srm-control.internal``, too."""

    def __init__(
        self,
        flow: FlowSettings,
        flows: Sequence[FlowName],
        airflow: AirflowRest | AirflowHome,
        writes_to: ClusterSettings | None,
    ) -> None:
        self._flow = flow
        self._names = variable_names(flow.name, flows)
        self._airflow = airflow
        self._writes_to = writes_to
        self._name = variable_name(flow.name)
        self._text: str | None = None
        self._paused = False

    @property
    def place(self) -> str:
        where = f"at {self._airflow.url}" if isinstance(self._airflow, AirflowRest) else f"in {self._airflow.folder}"
        return f"Airflow variable {self._name} {where}"

    def effective(self) -> EffectiveFilters:
        self._text = None
        for name in self._names:
            self._text = self._airflow.variable(name)
            if self._text is not None:
                self._name = name
                break
        return effective_filters(self._flow, EditedLists(self._text, self.place))

    def write(self, lists: FilterLists, effective: EffectiveFilters, note: str) -> list[str]:
        in_environment = _ENVIRONMENT_PREFIX + self._name.upper()
        if isinstance(self._airflow, AirflowHome) and in_environment in os.environ:
            raise ConfigError(f"environment variable {in_environment} has the filters, and Airflow goes by it; edit it")
        if self._airflow.variable(self._name) != self._text:
            raise EditConflict(
                f"{self.place} was edited while this edit was made; nothing was changed, look at it and repeat the edit"
            )
        self._airflow.set_variable(self._name, lists.format(), f"What the flow {self._flow.name} copies")
        kept = self._airflow.variable(self._name)
        if kept is None or FilterLists.parse(kept) != lists:
            raise EditConflict(f"{self.place} was edited again right after this edit; look at it and repeat the edit")
        try:
            last = last_edit(self._flow)
            record_edit(self._flow, lists, origin=IN_AIRFLOW, who=self._who(), note=note, writes_to=self._writes_to)
        except (ClusterError, StateError) as error:
            return [f"the edit is made, but not written down with its author: {error}"]
        if last is not None and last.origin == IN_ENVIRONMENT:
            return [
                f"the last run found its filters in environment variable {in_environment}, which Airflow goes by first"
            ]
        return []

    def can_run(self) -> None:
        self._paused = self._airflow.is_paused(self._flow.name.dag_id)

    def start_run(self) -> str:
        dag_id = self._flow.name.dag_id
        run_id = self._airflow.start_run(dag_id, "srm-control --now")
        waits = "; the DAG is paused, so it waits until it is unpaused" if self._paused else ""
        return f"started run {run_id} of {dag_id}{waits}"

    def _who(self) -> str:
        user = self._airflow.user if isinstance(self._airflow, AirflowRest) else None
        return whoami() if user is None else f"{whoami()} as Airflow user {user}"


class KafkaStore:
    """The lists are in ``srm-control.internal`` on the target, and nowhere else.

    Args:
        told: somebody chose this store, so an edit is made even where the flow's lists were kept in Airflow before.
    """

    def __init__(self, flow: FlowSettings, writes_to: ClusterSettings | None, *, told: bool) -> None:
        self._flow = flow
        self._writes_to = writes_to
        self._told = told

    @property
    def place(self) -> str:
        return f"{CONTROL_TOPIC} on cluster '{self._flow.target.alias}'"

    def effective(self) -> EffectiveFilters:
        return effective_filters(self._flow, None)

    def write(self, lists: FilterLists, effective: EffectiveFilters, note: str) -> list[str]:
        last = effective.last
        if last is not None and last.origin != IN_KAFKA and last.after:
            where = f"an Airflow variable ({variable_name(self._flow.name)}, last seen at {last.when})"
            if not self._told:
                raise ConfigError(
                    f"the filters of {self._flow.name} are kept in {where}; name that Airflow with {URL}, or say "
                    f"--store kafka to keep them in {CONTROL_TOPIC}, which Airflow goes by only without a variable"
                )
            warnings = [f"runs in Airflow go by {where} as long as it exists"]
        else:
            warnings = []
        make_edit(self._flow, lists, based_on=last, who=whoami(), note=note, writes_to=self._writes_to)
        return warnings

    def start_run(self) -> str:
        raise AssertionError("nobody can")

    def can_run(self) -> None:
        raise AirflowError(
            f'there is no Airflow to start a run in; copy now with: srm-control run --flow "{self._flow.name}"'
        )


def whoami() -> str:
    """The person, or account, that runs this command."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # an account without a name
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"
