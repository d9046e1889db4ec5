"""The metrics store of a web app that stays up while its configuration changes."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from srm_common.errors import ConfigError, StoreError
from srm_common.settings_files.configuration import Configuration
from srm_common.store.location import open_store, store_location, store_retention
from srm_common.store.metrics_store import MetricsStore
from srm_common.store.tiers import Retention

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Place:
    """What a store is opened by. ``fault``: why it cannot be, and then the rest is not known."""

    location: str | None = None
    retention: Retention | None = None
    fault: str | None = None


class WatchedStore:
    """Called, it returns the store that the configuration names now. It is opened once, and again when the
    configuration names another one. While the configuration cannot be read, the last store stays; if it never could,
    that is the one without a configuration.

    Safe for several threads. A thread that reads a store that is replaced meanwhile reads it to the end.
    """

    def __init__(self, configuration: Callable[[], Configuration], environment: Mapping[str, str] = os.environ) -> None:
        self._configuration = configuration
        self._environment = environment
        self._lock = threading.Lock()
        self._seen: Configuration | None = None
        self._open: tuple[_Place, MetricsStore] | None = None

    def __call__(self) -> MetricsStore:
        """Never raises: a store that cannot be opened is one whose methods say why."""
        try:
            configuration: Configuration | None = self._configuration()
        except ConfigError:
            configuration = None  # whoever asks for the configuration itself says what is wrong with it
        with self._lock:
            if self._open is not None and (configuration is None or configuration is self._seen):
                return self._open[1]
            self._seen = configuration
            place = self._place(configuration)
            if self._open is None or self._open[0] != place:
                self._replace(place, configuration)
            assert self._open is not None
            return self._open[1]

    def _place(self, configuration: Configuration | None) -> _Place:
        try:
            location = store_location(configuration, self._environment)
            return _Place(location, None if configuration is None else store_retention(configuration))
        except (ConfigError, StoreError) as error:
            return _Place(fault=str(error))

    def _replace(self, place: _Place, configuration: Configuration | None) -> None:
        try:
            store = (
                open_store(configuration, self._environment)
                if place.fault is None
                else MetricsStore.unusable(place.fault)
            )
        except (ConfigError, StoreError) as error:
            store = MetricsStore.unusable(str(error))
        before, self._open = self._open, (place, store)
        if before is not None:
            before[1].close()
            _LOG.warning("the metrics store is opened again: %s", place.fault or store.location)
