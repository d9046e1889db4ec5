"""Airflow's side of the project: flows become DAGs, use cases tasks, reports metrics.

A DAG file needs one line for the DAGs of all flows::

    globals().update(flow_dags())

another one for the DAGs that move consumer groups::

    globals().update(move_dags())

and a third one for the DAG that verifies copies::

    globals().update(verify_dags())
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import DAG

__all__ = ["flow_dags", "move_dags", "verify_dags"]


def flow_dags(
    config: str | Path | None = None, *, default_args: Mapping[str, Any] | None = None, tags: Collection[str] = ()
) -> dict[str, DAG]:
    """One DAG per flow of the configuration file, by DAG id; and ``srm.watch``, where the file names a notifier.

    ``config`` is the properties file; without it ``SRM_CONFIG``, then ``srm.properties`` in ``$AIRFLOW_HOME``. The
    same for all DAGs of an Airflow: of two DAGs with one id, such as ``srm.watch``, it keeps one. Raises
    :class:`srm_common.errors.ConfigError` for a file that cannot be read, which Airflow shows as an import error. A
    fault in the keys of one flow gives that flow a DAG that only says so; the others are not affected.

    ``default_args`` are Airflow's, for what the file does not set: owner, queue, executor, callbacks. ``tags`` are
    added to those of each DAG.
    """
    _drop_outdated()
    # Not at the top: the plugin lives in this package too, and every Airflow process imports it.
    from srm_common.airflow_bridge.dag_arguments import Additions
    from srm_common.airflow_bridge.dag_factory import build_dags

    return build_dags(config, Additions(default_args, tags))


def move_dags(
    config: str | Path | None = None, *, default_args: Mapping[str, Any] | None = None, tags: Collection[str] = ()
) -> dict[str, DAG]:
    """``srm.failover``, ``srm.failback`` and ``srm.switch_direction``, for the flows of the configuration file, which
    is found, and refused, as by :func:`flow_dags`, which has the same arguments. A file without flows has none of
    them."""
    _drop_outdated()
    from srm_common.airflow_bridge.dag_arguments import Additions
    from srm_common.airflow_bridge.moves.move_dag_factory import build_move_dags

    return build_move_dags(config, Additions(default_args, tags))


def verify_dags(
    config: str | Path | None = None, *, default_args: Mapping[str, Any] | None = None, tags: Collection[str] = ()
) -> dict[str, DAG]:
    """``srm.verify``, for the flows of the configuration file, which is found, and refused, as by :func:`flow_dags`,
    which has the same arguments. A file without flows has none."""
    _drop_outdated()
    from srm_common.airflow_bridge.dag_arguments import Additions
    from srm_common.airflow_bridge.verification.verify_dag import build_verify_dags

    return build_verify_dags(config, Additions(default_args, tags))


def _drop_outdated() -> None:
    if preload := sys.modules.get("srm_common.airflow_bridge.preload"):
        preload.drop_outdated()
