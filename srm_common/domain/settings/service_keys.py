"""Keys for the web app: who may scrape it, how other services reach it, and which ones it queries."""

from __future__ import annotations

from collections.abc import Iterator

from srm_common.domain.settings.key import Key, Kind, Level

_TOP_ONLY = (Level.TOP,)


def service_keys() -> Iterator[Key]:
    yield from _metrics_keys()
    yield from _peer_keys()


def _metrics_keys() -> Iterator[Key]:
    section = "Prometheus"
    yield Key(
        "metrics.prometheus.open",
        section,
        Kind.SWITCH,
        "false",
        "Whether `/metrics` is available without authentication. It contains names of flows, topics and groups.",
        "Names may be confidential.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "metrics.prometheus.token",
        section,
        Kind.TEXT,
        None,
        "A bearer token that is valid for `/metrics` only, for scrapers without a user, such as "
        "`${env:SRM_METRICS_TOKEN}`.",
        "A well-known token would be none.",
        levels=_TOP_ONLY,
    )
    yield _names_key()


def _names_key() -> Key:
    return Key(
        "metric.names.formats",
        "Prometheus",
        Kind.CHOICES,
        "legacy",
        "Under which of MirrorMaker 2's names `/metrics` exports the flow's series: `legacy` "
        "(`kafka_connect_mirror_mirrorsourceconnector_...`), `new` (`kafka_connect_plugins_...` with the labels "
        "`connector` and `task`, KIP-1280), or both.",
        "MirrorMaker 2's default; dashboards for it keep working.",
        choices=("legacy", "new"),
        field="metric_names_formats",
    )


def _peer_keys() -> Iterator[Key]:
    section = "Several services"
    yield Key(
        "service.name",
        section,
        Kind.TEXT,
        None,
        "The name under which other services show this one. Default: the host of `service.advertised.url`.",
        "The host name is usually sufficient.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.advertised.url",
        section,
        Kind.TEXT,
        None,
        "The URL at which others reach this service, including the root path, such as `https://west.example:6670` or, "
        "under Airflow, `https://airflow.example/srm`. It is written to `srm-services.internal` on every cluster this "
        "installation writes to. Without it nothing is advertised.",
        "Only the operator knows how others reach the service.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.advertise.interval.seconds",
        section,
        Kind.NUMBER,
        "30",
        "How often that record is renewed. Others drop a service after ten times that, but at least five minutes.",
        "Clocks may differ by minutes.",
        unit="seconds",
        minimum=1,
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.gateway.enabled",
        section,
        Kind.SWITCH,
        "false",
        "Whether this service discovers the others that advertise themselves on the clusters of its file, and shows "
        "their flows among its own.",
        "Querying other services needs credentials for them.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.peers.timeout.seconds",
        section,
        Kind.NUMBER,
        "3",
        "How long a gateway waits for the response of another service, and for a cluster's list of services.",
        "A page that waits longer seems broken.",
        unit="seconds",
        minimum=0.1,
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.peers.hosts",
        section,
        Kind.PATTERNS,
        ".*",
        "Hosts that a gateway may query. Anyone who may write to `srm-services.internal` can add others.",
        "Correct if only services may write to that topic.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.peers.ca.location",
        section,
        Kind.TEXT,
        None,
        "PEM file of the CAs to trust for services with `https`. Default: the system's.",
        "Certificates that the system trusts need no file.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.peer.*",
        section,
        Kind.TEXT,
        None,
        "Credentials for other services, by host: `service.peer.<host>.user` and `service.peer.<host>.password`, or "
        "`service.peer.<host>.token` for a bearer token. They are sent to that host only.",
        "Each service has its own users.",
        levels=_TOP_ONLY,
    )
