"""Strimzi's ``KafkaMirrorMaker2`` resource (v1alpha1 to v1) as entries of a properties file.

Kubernetes Secrets become references to environment variables; settings of pods are listed and left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from srm_common.errors import ConfigError
from srm_common.settings_files.conversion.documents import Fields, documents_in, documents_of, nested_too_deeply
from srm_common.settings_files.conversion.positions import taken_over
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
#: Where the group and the offsets topic of Strimzi's Connect workers are named: as fields of ``target`` in version v1,
#: as settings of ``connectCluster`` before; and their defaults (``KafkaMirrorMaker2Configuration``).
_GROUP = ("groupId", "group.id", "mirrormaker2-cluster")
_OFFSETS = ("offsetStorageTopic", "offset.storage.topic", "mirrormaker2-cluster-offsets")


def strimzi_draft(path: Path) -> Draft:
    """The resource in a file. Raises :class:`ConfigError`."""
    return _draft(documents_in(path), str(path))


def strimzi_draft_of(text: str, file: str) -> Draft:
    """The same of a file's text. Raises :class:`ConfigError`."""
    return _draft(documents_of(text, file), file)


def _draft(documents: list[object], file: str) -> Draft:
    draft = Draft(file)
    spec = _resource(documents, file).needed_map("spec")
    for name in sorted(set(spec.values) - _READ_SPEC):
        draft.lost.append(f"{spec.place(name)}: it configures Strimzi's pods")
    clusters = spec.maps("clusters")
    target = spec.map("target")
    if target is not None:
        clusters.append(target)
    mirrors = [(mirror, mirror.map("source")) for mirror in spec.maps("mirrors")]
    clusters += [source for _, source in mirrors if source is not None]
    by_alias: dict[str, Fields] = {}
    for cluster in clusters:
        by_alias.setdefault(cluster.needed_text("alias"), cluster)
    draft.add("clusters", ", ".join(by_alias), file)
    for alias, cluster in by_alias.items():
        _Cluster(draft, alias, cluster).add()
    for mirror, source in mirrors:
        upstream = mirror.needed_text("sourceCluster") if source is None else source.needed_text("alias")
        downstream = mirror.needed_text("targetCluster") if target is None else target.needed_text("alias")
        _add_mirror(draft, f"{upstream}->{downstream}", mirror, by_alias.get(upstream))
        if mirror.map("sourceConnector") is not None:
            host = spec.text("connectCluster") or downstream
            draft.lost.append(_positions(f"{upstream}->{downstream}", downstream, host, by_alias.get(host)))
    return draft


def _positions(flow: str, downstream: str, host: str, workers: Fields | None) -> str:
    """What can be done about a flow's positions. ``host`` is the cluster of the Connect workers."""
    if host != downstream:
        return (
            f"Positions: Strimzi's Connect workers keep those of {flow} on {host}, and srm-control takeover looks for "
            f"them on {downstream}; start.positions decides where to start"
        )
    names = [_of_workers(workers, *key) for key in (_GROUP, _OFFSETS)]
    return taken_over(flow, f"{flow}.MirrorSourceConnector", *names)


def _of_workers(workers: Fields | None, field: str, key: str, default: str) -> str:
    if workers is None:
        return default
    return workers.text(field) or dict(workers.map_or_empty("config").settings()).get(key, default)


def _resource(documents: list[object], file: str) -> Fields:
    try:
        found = [fields for document in documents for fields in _resources(document, "", file)]
    except RecursionError:
        raise nested_too_deeply(file) from None
    if len(found) != 1:
        many = "no" if not found else f"{len(found)}"
        raise ConfigError(f"contains {many} {KIND} resources; name a file with exactly one", file=file)
    return found[0]


def _resources(document: object, place: str, file: str) -> Iterator[Fields]:
    if not isinstance(document, Mapping):
        return
    if document.get("kind") == KIND:
        yield Fields.of(document, place, file)
    items = document.get("items")
    if isinstance(items, list):
        for number, item in enumerate(items):
            yield from _resources(item, f"{place}.items[{number}]".lstrip("."), file)
    elif items is not None and document.get("kind") == "List":
        Fields.of(document, place, file).maps("items")  # raises


class _Cluster:
    """The connection settings of one cluster."""

    def __init__(self, draft: Draft, alias: str, fields: Fields) -> None:
        self.draft = draft
        self.alias = alias
        self.fields = fields
        self.origin = f"cluster {alias}"

    def add(self) -> None:
        self._put("bootstrap.servers", self.fields.needed_text("bootstrapServers"))
        tls, login = self.fields.map("tls"), self.fields.map_or_empty("authentication")
        kind = login.text("type").lower()
        with_login = kind in _SASL or kind == "oauth" or login.switch("sasl")
        secure = tls is not None or kind == "tls"
        if secure or with_login:
            self._put("security.protocol", ("SASL_" if with_login else "") + ("SSL" if secure else "PLAINTEXT"))
        if tls is not None:
            self._authorities(tls.maps("trustedCertificates"))
        self._login(kind, login)
        self._settings(self.fields.map_or_empty("config"))
        for name in _STATE_TOPICS:
            if name in self.fields:
                self.draft.lost.append(f"{self.origin}: {name}: state topics keep MirrorMaker 2's names here")
        for name in sorted(set(self.fields.values) - _READ_CLUSTER - set(_STATE_TOPICS)):
            self.draft.lost.append(f"{self.origin}: {name}")

    def _put(self, key: str, value: object, remark: str = "") -> None:
        self.draft.add(f"{self.alias}.{key}", value, self.origin, remark)

    def _settings(self, config: Fields) -> None:
        for key, value in config.settings():
            self._put(key, referenced(self.draft, value, f"{self.alias}.{key}"))

    def _secret(self, what: str, secret: Fields, field: str, holds: str) -> str:
        name, key = secret.needed_text("secretName"), secret.needed_text(field)
        return self.draft.placeholder(
            f"{self.alias}_{what}", f"{holds}, from '{key}' of the Kubernetes Secret '{name}'"
        )

    def _authorities(self, trusted: list[Fields]) -> None:
        if trusted:
            texts = [
                self._secret("CA", one, "pattern" if "pattern" in one else "certificate", "PEM text of CA certificates")
                for one in trusted
            ]
            self._put("ssl.truststore.certificates", "\n".join(texts))

    def _login(self, kind: str, login: Fields) -> None:
        if kind == "tls":
            own = login.needed_map("certificateAndKey")
            chain = self._secret("CERTIFICATE", own, "certificate", "PEM text of the client certificate")
            self._put("ssl.keystore.certificate.chain", chain)
            self._put("ssl.keystore.key", self._secret("KEY", own, "key", "PEM text of its private key"))
        elif kind in _SASL:
            self._put("sasl.mechanism", _SASL[kind])
            self._put("sasl.username", login.text("username"))
            secret = login.needed_map("passwordSecret")
            self._put("sasl.password", self._secret("PASSWORD", secret, "password", "password"))
        elif kind == "oauth":
            self._oauth(login)
        elif kind == "custom":
            self._settings(login.map_or_empty("config"))
        elif kind:
            self.draft.lost.append(f"{self.origin}: authentication of type {kind}")

    def _oauth(self, login: Fields) -> None:
        self._put("sasl.mechanism", "OAUTHBEARER")
        self._put("sasl.oauthbearer.token.endpoint.url", login.text("tokenEndpointUri"))
        self._put("sasl.oauthbearer.client.credentials.client.id", login.text("clientId"))
        secret, holds = login.map("clientSecret"), "secret of the OAuth client"
        if secret is None:  # the resource logs in with a token or a key
            client_secret = self.draft.placeholder(f"{self.alias}_CLIENT_SECRET", holds)
        else:
            client_secret = self._secret("CLIENT_SECRET", secret, "key", holds)
        self._put("sasl.oauthbearer.client.credentials.client.secret", client_secret)
        scope = login.text("scope")
        if scope:
            self._put("sasl.oauthbearer.scope", scope)
        read = {"type", "tokenEndpointUri", "clientId", "clientSecret", "scope"}
        for name in sorted(set(login.values) - read):
            self.draft.lost.append(
                f"{self.origin}: authentication.{name}: only the client-credentials grant is available"
            )


def _add_mirror(draft: Draft, flow: str, mirror: Fields, upstream: Fields | None) -> None:
    origin = mirror.path
    source = mirror.map("sourceConnector")
    stopped = source is not None and (source.switch("pause") or source.text("state") in ("paused", "stopped"))
    remark = f"{origin}: paused in Strimzi." if stopped else ""
    draft.add(f"{flow}.enabled", source is not None and not stopped, origin, remark)
    for name, key in _PATTERNS.items():
        if name in mirror:
            draft.add(f"{flow}.{key}", mirror.text(name), origin)
    tasks = None if source is None else source.whole("tasksMax")
    if tasks is not None:
        draft.add(f"{flow}.tasks.max", tasks, origin)
    heartbeats = mirror.map("heartbeatConnector")
    if heartbeats is not None:
        draft.add(f"{flow}.heartbeats.topic.location", _heartbeats_location(heartbeats, upstream), heartbeats.path)
    written: dict[str, str] = {}
    for name in ("sourceConnector", "checkpointConnector", "heartbeatConnector"):
        connector = mirror.map(name)
        if connector is None:
            continue
        for key, value in connector.map_or_empty("config").settings():
            if written.setdefault(key, value) != value:
                draft.lost.append(f"{connector.path}: {contradiction(key, value, written[key])}")
            elif f"{flow}.{key}" not in {entry.key for entry in draft.entries}:
                draft.add(f"{flow}.{key}", referenced(draft, value, f"{flow}.{key}"), connector.path)
        for left in sorted(set(connector.values) - {"config", "tasksMax", "pause", "state"}):
            draft.lost.append(f"{connector.place(left)}: each run starts over; Airflow retries failed tasks")
    for name, key in (("heartbeatConnector", "emit.heartbeats"), ("checkpointConnector", "emit.checkpoints")):
        if name not in mirror and f"{key}.enabled" not in written:
            draft.add(f"{flow}.{key}.enabled", False, origin, f"Strimzi runs no {name} for it.")
    for left in sorted(set(mirror.values) - _READ_MIRROR):
        draft.lost.append(mirror.place(left))


def _heartbeats_location(connector: Fields, upstream: Fields | None) -> str:
    """Connect's producer writes them: to the cluster of its workers, unless it was given another one."""
    address = dict(connector.map_or_empty("config").settings()).get("producer.override.bootstrap.servers")
    return "source" if address and upstream is not None and address == upstream.text("bootstrapServers") else "target"


def contradiction(key: str, value: str, kept: str) -> str:
    """The remark about a key to which two connectors give different values; secrets are not shown."""
    if is_secret(key) or has_login(value) or has_login(kept):
        return f"{key}: another connector gives it another value"
    return f"{key} = {value}: another connector says {kept}"


def referenced(draft: Draft, value: str, key: str) -> str:
    """A value whose references to Kubernetes objects are replaced by references to the environment."""
    return _KUBERNETES_REFERENCE.sub(
        lambda match: draft.placeholder(key, f"what ${{{match[1]}:{match[2]}}} stands for in Kubernetes"), value
    )
