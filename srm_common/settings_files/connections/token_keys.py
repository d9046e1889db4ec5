"""Logins by OAUTHBEARER: where their tokens come from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus

from srm_common.domain.cluster import MSK_IAM, OauthClient, TokenFunction
from srm_common.domain.settings.key import FUNCTION_PATH
from srm_common.settings_files.connections.tls_keys import Connection

#: A Python function that returns tokens: ours alone.
TOKEN_PROVIDER = "sasl.oauthbearer.token.provider"
_BROKER_OF_MSK = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?:")
#: Options of Amazon's ``IAMLoginModule`` (MSKCredentialProvider.java) that have the same meaning here; those that only
#: say how its library logs and tries again; and the values of others that ask for what is done here.
_MSK_OPTIONS = ("awsProfileName", "awsRoleArn", "awsRoleSessionName", "awsRoleExternalId", "awsStsRegion")
_ENCODED = "sasl.oauthbearer.header.urlencode"
_MSK_NO_EFFECT = ("awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs")
_MSK_ANYWAY = {"awsAddDefaultProviders": "false", "awsShouldUseFips": "false"}


def own_tokens(client: Connection, options: Mapping[str, str]) -> TokenFunction:
    """Those of the user's function; it is not imported, since only some hosts may have it."""
    path = client.text(TOKEN_PROVIDER, "").strip()
    if not FUNCTION_PATH.fullmatch(path):
        raise client.fault(TOKEN_PROVIDER, f"must name a Python function as package.module:function, but is '{path}'")
    return TokenFunction(path, client.alias, client.written[TOKEN_PROVIDER].written, tuple(sorted(options.items())))


def msk_tokens(client: Connection, options: Mapping[str, str]) -> TokenFunction:
    """Those of Amazon MSK by AWS IAM, with the options of its login module."""
    for name, value in options.items():
        if name not in (*_MSK_OPTIONS, *_MSK_NO_EFFECT) and _MSK_ANYWAY.get(name) != value.lower():
            raise client.fault(
                "sasl.jaas.config",
                f"the option {name} of logins by AWS IAM is not available; use a profile (awsProfileName) or a role "
                f"(awsRoleArn), or OAUTHBEARER with a Python function that returns tokens ({TOKEN_PROVIDER})",
            )
    if {"awsProfileName", "awsRoleArn"} <= options.keys():
        raise client.fault(
            "sasl.jaas.config",
            "has awsProfileName and awsRoleArn, of which Java uses one, and the other where that fails; leave one out",
        )
    kept = {name: value for name, value in options.items() if name in _MSK_OPTIONS}
    region = _BROKER_OF_MSK.search(client.text("bootstrap.servers", "").lower())
    if region is not None:
        kept["region"] = region[1]
    return TokenFunction(MSK_IAM, client.alias, client.written["sasl.mechanism"].written, tuple(sorted(kept.items())))


def client_credentials(
    client: Connection, options: Mapping[str, str], confluent: dict[str, str], kafka_python: dict[str, Any]
) -> None:
    """Those of an OAuth server's client-credentials grant."""
    endpoint = client.get("sasl.oauthbearer.token.endpoint.url")
    client_id = options.get("clientId") or client.get("sasl.oauthbearer.client.credentials.client.id")
    secret = options.get("clientSecret") or client.get("sasl.oauthbearer.client.credentials.client.secret")
    scope = options.get("scope") or client.get("sasl.oauthbearer.scope")
    if endpoint is None or client_id is None or secret is None:
        raise client.fault(
            "sasl.mechanism",
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url, and clientId and clientSecret in sasl.jaas.config "
            f"(the client-credentials grant), or {TOKEN_PROVIDER}; login handlers that are Java classes are not loaded",
        )
    if _header_is_encoded(client):
        client_id, secret = quote_plus(client_id), quote_plus(secret)
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


def _header_is_encoded(client: Connection) -> bool:
    """Whether the server decodes the client's id and secret (RFC 6749, 2.3.1), which neither library encodes."""
    value = (client.get(_ENCODED) or "false").lower()
    if value not in ("true", "false"):
        raise client.fault(_ENCODED, f"must be true or false, but is '{value}'")
    return value == "true"


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
