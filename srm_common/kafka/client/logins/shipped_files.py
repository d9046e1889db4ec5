"""Files with certificates and keys that clusters' settings name, sent along to processes on machines without them.

A file that is there counts: it may be changed while a run goes on, or belong to that machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from srm_common.domain.cluster import ClusterSettings, OauthClient, PemTexts

_CERTIFICATE = re.compile(r"-----BEGIN ([A-Z0-9 ]*CERTIFICATE)-----.*?-----END \1-----", re.DOTALL)
_KEY = re.compile(r"-----BEGIN ([A-Z0-9 ]*PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)
#: Arguments of kafka-python.
_LOGIN = "sasl_oauth_token_provider"


def with_files(cluster: ClusterSettings) -> ClusterSettings:
    """The same settings, with the contents of the files that they name, as far as they can be read here: who needs
    another one says so."""
    found: dict[str, bytes] = {}
    for path in {path for settings in (cluster, *cluster.clients.values()) for path in _named(settings)}:
        with suppress(OSError):
            found[path] = Path(path).read_bytes()
    clients = {client: _holding(settings, found) for client, settings in cluster.clients.items()}
    return replace(_holding(cluster, found), clients=clients)


def shipped_contents(path: str, files: Mapping[str, bytes]) -> bytes | None:
    """What takes the place of a file; None where it is there, or was not sent along."""
    return None if os.access(path, os.R_OK) else files.get(path)


def with_shipped_texts(texts: PemTexts, files: Mapping[str, bytes]) -> PemTexts:
    """With texts in place of files that are not there."""

    def text(path: str | None) -> str | None:
        contents = None if path is None else shipped_contents(path, files)
        # Between certificates there may be names in other letters.
        return None if contents is None else contents.decode("ascii", "ignore")

    pair = texts.chain_file, texts.key_file or texts.chain_file
    if any(text(path) is not None for path in pair) and all(path in files for path in pair):
        # Both of them: a key of another machine fits no chain that is here.
        chain, key = (files[path].decode("ascii", "ignore") for path in pair if path is not None)
        key = found[0] if (found := _KEY.search(key)) else key
        chain = "\n".join(found[0] for found in _CERTIFICATE.finditer(chain))
        texts = replace(texts, chain=chain, key=key, chain_file=None, key_file=None)
    if (authority := text(texts.certificate_authority_file)) is not None:
        texts = replace(texts, certificate_authority=authority, certificate_authority_file=None)
    if (revoked := text(texts.revoked_file)) is not None:
        texts = replace(texts, revoked=revoked, revoked_file=None)
    return texts


def _named(settings: ClusterSettings) -> Iterator[str]:
    arguments, registry = settings.kafka_python, settings.schema_registry
    texts = [arguments.get("ssl_context"), PemTexts.named(arguments)]
    stores = [settings.truststore, settings.keystore]
    if registry is not None:
        texts.append(registry.tls)
        stores += [registry.truststore, registry.keystore]
    for one in texts:
        if isinstance(one, PemTexts):
            yield from one.files
    yield from (store.location for store in stores if store is not None)
    login = arguments.get(_LOGIN)
    if isinstance(login, OauthClient) and login.certificate_authority_file:
        yield login.certificate_authority_file


def _holding(settings: ClusterSettings, files: Mapping[str, bytes]) -> ClusterSettings:
    arguments, login = settings.kafka_python, settings.kafka_python.get(_LOGIN)
    # It has no other way: who asks for a token does not know the cluster.
    if isinstance(login, OauthClient) and (contents := files.get(login.certificate_authority_file or "")) is not None:
        text = contents.decode("ascii", "ignore")
        login = replace(login, certificate_authority=text, certificate_authority_file=None)
        arguments = {**arguments, _LOGIN: login}
    return replace(settings, kafka_python=arguments, files=files)
