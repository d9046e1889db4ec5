"""Java client settings of a cluster, translated for librdkafka and kafka-python.

What neither library can do is refused, and the message names the replacement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from srm_common.domain.cluster import LIBRDKAFKA_DEFAULTS, ClusterSettings, JavaStore
from srm_common.domain.settings.key import LARGEST_INT
from srm_common.domain.settings.layers import Entry
from srm_common.settings_files.connections.addresses import PROTOCOLS, addresses
from srm_common.settings_files.connections.login_keys import REFUSED, login
from srm_common.settings_files.connections.own_certificate import ConfiguredCertificate
from srm_common.settings_files.connections.registry_keys import REGISTRY_KEYS, registry_settings
from srm_common.settings_files.connections.tls_keys import Connection, tls_settings
from srm_common.settings_files.connections.token_keys import TOKEN_PROVIDER

#: Numbers of the same meaning and unit in all three libraries, with the limits of librdkafka, which Java does not have.
_PASSED_ON = {
    "reconnect.backoff.ms": (0, 3_600_000),
    "reconnect.backoff.max.ms": (0, 3_600_000),
    "socket.connection.setup.timeout.ms": (1000, 2**31 - 1),
    "connections.max.idle.ms": (0, 2**31 - 1),
    "metadata.max.age.ms": (1, 86_400_000),
}
_DNS_LOOKUP, _DNS_LOOKUPS = "client.dns.lookup", ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
NO_EFFECT = frozenset({
    "ssl.protocol", "ssl.enabled.protocols", "ssl.provider", "ssl.secure.random.implementation",
    "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm", "ssl.engine.factory.class",
    "sasl.login.class", "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms",
    "sasl.login.retry.backoff.ms", "sasl.login.retry.backoff.max.ms", "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter",
    "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor", "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.jwt.validator.class", "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name", "ssl.client.auth",
})  # fmt: skip
_READ = frozenset({
    "bootstrap.servers", "security.protocol", "client.id", "client.rack", "request.timeout.ms",
    "ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password", "ssl.truststore.certificates",
    "ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.password", "ssl.keystore.key",
    "ssl.keystore.certificate.chain", "ssl.key.password", "ssl.endpoint.identification.algorithm",
    "ssl.cipher.suites", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.crl.location",
    "sasl.mechanism", "sasl.jaas.config", "sasl.username", "sasl.password", "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope", "sasl.oauthbearer.header.urlencode", TOKEN_PROVIDER,
    "sasl.kerberos.service.name", "https.ca.location",
})  # fmt: skip
CONNECTION_KEYS = frozenset({*_PASSED_ON, _DNS_LOOKUP}) | NO_EFFECT | _READ | REGISTRY_KEYS | REFUSED.keys()


def is_connection_key(key: str) -> bool:
    """True for keys that say how to reach a cluster: the known ones, and any other of TLS and SASL."""
    return key in CONNECTION_KEYS or key.startswith(("ssl.", "sasl."))


def cluster_settings(
    alias: str,
    written: Mapping[str, Entry],
    resolve: Callable[[Entry], str],
    *,
    owner: str = "srm",
    reads_data: bool = True,
    unused: Callable[[Mapping[Entry, str]], None] = lambda entries: None,
) -> ClusterSettings:
    """Translate the connection settings of ``alias``.

    Args:
        owner: who connects, for the names of clients.
        reads_data: whether replicas near ``client.rack`` may be read.
        unused: called with the entries without effect, each with the reason.

    Raises:
        ConfigError: neither library can do what is asked for.
    """
    client = Connection(alias, written, {key: resolve(entry) for key, entry in written.items()})
    confluent: dict[str, str] = dict(LIBRDKAFKA_DEFAULTS)
    kafka_python: dict[str, Any] = {}
    protocol = (client.get("security.protocol") or "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise client.fault("security.protocol", f"must be one of {', '.join(PROTOCOLS)}, but is '{protocol}'")
    servers = addresses(client, protocol)
    confluent["bootstrap.servers"] = ",".join(servers)
    kafka_python["bootstrap_servers"] = servers
    confluent["security.protocol"] = protocol
    kafka_python["security_protocol"] = protocol
    stores: tuple[JavaStore | None, JavaStore | None] = (None, None)
    if protocol.endswith("SSL"):
        stores = tls_settings(client, confluent, kafka_python)
    if protocol.startswith("SASL"):
        login(client, confluent, kafka_python)
    for key, (least, most) in _PASSED_ON.items():
        # Java takes -1 for never; librdkafka takes 0 for that.
        never = key == "connections.max.idle.ms" and client.get(key) == "-1"
        value = most if never else client.number(key)
        if value is not None:
            confluent[key] = "0" if never else str(min(max(value, least), most))
            kafka_python[key.replace(".", "_")] = value
    least_ms = confluent.get("reconnect.backoff.ms", "0")
    if int(least_ms) > int(confluent.get("reconnect.backoff.max.ms", "10000")):
        confluent["reconnect.backoff.max.ms"] = least_ms  # librdkafka refuses a smaller one
    lookup = client.get(_DNS_LOOKUP)
    if lookup is not None:
        # "default" was another value before Kafka 4.0; the first of these is the default now.
        lookup = _DNS_LOOKUPS[0] if lookup == "default" else lookup
        if lookup not in _DNS_LOOKUPS:
            raise client.fault(_DNS_LOOKUP, f"must be one of {', '.join(_DNS_LOOKUPS)}, but is '{lookup}'")
        confluent[_DNS_LOOKUP] = kafka_python["client_dns_lookup"] = lookup
    timeout_ms = client.number("request.timeout.ms", LARGEST_INT)
    if timeout_ms is not None:
        if timeout_ms < 1:
            raise client.fault("request.timeout.ms", "must be at least 1 millisecond, but is 0")
        # librdkafka's name for it, within its limits.
        confluent["socket.timeout.ms"] = str(min(max(timeout_ms, 10), 300_000))
    settings = ClusterSettings(
        alias,
        ",".join(servers),
        confluent,
        kafka_python,
        (client.get("client.rack") or "") if reads_data else "",
        client.get("client.id") or "",
        owner,
        timeout_ms,
        *stores,
        ConfiguredCertificate.of(confluent, stores[1]),
        schema_registry=registry_settings(client),
    )
    unused({written[key]: _why_unused(client, key, protocol) for key in written.keys() - client.read - NO_EFFECT})
    return settings


def _why_unused(client: Connection, key: str, protocol: str) -> str:
    if key not in CONNECTION_KEYS:
        return ""  # not known at all
    if key == "client.rack":
        return "has no effect: it says which replicas are read, and no flow copies from this cluster"
    for begins, layer in ((("ssl.",), "SSL"), (("sasl.", "https."), "SASL")):
        if key.startswith(begins) and layer not in protocol:
            return f"has no effect, as security.protocol is {protocol}"
    if key in REGISTRY_KEYS:
        return "has no effect, as the cluster has no schema.registry.url"
    mechanism = client.get("sasl.mechanism") or ""
    if key.startswith(("sasl.oauthbearer.", "https.")) and mechanism.upper() != "OAUTHBEARER":
        return f"has no effect, as sasl.mechanism is {mechanism}"
    return "has no effect, since other settings of this connection take precedence"
