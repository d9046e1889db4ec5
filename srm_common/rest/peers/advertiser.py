"""Advertises this service in the Kafka clusters of its targets, for as long as it runs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Self

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.service_advertisement import Advertisement
from srm_common.errors import ConfigError, SrmError
from srm_common.kafka.state.service_log import ServiceLog
from srm_common.settings_files.configuration import Configuration
from srm_common.settings_files.service_settings import service_settings

_LOG = logging.getLogger(__name__)
#: Until an invalid file is read again.
_RETRY_SECONDS = 30.0
#: How long one request to a cluster may take.
_TIMEOUT_SECONDS = 10.0
#: Targets at a time; most threads wait.
_THREADS = 32


class Advertiser:
    """Renews the record on every target periodically, in the background, by the file as it is then.

    A target that does not respond is logged once, and tried again at the next renewal; it does not delay the others.
    """

    def __init__(
        self, configuration: Callable[[], Configuration], *, timeout_seconds: float = _TIMEOUT_SECONDS
    ) -> None:
        self._configuration = configuration
        self._timeout = timeout_seconds
        self._logs: dict[ClusterSettings, ServiceLog] = {}
        self._faults: dict[str, str] = {}
        self._said: Advertisement | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="srm-advertiser", daemon=True)

    def start(self) -> None:
        """Start, and continue until :meth:`close` or the end of the process."""
        self._thread.start()

    def close(self) -> None:
        """Delete the records; returns when that is done or has failed."""
        self._ended.set()
        self._thread.join()
        said = self._said
        if said is not None:
            self._each(lambda log: log.withdraw(said), self._logs)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def renew(self) -> float:
        """Renew once; returns the seconds until the next renewal."""
        began = time.monotonic()
        try:
            configuration = self._configuration()
            settings = service_settings(configuration)
        except ConfigError as error:
            self._note("the configuration", str(error))
            return _RETRY_SECONDS
        self._note("the configuration", None)
        if settings.advertised_url is None:
            return settings.advertise_interval_seconds
        targets = {flow.target.alias: flow for flow in configuration.enabled_flows}
        seconds = settings.advertise_interval_seconds
        name = settings.name or settings.advertised_url
        service = Advertisement.of(name, settings.advertised_url, targets, round(seconds * 1000))
        wanted = {
            flow.target: self._logs.get(flow.target)
            or ServiceLog(flow.target, flow.internal_replication_factor, timeout_seconds=self._timeout)
            for flow in targets.values()
        }
        self._logs, self._said = wanted, service
        self._each(lambda log: log.renew(service), wanted)
        return max(0.0, began + seconds - time.monotonic())

    def _run(self) -> None:
        while not self._ended.wait(self.renew()):
            pass

    def _each(self, act: Callable[[ServiceLog], None], logs: Mapping[ClusterSettings, ServiceLog]) -> None:
        """Side by side, in threads that do not keep a process from ending, unlike those of a pool."""
        left = iter(list(logs.items()))

        def work() -> None:
            for cluster, log in left:
                self._try(act, cluster, log)

        count = min(len(logs), _THREADS)
        threads = [threading.Thread(target=work, name="srm-advertiser", daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _try(self, act: Callable[[ServiceLog], None], cluster: ClusterSettings, log: ServiceLog) -> None:
        try:
            act(log)
        except SrmError as error:
            self._note(f"cluster '{cluster.alias}'", str(error))
        else:
            self._note(f"cluster '{cluster.alias}'", None)

    def _note(self, place: str, fault: str | None) -> None:
        if fault is not None and self._faults.get(place) != fault:
            _LOG.warning("this service is not advertised by %s: %s", place, fault)
        if fault is None:
            self._faults.pop(place, None)
        else:
            self._faults[place] = fault
