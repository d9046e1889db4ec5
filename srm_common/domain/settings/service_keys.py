"""Keys of the web app itself: who may scrape it, where it is for others, and whom it asks."""

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
        "Whether `/metrics` answers without a login. It tells names of flows, topics and groups.",
        "What is not known to be harmless is not told.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "metrics.prometheus.token",
        section,
        Kind.TEXT,
        None,
        "A bearer token that opens `/metrics` and nothing else, for scrapers without a login, such as "
        "`${env:SRM_METRICS_TOKEN}`.",
        "A token that everybody knows would be none.",
        levels=_TOP_ONLY,
    )
    yield _names_key()


def _names_key() -> Key:
    return Key(
        "metric.names.formats",
        "Prometheus",
        Kind.CHOICES,
        "legacy",
        "Under which of MirrorMaker 2's names `/metrics` has the flow's series: `legacy` "
        "(`kafka_connect_mirror_mirrorsourceconnector_...`), `new` (`kafka_connect_plugins_...` with the labels "
        "`connector` and `task`, KIP-1280), or both.",
        "MirrorMaker 2's default; dashboards for it go on working.",
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
        "What this service is called where others show it. Without one: the host of `service.advertised.url`.",
        "A host's name tells most people enough.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.advertised.url",
        section,
        Kind.TEXT,
        None,
        "Where others reach this service, root path included, such as `https://west.example:6670` or, under Airflow, "
        "`https://airflow.example/srm`. It is written to `srm-services.internal` on every cluster this installation "
        "writes to. Without it nothing is advertised.",
        "Only who runs it knows how others reach it.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.advertise.interval.seconds",
        section,
        Kind.NUMBER,
        "30",
        "How often that is renewed. Others forget a service after ten times that, at least after five minutes.",
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
        "Whether this service finds the others that advertise themselves on the clusters of its file, and shows their "
        "flows among its own.",
        "Asking others needs logins of theirs.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.peers.timeout.seconds",
        section,
        Kind.NUMBER,
        "3",
        "How long a gateway waits for the answer of another service, and for a cluster's list of services.",
        "A page that waits longer looks broken.",
        unit="seconds",
        minimum=0.1,
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.peers.hosts",
        section,
        Kind.PATTERNS,
        ".*",
        "Hosts that a gateway may ask. Whoever may write to `srm-services.internal` names others.",
        "Right where only services write to that topic.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.peers.ca.location",
        section,
        Kind.TEXT,
        None,
        "PEM file of the authorities that vouch for services with `https`. Without one: those of the system.",
        "Certificates that the system knows need no file.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.peer.*",
        section,
        Kind.TEXT,
        None,
        "Logins at other services, by host: `service.peer.<host>.user` and `service.peer.<host>.password`, or "
        "`service.peer.<host>.token` for a bearer token. They are sent to that host only.",
        "Each service has logins of its own.",
        levels=_TOP_ONLY,
    )
