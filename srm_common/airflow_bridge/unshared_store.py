"""Whether tasks may report into a file that the Replications page does not read: each machine has a metrics store of
its own, as long as none is named."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from airflow.sdk.configuration import conf

from srm_common.settings_files.configuration import Configuration

# In the pods of KubernetesExecutor, whose own configuration often says LocalExecutor (as with Airflow's Helm chart).
_POD = "AIRFLOW_IS_K8S_EXECUTOR_POD"
_LOCAL = "LocalExecutor"


def unshared_store(
    configuration: Configuration, executor: str | None = None, environment: Mapping[str, str] = os.environ
) -> str | None:
    """What to do, in a sentence, if the store is the file of this machine and Airflow may run tasks on others.

    Args:
        executor: the task's own, by its name or alias; None: Airflow's default one.

    Raises:
        ConfigError: the store's address is not one.
        StoreError: there is no place for a file.
    """
    # Not at the top: it imports SQLAlchemy, and the parse of a DAG file comes by here.
    from srm_common.store.location import names_store, store_location

    if names_store(configuration, environment):
        return None
    name = _class_name(executor) if environment.get(_POD) is None else "KubernetesExecutor"
    if name.endswith(_LOCAL):
        return None
    file = store_location(configuration, environment).removeprefix("sqlite:///")
    return (
        f"{name} may run tasks on several machines, and each has a metrics store of its own, here {file}: what runs "
        "report elsewhere is missing; set metrics.database.url to a database that all workers and the API server use"
    )


def _class_name(executor: str | None) -> str:
    """Of the executor with this name or alias; without one, of the first that Airflow's configuration lists, which is
    the default."""
    entries = [entry.strip() for entry in re.split("[,;]", conf.get("core", "executor", fallback=_LOCAL)) if entry]
    aliases = dict(entry.split(":", 1) for entry in entries if ":" in entry)
    chosen = executor or next(iter(entries), _LOCAL).rpartition(":")[2]
    return aliases.get(chosen, chosen).rpartition(".")[2]
