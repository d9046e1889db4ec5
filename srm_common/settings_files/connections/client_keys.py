"""Java client settings of a cluster, translated for librdkafka and kafka-python.

What neither library can do is refused, and the message names the replacement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from srm_common.domain.cluster import (
    LIBRDKAFKA_DEFAULTS,
    ClusterSettings,
    DelegationToken,
    JavaStore,
    KerberosLogin,
    LoginSettings,
    OauthClient,
)
from srm_common.domain.settings.key import LARGEST_INT
from srm_common.domain.settings.layers import Entry
from srm_common.settings_files.connections.addresses import PROTOCOLS, addresses
from srm_common.settings_files.connections.own_certificate import ConfiguredCertificate
from srm_common.settings_files.connections.registry_keys import REGISTRY_KEYS, registry_settings
from srm_common.settings_files.connections.tls_keys import Connection, tls_settings

_TOKEN = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';=]+)|([;=]))""")
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class LoginModule:
    """``name`` is the class without its package. ``repr`` hides the options."""

    name: str
    options: dict[str, str] = field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """Raises ``ValueError`` with a reason that quotes nothing of the text, as it holds passwords."""
    tokens: list[tuple[str, bool]] = []  # (text, quoted)
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"cannot be read at position {position + 1}: a quote is not closed")
        quoted = match[1] if match[1] is not None else match[2]
        if quoted is not None:
            tokens.append((_ESCAPED.sub(r"\1", quoted), True))
        else:
            tokens.append((match[3] or match[4], False))
        position = match.end()
    if not tokens or tokens[-1] != (";", False):
        raise ValueError("must end with a semicolon")
    tokens.pop()
    if (";", False) in tokens:
        raise ValueError("must contain exactly one login module")
    if len(tokens) < 2 or tokens[1][0].lower() not in ("required", "requisite", "sufficient", "optional"):
        raise ValueError("must read 'LoginModuleClass required option=\"value\" ...;'")
    options: dict[str, str] = {}
    rest = tokens[2:]
    if len(rest) % 3:
        raise ValueError('has an option that is not written name="value"')
    for index in range(0, len(rest), 3):
        name, equals, value = rest[index : index + 3]
        if equals != ("=", False):
            raise ValueError('has an option that is not written name="value"')
        options[name[0]] = value[0]
    return LoginModule(tokens[0][0].rpartition(".")[2], options)


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
    "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.jwt.validator.class", "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name", "ssl.client.auth",
})  # fmt: skip
_OTHER_GRANT = "Only OAuth's client-credentials grant is available."
_HANDLER = "Login handlers that are Java classes are not available, except those of KIP-768 for OAUTHBEARER."
#: Keys that are refused, since the login would be another one without them; each with the reason.
REFUSED: Mapping[str, str] = {
    "sasl.login.callback.handler.class": _HANDLER,
    "sasl.client.callback.handler.class": _HANDLER,
    "sasl.oauthbearer.jwt.retriever.class": _OTHER_GRANT,
    **{
        f"sasl.oauthbearer.assertion.{name}": _OTHER_GRANT
        for name in (
            *("algorithm", "claim.aud", "claim.exp.seconds", "claim.iss", "claim.jti.include", "claim.nbf.seconds"),
            *("claim.sub", "file", "private.key.file", "private.key.passphrase", "template.file"),
        )
    },
}
_READ = frozenset({
    "bootstrap.servers", "security.protocol", "client.id", "client.rack", "request.timeout.ms",
    "ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password", "ssl.truststore.certificates",
    "ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.password", "ssl.keystore.key",
    "ssl.keystore.certificate.chain", "ssl.key.password", "ssl.endpoint.identification.algorithm",
    "ssl.cipher.suites", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.crl.location",
    "sasl.mechanism", "sasl.jaas.config", "sasl.username", "sasl.password", "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope", "sasl.kerberos.service.name", "https.ca.location",
})  # fmt: skip
CONNECTION_KEYS = frozenset({*_PASSED_ON, _DNS_LOOKUP}) | NO_EFFECT | _READ | REGISTRY_KEYS | REFUSED.keys()
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_LOGIN_MODULES = {
    "PLAIN": "PlainLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
}
#: Kafka's own for the client-credentials grant (KIP-768, KIP-1139), and for the extensions of a login.
_OURS = (
    "OAuthBearerLoginCallbackHandler",
    "OAuthBearerSaslClientCallbackHandler",
    "ClientCredentialsJwtRetriever",
    "DefaultJwtRetriever",
)


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
        _login(client, confluent, kafka_python)
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


def login_settings(alias: str, written: Mapping[str, Entry], resolve: Callable[[Entry], str]) -> LoginSettings:
    """The SASL login alone, as :func:`cluster_settings` reads it. Raises :class:`ConfigError`."""
    client = Connection(alias, written, {key: resolve(entry) for key, entry in written.items()})
    confluent: dict[str, str] = {}
    kafka_python: dict[str, Any] = {}
    _login(client, confluent, kafka_python)
    return LoginSettings(confluent, kafka_python)


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
    if key.startswith(("sasl.oauthbearer.", "https.")):
        return f"has no effect, as sasl.mechanism is {client.get('sasl.mechanism')}"
    return "has no effect, since other settings of this connection take precedence"


def _login(client: Connection, confluent: dict[str, str], kafka_python: dict[str, Any]) -> None:
    mechanism = (client.get("sasl.mechanism") or "GSSAPI").upper()
    if mechanism not in ("PLAIN", *_SCRAM, "OAUTHBEARER", "GSSAPI"):
        raise client.fault(
            "sasl.mechanism",
            f"login by {mechanism} is not available; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI",
        )
    _refuse_handlers(client, mechanism)
    options = _jaas_options(client, mechanism)
    confluent["sasl.mechanism"] = mechanism
    kafka_python["sasl_mechanism"] = mechanism
    if mechanism == "OAUTHBEARER":
        _oauth(client, options, confluent, kafka_python)
        return
    if mechanism == "GSSAPI":
        kafka_python["sasl_oauth_token_provider"] = _kerberos(client, options)
        return
    username = options.get("username") or client.get("sasl.username")
    password = options.get("password") if "password" in options else client.get("sasl.password")
    if username is None or password is None:
        raise client.fault(
            "sasl.jaas.config",
            f"{mechanism} needs username and password, in sasl.jaas.config or as sasl.username and sasl.password",
        )
    confluent["sasl.username"] = kafka_python["sasl_plain_username"] = username
    confluent["sasl.password"] = kafka_python["sasl_plain_password"] = password
    if mechanism in _SCRAM and options.get("tokenauth", "false").strip().lower() == "true":
        kafka_python["sasl_oauth_token_provider"] = DelegationToken()


def _refuse_handlers(client: Connection, mechanism: str) -> None:
    """Other login handlers than those of KIP-768, which do what is done here."""
    for key, reason in REFUSED.items():
        value = client.get(key)
        if value is None or (mechanism == "OAUTHBEARER" and value.rpartition(".")[2] in _OURS):
            continue
        raise client.fault(
            key,
            f"{reason[0].lower()}{reason[1:-1]}; use PLAIN or SCRAM with username and password in sasl.jaas.config, or "
            "OAUTHBEARER with sasl.oauthbearer.token.endpoint.url, and remove this key",
        )


def _jaas_options(client: Connection, mechanism: str) -> Mapping[str, str]:
    text = client.get("sasl.jaas.config")
    if text is None:
        return {}
    try:
        module = parse_jaas(text)
    except ValueError as error:
        raise client.fault("sasl.jaas.config", str(error)) from None
    wanted = _LOGIN_MODULES.get(mechanism, "ScramLoginModule")
    if module.name != wanted:
        raise client.fault("sasl.jaas.config", f"names {module.name}, but sasl.mechanism={mechanism} takes {wanted}")
    return module.options


def _kerberos(client: Connection, options: Mapping[str, str]) -> KerberosLogin:
    """Options of ``com.sun.security.auth.module.Krb5LoginModule``; those that only Java has (storeKey, debug, ...) have
    no effect. Where both a keytab and a ticket cache are named, the keytab is used."""

    def on(name: str) -> bool:
        return options.get(name, "false").lower() in ("true", "yes")

    if not options:
        why = "" if client.get("sasl.mechanism") else ", Java's default where sasl.mechanism is not set,"
        raise client.fault(
            "sasl.mechanism" if client.get("sasl.mechanism") else "security.protocol",
            f"login by GSSAPI{why} needs sasl.jaas.config with Krb5LoginModule; in a JAAS file, it is in the section "
            "KafkaClient",
        )
    names = [name for name in (client.get("sasl.kerberos.service.name"), options.get("serviceName")) if name]
    if not names:
        raise client.fault(
            "sasl.jaas.config",
            "GSSAPI needs sasl.kerberos.service.name, the first part of the brokers' principals, such as kafka",
        )
    if len(set(names)) > 1:
        raise client.fault(
            "sasl.kerberos.service.name", f"is '{names[0]}', but sasl.jaas.config has serviceName=\"{names[1]}\""
        )
    principal = options.get("principal")
    if on("useKeyTab"):
        keytab = (options.get("keyTab") or "").removeprefix("file://").removeprefix("file:")
        for name, value in (("keyTab", keytab), ("principal", principal)):
            if not value:
                raise client.fault("sasl.jaas.config", f"useKeyTab=true needs {name}")
        return KerberosLogin(names[0], principal, keytab)
    if on("useTicketCache"):
        return KerberosLogin(names[0], principal, None, options.get("ticketCache"))
    raise client.fault(
        "sasl.jaas.config",
        "names neither a keytab nor a ticket cache, so that Java would ask for a password; set useKeyTab=true with "
        "keyTab and principal, or useTicketCache=true",
    )


def _oauth(
    client: Connection, options: Mapping[str, str], confluent: dict[str, str], kafka_python: dict[str, Any]
) -> None:
    endpoint = client.get("sasl.oauthbearer.token.endpoint.url")
    client_id = options.get("clientId") or client.get("sasl.oauthbearer.client.credentials.client.id")
    secret = options.get("clientSecret") or client.get("sasl.oauthbearer.client.credentials.client.secret")
    scope = options.get("scope") or client.get("sasl.oauthbearer.scope")
    if endpoint is None or client_id is None or secret is None:
        raise client.fault(
            "sasl.mechanism",
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url, and clientId and clientSecret in sasl.jaas.config "
            "(the client-credentials grant); other login handlers are Java classes and are not loaded",
        )
    extensions = tuple(
        (name.removeprefix("extension_"), value) for name, value in options.items() if name.startswith("extension_")
    )
    confluent["sasl.oauthbearer.method"] = "oidc"
    confluent["sasl.oauthbearer.token.endpoint.url"] = endpoint
    confluent["sasl.oauthbearer.client.id"] = client_id
    confluent["sasl.oauthbearer.client.secret"] = secret
    if scope:
        confluent["sasl.oauthbearer.scope"] = scope
    if extensions:
        confluent["sasl.oauthbearer.extensions"] = ",".join(f"{name}={value}" for name, value in extensions)
    authority_file, authority = _endpoint_authority(client, options)
    if authority_file:
        confluent["https.ca.location"] = authority_file
    elif authority:
        confluent["https.ca.pem"] = authority
    kafka_python["sasl_oauth_token_provider"] = OauthClient(
        endpoint, client_id, secret, scope, extensions, authority_file, authority
    )


def _endpoint_authority(client: Connection, options: Mapping[str, str]) -> tuple[str | None, str | None]:
    """CAs to trust at the token endpoint: (PEM file, PEM text). Java has this in the login's options, librdkafka in a
    key of its own; neither looks into the truststore for the brokers."""
    location, text = options.get("ssl.truststore.location"), options.get("ssl.truststore.certificates")
    if location is not None:
        kind = (options.get("ssl.truststore.type") or ("PEM" if location.endswith((".pem", ".crt")) else "JKS")).upper()
        if kind != "PEM":
            raise client.fault(
                "sasl.jaas.config",
                f"ssl.truststore.location: a {kind} truststore can be read only by Java; export it as PEM, and set "
                "ssl.truststore.type=PEM beside it, or https.ca.location",
            )
    file = client.get("https.ca.location") or location
    return file, None if file else text
