"""The other services: a gateway finds them in Kafka, queries them on demand, and computes nothing itself.

A service that does not respond is an entry of ``errors[]`` and delays no other: each request has a time limit, all are
sent at once, and a service that exceeded the limit is skipped for a while.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import Annotated, Generic, Protocol, cast

from fastapi import Depends, Query, Request

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.service_advertisement import Advertisement
from srm_common.errors import ClusterError, ConfigError, PeerError, PeerSilent
from srm_common.kafka.state.service_log import read_services
from srm_common.rest.faults import fault_of
from srm_common.rest.peers.client import Answer, ask
from srm_common.rest.query_parameters import now_ms
from srm_common.rest.schemas import Fault, Service
from srm_common.settings_files.configuration import Configuration
from srm_common.settings_files.service_settings import ServiceSettings, service_settings

#: How old a cluster's list of services may be; an older one is read again meanwhile.
_LIST_SECONDS = 10.0
#: How long a service that timed out is skipped.
_LEFT_ALONE_SECONDS = 30.0
#: What threads and the machine may take on top of a limit.
_GRACE_SECONDS = 0.5
_THREADS = 16


class ReadServices(Protocol):
    """As :func:`srm_common.kafka.state.service_log.read_services`."""

    def __call__(
        self, cluster: ClusterSettings, *, timeout_seconds: float
    ) -> tuple[list[Advertisement], list[str]]: ...


@dataclass(frozen=True)
class Answers(Generic[Answer]):
    """The services' responses, each with its service; ``services`` are all of them, ``faults`` why some are missing."""

    answers: Sequence[tuple[Advertisement, Answer]] = ()
    services: Sequence[Service] = ()
    faults: Sequence[Fault] = ()


@dataclass(frozen=True)
class _Listing:
    """The services that one cluster lists."""

    read_at: float = -_LIST_SECONDS
    services: Sequence[Advertisement] = ()
    fault: Fault | None = None


@dataclass
class _Book:
    """What is remembered between requests. ``open_until`` is by address, in monotonic seconds; ``reporters`` are
    addresses by flow."""

    listings: dict[str, _Listing] = field(default_factory=dict)
    reading: dict[str, Future[None]] = field(default_factory=dict)
    open_until: dict[str, float] = field(default_factory=dict)
    reporters: dict[str, str] = field(default_factory=dict)


class Peers:
    """The other services as one web app sees them. Does nothing unless ``service.gateway.enabled``.

    Args:
        read: lists the services that a cluster knows; Kafka's by default.
        threads: how many requests to services and clusters are under way at a time.
    """

    def __init__(
        self, configuration: Callable[[], Configuration], read: ReadServices = read_services, threads: int = _THREADS
    ) -> None:
        self._configuration = configuration
        self._read_services = read
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="srm-peer")
        self._book = _Book()
        self._lock = threading.Lock()

    @property
    def gateway(self) -> bool:
        return self._setting() is not None

    def ask(self, path: str, query: Sequence[tuple[str, str]], model: type[Answer]) -> Answers[Answer]:
        """GET ``path`` of every other service; each answers only for itself, because of ``local``."""
        setting = self._setting()
        if setting is None:
            return Answers()
        clusters, settings = setting
        advertisements, faults = self._find(clusters, settings)
        asked: dict[Future[Answer], Advertisement] = {}
        missed: dict[str, PeerError] = {}
        for peer in advertisements:
            try:
                asked[self._begin(peer, path, query, model, settings)] = peer
            except PeerError as error:
                missed[peer.url] = error
        wait(asked, settings.peers_timeout_seconds + _GRACE_SECONDS)
        answers: list[tuple[Advertisement, Answer]] = []
        for future, peer in asked.items():
            try:
                answers.append((peer, self._result(future, peer, settings)))
            except PeerError as error:
                missed[peer.url] = error
        return Answers(
            answers,
            [_service(peer, peer.url not in missed) for peer in advertisements],
            [
                *faults,
                *(fault_of(missed[peer.url], service=peer.name) for peer in advertisements if peer.url in missed),
            ],
        )

    def ask_one(
        self,
        peer: Advertisement,
        path: str,
        query: Sequence[tuple[str, str]],
        model: type[Answer],
        *,
        held_against: bool = True,
    ) -> Answer:
        """GET ``path`` of one of them. ``held_against``: a service that exceeds the time limit is skipped for a while.

        Raises:
            PeerError: as :func:`srm_common.rest.peers.client.ask`, or this is no longer a gateway.
        """
        setting = self._setting()
        if setting is None:
            raise PeerError(f"{_called(peer)} is not queried, since this service is not a gateway")
        _, settings = setting
        future = self._begin(peer, path, query, model, settings)
        wait([future], settings.peers_timeout_seconds + _GRACE_SECONDS)
        return self._result(future, peer, settings, held_against=held_against)

    def remember(self, reporters: Mapping[str, str]) -> None:
        """Which service reports which flow: addresses by flow."""
        with self._lock:
            self._book.reporters.update(reporters)

    def reporter(self, flow: str) -> Advertisement | None:
        """The service that reported the flow last, while it advertises itself."""
        setting, url = self._setting(), self._book.reporters.get(flow)
        if setting is None or url is None:
            return None
        advertisements, _ = self._find(*setting)
        return next((advertisement for advertisement in advertisements if advertisement.url == url), None)

    def forget(self, flow: str) -> None:
        with self._lock:
            self._book.reporters.pop(flow, None)

    def _setting(self) -> tuple[Collection[ClusterSettings], ServiceSettings] | None:
        """None if this is not a gateway; also if the file is invalid, which the list of flows reports."""
        try:
            configuration = self._configuration()
            settings = service_settings(configuration)
        except ConfigError:
            return None
        return (list(configuration.clusters.values()), settings) if settings.gateway else None

    def _begin(
        self,
        peer: Advertisement,
        path: str,
        query: Sequence[tuple[str, str]],
        model: type[Answer],
        settings: ServiceSettings,
    ) -> Future[Answer]:
        """Raises :class:`PeerError` for a service that is being skipped."""
        left = self._book.open_until.get(peer.url, 0.0) - time.monotonic()
        if left > 0:
            raise PeerError(f"{_called(peer)} did not respond; it is tried again in {left:.0f} s")
        return self._pool.submit(ask, peer, path, [*query, ("local", "true")], model, settings)

    def _result(
        self, future: Future[Answer], peer: Advertisement, settings: ServiceSettings, *, held_against: bool = True
    ) -> Answer:
        try:
            if future.done():
                return future.result()
            if future.cancel():
                # It had not begun, which says nothing about the service.
                raise PeerError(f"{_called(peer)} was not queried: too many other requests to services are in progress")
            raise PeerSilent(f"{_called(peer)} did not respond within {settings.peers_timeout_seconds:g} s")
        except PeerSilent:
            if held_against:
                with self._lock:
                    self._book.open_until[peer.url] = time.monotonic() + _LEFT_ALONE_SECONDS
            raise

    def _find(
        self, clusters: Collection[ClusterSettings], settings: ServiceSettings
    ) -> tuple[list[Advertisement], list[Fault]]:
        """The other services by name, and why some clusters could not be queried for theirs.

        A request waits for a cluster's list only while there is none at all.
        """
        limit = settings.peers_timeout_seconds
        with self._lock:
            book = self._book
            for cluster in clusters:
                known = book.listings.get(cluster.alias, _Listing())
                old = time.monotonic() - known.read_at >= _LIST_SECONDS
                if old and (cluster.alias not in book.reading or book.reading[cluster.alias].done()):
                    book.reading[cluster.alias] = self._pool.submit(self._read, cluster, limit)
            first = [book.reading[cluster.alias] for cluster in clusters if cluster.alias not in book.listings]
        wait(first, limit + _GRACE_SECONDS)
        advertisements: dict[str, Advertisement] = {}
        faults: list[Fault] = []
        moment, own = now_ms(), _own_url(settings)
        for cluster in clusters:
            listing = self._book.listings.get(cluster.alias)
            if listing is None:
                text = f"cluster '{cluster.alias}' has not listed its services within {limit:g} s"
                listing = _Listing(fault=fault_of(PeerError(text)))
            if listing.fault is not None:
                faults.append(listing.fault)
            for service in listing.services:
                if service.url != own and not service.stale(moment):
                    advertisements[service.url] = _newer(advertisements.get(service.url), service)
        return sorted(advertisements.values(), key=lambda one: (one.name, one.url)), faults

    def _read(self, cluster: ClusterSettings, limit: float) -> None:
        fault, services = None, self._book.listings.get(cluster.alias, _Listing()).services
        try:
            services, unreadable = self._read_services(cluster, timeout_seconds=limit)
            fault = fault_of(PeerError(unreadable[0])) if unreadable else None
        except ClusterError as error:
            fault = fault_of(error)
        with self._lock:
            self._book.listings[cluster.alias] = _Listing(time.monotonic(), services, fault)


def peers(request: Request) -> Peers:
    return cast(Peers, request.app.state.peers)


PeersDep = Annotated[Peers, Depends(peers)]
#: The parameter of a gateway's requests, so that two gateways do not query each other forever.
Local = Annotated[bool, Query(description="what this service knows by itself, even where it is a gateway")]


def _own_url(settings: ServiceSettings) -> str | None:
    url = settings.advertised_url
    return None if url is None else Advertisement.of("", url, (), 0).url


def _newer(one: Advertisement | None, other: Advertisement) -> Advertisement:
    """One service, as two clusters list it: each record has the targets of its own time."""
    if one is None:
        return other
    first, second = sorted((one, other), key=lambda each: each.seen_ms)
    return replace(second, targets=tuple(sorted({*first.targets, *second.targets})))


def _called(peer: Advertisement) -> str:
    return f"service '{peer.name}' ({peer.url})"


def _service(peer: Advertisement, reachable: bool) -> Service:
    return Service(name=peer.name, targets=list(peer.targets), url=peer.url, seen_ms=peer.seen_ms, reachable=reachable)
