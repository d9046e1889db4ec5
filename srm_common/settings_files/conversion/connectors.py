"""MirrorMaker 2's connectors in a Connect cluster, as entries of a properties file.

They are read from Strimzi's ``KafkaConnector`` resources, from requests to Connect's REST API and its responses, and
from the properties of a standalone worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from srm_common.errors import ConfigError
from srm_common.settings_files.connections.client_keys import is_connection_key
from srm_common.settings_files.connections.connection_layers import ADDRESS, EVERY_CLIENT
from srm_common.settings_files.conversion.documents import Fields, documents_in, documents_of, nested_too_deeply
from srm_common.settings_files.conversion.positions import taken_over
from srm_common.settings_files.conversion.strimzi import contradiction, referenced
from srm_common.settings_files.sources.properties import Draft, read_properties

KIND = "KafkaConnector"
_CLASS = "connector.class"
_SOURCE, _CHECKPOINT, _HEARTBEAT = "MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector"
_EMITS = {_CHECKPOINT: "emit.checkpoints.enabled", _HEARTBEAT: "emit.heartbeats.enabled"}
_LOCATION = "heartbeats.topic.location"
_IDENTITY = ("name", _CLASS, "source.cluster.alias", "target.cluster.alias")
_STOPPED = ("paused", "stopped")


@dataclass(frozen=True)
class Connector:
    """One connector: its name, its class without the package, its configuration."""

    name: str
    kind: str
    config: Mapping[str, str]
    stopped: bool = False

    @property
    def source(self) -> str:
        return self.config.get("source.cluster.alias") or "source"  # Connect's default

    @property
    def target(self) -> str:
        return self.config.get("target.cluster.alias") or "target"

    @property
    def origin(self) -> str:
        return f"connector {self.name}"


def connectors_in(path: Path) -> list[Connector]:
    """The connectors of MirrorMaker 2 in a file. Raises :class:`ConfigError`."""
    if path.suffix.lower() in (".yaml", ".yml", ".json"):
        return _all_of(documents_in(path), str(path))
    config = {found.key: found.value for found in read_properties(path)}
    return list(_connectors({"config": config}, "", str(path))) if _CLASS in config else []


def connectors_of(text: str, file: str) -> list[Connector]:
    """The same from the text of a YAML or JSON file. Raises :class:`ConfigError`."""
    return _all_of(documents_of(text, file), file)


def _all_of(documents: list[object], file: str) -> list[Connector]:
    try:
        return [found for document in documents for found in _connectors(document, "", file)]
    except RecursionError:
        raise nested_too_deeply(file) from None


def _connectors(document: object, place: str, file: str) -> Iterator[Connector]:
    """All forms of connectors: a resource, a list of them, a request, a response, the configuration alone."""
    if isinstance(document, list):
        for number, one in enumerate(document):
            yield from _connectors(one, f"{place}[{number}]", file)
    if not isinstance(document, Mapping):
        return
    if document.get("kind") == KIND:
        yield from _of_resource(Fields.of(document, place, file))
    elif isinstance(document.get("config"), Mapping):
        if _is_ours(document["config"]):
            request = Fields.of(document, place, file)
            stopped = request.text("initial_state").lower() in _STOPPED
            yield _connector(request.text("name"), request.needed_map("config"), stopped)
    elif _CLASS in document:
        if _is_ours(document):
            yield _connector("", Fields.of(document, place, file), False)
    elif isinstance(document.get("items"), list):
        yield from _connectors(document["items"], f"{place}.items".lstrip("."), file)
    else:  # GET /connectors?expand=info&expand=status
        for name, response in document.items():
            if isinstance(response, Mapping) and isinstance(response.get("info"), Mapping):
                yield from _of_response(Fields.of(response, f"{place}.{name}".lstrip("."), file))


def _of_resource(resource: Fields) -> Iterator[Connector]:
    spec = resource.needed_map("spec")
    config = spec.map_or_empty("config")
    values = {**config.values, _CLASS: spec.text("class")}
    if _is_ours(values):
        tasks = spec.whole("tasksMax")
        if tasks is not None:
            values["tasks.max"] = tasks
        stopped = spec.switch("pause") or spec.text("state") in _STOPPED
        name = resource.map_or_empty("metadata").text("name")
        yield _connector(name, Fields(values, config.path, config.file), stopped)


def _of_response(response: Fields) -> Iterator[Connector]:
    info = response.needed_map("info")
    config = info.map_or_empty("config")
    if _is_ours(config.values):
        state = response.map_or_empty("status").map_or_empty("connector").text("state")
        yield _connector(info.text("name"), config, state.lower() in _STOPPED)


def _is_ours(config: Mapping[str, object]) -> bool:
    return _kind(config.get(_CLASS)) in (_SOURCE, _CHECKPOINT, _HEARTBEAT)


def _kind(name: object) -> str:
    """A class without its package."""
    return name.strip().rpartition(".")[2] if isinstance(name, str) else ""


def _connector(name: str, config: Fields, stopped: bool) -> Connector:
    values = dict(config.settings())
    kind = _kind(values[_CLASS])
    return Connector(name or values.get("name") or kind, kind, values, stopped)


def connectors_draft(path: Path) -> Draft:
    """The connectors of a file as one configuration. Raises :class:`ConfigError`."""
    connectors = connectors_in(path)
    if not connectors:
        raise ConfigError("contains no connector of MirrorMaker 2", file=str(path))
    draft = Draft(str(path))
    aliases = dict.fromkeys(alias for connector in connectors for alias in (connector.source, connector.target))
    draft.add("clusters", ", ".join(aliases), str(path))
    made = _Made(draft)
    flows: dict[tuple[str, str], dict[str, Connector]] = {}
    for connector in connectors:
        flows.setdefault((connector.source, connector.target), {})[connector.kind] = connector
    addresses = {
        connector.source: connector.config[f"source.cluster.{ADDRESS}"]
        for connector in connectors
        if f"source.cluster.{ADDRESS}" in connector.config
    }
    for (source, target), parts in flows.items():
        made.flow(f"{source}->{target}", parts, addresses.get(source))
    draft.lost += [
        taken_over(f"{source}->{target}", parts[_SOURCE].name)
        for (source, target), parts in flows.items()
        if _SOURCE in parts
    ]
    return draft


class _Made:
    """The lines made from the connectors of flows."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.values: dict[str, str] = {}

    def flow(self, flow: str, parts: Mapping[str, Connector], source_address: str | None) -> None:
        source = parts.get(_SOURCE)
        remark = "" if source is not None and not source.stopped else "It was paused, or had no source connector."
        self._put(f"{flow}.enabled", "false" if remark else "true", "its source connector", remark)
        for kind in (_SOURCE, _CHECKPOINT, _HEARTBEAT):
            one = parts.get(kind)
            if one is not None:
                self._connector(flow, one, source_address)
            elif kind in _EMITS:
                self._put(f"{flow}.{_EMITS[kind]}", "false", flow, f"There is no {kind} for it.")

    def _connector(self, flow: str, one: Connector, source_address: str | None) -> None:
        writes_to_source = (
            one.kind == _HEARTBEAT
            and source_address is not None
            and (one.config.get(f"target.cluster.{ADDRESS}") == source_address)
        )
        if one.kind == _HEARTBEAT:
            self._put(f"{flow}.{_LOCATION}", "source" if writes_to_source else "target", one.origin)
        for key, value in one.config.items():
            if key in _IDENTITY:
                continue
            if writes_to_source and key.startswith(("target.", "producer.")):
                continue  # its target is the flow's source, which has these from the other connectors
            if one.kind != _SOURCE and key == "tasks.max":
                continue  # only the source connector has slots
            self._put(self._place(flow, one, key), value, one.origin)

    def _place(self, flow: str, one: Connector, key: str) -> str:
        for side, alias in (("source.cluster.", one.source), ("target.cluster.", one.target)):
            rest = key.removeprefix(side)
            if rest != key and any(
                rest.startswith(client) and is_connection_key(rest[len(client) :]) for client in (*EVERY_CLIENT, "")
            ):
                return f"{alias}.{rest}"
        return f"{flow}.{key}"

    def _put(self, key: str, value: str, origin: str, remark: str = "") -> None:
        kept = self.values.setdefault(key, value)
        if kept != value:
            self.draft.lost.append(f"{origin}: {contradiction(key, value, kept)}")
        elif key not in _keys(self.draft):
            self.draft.add(key, referenced(self.draft, value, key), origin, remark)


def _keys(draft: Draft) -> Iterable[str]:
    return {entry.key for entry in draft.entries}
