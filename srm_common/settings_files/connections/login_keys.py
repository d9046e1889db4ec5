"""Logins by SASL as the settings of the Java clients have them, translated for librdkafka and kafka-python."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from srm_common.domain.cluster import DelegationToken, KerberosLogin, LoginSettings
from srm_common.domain.settings.layers import Entry
from srm_common.settings_files.connections.tls_keys import Connection
from srm_common.settings_files.connections.token_keys import TOKEN_PROVIDER, client_credentials, msk_tokens, own_tokens

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


_OTHER_GRANT = "Only OAuth's client-credentials grant is available."
_HANDLER = (
    "Login handlers that are Java classes are not available, except those of KIP-768 for OAUTHBEARER and of Amazon MSK."
)
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
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_LOGIN_MODULES = {
    "PLAIN": "PlainLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "AWS_MSK_IAM": "IAMLoginModule",
    "GSSAPI": "Krb5LoginModule",
}
#: For OAUTHBEARER, that of aws-msk-iam-auth.
_MSK_HANDLER = "IAMOAuthBearerLoginCallbackHandler"
#: Java classes that do what is done here. For OAUTHBEARER, they are Kafka's own for the client-credentials grant
#: (KIP-768, KIP-1139) and for the extensions of a login, too.
_OURS: Mapping[str, tuple[str, ...]] = {
    "OAUTHBEARER": (
        "OAuthBearerLoginCallbackHandler",
        "OAuthBearerSaslClientCallbackHandler",
        "ClientCredentialsJwtRetriever",
        "DefaultJwtRetriever",
        _MSK_HANDLER,
    ),
    "AWS_MSK_IAM": ("IAMClientCallbackHandler",),
}


def login_settings(alias: str, written: Mapping[str, Entry], resolve: Callable[[Entry], str]) -> LoginSettings:
    """The SASL login alone, as :func:`cluster_settings` reads it. Raises :class:`ConfigError`."""
    client = Connection(alias, written, {key: resolve(entry) for key, entry in written.items()})
    confluent: dict[str, str] = {}
    kafka_python: dict[str, Any] = {}
    login(client, confluent, kafka_python)
    return LoginSettings(confluent, kafka_python)


def login(client: Connection, confluent: dict[str, str], kafka_python: dict[str, Any]) -> None:
    """Add the login to the settings of both libraries. Raises :class:`ConfigError`."""
    mechanism = (client.get("sasl.mechanism") or "GSSAPI").upper()
    if mechanism not in (*_LOGIN_MODULES, *_SCRAM):
        raise client.fault(
            "sasl.mechanism",
            f"login by {mechanism} is not available; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI or "
            "AWS_MSK_IAM",
        )
    by_function = mechanism == "OAUTHBEARER" and client.get(TOKEN_PROVIDER) is not None
    handlers = set() if by_function else _handlers(client, mechanism)
    options = _jaas_options(client, mechanism)
    # Amazon MSK takes by OAUTHBEARER whom it takes by the mechanism of its own, which librdkafka lacks.
    spoken = "OAUTHBEARER" if mechanism == "AWS_MSK_IAM" else mechanism
    confluent["sasl.mechanism"] = kafka_python["sasl_mechanism"] = spoken
    if by_function:
        kafka_python["sasl_oauth_token_provider"] = own_tokens(client, options)
        return
    if mechanism == "AWS_MSK_IAM" or _MSK_HANDLER in handlers:
        kafka_python["sasl_oauth_token_provider"] = msk_tokens(client, options)
        return
    if mechanism == "OAUTHBEARER":
        client_credentials(client, options, confluent, kafka_python)
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


def _handlers(client: Connection, mechanism: str) -> set[str]:
    """The login handlers that are named, without their packages; other ones than ours are refused."""
    found = set()
    for key, reason in REFUSED.items():
        value = client.get(key)
        if value is None:
            continue
        found.add(value.rpartition(".")[2])
        if not found <= set(_OURS.get(mechanism, ())):
            raise client.fault(
                key,
                f"{reason[0].lower()}{reason[1:-1]}; use OAUTHBEARER with a Python function that returns tokens "
                f"({TOKEN_PROVIDER}) or with sasl.oauthbearer.token.endpoint.url, or PLAIN or SCRAM with username and "
                "password in sasl.jaas.config, and remove this key",
            )
    return found


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
