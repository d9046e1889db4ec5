"""Java client settings of a cluster, translated for librdkafka and kafka-python.

What neither library can do is refused, and the message names the replacement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from srm_common.domain.cluster import LIBRDKAFKA_DEFAULTS, ClusterSettings, JavaStore, OauthClient, PemTexts
from srm_common.domain.settings.layers import Entry
from srm_common.errors import ConfigError
from srm_common.settings_files.jaas import parse_jaas

_PASSED_ON = {  # same meaning and unit in all three libraries
    "client.dns.lookup": str,
    "reconnect.backoff.ms": int,
    "reconnect.backoff.max.ms": int,
    "socket.connection.setup.timeout.ms": int,
    "connections.max.idle.ms": int,
    "metadata.max.age.ms": int,
}
NO_EFFECT = frozenset({
    "ssl.protocol", "ssl.enabled.protocols", "ssl.provider", "ssl.secure.random.implementation",
    "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm", "ssl.engine.factory.class",
    "sasl.kerberos.service.name", "sasl.login.class", "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms",
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
_OTHER_GRANT = "Of OAuth's grants the one of client credentials is available."
_HANDLER = "A login that a Java class supplies is not available; those of KIP-768 for OAUTHBEARER act."
#: Keys that no other one can stand for: a login would not be what it is to be. Each with the reason.
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
    "sasl.oauthbearer.scope", "https.ca.location",
})  # fmt: skip
CONNECTION_KEYS = frozenset(_PASSED_ON) | NO_EFFECT | _READ | REFUSED.keys()
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_JAVA_STORES = ("JKS", "PKCS12")
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
#: Kafka's own for the client-credentials grant (KIP-768, KIP-1139), and for the extensions of a login.
_OURS = (
    "OAuthBearerLoginCallbackHandler",
    "OAuthBearerSaslClientCallbackHandler",
    "ClientCredentialsJwtRetriever",
    "DefaultJwtRetriever",
)


@dataclass(frozen=True, slots=True)
class _Connection:
    """The connection settings of one alias: what was written, with references already replaced.

    ``read`` are the keys that were used: the others have no effect.
    """

    alias: str
    written: Mapping[str, Entry]
    values: Mapping[str, str]
    read: set[str] = field(default_factory=set)

    def get(self, key: str) -> str | None:
        return self.text(key, "").strip() or None

    def text(self, key: str, default: str) -> str:
        self.read.add(key)
        return self.values.get(key, default)

    def number(self, key: str) -> int | None:
        """A whole number of milliseconds. Raises :class:`ConfigError`."""
        value = self.get(key)
        if value is not None and not (value.isascii() and value.isdecimal()):
            raise self.fault(key, f"must be a whole number of milliseconds, but is '{value}'")
        return None if value is None else int(value)

    def fault(self, key: str, reason: str) -> ConfigError:
        entry = self.written.get(key)
        if entry is None:
            any_entry = next(iter(self.written.values()), None)
            return ConfigError(f"cluster {self.alias}: {reason}", file=any_entry.file if any_entry else None)
        return ConfigError(f"{entry.written}: {reason}", file=entry.file, line=entry.line or None)


def is_connection_key(key: str) -> bool:
    """True for keys that say how to reach a cluster, known ones and any other of TLS and SASL."""
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
    client = _Connection(alias, written, {key: resolve(entry) for key, entry in written.items()})
    confluent: dict[str, str] = dict(LIBRDKAFKA_DEFAULTS)
    kafka_python: dict[str, Any] = {}
    servers = [server.strip() for server in (client.get("bootstrap.servers") or "").split(",") if server.strip()]
    if not servers:
        own = written.get("bootstrap.servers")
        near = own or next(iter(written.values()), None)
        raise ConfigError(
            f"cluster {alias} has no address; set {alias}.bootstrap.servers",
            file=near.file if near else None,
            line=own.line or None if own else None,
        )
    for server in servers:
        host, colon, port = server.rpartition(":")
        two_colons = ":" in host and not host.endswith("]")  # [::1]:9092 is right
        if not colon or not host or two_colons or not port.isdecimal() or not 0 < int(port) < 65536:
            raise client.fault("bootstrap.servers", f"'{server}' is not host:port")
    confluent["bootstrap.servers"] = ",".join(servers)
    kafka_python["bootstrap_servers"] = servers
    protocol = (client.get("security.protocol") or "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise client.fault("security.protocol", f"must be one of {', '.join(_PROTOCOLS)}, but is '{protocol}'")
    confluent["security.protocol"] = protocol
    kafka_python["security_protocol"] = protocol
    stores: tuple[JavaStore | None, JavaStore | None] = (None, None)
    if protocol.endswith("SSL"):
        stores = _tls(client, confluent, kafka_python)
    if protocol.startswith("SASL"):
        _login(client, confluent, kafka_python)
    for key, kind in _PASSED_ON.items():
        value = client.get(key) if kind is str else client.number(key)
        if value is None:
            continue
        confluent[key] = str(value)
        kafka_python[key.replace(".", "_")] = value
    timeout_ms = client.number("request.timeout.ms")
    if timeout_ms is not None:
        if timeout_ms < 1:
            raise client.fault("request.timeout.ms", "must be at least 1 millisecond, but is 0")
        # librdkafka's word for it, within its limits.
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
    )
    unused({written[key]: _why_unused(client, key, protocol) for key in written.keys() - client.read - NO_EFFECT})
    return settings


def _why_unused(client: _Connection, key: str, protocol: str) -> str:
    if key not in CONNECTION_KEYS:
        return ""  # not known at all
    if key == "client.rack":
        return "has no effect: it says which replicas are read, and no flow copies from this cluster"
    for begins, layer in ((("ssl.",), "SSL"), (("sasl.", "https."), "SASL")):
        if key.startswith(begins) and layer not in protocol:
            return f"has no effect, as security.protocol is {protocol}"
    if key.startswith(("sasl.oauthbearer.", "https.")):
        return f"has no effect, as sasl.mechanism is {client.get('sasl.mechanism')}"
    return "has no effect beside the other settings of this connection, which say the same in another way"


def _store(client: _Connection, which: str, pem_key: str) -> tuple[str | None, JavaStore | None]:
    """Path of a PEM store, or Java's; other types are refused."""
    location = client.get(f"ssl.{which}.location")
    if location is None:
        return None, None
    kind = (client.get(f"ssl.{which}.type") or ("PEM" if location.endswith((".pem", ".crt")) else "JKS")).upper()
    password = client.get(f"ssl.{which}.password")
    if kind in _JAVA_STORES:
        return None, JavaStore(location, password, client.get("ssl.key.password") if which == "keystore" else None)
    if kind != "PEM":
        raise client.fault(
            f"ssl.{which}.type",
            f"a {kind} {which} can be read by Java only; convert it (keytool -importkeystore ... -deststoretype "
            f"PKCS12), and set ssl.{which}.type=PKCS12; or write {pem_key}",
        )
    if password is not None:
        own = "; the key's is ssl.key.password" if which == "keystore" else ""
        raise client.fault(f"ssl.{which}.password", f"a PEM {which} has no password{own}; remove this key")
    return location, None


def _tls(
    client: _Connection, confluent: dict[str, str], kafka_python: dict[str, Any]
) -> tuple[JavaStore | None, JavaStore | None]:
    """Fills in both libraries' settings; Java's truststore and keystore are left to be read."""
    truststore = keystore = None
    authority = client.get("ssl.truststore.certificates")
    authority_file = client.get("ssl.ca.location")
    if authority_file is None and authority is None:
        authority_file, truststore = _store(client, "truststore", "ssl.truststore.certificates")
    own_file = client.get("ssl.certificate.location")
    key_file = client.get("ssl.key.location")
    chain, key = client.get("ssl.keystore.certificate.chain"), client.get("ssl.keystore.key")
    if own_file is None and chain is None:
        own_file, keystore = _store(client, "keystore", "ssl.keystore.certificate.chain and ssl.keystore.key")
        key_file = own_file
    if (chain is None) != (key is None):
        present = "ssl.keystore.key" if chain is None else "ssl.keystore.certificate.chain"
        raise client.fault(present, "ssl.keystore.key and ssl.keystore.certificate.chain go together")
    password = client.get("ssl.key.password") if keystore is None else None
    # Java's default is https; an empty value switches the check of the broker's name off.
    algorithm = client.text("ssl.endpoint.identification.algorithm", "https").strip().lower()
    check = algorithm not in ("", "none")
    ciphers = client.get("ssl.cipher.suites")
    if ciphers:
        ciphers = ":".join(part.strip() for part in ciphers.split(","))
    revoked = client.get("ssl.crl.location")

    confluent["ssl.endpoint.identification.algorithm"] = "https" if check else "none"
    for name, value in (
        ("ssl.ca.location", authority_file if authority is None else None),
        ("ssl.ca.pem", authority),
        ("ssl.certificate.location", own_file if chain is None else None),
        ("ssl.key.location", (key_file or own_file) if chain is None else None),
        ("ssl.certificate.pem", chain),
        ("ssl.key.pem", key),
        ("ssl.key.password", password),
        ("ssl.cipher.suites", ciphers),
        ("ssl.crl.location", revoked),
    ):
        if value is not None:
            confluent[name] = value
    if authority or chain or ciphers or truststore or keystore:
        kafka_python["ssl_context"] = PemTexts(
            certificate_authority=authority,
            certificate_authority_file=authority_file if authority is None else None,
            chain=chain,
            key=key,
            chain_file=own_file if chain is None else None,
            key_file=key_file if chain is None else None,
            key_password=password,
            check_hostname=check,
            ciphers=ciphers,
            revoked_file=revoked,
        )
        return truststore, keystore
    kafka_python["ssl_check_hostname"] = check
    for name, value in (
        ("ssl_cafile", authority_file),
        ("ssl_certfile", own_file),
        ("ssl_keyfile", key_file),
        ("ssl_password", password),
        ("ssl_crlfile", revoked),
    ):
        if value is not None:
            kafka_python[name] = value
    return truststore, keystore


def _login(client: _Connection, confluent: dict[str, str], kafka_python: dict[str, Any]) -> None:
    mechanism = (client.get("sasl.mechanism") or "GSSAPI").upper()
    if mechanism not in ("PLAIN", *_SCRAM, "OAUTHBEARER"):
        hint = "" if client.get("sasl.mechanism") else " (Java's default, as sasl.mechanism is not set)"
        raise client.fault(
            "sasl.mechanism" if client.get("sasl.mechanism") else "security.protocol",
            f"login by {mechanism}{hint} is not available; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
        )
    _refuse_handlers(client, mechanism)
    options = _jaas_options(client, mechanism)
    confluent["sasl.mechanism"] = mechanism
    kafka_python["sasl_mechanism"] = mechanism
    if mechanism == "OAUTHBEARER":
        _oauth(client, options, confluent, kafka_python)
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


def _refuse_handlers(client: _Connection, mechanism: str) -> None:
    """Logins that are supplied in other ways; the handlers of KIP-768 do what is done here."""
    for key, reason in REFUSED.items():
        value = client.get(key)
        if value is None or (mechanism == "OAUTHBEARER" and value.rpartition(".")[2] in _OURS):
            continue
        raise client.fault(
            key,
            f"{reason[0].lower()}{reason[1:-1]}; use PLAIN or SCRAM with username and password in sasl.jaas.config, or "
            "OAUTHBEARER with sasl.oauthbearer.token.endpoint.url, and remove this key",
        )


def _jaas_options(client: _Connection, mechanism: str) -> Mapping[str, str]:
    text = client.get("sasl.jaas.config")
    if text is None:
        return {}
    try:
        module = parse_jaas(text)
    except ValueError as error:
        raise client.fault("sasl.jaas.config", str(error)) from None
    wanted = {"PLAIN": "PlainLoginModule", "OAUTHBEARER": "OAuthBearerLoginModule"}.get(mechanism, "ScramLoginModule")
    if module.name != wanted:
        raise client.fault("sasl.jaas.config", f"names {module.name}, but sasl.mechanism={mechanism} takes {wanted}")
    return module.options


def _oauth(
    client: _Connection, options: Mapping[str, str], confluent: dict[str, str], kafka_python: dict[str, Any]
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


def _endpoint_authority(client: _Connection, options: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Whom to trust at the token endpoint: (PEM file, PEM text). Java has this in the login's options, librdkafka in a
    key of its own; neither looks into the truststore for the brokers."""
    location, text = options.get("ssl.truststore.location"), options.get("ssl.truststore.certificates")
    if location is not None:
        kind = (options.get("ssl.truststore.type") or ("PEM" if location.endswith((".pem", ".crt")) else "JKS")).upper()
        if kind != "PEM":
            raise client.fault(
                "sasl.jaas.config",
                f"ssl.truststore.location: a {kind} truststore can be read by Java only; export it as PEM, and set "
                "ssl.truststore.type=PEM beside it, or https.ca.location",
            )
    file = client.get("https.ca.location") or location
    return file, None if file else text
