"""The web app as a standalone service, without Airflow or next to it."""

from __future__ import annotations

import ipaddress
import logging
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import uvicorn
from fastapi import FastAPI

from srm_common.airflow_rest import AirflowRest
from srm_common.domain.flow import FlowSettings
from srm_common.errors import ConfigError
from srm_common.rest.app import AppContext, create_app
from srm_common.rest.peers.advertiser import Advertiser
from srm_common.rest.ports import Access
from srm_common.rest.serving.connection_limits import LimitedSocket, ServiceLoop
from srm_common.rest.serving.logins import BasicAccess, Logins, OpenAccess, WatchedLogins, environment_login
from srm_common.rest.serving.remote_scheduler import RemoteScheduler
from srm_common.rest.serving.request_rate import RequestRate
from srm_common.rest.serving.timed_requests import TimedRequests
from srm_common.rest.serving.watched_files import WatchedCertificate, WatchedConfiguration
from srm_common.store.location import open_store
from srm_common.store.metrics_store import MetricsStore
from srm_common.usecases.monitoring.raw_metrics import follow_metrics_topic

# A service without Airflow's history takes the raw metrics that flows write to Kafka (``metrics.topic.enabled``).


#: A cluster that does not respond must not keep the service from ending.
_PATIENCE_SECONDS = 5.0


class MetricsFollower:
    """Follows, in a thread of its own, the topics of ``flows`` that have one."""

    def __init__(self, flows: Iterable[FlowSettings], store: MetricsStore) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=follow_metrics_topic, args=(flows, store, self._ended), name="srm-metrics", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(_PATIENCE_SECONDS)


KEY_PASSWORD = "SRM_SERVE_TLS_KEY_PASSWORD"
#: How long one request to Airflow may take: a page must not wait for one that hangs.
_AIRFLOW_SECONDS = 5.0
#: How long active requests may take once the service ends.
_GRACE_SECONDS = 5


@dataclass(frozen=True)
class Listener:
    """Where the service listens. ``port`` 0: any. ``certificate`` and ``key`` are PEM files; the key may be in the
    certificate's. ``insecure``: a proxy in front provides what is missing."""

    host: str = "127.0.0.1"
    port: int = 8090
    certificate: Path | None = None
    key: Path | None = None
    key_password: str | None = None
    insecure: bool = False

    @property
    def this_machine(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.certificate is None else 'https'}://{host}:{self.port}"

    def check(self, *, logins: bool) -> None:
        """Refuse to show a network what only this machine may see.

        Raises:
            ConfigError: others can reach it, and there are no logins or no TLS; or the certificate cannot be used.
        """
        if self.key is not None and self.certificate is None:
            raise ConfigError("a key needs its certificate: --tls-cert FILE")
        if self.certificate is not None:
            self._check_certificate(self.certificate)
        if self.this_machine or self.insecure:
            return
        lacking = [
            what
            for what, there in (
                ("logins (SRM_SERVE_USER and SRM_SERVE_PASSWORD, or --password-file)", logins),
                ("TLS (--tls-cert and --tls-key)", self.certificate is not None),
            )
            if not there
        ]
        if lacking:
            raise ConfigError(
                f"other machines can reach {self.host}, and the service has no {' and no '.join(lacking)}; add that, "
                f"listen on 127.0.0.1, or pass --insecure if a proxy in front of it provides both"
            )

    def open(self) -> socket.socket:
        """The listening socket. Raises :class:`ConfigError`."""
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            made = LimitedSocket(family, kind, protocol)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                made.bind(address)
                # From here on requests wait for the server rather than being refused.
                made.listen()
            except OSError:
                made.close()
                raise
        except OSError as error:
            raise ConfigError(f"cannot listen on {self.host}, port {self.port}: {error.strerror or error}") from error
        return made

    def tls(self, certificate: Path) -> ssl.SSLContext:
        """The TLS context by the certificate's files as they are now. Raises OSError (``ssl.SSLError`` is one)."""
        made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # Without a password, OpenSSL would ask for it on the terminal.
        made.load_cert_chain(certificate, self.key, lambda: self.key_password or "")
        return made

    def _check_certificate(self, certificate: Path) -> None:
        try:
            self.tls(certificate)
        except OSError as error:
            which = certificate if self.key is None else f"{certificate} with the key {self.key}"
            raise ConfigError(
                f"the certificate {which} cannot be used: {error.strerror or error}; check that the key belongs to the "
                f"certificate, and that its password is in {KEY_PASSWORD}"
            ) from error


def access_of(listener: Listener, password_file: Path | None, environment: Mapping[str, str]) -> Access:
    """How callers log in; checks that this suits the listener. Raises :class:`ConfigError`."""
    mine = environment_login(environment)
    own = [] if mine is None else [mine]
    watched = None if password_file is None else WatchedLogins(password_file, own)
    listener.check(logins=watched is not None or bool(own))
    if watched is not None:
        return BasicAccess(watched)
    if own:
        return BasicAccess(Logins(own))
    # A proxy passes on the name by which it was reached, also from beside the service.
    return OpenAccess(this_machine=listener.this_machine and not listener.insecure)


def service_context(path: Path, access: Access, environment: Mapping[str, str]) -> AppContext:
    """The context of the service: a properties file, the history, and an Airflow if the environment names one.

    Raises:
        ConfigError: the file or the environment cannot be used.
        StoreError: the driver of the history's database is not installed.
    """
    configuration = WatchedConfiguration(lambda: path)
    airflow = AirflowRest.from_environment(environment, timeout_seconds=_AIRFLOW_SECONDS)
    store = open_store(configuration(), environment)
    return AppContext(
        access=access,
        current_store=lambda: store,
        scheduler=None if airflow is None else RemoteScheduler(airflow),
        configuration=configuration,
    )


def companions(context: AppContext) -> list[AbstractContextManager[object]]:
    """What runs beside the app while it serves."""
    return [Advertiser(context.configuration), MetricsFollower(context.configuration().flows.values(), context.store)]


def server_config(app: FastAPI, certificate: WatchedCertificate | None = None) -> uvicorn.Config:
    """How the web server runs ``app``."""
    return uvicorn.Config(
        app,
        http=TimedRequests,
        loop=f"{ServiceLoop.__module__}:{ServiceLoop.__name__}",
        # The app has no WebSockets, and a connection that became one would have no limits.
        ws="none",
        ssl_context_factory=None if certificate is None else lambda *_: certificate.listening(),
        server_header=False,
        log_level=logging.WARNING,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )


def serve(context: AppContext, listener: Listener) -> None:
    """Answer until the process receives SIGTERM or SIGINT. Raises :class:`ConfigError` when it cannot begin."""
    opened = listener.open()
    listener = replace(listener, port=opened.getsockname()[1])
    app: FastAPI = create_app(context)
    app.add_middleware(RequestRate)
    watched = None
    if (certificate := listener.certificate) is not None:
        files = (certificate, *([] if listener.key is None else [listener.key]))
        watched = WatchedCertificate(files, lambda: listener.tls(certificate))
    config = server_config(app, watched)
    with ExitStack() as stack:
        stack.callback(context.store.close)
        stack.callback(context.lag.close)
        for companion in companions(context):
            stack.enter_context(companion)
        print(f"srm-control: serving on {listener.url}; its API is described at {listener.url}/docs", file=sys.stderr)
        # uvicorn shuts down first, and then sends itself the signal again, for handlers that were there before.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        uvicorn.Server(config).run(sockets=[opened])
