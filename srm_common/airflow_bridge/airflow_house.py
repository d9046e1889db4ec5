"""The web app inside Airflow's API server: its logins, its DAGs, and the history of metrics beside its home."""

from __future__ import annotations

from fastapi import FastAPI

from srm_common.airflow_bridge.airflow_access import AirflowAccess
from srm_common.airflow_bridge.airflow_scheduler import AirflowScheduler
from srm_common.airflow_bridge.configuration_path import configuration_path
from srm_common.errors import ConfigError, StoreError
from srm_common.rest.app import AppContext, create_app
from srm_common.rest.peers.advertiser import Advertiser
from srm_common.rest.serving.watched_files import WatchedConfiguration
from srm_common.settings_files.configuration import Configuration
from srm_common.store.location import open_store
from srm_common.store.metrics_store import MetricsStore


def airflow_app() -> FastAPI:
    """The app that the plugin mounts. Where the history is, is read now: a change of
    ``metrics.database.url`` needs a restart of the API server."""
    configuration = WatchedConfiguration(configuration_path)
    try:
        found: Configuration | None = configuration()
    except ConfigError:
        found = None  # each request reads the file again, and says what is wrong with it
    Advertiser(configuration).start()
    context = AppContext(
        access=AirflowAccess(),
        store=_store(found),
        scheduler=AirflowScheduler(),
        configuration=configuration,
    )
    return create_app(context)


def _store(configuration: Configuration | None) -> MetricsStore:
    try:
        return open_store(configuration)
    except (ConfigError, StoreError) as error:
        return MetricsStore.unusable(str(error))
