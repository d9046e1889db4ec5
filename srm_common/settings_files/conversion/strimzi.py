"""Strimzi's ``KafkaMirrorMaker2`` resource (v1alpha1 to v1) as entries of a properties file.

Kubernetes Secrets become references to environment variables; settings of pods are listed and left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from srm_common.errors import ConfigError
from srm_common.settings_files.explanations import has_login, is_secret
from srm_common.settings_files.sources.properties import Draft

KIND = "KafkaMirrorMaker2"
_SASL = {"plain": "PLAIN", "scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512"}
_READ_SPEC = {"clusters", "mirrors", "connectCluster", "target", "version"}
_READ_CLUSTER = {"alias", "bootstrapServers", "tls", "authentication", "config"}
_STATE_TOPICS = ("groupId", "configStorageTopic", "statusStorageTopic", "offsetStorageTopic")
_READ_MIRROR = {
    *("sourceCluster", "targetCluster", "source", "sourceConnector", "heartbeatConnector", "checkpointConnector"),
    *("topicsPattern", "topicsExcludePattern", "topicsBlacklistPattern"),
    *("groupsPattern", "groupsExcludePattern", "groupsBlacklistPattern"),
}
_PATTERNS = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.exclude",
}
# Kubernetes' and Strimzi's own providers; Kafka's file, dir and env stay as they are.
_KUBERNETES_REFERENCE = re.compile(
    r"\$\{(secrets|configmaps|strimzienv|strimzisecrets|strimzifile|strimzidir):([^}]*)\}"
)
_POSITIONS = (
    "Positions: Strimzi's MirrorMaker 2 keeps them in mirrormaker2-cluster-offsets or its offsetStorageTopic, "
    "which is not read here; say where to begin with start.positions or srm-control source-offsets before the first run"
)

Node = Mapping[str, Any]


def strimzi_draft(path: Path) -> Draft:
    """Read the resource. Raises :class:`ConfigError`."""
    draft = Draft(str(path))
    spec = _node(_resource(path), "spec", path)
    for name in sorted(set(spec) - _READ_SPEC):
        draft.lost.append(f"spec.{name}: it is about Strimzi's pods")
    clusters = [_checked(cluster, "a cluster", path) for cluster in spec.get("clusters") or []]
    target = spec.get("target")
    if target is not None:
        clusters.append(_checked(target, "spec.target", path))
    mirrors = [_checked(mirror, "a mirror", path) for mirror in spec.get("mirrors") or []]
    clusters += [_checked(mirror["source"], "a mirror's source", path) for mirror in mirrors if mirror.get("source")]
    by_alias: dict[str, Node] = {}
    for cluster in clusters:
        by_alias.setdefault(_text(cluster, "alias", path), cluster)
    draft.add("clusters", ", ".join(by_alias), str(path))
    for alias, cluster in by_alias.items():
        _Cluster(draft, alias, cluster, path).add()
    for number, mirror in enumerate(mirrors):
        if mirror.get("source"):
            source = _text(mirror["source"], "alias", path)
        else:
            source = _text(mirror, "sourceCluster", path)
        into = _text(mirror, "targetCluster", path) if target is None else _text(target, "alias", path)
        _add_mirror(draft, f"spec.mirrors[{number}]", f"{source}->{into}", mirror)
    draft.lost.append(_POSITIONS)
    return draft


def _resource(path: Path) -> Node:
    try:
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(path)) from None
    except UnicodeDecodeError:
        raise ConfigError("is not a text file in UTF-8", file=str(path)) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "cannot be read"
        raise ConfigError(f"is not YAML: {problem}", file=str(path), line=mark.line + 1 if mark else None) from None
    found = [node for document in documents for node in _resources(document)]
    if len(found) != 1:
        many = "no" if not found else f"{len(found)}"
        raise ConfigError(f"holds {many} {KIND} resources; give a file with one", file=str(path))
    return found[0]


def _resources(document: object) -> Iterator[Node]:
    if isinstance(document, Mapping):
        if document.get("kind") == KIND:
            yield document
        for item in document.get("items") or []:
            yield from _resources(item)


def _node(parent: Node, name: str, path: Path) -> Node:
    return _checked(parent.get(name), name, path)


def _checked(value: object, name: str, path: Path) -> Node:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} of the {KIND} resource is missing or has no fields", file=str(path))
    return value


def _text(node: Node, name: str, path: Path) -> str:
    value = node.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"the {KIND} resource lacks {name} where it is needed", file=str(path))
    return value.strip()


class _Cluster:
    """How one cluster is reached."""

    def __init__(self, draft: Draft, alias: str, node: Node, path: Path) -> None:
        self.draft = draft
        self.alias = alias
        self.node = node
        self.path = path
        self.origin = f"cluster {alias}"

    def add(self) -> None:
        self._put("bootstrap.servers", _text(self.node, "bootstrapServers", self.path))
        tls, login = self.node.get("tls"), self.node.get("authentication") or {}
        kind = str(login.get("type", "")).lower()
        with_login = kind in _SASL or kind == "oauth" or bool(login.get("sasl"))
        secure = tls is not None or kind == "tls"
        if secure or with_login:
            self._put("security.protocol", ("SASL_" if with_login else "") + ("SSL" if secure else "PLAINTEXT"))
        self._authorities((tls or {}).get("trustedCertificates") or [])
        self._login(kind, login)
        for key, value in (self.node.get("config") or {}).items():
            self._put(key, referenced(self.draft, value, f"{self.alias}.{key}"))
        for name in _STATE_TOPICS:
            if name in self.node:
                self.draft.lost.append(f"{self.origin}: {name}: state topics have MirrorMaker 2's own names here")
        for name in sorted(set(self.node) - _READ_CLUSTER - set(_STATE_TOPICS)):
            self.draft.lost.append(f"{self.origin}: {name}")

    def _put(self, key: str, value: object, remark: str = "") -> None:
        self.draft.add(f"{self.alias}.{key}", value, self.origin, remark)

    def _secret(self, what: str, secret: Node, field: str, holds: str) -> str:
        name, key = secret.get("secretName"), secret.get(field) or secret.get("pattern")
        return self.draft.placeholder(
            f"{self.alias}_{what}", f"{holds}, from '{key}' of the Kubernetes Secret '{name}'"
        )

    def _authorities(self, trusted: list[Node]) -> None:
        if trusted:
            texts = [self._secret("CA", one, "certificate", "PEM text of the authorities") for one in trusted]
            self._put("ssl.truststore.certificates", "\n".join(texts))

    def _login(self, kind: str, login: Node) -> None:
        if kind == "tls":
            own = login.get("certificateAndKey") or {}
            chain = self._secret("CERTIFICATE", own, "certificate", "PEM text of our certificate")
            self._put("ssl.keystore.certificate.chain", chain)
            self._put("ssl.keystore.key", self._secret("KEY", own, "key", "PEM text of our key"))
        elif kind in _SASL:
            self._put("sasl.mechanism", _SASL[kind])
            self._put("sasl.username", login.get("username", ""))
            secret = login.get("passwordSecret") or {}
            self._put("sasl.password", self._secret("PASSWORD", secret, "password", "password"))
        elif kind == "oauth":
            self._put("sasl.mechanism", "OAUTHBEARER")
            self._put("sasl.oauthbearer.token.endpoint.url", login.get("tokenEndpointUri", ""))
            self._put("sasl.oauthbearer.client.credentials.client.id", login.get("clientId", ""))
            secret = login.get("clientSecret") or {}
            client_secret = self._secret("CLIENT_SECRET", secret, "key", "secret of the OAuth client")
            self._put("sasl.oauthbearer.client.credentials.client.secret", client_secret)
            if login.get("scope"):
                self._put("sasl.oauthbearer.scope", login["scope"])
            read = {"type", "tokenEndpointUri", "clientId", "clientSecret", "scope"}
            for name in sorted(set(login) - read):
                self.draft.lost.append(
                    f"{self.origin}: authentication.{name}: only the client-credentials grant is available"
                )
        elif kind == "custom":
            for key, value in (login.get("config") or {}).items():
                self._put(key, referenced(self.draft, value, f"{self.alias}.{key}"))
        elif kind:
            self.draft.lost.append(f"{self.origin}: authentication of type {kind}")


def _add_mirror(draft: Draft, origin: str, flow: str, mirror: Node) -> None:
    source = mirror.get("sourceConnector") or {}
    stopped = bool(source.get("pause")) or source.get("state") in ("paused", "stopped")
    remark = f"{origin}: paused in Strimzi." if stopped else ""
    draft.add(f"{flow}.enabled", not stopped and "sourceConnector" in mirror, origin, remark)
    for name, key in _PATTERNS.items():
        if name in mirror:
            draft.add(f"{flow}.{key}", mirror[name], origin)
    if "tasksMax" in source:
        draft.add(f"{flow}.tasks.max", source["tasksMax"], origin)
    written: dict[str, str] = {}
    for connector in ("sourceConnector", "checkpointConnector", "heartbeatConnector"):
        node = mirror.get(connector)
        if node is None:
            continue
        for key, value in (node.get("config") or {}).items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if written.setdefault(key, text) != text:
                draft.lost.append(f"{origin}.{connector}: {contradiction(key, text, written[key])}")
            elif f"{flow}.{key}" not in {entry.key for entry in draft.entries}:
                draft.add(f"{flow}.{key}", referenced(draft, text, f"{flow}.{key}"), f"{origin}.{connector}")
        for name in sorted(set(node) - {"config", "tasksMax", "pause", "state"}):
            draft.lost.append(f"{origin}.{connector}.{name}: each run starts over; Airflow retries failed tasks")
    for connector, key in (("heartbeatConnector", "emit.heartbeats"), ("checkpointConnector", "emit.checkpoints")):
        if connector not in mirror and f"{key}.enabled" not in written:
            draft.add(f"{flow}.{key}.enabled", False, origin, f"Strimzi runs no {connector} for it.")
    for name in sorted(set(mirror) - _READ_MIRROR):
        draft.lost.append(f"{origin}.{name}")


def contradiction(key: str, value: str, kept: str) -> str:
    """What is said of a key that two connectors have different values for; secrets are not shown."""
    if is_secret(key) or has_login(value) or has_login(kept):
        return f"{key}, for which another connector has another value"
    return f"{key} = {value}, as another connector says {kept}"


def referenced(draft: Draft, value: object, key: str) -> object:
    """A value whose references to Kubernetes objects are replaced by references to the environment."""
    if not isinstance(value, str):
        return value
    return _KUBERNETES_REFERENCE.sub(
        lambda match: draft.placeholder(key, f"what ${{{match[1]}:{match[2]}}} stands for in Kubernetes"), value
    )
