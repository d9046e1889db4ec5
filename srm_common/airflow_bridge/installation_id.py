"""The id by which this Airflow differs from another one that has the same flow enabled."""

from __future__ import annotations

import uuid

from airflow.sdk import Variable

#: Made by the first run. ``AIRFLOW_VAR_SRM_INSTALLATION`` gives it a name of one's own.
VARIABLE = "srm_installation"


def installation_id() -> str:
    """The same for every worker of this Airflow; made when it is asked for first."""
    found = Variable.get(VARIABLE, default=None)
    if found is None:
        Variable.set(VARIABLE, uuid.uuid4().hex[:12], "Distinguishes installations that run the same flow")
        # Another process may have done so at the same moment.
        found = Variable.get(VARIABLE)
    return str(found)
