"""The flow as it is to run now: the properties file, and the filters of its Airflow variable. Read by every task when
it runs, so that an edit acts at the next run."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk import Variable

from srm_common.domain.filters.flow_filters import variable_name, variable_names
from srm_common.domain.flow import FlowName
from srm_common.settings_files.configuration import load_configuration

if TYPE_CHECKING:
    from srm_common.usecases.filters.effective_filters import EditedLists, EffectiveFilters

_LOG = logging.getLogger(__name__)
_ENVIRONMENT_PREFIX = "AIRFLOW_VAR_"  # airflow.secrets.environment_variables


def flow_now(config: str, flow: str) -> EffectiveFilters:
    """The flow with the filters that count; whatever keeps an edit from acting is an error in the task's log.

    Raises:
        ConfigError: the file is wrong.
        UnreachableCluster, AccessDenied, ClusterError: there is no variable, or no good one, and the target, which
            has the edits made elsewhere and the last good ones, does not respond.
    """
    from srm_common.usecases.filters.effective_filters import effective_filters

    configuration = load_configuration(Path(config))
    settings = configuration.flow(flow)
    found = edited_lists(settings.name, [*configuration.flows, *configuration.faults])
    effective = effective_filters(settings, found)
    for fault in effective.faults:
        _LOG.error("%s: %s", flow, fault)
    _LOG.info("%s: %s", flow, effective.explain())
    return effective


def edited_lists(flow: FlowName, flows: Sequence[FlowName]) -> EditedLists:
    """What the flow's Airflow variable holds. Raises :class:`ConfigError`."""
    from srm_common.usecases.filters.effective_filters import EditedLists
    from srm_common.usecases.filters.filter_history import IN_ENVIRONMENT

    for name in variable_names(flow, flows):
        text = Variable.get(name, default=None)
        if text is None:
            continue
        in_environment = _ENVIRONMENT_PREFIX + name.upper()
        # Airflow itself looks there first.
        if os.environ.get(in_environment) == text:
            return EditedLists(text, f"environment variable {in_environment}", IN_ENVIRONMENT)
        return EditedLists(text, f"Airflow variable {name}")
    return EditedLists(None, f"Airflow variable {variable_name(flow)}")
