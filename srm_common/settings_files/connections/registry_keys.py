"""Settings of a cluster's schema registry, under the names of Confluent's clients."""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass
from typing import Any

from srm_common.domain.cluster import PemTexts, RegistrySettings, registry_and_context
from srm_common.settings_files.connections.tls_keys import Connection, tls_settings

#: Empty for the default context, ``/contexts/.``.
_CONTEXT = re.compile(r"[^/:\s*]*")
_PREFIX = "schema.registry."
_URL = f"{_PREFIX}url"
_TLS = (
    *("ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password", "ssl.truststore.certificates"),
    *("ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.password", "ssl.keystore.key"),
    *("ssl.keystore.certificate.chain", "ssl.key.password", "ssl.endpoint.identification.algorithm"),
    *("ssl.cipher.suites", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.crl.location"),
)
_BASIC_SOURCE, _USER_INFO = "basic.auth.credentials.source", "basic.auth.user.info"
_BEARER_SOURCE, _TOKEN = "bearer.auth.credentials.source", "bearer.auth.token"
_LOGIN = (_BASIC_SOURCE, _USER_INFO, _BEARER_SOURCE, _TOKEN)
#: Confluent's clients take the keys of logins with the prefix and without it.
REGISTRY_KEYS = frozenset({_URL, *_LOGIN, *(_PREFIX + key for key in (*_LOGIN, *_TLS))})


def registry_settings(client: Connection) -> RegistrySettings | None:
    """The schema registry in the settings of one alias, None where there is none.

    Raises:
        ConfigError: an address or a login cannot be used.
    """
    written = [url.strip() for url in (client.get(_URL) or "").split(",") if url.strip()]
    if not written:
        return None
    addresses = [_address(client, url) for url in written]
    contexts = {registry_and_context(address.url)[1] for address in addresses}
    if len(contexts) > 1:
        raise client.fault(_URL, "must have the same context in each address, such as /contexts/.east, or none")
    if any(context is not None and not _CONTEXT.fullmatch(context) for context in contexts):
        raise client.fault(_URL, "must end with the name of a context, such as /contexts/.east, or without /contexts/")
    user, password = next(
        ((address.user, address.password) for address in addresses if address.user is not None), (None, "")
    )
    key, source = _either(client, _BASIC_SOURCE)
    if source is not None and source.upper() not in ("URL", "USER_INFO"):
        raise client.fault(key, f"must be URL or USER_INFO, but is '{source}'")
    info_key, info = _either(client, _USER_INFO)
    # Without a source, user info that is written is meant to be used.
    if source is None or source.upper() == "USER_INFO":
        if info is not None:
            user, colon, password = info.partition(":")
            if not colon or not user:
                raise client.fault(info_key, "must be <user>:<password>")
        elif source is not None:
            raise client.fault(key, f"is USER_INFO, but there is no {_USER_INFO}; write <user>:<password> there")
    key, source = _either(client, _BEARER_SOURCE)
    if source is not None and source.upper() != "STATIC_TOKEN":
        raise client.fault(key, f"must be STATIC_TOKEN, but is '{source}'; give the token in {_TOKEN}")
    key, token = _either(client, _TOKEN)
    if token is not None and user is not None:
        raise client.fault(key, "cannot be combined with a user name; remove one of them")
    if token is not None:
        # The file of a secret ends with a line end. What no header takes would show the token in its error.
        token = token.strip()
        if not token or not all("!" <= one <= "~" for one in token):
            raise client.fault(key, "must consist of printable ASCII characters, without blanks")
    return RegistrySettings(
        tuple(address.url for address in addresses), user, password if user is not None else None, token, *_tls(client)
    )


def _either(client: Connection, name: str) -> tuple[str, str | None]:
    """The key that is written, and its value; both spellings count as read."""
    prefixed, plain = client.get(_PREFIX + name), client.get(name)
    return (name, plain) if prefixed is None and plain is not None else (_PREFIX + name, prefixed)


@dataclass(frozen=True, slots=True)
class _Address:
    url: str
    user: str | None
    password: str


def _address(client: Connection, url: str) -> _Address:
    """An address without its credentials, and these."""
    try:
        parts = urllib.parse.urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment:
        # It may contain a password, so it is not shown.
        raise client.fault(_URL, "must be one or more addresses such as https://registry:8081, separated by commas")
    user = None if parts.username is None else urllib.parse.unquote(parts.username)
    bare = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
    return _Address(bare, user, urllib.parse.unquote(parts.password or ""))


def _tls(client: Connection) -> tuple[PemTexts | None, Any, Any]:
    inside = Connection(
        client.alias,
        {key.removeprefix(_PREFIX): entry for key, entry in client.written.items() if key.startswith(_PREFIX)},
        {key.removeprefix(_PREFIX): value for key, value in client.values.items() if key.startswith(_PREFIX)},
    )
    client.read.update(_PREFIX + key for key in _TLS)
    if not any(key in inside.values for key in _TLS):
        return None, None, None
    found: dict[str, Any] = {}
    truststore, keystore = tls_settings(inside, {}, found)
    texts = found.get("ssl_context")
    if texts is None:
        texts = PemTexts.named(found)
    return texts, truststore, keystore
