"""Where the metrics store of an installation is, and its retention."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from srm_common.errors import ConfigError, StoreError
from srm_common.settings_files.configuration import Configuration
from srm_common.settings_files.service_settings import TopKeys
from srm_common.store.engine import parsed_url
from srm_common.store.metrics_store import MetricsStore
from srm_common.store.tiers import Retention, kept_for

FILE = "srm-metrics.db"
VARIABLE = "SRM_DATABASE"
_KEY = "metrics.database.url"
_HOUR, _DAY = 3_600_000, 86_400_000


def open_store(configuration: Configuration | None, environment: Mapping[str, str] = os.environ) -> MetricsStore:
    """The store, not connected yet. ``configuration`` None: there is no file, and the environment alone decides.

    Raises:
        ConfigError: a key of the store cannot be used.
        StoreError: the driver of the database is not installed, or there is no place for a file.
    """
    url = store_location(configuration, environment)
    if configuration is None:
        return MetricsStore(url)
    kept = [str(name) for name in configuration.kept]
    return MetricsStore(url, retention=store_retention(configuration), configured=kept)


def names_store(configuration: Configuration, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the configuration or the environment names the store, so that it is not the file of this machine."""
    return bool(environment.get(VARIABLE, "").strip()) or TopKeys(configuration).value(_KEY) is not None


def store_location(configuration: Configuration | None, environment: Mapping[str, str] = os.environ) -> str:
    """The database's address, as SQLAlchemy writes it. It may hold a password.

    Raises:
        ConfigError: it is not such an address.
        StoreError: none is set, and there is no home folder to keep it in.
    """
    named = environment.get(VARIABLE, "").strip()
    if named:
        try:
            parsed_url(named)
        except ConfigError as error:
            raise ConfigError(f"{VARIABLE}: {error.reason}") from None
        return named
    keys = None if configuration is None else TopKeys(configuration)
    url: str | None = None if keys is None else keys.value(_KEY)
    if keys is None or url is None:
        return f"sqlite:///{_own_folder(environment) / FILE}"
    try:
        parsed_url(url)
    except ConfigError as error:
        raise keys.fault(_KEY, f"cannot be used: {error.reason}") from None
    return url


def store_retention(configuration: Configuration) -> Retention:
    """How long things are kept. Raises :class:`ConfigError`."""
    keys = TopKeys(configuration)

    def milliseconds(name: str, unit: int) -> int:
        return int((keys.value(f"metrics.retention.{name}") or 0) * unit)

    return kept_for(
        tiers_ms=(
            milliseconds("raw.hours", _HOUR),
            milliseconds("5m.days", _DAY),
            milliseconds("1h.days", _DAY),
            milliseconds("6h.days", _DAY),
            milliseconds("1d.days", _DAY),
        ),
        partitions_ms=milliseconds("partitions.days", _DAY),
        runs_ms=milliseconds("runs.days", _DAY),
        flows_ms=milliseconds("flows.days", _DAY),
    )


def _own_folder(environment: Mapping[str, str]) -> Path:
    home = environment.get("AIRFLOW_HOME", "").strip()
    data = environment.get("XDG_DATA_HOME", "").strip()
    try:
        if home:
            return Path(home).expanduser().absolute()
        return (Path(data) if data else Path("~/.local/share").expanduser()) / "srm"
    except RuntimeError:
        raise StoreError(
            f"there is no folder for the metrics store, since this account has no home: set {_KEY} or {VARIABLE}"
        ) from None
