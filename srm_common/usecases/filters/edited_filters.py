"""Where edited filters of a flow are stored: in an Airflow variable, or only in ``srm-control.internal``."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.filters.flow_filters import FilterLists, in_environment, variable_name, variable_names
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow.names import CONTROL_TOPIC
from srm_common.errors import ClusterError, ConfigError, EditConflict, StateError
from srm_common.usecases.filters.effective_filters import EditedLists, EffectiveFilters, effective_filters
from srm_common.usecases.filters.filter_history import (
    IN_AIRFLOW,
    IN_ENVIRONMENT,
    IN_KAFKA,
    last_edit,
    make_edit,
    record_edit,
)


class Variables(Protocol):
    """The variables of an Airflow, as the person who edits may change them. Raises :class:`AirflowError`."""

    def variable(self, name: str) -> str | None: ...

    def set_variable(self, name: str, text: str, description: str) -> None: ...


class FilterPlace(Protocol):
    """Keeps the edited lists of one flow."""

    @property
    def place(self) -> str:
        """Where they are kept, for messages."""
        ...

    @property
    def revision(self) -> str:
        """Changes with every edit; as of the last :meth:`effective`."""
        ...

    def effective(self) -> EffectiveFilters:
        """What counts for the flow now.

        Raises:
            AirflowError: there is an Airflow, and it does not respond.
            UnreachableCluster, AccessDenied, ClusterError: the target, which keeps the edits, cannot be read.
        """
        ...

    def write(self, lists: FilterLists, effective: EffectiveFilters, note: str) -> list[str]:
        """Keep ``lists`` instead of those of ``effective``; returns what went less than well.

        Raises:
            EditConflict: they were edited since; nothing was changed.
            ConfigError: edits have to be made elsewhere.
        """
        ...


class VariableFilters:
    """The lists are in the flow's Airflow variable; every edit is written down in ``srm-control.internal``, too.

    Args:
        flow: with the lists of the properties file.
        flows: all flows of the file.
        where: the Airflow, for people, such as ``at http://airflow:8080``.
        who: makes the edit.
        writes_to: the target as the history is written to it, where that needs other client settings.
    """

    def __init__(
        self,
        flow: FlowSettings,
        flows: Sequence[FlowName],
        variables: Variables,
        *,
        where: str = "",
        who: str,
        writes_to: ClusterSettings | None = None,
    ) -> None:
        self._flow = flow
        self._names = variable_names(flow.name, flows)
        self._variables = variables
        self._where = where
        self._who = who
        self._writes_to = writes_to
        self._name = variable_name(flow.name)
        self._text: str | None = None

    @property
    def place(self) -> str:
        return f"Airflow variable {self._name} {self._where}".rstrip()

    @property
    def revision(self) -> str:
        return "none" if self._text is None else hashlib.sha256(self._text.encode()).hexdigest()[:16]

    @property
    def in_environment(self) -> str:
        """The environment variable by which Airflow would override this one."""
        return in_environment(self._name)

    def effective(self) -> EffectiveFilters:
        self._text = None
        for name in self._names:
            self._text = self._variables.variable(name)
            if self._text is not None:
                self._name = name
                break
        return effective_filters(self._flow, EditedLists(self._text, self.place))

    def write(self, lists: FilterLists, effective: EffectiveFilters, note: str) -> list[str]:
        if self._variables.variable(self._name) != self._text:
            raise EditConflict(
                f"{self.place} was edited concurrently; nothing was changed, check it and repeat the edit"
            )
        self._variables.set_variable(self._name, lists.format(), f"What the flow {self._flow.name} copies")
        kept = self._variables.variable(self._name)
        if kept is not None and kept == self._text != lists.format():
            # The environment has a check of its own, so it is a secrets backend that goes before the database.
            raise ConfigError(
                f"{self.place} is still read as before, so runs do not go by this edit: a secrets backend of Airflow "
                f"has the variable, too, and is asked before the database; edit it there"
            )
        if kept is None or FilterLists.parse(kept) != lists:
            raise EditConflict(f"{self.place} was edited again right after this edit; check it and repeat the edit")
        try:
            last = last_edit(self._flow)
            record_edit(self._flow, lists, origin=IN_AIRFLOW, who=self._who, note=note, writes_to=self._writes_to)
        except (ClusterError, StateError) as error:
            return [f"the edit is in effect, but could not be recorded with its author: {error}"]
        if last is not None and last.origin == IN_ENVIRONMENT:
            return [
                f"the last run found its filters in environment variable {self.in_environment}, which Airflow goes by "
                f"first"
            ]
        return []


class RecordedFilters:
    """The lists are in ``srm-control.internal`` on the target, and nowhere else.

    Args:
        hint: what to do if the flow's lists are kept in an Airflow. None: this store was chosen explicitly, so an
            edit is made even then.
        flow, who, writes_to: as for :class:`VariableFilters`.
    """

    def __init__(
        self, flow: FlowSettings, *, who: str, hint: str | None, writes_to: ClusterSettings | None = None
    ) -> None:
        self._flow = flow
        self._who = who
        self._hint = hint
        self._writes_to = writes_to
        self._effective: EffectiveFilters | None = None

    @property
    def place(self) -> str:
        return f"{CONTROL_TOPIC} on cluster '{self._flow.target.alias}'"

    @property
    def revision(self) -> str:
        last = None if self._effective is None else self._effective.last
        return "none" if last is None else last.key

    def effective(self) -> EffectiveFilters:
        self._effective = effective_filters(self._flow, None)
        return self._effective

    def write(self, lists: FilterLists, effective: EffectiveFilters, note: str) -> list[str]:
        last = effective.last
        warnings = []
        if last is not None and last.origin != IN_KAFKA and last.after:
            where = f"an Airflow variable ({variable_name(self._flow.name)}, last seen at {last.when})"
            if self._hint is not None:
                raise ConfigError(f"the filters of {self._flow.name} are kept in {where}; {self._hint}")
            warnings.append(f"runs in Airflow go by {where} as long as it exists")
        make_edit(self._flow, lists, based_on=last, who=self._who, note=note, writes_to=self._writes_to)
        return warnings
